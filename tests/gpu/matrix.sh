#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One program bare, preloaded, and with its allocations named:
#   tests/gpu/matrix.sh DIR ROW SECONDS RECORDS RULES COMMAND...
# DIR/ROW.row gets its line of the table, DIR/ROW.log what there is to say of it.
# RECORDS: how many allocations the registry must have been told of: N or more, `none`, or `all`,
# which is what the program itself says ("allocations: N"). A program that exits 77 is skipped, with its
# words. GPUSHARE_MATRIX_LABEL is what the table calls it; GPUSHARE_MATRIX_UNTIL (seconds of the
# epoch) is when it must be over.
set -u
dir=$1 row=$2 seconds=$3 want=$4 rules=$5
shift 5
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$root" && cd "${BUILD:-build}" && pwd) || exit 1
label=${GPUSHARE_MATRIX_LABEL:-$row}
until=${GPUSHARE_MATRIX_UNTIL:-$((EPOCHSECONDS + 3 * seconds))}
scratch=$(mktemp -d /tmp/gpushare-mx.XXXXXX) # short: a socket's path has 107 bytes
# shellcheck source=tests/gpu/registry.bash
. "$root/tests/gpu/registry.bash"

finish() {
	local pid
	for pid in $(registry_pids "$scratch/registry"); do
		kill -KILL "$pid" 2>/dev/null
	done
	rm -rf "$scratch"
}
trap finish EXIT

# run MODE [VARIABLE=VALUE...]: output and exit code in $scratch/MODE.*
run() {
	local mode=$1 began=$EPOCHREALTIME code=0 left=$((until - EPOCHSECONDS))
	shift
	left=$((left > seconds ? seconds : left < 1 ? 1 : left))
	mkdir "$scratch/$mode"
	timeout -k 5 "$left" env "TMPDIR=$scratch/$mode" "TRITON_CACHE_DIR=$scratch/$mode/triton" "$@" "${command[@]}" \
		</dev/null >"$scratch/$mode.out" 2>"$scratch/$mode.err" || code=$?
	echo "$code" >"$scratch/$mode.code"
	awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", b - a }' >"$scratch/$mode.took"
}

# say CELL...: the row
say() {
	local cell line='|'
	for cell; do line+=" $cell |"; done
	echo "$line" >"$dir/$row.row"
	echo "$label: ${*:2}"
}

# judge MODE: "same", or how it differs from the bare run
judge() {
	local code
	code=$(cat "$scratch/$1.code")
	if [ "$code" = 124 ] || [ "$code" = 137 ]; then
		echo "**FAILED**: still running after $(cat "$scratch/$1.took") s"
	elif [ "$code" != "$(cat "$scratch/bare.code")" ]; then
		echo "**FAILED**: exit code $code"
	elif ! cmp -s "$scratch/bare.out" "$scratch/$1.out"; then
		echo "**FAILED**: other output"
	else
		echo same
	fi
}

# judge_records: how many, and how many of them are still there
judge_records() {
	local shared left wanted=$want
	shared=$(grep -c 'is shared' "$scratch/log")
	case $want in
	all) wanted=$(sed -n 's/^allocations: //p' "$scratch/bare.out") ;;
	none) wanted=0 ;;
	esac
	left=$(left_over)
	if [ "$left" != 0 ]; then
		echo "**FAILED**: $left of $shared records left behind"
	elif [ "$want" = "$wanted" ]; then
		[ "$shared" -ge "$want" ] || echo "**FAILED**: at least $want wanted, not "
		echo "$shared"
	else
		[ "$shared" = "${wanted:-unknown}" ] || echo "**FAILED**: "
		echo "$shared of ${wanted:-unknown}"
	fi | tr -d '\n'
}

# A process's names go when it does, which the registry notices a moment later.
left_over() {
	local tries=0 left=0
	while [ $((tries += 1)) -le 20 ]; do
		left=$(GPUSHARE_AUTOSTART=0 GPUSHARE_DIR=$scratch/registry "$build/gpushare" ls --json 2>/dev/null | jq length)
		[ "${left:-0}" != 0 ] || break
		sleep 0.1
	done
	echo "${left:-0}"
}

# What there is to read when something is not as it should be: the run, and what differs.
report() {
	local mode
	{
		echo "== $label: $*"
		for mode in bare shim named; do
			[ -f "$scratch/$mode.code" ] || continue
			echo "-- $mode: exit code $(cat "$scratch/$mode.code"), $(cat "$scratch/$mode.took") s, $(wc -c <"$scratch/$mode.out") bytes, sha256 $(sha256sum <"$scratch/$mode.out" | cut -c1-16)"
			tail -n 15 "$scratch/$mode.err"
			[ "$mode" = bare ] || diff "$scratch/bare.out" "$scratch/$mode.out" | head -n 20
		done
		head -n 40 "$scratch/bare.out"
		[ ! -f "$scratch/log" ] || sed 's/^gpushare\[[0-9]*\]: //; s/"[^"]*"/NAME/; s/: [0-9]* bytes/: N bytes/' "$scratch/log" |
			sort | uniq -c | sort -rn | head -n 15
	} >"$dir/$row.log" 2>&1
}

command=("$@")
run bare
code=$(cat "$scratch/bare.code")
version=$(sed -n 's/^version: //p' "$scratch/bare.out" | head -n 1)
[ -z "$version" ] || label="$label ($version)"
if [ "$code" = 77 ]; then
	say "$label" "skipped: $(tail -n 1 "$scratch/bare.out")" "" "" "" ""
elif [ "$code" != 0 ]; then
	say "$label" "**FAILED** without us: exit code $code" "" "" "" "$(cat "$scratch/bare.took")"
	report "$@"
	exit 1
else
	shim=LD_PRELOAD=$build/libgpushare_shim.so${LD_PRELOAD:+:$LD_PRELOAD}
	run shim "$shim" "GPUSHARE_DIR=$scratch/registry"
	[ ! -e "$scratch/registry" ] || echo "something was registered without names" >>"$scratch/shim.out"
	: >"$scratch/log"
	run named "$shim" "GPUSHARE_DIR=$scratch/registry" "GPUSHARE_NAME=$rules" "GPUSHARE_LOG=$scratch/log"
	say "$label" "$code" "$(judge shim)" "$(judge named)" "$(judge_records)" \
		"$(cat "$scratch"/{bare,shim,named}.took | tr '\n' ' ')"
	report "$@"
fi
! grep -q FAILED "$dir/$row.row"
