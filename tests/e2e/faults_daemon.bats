#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each of the daemon's own calls fails once. The daemon then exits with a message or keeps serving, and no client gets
# a wrong answer. `make faults` makes them fail in all ways.
load helpers

setup_more() {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented registry's calls are its instruments'"
	[ -z "${EMULATOR:-}" ] || skip "the emulator's calls would be failed too"
	[ -d "$BUILD/obj/registry" ] || skip "no object files here"
	unset GPUSHARE_TIMEOUT_MS # the scenes have their own
	export FAULTS_QUICK=1 FAULTS_TIMES=1 FAULTS_JOBS=$((3 * ${GPUSHARE_TEST_JOBS:-$(nproc)}))
	export TMPDIR=$WORK
	chmod 755 "$WORK" # other users run commands there
}

fails() {
	bash "$ROOT/tests/faults/each.bash" "$@"
}

@test "each call of a registry" {
	fails registry
}

@test "each call of its successor" {
	fails successor
}

@test "each call for limits, the audit and other users" {
	fails limits audit audit_journal system
}
