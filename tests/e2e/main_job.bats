#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The main job: an unmodified program's buffer gets a name; another process attaches, changes and dumps it.
load helpers

# whole_path PROGRAM...: PROGRAM's buffer gets one name. Another process attaches it, both processes see each other's
# writes, and the dump equals the program's own copy.
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
	resume changed saved
	gpushare-attach weights -o "$WORK/dump"
	cmp "$WORK/own" "$WORK/dump"
	touch "$WORK/end"
	ends_with 3 "$app"
	equal "$(cat "$WORK/app.out")" "init: 0
alloc a: 0
fill a: 0
byte a: 200
put a: 0
save a: 0
free a: 0"
	equal "$(cat "$WORK/app.err")" ""
	equal "$(names)" ""
	rm -f "$WORK"/{up,changed,saved,end}
}

@test "named, attached elsewhere, changed both ways, dumped: by each runtime and each way to the driver" {
	whole_path "$BIN/rt_app_static"
	whole_path "$BIN/rt_app_shared"
	whole_path "$BIN/drv_linked"
	for route in dlsym gpa gpa2 gpa2s chain; do
		echo "$route"
		whole_path "$BIN/drv_lookup" $route
	done
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

# ends HOW: the name is removed within 100 ms after the process ends by HOW
ends() {
	begin_named app weights "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/go" "$1"
	begin gone "$BIN/api_app" open stat=weights touch="$WORK/watching" \
		gone="$PID,weights,$((100 + SLACK_MS))"
	touch "$WORK/go"
	[ -z "${2:-}" ] || kill "-$2" "${STARTED[-2]}"
	finish "$PID"
	equal "$(tail -n 1 "$WORK/gone.out")" "gone weights: E_NOT_FOUND"
	rm "$WORK"/{up,watching,go}
}

@test "exit, _exit, abort and kill -9 withdraw the name at once" {
	ends exit=0
	ends _exit=0
	ends abort
	ends await=/nonexistent/never KILL
}

@test "nth, size, device choose" {
	up_named app 'second:nth=2,range:nth=4-5:size=1Mi,big:size=8Mi-,off:device=77,on:device=0:size=64Ki' \
		"$BIN/rt_app_static" init alloc=a,1Mi alloc=b,2Mi alloc=c,8Mi alloc=d,64Ki alloc=e,3Mi
	equal "$(names)" "big 8388608
on 65536
second 2097152"
}

@test "%i counts; %p, %r and %d are filled in" {
	up app env LD_PRELOAD="$PRELOAD" RANK=5 GPUSHARE_NAME='w%i:size=1Mi,p%p-r%r-d%d' \
		"$BIN/rt_app_static" init alloc=a,1Mi alloc=b,1Mi alloc=c,2Mi alloc=d,1Mi
	equal "$(names)" "p$PID-r5-d0 2097152
w0 1048576
w1 1048576
w2 1048576"
}

@test "a name shared by two programs: the second runs on and is told whose it is" {
	up_named one weights "$BIN/rt_app_static" init alloc=a,1Mi
	one=$PID
	GPUSHARE_LOG=$WORK/log untouched weights "$BIN/rt_app_static" init alloc=a,2Mi fill=a,1 byte=a,9 \
		free=a exit=4
	equal "$(wc -l <"$WORK/log")" 1
	has "$(cat "$WORK/log")" weights
	has "$(cat "$WORK/log")" "$one"
	equal "$(names)" "weights 1048576"
}
