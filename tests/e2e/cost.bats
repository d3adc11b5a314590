#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Coarse limits on what the preload costs if it names nothing. `make bench` measures the cost exactly.
load helpers

# The sanitizer runtime must be loaded before an instrumented library, so the runs without the preload have it too.
base=${GPUSHARE_TEST_ASAN_PRELOAD:-}
rule=never:size=512Gi

# steady RULES PRELOAD: resident memory of a program that has used the driver, without the part that varies from run to
# run (see app_footprint), KiB: the median of nine
steady() {
	local i
	for ((i = 0; i < 9; i++)); do
		env LD_PRELOAD="$2" GPUSHARE_NAME="$1" "$BIN/app_footprint" </dev/null || return 1
	done | sort -n | awk '
		NR == 5 { print }
		END { exit NR != 9 }'
}

# median NUMBER...: the median of five numbers
median() {
	printf '%s\n' "$@" | sort -n | awk '{ sorted[NR] = $1 } END { print sorted[3]; exit NR != 5 }'
}

@test "cost: under 300 KiB of resident memory more, without rules and with one that never matches" {
	[ -z "$base${COVERAGE:-}" ] || skip "an instrumented library's memory is its instruments'"
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || skip "only the simulated driver's own memory is steady"
	bare=$(steady "" "")
	without=$(steady "" "$SHIM")
	with=$(steady $rule "$SHIM")
	echo "without rules $((without - bare)) KiB more, with one $((with - bare))"
	[ $((without - bare)) -lt 300 ]
	[ $((with - bare)) -lt 300 ]
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

# steps WAY [VARIABLE=VALUE]...: a line "CALL INSTRUCTIONS" for a pair of calls of each kind. WAY is how the program
# finds the calls. "unloaded INSTRUCTIONS" counts ten pairs of the first kind after a library was unloaded.
steps() {
	env LD_LIBRARY_PATH="$BUILD/bench" "${@:2}" "$BUILD/bench/way_$1" steps "$BIN/lib_stubs.so"
}

counts_steps() {
	[ -z "$base${COVERAGE:-}${EMULATOR:-}" ] || skip "instruments and emulators have instructions of their own"
	[ "$(uname -m)" = x86_64 ] || skip "the limits are an x86-64's"
}

# added WAY LIMIT [VARIABLE=VALUE]...: the preload adds at most LIMIT instructions to each pair of calls
added() {
	steps "$1" >"$WORK/bare"
	steps "$1" LD_PRELOAD="$SHIM" "${@:3}" >"$WORK/preloaded"
	paste -d' ' "$WORK/preloaded" "$WORK/bare" | awk -v limit="$2" -v case="$1 ${*:3}" '
		$1 == "unloaded" { next }
		{ print $1, "adds", $2 - $4, "of", limit, case; over += $1 != $3 || $4 <= 0 || $2 - $4 > limit }
		END { exit over || NR < 3 }'
}

@test "cost: few instructions more in a pair of unnamed calls" {
	counts_steps
	start_registry
	for way in linked dlsym proc runtime; do
		more=$([ $way != runtime ] || echo 60)
		added $way $((240 + more))
		added $way $((300 + more)) GPUSHARE_NAME=$rule
		added $way $((240 + more)) GPUSHARE_NAME=w:nth=1
		added $way $((320 + more)) GPUSHARE_NAME=w:nth=1,$rule
	done
	equal "$(gpushare metrics | sed -n 's/^gpushare_requests_total{verb="share"} //p')" 8
}

# under_after_unload WAY LIMIT: after a library was unloaded, ten pairs take less than LIMIT instructions more than
# usual
under_after_unload() {
	steps "$1" LD_PRELOAD="$SHIM ${many[*]}" GPUSHARE_NAME=$rule | awk -v limit="$2" -v way="$1" '
		NR == 1 { pairs = 10 * $2 }
		$1 == "unloaded" { print way, "adds", $2 - pairs, "of", limit; good = pairs && $2 - pairs < limit }
		END { exit !good }'
}

@test "cost: nothing more once a library was unloaded, of 250 that stand before libcuda" {
	counts_steps
	for ((i = 0; i < 250; i++)); do
		many[i]=$WORK/lib$i.so
		cp "$BIN/lib_sysv.so" "${many[i]}"
	done
	for way in linked dlsym proc runtime; do
		under_after_unload $way 400
	done
}
