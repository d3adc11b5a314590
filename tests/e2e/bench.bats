#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What `make bench` runs, with so few rounds that its numbers mean nothing.
load helpers

setup_more() {
	[ -x "$BUILD/bench/trips" ] || skip "instruments would be measured"
	mkdir "$WORK/tmp" "$WORK/out"
	export TMPDIR=$WORK/tmp
	export GPUSHARE_BENCH_TRIP_ROUNDS=3 GPUSHARE_BENCH_TRIPS=20 GPUSHARE_BENCH_RATE_ROUNDS=1 GPUSHARE_BENCH_RATE_MS=50 \
		GPUSHARE_BENCH_CLIENTS=1,3 GPUSHARE_BENCH_MANY="100 700" \
		GPUSHARE_BENCH_ROUNDS=1 GPUSHARE_BENCH_STARTS=5
}

# A run leaves no files and no processes behind.
nothing_is_left() {
	equal "$(ls -A "$WORK/tmp")" ""
	[ -z "$(grep -lsaF "$WORK/tmp/" /proc/[0-9]*/cmdline)" ]
}

# cells PATTERN: the cells of the first row that matches PATTERN, one a line
cells() {
	grep -m 1 "$1" "$WORK/out/RESULTS.md" | tr '|' '\n' | sed 's/^ *//; s/ *$//; /^$/d'
}

has_numbers() {
	local row cell
	mapfile -t row < <(cells "$1")
	[ ${#row[@]} -ge 2 ] || { echo "no row: '$1'"; return 1; }
	for cell in "${row[@]:1}"; do
		[[ $cell =~ ^[0-9]+(\.[0-9]+)? ]] || { echo "no number: '$cell'"; return 1; }
	done
}

@test "the registry beside others: every row has its numbers, nothing is left" {
	printf '# Another part\n\nits text\n\n# The registry beside others\n\nold\n\n# A third\n\nlast\n' >"$WORK/out/RESULTS.md"
	run -0 "$ROOT/tests/bench/registry.sh" "$WORK/out"
	echo "$output"
	nothing_is_left
	equal "$(grep '^# ' "$WORK/out/RESULTS.md")" "# Another part
# The registry beside others
# A third"
	[ "$(grep -c '^old' "$WORK/out/RESULTS.md")" = 0 ]
	equal "$(tail -n 1 "$WORK/out/RESULTS.md")" last
	for row in "bare SOCK_SEQPACKET" "bare nng server" "its socket |" "nng client" "its index (" "memory, bytes" \
		"to enter one" "to look one up" 'list `model07' 'list `none'; do
		has_numbers "^| [^|]*$row"
	done
	equal "$(cells '^| list `\*`' | wc -l)" 3
	has "$(cat "$WORK/out/RESULTS.md")" 'Of 700 names `model07/*` fits 7, `*99.weight` fits 7, `none*` fits 0, `*` fits 700.'
}

@test "what can't be measured is a failure, and nothing is left of it" {
	run -1 env GPUSHARE_BENCH_MANY=0 "$ROOT/tests/bench/registry.sh" "$WORK/out"
	has "$output" "not measured: sharing 0 names"
	[ ! -e "$WORK/out/RESULTS.md" ]
	nothing_is_left
}

@test "the preload's cost: measured and written into its own part" {
	needs jq
	printf '# The registry beside others\n\nkept\n' >"$WORK/out/RESULTS.md"
	run -0 "$ROOT/tests/bench/run.sh" "$WORK/out"
	has "$(cat "$WORK/out/RESULTS.md")" "
kept

# What the preload costs
"
	[[ $(cells 'added to an unnamed call, no rule') =~ "50 ns or less"$'\n'-?[0-9.]+" ns at most" ]]
	[[ $(cells 'a program without CUDA, no rule') =~ "under 1 ms"$'\n'-?[0-9.]+" ms" ]]
	nothing_is_left
}
