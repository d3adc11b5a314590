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

# module NAME...: run these modules of tests/python, until the first failure: it may leave names that make others fail
module() {
	cd "$ROOT/tests/python" || return 1
	run "$PYTHON" -X faulthandler -m unittest --failfast "$@"
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

@test "names of parts: one allocation, all names or none" {
	module test_parts
}

@test "PyTorch state dicts, with a stand-in for PyTorch" {
	needs_sim
	module test_torch
}

@test "safetensors files: read once per host, refused if they lie" {
	needs_sim
	module test_safetensors
}

@test "order, events and notices, where the library has them" {
	module test_order
}

@test "ctypes say what the header says" {
	module test_abi
}

# wheel_on VERSION: install the wheel for that Python, the system's, pyenv's or uv's, and run tests with it
wheel_on() {
	local found
	for found in {/usr,/usr/local}/bin/"python$1" ~/.pyenv/versions/"$1".*/bin/"python$1" \
		~/.local/share/uv/python/cpython-"$1".*/bin/"python$1"; do
		if "$found" -c 'import ensurepip' 2>/dev/null; then break; fi
		found=
	done
	[ -n "$found" ] || skip "Python $1 is not installed"
	run -0 "$found" -m venv "$WORK/venv"
	run -0 "$PYTHON" "$ROOT/tools/python/backend.py" "$WORK/dist"
	run -0 "$WORK/venv/bin/pip" install -q --no-index --no-deps "$WORK"/dist/*.whl
	PYTHON=$WORK/venv/bin/python
	GPUSHARE_TEST_PACKAGE=$("$PYTHON" -Ic 'import sysconfig; print(sysconfig.get_path("purelib"))')
	export GPUSHARE_TEST_PACKAGE
	module test_buffers test_parts test_sharing test_life test_order
}

@test "the wheel on Python 3.9" {
	wheel_on 3.9
}

@test "the wheel on Python 3.10" {
	wheel_on 3.10
}

@test "the wheel on Python 3.11" {
	wheel_on 3.11
}

@test "the wheel on Python 3.12" {
	wheel_on 3.12
}

@test "the wheel on Python 3.13" {
	wheel_on 3.13
}

@test "the wheel and the sdist: the same bytes each time, installed without an index" {
	module test_package
}
