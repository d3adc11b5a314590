#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Makefile: what a change rebuilds, what each goal builds, and its messages about missing packages. The compiler is
# a script that makes empty files: the tests check only which files it makes.
load helpers

setup_more() {
	needs_sim
	[ -e "$ROOT/Makefile" ] && [ -e "$ROOT/.ci/run" ] || skip "no source tree here"
	[ -z "${EMULATOR:-}${SANITIZE:-}" ] || skip "the Makefile is the same for each build"
	mkdir "$WORK/tree"
	(cd "$ROOT" && cp -r Makefile include registry shim tools tests "$WORK/tree")
	cat >"$WORK/cc" <<-'END'
		#!/bin/bash
		out=
		while [ $# -gt 0 ]; do
			case $1 in
			-o) out=$2 && shift ;;
			-Werror) strict=" strictly" ;;
			esac
			shift
		done
		[ -z "$out" ] || { : >"$out" && chmod +x "$out" && echo "$out$strict" >>"${0%/*}/made"; }
	END
	chmod +x "$WORK/cc"
}

# build GOAL|VARIABLE=VALUE...: run make; $WORK/made lists the files that the compiler made
build() {
	: >"$WORK/made"
	env -i PATH="$PATH" HOME="$WORK" make -s -C "$WORK/tree" -j2 CC="$WORK/cc" OBJCOPY=true CUDA= "$@" </dev/null
}

made() {
	grep -qx -- "build/$1" "$WORK/made" || { echo "not made: $1"; return 1; }
}

@test "make: what a source left in an archive goes with it, and its test program too" {
	echo 'int extra;' | tee "$WORK/tree/tools/common/extra.c" "$WORK/tree/registry/extra.c" >"$WORK/tree/tests/unit/unit_extra.c"
	build unit-tests
	equal "$(ar t "$WORK/tree/build/libunits.a" | grep -cx extra.o)" 2
	[ -e "$WORK/tree/build/tests/unit_extra" ]
	rm "$WORK/tree/tools/common/extra.c" "$WORK/tree/registry/extra.c" "$WORK/tree/tests/unit/unit_extra.c"
	build unit-tests
	run -1 grep -x extra.o <(ar t "$WORK/tree/build/libunits.a")
	made gpushare
	made gpushare-registry
	[ ! -e "$WORK/tree/build/tests/unit_extra" ]
	[ -e "$WORK/tree/build/tests/unit_name" ]
	build unit-tests
	equal "$(cat "$WORK/made")" ""
}

@test "make: other linker flags link again, a changed Makefile rebuilds" {
	build products
	build products
	equal "$(cat "$WORK/made")" ""
	local flags="LDFLAGS=-Wl,-rpath,'/an origin'"
	build products "$flags"
	made gpushare
	made libgpushare.so.0
	made gpushare-registry
	run -1 grep '/obj/[a-z]*/[a-z_]*\.o$' "$WORK/made"
	build products "$flags"
	equal "$(cat "$WORK/made")" ""
	echo '# changed' >>"$WORK/tree/Makefile"
	build products "$flags"
	made obj/tools/cli/main.o
	made gpushare
}

@test "make: into another folder, from a source tree that can't be written" {
	local sealed
	run unshare -rm true
	[ "$status" = 0 ] || skip "no mount namespaces here"
	touch "$WORK/tree/LICENSE"
	rm -f "$WORK/tree/tools/python/src/gpushare/_abi.py"
	# shellcheck disable=SC2016 # of the shell that is started
	sealed='mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
	run -0 unshare -rm sh -c "$sealed" sh "$WORK/tree" env -i PATH="$PATH" HOME="$WORK" make -s -C "$WORK/tree" -j2 \
		CC="$WORK/cc" OBJCOPY=true CUDA= BUILD="$WORK/elsewhere" products wheel
	[ -e "$WORK/elsewhere/gpushare" ]
	[ -e "$WORK/elsewhere/python" ]
	has "$output" "tools/python/src/gpushare/_abi.py can't be written"
	build products
	[ -e "$WORK/tree/tools/python/src/gpushare/_abi.py" ]
}

@test "make: warnings are errors where it is asked for, and nowhere else" {
	build build/obj/tools/cli/main.o
	made obj/tools/cli/main.o
	build build/obj/tools/cli/main.o WERROR=1
	made "obj/tools/cli/main.o strictly"
}

@test "make demo builds what it shows, and no test" {
	build demo-programs
	made gpushare
	[ -L "$WORK/tree/build/gpushare-attach" ]
	made gpushare-registry
	made libgpushare_shim.so
	made sim/libcuda.so.1
	made tests/bin/painter_static
	made tests/bin/painter_shared
	made tests/bin/retoucher
	run -1 grep -E 'tests/(unit|contract)_|obj/tests/(unit|contract|fuzz|chaos|faults|bench)/|/sim/(old|ancient)/' "$WORK/made"
}

@test "make help lists the goals, each of which exists" {
	build help >"$WORK/help"
	for goal in demo check check-unit check-e2e check-one check-gpu deps install uninstall deb wheel bundle lint clean; do
		grep -qE "^make .*\<$goal\>" "$WORK/help" || { echo "no $goal"; return 1; }
	done
	sed -nE 's/^make ([a-z-]+(, [a-z-]+)*) .*/\1/p' "$WORK/help" | tr -d ',' | tr ' ' '\n' >"$WORK/goals"
	[ "$(wc -l <"$WORK/goals")" -gt 15 ]
	while read -r goal; do
		grep -qE "^([a-z-]+ )*$goal( [a-z-]+)*:" "$WORK"/tree/{Makefile,tests/tests.mk,tools/*/*.mk} || { echo "no goal $goal"; return 1; }
	done <"$WORK/goals"
}

@test "make check-one runs the one file of that name; without a name it says what it needs" {
	run -2 build check-one
	has "$output" "make check-one T=unit_name"
	mkdir "$WORK/made.d"
	for name in one one_more; do
		printf '@test "of %s" { true; }\n' $name >"$WORK/made.d/$name.bats"
	done
	mapfile -t unset < <({ compgen -e BATS_ && printf '%s\n' GPUSHARE_TEST_{SLOWEST,EACH,LIMIT,JOBS}; } | sed 's/^/--unset=/')
	for name in one one.bats; do
		run -0 env "${unset[@]}" GPUSHARE_TEST_GPU=no GPUSHARE_TEST_E2E="$WORK/made.d" "$ROOT/tests/run" --said --one $name
		equal "$output" "one.bats: 1 passed, 0 failed, 0 skipped
1 passed, 0 failed, 0 skipped"
	done
	run -1 env "${unset[@]}" GPUSHARE_TEST_GPU=no GPUSHARE_TEST_E2E="$WORK/made.d" "$ROOT/tests/run" --said --one on
	has "$output" "no test named on was found"
}

@test "make check-unit runs the unit and contract tests, make check-e2e the end-to-end tests, make check all" {
	build -n check-unit >"$WORK/unit"
	build -n check-e2e >"$WORK/e2e"
	build -n check >"$WORK/all"
	equal "$(grep -h -- --said "$WORK/unit" "$WORK/e2e" "$WORK/all" | sed 's/.*--said */said: /')" "said: /unit_ /contract_
said: .bats
said: "
}

@test "one line says all that building lacks" {
	run -1 --separate-stderr env -u CROSS PROTOC=/no/protoc NANOPB=/no/nanopb "$ROOT/tests/deps.sh" --check
	equal "$output$(wc -l <<<"$stderr")" 1
	has "$stderr" "/no/protoc at /no/protoc, /no/nanopb at /no/nanopb; "
	has "$stderr" "\`make deps\` installs the Debian packages: protobuf-compiler nanopb"
}

@test "who may not install is told the whole line, without sudo where there is none" {
	mkdir "$WORK/path"
	for tool in bash dirname uname python3 gcc mktemp rm env; do
		ln -s "$(command -v $tool)" "$WORK/path/$tool"
	done
	printf '#!/bin/sh\necho 1000\n' >"$WORK/path/id"
	printf '#!/bin/sh\necho installs >&2\nexit 1\n' | tee "$WORK/path/apt-get" "$WORK/path/dpkg" >/dev/null
	chmod +x "$WORK/path"/{id,apt-get,dpkg}
	run -1 --separate-stderr env -u CROSS PATH="$WORK/path" PROTOC=/no/protoc "$ROOT/tests/deps.sh"
	equal "$output$(wc -l <<<"$stderr")" 1
	[[ $stderr =~ "; run as root: apt-get install -y --no-install-recommends make protobuf-compiler".*" bats jq" ]]
	[[ $stderr != *sudo* ]]
	run -1 --separate-stderr env -u CROSS PATH="$WORK/path" PROTOC=/no/protoc "$ROOT/tests/deps.sh" --build
	[[ $stderr == *"install-recommends make protobuf-compiler" ]]
	printf '#!/bin/sh\nexit 1\n' >"$WORK/path/sudo"
	chmod +x "$WORK/path/sudo"
	run -1 --separate-stderr env -u CROSS PATH="$WORK/path" PROTOC=/no/protoc "$ROOT/tests/deps.sh" --build
	[[ $stderr == *"; run: sudo apt-get install -y --no-install-recommends make protobuf-compiler" ]]
}
