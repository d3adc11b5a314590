#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# If the registry has lost all state, a client reports a buffer with the buffer's own rights, not with the client's.
load helpers
load in_resyncing

# ended_owner FLAGS: an API program makes w, 2Mi, with FLAGS, and is killed
ended_owner() {
	rm -f "$WORK/made" "$WORK/end"
	begin owner "$BIN/api_app" open "make=a,w,2Mi,$1" fill=a,3 touch="$WORK/made" await="$WORK/end"
	kill -KILL "$PID"
	until_true owner_gone w
}

# tells COMMAND...: start COMMAND, restart the registry, and wait until COMMAND has reported its buffers to the new one
tells() {
	rm -f "$WORK"/{up,go,again,end}
	start teller "$@"
	await_file "$WORK/up"
	restart_registry
	resume go again
}

# program_tells VARIABLE=RULES: the same by a preloaded program with two allocations, of 2Mi and 4Mi
program_tells() {
	tells env LD_PRELOAD="$PRELOAD" "$1" "$BIN/rt_app_static" init alloc=a,2Mi touch="$WORK/up" await="$WORK/go" \
		alloc=x,4Mi touch="$WORK/again" await="$WORK/end" byte=a,1
}

# session_tells WORD: the same by api_app, which carries out WORD, in slot b
session_tells() {
	tells "$BIN/api_app" open "$1" touch="$WORK/up" await="$WORK/go" list touch="$WORK/again" await="$WORK/end" byte=b,1
}

teller_ends() {
	down
}

@test "who may but read brings it back, and others write as before" {
	ended_owner keep
	program_tells GPUSHARE_ATTACH='w:size=2Mi:readonly,x:size=4Mi'
	has "$(api open attach=b,w fill=b,9 byte=b,1)" "fill b: OK"
	teller_ends
}

@test "a session that may but read: the same" {
	ended_owner keep
	session_tells attach=b,w,0,r
	has "$(api open attach=b,w fill=b,9 byte=b,1)" "fill b: OK"
	teller_ends
}

@test "brought back by who has it attached it has its mode" {
	ended_owner keep+mode:644
	program_tells GPUSHARE_ATTACH='w:size=2Mi,x:size=4Mi'
	equal "$(shown w mode)" 0644
	teller_ends
	gpushare rm w
	ended_owner keep+mode:640
	session_tells attach=b,w
	equal "$(shown w mode)" 0640
	teller_ends
}

@test "adopted without a word of rights it has those that it had" {
	ended_owner keep+mode:644
	program_tells GPUSHARE_NAME='w:size=2Mi:keep:adopt,late'
	equal "$(shown w mode)" 0644
	equal "$(shown w attachers)" 0
	teller_ends
	gpushare rm w || true
	ended_owner keep+mode:640
	session_tells make=b,w,2Mi,keep+adopt
	equal "$(shown w mode)" 0640
	teller_ends
}

@test "adopted by a rule with a mode it has that one" {
	ended_owner keep+mode:644
	program_tells GPUSHARE_NAME='w:size=2Mi:keep:adopt:mode=660,late'
	equal "$(shown w mode)" 0660
	teller_ends
}
