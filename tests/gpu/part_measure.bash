# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: rates and costs, and the targets that they are held to.
: "${bin:?}" "${scratch:?}" "${shm:?}"
PAIRS=${GPUSHARE_GPU_PAIRS:-10000} PAIR_SIZE=2097152 RUNS=${GPUSHARE_GPU_RUNS:-15}
DUMP=${GPUSHARE_GPU_DUMP:-1073741824} REPEATS=15

# how fast a buffer comes to the host
write "" "## Dump of $((DUMP >> 20)) MiB from another process, GB/s" ""
dump_rate() {
	local dump_bytes=$1 i began ended row
	start "$BUILD/gpushare" run --name big -- "$bin/app_hold" "$dump_bytes"
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	truncate -s "$dump_bytes" "$shm/dump" && dd if=/dev/zero of="$shm/dump" bs=1M conv=notrunc \
		count=$((dump_bytes >> 20)) status=none
	"$bin/api_rate" big $REPEATS "$shm/dump" >"$scratch/rates" 2>"$scratch/errors" || { bad "api_rate"; end; return; }
	for target in /dev/null "$shm/dump"; do
		: >"$scratch/whole"
		for ((i = 0; i < 5; i++)); do
			began=$EPOCHREALTIME
			"$BUILD/gpushare-attach" big -o "$target" 2>"$scratch/errors" || { bad "gpushare-attach -o"; end; return; }
			ended=$EPOCHREALTIME
			awk -v a="$began" -v b="$ended" -v n="$dump_bytes" 'BEGIN { print n / (b - a) / 1e9 }' >>"$scratch/whole"
		done
		row=$(sort -g "$scratch/whole" | awk '{ v[NR] = $1 } END { printf "%.2f\t%.2f\t%.2f", v[int((NR + 1) / 2)], v[1], v[NR] }')
		printf 'gpushare-attach -o %s, whole command with CUDA start-up\t%s\n' \
			"$([ "$target" = /dev/null ] && echo /dev/null || echo 'a tmpfs file')" "$row" >>"$scratch/rates"
	done
	write "| way | median | least | most | of the pinned copy |" "|---|---|---|---|---|"
	write "$(awk -F'\t' 'NR == 1 { pinned = $2 } { printf "| %s | %s | %s | %s | %.3f |\n", $1, $2, $3, $4, $2 / pinned }' "$scratch/rates")"
	write ""
	ratio=$(awk -F'\t' 'NR == 1 { pinned = $2 } NR == 2 { printf "%.3f", $2 / pinned }' "$scratch/rates")
	target 0.9 "$ratio" "into memory: $ratio of the pinned copy of the same run (target: 0.9 or more)"
	"$bin/api_round_trip" big 5000 >"$scratch/round_trip" 2>"$scratch/errors" || bad "api_round_trip"
	end || bad "app_hold: exit code $?"
}

# target A B WORDS: A must be at most B. On the simulated driver the numbers mean nothing.
target() {
	if [ "$GPUSHARE_TEST_GPU" = no ]; then
		write "- (simulated driver, no target) $3"
	elif within "$1" "$2"; then
		ok "$3"
	else
		bad "target missed: $3"
	fi
}
dump_rate "$DUMP"

# what the shim costs
write "" "## cuMemAlloc + cuMemFree of 2 MiB, $PAIRS pairs a process, $RUNS processes of each kind, interleaved" ""

# one_pairs KIND [TURN]: one process of that kind adds a line to its file
one_pairs() {
	local shim=$BUILD/libgpushare_shim.so rules=() count=$PAIRS
	case $1 in
	bare) shim= ;;
	rule | turn_rule) rules=(GPUSHARE_NAME=other:size=12345) ;;
	named) rules=(GPUSHARE_NAME='n%i') count=$((PAIRS < 2000 ? PAIRS : 2000)) ;;
	esac
	env "${rules[@]}" LD_PRELOAD="$shim" "$bin/app_pairs" "$count" $PAIR_SIZE "${@:2}" >>"$scratch/pairs_$1"
}

# Forwards and backwards by turns: none of the kinds always comes first.
pairs() {
	local run kind order
	rm -f "$scratch"/pairs_*
	for ((run = 0; run < RUNS; run++)); do
		order=(bare shim rule named turn_shim turn_rule)
		[ $((run % 2)) = 0 ] || order=(turn_rule turn_shim named rule shim bare)
		for kind in "${order[@]}"; do
			case $kind in
			turn_*) one_pairs "$kind" 50 || return 1 ;;
			*) one_pairs "$kind" || return 1 ;;
			esac
		done
	done
} 2>"$scratch/errors"

pairs_report() {
	local kind ratio alloc trip
	write "| program | pair, mean us (median of runs, least - most) | alloc, median us | free, median us | pair, ratio to the bare run beside it |" "|---|---|---|---|---|"
	for kind in bare shim rule named; do
		paste -d' ' "$scratch/pairs_$kind" "$scratch/pairs_bare" | awk '{ print $1 / $4 }' >"$scratch/ratio_$kind"
		write "| $kind | $(median_of "$scratch/pairs_$kind" 1) | $(median_of "$scratch/pairs_$kind" 2) | $(median_of "$scratch/pairs_$kind" 3) | $(median_of "$scratch/ratio_$kind" 1) |"
	done
	write "" "bare: without the shim; shim: with it, nothing to name; rule: with a rule that never matches; named: every allocation is shared and withdrawn."
	write "" "One process differs from the next by more than the shim costs. So also within a process: the calls that the shim gave it, and the driver's own, in turns of 50 pairs." ""
	write "| program | pair through the shim, us | pair past the shim, us | ratio |" "|---|---|---|---|"
	for kind in turn_shim turn_rule; do
		awk '{ print $1 / $2 }' "$scratch/pairs_$kind" >"$scratch/ratio_$kind"
		write "| ${kind#turn_} | $(median_of "$scratch/pairs_$kind" 1) | $(median_of "$scratch/pairs_$kind" 2) | $(median_of "$scratch/ratio_$kind" 1) |"
	done
	write ""
	ratio=$(median_of "$scratch/ratio_turn_shim" 1)
	target "${ratio%% *}" 1.01 "unnamed pair with the shim: $ratio of the bare one in the same process, $(median_of "$scratch/ratio_shim" 1) from process to process (target: 1.01 or less)"
	paste -d' ' "$scratch/pairs_named" "$scratch/pairs_bare" | awk '{ print $2 - $5 }' >"$scratch/share"
	alloc=$(median_of "$scratch/share" 1)
	read -r trip _ <"$scratch/round_trip"
	write "- a registry round trip from C (gpushare_stat): median $trip us, p99 $(cut -d' ' -f2 "$scratch/round_trip") us"
	target "${alloc%% *}" 30 "a named share over the bare cuMemAlloc: $alloc us (target: one round trip, 30 us)"
}
if pairs; then pairs_report; else bad "app_pairs"; fi
