#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Shows the main job: a buffer of an unmodified program gets a name. A second process changes it through that name, the
# first sees the change, and a dump has the same bytes.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$root" && cd "${BUILD:-build}" && pwd) || exit 1
scratch=$(mktemp -d /tmp/gpushare-demo.XXXXXX)
export GPUSHARE_DIR=$scratch/registry
unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_TIMEOUT_MS GPUSHARE_AUTOSTART
painter=

# End what still runs. The registry was started automatically; its command line has our GPUSHARE_DIR.
finish() {
	local file pid
	[ -z "$painter" ] || kill -KILL "$painter" 2>/dev/null
	for file in /proc/[0-9]*/cmdline; do
		pid=${file#/proc/} pid=${pid%/cmdline}
		if [ "$pid" != $$ ] && grep -qzF "$GPUSHARE_DIR" "$file" 2>/dev/null; then
			kill "$pid" 2>/dev/null
		fi
	done
	rm -rf "$scratch"
}
trap finish EXIT

die() {
	echo "demo: $1" >&2
	[ ! -s "$scratch/errors" ] || cat "$scratch/errors" >&2
	exit 1
}

# Wait up to 20 s for line $1 of what the painter prints, and print it.
heard() {
	local tries=0
	until [ "$(wc -l <"$scratch/said")" -ge "$1" ]; do
		kill -0 "$painter" 2>/dev/null || die "the painter ended early"
		[ $((tries += 1)) -le 400 ] || die "the painter said nothing for 20 s"
		sleep 0.05
	done
	sed -n "$1p" "$scratch/said"
}

act() {
	rm -f "$scratch/said" "$scratch/seen" "$scratch/dump"
	: >"$scratch/said"
	"$build/gpushare" run --name canvas -- "$programs/painter_$1" "$scratch/seen" \
		>"$scratch/said" 2>"$scratch/errors" </dev/null &
	painter=$!
	echo "\$ gpushare run --name canvas -- ./painter    # $2"
	heard 1
	echo "\$ gpushare ls"
	"$build/gpushare" ls 2>"$scratch/errors" || die "gpushare ls failed"
	"$programs/retoucher" canvas 2>"$scratch/errors" || die "the retoucher failed"
	heard 2
	"$build/gpushare" get canvas -o "$scratch/dump" 2>"$scratch/errors" || die "gpushare get failed"
	cmp "$scratch/seen" "$scratch/dump" >&2 || die "the dump differs from what the painter saw"
	echo "\$ gpushare get canvas -o dump    # $(wc -c <"$scratch/dump") bytes, equal to what the painter sees"
	kill -TERM "$painter"
	wait "$painter" || die "the painter's exit code is $?"
	painter=
}

# --said: make has already printed the line about the driver
line=$("$root/tests/run" --driver)
[ "${1:-}" = --said ] || echo "$line"
programs=$build/tests/bin
case $line in
running*) ;;
*) export LD_LIBRARY_PATH=$build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
esac
act static "unmodified, its CUDA runtime linked statically"
act shared "the same source, its CUDA runtime a shared library"
echo "the demo worked"
