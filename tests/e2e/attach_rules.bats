#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GPUSHARE_ATTACH: an unmodified program's allocation is answered with a named buffer.
load helpers

setup_more() {
	start_named producer weights "$BIN/rt_app_static" await="$WORK/produce" init alloc=a,1Mi \
		fill=a,7 touch="$WORK/up" await="$WORK/changed" byte=a,5 touch="$WORK/seen" \
		await="$WORK/end"
	producer=$PID
}

produce() {
	touch "$WORK/produce"
	await_file "$WORK/up"
}

attachers() {
	api open stat=weights | sed -n 's/.* attachers \([0-9]*\) .*/\1/p'
}

@test "an unmodified consumer gets the named buffer, and writes are seen" {
	produce
	for program in rt_app_static rt_app_shared drv_linked "drv_lookup gpa2"; do
		# shellcheck disable=SC2086 # a program and its route
		equal "$(attaching weights "$BIN/"$program init alloc=a,1Mi byte=a,4 alloc=b,1Mi \
			put=a,5,200 free=a free=b exit=0)" "init: 0
alloc a: 0
byte a: 35
alloc b: 0
put a: 0
free a: 0
free b: 0"
	done
	touch "$WORK/changed"
	await_file "$WORK/seen"
	equal "$(tail -n 1 "$WORK/producer.out")" "byte a: 200"
}

@test "free detaches; the producer's buffer stays" {
	produce
	start consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/rt_app_static" init \
		alloc=a,1Mi touch="$WORK/attached" await="$WORK/free" free=a touch="$WORK/freed" \
		await="$WORK/end"
	await_file "$WORK/attached"
	equal "$(attachers)" 1
	touch "$WORK/free"
	await_file "$WORK/freed"
	equal "$(attachers)" 0
	equal "$(api open attach=b,weights byte=b,4 | tail -n 1)" "byte b: 35"
}

@test "an attacher that is killed counts no longer" {
	produce
	start consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/rt_app_static" init \
		alloc=a,1Mi touch="$WORK/attached" await="$WORK/end"
	await_file "$WORK/attached"
	equal "$(attachers)" 1
	kill -KILL "$PID"
	none() { [ "$(attachers)" = 0 ]; }
	until_true none
}

@test "a buffer that is too small is not taken: ordinary memory" {
	produce
	equal "$(attaching weights "$BIN/rt_app_static" init alloc=a,2Mi fill=a,1 byte=a,5 free=a 2>&1)" \
		"init: 0
alloc a: 0
fill a: 0
byte a: 36
free a: 0"
	equal "$(attachers)" 0
	equal "$(api open attach=b,weights byte=b,5 | tail -n 1)" "byte b: 42"
}

@test "no such name: ordinary memory" {
	equal "$(attaching nobody "$BIN/rt_app_static" init alloc=a,1Mi fill=a,1 byte=a,5 free=a 2>&1)" \
		"init: 0
alloc a: 0
fill a: 0
byte a: 36
free a: 0"
}

@test "a rule that never fits prints nothing, however often; the log has each" {
	script=(init alloc=a,1Mi alloc=b,1Mi make=c,async,1Mi free=a free=b drop=c)
	for program in rt_app_static drv_linked; do
		rm -f "$WORK/log"
		equal "$(GPUSHARE_LOG=$WORK/log attaching 'nobody%i' "$BIN/$program" "${script[@]}" 2>&1)" \
			"$("$BIN/$program" "${script[@]}")"
		equal "$(grep -c '"nobody[012]" is not attached: .*; the program gets ordinary memory$' "$WORK/log")" 3
	done
}

@test "wait= waits for the name" {
	start consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights:wait=30 "$BIN/rt_app_static" \
		init touch="$WORK/asking" alloc=a,1Mi await="$WORK/up" byte=a,4 free=a
	await_file "$WORK/asking"
	produce
	finish "$PID"
	equal "$(cat "$WORK/consumer.out")" "init: 0
alloc a: 0
byte a: 35
free a: 0"
}

@test "wait= ends after its time: ordinary memory" {
	equal "$(attaching nobody:wait=1 "$BIN/rt_app_static" init within=$((2000 + 2 * SLACK_MS)) \
		alloc=a,1Mi free=a 2>&1)" "init: 0
alloc a: 0
free a: 0"
}

@test "must: no buffer is cudaErrorMemoryAllocation" {
	equal "$(attaching nobody:must "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,1Mi 2>&1 | head -n 2)" \
		"init: 0
alloc a: 2"
	equal "$(attaching nobody:must "$BIN/drv_linked" init alloc=a,1Mi 2>&1)" "init: 0
alloc a: 2"
	produce
	equal "$(attaching weights:must "$BIN/rt_app_static" init alloc=a,1Mi byte=a,4)" "init: 0
alloc a: 0
byte a: 35"
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
	start consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/rt_app_static" init \
		alloc=a,1Mi touch="$WORK/attached" await="$WORK/go" free=a alloc=b,1Mi free=b exit=7
	consumer=$PID
	await_file "$WORK/attached"
	kill -KILL "$producer"
	touch "$WORK/go"
	code=0
	finish "$consumer" || code=$?
	equal "$code" 7
	equal "$(cat "$WORK/consumer.out")" "init: 0
alloc a: 0
free a: 0
alloc b: 0
free b: 0"
}

@test "one memory under two names: each is attached, told of and freed by itself" {
	start owner "$BIN/api_app" open raw=p,4Mi share=a,one,p,0,1Mi share=b,two,p,0,1Mi share=c,three,p,1Mi,2Mi \
		touch="$WORK/shared" await="$WORK/end"
	await_file "$WORK/shared"
	equal "$(attaching one,two,three "$BIN/drv_linked" init alloc=a,1Mi alloc=b,1000 alloc=c,3000 range=c \
		free=c free=a free=b free=b)" "init: 0
alloc a: 0
alloc b: 0
alloc c: 0
range c: 0
range c: 3000+0, attributes 3000+0
free c: 0
free a: 0
free b: 0
free b: 1"
}
