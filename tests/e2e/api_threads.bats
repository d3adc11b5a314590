#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Threads of one process that call the API at the same time. The thread sanitizer runs this file, too.
load helpers

@test "threads that join, leave and publish one buffer at the same time" {
	start_registry
	run -0 timeout 60 "$BIN/api_threads" order 200 </dev/null
	equal "$output" $'open\n0 failed'
	needs_sim
	# A page is registered once, whatever the threads find; if that fails, the next thread tries again.
	GPUSHARE_SIM_LOG=$WORK/log GPUSHARE_SIM_FAIL=cuMemHostRegister:1:1 run -0 timeout 60 "$BIN/api_threads" order 200 </dev/null
	equal "$output" $'open\n1 failed'
	equal "$(grep -c 'cuMemHostRegister_v2 0' "$WORK/log")" 200
}

@test "threads that attach, read, map and detach one buffer, in one session and in others" {
	local kinds=('' vmm unified readonly keep)
	[ "${SANITIZE:-}" != thread ] || kinds=('' vmm readonly keep) # unified memory's addresses are the sanitizer's
	start_registry
	for kind in "${kinds[@]}"; do
		up owner "$BIN/api_app" open make=a,w,64Ki,$kind fill=a,7
		run -0 timeout 60 "$BIN/api_threads" attach w 60 </dev/null
		equal "$kind $output" "$kind "$'open\n0 attached'
		down
		gpushare rm w 2>/dev/null || true
	done
}

@test "threads that attach and detach one buffer, while registries end" {
	[ "${SANITIZE:-}" != thread ] || skip "the sanitizer sees races once a client has started a registry by clone()"
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
	export GPUSHARE_TIMEOUT_MS=5000 # for a busy machine
	start_registry
	up owner "$BIN/api_app" open make=a,w,64Ki,keep fill=a,7
	start threads "$BIN/api_threads" attach w 300
	for _ in 1 2 3; do
		sleep 0.2 # the load: so long each registry is there
		kill_registry
	done
	finish "$PID"
	equal "$(<"$WORK/threads.out")" $'open\n0 attached'
}
