# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: the contract and end-to-end tests, several files at a time.
# FILTERS: parts of the names of those that are wanted; none: all. GPUSHARE_GPU_SHARE=K/N: every N-th file of
# those from the K-th on, for visits that are shorter than all of them. GPUSHARE_GPU_JOBS: files at a time.
: "${root:?}" "${out:?}" "${scratch:?}"
# Those that compare how much of the whole GPU is free, or use something up of it: cuMemGetInfo, the verbs
# mark and marked, api_chaos. Nothing else is run beside them.
ALONE=(chaos.bats contract_apart contract_context contract_event contract_limbo scale.bats soak.bats)

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
mkdir "$scratch/tests"
jobs=$(($(nproc) / 2))
jobs=${GPUSHARE_GPU_JOBS:-$((jobs < 1 ? 1 : jobs > 10 ? 10 : jobs))}
# run_tests JOBS: the files on stdin
run_tests() {
	# shellcheck disable=SC2016 # the inner shell's
	xargs -P "$1" -I FILE bash -c \
		'"$1" --said "$2" >"$3$2" 2>&1; { echo "$SECONDS s: $2"; cat "$3$2"; } >>"$4"' \
		- "$root/tests/run" FILE "$scratch/tests" "$out/tests.log" # there, should we be ended
}

test_files | mine >"$scratch/files"
alone=$(printf '/%s\n' "${ALONE[@]}")
grep -vxF "$alone" "$scratch/files" | run_tests "$jobs"
grep -xF "$alone" "$scratch/files" | run_tests 1
# Others beside it take memory and contexts of the same GPU: what failed has one more try, alone.
for log in "$scratch"/tests/*; do
	[ -f "$log" ] || continue
	[[ $(tail -n 1 "$log") != *" passed, 0 failed, "* ]] || continue
	again=$("$root/tests/run" --said "/${log##*/}" 2>&1)
	if [[ $(tail -n 1 <<<"$again") == *" passed, 0 failed, "* ]]; then
		sed -n 's/^ *not ok [0-9]* /failed beside others, passed alone: /p' "$log"
		printf '%s\n' "$again"
	else
		cat "$log"
		printf 'And alone:\n%s\n' "$again"
	fi >"$log.again"
	mv "$log.again" "$log"
done
cat "$scratch"/tests/* 2>/dev/null | grep -v ' passed, [0-9]* failed, [0-9]* skipped$' >"$out/tests.log"
# The summary is each file's last line; one without it was ended.
for log in "$scratch"/tests/*; do
	[ -f "$log" ] || continue
	summary=$(tail -n 1 "$log")
	[[ $summary == *" passed, "* ]] || summary="0 passed, 1 failed, 0 skipped"
	echo "${log##*/}: $summary" >>"$out/tests.log"
	echo "$summary"
done | awk '{ p += $1; f += $3; s += $5 } END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' >"$scratch/sum"
cat "$out/tests.log"
: >"$scratch/errors"
if grep -q '^[1-9][0-9]* passed, 0 failed' "$scratch/sum"; then
	ok "contract, end-to-end: $(cat "$scratch/sum")"
else
	bad "contract, end-to-end: $(cat "$scratch/sum")"
fi
