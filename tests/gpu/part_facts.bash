# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what the driver answers to what the shim needs to know.
: "${bin:?}" "${out:?}" "${scratch:?}"
write "" "## What this driver answers" ""
"$bin/facts" 2>"$scratch/errors" | tee "$out/facts.txt"
if grep -q 'GIVEN UP' "$out/facts.txt" || [ ! -s "$out/facts.txt" ]; then
	bad "facts.txt: $(grep -c '' "$out/facts.txt") lines; not all could be asked: $(sed -n 's/: GIVEN UP.*//p' "$out/facts.txt" | tr '\n' ' ')"
else
	ok "facts.txt: $(grep -c '' "$out/facts.txt") lines"
fi
