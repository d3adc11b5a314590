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
	touch "$WORK/end"
	finish "$maker"
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
	middle=$PID
	start last "$BIN/api_app" open evopen=f,next evquery=f touch="$WORK/go" evhost=f,20000 evclose=f
	finish "$PID"
	equal "$(grep -c 'evquery f: E_NOT_READY' "$WORK/last.out" "$WORK/middle.out" | cut -d : -f 2)" "1
1"
	equal "$(tail -n 2 "$WORK/last.out")" "evhost f: OK
evclose f: OK"
	touch "$WORK/end"
	finish "$middle"
	finish "$maker"
}

@test "open before it is there, and again: one event, counted; one's own is that event" {
	begin early "$BIN/api_app" open touch="$WORK/asking" evopen=e,late,30000 evopen=f,late evsame=e,f \
		evclose=e evquery=f evclose=f
	early=$PID
	maker evmake=e,late evopen=f,late evsame=e,f evclose=f evquery=e touch="$WORK/up" await="$WORK/end"
	finish "$early"
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
	waiter=$PID
	kill -KILL "$maker"
	finish "$waiter"
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
	touch "$WORK/go"
	await_file "$WORK/done"
	begin waiter "$BIN/api_app" open evopen=e,step touch="$WORK/open" await="$WORK/gone" evquery=e \
		evhost=e,1000 evwait=e
	waiter=$PID
	kill -KILL "$maker"
	until_true has_ended "$maker"
	until_true gone step
	touch "$WORK/gone"
	finish "$waiter"
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
	waiter=$PID
	finish "$waiter"
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
	waiter=$PID
	kill_registry
	[ -z "${EMULATOR:-}" ] || start_registry
	equal "$(api open evopen=e,step evquery=e evclose=e)" "open: OK
evopen step: OK
evquery e: E_NOT_READY
evclose e: OK"
	equal "$(generation)" "$before"
	until_true two_connected # that is, who waits has asked the new one
	touch "$WORK/go"
	finish "$waiter"
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
	equal "$(gpushare events --json 'a*' | jq -c '.[] | [.name, .backing, .size, .owner_pid]')" \
		"[\"a/step\",\"event\",0,$maker]"
	equal "$(gpushare ls --json | jq -r '.[].name')" "a/weights"
	run -0 gpushare stat a/step
	has "$output" "backing:    event"
	[[ $output != *size:* ]]
	gpushare rm a/step
	equal "$(gpushare events --json | jq -r '.[].name')" "b/step"
	equal "$(names)" "a/weights 1048576"
	run -2 --separate-stderr gpushare events a b
	has "$stderr" "one GLOB"
	run -2 --separate-stderr gpushare events --deferred
	has "$stderr" "no --deferred"
	has "$(gpushare events --help)" "gpushare events [--json]"
}

@test "an event is no buffer, and a buffer no event" {
	maker evmake=e,step alloc=b,weights,1Mi touch="$WORK/up" await="$WORK/end"
	equal "$(api open attach=b,step evopen=e,weights evmake=e,weights alloc=b,step,1 2>"$WORK/err")" "open: OK
attach step: E_INVALID
evopen weights: E_INVALID
evmake weights: E_EXISTS
alloc step: E_EXISTS"
	has "$(cat "$WORK/err")" '"step" is an event, no buffer'
	has "$(cat "$WORK/err")" '"weights" is a buffer, no event'
	run -1 --separate-stderr gpushare-attach step
	has "$stderr" "is an event"
	GPUSHARE_LOG=$WORK/log run -0 --separate-stderr attaching step "$BIN/rt_app_static" init alloc=a,1Mi fill=a,7 byte=a,4
	has "$output" "byte"
	equal "$stderr" ""
	has "$(cat "$WORK/log")" "is an event"
	equal "$(api open evmake=e,keeps-time,1 2>"$WORK/err")" "open: OK
evmake keeps-time: E_INVALID"
	has "$(cat "$WORK/err")" "keep time"
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
