#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What building and testing need beyond make, and where to get it.
#   tests/deps.sh          install what is missing (apt-get, as root or through passwordless sudo)
#   tests/deps.sh --build  the same, but only for building
#   tests/deps.sh --check  name in one line all that building lacks; install nothing
#   tests/deps.sh --lint   install only the tools of the lints: packages, and from PyPI what Debian lacks
#   tests/deps.sh --more   install what some tests need, which are skipped without it; if that fails, say so
set -u
# The two from PyPI check the containers' files against their schemas. They go into a folder of their own: see lint.sh.
if [ "${1:-}" = --lint ]; then
	checkers=${HOME:-/tmp}/.cache/gpushare-lint
	"$0" --lint-packages || exit
	[ ! -x "$checkers/bin/kubernetes-validate" ] || exit 0
	echo "gpushare: installing check-jsonschema and kubernetes-validate in $checkers"
	/usr/bin/python3 -m venv "$checkers" && exec "$checkers/bin/pip" install -q check-jsonschema kubernetes-validate
	exit 1
fi
# If CROSS is set, the packages are for building for the machine ARCH and for running the tests under its emulator.
CC=${CC:-gcc}
PROTOC=${PROTOC:-/usr/bin/protoc}
foreign=
if [ -n "${CROSS:-}" ]; then
	if [ "${ARCH:-}" != aarch64 ]; then
		echo "gpushare: ARCH=${ARCH:-}: on $(uname -m) this builds for $(uname -m) and aarch64 only" >&2
		exit 1
	fi
	foreign=arm64
fi
of=${foreign:+:$foreign}

# Columns: need (build: for everything, test, more or lint); package; kind of probe; what it looks for; library
NEEDS="
build gcc${foreign:+-aarch64-linux-gnu} command $CC
${foreign:+
build libc6-dev-arm64-cross library c
test  gcc                command ${HOST_CC:-gcc}
test  qemu-user          command ${EMULATOR:-qemu-aarch64}
}
build make               command make
build protobuf-compiler  command $PROTOC
build nanopb             command ${NANOPB:-/usr/bin/protoc-gen-nanopb}
build python3-protobuf   python  google.protobuf
build libnanopb-dev$of   header  pb_encode.h protobuf-nanopb
build libnng-dev$of      header  nng/nng.h nng
build libmbedtls-dev$of  header  mbedtls/ssl.h mbedtls
build libjansson-dev$of  header  jansson.h jansson
build libsmartcols-dev$of header libsmartcols/libsmartcols.h smartcols
build nettle-dev$of      header  nettle/sha2.h nettle
build libncurses-dev$of  header  curses.h ncursesw
build libpng-dev$of      header  png.h png16
build uthash-dev         header  uthash.h
build libvulkan-dev      header  vulkan/vulkan_core.h
test  libcmocka-dev$of   header  cmocka.h cmocka
test  pkg-config         command pkg-config
test  bats               command bats
test  jq                 command jq
test  python3-numpy      python  numpy
test  python3-mypy       python  mypy
test  python3-pyte       python  pyte
test  libjemalloc2       preload libjemalloc.so.2
test  faketime           preload faketime/libfaketime.so.1
test  procps             command pkill
test  libcurl4-openssl-dev$of header curl/curl.h curl
test  openssl            command openssl
lint  shellcheck         command shellcheck
lint  cppcheck           command cppcheck
lint  clang-format       command clang-format
lint  lintian            command lintian
lint  clang-tidy         command clang-tidy
lint  clang              command clang
lint  libclang-rt-14-dev fuzzer  clang
lint  gcovr              command gcovr
lint  spin               command spin
lint  codespell          command codespell
lint  python3-yaml       python  yaml
lint  python3-venv       python  ensurepip
"
[ -n "$foreign" ] || NEEDS+="test  g++        command g++
more  scdoc      command scdoc
more  mandoc     command mandoc
more  man-db     command man
more  zsh        command zsh
more  libucx-dev header  ucp/api/ucp.h
more  libucx0    preload libucp.so.0
more  ucx-utils  command ucx_perftest
more  iperf3     command iperf3
more  debhelper  command dh
more  cmake      command cmake
more  etcd-server command etcd
"
optional= # what is skipped without it
case ${1:-} in
--check | --build) wanted=" build " ;;
--lint-packages) wanted=" lint " ;;
--more) wanted=" more " optional="tests that need" ;;
*) wanted=" build test " ;;
esac

# Both machines share the headers in /usr/include, so only the library shows that the other machine's package is there.
has_library() {
	[ -z "$foreign" ] || [ -z "$1" ] || [[ $("$CC" "-print-file-name=lib$1.so") == /* ]] ||
		[[ $("$CC" "-print-file-name=lib$1.a") == /* ]]
}

# nanopb's generator runs with Debian's python3, which may not be the first one on PATH
has() {
	case $1 in
	command) command -v "$2" >/dev/null 2>&1 ;;
	python) /usr/bin/python3 -c "import $2" >/dev/null 2>&1 || python3 -c "import $2" >/dev/null 2>&1 ;;
	library) command -v "$CC" >/dev/null 2>&1 && has_library "$2" ;;
	fuzzer) compgen -G "$("$2" -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-*" >/dev/null ;;
	preload) [ -n "$foreign" ] || compgen -G "/usr/lib/*-linux-gnu/$2" >/dev/null || [ -e "/usr/lib64/$2" ] || [ -e "/usr/lib/$2" ] ;;
	header)
		if command -v "$CC" >/dev/null 2>&1; then
			printf '#include <stddef.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$2" |
				"$CC" -E -x c -o /dev/null - >/dev/null 2>&1 && has_library "${3:-}"
		else
			[ -z "$foreign" ] && [ -e "/usr/include/$2" ]
		fi
		;;
	esac
}

where() {
	case $1 in
	command) case $2 in /*) echo "at $2" ;; *) echo "on PATH ($PATH)" ;; esac ;;
	python) echo "in /usr/bin/python3" ;;
	library) echo "as a library of $CC" ;;
	fuzzer) echo "among the libraries of $2" ;;
	preload) echo "in /usr/lib and below" ;;
	header) echo "in the include path of $CC (/usr/include and below)" ;;
	esac
}

missing='' lacks=''
while read -r need package kind thing library; do
	[ -n "$need" ] && [[ $wanted == *" $need "* ]] || continue
	has "$kind" "$thing" "$library" && continue
	if [ "${1:-}" = --check ]; then
		lacks="$lacks${lacks:+, }$thing $(where "$kind" "$thing")"
		missing="$missing $package"
		continue
	fi
	if [ "$kind $thing" = "command $CC" ] && [ "$CC" != "${CROSS:-}gcc" ]; then
		echo "gpushare: the compiler CC=$CC was not found $(where "$kind" "$thing")" >&2
		exit 1
	fi
	missing="$missing $package"
done <<<"$NEEDS"
[ -n "$missing" ] || exit 0
if [ -n "$lacks" ]; then
	echo "gpushare: building needs what was not found: $lacks; \`make deps\` installs the Debian packages:$missing" >&2
	exit 1
fi

# give_up MESSAGE: exit without the missing packages: with success if they are optional, else with an error
give_up() {
	[ -z "$optional" ] || { echo "gpushare: $optional$missing are skipped: $1"; exit 0; }
	echo "gpushare: $1" >&2
	exit 1
}

read -ra packages <<<"$missing"
# For optional packages, don't wait long for a server that doesn't answer.
patience=
[ -z "$optional" ] || patience="-o Acquire::http::Timeout=10 -o Acquire::Retries=0"
line="apt-get install -y --no-install-recommends ${patience:+$patience }${packages[*]}"
add=
if [ -n "$foreign" ] && [[ $line == *"$of"* ]] && command -v dpkg >/dev/null 2>&1 &&
	! dpkg --print-foreign-architectures | grep -qx "$foreign"; then
	add="dpkg --add-architecture $foreign"
fi
sudo=
if ! command -v apt-get >/dev/null 2>&1; then
	give_up "missing:$missing (Debian's names), and there is no apt-get here to install them with"
fi
if [ "$(id -u)" != 0 ]; then
	by="run: sudo" as="sudo "
	command -v sudo >/dev/null 2>&1 || by="run as root:" as=
	if [ -z "$as" ] || ! sudo -n true </dev/null >/dev/null 2>&1; then
		give_up "packages are missing and this user may not install them; $by ${add:+$add && ${as}apt-get update && $as}$line"
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
# shellcheck disable=SC2086
[ -z "$add" ] || $sudo $add
# The package lists of a fresh machine are empty or old: update only when the first try fails.
if ! install; then
	# shellcheck disable=SC2086
	$sudo apt-get $patience update </dev/null >/dev/null 2>&1
	if ! install; then
		[ -n "$optional" ] || cat "$log" >&2
		# shellcheck disable=SC2086 # an architecture that the package servers don't have breaks each update
		[ -z "$add" ] || $sudo dpkg --remove-architecture "$foreign" || true
		give_up "\`$line\` failed$([ -n "$patience" ] || echo "; its output is above")"
	fi
fi
