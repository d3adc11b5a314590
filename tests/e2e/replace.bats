#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpushare-registry --replace`: the new registry takes over the sockets and the lock, and clients move to it.
load helpers

# replace TAG: start a registry that replaces the running one; PID is its pid
replace() {
	start "$1" gpushare-registry --dir "$GPUSHARE_DIR" --replace --foreground
}

@test "where nobody serves it just starts" {
	no_registry_yet
	replace new
	until_true serves "$PID"
	kill -TERM "$PID"
	finish "$PID"
}

@test "the one that serves ends with 0, and its place is taken" {
	no_registry_yet
	start old gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	old=$PID
	until_true serves "$old"
	replace new
	finish "$old"
	until_true serves "$PID"
	has "$(cat "$WORK/old.err")" "pid $PID takes over"
	[ -S "$GPUSHARE_DIR/registry.sock" ] && [ -S "$GPUSHARE_DIR/fds.sock" ]
}

@test "one that a program had started is replaced too; the program names its next buffer there" {
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/go" \
		alloc=b,2Mi fill=b,3 byte=b,1 touch="$WORK/again" await="$WORK/end" free=a free=b exit=5
	app=$PID
	old=$(registry_pids)
	replace new
	until_true has_ended "$old"
	until_true serves "$PID"
	resume go again
	has "$(names)" "w1 2097152"
	equal "$(registry_pids)" "$PID"
	touch "$WORK/end"
	local code=0
	finish "$app" || code=$? # not by run: its subshell can't wait for our child
	cat "$WORK/app.out" "$WORK/app.err"
	equal "$code" 5
	equal "$(tail -n 3 "$WORK/app.out")" "byte b: 10
free a: 0
free b: 0"
}

@test "one that has stopped is given up after 5 s with one line, and goes on when it can" {
	no_registry_yet
	start old gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	old=$PID
	until_true serves "$old"
	halt "$old"
	began=$(date +%s%3N)
	run -3 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR" --replace --foreground
	took=$(($(date +%s%3N) - began))
	[ $took -ge 5000 ] && [ $took -le $((6000 + SLACK_MS)) ] || { echo "$took ms"; false; }
	equal "$(lines "$stderr")" 1
	has "$stderr" "the registry (pid $old) that serves $GPUSHARE_DIR does not exit (it does not answer)"
	kill -CONT "$old"
	until_true serves "$old"
	stays 300 serves "$old"
}

@test "two at once: one serves in the end, nobody is left waiting, nobody fails" {
	no_registry_yet
	for round in 1 2 3 4 5; do
		start old gpushare-registry --dir "$GPUSHARE_DIR" --replace --foreground
		old=$PID
		until_true serves "$old"
		replace one
		one=$PID
		replace two
		two=$PID
		finish "$old"
		# The first of the two to serve ends when the other one replaces it.
		one_has_gone() { has_ended "$one" || has_ended "$two"; }
		until_true one_has_gone
		if has_ended "$one"; then last=$two; finish "$one"; else last=$one; finish "$two"; fi
		until_true serves "$last"
		equal "$(registry_pids)" "$last"
		kill -TERM "$last"
		finish "$last"
	done
}

@test "ten in a row under clients that come and go: each ends with 0, each client is told at once" {
	no_registry_yet
	until [ -e "$WORK/stop" ]; do
		"$BIN/api_app" within=$((1500 + SLACK_MS)) open || true
	done </dev/null >"$WORK/calls" 2>/dev/null 3>&- 8>&- &
	calls=$!
	disown
	replace new
	until_true serves "$PID"
	api open make=a,k,1Mi,keep fill=a,7 >/dev/null
	keeper=$(keeper_pids)
	for round in 1 2 3 4 5 6 7 8 9 10; do
		old=$PID
		until_true serves "$old"
		replace new
		finish "$old"
	done
	until_true serves "$PID"
	has "$(api open attach=a,k byte=a,4)" "byte a: 35"
	equal "$(keeper_pids)" "$keeper"
	gpushare rm k
	touch "$WORK/stop"
	until_true has_ended "$calls"
	[ "$(grep -c '^open: OK$' "$WORK/calls")" -ge 10 ]
	# A client may get E_NO_REGISTRY if the answering registry leaves, or one that served briefly in between; it may
	# retry.
	equal "$(grep -vx 'open: OK\|open: E_NO_REGISTRY' "$WORK/calls")" ""
	[ "$(grep -cx 'open: E_NO_REGISTRY' "$WORK/calls")" -le 20 ]
	kill -TERM "$PID"
	finish "$PID"
	[ -z "$keeper" ] || until_true has_ended "$keeper" # nothing is left to keep
	[ ! -e "$GPUSHARE_DIR/keeper.sock" ]
}
