#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Named events between processes: one records an event, others wait for it.
load helpers

# maker SCRIPT...: start api_app in the background; it stays after its script
maker() {
	start maker "$BIN/api_app" open "$@"
	maker=$PID
	await_file "$WORK/up"
}

held_maker() {
	maker hold evmake=e,step evrecord=e,h touch="$WORK/up" await="$WORK/go" letgo \
		evhost=e,20000 touch="$WORK/done" await="$WORK/end" evclose=e
}

@test "who opens it sees what is not done, and waits for it" {
	held_maker
	start waiter "$BIN/api_app" open evopen=e,step evquery=e evhost=e,50 touch="$WORK/go" \
		evhost=e,20000 evquery=e evwait=e evclose=e
	finish "$PID"
	equal "$(cat "$WORK/waiter.out")" "open: OK
evopen step: OK
evquery e: E_NOT_READY
evhost e: E_TIMED_OUT
evhost e: OK
evquery e: OK
evwait e: OK
evclose e: OK"
	down "$maker"
	equal "$(cat "$WORK/maker.out")" "open: OK
evmake step: OK
evrecord e: OK
evhost e: OK
evclose e: OK"
}

# The stream of the middle process waits for the first event, and the event that it records then waits for that stream.
@test "three processes in a row, by their streams alone" {
	held_maker
	begin middle "$BIN/api_app" open hold letgo evopen=e,step evmake=f,next evwait=e,h evrecord=f,h \
		evquery=f touch="$WORK/row" await="$WORK/end"
	start last "$BIN/api_app" open evopen=f,next evquery=f touch="$WORK/go" evhost=f,20000 evclose=f
	finish "$PID"
	equal "$(grep -c 'evquery f: E_NOT_READY' "$WORK/last.out" "$WORK/middle.out" | cut -d : -f 2)" "1
1"
	equal "$(tail -n 2 "$WORK/last.out")" "evhost f: OK
evclose f: OK"
	down middle
	finish "$maker"
}

@test "open before it is there, and again: one event, counted; one's own is that event" {
	begin early "$BIN/api_app" open touch="$WORK/asking" evopen=e,late,30000 evopen=f,late evsame=e,f \
		evclose=e evquery=f evclose=f
	maker evmake=e,late evopen=f,late evsame=e,f evclose=f evquery=e touch="$WORK/up" await="$WORK/end"
	finish early
	equal "$(tail -n 5 "$WORK/early.out")" "evopen late: OK
evsame: yes
evclose e: OK
evquery f: OK
evclose f: OK"
	equal "$(tail -n 3 "$WORK/maker.out")" "evsame: yes
evclose f: OK
evquery e: OK"
}

# If a process is killed, its recorded but unfinished work never completes.
@test "the owner is killed: who waits is told so, and soon" {
	held_maker
	begin waiter "$BIN/api_app" open evopen=e,step within=$((3000 + SLACK_MS)) touch="$WORK/waiting" \
		evhost=e,60000 evquery=e evwait=e evhost=e,-1 evclose=e evopen=e,step
	kill -KILL "$maker"
	finish waiter
	equal "$(tail -n 6 "$WORK/waiter.out")" "evhost e: E_OWNER_GONE
evquery e: E_OWNER_GONE
evwait e: E_OWNER_GONE
evhost e: E_OWNER_GONE
evclose e: OK
evopen step: E_NOT_FOUND"
	has "$(cat "$WORK/waiter.err")" "exited"
}

@test "what was done before its owner went is done" {
	held_maker
	resume go done
	begin waiter "$BIN/api_app" open evopen=e,step touch="$WORK/open" await="$WORK/gone" evquery=e \
		evhost=e,1000 evwait=e
	kill_now "$maker"
	until_true gone step
	touch "$WORK/gone"
	finish waiter
	equal "$(tail -n 3 "$WORK/waiter.out")" "evquery e: OK
evhost e: OK
evwait e: OK"
}

gone() {
	! gpushare stat "$1" >/dev/null 2>&1
}

@test "closed while others have it: the name is free, and what they wait for comes" {
	maker hold evmake=e,step evrecord=e,h touch="$WORK/up" await="$WORK/open" evclose=e evmake=f,step \
		touch="$WORK/closed" await="$WORK/go" letgo await="$WORK/end"
	start waiter "$BIN/api_app" open evopen=e,step touch="$WORK/open" await="$WORK/closed" evquery=e \
		evopen=f,step evquery=f evsame=e,f touch="$WORK/go" evhost=e,20000 evclose=e
	finish waiter
	equal "$(tail -n 6 "$WORK/waiter.out")" "evquery e: E_NOT_READY
evopen step: OK
evquery f: OK
evsame: no
evhost e: OK
evclose e: OK"
}

generation() {
	gpushare events --json | jq -r '.[0].generation'
}

two_connected() {
	[ "$(gpushare stat --json | jq .connections)" -ge 2 ]
}

@test "a registry that is killed: names, opens and waits go on" {
	held_maker
	before=$(generation)
	begin waiter "$BIN/api_app" open evopen=e,step touch="$WORK/waiting" evhost=e,60000 evclose=e
	kill_registry
	[ -z "${EMULATOR:-}" ] || start_registry
	equal "$(api open evopen=e,step evquery=e evclose=e)" "open: OK
evopen step: OK
evquery e: E_NOT_READY
evclose e: OK"
	equal "$(generation)" "$before"
	until_true two_connected # that is, who waits has asked the new one
	touch "$WORK/go"
	finish waiter
	equal "$(tail -n 2 "$WORK/waiter.out")" "evhost e: OK
evclose e: OK"
}

@test "events, ls, stat and rm tell the one from the other" {
	maker evmake=e,a/step alloc=b,a/weights,1Mi evmake=f,b/step touch="$WORK/up" await="$WORK/end"
	equal "$(gpushare ls | awk '{ print $1 }')" "NAME
a/weights"
	equal "$(gpushare events | awk '{ print $1 }')" "NAME
a/step
b/step"
	has "$(gpushare events 'a*')" "api_app[$maker]"
	equal "$(gpushare ls --events -q --sort -NAME)" "b/step
a/step"
	equal "$(gpushare ls --events --json | jq -c '[.[].name]')" '["a/step","b/step"]'
	equal "$(gpushare events --json 'a*' | jq -c '.[] | [.name, .backing, .size, .owner_pid]')" \
		"[\"a/step\",\"event\",0,$maker]"
	equal "$(gpushare ls --json | jq -r '.[].name')" "a/weights"
	run -0 gpushare stat a/step
	has "$output" "backing:     event"
	[[ $output != *size:* ]]
	gpushare rm a/step
	equal "$(gpushare events --json | jq -r '.[].name')" "b/step"
	equal "$(names)" "a/weights 1048576"
	run -2 --separate-stderr gpushare events a b
	has "$stderr" "one GLOB"
	run -2 --separate-stderr gpushare events --deferred
	has "$stderr" "'--deferred'"
	run -2 --separate-stderr gpushare ls --events --deferred
	has "$stderr" "no --deferred"
	has "$(gpushare events --help)" "gpushare events [-l]"
}

@test "an event is no buffer, and a buffer no event" {
	maker evmake=e,step alloc=b,weights,1Mi touch="$WORK/up" await="$WORK/end"
	equal "$(api open attach=b,step evopen=e,weights evmake=e,weights alloc=b,step,1 2>"$WORK/err")" "open: OK
attach step: E_INVALID
evopen weights: E_INVALID
evmake weights: E_EXISTS
alloc step: E_EXISTS"
	has "$(cat "$WORK/err")" '"step" is an event, not a buffer'
	has "$(cat "$WORK/err")" '"weights" is a buffer, not an event'
	run -1 --separate-stderr gpushare-attach step
	has "$stderr" "is an event"
	GPUSHARE_LOG=$WORK/log run -0 --separate-stderr attaching step "$BIN/rt_app_static" init alloc=a,1Mi fill=a,7 byte=a,4
	has "$output" "byte"
	equal "$stderr" ""
	has "$(cat "$WORK/log")" "is an event"
	equal "$(api open evmake=e,keeps-time,1 2>"$WORK/err")" "open: OK
evmake keeps-time: E_INVALID"
	has "$(cat "$WORK/err")" "record times"
}

@test "from another /dev/shm: the sentence says why" {
	unshare -m true 2>/dev/null || skip "unshare(1) may not make a mount namespace"
	maker evmake=e,step touch="$WORK/up" await="$WORK/end"
	# shellcheck disable=SC2016 # for the inner shell
	run -0 --separate-stderr unshare -m sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh \
		"$BIN/api_app" open evopen=e,step stat=step
	equal "$(tail -n 1 <<<"$output")" "size 0 offset 0 base 0 attachers 0 mine 0 uid 1"
	has "$output" "evopen step: E_CUDA"
	has "$stderr" "MAP_FAILED"
	has "$stderr" "/dev/shm"
}

@test "what makes no sense is refused with a reason" {
	run -0 --separate-stderr api open evmake=e, 'evmake=e,a b' evmake=e,e,1 evmake=e,e,4 evmake=e,e,10 evopen=e,e evrecord=e \
		evwait=e evquery=e evhost=e,0 evclose=e evmake=e,e,7 evmake=f,e evquery=e
	equal "$output" "open: OK
evmake: E_NAME
evmake a b: E_NAME
evmake e: E_INVALID
evmake e: E_INVALID
evmake e: E_INVALID
evopen e: E_NOT_FOUND
evrecord e: E_INVALID
evwait e: E_INVALID
evquery e: E_INVALID
evhost e: E_INVALID
evclose e: OK
evmake e: OK
evmake e: E_EXISTS
evquery e: OK"
	has "$stderr" "record times"
	has "$stderr" "0x8"
}

@test "an event works under any context, with streams of its own" {
	run -0 --separate-stderr api open evmake=p,primary context=new evmake=m,mine stream=s evrecord=m,s evrecord=p evrecord=p,s \
		evwait=p,s evwait=p context=none evrecord=m,s evwait=m evhost=m,1000 evmake=w,without evclose=m
	equal "$(sed 1,3d <<<"$output")" "evrecord m: OK
evrecord p: OK
evrecord p: E_INVALID
evwait p: E_INVALID
evwait p: E_INVALID
evrecord m: OK
evwait m: OK
evhost m: OK
evmake without: OK
evclose m: OK"
	has "$stderr" "context"
}

@test "no call about events spoils a capture; on a captured stream they are refused" {
	for stream in s p; do # p: the thread's own default stream, of the event's context
		run -0 --separate-stderr api open context evmake=b,before hold=h evrecord=b,h stream=s capture=$stream evmake=e,marked \
			another evopen=f,marked evquery=b evhost=b,2 evrecord=e,$stream evquery=e evwait=b,$stream evclose=f \
			endcapture=$stream evrecord=e,$stream evwait=e,$stream evhost=e,1000 letgo=h
		equal "$(sed 1,3d <<<"$output")" "evmake marked: OK
another: OK
evopen marked: OK
evquery b: E_NOT_READY
evhost b: E_TIMED_OUT
evrecord e: E_NOT_SUPPORTED
evquery e: OK
evwait b: E_NOT_SUPPORTED
evclose f: OK
evrecord e: OK
evwait e: OK
evhost e: OK"
		has "$stderr" "captured"
	done
}

@test "an owner that closes its session: what was recorded and is not done will not come, and is said soon" {
	maker hold evmake=d,done evmake=l,left evmake=u,unlinked evrecord=d evrecord=l,h evrecord=u,h touch="$WORK/up" \
		await="$WORK/go" close touch="$WORK/closed" await="$WORK/end"
	begin waiter "$BIN/api_app" open evopen=d,done evopen=l,left evopen=u,unlinked touch="$WORK/open" await="$WORK/gone" \
		evquery=u evhost=u,60 touch="$WORK/go" within=$((2000 + SLACK_MS)) evhost=l,20000 await="$WORK/closed" evquery=l \
		evwait=l evquery=u evhost=u,-1 evquery=d evwait=d evhost=d,0
	gpushare rm unlinked
	touch "$WORK/gone"
	finish waiter
	equal "$(sed 1,4d "$WORK/waiter.out")" "evquery u: E_NOT_READY
evhost u: E_TIMED_OUT
evhost l: E_OWNER_GONE
evquery l: E_OWNER_GONE
evwait l: E_OWNER_GONE
evquery u: E_OWNER_GONE
evhost u: E_OWNER_GONE
evquery d: OK
evwait d: OK
evhost d: OK"
	has "$(<"$WORK/waiter.err")" "'left' was recorded"
}

@test "what the driver refuses: its call and why, nothing is left, and the next try works" {
	needs_sim
	while read -r fault wanted words; do
		run -0 --separate-stderr env GPUSHARE_SIM_FAIL="$fault" "$BIN/api_app" open evmake=e,e stat=e evmake=e,e evrecord=e evquery=e
		equal "$fault $(sed 1d <<<"$output" | grep -v '^size')" "$fault evmake e: $wanted
stat e: E_NOT_FOUND
evmake e: OK
evrecord e: OK
evquery e: OK"
		has "$stderr" "$words"
	done <<-'TABLE'
		cuEventCreate:1:1:2 E_NO_MEMORY 4096
		cuEventCreate:1:1 E_CUDA cuEventCreate
		cuIpcGetEventHandle:1:1:801 E_NOT_SUPPORTED cuIpcGetEventHandle
		cuIpcGetEventHandle:1:1:205 E_CUDA MAP_FAILED
		cuDeviceGetUuid:1:1 E_CUDA cuDeviceGetUuid_v2
		cuCtxPushCurrent:1:1 E_CUDA cuCtxPushCurrent_v2
		cuDevicePrimaryCtxRetain:1:1 E_CUDA cuDevicePrimaryCtxRetain
	TABLE
	maker evmake=e,e touch="$WORK/up" await="$WORK/end"
	while read -r fault wanted words; do
		run -0 --separate-stderr env GPUSHARE_SIM_FAIL="$fault" "$BIN/api_app" open evopen=e,e stat=e evopen=e,e evquery=e
		equal "$fault $(sed 1d <<<"$output" | cut -d ' ' -f 1-8)" "$fault evopen e: $wanted
stat e: OK
size 0 offset 0 base 0 attachers 0
evopen e: OK
evquery e: OK"
		has "$stderr" "$words"
	done <<-'TABLE'
		cuIpcOpenEventHandle:1:1:205 E_CUDA /dev/shm
		cuIpcOpenEventHandle:1:1:400 E_OWNER_GONE api_app
		cuIpcOpenEventHandle:1:1:1 E_OWNER_GONE INVALID_VALUE
		cuIpcOpenEventHandle:1:1:201 E_NOT_SUPPORTED same pid
		cuIpcOpenEventHandle:1:1:217 E_DEVICE a GPU that this process's GPU can't reach
		cuIpcOpenEventHandle:1:1:801 E_NOT_SUPPORTED not supported
		cuIpcOpenEventHandle:1:1:2 E_NO_MEMORY cuIpcOpenEventHandle
		cuIpcOpenEventHandle:1:1 E_CUDA cuIpcOpenEventHandle
		cuCtxPushCurrent:1:1 E_CUDA cuCtxPushCurrent_v2
		cuDeviceGetCount:1:1 E_CUDA cuDeviceGetCount
	TABLE
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuStreamWaitEvent:1:1,cuEventQuery:1:1,cuEventRecord:2:1,cuEventDestroy:1:1 \
		"$BIN/api_app" open evmake=f,f hold evrecord=f,h evwait=f evhost=f,1000 letgo evhost=f,1000 evrecord=f evrecord=f evclose=f
	equal "$(sed 1,2d <<<"$output")" "evrecord f: OK
evwait f: E_CUDA
evhost f: E_CUDA
evhost f: OK
evrecord f: E_CUDA
evrecord f: OK
evclose f: E_CUDA"
}
