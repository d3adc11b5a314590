# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what the preload costs a program that it has nothing to name for; the
# registry beside others.
: "${root:?}" "${out:?}" "${scratch:?}"
mkdir -p "$out/bench"

# bench_part SCRIPT HEADING: its table of targets
bench_part() {
	write "" "## $2 (tests/bench)" ""
	if "$root/tests/bench/$1" "$out/bench" >"$scratch/said" 2>"$scratch/errors"; then
		write "$(awk -v head="# $2" '$0 == head { on = 1 } on && /^\|/ { print; table = 1; next } table { exit }' "$out/bench/RESULTS.md")"
		ok "bench: all of $1 was measured"
	else
		bad "bench: not all of $1 could be measured"
	fi
}

bench_part run.sh "What the preload costs"
GPUSHARE_BENCH_MANY=${GPUSHARE_BENCH_MANY:-10000} GPUSHARE_BENCH_RATE_ROUNDS=${GPUSHARE_BENCH_RATE_ROUNDS:-3} \
	bench_part registry.sh "The registry beside others"
