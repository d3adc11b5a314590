#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each of the daemon's own calls fails once. The daemon then exits with a message or keeps serving, and no client gets
# a wrong answer. `make faults` tests all calls in all ways.
load helpers

setup_more() {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented registry's calls are its instruments'"
	[ -z "${EMULATOR:-}" ] || skip "the emulator's calls would be failed too"
	[ -d "$BUILD/obj/registry" ] || skip "no object files here"
	unset GPUSHARE_TIMEOUT_MS # the scenes have their own
	export FAULTS_QUICK=1 FAULTS_TIMES=1 FAULTS_JOBS=$((3 * ${GPUSHARE_TEST_JOBS:-$(nproc)}))
	export TMPDIR=$WORK
}

fails() {
	FAULTS_ONLY="^($1)@" bash "$ROOT/tests/faults/each.bash" "${@:2}"
}

@test "memory, of a registry" {
	fails 'malloc|calloc|realloc|strdup|getline' registry
}

@test "memory, of its successor" {
	fails 'malloc|calloc|realloc|strdup|getline' successor
}

FILES='open|openat|lstat|rename|renameat|pwrite|ftruncate|mmap|memfd_create'
SOCKETS='socket|accept4|bind|listen|eventfd|epoll_create1|pthread_create'

@test "files and sockets, of a registry" {
	fails "$FILES|$SOCKETS" registry
}

@test "files and sockets, of its successor" {
	fails "$FILES|$SOCKETS" successor
}
