#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare.hpp, built with each C++ compiler that the build found, including the example that vineyard publishes.
load helpers

# each TEST...: run TEST with each compiler's program; skip if there is none
each() {
	local program found=0
	for program in "$BIN"/cpp_app_*; do
		[ -x "$program" ] || continue
		found=1
		"$@" "$program"
	done
	[ $found = 1 ] || skip "no C++ compiler made a cpp_app"
}

vineyard() {
	rm -f "$WORK/up" "$WORK/end"
	start creator "$1" create "$WORK/up" "$WORK/end"
	await_file "$WORK/up"
	equal "$("$1" get)" "CPU data from GPU is: hello world
GPU data is still: hello world"
	down
	equal "$(cat "$WORK/creator.out")" "GPU data is: hello world
deleted"
	run -1 --separate-stderr "$1" get
	has "$stderr" "-3: "
	has "$stderr" "object"
}

@test "vineyard's example: create, compose, get, read from the CPU, refuse writing, delete" {
	each vineyard
}

scopes() {
	equal "$("$1" scopes)" "all ended"
}

@test "scopes end mirrors, buffers and sessions, in any order" {
	each scopes
}

map() {
	if [ "$("$1" map 2>"$WORK/map.err")" = mapped ]; then return; fi
	cat "$WORK/map.err"
	# If the GPU or the host can't map memory for the CPU, the program reports status -15.
	[ "$GPUSHARE_TEST_DRIVER" = gpu ] && grep -q '^-15: ' "$WORK/map.err" && skip "$(cat "$WORK/map.err")"
	return 1
}

@test "a map ends with its scope and outlives its session" {
	each map
}

watch() {
	equal "$("$1" watch)" "watched"
}

@test "a watch, which outlives its session" {
	each watch
}

array() {
	equal "$("$1" array)" "an array"
}

@test "an array of unified memory" {
	each array
}

events() {
	equal "$("$1" events)" "events"
}

@test "events end with their scopes, and last as long as any has them" {
	each events
}

tell() {
	equal "$("$1" tell)" "told"
}

@test "tags, rights, staged names, holders, states and the registry's numbers" {
	each tell
}

stream() {
	equal "$("$1" stream)" "streamed"
}

@test "bytes in pieces, and exceptions from between" {
	each stream
}

lost() {
	equal "$(GPUSHARE_SIM_FAIL=cuMemcpyHtoD:1:1 "$1" lost)" "not lost"
}

@test "a write-back that fails throws, and the copy is still there" {
	needs_sim
	each lost
}
