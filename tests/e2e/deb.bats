#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Debian packages: lintian-clean, reproducible, and sufficient in a root with only essential packages.
load helpers
load clean_root

PACKAGES="gpushare gpushare-registry libgpushare-dev libgpushare0"

setup_more() {
	[ -e "$ROOT/tools/packages/deb.sh" ] || skip "no source tree here"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented build is not for installing"
	needs dh
	needs scdoc
	DEBS=$BATS_FILE_TMPDIR/debs
	[ -e "$DEBS/log" ] || pack "$DEBS"
	[ ! -d "$ROOT/tools/python/src/gpushare" ] || PACKAGES+=" python3-gpushare"
}

# pack DIR: build packages from the existing build output, without the flags of an outer make
pack() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$ROOT" BUILD="$BUILD" deb-files DEBDIR="$1"
}

# Print the path of a package's .deb file.
file_of() {
	echo "$DEBS/$1"_[0-9]*.deb
}

@test "each package is there, of the header's version, with all that is installed" {
	version=$(gpushare --version | sed 's/.* //')
	equal "$(cd "$DEBS" && printf '%s\n' *.deb | sed 's/_.*//' | LC_ALL=C sort | tr '\n' ' ')" "$PACKAGES "
	for package in $PACKAGES; do
		equal "$(dpkg-deb -f "$(file_of "$package")" Version)" "$version"
		dpkg-deb -x "$(file_of "$package")" "$WORK/all"
	done
	for file in usr/bin/gpushare{,-attach,-registry} usr/include/gpushare.h{,pp} usr/lib/*/libgpushare{.a,.so,.so.0,_shim.so} \
		usr/lib/systemd/{user/gpushare-registry.service,system/gpushare-registry@.service} usr/lib/tmpfiles.d/gpushare.conf \
		usr/share/gpushare/grafana.json etc/gpushare/registry.conf usr/share/man/man{1/gpushare.1,5/registry.conf.5,7/gpushare.7,8/gpushare-registry.8,3/gpushare_open.3}.gz; do
		compgen -G "$WORK/all/$file" >/dev/null || { echo "no $file"; false; }
	done
	# A package that links with the library depends on the version that introduced the symbols.
	has "$(dpkg-deb -I "$(file_of libgpushare0)" symbols)" "gpushare_open@GPUSHARE_0.1 0.1"
	has "$(dpkg-deb -f "$(file_of gpushare)" Depends)" "libgpushare0 (= $version)"
}

@test "lintian finds nothing" {
	needs lintian
	lintian --allow-root --fail-on warning,error --profile debian "$DEBS"/*.deb
}

@test "a second build under another umask, time zone and language is the same, byte for byte" {
	(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 pack "$WORK/again")
	for deb in "$DEBS"/*.deb; do
		cmp "$deb" "$WORK/again/${deb##*/}"
	done
}

@test "no package names the place where it was built" {
	[ -z "${COVERAGE:-}" ] || skip "a counting build names where its counts go"
	for package in $PACKAGES; do
		dpkg-deb -x "$(file_of "$package")" "$WORK/all"
	done
	run -1 grep -rlF "$ROOT/" "$WORK/all"
}

@test "the -dev package is enough to build with" {
	needs pkg-config
	dpkg-deb -x "$(file_of libgpushare0)" "$WORK/all"
	dpkg-deb -x "$(file_of libgpushare-dev)" "$WORK/all"
	lib=$(dirname "$WORK"/all/usr/lib/*/libgpushare.a)
	export PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$WORK/all
	read -ra flags <<<"$(pkg-config --cflags --libs gpushare)"
	"${CC:-cc}" "$WORK/all/usr/share/doc/libgpushare-dev/examples/owner.c" -o "$WORK/owner" "${flags[@]}"
	LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$WORK/owner" greeting </dev/null
}

@test "the Python package finds the library of its package" {
	[ -d "$ROOT/tools/python/src/gpushare" ] || skip "no Python package here"
	needs python3
	dpkg-deb -x "$(file_of libgpushare0)" "$WORK/all"
	dpkg-deb -x "$(file_of python3-gpushare)" "$WORK/all"
	equal "$(cd / && PYTHONPATH=$WORK/all/usr/lib/python3/dist-packages LD_LIBRARY_PATH=$(dirname "$WORK"/all/usr/lib/*/libgpushare.so.0) \
		/usr/bin/python3 -c 'import gpushare; print(gpushare.__file__)')" \
		"$WORK/all/usr/lib/python3/dist-packages/gpushare/__init__.py"
}

# demo_tree DIR: make the demo's source tree with the demo programs and a simulated driver. The gpushare tools are only
# links to the installed packages.
demo_tree() {
	mkdir -p "$1"/{tests/demo,build/tests/bin,build/sim} || return 1
	cp "$ROOT/tests/run" "$1/tests/" || return 1
	cp "$ROOT/tests/demo/demo.sh" "$1/tests/demo/" || return 1
	cp "$BIN"/{probe,painter_static,painter_shared,retoucher} "$1/build/tests/bin/" || return 1
	cp -d "$BUILD"/sim/libcuda.so* "$BUILD"/sim/libcudart.so* "$1/build/sim/" || return 1
	ln -s /usr/bin/gpushare{,-attach} "$1/build/"
}

left_in() {
	(cd "$1" && find . \( -path ./proc -o -path ./dev -o -path ./var/lib/dpkg -o -path ./var/lib/systemd -o -path ./var/log \) \
		-prune -o -print | LC_ALL=C sort)
}

@test "in a root of essential packages alone they are installed, the demo works, and purging leaves nothing" {
	needs_sim
	needs dpkg-query
	needs unshare
	clean_root_way || skip "no root to make: $WHY"
	root=$WORK/root
	clean_root_make "$root"
	clean_root_run "$root" dpkg --configure -a # what was pending here is so there
	equal "$(clean_root_run "$root" dpkg --audit)" ""
	run ! clean_root_run "$root" sh -c 'command -v cc make jq man'
	mkdir "$root/debs"
	for package in gpushare gpushare-registry libgpushare0; do
		cp "$(file_of "$package")" "$root/debs/"
	done
	demo_tree "$root/demo"
	left_in "$root" >"$WORK/before"
	clean_root_run "$root" sh -c 'dpkg -i /debs/*.deb'
	equal "$(clean_root_run "$root" dpkg --audit)" ""
	has "$(clean_root_run "$root" ldd /demo/build/tests/bin/retoucher)" "libgpushare.so.0 => /lib/"
	# LD_PRELOAD usually has the bare name of the library.
	equal "$(clean_root_run "$root" env LD_PRELOAD=libgpushare_shim.so /bin/echo preloaded 2>&1)" preloaded
	run clean_root_run "$root" /demo/tests/demo/demo.sh
	equal "$status" 0
	equal "${lines[-1]}" "the demo worked"
	clean_root_run "$root" dpkg --purge gpushare gpushare-registry libgpushare0
	left_in "$root" >"$WORK/after"
	diff "$WORK/before" "$WORK/after"
}
