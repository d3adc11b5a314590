#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Python package in tools/python: runs its own tests (tests/python), with numpy if it is installed.
load helpers

setup_more() {
	PYTHON=$(type -P /usr/bin/python3 python3 | head -n 1) # Debian's has Debian's numpy
	[ -n "$PYTHON" ] || skip "python3 is not installed"
	export GPUSHARE_LIBRARY=$BUILD/libgpushare.so.0 PYTHONDONTWRITEBYTECODE=1 BUILD
	# An instrumented library needs the sanitizer runtime loaded first.
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented library in a python that is not"
}

module() {
	cd "$ROOT/tests/python" || return 1
	run "$PYTHON" -X faulthandler -m unittest "$1"
	echo "$output"
	[ "$status" = 0 ]
}

@test "names, copies, maps, mirrors" {
	module test_buffers
}

@test "no name is seen before its tags and contents" {
	module test_staged
}

@test "DLPack, the CUDA array interface, arrays and memoryviews" {
	module test_arrays
}

@test "arrays of other libraries are shared, or refused with a sentence" {
	module test_sharing
}

@test "the ends of interpreters, forked children and killed processes" {
	module test_life
}

@test "PyTorch state dicts, with a stand-in for PyTorch" {
	needs_sim
	module test_torch
}

@test "order, events and notices, where the library has them" {
	module test_order
}

@test "ctypes say what the header says" {
	module test_abi
}

@test "the wheel and the sdist: the same bytes each time, installed without an index" {
	module test_package
}
