#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# faults_each.bash CHECK WORD...: runs build/tests/bin/drv_linked with the script WORD... many times, under the
# preload in PRELOAD and the rules in the environment. In each run, one driver call fails. Every driver call that
# the shim makes fails in turn, at its 1st and 2nd use (up to TIMES, if set).
# The program's output and exit code must equal those of a run without the preload, or those of a run without the
# preload in which the same driver call failed. At the first mismatch, prints that run and exits with 1.
# CHECK selects the check of each run's log and stderr: names, attachments or nothing.
# OMIT: an extended regular expression; matching calls are left out.
# This is a separate script because bats traces every command of a test, which takes longer than the programs.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
log=$WORK/each.log
check=$1
shift

# Take the calls from the shim's source, so that a new call can't be forgotten.
calls() {
	grep -ohE 'driver->cu[A-Z]\w*' "$root"/shim/{preload/shim_*.[ch],cuda/shim_*.h,cuda/vmm*.c} | sed 's/.*->//' | sort -u |
		grep -vxE "${OMIT:-}"
}

# After a failed call of its own, the program prints an address that differs in each run.
same_addresses() {
	sed -E 's/\+[0-9]{10,}/+ADDRESS/' <<<"$1"
}

# run PRELOAD FAULT WORD...: run the program; $output is its output and exit code
run() {
	local code=0
	LD_PRELOAD=$1 GPUSHARE_SIM_FAIL=$2 GPUSHARE_LOG=$log "$BUILD/tests/bin/drv_linked" "${@:3}" \
		</dev/null >"$WORK/each.out" 2>"$WORK/each.err" || code=$?
	IFS= read -r -d '' output <"$WORK/each.out"
	output+="exit $code"
}

# own_fault OUTPUT CALL WORD...: can OUTPUT come from a failure of CALL in the program itself, without the preload?
own_fault() {
	local wanted nth
	wanted=$(same_addresses "$1")
	for nth in 1 2 3 4 5 6; do
		run "" "$2:$nth:1" "${@:3}"
		[ "$wanted" != "$(same_addresses "$output")" ] || return 0
	done
	return 1
}

# refused_free OUTPUT CALL: accept two differences. If the driver fails to unmap an attached buffer, one free
# returns the driver's error. If cuStreamIsCapturing fails, both frees succeed.
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

# count FILE TEXT: set $counted to the number of lines of FILE that contain TEXT
count() {
	local line found=0
	while IFS= read -r line; do
		[[ $line != *"$2"* ]] || found=$((found + 1))
	done <"$1"
	counted=$found
}

# A name that the shim left behind makes the next naming fail with "is taken by". If a call of the program's own
# failed, the program may still hold the memory: skip the check.
check_names() {
	[ "$output" = "$quiet" ] || return 0
	count "$log" "is taken by"
	[ "$counted" = 0 ] || return 1
	count "$log" "is shared"
	[ "$1" != unharmed ] || [ "$counted" = 2 ]
}

# At most one of the two allocations may be refused, and one line of the log gives the reason.
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
