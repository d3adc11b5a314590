#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which branches of registry/ and shim/ the tests take: tests/coverage.sh [FILTER]
# Built in build-coverage, which stays. Counts are written at exit(): what only a process does that is
# killed, or leaves by _exit() (the keeper, autostart's child), is not among them, nor are the five files
# that are never instrumented (see SANFLAGS in the Makefile).
set -u
cd "$(dirname "$0")/.." || exit 1
command -v gcovr >/dev/null || { echo "skipped: coverage: gcovr is not installed" && exit 0; }
build=build-coverage
find "$build" -name '*.gcda' -delete 2>/dev/null
make check "BUILD=$build" COVERAGE=1 CFLAGS='-O0 -g' "T=${1:-}" | tail -n 30
for room in registry shim; do
	gcovr --root . --object-directory "$build" --filter "$room/" --branches --exclude-unreachable-branches \
		--exclude-throw-branches "$build" 2>/dev/null | tee "$build/$room.txt" | awk -v "room=$room" '
		/^TOTAL/ { total = $NF; next }
		/%/ && $NF + 0 < 85 || $4 + 0 < 85 && $4 ~ /%/ { print "  " $1, $4 }
		END { }'
	echo "coverage: $room: $(grep '^TOTAL' "$build/$room.txt" | awk '{ print $4 }') of $(grep '^TOTAL' "$build/$room.txt" | awk '{ print $2 }') branches"
done
