# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what the shim costs, and the targets that it is held to.
: "${bin:?}" "${scratch:?}"
PAIRS=${GPUSHARE_GPU_PAIRS:-10000} PAIR_SIZE=2097152 RUNS=${GPUSHARE_GPU_RUNS:-15}

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
	local kind ratio alloc
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
	aim 1.01 "${ratio%% *}" "unnamed pair with the shim: $ratio of the bare one in the same process, $(median_of "$scratch/ratio_shim" 1) from process to process (target: 1.01 or less)"
	paste -d' ' "$scratch/pairs_named" "$scratch/pairs_bare" | awk '{ print $2 - $5 }' >"$scratch/share"
	alloc=$(median_of "$scratch/share" 1)
	aim 30 "${alloc%% *}" "a named share over the bare cuMemAlloc: $alloc us (target: one round trip, 30 us)"
}
if pairs; then pairs_report; else bad "app_pairs"; fi
