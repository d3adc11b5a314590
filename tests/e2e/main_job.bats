#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The main job: an unmodified program's buffer gets a name, another process attaches it, changes
# it, dumps it.
load helpers

# whole_path PROGRAM...: named, one record, attached elsewhere, changed both ways, dumped, equal
whole_path() {
	start_named app weights "$@" init alloc=a,1Mi fill=a,7 touch="$WORK/up" await="$WORK/changed" \
		byte=a,5 put=a,6,99 save=a,"$WORK/own" touch="$WORK/saved" await="$WORK/end" free=a \
		exit=3
	local app=$PID
	await_file "$WORK/up"
	equal "$(names)" "weights 1048576"
	equal "$(api open attach=b,weights size=b byte=b,5 put=b,5,200 byte=b,6 detach=b)" "open: OK
attach weights: OK
size b: 1048576
byte b: 42
put b: OK
byte b: 49
detach b: OK"
	touch "$WORK/changed"
	await_file "$WORK/saved"
	gpushare-attach weights -o "$WORK/dump"
	cmp "$WORK/own" "$WORK/dump"
	touch "$WORK/end"
	local code=0
	finish "$app" || code=$?
	equal "$code" 3
	equal "$(cat "$WORK/app.out")" "init: 0
alloc a: 0
fill a: 0
byte a: 200
put a: 0
save a: 0
free a: 0"
	equal "$(cat "$WORK/app.err")" ""
	equal "$(names)" ""
}

@test "runtime, static" {
	whole_path "$BIN/rt_app_static"
}

@test "runtime, shared" {
	whole_path "$BIN/rt_app_shared"
}

@test "driver, linked" {
	whole_path "$BIN/drv_linked"
}

@test "driver, by dlsym" {
	whole_path "$BIN/drv_lookup" dlsym
}

@test "driver, by cuGetProcAddress" {
	whole_path "$BIN/drv_lookup" gpa
}

@test "driver, by cuGetProcAddress_v2 with a NULL status" {
	whole_path "$BIN/drv_lookup" gpa2
}

@test "driver, by cuGetProcAddress_v2 with a status" {
	whole_path "$BIN/drv_lookup" gpa2s
}

@test "driver, by the cuGetProcAddress that cuGetProcAddress answers" {
	whole_path "$BIN/drv_lookup" chain
}

@test "a pitched allocation is shared whole" {
	for program in rt_app_static drv_linked; do
		start_named "$program" "image-$program" "$BIN/$program" init pitch=a,1000,64 \
			fill=a,3 save=a,"$WORK/own" touch="$WORK/up-$program" await="$WORK/end"
		await_file "$WORK/up-$program"
		size=$(sed -n 's/^pitch a: 0 //p' "$WORK/$program.out")
		[ "$size" -ge 64000 ]
		gpushare-attach "image-$program" -o "$WORK/dump"
		cmp "$WORK/own" "$WORK/dump"
		equal "$(names | grep "image-$program ")" "image-$program $size"
	done
}

@test "free withdraws the name, and its address answers to it no more" {
	start_named app weights "$BIN/rt_app_static" init alloc=a,1Mi free=a touch="$WORK/freed" \
		await="$WORK/again" alloc=b,1Mi touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/freed"
	equal "$(names)" ""
	run -1 gpushare-attach weights -o "$WORK/dump"
	touch "$WORK/again"
	await_file "$WORK/up"
	equal "$(names)" ""
	[ ! -e "$WORK/dump" ]
}

@test "a second program may take the name once the first has freed it" {
	start_named one weights "$BIN/rt_app_static" init alloc=a,1Mi free=a touch="$WORK/freed" \
		await="$WORK/end"
	await_file "$WORK/freed"
	start_named two weights "$BIN/rt_app_static" init alloc=a,2Mi touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(names)" "weights 2097152"
	equal "$(cat "$WORK/two.err")" ""
}

# ends HOW: the name goes within 100 ms of the process's end
ends() {
	start_named app weights "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/go" "$1"
	await_file "$WORK/up"
	start gone "$BIN/api_app" open stat=weights touch="$WORK/watching" \
		gone="$PID,weights,$((100 + SLACK_MS))"
	await_file "$WORK/watching"
	touch "$WORK/go"
	[ -z "${2:-}" ] || kill "-$2" "${STARTED[0]}"
	finish "${STARTED[1]}"
	equal "$(tail -n 1 "$WORK/gone.out")" "gone weights: E_NOT_FOUND"
}

@test "exit withdraws the name at once" {
	ends exit=0
}

@test "_exit withdraws the name at once" {
	ends _exit=0
}

@test "abort withdraws the name at once" {
	ends abort
}

@test "kill -9 withdraws the name at once" {
	ends await=/nonexistent/never KILL
}

@test "two names, two allocations; a third has none" {
	start_named app weights,kv "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,2Mi alloc=c,3Mi \
		touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(names)" "kv 2097152
weights 1048576"
}

@test "nth, size, device choose" {
	start_named app 'second:nth=2,range:nth=4-5:size=1Mi,big:size=8Mi-,off:device=77,on:device=0:size=64Ki' \
		"$BIN/rt_app_static" init alloc=a,1Mi alloc=b,2Mi alloc=c,8Mi alloc=d,64Ki alloc=e,3Mi \
		touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(names)" "big 8388608
on 65536
second 2097152"
}

@test "%i counts; %p, %r and %d are filled in" {
	start app env LD_PRELOAD="$PRELOAD" RANK=5 GPUSHARE_NAME='w%i:size=1Mi,p%p-r%r-d%d' \
		"$BIN/rt_app_static" init alloc=a,1Mi alloc=b,1Mi alloc=c,2Mi alloc=d,1Mi \
		touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(names)" "p$PID-r5-d0 2097152
w0 1048576
w1 1048576
w2 1048576"
}

@test "eight threads at once get eight names" {
	for program in rt_app_static rt_app_shared drv_linked "drv_lookup gpa2"; do
		rm -f "$WORK/up" "$WORK/end"
		# shellcheck disable=SC2086 # a program and its route
		start_named app 't%i' "$BIN/"$program init threads=8,64Ki touch="$WORK/up" await="$WORK/end"
		await_file "$WORK/up"
		equal "$(names | cut -d' ' -f1 | tr '\n' ' ')" "t0 t1 t2 t3 t4 t5 t6 t7 "
		touch "$WORK/end"
		finish "$PID"
		equal "$(tail -n 1 "$WORK/app.out")" "threads: 0 failed"
	done
}

@test "a name shared by two programs: the second runs on and is told whose it is" {
	start_named one weights "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/end"
	one=$PID
	await_file "$WORK/up"
	GPUSHARE_LOG=$WORK/log untouched weights "$BIN/rt_app_static" init alloc=a,2Mi fill=a,1 byte=a,9 \
		free=a exit=4
	equal "$(wc -l <"$WORK/log")" 1
	has "$(cat "$WORK/log")" weights
	has "$(cat "$WORK/log")" "$one"
	equal "$(names)" "weights 1048576"
}
