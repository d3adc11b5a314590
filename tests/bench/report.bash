# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/bench/run.sh: turns the measurements into its part of RESULTS.md.
: "${here:?}" "${out:?}" "${scratch:?}" "${BUILD:?}" "${ROUNDS:?}" "${STARTS:?}"
CALL_TARGET=50 START_TARGET=1000 # ns, us

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
	local results=$out/RESULTS.md gpu
	gpu=$("$BUILD/tests/bin/probe") || gpu="no GPU"
	rows_calls
	rows_start
	{
		echo "# What the preload costs"
		echo
		echo "Written by \`make bench\` on $(this_host "$gpu")"
		echo
		echo "| what | target | measured | |"
		echo "|---|---|---|---|"
		cat "$scratch/summary"
		echo
		echo "Calls are those of programs on a driver whose allocation costs nothing. In brackets: least and most of $ROUNDS rounds; $STARTS starts of each kind."
		details
	} >"$scratch/results"
	put_part "$scratch/results" "$results" || exit 1
	sed -n '/^| what/,/^$/p' "$scratch/results" | sed 's/\*\*//g' | column -t -s'|' -o'|' | grep -v -- '---'
	echo "all of it is in $results"
}
