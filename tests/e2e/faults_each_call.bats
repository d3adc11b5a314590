#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each call that the project's objects make, and each answer that they get, goes wrong once: see tests/faults. This file
# tries each in one way or a few. `make faults` tries all ways, and the daemon's calls. Simulated driver only.
load helpers

setup_more() {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented library's calls are its instruments'"
	[ -z "${EMULATOR:-}" ] || skip "the emulator's calls would be failed too"
	unset GPUSHARE_TIMEOUT_MS # the scenes have their own
	export FAULTS_QUICK=1 FAULTS_TIMES=1 FAULTS_LIMIT_MS=$((6000 + 20 * SLACK_MS)) FAULTS_JOBS=$((3 * ${GPUSHARE_TEST_JOBS:-$(nproc)}))
	export TMPDIR=$WORK
}

each() {
	bash "$ROOT/tests/faults/each.bash" "$@"
}

@test "a program's names: each call and answer of the preload's fails once" {
	each names
}

@test "mapped and kept memory of a program: each call and answer of the preload's fails once" {
	each mapped
}

@test "attached memory of a program: each call and answer of the preload's fails once" {
	each attached
}

@test "managed memory of a program, and contexts that end: each call of the driver and answer fails once" {
	FAULTS_ONLY='^(cu|ask|fds)' each managed contexts
}

@test "publishing for a program, and starting a registry: each call and answer of the preload's fails once" {
	each published start
}

@test "the API's plain buffers: each call and answer of the library's fails once" {
	each api_ipc
}

@test "the API's unified buffers: each call and answer of the library's fails once" {
	each api_unified
}

@test "parts of the API's buffers: each call and answer of the library's fails once" {
	each api_parts
}

@test "the API attaches: each call and answer of the library's fails once" {
	each api_attach
}

@test "what was found by the scenes that are too long for here" {
	FAULTS_ONLY='^cuMemAlloc_v2@' each deferred
	FAULTS_ONLY='^realloc@' each top restore
	FAULTS_ONLY='^(rename|mkdtemp|linkat)@' FAULTS_TIMES=2 each dump_set
}
