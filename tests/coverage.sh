#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which branches of registry/ and shim/ the tests take: tests/coverage.sh [FILTER]
# Built in build-coverage, which stays. A branch counts that is taken at least once by `make check`. What
# leaves by _exit() writes its counts as well (coverage_flush.c); of what is killed, nothing is known.
# Left out: branches that the compiler makes where a line has none, and those within uthash's macros.
# Nothing else: no file, no line of ours. Less than the floors is a failure, where no FILTER is given.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
declare -A floor=([registry]=86 [shim]=80 [both]=83)
for tool in gcovr jq; do
	command -v $tool >/dev/null || { echo "skipped: coverage: $tool is not installed" && exit 0; }
done
build="build-coverage" low=0
find "$build" -name '*.gcda' -delete 2>/dev/null
# Who runs as another user, or may open nothing, can't write its counts; that is not the program's word.
mkdir -p "$build"
export GCOV_ERROR_FILE=$PWD/$build/gcov.log
rm -f "$GCOV_ERROR_FILE"
make check "BUILD=$build" COVERAGE=1 CFLAGS='-O0 -g' "T=${1:-}" | tail -n 30
[ -n "$(find "$build/obj/shim" -name '*.gcda' -print -quit)" ] || { echo "coverage: nothing was run" && exit 1; }

# What a process was killed over while it wrote says nothing any more, and gcovr would end over it.
while read -r counts; do
	gcov -n -o "${counts%/*}" "$counts" >/dev/null 2>&1 || { echo "coverage: torn: $counts" && rm -f "$counts"; }
done < <(find "$build/obj/registry" "$build/obj/shim" -name '*.gcda')

# share COVERED TOTAL: in percent, rounded down to a tenth
share() {
	awk -v "covered=$1" -v "total=$2" 'BEGIN { printf "%.1f", total ? int(1000 * covered / total) / 10 : 0 }'
}

# tell ROOM COVERED TOTAL: and whether that is enough
tell() {
	local percent
	percent=$(share "$2" "$3")
	echo "coverage: $1: $percent % of $3 branches (at least ${floor[$1]} %)"
	[ -z "$filter" ] || return 0
	awk -v "is=$percent" -v "least=${floor[$1]}" 'BEGIN { exit is < least }' && return 0
	echo "coverage: $1: less than ${floor[$1]} %"
	low=1
}

filter=${1:-} all_covered=0 all_total=0
for room in registry shim; do
	gcovr --root . --filter "$room/" --exclude-unreachable-branches \
		--exclude-lines-by-pattern '.*\b(HASH_(ADD|DEL|FIND|ITER|SORT)|DL_)' --gcov-ignore-parse-errors \
		--json-summary "$build/$room.json" "$build" >/dev/null || exit
	jq -r '.files[] | select(.branch_total > 0 and .branch_percent < 85) |
		"  \(.branch_percent) %  \(.filename), \(.branch_covered) of \(.branch_total)"' "$build/$room.json"
	read -r covered total < <(jq -r '"\(.branch_covered) \(.branch_total)"' "$build/$room.json")
	tell "$room" "$covered" "$total"
	all_covered=$((all_covered + covered)) all_total=$((all_total + total))
done
tell both $all_covered $all_total
exit $low
