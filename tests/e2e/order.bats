#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Publish and acquire between processes: consumers get every frame once, in order and whole, even if processes are
# killed.
load helpers

COUNT=${GPUSHARE_ORDER_COUNT:-2000}
[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${EMULATOR:-}" ] || COUNT=${GPUSHARE_ORDER_COUNT:-200}

crew() {
	run -0 "$BIN/api_order" crew "$@"
	has "$output" "whole: $1 consumers, $2 hand-overs, $3 slots, $4"
}

# produce SLOTS COUNT WAY [PAUSE]: start a producer, which begins when $WORK/go exists; PRODUCER is its pid
produce() {
	start producer env API_ORDER_GO="$WORK/go" "$BIN/api_order" produce ring "$@"
	PRODUCER=$PID
}

# consume TAG SLOTS WAY [PAUSE]: start a consumer and wait until it has joined
consume() {
	start "$1" "$BIN/api_order" consume ring "${@:2}"
	await_words "$1" joined
}

await_words() {
	until_true grep -q "$2" "$WORK/$1.out"
}

# hears TAG [COUNT]: this consumer ends when its producer is gone, after COUNT frames
hears() {
	finish "$1"
	has "$(cat "$WORK/$1.out")" "${2:+consumed $2, }then the owner is gone"
}

# at_once COMMAND...: COMMAND succeeds in less than two seconds
at_once() {
	took_ms "$@"
	[ "$TOOK_MS" -lt $((2000 + SLACK_MS)) ]
}

# run_on TAG...: none of these has ended
run_on() {
	for tag in "$@"; do runs "${PIDS[$tag]}" || return; done
}

# tell_all PID...: print what these processes and the registry are doing, and their order pages
tell_all() {
	local pid fd
	gpushare ls --json 2>&1 | head -c 4000 || true
	for pid in "$@" $(registry_pids); do
		echo "--- $pid: $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"
		grep -hs '^State\|^Threads' "/proc/$pid/status" || continue
		grep -Hs '' "/proc/$pid/task"/*/wchan || true
		for fd in "/proc/$pid/fd"/*; do
			[[ $(readlink "$fd") != *gpushare-order* ]] || timeout 5 od -A x -t x8 -N 1536 "$fd" || true
		done
		! command -v gdb >/dev/null || timeout 30 gdb -p "$pid" -batch -ex 'thread apply all bt' 2>/dev/null || true
	done
	grep -Hs '' "$WORK"/*.out "$WORK"/*.err || true
}

# in_time COMMAND...: poll COMMAND until the time LAST; then fail and print the state of all processes in CREW
in_time() {
	until "$@"; do
		[ $SECONDS -le "$LAST" ] || { echo "not in time: $*"; tell_all "${CREW[@]}"; return 1; }
		sleep 0.05
	done
}

# by WAY: set way to api_order's word for WAY; "functions" means streams with host functions instead of memory
# operations
by() {
	way=$1
	unset GPUSHARE_ORDERING
	[ "$1" != functions ] || { way=stream && export GPUSHARE_ORDERING=host-functions; }
	rm -f "$WORK/go" "$WORK"/*.out
}

has_one() {
	[ "$(shown "$1" name)" = "$1" ]
}

has_no() {
	! has_one "$1"
}

@test "CPU to CPU: one producer, 1, 4 and 16 consumers, every frame once and whole" {
	crew 1 "$COUNT" 4 host
	crew 4 "$COUNT" 4 host
	crew 16 $((COUNT / 2)) 8 host
	crew 3 $((COUNT / 2)) 1 host
}

@test "stream to stream: one producer, 1, 4 and 16 consumers, every frame once and whole" {
	crew 1 "$COUNT" 4 stream
	has "$output" "by stream-memory-operations"
	crew 4 "$COUNT" 4 stream
	crew 16 $((COUNT / 4)) 8 stream
	crew 3 $((COUNT / 2)) 1 stream
}

@test "CPU and streams beside each other on one ring" {
	crew 4 "$COUNT" 4 mixed
	crew 15 $((COUNT / 4)) 2 mixed
}

@test "captured into graphs: every frame once and whole, each launch a number of its own" {
	crew 2 $((COUNT / 10)) 1 graph
	crew 2 $((COUNT / 10)) 4 graph
	has "$output" "by stream-memory-operations"
}

@test "a GPU without stream memory operations: by host functions" {
	export GPUSHARE_ORDERING=host-functions
	crew 1 $((COUNT / 2)) 4 stream
	has "$output" "by host-functions"
	crew 4 $((COUNT / 4)) 1 mixed
}

@test "a GPU that says so itself: by host functions" {
	needs_sim
	export GPUSHARE_SIM_STREAM_WORDS=0
	crew 4 $((COUNT / 2)) 4 stream
	has "$output" "by host-functions"
}

@test "a producer that is killed between writing and publishing never yields that frame" {
	for how in host stream functions; do
		by $how
		produce 4 100 $way 8
		consume one 4 host
		consume two 4 stream
		touch "$WORK/go"
		await_words producer "written 8"
		kill -KILL "$PRODUCER"
		hears one 7
		hears two 7
	done
}

@test "a producer that is killed before its GPU comes to a publication leaves no stream standing" {
	for how in stream functions; do
		by $how
		produce 4 100 held 8
		consume one 4 host
		consume two 4 stream
		touch "$WORK/go"
		await_words producer "published 8"
		stays 300 run_on one two
		kill -KILL "$PRODUCER"
		at_once hears two 7
		hears one 7
	done
}

@test "a consumer that is killed while it has a frame stops the producer no longer than its lease" {
	for how in host stream functions; do
		by $how
		produce 2 50 $way
		consume stays 2 host
		consume holds 2 stream 5
		touch "$WORK/go"
		await_words holds "holding 5"
		stays 300 runs "$PRODUCER"
		kill -KILL "$PID"
		at_once finish producer
		hears stays 50
	done
}

@test "who waits for a dead producer hears of it at once, and streams are let through" {
	for how in host functions; do
		by $how
		produce 4 3 $way
		consume cpu 4 host
		consume gpu 4 stream
		touch "$WORK/go"
		finish producer
		at_once hears gpu 3
		hears cpu 3
	done
}

@test "the registry is killed: hand-overs go on, and a death after that is heard of" {
	produce 2 100000000 stream
	consume one 2 host
	consume two 2 stream
	touch "$WORK/go"
	for _ in 1 2 3; do
		kill_registry
		stays 100 run_on one two producer
		gpushare ls >/dev/null
		before=$(api open stat=ring | grep -c ring)
		equal "$before" 1
	done
	run_on one two
	kill -KILL "$PRODUCER"
	hears one
	hears two
}

@test "a producer dies while there is no registry: the next one hears of it" {
	produce 2 100000000 host
	consume one 2 stream
	touch "$WORK/go"
	handed_over() { [[ $(gpushare stat ring) =~ published:\ *[1-9][0-9] ]]; }
	until_true handed_over
	kill_registry
	kill_now "$PRODUCER"
	run_on one
	gpushare ls >/dev/null
	hears one
}

@test "who comes and goes in the middle, on a ring of one, reads whole frames too" {
	LAST=$((SECONDS + 90)) # sooner than the runner's limit
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || LAST=$((SECONDS + 240))
	produce 1 100000000 stream
	CREW=("$PRODUCER")
	touch "$WORK/go"
	for i in 1 2 3 4; do
		start "visit$i" "$BIN/api_order" visit ring 1 "$([ $((i % 2)) = 0 ] && echo host || echo stream)"
		CREW+=("$PID")
	done
	# A visitor that starts slowly must not find the producer already killed.
	for i in 1 2 3 4; do in_time grep -q "visiting" "$WORK/visit$i.out"; done
	sleep 0.5 # the load: so long they come and go
	kill -KILL "$PRODUCER"
	for i in 1 2 3 4; do
		in_time has_ended "${CREW[i]}"
		finish "${CREW[i]}" || { cat "$WORK/visit$i".{out,err}; false; }
		has "$(cat "$WORK/visit$i.out")" "visited "
		[ "$(sed -n 's/.*read \([0-9]*\) frames/\1/p' "$WORK/visit$i.out")" -gt 10 ]
	done
}

@test "a publisher that goes and returns while its streams have still to publish: nothing runs ahead" {
	local n words=()
	for n in 1 2 3 4; do # 1 and 3 by a stream that waits, 2 and 4 by another one
		words+=(attach=b,ring "put=b,$n,${n}0" "publish=b,$([ $((n % 2)) = 0 ] && echo e || echo o)" detach=b)
	done
	begin owner "$BIN/api_app" open make=b,ring,4096,vmm stream=s touch="$WORK/up" await="$WORK/back" acquire=b,5,s \
		touch="$WORK/waits" sync=s touch="$WORK/read" byte=b,5 byte=b,4 byte=b,3 byte=b,2 byte=b,1 acquire=b,1,0 ordering=b
	begin publisher "$BIN/api_app" open hold=o hold=e "${words[@]}" touch="$WORK/left" await="$WORK/even" letgo=e \
		touch="$WORK/runs" await="$WORK/return" attach=b,ring put=b,5,50 publish=b,o sequence=b touch="$WORK/back" \
		await="$WORK/odd" sequence=b letgo=o await="$WORK/read"
	nothing_read() { [ ! -e "$WORK/read" ]; }
	stays 50 runs "$PID"
	resume even runs
	stays 50 runs "$PID"
	resume return waits
	stays 50 nothing_read
	touch "$WORK/odd"
	finish owner
	finish publisher
	equal "$(sed 1,2d "$WORK/owner.out")" "acquire b: OK
byte b: 50
byte b: 40
byte b: 30
byte b: 20
byte b: 10
acquire b: 5
ordering b: stream-memory-operations"
	equal "$(grep -v '^attach\|^put\|^detach' "$WORK/publisher.out" | paste -sd ' ')" \
		"open: OK publish b: 1 publish b: 2 publish b: 3 publish b: 4 publish b: 5 sequence b: 0 sequence b: 0"
}

@test "what is shown of a buffer has its sequence and how it is ordered" {
	needs jq
	declare -A words=([host]=host [stream]=stream-memory-operations [functions]=host-functions)
	for how in host stream functions; do
		by $how
		produce 4 100 $way 6
		until_true has_one ring
		equal "$(shown ring sequence)" 0
		equal "$(shown ring ordering)" none
		touch "$WORK/go"
		await_words producer "written 6"
		equal "$(shown ring sequence)" 5
		equal "$(shown ring ordering)" "${words[$how]}"
		has "$(gpushare stat ring)" "published:   5, by ${words[$how]}"
		kill -KILL "$PRODUCER"
		until_true has_no ring
	done
}

@test "the GPU host's part of the measurements runs, here at small counts" {
	needs_sim
	GPUSHARE_BUNDLE_SIM=1 GPUSHARE_ORDER_COUNT=200 GPUSHARE_ORDER_ROUNDS=50 \
		run -0 "$ROOT/tests/gpu/run.sh" "$WORK/out" order
	has "$output" " 0 failed"
	has "$(cat "$WORK/out/RESULTS.md")" "GPU to GPU, round trip"
	has "$(cat "$WORK/out/RESULTS.md")" "16 consumers"
}

@test "the same from C++" {
	for app in "$BIN"/cpp_app_*; do
		[ -x "$app" ] || continue
		run -0 "$app" order
		equal "$output" "two publications"
	done
}

@test "the example: a ring of frames with checksums" {
	mkfifo "$WORK/key"
	"$BIN/ring_producer" frames 300 <"$WORK/key" >"$WORK/ring.out" 2>"$WORK/ring.err" 3>&- 8>&- &
	RING=$!
	STARTED+=("$RING")
	exec 7>"$WORK/key"
	start one "$BIN/ring_consumer" frames
	start two "$BIN/ring_consumer" frames
	await_words one "from frame 1 on"
	await_words two "from frame 1 on"
	echo >&7
	exec 7>&-
	finish "$RING"
	finish one
	finish two
	has "$(cat "$WORK/ring.out")" "300 frames were read"
	has "$(cat "$WORK/one.out")" "300 frames, whole and in order"
	has "$(cat "$WORK/two.out")" "300 frames, whole and in order"
}
