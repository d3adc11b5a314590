#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/bench/run.sh [OUT_DIR]: measures what the preload costs a program in which it has nothing to name. Writes its part
# of OUT_DIR/RESULTS.md (docs/measurements/bench). A missed target is reported and is no failure; a measurement that fails
# is one. GPUSHARE_BENCH_ROUNDS and _STARTS make it shorter or longer.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
BUILD=$(cd "$root" && cd "${BUILD:-build}" && pwd) || exit 1
bin=$BUILD/tests/bin bench=$BUILD/bench shim=$BUILD/libgpushare_shim.so
out=$(cd "${1:-$here/../../docs/measurements/bench}" && pwd) || exit 1
# shellcheck source=tests/bench/measuring.bash
. "$here/measuring.bash"
mkdir -m 700 "$scratch/r"
export GPUSHARE_DIR=$scratch/r GPUSHARE_AUTOSTART=0
unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_TIMEOUT_MS GPUSHARE_LOG XDG_RUNTIME_DIR LD_PRELOAD
ROUNDS=${GPUSHARE_BENCH_ROUNDS:-9} STARTS=${GPUSHARE_BENCH_STARTS:-400}
# shellcheck source=tests/bench/results.bash
. "$here/results.bash"
# shellcheck source=tests/bench/report.bash
. "$here/report.bash"

# The cases: what we add to a program's environment. In `named`, one buffer is alive and its rule is used up.
# In `both`, a buffer is alive and another rule may still match.
cases=(bare shim rule named both)
declare -A more=(
	[bare]=""
	[shim]="LD_PRELOAD=$shim"
	[rule]="LD_PRELOAD=$shim GPUSHARE_NAME=never:size=512Gi"
	[named]="LD_PRELOAD=$shim GPUSHARE_NAME=w:nth=1"
	[both]="LD_PRELOAD=$shim GPUSHARE_NAME=w:nth=1,never:size=512Gi"
)
ways=(linked dlsym proc runtime)

# in_case CASE PROGRAM...: run the program in that case, on the driver whose calls cost nothing
in_case() {
	# shellcheck disable=SC2086 # words
	env LD_LIBRARY_PATH="$bench${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ${more[$1]} "${@:2}" 2>"$scratch/errors"
}

# Check, before and after the measurements, that the cases with a name have one buffer in every way: without the
# buffer they would measure nothing.
check_naming() {
	local way held names
	for way in "${ways[@]}"; do
		for kind in named both; do
			mkfifo "$scratch/in" "$scratch/out"
			in_case $kind "$bench/way_$way" hold <"$scratch/in" >"$scratch/out" &
			exec 8>"$scratch/in" 9<"$scratch/out"
			rm "$scratch/in" "$scratch/out"
			read -r -t 20 held <&9 || held=
			names=$("$BUILD/gpushare" ls --json | jq -r 'map(.name) | join(" ")')
			exec 8>&- 9<&-
			wait $! || fail "way_$way: exit code $?"
			[ "$held $names" = "held w" ] || fail "way_$way, $kind: names are '$names'"
		done
	done
}

measure_calls() {
	local round way kind order
	for ((round = 0; round < ROUNDS; round++)); do
		order=("${cases[@]}")
		[ $((round % 2)) = 0 ] || order=(both named rule shim bare)
		for way in "${ways[@]}"; do
			for kind in "${order[@]}"; do
				in_case "$kind" "$bench/way_$way" 1 40 16 100 >"$scratch/said" || fail "way_$way, $kind"
				sed "s/^/$kind $way $round /" "$scratch/said" >>"$scratch/calls"
			done
		done
	done
	awk -f "$here/added.awk" "$scratch/calls" >"$scratch/added" || fail "calls"
}

measure_start() {
	"$bin/app_startup" "$STARTS" "$bin/app_nothing" "${more[bare]}" "${more[shim]}" "${more[named]}" \
		>"$scratch/starts" 2>"$scratch/errors" || fail "start-up"
}

echo "measuring what the preload costs; this takes a minute or two"
start_registry
check_naming
measure_calls
check_naming
measure_start
report
