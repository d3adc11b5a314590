#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs one program bare, preloaded, with its allocations named, and with them named and mapped (`vmm`):
#   tests/gpu/matrix.sh DIR ROW SECONDS RECORDS RULE COMMAND...
# Writes the program's line of the table to DIR/ROW.row, and the details to DIR/ROW.log.
# RECORDS: how many allocations the registry must have recorded: a number for that many or more, `none`, or `all`: as
# many as the program itself prints ("allocations: N"). If the program exits with 77, its row is skipped, with the
# program's reason. GPUSHARE_MATRIX_LABEL is the program's name in the table. GPUSHARE_MATRIX_UNTIL is the latest end,
# in seconds of the epoch. GPUSHARE_MATRIX_WAYS lists the runs, of "bare shim named vmm". The bare run always takes
# place, because the others are compared with it.
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

# run MODE [VARIABLE=VALUE...]: run the command; output and exit code are in $scratch/MODE.*. Without time left, don't.
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

# say CELL...: write the row
say() {
	local cell line='|'
	for cell; do line+=" $cell |"; done
	echo "$line" >"$dir/$row.row"
	echo "$label: ${*:2}"
}

# preloaded MODE [RULE]: run it preloaded, with a registry of its own; $scratch/MODE.log tells what the rule did
preloaded() {
	: >"$scratch/$1.log"
	run "$1" "LD_PRELOAD=$build/libgpushare_shim.so${LD_PRELOAD:+:$LD_PRELOAD}" "GPUSHARE_DIR=$scratch/r.$1" \
		${2:+"GPUSHARE_NAME=$2" "GPUSHARE_LOG=$scratch/$1.log"}
}

# judge MODE: print "same", or how the run differs from the bare one, or "-" for a mode that is not run
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

# judge_records MODE: print the number of records, and whether some are left, missing, or not mapped as the rule asks
judge_records() {
	local shared left ordinary wanted=$want
	if [ ! -f "$scratch/$1.code" ]; then
		printf '%s' "-"
		return
	fi
	shared=$(grep -c 'is shared' "$scratch/$1.log")
	ordinary=$(grep -cE 'not as mapped memory|is not shared: ' "$scratch/$1.log")
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

# Print how many names are left. A process's names end with it, but the registry notices its end a moment later.
left_over() {
	local tries=0 left=0
	while [ $((tries += 1)) -le 20 ]; do
		left=$(GPUSHARE_AUTOSTART=0 GPUSHARE_DIR=$scratch/r.$1 "$build/gpushare" ls --json 2>/dev/null | jq length)
		[ "${left:-0}" != 0 ] || break
		sleep 0.1
	done
	echo "${left:-0}"
}

# Write the log for a reader who looks into a failure: the runs, and what differs.
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
