#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pack the build into Debian packages, in $DEBDIR. `make deb` calls this with BUILD, DEBDIR, ARCH, VERSION and
# SOURCE_DATE_EPOCH. DEBFULLNAME and DEBEMAIL: the packages' maintainer. Needs debhelper, but neither network nor root.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
build=$(cd "$BUILD" && pwd)
out=$DEBDIR
tree=$out/tree
log=$out/log

if ! command -v dh >/dev/null; then
	echo "gpushare: make deb needs debhelper (apt-get install debhelper)" >&2
	exit 1
fi
case $ARCH in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
esac
umask 022
rm -rf "$tree" "$log" "$out"/*.deb
mkdir -p "$tree"
cp -r tools/packages/debian "$tree/"
who="${DEBFULLNAME:-The gpushare authors} <${DEBEMAIL:-gpushare@example.org}>"
# Add the Python package if its source is there.
if [ -d tools/python/src/gpushare ]; then
	echo | cat - tools/packages/python/control >>"$tree/debian/control"
	cp tools/packages/python/python3-gpushare.* "$tree/debian/"
fi
sed -i "s/@MAINTAINER@/$who/" "$tree/debian/control"
sed '1,4d; s/^$/./; s/^/ /' LICENSE >>"$tree/debian/copyright"
cat >"$tree/debian/changelog" <<END
gpushare ($VERSION) unstable; urgency=medium

  * Version $VERSION.

 -- $who  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
if compgen -G 'tools/completions/*.bash' >/dev/null; then
	echo usr/share/bash-completion >>"$tree/debian/gpushare.install"
fi
if compgen -G 'tools/completions/_*' >/dev/null; then
	echo usr/share/zsh >>"$tree/debian/gpushare.install"
fi
# Don't pass on the user's compiler flags, nor the flags of a make that called this script.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES CFLAGS LDFLAGS
if ! (cd "$tree" && env "DEB_HOST_ARCH=$arch" DEB_RULES_REQUIRES_ROOT=no DEB_BUILD_OPTIONS=noautodbgsym \
	"SOURCE=$root" "BUILD=$build" "ARCH=$ARCH" debian/rules binary) >"$log" 2>&1; then
	cat "$log" >&2
	echo "gpushare: make deb failed; $log is above" >&2
	exit 1
fi
rm -r "$tree"
(cd "$out" && ls -- *.deb)
