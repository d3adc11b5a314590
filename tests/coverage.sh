#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures which branches of registry/ and shim/ the tests take: tests/coverage.sh [FILTER]
# It builds in build-coverage, which it leaves. A branch counts if `make check`, or tests/faults with one fault for each
# call, takes it at least once, in any process that is not killed: a killed process writes no counts. coverage_flush.c
# says where the other counts are written.
# Only two kinds of branches are left out: those that the compiler adds to a line without any, and those in macros of
# uthash and utlist. Without a FILTER, less than the floors is a failure. The output shows failed tests; `make check`
# judges them.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
declare -A floor=([registry]=88 [shim]=88 [both]=88)
for tool in gcovr jq; do
	command -v $tool >/dev/null || { echo "skipped: coverage: $tool is not installed" && exit 0; }
done
export FAULTS_OMIT='^syscall@gpushare-registry' # coverage_flush.c's
build=$PWD/build-coverage low=0
find "$build" -name '*.gcda' -delete 2>/dev/null
rm -rf "$build/counts"
mkdir -p "$build/counts" && chmod 1777 "$build/counts" # a test's own users come by
make check BUILD=build-coverage COVERAGE=1 CFLAGS='-O0 -g' "T=${1:-}" | tee "$build/check.log" | grep -v '^[^ ]*: [0-9]* passed, 0 failed,'
[ -n "${1:-}" ] || BUILD=$build FAULTS_QUICK=1 FAULTS_TIMES=1 tests/faults/each.bash all | tail -n 1

# Write each image's counts to where gcov looks for them.
while read -r image; do
	case $image in
	*.so | *.so.*) env GPUSHARE_COVERAGE_WRITE=1 LD_PRELOAD="$image" true ;;
	*) env GPUSHARE_COVERAGE_WRITE=1 "$image" </dev/null ;;
	esac || { echo "coverage: $image did not write what it had counted" && exit 1; }
done < <(find "$build" -type f -perm /111 ! -path '*/obj/*' -exec grep -lF GPUSHARE_COVERAGE_WRITE {} +)
[ -n "$(find "$build/obj/shim" -name '*.gcda' -print -quit)" ] || { echo "coverage: nothing was run" && exit 1; }

# share COVERED TOTAL: print the percentage, rounded down to a tenth
share() {
	awk -v "covered=$1" -v "total=$2" 'BEGIN { printf "%.1f", total ? int(1000 * covered / total) / 10 : 0 }'
}

# tell ROOM COVERED TOTAL: print the coverage and whether it reaches the floor
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
		--exclude-lines-by-pattern '.*\b(HASH_(ADD|DEL|FIND|ITER|SORT)|(DL|LL)_)' --gcov-ignore-parse-errors \
		--json-summary "$build/$room.json" "$build" >/dev/null || exit
	jq -r '.files[] | select(.branch_total > 0 and .branch_percent < 85) |
		"  \(.branch_percent) %  \(.filename), \(.branch_covered) of \(.branch_total)"' "$build/$room.json"
	read -r covered total < <(jq -r '"\(.branch_covered) \(.branch_total)"' "$build/$room.json")
	tell "$room" "$covered" "$total"
	all_covered=$((all_covered + covered)) all_total=$((all_total + total))
done
tell both $all_covered $all_total
exit $low
