#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Coarse limits on what the preload costs where nothing is named; `make bench` measures it.
load helpers

# An instrumented library comes behind the instruments: they are on both sides.
base=${GPUSHARE_TEST_ASAN_PRELOAD:-}
rule=never:size=512Gi

# footprint RULES PRELOAD: "THREADS FDS RSS PSS ANONYMOUS" of a program that has used the driver
footprint() {
	env LD_PRELOAD="$2" GPUSHARE_NAME="$1" "$BIN/app_footprint" </dev/null
}

# least RULES PRELOAD: the least resident memory of nine runs, KiB: how much of a file the kernel
# maps around a page differs from run to run
least() {
	local i
	for ((i = 0; i < 9; i++)); do footprint "$1" "$2" || return 1; done | awk '
		!best || $3 < best { best = $3 }
		END { print best; exit NR != 9 }'
}

# median NUMBER...: the middle one of five
median() {
	printf '%s\n' "$@" | sort -n | awk '{ sorted[NR] = $1 } END { print sorted[3]; exit NR != 5 }'
}

@test "cost: no thread and no descriptor more, without rules and with one that never matches" {
	expected=$(footprint "" "$base" | cut -d' ' -f1-2)
	[[ $expected =~ ^[0-9]+\ [0-9]+$ ]]
	equal "$(footprint "" "$PRELOAD" | cut -d' ' -f1-2)" "$expected"
	equal "$(footprint $rule "$PRELOAD" | cut -d' ' -f1-2)" "$expected"
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "cost: under 300 KiB of resident memory more, without rules and with one that never matches" {
	[ -z "$base${COVERAGE:-}" ] || skip "an instrumented library's memory is its instruments'"
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || skip "only the simulated driver's own memory is steady"
	# What the kernel maps around is chance on both sides: one try of five is enough.
	for ((try = 0; try < 5; try++)); do
		bare=$(least "" "")
		without=$(($(least "" "$SHIM") - bare)) with=$(($(least $rule "$SHIM") - bare))
		echo "without rules $without KiB more, with one $with"
		if [ $without -lt 300 ] && [ $with -lt 300 ]; then return 0; fi
	done
	return 1
}

@test "cost: under 5 ms added to the start of a program without CUDA" {
	[ -z "$base" ] || skip "an instrumented library's start-up is its instruments'"
	for ((try = 0; try < 5; try++)); do
		run -0 "$BIN/app_startup" 40 "$BIN/app_nothing" "" "LD_PRELOAD=$SHIM" \
			"LD_PRELOAD=$SHIM GPUSHARE_NAME=w"
		echo "$output"
		equal "$(lines "$output")" 3
		without[try]=$(awk 'NR == 2 { print int($3) }' <<<"$output")
		with[try]=$(awk 'NR == 3 { print int($3) }' <<<"$output")
	done
	[ "$(median "${without[@]}")" -lt 5000 ]
	[ "$(median "${with[@]}")" -lt 5000 ]
}
