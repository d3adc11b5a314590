#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare pull while something fails: nothing half-made is seen, and everyone has an answer in time.
load helpers
load between

setup_more() {
	needs jq
	between_setup
	serve a
	source_of a weights 64000000
}

teardown_more() {
	between_teardown
}

@test "the node or its worker is killed in mid-transfer: the puller answers within a second" {
	pulling weights
	kill -KILL "$WORKER"
	touch "$WORK/go" # the relay sees the end behind the bytes that are on their way
	answers 1000
	has "$(cat "$WORK/pull.err")" ": the connection was closed"
	pulling weights
	kill -KILL "$NODE_PID"
	touch "$WORK/go"
	answers 1000
	until_true is_over "$WORKER"
}

@test "the node's worker is stopped in mid-transfer: the puller answers within 11 s" {
	pulling weights
	kill -STOP "$WORKER"
	touch "$WORK/go"
	answers 11000
	has "$(cat "$WORK/pull.err")" ": nothing came for 10 s"
	until_true is_over "$WORKER"
	gpushare pull a:weights
	received weights
}

@test "the node is stopped in mid-transfer: that pull is completed, and a new one fails within 11 s" {
	pulling weights
	kill -STOP "$NODE_PID"
	touch "$WORK/go"
	finish "$PULLER"
	received weights
	gpushare rm weights
	start early gpushare pull a:weights
	PULLER=$PID
	answers 11000
	has "$(cat "$WORK/early.err")" ": nothing came for 10 s"
	for ((i = 0; i < 100; i++)); do echo "silent$i $ADDRESS"; done >>"$WORK/nodes"
	run -1 --separate-stderr timeout 15 gpushare nodes # all at the same time
	has "$stderr" "node 'a': nothing came for 10 s"
	has "$stderr" "node 'silent99': nothing came for 10 s"
	kill -CONT "$NODE_PID"
	gpushare pull a:weights
	received weights
}

@test "the puller is killed or interrupted in mid-transfer: nothing is left on either side" {
	for signal in KILL INT; do
		pulling weights
		kill "-$signal" "$PULLER"
		until_true is_over "$PULLER"
		nothing_left
		until_true is_over "$WORKER"
	done
}

@test "the puller is stopped in mid-transfer: the node's worker ends, and the puller fails when it goes on" {
	pulling weights
	kill -STOP "$PULLER"
	touch "$WORK/go"
	PATIENCE_S=25 until_true is_over "$WORKER"
	equal "$(gpushare ls -q)" ""
	kill -CONT "$PULLER"
	answers 11000
}

@test "a set of which one goes in mid-transfer: none of it" {
	source_of a set/1 1000
	on a gpushare restore "$WORK/weights" set/2
	pulling 'set/*'
	on a gpushare rm set/2 # the memory stays attached, but the name has gone
	touch "$WORK/go"
	answers 20000
	has "$(cat "$WORK/pull.err")" "\"set/2\" is gone"
}

# publisher WORD...: run api_app on node a with 'w' of 64 MiB in slot a, published once, whose sum is $FIRST
publisher() {
	on a begin app "$BIN/api_app" open alloc=a,w,64Mi fill=a,7 publish=a touch="$WORK/up" await="$WORK/next" "$@" \
		touch="$WORK/done" await="$WORK/end"
	FIRST=$(on a gpushare get w | sha256sum)
	touch "$WORK/next"
}

@test "a buffer that is published meanwhile: the publication that was the newest at first" {
	publisher await="$WORK/held" reclaim=a,1,10000 fill=a,9 publish=a put=a,0,1
	pulling w
	await_file "$WORK/done"
	has "$(cat "$WORK/app.out")" "reclaim a: OK" # the copy is made before the bytes leave
	touch "$WORK/go"
	finish "$PULLER"
	equal "$(gpushare get w | sha256sum)" "$FIRST"
}

@test "a publisher that writes: the pull waits for its publication; one that never comes is an error" {
	publisher reclaim=a,1,0 put=a,0,99 touch="$WORK/writes" await="$WORK/write" fill=a,9 publish=a
	await_file "$WORK/writes"
	run -1 --separate-stderr gpushare pull a:w
	has "$stderr" "node 'a': publication 2 of 'w' did not come within 5000 ms; the last was 1"
	nothing_left
	start pull gpushare pull a:w
	PULLER=$PID
	sleep 1
	touch "$WORK/write"
	finish "$PULLER"
	equal "$(gpushare get w | sha256sum)" "$(on a gpushare get w | sha256sum)"
}

@test "a publisher that never pauses, and waits for no reader, is refused" {
	on a start busy "$BIN/api_app" open alloc=a,busy,128Mi fill=a,1 publish=a touch="$WORK/busy" repeat=1000000,1 publish=a
	await_file "$WORK/busy"
	run -1 --separate-stderr gpushare pull a:busy
	has "$stderr" "node 'a': 'busy' was published during each of 4 readings; pull it while its publisher pauses"
	nothing_left
}

@test "another buffer takes the name while the node attaches: the bytes and the record are of one" {
	needs_sim
	[ -z "${SANITIZE:-}" ] || skip "commands that serve() runs are not free of leaks"
	kill -KILL "$NODE_PID"
	: >"$WORK/nodes"
	export PAUSE_FILE=$WORK/p
	PAUSE_AT=cuMemImport LD_PRELOAD="$BIN/lib_pause.so" serve a
	source_of a next 5000
	on a gpushare tag weights of=weights
	touch "$WORK/p.armed"
	start pull gpushare pull a:weights
	PULLER=$PID
	await_file "$WORK/p.paused"
	on a gpushare rm weights
	on a gpushare restore "$WORK/next" weights
	on a gpushare tag weights of=next
	touch "$WORK/p.go"
	finish "$PULLER"
	received weights next
	equal "$(shown weights tags | jq -r .of)" next
}

@test "a puller that takes 13 s to allocate is waited for" {
	needs_sim
	PAUSE_FILE=$WORK/p PAUSE_AT=cuMemCreate LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$BIN/lib_pause.so" start pull gpushare pull a:weights
	PULLER=$PID
	touch "$WORK/p.armed"
	await_file "$WORK/p.paused"
	sleep 13
	touch "$WORK/p.go"
	finish "$PULLER"
	received weights
}

@test "more tags than a buffer can have: refused before the bytes are sent" {
	on a gpushare tag weights a=1 b=2 c=3
	relayed
	run -1 --separate-stderr timeout 5 gpushare pull "$RELAY:weights" --tag d=4 --tag e=5
	has "$stderr" "tags"
	nothing_left
	[ ! -e "$WORK/held" ]
}

@test "a peer that sends without end to a stopped worker is closed after 12 s, and the worker ended" {
	serve c --listen tcp://127.0.0.1:0 --trusted-network lo
	start flood timeout 60 bash -c "while :; do printf '\\0\\0\\0\\004\\012\\002\\010\\004'; done >/dev/tcp/127.0.0.1/${ADDRESS##*:}"
	until_true has_workers 1
	WORKER=$(workers)
	kill -STOP "$WORKER"
	PATIENCE_S=18 until_true is_over "$WORKER"
}

@test "a hundred pulls at once: each complete" {
	source_of a small 1000000
	local pids=() count=100 i
	# A GPU has no room for the contexts of a hundred pullers and as many workers, and starts them one at a time.
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || count=10
	for ((i = 0; i < count; i++)); do
		start "pull$i" gpushare pull a:small --as "copy$i"
		pids+=("$PID")
	done
	for ((i = 0; i < count; i++)); do finish "${pids[i]}" || { cat "$WORK/pull$i.err"; return 1; }; done
	for ((i = 0; i < count; i++)); do received "copy$i" small; done
	until_true has_workers 0
}

@test "the registry here keeps no more: a sentence says so, and nothing is left" {
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --foreground --keep-limit 10M
	until_true listens
	run -1 --separate-stderr gpushare pull a:weights
	has "$stderr" "keep"
	nothing_left
}

# faked WORD...: fake_node.py with those words is the only node of the file
faked() {
	rm -f "$WORK/fake.out"
	start fake /usr/bin/python3 "$ROOT/tests/e2e/fake_node.py" "$@"
	until_true [ -s "$WORK/fake.out" ]
	echo "x tcp://127.0.0.1:$(cat "$WORK/fake.out")" >"$WORK/nodes"
}

# lied WORDS: neither a pull nor ls takes what the fake node lists, and a sentence has WORDS
lied() {
	run -1 --separate-stderr timeout 8 gpushare pull 'x:llama*'
	has "$stderr" "node 'x': $1"
	run -1 --separate-stderr timeout 8 gpushare ls --nodes -q 'llama*'
	equal "$output" ""
	has "$stderr" "node 'x': $1"
	equal "$(gpushare ls -q)" ""
}

@test "a node that lists other names, one twice, pages that are empty, or names without end" {
	faked 30 llama1,evil-name
	lied "it lists 'evil-name', which doesn't match 'llama*'"
	faked 30 llama1,llama2 llama2
	lied "it lists 'llama2' twice or out of order"
	faked 30 llama2,llama1
	lied "it lists 'llama1' twice or out of order"
	faked 30 llama1 "" llama2
	lied "it sent an empty page"
	faked 30 a ...
	run -1 --separate-stderr gpushare ls --nodes
	has "$stderr" "node 'x': it lists more than 100000 buffers"
	run -1 --separate-stderr gpushare pull 'x:*'
	has "$stderr" "node 'x': it lists more than 100000 buffers"
}

@test "name servers that don't answer: numeric addresses are up, and names fail after 10 s" {
	unshare -m true || skip "no mount namespaces here"
	start silent /usr/bin/python3 -c 'if True:
		import signal, socket
		sockets = [socket.socket(type=socket.SOCK_DGRAM) for i in range(3)]
		for i, one in enumerate(sockets):
			one.bind((f"127.0.53.{i + 1}", 53))
		print("bound", flush=True)
		signal.pause()'
	until_true [ -s "$WORK/silent.out" ]
	printf 'nameserver 127.0.53.%d\n' 1 2 3 >"$WORK/resolv.conf"
	for ((i = 0; i < 8; i++)); do echo "slow$i tls://slow.example:1"; done >>"$WORK/nodes"
	run -1 --separate-stderr unshare -m sh -c \
		"mount --bind $WORK/resolv.conf /etc/resolv.conf && timeout 15 gpushare nodes"
	equal "$(awk '$3 == "up" { print $1 }' <<<"$output")" a
	has "$stderr" "node 'slow7': tls://slow.example:1: Temporary failure in name resolution"
}

@test "a node whose version or reason isn't UTF-8: shown with question marks" {
	faked 3fff0a30 a
	run -0 gpushare nodes --json
	equal "$(jq -r '.[].version' <<<"$output")" "???0"
	run -1 --separate-stderr gpushare pull x:a
	equal "$stderr" "gpushare: node 'x': ???0"
}
