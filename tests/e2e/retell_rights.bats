#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry that has lost all is told of a buffer with the rights that it had, not with who tells it.
load helpers
load in_retelling

# ended_owner WORDS: of an API program that makes w, 2Mi, and is killed
ended_owner() {
	start owner "$BIN/api_app" open "make=a,w,2Mi,$1" fill=a,3 touch="$WORK/made" await="$WORK/end"
	await_file "$WORK/made"
	kill -KILL "$PID"
	until_true is_gone
}

is_gone() { [[ $(api open what=w) == *"owner gone"* ]]; }

# restarted: and told by the program that was started last
restarted() {
	await_file "$WORK/up"
	restart_registry
	touch "$WORK/go"
	await_file "$WORK/again"
}

@test "who may but read brings it back, and others write as before" {
	ended_owner keep
	start reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w:size=2Mi:readonly,x:size=4Mi' "$BIN/rt_app_static" init \
		alloc=a,2Mi touch="$WORK/up" await="$WORK/go" alloc=x,4Mi touch="$WORK/again" await="$WORK/end" byte=a,1
	restarted
	has "$(api open attach=b,w fill=b,9 byte=b,1)" "fill b: OK"
	touch "$WORK/end"
	finish "$PID"
}

@test "a session that may but read: the same" {
	ended_owner keep
	start session "$BIN/api_app" open attach=b,w,0,r touch="$WORK/up" await="$WORK/go" list touch="$WORK/again" \
		await="$WORK/end" byte=b,1
	restarted
	has "$(api open attach=b,w fill=b,9 byte=b,1)" "fill b: OK"
	touch "$WORK/end"
	finish "$PID"
}

@test "brought back by who has it attached it has its mode" {
	ended_owner keep+mode:644
	start reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w:size=2Mi,x:size=4Mi' "$BIN/rt_app_static" init \
		alloc=a,2Mi touch="$WORK/up" await="$WORK/go" alloc=x,4Mi touch="$WORK/again" await="$WORK/end" byte=a,1
	restarted
	equal "$(shown w mode)" 0644
	touch "$WORK/end"
	finish "$PID"
	gpushare rm w
	rm -f "$WORK"/{made,up,go,again,end}
	ended_owner keep+mode:640
	start session "$BIN/api_app" open attach=b,w touch="$WORK/up" await="$WORK/go" list touch="$WORK/again" \
		await="$WORK/end" byte=b,1
	restarted
	equal "$(shown w mode)" 0640
	touch "$WORK/end"
	finish "$PID"
}

@test "adopted without a word of rights it has those that it had" {
	ended_owner keep+mode:644
	start_named adopter 'w:size=2Mi:keep:adopt,late' "$BIN/rt_app_static" init alloc=a,2Mi touch="$WORK/up" \
		await="$WORK/go" alloc=b,1Mi touch="$WORK/again" await="$WORK/end" byte=a,1
	restarted
	equal "$(shown w mode)" 0644
	equal "$(shown w attachers)" 0
	touch "$WORK/end"
	finish "$PID"
	gpushare rm w || true
	rm -f "$WORK"/{made,up,go,again,end}
	ended_owner keep+mode:640
	start session "$BIN/api_app" open make=b,w,2Mi,keep+adopt touch="$WORK/up" await="$WORK/go" list \
		touch="$WORK/again" await="$WORK/end" byte=b,1
	restarted
	equal "$(shown w mode)" 0640
	touch "$WORK/end"
	finish "$PID"
}

@test "adopted by a rule with a mode it has that one" {
	ended_owner keep+mode:644
	start_named adopter 'w:size=2Mi:keep:adopt:mode=660,late' "$BIN/rt_app_static" init alloc=a,2Mi touch="$WORK/up" \
		await="$WORK/go" alloc=b,1Mi touch="$WORK/again" await="$WORK/end" byte=a,1
	restarted
	equal "$(shown w mode)" 0660
	touch "$WORK/end"
	finish "$PID"
}
