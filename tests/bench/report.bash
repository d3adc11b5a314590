# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/bench/run.sh: turns the measurements into its part of RESULTS.md.
: "${ATTACHES:?}" "${no_gpu=}" "${here:?}" "${out:?}" "${scratch:?}" "${BUILD:?}" "${ROUNDS:?}" "${STARTS:?}" "${RUNS:?}"
CALL_TARGET=50 START_TARGET=1000 MEMORY_TARGET=300 RATIO_TARGET=1.005 WARM_TARGET=2 # ns, us, KiB, ratio, us

# The names of the cases in the report.
declare -A words=(
	[shim]="no rule"
	[rule]="a rule that never matches"
	[named]="one named buffer alive"
	[both]="one named buffer alive and a rule that may match"
)

rows_calls() {
	local kind way call threads phase worse
	for kind in shim rule named both; do
		read -r way call threads phase worse < <(awk -v k="$kind" '$1 == k { print $14, $2, $3, $4, $5 }' \
			"$scratch/added" | sort -gr | awk 'NR == 1 { print $2, $3, $4, $5, $1 }')
		row "added to an unnamed call, ${words[$kind]}" "$CALL_TARGET ns or less" \
			"$worse ns at most ($call, $phase, $way, $([ "$threads" = 1 ] && echo "1 thread" || echo "$threads threads"))" "$(verdict "$worse" $CALL_TARGET)"
	done
}

rows_start() {
	local kind added least most wall cpu bare_cpu
	read -r _ bare_cpu _ <"$scratch/starts"
	for kind in shim named; do
		read -r wall cpu added least most < <(sed -n "$([ $kind = shim ] && echo 2 || echo 3)p" "$scratch/starts")
		row "start-up added to a program without CUDA, $([ $kind = shim ] && echo "no rule" || echo "GPUSHARE_NAME set")" \
			"under 1 ms" "$(echo "$added $least $most $wall $cpu $bare_cpu" | awk '{
				printf "%.3f ms (quartiles %.3f, %.3f); CPU time %.3f; %.3f in all",
					$1 / 1e3, $2 / 1e3, $3 / 1e3, ($5 - $6) / 1e3, $4 / 1e3 }')" \
			"$(under "$added" "$START_TARGET")"
	done
}

# added_column KIND COLUMN: the spread of how much each run has more than the bare run beside it
added_column() {
	paste -d' ' "$scratch/footprint_$1" "$scratch/footprint_bare" | awk -v c="$2" '{ print $c - $(c + 6) }' >"$scratch/column"
	spread "$scratch/column" %d
}

rows_footprint() {
	local kind threads fds rss pss anonymous
	for kind in shim rule; do
		threads=$(added_column $kind 1) fds=$(added_column $kind 2) rss=$(added_column $kind 3)
		pss=$(added_column $kind 4) anonymous=$(added_column $kind 5)
		row "threads added, ${words[$kind]}" 0 "$threads" "$(verdict "${threads%% *}" 0)"
		row "descriptors added, ${words[$kind]}" 0 "$fds" "$(verdict "${fds%% *}" 0)"
		row "resident memory added, ${words[$kind]}" "under $MEMORY_TARGET KiB" \
			"$rss KiB; Pss $pss, of it anonymous $anonymous" "$(under "${rss%% *}" "$MEMORY_TARGET")"
	done
}

# attach_cost NAME WHAT: "median (least - most)"
attach_cost() {
	awk -F'\t' -v n="$1" -v w="$2" '$1 == n && $2 == w { printf "%.2f (%.2f - %.2f)", $3, $4, $5 }' "$scratch/attach"
}

rows_attach() {
	local kind warm
	[ -s "$scratch/attach" ] || return 0
	for kind in ipc vmm; do
		warm=$(attach_cost "$kind again" attach)
		row "attaching again what the session has, $kind" "$WARM_TARGET us or less" "$warm us" "$(verdict "${warm%% *}" $WARM_TARGET)"
		row "attaching first, $kind: the registry's part" "" "$(attach_cost $kind "registry round trips") us$([ $kind = ipc ] ||
			echo ", of it by fds.sock $(attach_cost $kind "of them by fds.sock, with a descriptor") us")" ""
	done
}

rows_gpu() {
	local ratio
	if [ -z "$gpu" ]; then
		row "2 MiB pair on a GPU, ratio" "$RATIO_TARGET" "no GPU here ($no_gpu)" "-"
		return
	fi
	ratio=$(spread "$scratch/gpu_turns" %.4f)
	row "2 MiB pair on a GPU, ratio within one process" "$RATIO_TARGET" "$ratio" "$(verdict "${ratio%% *}" $RATIO_TARGET)"
	ratio=$(spread "$scratch/gpu_processes" %.4f)
	row "2 MiB pair on a GPU, ratio of processes in turns" "$RATIO_TARGET" "$ratio" "$(verdict "${ratio%% *}" $RATIO_TARGET)"
}

details() {
	local kind
	for kind in shim rule named both; do
		printf '\n## Added to a call: %s, ns\n\n' "${words[$kind]}"
		echo "| way | call | threads | step | bare | added, CPU time of the thread | bare, wall | added, wall | |"
		echo "|---|---|---|---|---|---|---|---|---|"
		awk -v k="$kind" -v target=$CALL_TARGET '$1 == k { printf "| %s | %s | %s | %s | %s | %s (%s - %s) | %s | %s (%s - %s) | %s |\n",
			$2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 <= target ? "" : "**missed**" }' "$scratch/added"
	done
}

report() {
	local results=$out/RESULTS.md
	rows_calls
	rows_start
	rows_footprint
	rows_attach
	rows_gpu
	{
		echo "# What the preload costs"
		echo
		echo "Written by \`make bench\` on $(this_host "${gpu:-no GPU}")"
		echo
		echo "| what | target | measured | |"
		echo "|---|---|---|---|"
		cat "$scratch/summary"
		echo
		echo "Calls, threads, descriptors and memory are those of programs on a driver whose allocation costs nothing."
		echo "In brackets: least and most of $ROUNDS rounds (calls), 15 (memory), $RUNS (GPU), $ATTACHES (attaching); $STARTS starts of each kind."
		details
	} >"$scratch/results"
	put_part "$scratch/results" "$results" || exit 1
	sed -n '/^| what/,/^$/p' "$scratch/results" | sed 's/\*\*//g' | column -t -s'|' -o'|' | grep -v -- '---'
	echo "all of it is in $results"
}
