# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what the preload costs a program that it has nothing to name for.
: "${root:?}" "${out:?}" "${scratch:?}"
write "" "## What the preload costs (tests/bench)" ""
mkdir -p "$out/bench"
if "$root/tests/bench/run.sh" "$out/bench" >"$scratch/said" 2>"$scratch/errors"; then
	write "$(sed -n '/^| what/,/^$/p' "$out/bench/RESULTS.md")"
	ok "bench: all of it was measured"
else
	bad "bench: not all could be measured"
fi
