#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Threads that are cancelled in calls or wait for each other, and libraries that are closed while in use.
load helpers

# asked PROGRAM CALL...: for each CALL, `PROGRAM CALL` opens a session, all ask the registry that is then stopped, and end.
# Their output is in $WORK/CALL.asked.
asked() {
	local call pids=() registry
	registry=$(registry_pids)
	rm -f "$WORK/go"
	mkfifo "$WORK/go"
	for call in "${@:2}"; do
		"$BIN/$1" "$call" <"$WORK/go" >"$WORK/$call.asked" 2>"$WORK/$call.err" 3>&- 8>&- 9>&- &
		pids+=($!)
	done
	STARTED+=("${pids[@]}")
	exec 9>"$WORK/go"
	for call in "${@:2}"; do
		until_true grep -q open "$WORK/$call.asked" || { cat "$WORK/$call.err"; return 1; }
	done
	halt "$registry"
	exec 9>&-
	for call in "${pids[@]}"; do
		finish "$call" || { grep -H '' "$WORK"/*.err "$WORK"/*.asked; return 1; }
	done
	kill -CONT "$registry"
}

@test "a thread that is cancelled in a call of the API leaves the session to the others" {
	[ -r /proc/self/syscall ] && [ -z "${EMULATOR:-}" ] || skip "where a thread waits can't be read here"
	export GPUSHARE_TIMEOUT_MS=$((500 + SLACK_MS))
	start_registry
	asked api_threads cancel
	equal "$(cat "$WORK/cancel.asked")" "open
cancelled
its answer: -6
another: -6"
}

@test "a thread that waits for notices without an end can be cancelled" {
	[ -r /proc/self/syscall ] && [ -z "${EMULATOR:-}" ] || skip "where a thread waits can't be read here"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the address sanitizer takes a cancelled thread's stack for another's"
	start_registry
	run -0 timeout 20 "$BIN/api_threads" watch </dev/null
	equal "$output" "open
cancelled"
}

@test "no call of the API takes longer than its time limit while other threads ask" {
	start_registry
	local what=(open "evmake=e,event")
	for i in {0..7}; do what+=("alloc=b$i,w$i,4096"); done
	up owner "$BIN/api_app" "${what[@]}"
	mapfile -t calls < <("$BIN/api_timely")
	# All calls of the API are tested, except those that only read a struct.
	told=$(grep -oE '^[a-z].*\bgpushare_[a-z_]+\(' "$ROOT/include/gpushare.h" | grep -oE 'gpushare_[a-z_]+' | sort -u |
		grep -vxE 'gpushare_(buffer_info|device|event_handle|event_info|explain|is_read_only|map_data|map_info|map_size|mirror_data|mirror_scope_end|mirror_size|ordering|pointer|size|version|was_adopted|watch_fd|[a-z]+_text)')
	equal "$(printf '%s\n' "${calls[@]}" | grep -vx deleter | sort)" "$told"
	export GPUSHARE_TIMEOUT_MS=$((SLACK_MS + 200))
	for ((i = 0; i < ${#calls[@]}; i += 12)); do
		asked api_timely "${calls[@]:i:12}"
	done
	late=$(cat "$WORK"/*.asked | awk -v limit=$((GPUSHARE_TIMEOUT_MS + SLACK_MS)) '$2 >= limit')
	equal "$late" ""
	[ "$(awk '$2 > most { most = $2 } END { print int(most) }' "$WORK/gpushare_stat.asked")" -ge "$GPUSHARE_TIMEOUT_MS" ]
	equal "$(grep -hc ' ' "$WORK"/*.asked | sort | uniq -c | tr -s ' ')" " ${#calls[@]} 1"
}

@test "threads that are cancelled while they allocate leave the driver to the others" {
	for size in 4096 1048576 4194304; do
		run -0 timeout 20 "$BIN/drv_cancel" 300 $size </dev/null
		equal "$output" allocates
	done
}

@test "threads that are cancelled in named allocations leave the preload to the others" {
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	for rule in 'w%i' 'w%i:vmm' 'w%i:keep'; do
		run -0 timeout 20 env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$rule" "$BIN/drv_cancel" 300 4096 </dev/null
		equal "$output" allocates
	done
}

# left_by RULES SIZE [HELD]: set LEFT to the sizes of the buffers that still have a name after 300 threads were
# cancelled
left_by() {
	mkfifo "$WORK/go"
	# The simulated driver writes its log at the end of each call. That makes a cancellation point in each.
	env GPUSHARE_SIM_LOG="$WORK/calls" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$1" "$BIN/drv_cancel" 300 "${@:2}" \
		<"$WORK/go" >"$WORK/left.out" 3>&- 8>&- &
	PID=$!
	STARTED+=("$PID")
	exec 9>"$WORK/go"
	until_true grep -q allocates "$WORK/left.out"
	LEFT=$(names | cut -d' ' -f2)
	exec 9>&-
	finish "$PID"
	rm "$WORK/go" "$WORK/left.out"
}

@test "threads that are cancelled leave no name behind" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the address sanitizer takes a cancelled thread's stack for another's"
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	start_registry
	left_by w%i:size=1Mi 4096 1048576
	equal "$LEFT" ""
	left_by w%i 4096
	equal "$LEFT" 4096 # the one that the program still has
}

@test "threads that are cancelled while they are given a buffer leave the preload to the others" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the address sanitizer takes a cancelled thread's stack for another's"
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	up owner "$BIN/api_app" open alloc=a,weights,1Mi
	run -0 timeout 20 env GPUSHARE_SIM_LOG="$WORK/calls" LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights:size=1Mi "$BIN/drv_cancel" 300 1048576 </dev/null
	equal "$output" allocates
	run -0 --separate-stderr timeout 20 env GPUSHARE_SIM_LOG="$WORK/calls" LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=nobody:wait=0.001:size=1Mi \
		"$BIN/drv_cancel" 300 1048576 </dev/null
	equal "$output" allocates
}

@test "a graph that publishes runs after the library was closed" {
	run -0 env LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:-}" "$BIN/drv_unload" "$BUILD/libgpushare.so.0"
	equal "$output" "published 1"
}

# stack_taken: from lines "CALL BYTES", the most bytes of any first call, and of any later call
stack_taken() {
	awk '{ turn = ++seen[$1] > 1; if ($2 > most[turn]) most[turn] = $2 } END { print most[0] + 0, most[1] + 0 }'
}

@test "naming takes little of the calling thread's stack" {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${SANITIZE:-}${COVERAGE:-}${EMULATOR:-}" ] || skip "instruments take more"
	for rule in 'w%i' 'w%i:map' 'w%i:keep' 'w%i:unified'; do
		GPUSHARE_NAME=$rule run -0 --separate-stderr env LD_PRELOAD="$PRELOAD" "$BIN/app_stack" 16384 malloc async managed </dev/null
		read -r first later <<<"$(stack_taken <<<"$output")"
		echo "$rule: $first bytes the first time, then $later"
		[ "$first" -gt 0 ]
		[ "$first" -lt 6600 ] # a registry is started and greeted, too
		[ "$later" -le 4096 ]
	done
	# Reporting a buffer to the next registry and attaching one take little stack, too.
	begin again env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME='w%i:map' "$BIN/app_stack" 16384 hold touch="$WORK/up" \
		await="$WORK/next" malloc touch="$WORK/told" await="$WORK/end"
	kill_registry
	resume next told
	has "$(names)" "w0 "
	GPUSHARE_ATTACH=w0 run -0 --separate-stderr env LD_PRELOAD="$PRELOAD" "$BIN/app_stack" 16384 malloc </dev/null
	read -r first later <<<"$(stack_taken <<<"$output")"
	echo "attaching: $first bytes the first time, then $later"
	[ "$first" -lt 7000 ]
	[ "$later" -lt 7600 ]
	down again
	read -r first later <<<"$(stack_taken <"$WORK/again.out")"
	echo "telling a registry: $later bytes"
	[ "$later" -lt 7000 ]
}
