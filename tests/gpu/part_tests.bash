# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: the contract and end-to-end tests, several at a time, each by itself.
# FILTERS: parts of the names of those that are wanted; none: all. GPUSHARE_GPU_SHARE=K/N: every N-th file of
# those from the K-th on, for visits that are shorter than all of them. GPUSHARE_GPU_JOBS: tests at a time.
: "${root:?}" "${out:?}" "${scratch:?}"
# Those that compare how much of the whole GPU is free, or use something up of it (cuMemGetInfo, the verbs
# mark and marked, api_chaos), or that hold calls which the driver makes to a time limit: a GPU serves one
# process at a time. Nothing else is run beside them.
ALONE=(bad_registry.bats resync.bats chaos.bats contract_context contract_event contract_deferred full.bats deferred_bounds.bats
	scale.bats soak.bats threads.bats)

wanted() {
	local filter
	[ ${#FILTERS[@]} = 0 ] && return
	for filter in "${FILTERS[@]}"; do
		[[ ${1##*/} != *"$filter"* ]] || return 0
	done
	return 1
}

# The longest ones (by their size) first, and dealt out in turns to the visits.
mine() {
	local share=${GPUSHARE_GPU_SHARE:-1/1}
	awk -v k="${share%/*}" -v n="${share#*/}" '(NR - k) % n == 0'
}

# tests/run takes part of a name: a file that another's name is the beginning of runs with it.
test_files() {
	local file before=none
	for file in "$BUILD"/tests/contract_* "$root"/tests/e2e/*.bats; do
		if [ -f "$file" ] && [[ $file != *.d ]] && wanted "$file" && [[ $file != "$before"* ]]; then
			echo "$(wc -c <"$file") /${file##*/}"
			before=$file
		fi
	done | sort -k1,1nr -k2 | cut -d' ' -f2
}

write "" "## Tests on this driver${FILTERS[*]:+, those of ${FILTERS[*]}}${GPUSHARE_GPU_SHARE:+, part $GPUSHARE_GPU_SHARE of them}" ""
jobs=$(($(nproc) / 2))
jobs=${GPUSHARE_GPU_JOBS:-$((jobs < 1 ? 1 : jobs > 10 ? 10 : jobs))}
sums='^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$'
# run_tests JOBS: those of the files on stdin, each by itself. What it says is there, should we be ended; where
# it was ended itself, that counts as one that failed.
run_tests() {
	local files before
	mapfile -t files
	[ ${#files[@]} != 0 ] || return 0
	before=$(grep -cE "$sums" "$out/tests.log")
	[ "$1" = 1 ] || local -x GPUSHARE_TEST_GPU_SHARED=1
	GPUSHARE_TEST_EACH=1 GPUSHARE_TEST_JOBS=$1 "$root/tests/run" --said "${files[@]}" >>"$out/tests.log" 2>&1
	[ "$(grep -cE "$sums" "$out/tests.log")" != "$before" ] ||
		printf '\n%s\n%s\n' "what ran ${files[*]} was ended" '0 passed, 1 failed, 0 skipped' >>"$out/tests.log"
}

test_files | mine >"$scratch/files"
alone=$(printf '/%s\n' "${ALONE[@]}")
: >"$out/tests.log"
grep -vxF "$alone" "$scratch/files" | run_tests "$jobs"
grep -xF "$alone" "$scratch/files" | run_tests 1
cat "$out/tests.log"
# A file's tests together, and how long the longest of them took.
write "| file | passed | failed | skipped | the longest, s |" "|---|---|---|---|---|"
awk -F '[: ,]+' '/^[^: ]+( [0-9]+)?: [0-9]+ passed, / {
		at = /^[^:]* [0-9]+:/ ? 3 : 2
		if (!($1 in ok))
			order[++n] = $1
		ok[$1] += $at; bad[$1] += $(at + 2); left[$1] += $(at + 4)
		if (at == 3 && $9 > longest[$1])
			longest[$1] = $9
	}
	END { for (i = 1; i <= n; i++) { f = order[i]; printf "| %s | %d | %d | %d | %s |\n", f, ok[f], bad[f], left[f], longest[f] } }' \
	"$out/tests.log" | tee -a "$results"
write ""
sum=$(grep -E "$sums" "$out/tests.log" | awk '{ p += $1; f += $3; s += $5 } END { printf "%d passed, %d failed, %d skipped", p, f, s }')
: >"$scratch/errors"
if [[ $sum == [1-9]*" passed, 0 failed, "* ]]; then
	ok "contract, end-to-end: $sum"
else
	bad "contract, end-to-end: $sum"
fi
