#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What building and testing need beyond make, and where to get it.
#   tests/deps.sh          install what is missing (apt-get, as root or through passwordless sudo)
#   tests/deps.sh --check  name the first thing that building lacks; install nothing
set -u
CC=${CC:-gcc}
PROTOC=${PROTOC:-/usr/bin/protoc}

# need: build (everything) or test; package; kind of probe; what the probe looks for
NEEDS="
build gcc                command $CC
build make               command make
build protobuf-compiler  command $PROTOC
build nanopb             command ${NANOPB:-/usr/bin/protoc-gen-nanopb}
build python3-protobuf   python  google.protobuf
build libnanopb-dev      header  pb_encode.h
build libnng-dev         header  nng/nng.h
build libmbedtls-dev     header  mbedtls/ssl.h
build libjansson-dev     header  jansson.h
build uthash-dev         header  uthash.h
test  libcmocka-dev      header  cmocka.h
test  pkg-config         command pkg-config
test  bats               command bats
test  jq                 command jq
"

# nanopb's generator is Debian's python program: the first python3 on PATH may be another
has() {
	case $1 in
	command) command -v "$2" >/dev/null 2>&1 ;;
	python) /usr/bin/python3 -c "import $2" >/dev/null 2>&1 || python3 -c "import $2" >/dev/null 2>&1 ;;
	header)
		if command -v "$CC" >/dev/null 2>&1; then
			printf '#include <stddef.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$2" |
				"$CC" -E -x c -o /dev/null - >/dev/null 2>&1
		else
			[ -e "/usr/include/$2" ]
		fi
		;;
	esac
}

where() {
	case $1 in
	command) case $2 in /*) echo "at $2" ;; *) echo "on PATH ($PATH)" ;; esac ;;
	python) echo "in /usr/bin/python3" ;;
	header) echo "in the include path of $CC (/usr/include and below)" ;;
	esac
}

missing=
while read -r need package kind thing; do
	[ -n "$need" ] || continue
	[ "${1:-}" = --check ] && [ "$need" != build ] && continue
	has "$kind" "$thing" && continue
	if [ "${1:-}" = --check ]; then
		echo "gpushare: building needs $thing, which was not found $(where "$kind" "$thing");" \
			"\`make deps\` installs Debian package $package" >&2
		exit 1
	fi
	if [ "$kind $thing" = "command $CC" ] && [ "$CC" != gcc ]; then
		echo "gpushare: the compiler CC=$CC was not found $(where "$kind" "$thing")" >&2
		exit 1
	fi
	missing="$missing $package"
done <<<"$NEEDS"
[ -n "$missing" ] || exit 0

read -ra packages <<<"$missing"
line="apt-get install -y --no-install-recommends ${packages[*]}"
sudo=
if ! command -v apt-get >/dev/null 2>&1; then
	echo "gpushare: missing:$missing (Debian's names), and there is no apt-get here to install them with" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true </dev/null >/dev/null 2>&1; then
		echo "gpushare: packages are missing and this user may not install them; run: sudo $line" >&2
		exit 1
	fi
	sudo="sudo -n"
fi
echo "gpushare: installing$missing"
export DEBIAN_FRONTEND=noninteractive
install() {
	# shellcheck disable=SC2086 # $sudo is a command with its option, or nothing
	$sudo env DEBIAN_FRONTEND=noninteractive $line </dev/null >"$log" 2>&1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists of a fresh machine are empty or old: update only when the first try fails.
if ! install; then
	# shellcheck disable=SC2086
	$sudo apt-get update </dev/null >/dev/null 2>&1
	if ! install; then
		cat "$log" >&2
		echo "gpushare: \`$line\` failed; its output is above" >&2
		exit 1
	fi
fi
