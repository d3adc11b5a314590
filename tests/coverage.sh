#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which branches of registry/ and shim/ the tests take: tests/coverage.sh [FILTER]
# Built in build-coverage, which stays. Counts are written at exit(): what only a process does that is
# killed, or leaves by _exit() (the keeper, autostart's child), is not among them, nor are the five files
# that are never instrumented (see SANFLAGS in the Makefile).
# What uthash's macros branch to is not ours, and left out.
set -u
cd "$(dirname "$0")/.." || exit 1
for tool in gcovr jq; do
	command -v $tool >/dev/null || { echo "skipped: coverage: $tool is not installed" && exit 0; }
done
build="build-coverage"
find "$build" -name '*.gcda' -delete 2>/dev/null
make check "BUILD=$build" COVERAGE=1 CFLAGS='-O0 -g' "T=${1:-}" | tail -n 30
for room in registry shim; do
	gcovr --root . --filter "$room/" --exclude-unreachable-branches --exclude-lines-by-pattern '.*\b(HASH|DL)_[A-Z]' --gcov-ignore-parse-errors \
		--json-summary "$build/$room.json" "$build" >/dev/null || exit
	jq -r --arg room "$room" '(.files[] | select(.branch_total > 0 and .branch_percent < 85) |
		"  \(.branch_percent) %  \(.filename), \(.branch_covered) of \(.branch_total)"),
		"coverage: \($room): \(.branch_percent) % of \(.branch_total) branches, \(.line_percent) % of \(.line_total) lines"' \
		"$build/$room.json"
done
