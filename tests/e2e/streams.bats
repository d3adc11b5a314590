#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Stream-ordered memory: named, freed in its stream's order, and left alone while a stream is captured. Also every way
# to allocate, answered with another program's buffer.
load helpers

PROGRAMS=(rt_app_static rt_app_shared rt_thread_static drv_linked "drv_lookup gpa2_t")

@test "a stream's work and frees: the same output" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		alike "${PROGRAM[@]}" init stream=s make=a,async,2Mi,s fill=a,3 byte=a,4 drop=a,async,s \
			make=b,pool,2Mi,s make=c,async,700 drop=b,async,s go=s drop=c make=d,async,2Mi,s \
			drop=d,free go=s
		equal "$stderr" ""
	done
}

@test "freed in a stream that may be captured or not: cudaMalloc memory is the driver's to free, mapped memory stays" {
	needs_sim
	local words=(init stream=s make=a,alloc,2Mi fill=a,7 drop=a,async,s byte=a,1 drop=a,alloc)
	local fault=cuStreamIsCapturing:1:1:999
	program drv_linked
	GPUSHARE_SIM_FAIL=$fault untouched 'w%i' "${PROGRAM[@]}" "${words[@]}"
	equal "$(GPUSHARE_SIM_FAIL=$fault named 'w%i:vmm' "${PROGRAM[@]}" "${words[@]}" | tail -n 3)" "drop a: 999
byte a: 14
drop a: 0"
	up_named owner weights "$BIN/drv_linked" init make=a,alloc,2Mi fill=a,7
	equal "$(GPUSHARE_SIM_FAIL=$fault attaching weights "${PROGRAM[@]}" init stream=s make=a,alloc,2Mi drop=a,async,s \
		drop=a,alloc | tail -n 2)" "drop a: 1
drop a: 0"
}

@test "freed behind a stream that stands still: at once, and the memory stays until it goes on" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		script=(init stream=s make=a,async,2Mi,s fill=a,7 go=s stall=s within=$((500 + SLACK_MS))
			drop=a,async,s)
		still=(byte=a,5 put=a,6,99 byte=a,6)
		alike "${PROGRAM[@]}" "${script[@]}" go=s make=b,async,2Mi,s drop=b,async,s go=s
		equal "$stderr" ""
		rm -f "$WORK"/{up,go,gone,end}
		plain=alloc mapped=vmm
		[[ $program != rt_* ]] || plain=malloc mapped=entry-vmm
		begin_named app 'w%i' "${PROGRAM[@]}" "${script[@]}" "${still[@]}" make=b,async,2Mi \
			make=c,$plain,2Mi make=d,$mapped,2Mi apart=a,b apart=a,c apart=a,d fill=b,1 fill=c,2 \
			fill=d,3 byte=a,5 touch="$WORK/up" await="$WORK/go" go=s make=e,async,2Mi,s \
			touch="$WORK/gone" await="$WORK/end"
		equal "$(grep -c '^apart .*: yes' "$WORK/app.out")" 3
		equal "$(grep '^byte a' "$WORK/app.out")" "byte a: 42
byte a: 99
byte a: 42"
		equal "$(grep late "$WORK/app.out" || true)" ""
		equal "$(names)" "w1 2097152
w2 2097152
w3 2097152"
		resume go gone
		equal "$(names | head -n 4)" "w1 2097152
w2 2097152
w3 2097152
w4 2097152"
		down
	done
}

@test "freed behind a stream that stands still, the process ends: no wait, the names are gone" {
	begin_named app 'w%i' "$BIN/drv_linked" init stream=s make=a,async,2Mi,s go=s stall=s drop=a,async,s \
		touch="$WORK/up" await="$WORK/end" _exit=3
	touch "$WORK/end"
	took_ms finish "$PID" || true
	[ "$TOOK_MS" -le $((1000 + SLACK_MS)) ]
	until_true nothing_named
}

@test "memory that its stream is still to free is waited for where there is no other; names go on" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=8M
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		plain=alloc
		[[ $program != rt_* ]] || plain=malloc
		up_named app 'w%i' "${PROGRAM[@]}" init stream=s make=a,async,6Mi,s fill=a,7 go=s stall=s \
			drop=a,async,s gosoon=s make=b,async,6Mi,s fill=b,3 byte=b,9 stall=s drop=b,async,s \
			gosoon=s make=c,$plain,6Mi fill=c,5 byte=c,9
		equal "$(grep '^make [bc]\|^byte' "$WORK/app.out")" "make b: 0
byte b: 66
make c: 0
byte c: 68"
		equal "$(names)" "w2 6291456"
		down
	done
	GPUSHARE_TIMEOUT_MS=300 took_ms named 'w%i' "$BIN/drv_linked" init errno stream=s make=a,async,6Mi,s \
		stall=s drop=a,async,s make=b,async,6Mi,s go=s make=c,async,6Mi,s >"$WORK/out"
	equal "$(grep '^make [bc]' "$WORK/out")" "make b: 2 errno 77
make c: 0 errno 77"
	[ "$TOOK_MS" -ge 300 ] && [ "$TOOK_MS" -lt $((2000 + 2 * SLACK_MS)) ]
}

@test "memory that is freed in an idle stream is back for the allocation that finds too little" {
	needs_sim
	has "$(named w:nth=1 "$BIN/drv_linked" init stream=s mark make=a,async,2Mi,s go=s drop=a,async,s taken=idle)" \
		"taken idle: 0"
}

# A process has few hardware queues, and a stream that stands still holds up the other streams of its queue. Which
# streams share one depends on how many the process has made. So no stream of the preload may wait for another.
@test "freed behind a stream that stands still: the streams that share its queue are held up by nothing else" {
	needs_sim
	local before script
	for before in {0..7}; do
		script=(init stream=w stream=s make=a,async,2Mi,s stall=s)
		for ((i = 0; i < before; i++)); do script+=(stream=x); done
		GPUSHARE_SIM_CONNECTIONS=8 alike "$BIN/drv_linked" "${script[@]}" drop=a,async,s goby=s,w go=s
		has "$(GPUSHARE_SIM_CONNECTIONS=8 named 'w%i' "$BIN/drv_linked" "${script[@]}" drop=a,async,s goby=s,w)" \
			"goby s: 0"
	done
}

@test "allocations while a stream is captured are left alone: no record, the capture ends as it would" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		way=alloc
		[[ $program != rt_* ]] || way=malloc
		for words in capture=s\ make=a,async,2Mi,s "capture=s make=a,$way,2Mi" \
			"capture=s,relaxed make=a,async,2Mi,s" "capture=s make=a,pool,2Mi,s drop=a,async,s"; do
			echo "$program, $words"
			# shellcheck disable=SC2086 # words
			alike "${PROGRAM[@]}" init stream=s $words endcapture=s make=b,$way,2Mi fill=b,1 drop=b
			equal "$stderr" ""
		done
		up_named app 'w%i' "${PROGRAM[@]}" init stream=s capture=s make=a,async,2Mi,s endcapture=s \
			make=b,async,4Mi,s
		equal "$(names | cut -d' ' -f2)" 4194304
		down
	done
}

@test "an allocation during a capture takes no attached buffer and spends no rule" {
	up_named producer weights "$BIN/rt_app_static" init alloc=a,2Mi fill=a,7
	equal "$(attaching weights:must "$BIN/drv_linked" init stream=s capture=s make=a,async,2Mi,s endcapture=s \
		make=b,alloc,2Mi byte=b,5 | tail -n 2)" "make b: 0
byte b: 42"
}

# produced WAY SIZE: start a producer that allocates "weights" by WAY
produced() {
	up_named producer weights "$BIN/drv_linked" init make=a,"$1","$2" fill=a,7
}

# consumed PROGRAM WAY BYTE: the allocation by WAY is the named buffer until the program frees it. A stream-ordered free
# is detached at the latest by the next call.
consumed() {
	local alloc=alloc
	[[ $1 != rt_* ]] || alloc=malloc
	program "$1"
	rm -f "$WORK"/{attached,free,freed,over}
	begin consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "${PROGRAM[@]}" init make=a,"$2",2Mi \
		byte=a,5 put=a,6,"$3" touch="$WORK/attached" await="$WORK/free" drop=a \
		make=c,$alloc,64Ki touch="$WORK/freed" await="$WORK/over" make=b,"$2",2Mi drop=b
	equal "$(attachers weights)" 1
	equal "$(api open attach=b,weights byte=b,6 | tail -n 1)" "byte b: $3"
	resume free freed
	equal "$(attachers weights)" 0
	touch "$WORK/over"
	finish "$PID"
	equal "$(cat "$WORK/consumer.out")" "init: 0
make a: 0
byte a: 42
put a: 0
drop a: 0
make c: 0
make b: 0
drop b: 0"
	equal "$(cat "$WORK/consumer.err")" ""
}

@test "attach: every way to allocate gets the buffer, its free detaches" {
	produced alloc 2Mi
	for way in malloc pitch 3d async pool entry-alloc entry-async; do
		consumed rt_app_static "$way" 11
		consumed rt_thread_shared "$way" 12
	done
	for way in alloc pitch async pool; do
		consumed drv_linked "$way" 13
		consumed "drv_lookup gpa2_t" "$way" 14
	done
}

@test "attach: buffers of every way of the producer's" {
	for way in alloc pitch async pool vmm; do
		rm -f "$WORK"/{up,end}
		produced "$way" 2Mi
		producer=$PID
		for consumer in malloc pitch async; do
			echo "$way, $consumer"
			consumed rt_app_static "$consumer" 21
		done
		kill -KILL "$producer"
		until_true nothing_named
	done
}

@test "attach: an asynchronous free does not wait for other streams" {
	up_named producer weights "$BIN/rt_app_static" init alloc=a,2Mi
	begin consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/drv_linked" init stream=s \
		stream=t make=a,async,2Mi,t go=t stall=s within=$((500 + SLACK_MS)) drop=a,async,t \
		make=b,async,2Mi,t touch="$WORK/dropped" await="$WORK/go" go=s drop=b,async,t make=c,alloc,2Mi \
		drop=c exit=4
	equal "$(attachers weights)" 0
	touch "$WORK/go"
	code=0
	finish "$PID" || code=$?
	equal "$code" 4
	equal "$(grep late "$WORK/consumer.out" || true)" ""
}

@test "attach: an asynchronous free is in its stream's order" {
	produced alloc 2Mi
	start consumer env GPUSHARE_SIM_LOG="$WORK/log" LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/rt_app_static" \
		init stream=s make=a,async,2Mi,s stall=s within=$((500 + SLACK_MS)) drop=a,async,s byte=a,5 go=s alloc=b,64Ki \
		free=b
	finish "$PID"
	equal "$(cat "$WORK/consumer.out")" "init: 0
stream s: 0
make a: 0
stall s: 0
drop a: 0
byte a: 42
go s: 0
alloc b: 0
free b: 0"
	equal "$(attachers weights)" 0
	[ ! -e "$WORK/log" ] || equal "$(grep -c 'cuIpcCloseMemHandle 0' "$WORK/log")" 1
}

@test "attach: freed behind more streams than one call asks about: each goes when its own stream goes on" {
	local letters=abcdefghijkl owner=(open) script=(init) drop=() i
	for i in {0..11}; do
		owner+=("alloc=${letters:i:1},w$i,2Mi")
		script+=("stream=${letters:i:1}" "make=${letters:i:1},async,2Mi,${letters:i:1}" "stall=${letters:i:1}")
		drop+=("drop=${letters:i:1},async,${letters:i:1}")
	done
	up owner "$BIN/api_app" "${owner[@]}"
	rm "$WORK/up"
	# A stream that waits must not hold up others that share its hardware queue.
	begin consumer env CUDA_DEVICE_MAX_CONNECTIONS=32 LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w%i:size=2Mi' "$BIN/drv_linked" "${script[@]}" "${drop[@]}" \
		touch="$WORK/up" await="$WORK/go" go=l make=z,async,4Ki,l make=z,async,4Ki,l \
		make=z,async,4Ki,l make=z,async,4Ki,l touch="$WORK/last" await="$WORK/over"
	equal "$(attachers w0) $(attachers w11)" "1 1"
	resume go last
	last_is_gone() { [ "$(attachers w0) $(attachers w11)" = "1 0" ]; }
	until_true last_is_gone
}

@test "attach: one buffer twice, one of them freed behind a stream that stands still" {
	produced alloc 2Mi
	equal "$(attaching weights,weights "$BIN/drv_linked" init stream=s make=a,async,2Mi,s make=b,async,2Mi,s \
		stall=s drop=a,async,s byte=b,5 drop=b,async,s go=s drop=a,async,s)" "init: 0
stream s: 0
make a: 0
make b: 0
stall s: 0
drop a: 0
byte b: 42
drop b: 0
go s: 0
drop a: 1"
	equal "$(attachers weights)" 0
}

@test "attach: waiting for memory that is freed behind a stream leaves errno alone" {
	needs_sim
	produced alloc 2Mi
	export GPUSHARE_TIMEOUT_MS=100 GPUSHARE_SIM_FAIL=cuMemAlloc:1:2:2
	equal "$(attaching weights "$BIN/drv_linked" init errno stream=s make=a,async,2Mi,s stall=s drop=a,async,s \
		alloc=b,2Mi | tail -n 1)" "alloc b: 2 errno 77"
}

# refusals COUNT: COUNT lines of the log report that something is not attached, and stderr is empty
refusals() {
	equal "$(cat "$WORK/said")" ""
	equal "$(grep -c 'is not attached: ' "$WORK/log" || true)" "$1"
}

# ordinary WORD LINE RULE PROGRAM...: the program gets its own memory, and one line of the log contains WORD and LINE
ordinary() {
	rm -f "$WORK/log"
	equal "$(GPUSHARE_LOG=$WORK/log attaching "$3" "${@:4}" 2>"$WORK/said")" "$("${@:4}")"
	refusals 1
	has "$(grep 'is not attached: ' "$WORK/log")" "$1"
	has "$(grep 'is not attached: ' "$WORK/log")" "$2"
}

@test "attach: managed memory, a buffer too small, a name that nobody has: a line in the log, ordinary memory" {
	produced alloc 2Mi
	for program in rt_app_static drv_linked; do
		program "$program"
		plain=alloc
		[[ $program != rt_* ]] || plain=malloc
		ordinary '"weights"' managed weights "${PROGRAM[@]}" init make=a,managed,2Mi fill=a,1 byte=a,5 drop=a
		for way in $plain async pitch pool; do
			ordinary '"weights"' 2097152 weights "${PROGRAM[@]}" init make=a,$way,4Mi fill=a,1 byte=a,5 \
				drop=a
			ordinary '"nobody"' "" nobody "${PROGRAM[@]}" init make=a,$way,4Mi fill=a,1 byte=a,5 drop=a
		done
	done
	equal "$(attachers weights)" 0
	equal "$(api open attach=b,weights byte=b,5 | tail -n 1)" "byte b: 42"
}

@test "attach with must: the CUDA error that fits, by every way" {
	produced alloc 2Mi
	export GPUSHARE_LOG=$WORK/log
	for program in rt_app_static drv_linked; do
		program "$program"
		plain=alloc
		[[ $program != rt_* ]] || plain=malloc
		for way in $plain async pool pitch; do
			rm -f "$WORK/log"
			equal "$(attaching nobody:must "${PROGRAM[@]}" init make=a,$way,2Mi make=b,$way,2Mi \
				2>"$WORK/said" | tail -n 2)" "make a: 2
make b: 2"
			refusals 2
			equal "$(attaching weights:must "${PROGRAM[@]}" init make=a,$way,4Mi 2>"$WORK/said" |
				tail -n 1)" "make a: 2"
			refusals 3
			equal "$(attaching weights:must "${PROGRAM[@]}" init make=a,$way,2Mi byte=a,5 |
				tail -n 1)" "byte a: 42"
		done
		equal "$(attaching weights:must "${PROGRAM[@]}" init make=a,managed,2Mi 2>"$WORK/said" |
			tail -n 1)" "make a: 801"
		refusals 4
	done
	equal "$(attachers weights)" 0
}
