#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# faults_each.bash CHECK WORD...: runs build/tests/bin/drv_linked with that script, under the preload
# that PRELOAD names and the rules in the environment, once for each driver call that the shim makes
# and for its 1st and 2nd time (or as many as TIMES says), which fails. Each time the program's output
# and exit code are those of a run without us, or of one without us where a call of the program's own
# failed. Says the first run that is not so and ends with 1. CHECK looks at each run's log and stderr:
# names, attachments, nothing. OMIT: an extended expression, calls that are left out.
# A script of its own: bats looks at every command of a test, which takes longer than the programs.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
log=$WORK/each.log
check=$1
shift

# As the shim's source has them, so that none can be forgotten.
calls() {
	grep -ohE 'driver->cu[A-Z]\w*' "$root"/shim/{preload/shim_*.[ch],cuda/shim_*.h,cuda/vmm*.c} | sed 's/.*->//' | sort -u |
		grep -vxE "${OMIT:-}"
}

# An address that the program prints after a call of its own has failed is another in each run.
same_addresses() {
	sed -E 's/\+[0-9]{10,}/+ADDRESS/' <<<"$1"
}

# run PRELOAD FAULT WORD...: the program's output and exit code in $output
run() {
	local code=0
	LD_PRELOAD=$1 GPUSHARE_SIM_FAIL=$2 GPUSHARE_LOG=$log "$BUILD/tests/bin/drv_linked" "${@:3}" \
		</dev/null >"$WORK/each.out" 2>"$WORK/each.err" || code=$?
	IFS= read -r -d '' output <"$WORK/each.out"
	output+="exit $code"
}

# own_fault OUTPUT CALL WORD...: could a failure of the program's own call have made it?
own_fault() {
	local wanted nth
	wanted=$(same_addresses "$1")
	for nth in 1 2 3 4 5 6; do
		run "" "$2:$nth:1" "${@:3}"
		[ "$wanted" != "$(same_addresses "$output")" ] || return 0
	done
	return 1
}

# refused_free OUTPUT CALL: an attached buffer that the driver does not unmap is a free that fails as
# the driver says; one of a stream of which it does not tell whether it is captured is made anew
refused_free() {
	[ "$check" = attachments ] || return 1
	[ "$(grep -v '^drop ' <<<"$1")" = "$(grep -v '^drop ' <<<"$quiet")" ] || return 1
	case $2 in
	cuStreamIsCapturing) [ "$(grep -c '^drop .: 0' <<<"$1")" = 2 ] ;;
	cuIpcCloseMemHandle | cuMemUnmap | cuMemAddressFree | cuMemRelease | cuStreamSynchronize)
		[ "$(grep -c '^drop .: 999' <<<"$1")" = 1 ]
		;;
	*) return 1 ;;
	esac
}

# count FILE TEXT: in how many lines of the file it is, in $counted
count() {
	local line found=0
	while IFS= read -r line; do
		[[ $line != *"$2"* ]] || found=$((found + 1))
	done <"$1"
	counted=$found
}

# A name that was left behind would stand in the next one's way; after a failed call of its own the
# program may still have the memory.
check_names() {
	[ "$output" = "$quiet" ] || return 0
	count "$log" "is taken by"
	[ "$counted" = 0 ] || return 1
	count "$log" "is shared"
	[ "$1" != unharmed ] || [ "$counted" = 2 ]
}

# One of the two allocations may have been refused; one line of the log says why.
check_attachments() {
	local taken said
	count "$log" "is attached"
	taken=$counted
	count "$log" "; the program gets ordinary memory"
	said=$counted
	[ ! -s "$WORK/each.err" ] && [ "$said" -le 1 ] || return 1
	[ "$output" != "$quiet" ] || [ "$taken" -ge 1 ] || return 1
	[ "$1" != unharmed ] || [ "$taken $said" = "2 0" ]
}

check_nothing() {
	:
}

fail() {
	printf '%s\n' "$1" "--- is:" "$2" "--- should be:" "$quiet" "--- log, stderr:"
	cat "$log" "$WORK/each.err"
	exit 1
}

run "" "" "$@"
quiet=$output
[[ $quiet == *"exit 7" ]] || fail "the program does not run" "$output"
: >"$log"
run "$PRELOAD" "" "$@"
[ "$output" = "$quiet" ] && check_"$check" unharmed || fail "without a fault" "$output"
seen=0
for call in $(calls); do
	for ((nth = 1; nth <= ${TIMES:-2}; nth++)); do
		: >"$log"
		run "$PRELOAD" "$call:$nth:1" "$@"
		is=$output
		check_"$check" harmed || fail "$call:$nth:1: $check" "$is"
		seen=$((seen + 1))
		[ "$is" != "$quiet" ] || continue
		refused_free "$is" "$call" || own_fault "$is" "$call" "$@" || fail "$call:$nth:1" "$is"
	done
done
[ $seen -ge 60 ] || fail "only $seen faults: the calls were not found" ""
