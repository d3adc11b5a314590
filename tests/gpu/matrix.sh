#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One program bare, preloaded, with its allocations named, and with them named and mapped (`vmm`):
#   tests/gpu/matrix.sh DIR ROW SECONDS RECORDS RULE COMMAND...
# DIR/ROW.row gets its line of the table, DIR/ROW.log what there is to say of it.
# RECORDS: how many allocations the registry must have been told of: N or more, `none`, or `all`,
# which is what the program itself says ("allocations: N"). A program that exits 77 is skipped, with its
# words. GPUSHARE_MATRIX_LABEL is what the table calls it; GPUSHARE_MATRIX_UNTIL (seconds of the
# epoch) is when it must be over; GPUSHARE_MATRIX_WAYS is which of "bare shim named vmm" it is run: bare is
# what the others are compared with, and always is.
set -u
dir=$1 row=$2 seconds=$3 want=$4 rule=$5
shift 5
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$root" && cd "${BUILD:-build}" && pwd) || exit 1
label=${GPUSHARE_MATRIX_LABEL:-$row}
ways=" ${GPUSHARE_MATRIX_WAYS:-bare shim named vmm} "
until=${GPUSHARE_MATRIX_UNTIL:-$((EPOCHSECONDS + 4 * seconds))}
scratch=$(mktemp -d /tmp/gpushare-mx.XXXXXX) # short: a socket's path has 107 bytes
# shellcheck source=tests/gpu/registry.bash
. "$root/tests/gpu/registry.bash"

finish() {
	local pid way
	for way in shim named vmm; do
		for pid in $(registry_pids "$scratch/r.$way"); do
			kill -KILL "$pid" 2>/dev/null
		done
	done
	rm -rf "$scratch"
}
trap finish EXIT

# run MODE [VARIABLE=VALUE...]: output and exit code in $scratch/MODE.*; without time left, nothing
run() {
	local mode=$1 began=$EPOCHREALTIME code=0 left=$((until - EPOCHSECONDS))
	shift
	[ "$left" -ge 1 ] || return 0
	left=$((left > seconds ? seconds : left))
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

# preloaded MODE [RULE]: run it so, in a registry of its own; what becomes of the rule is in $scratch/MODE.log
preloaded() {
	: >"$scratch/$1.log"
	run "$1" "LD_PRELOAD=$build/libgpushare_shim.so${LD_PRELOAD:+:$LD_PRELOAD}" "GPUSHARE_DIR=$scratch/r.$1" \
		${2:+"GPUSHARE_NAME=$2" "GPUSHARE_LOG=$scratch/$1.log"}
}

# judge MODE: "same", or how it differs from the bare run; "-": it was not to be run
judge() {
	local code
	if [[ $ways != *" $1 "* ]]; then
		echo "-"
		return
	elif [ ! -f "$scratch/$1.code" ]; then
		echo "**FAILED**: not begun, there was no time left"
		return
	fi
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

# judge_records MODE: how many, and how many of them are still there or not what the rule asks for
judge_records() {
	local shared left ordinary wanted=$want
	if [ ! -f "$scratch/$1.code" ]; then
		printf '%s' "-"
		return
	fi
	shared=$(grep -c 'is shared' "$scratch/$1.log")
	ordinary=$(grep -c 'is ordinary memory' "$scratch/$1.log")
	case $want in
	all) wanted=$(sed -n 's/^allocations: //p' "$scratch/bare.out") ;;
	none) wanted=0 ;;
	esac
	left=$(left_over "$1")
	if [ "$left" != 0 ]; then
		echo "**FAILED**: $left of $shared records left behind"
	elif [ "$want" = "$wanted" ]; then
		[ "$shared" -ge "$want" ] || echo "**FAILED**: at least $want wanted, not "
		echo "$shared"
	else
		[ "$shared" = "${wanted:-unknown}" ] || echo "**FAILED**: "
		echo "$shared of ${wanted:-unknown}"
	fi | tr -d '\n'
	[ "$ordinary" = 0 ] || printf ' (%s not mapped)' "$ordinary"
}

# A process's names go when it does, which the registry notices a moment later.
left_over() {
	local tries=0 left=0
	while [ $((tries += 1)) -le 20 ]; do
		left=$(GPUSHARE_AUTOSTART=0 GPUSHARE_DIR=$scratch/r.$1 "$build/gpushare" ls --json 2>/dev/null | jq length)
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
		for mode in bare shim named vmm; do
			[ -f "$scratch/$mode.code" ] || continue
			echo "-- $mode: exit code $(cat "$scratch/$mode.code"), $(cat "$scratch/$mode.took") s, $(wc -c <"$scratch/$mode.out") bytes, sha256 $(sha256sum <"$scratch/$mode.out" | cut -c1-16)"
			tail -n 15 "$scratch/$mode.err"
			[ "$mode" = bare ] || diff "$scratch/bare.out" "$scratch/$mode.out" | head -n 20
		done
		head -n 40 "$scratch/bare.out"
		for mode in named vmm; do
			[ ! -f "$scratch/$mode.log" ] || sed 's/^gpushare\[[0-9]*\]: //; s/"[^"]*"/NAME/; s/: [0-9]* bytes/: N bytes/' \
				"$scratch/$mode.log" | sort | uniq -c | sort -rn | head -n 15
		done
	} >"$dir/$row.log" 2>&1
}

for way in $ways; do
	[[ " bare shim named vmm " == *" $way "* ]] || { echo "gpushare: no way $way; they are: bare shim named vmm" >&2; exit 2; }
done
command=("$@")
run bare
if [ ! -f "$scratch/bare.code" ]; then
	say "$label" "**FAILED**: not begun, there was no time left" "" "" "" "" ""
	exit 1
fi
code=$(cat "$scratch/bare.code")
version=$(sed -n 's/^version: //p' "$scratch/bare.out" | head -n 1)
[ -z "$version" ] || label="$label ($version)"
if [ "$code" = 77 ]; then
	say "$label" "skipped: $(tail -n 1 "$scratch/bare.out")" "" "" "" "" ""
elif [ "$code" != 0 ]; then
	say "$label" "**FAILED** without us: exit code $code" "" "" "" "" "$(cat "$scratch/bare.took")"
	report "$@"
	exit 1
else
	[[ $ways != *" shim "* ]] || preloaded shim
	[ ! -e "$scratch/r.shim" ] || echo "something was registered without names" >>"$scratch/shim.out"
	[[ $ways != *" named "* ]] || preloaded named "$rule"
	[[ $ways != *" vmm "* ]] || preloaded vmm "$rule:vmm"
	say "$label" "$code" "$(judge shim)" "$(judge named)" "$(judge vmm)" "$(judge_records named), $(judge_records vmm)" \
		"$(for way in bare shim named vmm; do cat "$scratch/$way.took" 2>/dev/null || echo -; done | paste -sd ' ')"
	report "$@"
fi
! grep -q FAILED "$dir/$row.row"
