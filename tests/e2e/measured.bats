#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The measurements for the GPU host, on the simulated driver: they run, and their results are complete.
load helpers

# row WORDS: the row of WORDS in the table of targets, its cells separated by tabs
row() {
	awk -F' *\\| *' -v what="$1" '/^## / { on = /beside its targets/ } on && $2 == what { print $3 "\t" $4 "\t" $5 "\t" $6 "\t" $7 }' \
		"$WORK/out/RESULTS.md"
}

@test "the CPU's side: every target has its figure, and gdrcopy's beside it" {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented build is not for measuring"
	GPUSHARE_BUNDLE_SIM=1 GPUSHARE_GPU_DUMP=4194304 run -0 "$ROOT/tests/gpu/run.sh" "$WORK/out" host
	has "$output" " 0 failed"
	number='[0-9.]+'
	while IFS=';' read -r what target h100 b200; do
		echo "$what: $(row "$what")"
		[[ $(row "$what") =~ ^"$target"$'\t'$number$'\t'"simulated driver"$'\t'"$h100"$'\t'"$b200"$ ]]
	done <<-'TABLE'
		store 8 B, us;0.05 or less;;0.10
		store 64 KiB, by memcpy or gpushare_copy_to, us;2.8 or less;;2.9
		load 8 B, us;1.2 or less;;1.16
		a mirror's opening, of the pinned copy beside it;0.9 or more;;
		a mirror's write-back, of the pinned copy beside it;0.9 or more;;
	TABLE
	for size in 1 4 16 64 256 1024 4096 16384 65536 262144 1048576 4194304 16777216; do
		equal "$(grep -c "^| $size |" "$WORK/out/RESULTS.md")" 1
	done
	has "$(cat "$WORK/out/RESULTS.md")" "what the CPU stores CUDA copies out"
}

@test "a figure that is missing misses its target" {
	mkdir "$WORK/out"
	within() {
		results=$WORK/out/R root=$ROOT scratch=$WORK shm=$WORK bash -c '. "$0/tests/gpu/stage.bash"; within "$1" "$2"' "$ROOT" "$@"
	}
	within 0.05 0.05
	within 2.8 17
	run -1 within 17 2.8
	run -1 within "" 2.8
	run -1 within 2.8 ""
	run -1 within nan 2.8
	run -1 within 2.8 -nan
}
