#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# make install: where files are installed, whether other build tools find them, and that uninstalling removes them all.
load helpers

setup_more() {
	[ -e "$ROOT/tools/packages/packages.mk" ] || skip "no source tree here"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented build is not for installing"
	needs make
	DEST=$WORK/dest
	unset prefix libdir PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH
}

# installed TARGET VARIABLE=VALUE...: run make on the existing build output, without the flags of an outer make
installed() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$ROOT" BUILD="$BUILD" "$@"
}

files() {
	(cd "$1" && find . ! -type d | sed 's:^\./::' | LC_ALL=C sort)
}

# With a separate directory for each kind, the files must be where the variables say.
@test "GNU's directory variables, in capitals and in small letters, say where all goes" {
	installed install-files DESTDIR="$DEST" PREFIX=/p BINDIR=/b LIBDIR=/l INCLUDEDIR=/i MANDIR=/m \
		DOCDIR=/d SYSTEMDDIR=/s TMPFILESDIR=/t
	equal "$(files "$DEST" | sed -E 's:^(p/share/)(bash-completion|zsh)/.*:\1\2:; s:^(m/man.|d/examples|l/cmake)/.*:\1:' | sort -u)" \
		"$({
			printf '%s\n' b/gpushare{,-attach,-registry} i/gpushare.h{,pp} l/cmake l/libgpushare{.a,.so,.so.0,_shim.so} \
				l/pkgconfig/gpushare.pc s/system/gpushare-registry.service s/system/gpushare-registry@.service s/user/gpushare-{node,registry}.service \
				t/gpushare.conf d/examples m/man3 p/share/gpushare/grafana.json
			! command -v scdoc >/dev/null || printf '%s\n' m/man{1,5,7,8}
			[ ! -d "$ROOT/tools/completions" ] || printf '%s\n' p/share/{bash-completion,zsh}
		} | sort -u)"
	equal "$(readlink "$DEST/l/libgpushare.so")" libgpushare.so.0
	equal "$(find "$DEST" -type f -perm /111 -printf '%f\n' | sort | tr '\n' ' ')" "gpushare gpushare-registry "
	equal "$(readlink "$DEST/b/gpushare-attach")" gpushare
	run -1 grep -rE '@[A-Z_]+@' "$DEST"/{l/pkgconfig,l/cmake,s,t,d}
	has "$(cat "$DEST/s/user/gpushare-registry.service")" "ExecStart=/b/gpushare-registry "
	installed install-files DESTDIR="$WORK/small" prefix=/p bindir=/b libdir=/l includedir=/i mandir=/m \
		docdir=/d SYSTEMDDIR=/s TMPFILESDIR=/t
	diff -r "$DEST" "$WORK/small"
}

@test "uninstall leaves nothing, and of a folder that others use no more than theirs" {
	installed install-files DESTDIR="$DEST"
	has "$(files "$DEST")" usr/local/lib/libgpushare.so.0
	touch "$DEST/usr/local/share/doc/gpushare/theirs"
	installed uninstall DESTDIR="$DEST"
	equal "$(files "$DEST")" usr/local/share/doc/gpushare/theirs
	rm "$DEST/usr/local/share/doc/gpushare/theirs"
	installed uninstall DESTDIR="$DEST"
	equal "$(cd "$DEST" && find . -name '*gpushare*')" ""
}

@test "where the loader does not look, make install says what to do" {
	equal "$(installed install-hint PREFIX="$WORK/some")" "libgpushare.so.0 is where the loader does not look: \
run programs with LD_LIBRARY_PATH=$WORK/some/lib, or link them with -Wl,-rpath,$WORK/some/lib"
	local looks
	looks=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -vN 2>/dev/null | sed -n 's/^\(\/[^:]*\):.*/\1/p' | head -n 1)
	equal "$(installed install-hint LIBDIR="$looks")" ""
	equal "$(installed install-hint LIBDIR="$looks/../${looks##*/}")" ""
}

# as_installed COMMAND...: run COMMAND with the installed library, and with the simulated driver if the tests use it
as_installed() {
	LD_LIBRARY_PATH=$LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

# talk OWNER READER WORDS: the two example programs share a buffer through the installed registry
talk() {
	local pid
	mkfifo "$WORK/line"
	# shellcheck disable=SC2016 # the inner shell's
	as_installed start owner bash -c 'exec "$1" greeting <"$2"' - "$1" "$WORK/line"
	pid=$PID
	exec 7>"$WORK/line"
	until_true grep -q reads "$WORK/owner.out" # the name is there before its bytes are
	equal "$(as_installed "$2" greeting)" 'reader: "greeting" reads "hello from the owner"'
	has "$(readlink -f "/proc/$(registry_pids | head -n 1)/exe")" "$DEST/"
	echo >&7
	exec 7>&-
	rm "$WORK/line"
	finish "$pid"
	equal "$(cat "$WORK/owner.out")" "owner: \"greeting\" reads \"hello from the owner\"
owner: \"greeting\" reads \"$3\""
}

# Compile without the source tree: only pkg-config's flags name headers and libraries.
compile() {
	"$1" -Wall -Wextra -Werror "${@:2}"
}

@test "pkg-config: the examples are built against what is installed, shared and static, and run" {
	needs pkg-config
	LIB=$DEST/opt/lib
	installed install-files DESTDIR="$DEST" PREFIX=/opt
	export PKG_CONFIG_PATH=$LIB/pkgconfig PKG_CONFIG_SYSROOT_DIR=$DEST
	equal "$(pkg-config --modversion gpushare)" "$(gpushare --version | sed 's/.* //')"
	read -ra flags <<<"$(pkg-config --cflags --libs gpushare)"
	read -ra static <<<"$(pkg-config --cflags --static --libs gpushare)"
	examples=$DEST/opt/share/doc/gpushare/examples
	compile "${CC:-cc}" "$examples/owner.c" -o "$WORK/owner" "${flags[@]}"
	compile "${CC:-cc}" "$examples/reader.c" -o "$WORK/reader" "${static[@]/-lgpushare/-l:libgpushare.a}"
	run -1 grep -q libgpushare <(readelf -dW "$WORK/reader")
	readelf -dW "$WORK/owner" | grep -q 'NEEDED.*libgpushare.so.0'
	# The library contains no registry. A program that links it statically finds the registry on PATH.
	PATH=$DEST/opt/bin:$PATH
	talk "$WORK/owner" "$WORK/reader" "hello from the reader"
	command -v g++ >/dev/null || skip "C++: g++ is not installed"
	compile g++ -std=c++17 "$examples/reader.cpp" -o "$WORK/reader_cpp" "${flags[@]}"
	talk "$WORK/owner" "$WORK/reader_cpp" "hello from C++"
}

# asks VERSION: does find_package() accept VERSION?
asks() {
	printf 'cmake_minimum_required(VERSION 3.13)\nproject(asks C)\nfind_package(gpushare %s REQUIRED)\n' "$1" \
		>"$WORK/asks/CMakeLists.txt"
	cmake -S "$WORK/asks" -B "$WORK/asks/build" -DCMAKE_PREFIX_PATH="$DEST/usr" >"$WORK/asks/log" 2>&1
}

@test "CMake: find_package, versions, targets and the preload's path, in a tree that was moved" {
	needs cmake
	needs g++
	installed install-files DESTDIR="$WORK/before" PREFIX=/usr LIBDIR="/usr/lib/$(uname -m)-linux-gnu"
	mv "$WORK/before" "$DEST"
	LIB=$DEST/usr/lib/$(uname -m)-linux-gnu
	cmake -S "$DEST/usr/share/doc/gpushare/examples" -B "$WORK/made" -DCMAKE_PREFIX_PATH="$DEST/usr" >"$WORK/log" 2>&1 ||
		{ cat "$WORK/log"; false; }
	has "$(cat "$WORK/log")" "the preload library is $LIB/libgpushare_shim.so"
	cmake --build "$WORK/made" >"$WORK/log" 2>&1 || { cat "$WORK/log"; false; }
	readelf -dW "$WORK/made/owner" | grep -q 'NEEDED.*libgpushare.so.0'
	run -1 grep -q libgpushare <(readelf -dW "$WORK/made/reader")
	PATH=$DEST/usr/bin:$PATH
	talk "$WORK/made/owner" "$WORK/made/reader" "hello from the reader"
	talk "$WORK/made/owner" "$WORK/made/reader_cpp" "hello from C++"

	IFS=. read -r major minor patch <<<"$(gpushare --version | sed 's/.* //')"
	mkdir "$WORK/asks"
	for good in "" "$major.$minor" "$major.$minor.$patch" "$major.$minor.$patch EXACT"; do
		asks "$good" || { cat "$WORK/asks/log"; false; }
	done
	for bad in "$major.$((minor + 1))" "$((major + 1)).0" "$major.$minor.$((patch + 1))"; do
		run -1 asks "$bad"
		has "$(tr -s '\n ' ' ' <"$WORK/asks/log")" "requested version"
	done
	rm "$LIB/libgpushare_shim.so"
	run -1 asks ""
	has "$(tr -s '\n ' ' ' <"$WORK/asks/log")" "libgpushare_shim.so is missing"
}

@test "the installed commands find the preload library and the registry of their tree" {
	[ -x "$BIN/painter_static" ] || skip "no painter here"
	for lib in /opt/lib "/opt/lib/$(uname -m)-linux-gnu"; do
		installed install-files DESTDIR="$DEST$lib" PREFIX=/opt LIBDIR="$lib"
		PATH=$DEST$lib/opt/bin:$PATH
		# shellcheck disable=SC2016 # the inner shell's
		equal "$(gpushare run --name a -- bash -c 'echo "$LD_PRELOAD"')" "$DEST$lib$lib/libgpushare_shim.so"
		mkdir -m 700 "$WORK/r$((++round))"
		GPUSHARE_DIR=$WORK/r$round
		start painter gpushare run --name canvas -- "$BIN/painter_static" "$WORK/seen"
		until_true grep -q painted "$WORK/painter.out"
		until_true gpushare ls canvas # a registry that starts slowly hears of it later
		has "$(readlink -f "/proc/$(registry_pids | head -n 1)/exe")" "$DEST$lib/opt/bin/"
		kill -KILL "$PID" "$(registry_pids)"
	done
}
