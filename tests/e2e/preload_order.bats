#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Other preloaded libraries, before the shim and behind it.
load helpers
load three_ways

# among LIBRARIES: with the libraries before and behind the shim, programs run as with the libraries alone
among() {
	local order program
	for order in "$1|" "|$1"; do
		BEFORE=${order%|*} BEHIND=${order#*|}
		for program in rt_app_static drv_linked "drv_lookup dlsym"; do
			# shellcheck disable=SC2086 # its words
			recorded "w0 1048576
w1 2097152" "$BIN/"$program init alloc=a,1Mi fill=a,3 byte=a,1 alloc=b,2Mi alloc=c,3Mi free=c
			equal "$(grep -c ': 0$' <<<"$plain")" 6
		done
	done
}

# library NAME: the path where distributions install it; a bundle has its own copy in lib/
library() {
	local file
	for file in "$ROOT/lib/$1" /usr/lib/*-linux-gnu/"$1" /usr/lib64/"$1" /usr/lib/"$1"; do
		[ -e "$file" ] && echo "$file" && return
	done
	return 1
}

@test "preload order: jemalloc before us and behind us" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the address sanitizer is the allocator here"
	jemalloc=$(library libjemalloc.so.2) || skip "libjemalloc.so.2 is not installed"
	among "$jemalloc"
}

# under_faketime TIME: run among's checks with libfaketime set to TIME
under_faketime() {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "libfaketime and the address sanitizer hang together, without us too"
	faketime=$(library faketime/libfaketime.so.1) || skip "libfaketime.so.1 is not installed"
	export FAKETIME=$1
	among "$faketime"
}

@test "preload order: libfaketime before us and behind us, in the past" {
	under_faketime -10y
}

@test "preload order: libfaketime before us and behind us, ahead" {
	under_faketime +10y
}

@test "preload order: libfaketime before us and behind us, standing still" {
	under_faketime '2020-02-02 12:00:00'
}

@test "preload order: many threads at once under libfaketime lose no name" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "libfaketime and the address sanitizer hang together, without us too"
	faketime=$(library faketime/libfaketimeMT.so.1) || skip "libfaketimeMT.so.1 is not installed"
	all=$(for i in {0..23}; do echo "w$i 1048576"; done | sort)
	for time in '-10y' '+10y'; do
		export FAKETIME=$time
		BEFORE=$faketime BEHIND=''
		recorded "$all" "$BIN/drv_linked" init threads=24,1Mi
		BEFORE='' BEHIND=$faketime
		recorded "$all" "$BIN/drv_linked" init threads=24,1Mi
	done
}

@test "preload order: what a library behind us allocates in place of the program's allocation meets no rule" {
	start_registry
	up app env LD_PRELOAD="$PRELOAD:$BIN/lib_nested.so" GPUSHARE_NAME=w%i:size=2Mi \
		"$BIN/drv_linked" init alloc=a,1Mi alloc=b,2Mi alloc=c,3Mi
	equal "$(names)" "w0 2097152"
	down
}

@test "a program built with the address sanitizer, with its library before us and behind us" {
	[ -e "$ROOT/tests/e2e/programs/drv_lookup.c" ] || skip "no source tree here"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "already in every program here"
	needs "${CC:-gcc}"
	cc=${CC:-gcc}
	"$cc" -fsanitize=address -x c - -o "$WORK/empty" <<<'int main(void) { return 0; }' ||
		skip "$cc has no address sanitizer"
	for program in drv_lookup drv_loader; do
		"$cc" -std=gnu11 -D_GNU_SOURCE -O1 -g -I"$ROOT/shim" -fsanitize=address \
			"$ROOT/tests/e2e/programs/$program.c" -o "$WORK/$program" -pthread -ldl
	done
	asan=$("$cc" -print-file-name=libasan.so)
	asan=$(readlink -f "$asan")
	script=(init alloc=a,1Mi fill=a,3 byte=a,1 alloc=b,2Mi)
	# A real driver allocates addresses in the sanitizer's shadow gap, and keeps memory until the process ends.
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || export ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0
	# The sanitizer's library must be the first; with verify_asan_link_order=0 it also runs behind the shim.
	for order in "$asan|" "|$asan" "|"; do
		BEFORE=${order%|*} BEHIND=${order#*|}
		[ -n "$BEFORE" ] || export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
		for route in dlsym gpa gpa2 chain; do
			recorded "w0 1048576
w1 2097152" "$WORK/drv_lookup" $route "${script[@]}"
		done
		three_ways "$WORK/drv_loader" find=default,cuInit open=w,"$BIN/lib_ompt.so",global \
			call=default,ompt_start_tool
	done
	# Without that option it refuses to run behind the shim, as behind any other library.
	unset ASAN_OPTIONS
	run -1 --separate-stderr env LD_PRELOAD="$SHIM $asan" "$WORK/drv_lookup" dlsym "${script[@]}"
	has "$stderr" "ASan runtime does not come first"
}
