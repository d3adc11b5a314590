#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GPUSHARE_ATTACH: the preload answers an unmodified program's allocation with a named buffer.
load helpers

setup_more() {
	start_named producer weights "$BIN/rt_app_static" await="$WORK/produce" init alloc=a,1Mi \
		fill=a,7 touch="$WORK/up" await="$WORK/end"
	producer=$PID
}

produce() {
	resume produce up
}

@test "wait= ends after its time: ordinary memory" {
	equal "$(attaching nobody:wait=1 "$BIN/rt_app_static" init within=$((2000 + 2 * SLACK_MS)) \
		alloc=a,1Mi free=a 2>&1)" "init: 0
alloc a: 0
free a: 0"
}

@test "the registry stops while a wait= lasts: the wait ends one timeout late, not two" {
	local registry
	begin app env GPUSHARE_TIMEOUT_MS=1500 LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=nobody:wait=2 "$BIN/rt_app_static" \
		touch="$WORK/begun" init within=$((3500 + SLACK_MS)) alloc=a,1Mi
	until_true waiters 1
	registry=$(registry_pids)
	kill -STOP "$registry"
	finish "$PID"
	kill -CONT "$registry"
	equal "$(cat "$WORK/app.out")" "init: 0
alloc a: 0"
}

@test "selectors choose which allocation is answered" {
	produce
	equal "$(attaching weights:nth=2:size=1Mi "$BIN/rt_app_static" init alloc=a,1Mi fill=a,1 byte=a,4 \
		alloc=b,64Ki alloc=c,1Mi byte=c,4)" "init: 0
alloc a: 0
fill a: 0
byte a: 29
alloc b: 0
alloc c: 0
byte c: 35"
}

@test "the producer ends while a consumer has the buffer: the consumer runs on" {
	produce
	begin consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/rt_app_static" init \
		alloc=a,1Mi touch="$WORK/attached" await="$WORK/go" free=a alloc=b,1Mi free=b exit=7
	kill -KILL "$producer"
	touch "$WORK/go"
	ends_with 7 consumer
	equal "$(cat "$WORK/consumer.out")" "init: 0
alloc a: 0
free a: 0
alloc b: 0
free b: 0"
}

@test "one memory under two names: each is attached, told of and freed by itself" {
	begin owner "$BIN/api_app" open raw=p,4Mi share=a,one,p,0,1Mi share=b,two,p,0,1Mi share=c,three,p,1Mi,2Mi \
		touch="$WORK/shared" await="$WORK/end"
	equal "$(attaching one,two,three "$BIN/drv_linked" init alloc=a,1Mi alloc=b,1000 alloc=c,3000 range=c \
		ipcget=c,"$WORK/none" free=c free=a free=b free=b)" "init: 0
alloc a: 0
alloc b: 0
alloc c: 0
range c: 0
range c: 3000+0, attributes 3000+0
ipcget c: 1
free c: 0
free a: 0
free b: 0
free b: 1"
}

# refused RULE SIZE CODE REASON: the program's cuMemCreate returns CODE, and the log has REASON
refused() {
	rm -f "$WORK/log"
	equal "$(GPUSHARE_LOG=$WORK/log attaching "$1" "$BIN/drv_linked" init make=a,vmm,"$2" 2>&1 | tail -n 1)" "make a: $3"
	has "$(<"$WORK/log")" "$4"
	equal "$(attachers "${1%:*}")" 0
}

@test "memory that the program maps by itself: a buffer of that kind and size, or the log says why not" {
	begin owner "$BIN/api_app" open alloc=a,plain,4Mi make=b,mapped,4Mi,vmm fill=b,7 touch="$WORK/shared" await="$WORK/end"
	equal "$(attaching mapped "$BIN/drv_linked" init make=a,vmm,4Mi byte=a,5 drop=a | tail -n 2)" "byte a: 42
drop a: 0"
	refused plain:must 4Mi 801 "it is cudaMalloc memory, and"
	refused mapped:must 2Mi 2 "it is 4194304 bytes in one piece, the program asks for a piece of 2097152;"
	refused mapped 8Mi 0 "it has 4194304 bytes, the program asks for 8388608; the program gets ordinary memory"
	[ "$GPUSHARE_TEST_DRIVER" = gpu ] ||
		equal "$(GPUSHARE_SIM_FAIL=cuMemSetAccess:1:1:101 attaching mapped:must "$BIN/drv_linked" init alloc=a,4Mi |
			tail -n 1)" "alloc a: 101"
	equal "$(attachers mapped)" 0
	GPUSHARE_LOG=$WORK/log GPUSHARE_NAME=mine:nth=1 attaching mine:nth=2 "$BIN/drv_linked" init alloc=a,1Mi alloc=b,1Mi
	has "$(<"$WORK/log")" '"mine" is not attached: this process has shared it itself;'
}
