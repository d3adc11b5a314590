#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare pull --follow: each publication of another node's buffer, and what is left when that has gone.
load helpers
load between

setup_more() {
	needs jq
	between_setup
	serve a
}

teardown_more() {
	between_teardown
}

# producer WORD...: on node a, a program with 'w' of 12 MiB in slot a, published once and readable by reclaim; then WORD...
producer() {
	on a begin app "$BIN/api_app" open make=a,w,12Mi,keep fill=a,1 publish=a touch="$WORK/up" "$@"
	APP=$PID
}

# following [OPTION...]: follow a:w, and wait for the first copy. FOLLOWER is its pid.
following() {
	start pull env --default-signal=INT gpushare pull a:w --follow "$@"
	FOLLOWER=$PID
	until_true has_name w
}

has_name() {
	gpushare ls -q | grep -qx "$1"
}

# same: 'w' has here the bytes that it has there
same() {
	cmp -s <(gpushare get w -o -) <(on a gpushare get w -o -)
}

sequence_is() {
	[ "$(gpushare stat --json w | jq .sequence)" = "$1" ]
}

has_said() {
	grep -qsF -- "$1" "$WORK/pull.err"
}

stale() {
	shown w tags | jq -r '.stale // ""'
}

# ends CODE [TEXT]: the follower ends with CODE, and has said TEXT
ends() {
	local code=0
	finish "$FOLLOWER" || code=$?
	equal "$code" "$1" || return 1
	has "$(cat "$WORK/pull.err")" "${2:-}"
}

# publishes N: what the producer does next, when $WORK/goN appears
publishes() {
	echo "await=$WORK/go$1 reclaim=a,$(($1 - 1)),10000 fill=a,$1 publish=a"
}

is_stale() {
	[[ $(stale) == 20*T*Z ]]
}

@test "follow: each publication, for readers here that are attached; SIGINT ends it, and the last one stays" {
	# shellcheck disable=SC2046
	producer $(publishes 2) $(publishes 3) await="$WORK/end"
	on a gpushare tag w frame=1 first=yes
	following
	sequence_is 1
	same
	on a gpushare tag w frame=2 -first
	start reader gpushare follow w --count 3 -o "$WORK/got.%s"
	READER=$PID
	await_file "$WORK/got.1"
	touch "$WORK/go2"
	await_file "$WORK/got.2"
	sequence_is 2
	same
	equal "$(shown w tags | jq -cS 'del(."copy-of")')" '{"frame":"2"}'
	on a gpushare tag w a=1 b=2 c=3
	touch "$WORK/go3"
	await_file "$WORK/got.3"
	equal "$(shown w tags | jq -cS)" '{"a":"1","b":"2","c":"3","frame":"2"}'
	finish "$READER"
	cmp "$WORK/got.3" <(on a gpushare get w -o -)
	equal "$(for i in 1 2 3; do sha256sum <"$WORK/got.$i"; done | sort -u | wc -l)" 3
	kill -INT "$FOLLOWER"
	ends 130
	same
	equal "$(shown w keep) $(gpushare ls -q)" "true w"
	until_true has_workers 0
}

@test "follow: nothing is published for 13 s, then a reader here takes 13 s: the connection stays; a version is skipped" {
	# shellcheck disable=SC2046
	producer $(publishes 2) $(publishes 3) $(publishes 4) touch="$WORK/done" await="$WORK/end"
	following
	begin slow "$BIN/api_app" open attach=b,w join=b touch="$WORK/joined" await="$WORK/release" release=b,1 leave=b
	sleep 13
	touch "$WORK/go2"
	on a until_true sequence_is 2
	sleep 13
	sequence_is 1 # the reader has it still
	touch "$WORK/go3" "$WORK/go4"
	await_file "$WORK/done"
	refute same
	touch "$WORK/release"
	until_true sequence_is 3 # the last one there is the fourth
	same
	equal "$(cat "$WORK/pull.err")" ""
}

@test "follow: the node is lost in mid-transfer: the last whole version stays, marked; then it is followed again" {
	# shellcheck disable=SC2046
	producer $(publishes 2) touch="$WORK/done" await="$WORK/end"
	on a gpushare tag w a=1 b=2 c=3 # beside the tag copy-of there is no room
	relayed
	echo "relay $RELAY" >>"$WORK/nodes"
	start pull gpushare pull relay:w --follow
	FOLLOWER=$PID
	until_true has_name w
	gpushare get w >"$WORK/first"
	touch "$WORK/go2"
	await_file "$WORK/held" # in the second version
	kill -KILL "$NODE_PID"
	touch "$WORK/go" # the relay sees the end behind the bytes that are on their way
	took_ms until_true has_said "node 'relay': the connection was closed; 'w' is the last whole version; trying again"
	((TOOK_MS <= 2000 + SLACK_MS)) || { echo "it took $TOOK_MS ms"; return 1; }
	equal "$(gpushare get w | sha256sum)" "$(sha256sum <"$WORK/first")"
	sequence_is 1
	is_stale
	serve a --listen "${RELAY/localhost/127.0.0.1}"
	until_true has_said "node 'relay' answers again"
	until_true sequence_is 2
	same
	equal "$(stale)" ""
	runs "$FOLLOWER"
}

@test "follow: a worker is stopped while nothing is published: noticed after 10 s; the copy is the newest, and not stale" {
	producer await="$WORK/end"
	following
	until_true has_workers 1
	kill -STOP "$(workers)"
	until_true has_said "node 'a': nothing came for 10 s; 'w' is the last whole version; trying again"
	until_true has_said "node 'a' answers again"
	equal "$(stale)" ""
}

@test "follow: the source is removed, or its publisher ends: the follower ends, and its copy is marked" {
	producer await="$WORK/end"
	following
	on a gpushare rm w
	ends 0 "gpushare: node 'a': 'w' was removed; 'w' is the last whole version"
	is_stale
	touch "$WORK/end"
	finish "$APP"
	gpushare rm w
	rm "$WORK/end"
	producer await="$WORK/end"
	following --tag copy=1
	equal "$(stale)" ""
	touch "$WORK/end"
	ends 0 "; 'w' is the last whole version"
	is_stale
	equal "$(shown w tags | jq -r .copy)" 1
	same
}

# replaced SIZE: node a is lost and comes back with another 'w' of SIZE, which is published when $WORK/anew appears
replaced() {
	local worker
	worker=$(workers)
	kill -KILL "$NODE_PID"
	until_true is_over "$worker"
	until_true has_said "trying again until interrupted"
	on a gpushare rm w
	on a begin again "$BIN/api_app" open alloc=a,w,"$1" fill=a,7 touch="$WORK/made" await="$WORK/anew" publish=a await="$WORK/end"
	serve a --listen "$ADDRESS"
}

@test "follow: another buffer has the name when the node is back: its publications follow, unless its size is another" {
	producer await="$WORK/end"
	following
	replaced 12Mi
	until_true has_said "node 'a' answers again"
	stays 500 is_stale # the new one was not published yet
	touch "$WORK/anew"
	until_true sequence_is 2
	same
	rm "$WORK/anew"
	replaced 4Mi
	touch "$WORK/anew"
	ends 1 "'w' of node 'a' has 4194304 bytes now, and 'w' has 12582912: remove the latter, and pull again"
	is_stale
	equal "$(gpushare get w | wc -c)" 12582912
}

@test "follow: the GPU can't copy a new version: the follower ends, and its copy is marked" {
	needs_sim
	# shellcheck disable=SC2046
	producer $(publishes 2) await="$WORK/end"
	GPUSHARE_SIM_FAIL=cuMemcpy:1:1 following
	touch "$WORK/go2"
	ends 1 "CUDA can't copy the new version to 'w'"
	is_stale
}

@test "follow: a source that was never published; an option that is wrong" {
	on a begin app "$BIN/api_app" open make=a,w,12Mi,keep fill=a,1 touch="$WORK/up" await="$WORK/go" fill=a,2 publish=a await="$WORK/end"
	following
	gpushare get w >"$WORK/first"
	touch "$WORK/go"
	until_true sequence_is 2
	same
	refute cmp -s <(gpushare get w) "$WORK/first"
	run -2 --separate-stderr gpushare pull 'a:*' --follow
	has "$stderr" "--follow is for one NAME"
}
