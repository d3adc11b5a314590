#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Threads, contexts, streams, signals and ends: a program behaves the same with all its memory named, and no name
# outlives its memory.
load helpers

@test "two threads, many allocations: as many names, none twice, none left after the frees" {
	for program in rt_app_static drv_linked; do
		program "$program"
		begin_named app 'w%i' "${PROGRAM[@]}" init hoard=2,200,4Ki touch="$WORK/up" await="$WORK/free" \
			release touch="$WORK/freed" await="$WORK/end"
		equal "$(names | sort)" "$(seq 0 399 | sed 's/.*/w& 4096/' | sort)"
		resume free freed
		equal "$(names)" ""
		down
		equal "$(tail -n 2 "$WORK/app.out")" "hoard: 0 failed
release: 0 failed"
		rm -f "$WORK"/{up,free,freed,end}
	done
}

@test "sixteen threads allocate and free at random, each other's too: names are what is live" {
	for program in rt_app_static rt_thread_shared "drv_lookup gpa2_t"; do
		program "$program"
		alike "${PROGRAM[@]}" init churn=16,200,4Ki,"$WORK/live" release
		equal "$stderr" ""
		begin_named app 'w%i' "${PROGRAM[@]}" init churn=16,200,4Ki,"$WORK/live" touch="$WORK/up" \
			await="$WORK/free" release touch="$WORK/freed" await="$WORK/end"
		equal "$(lines "$(names)")" "$(cat "$WORK/live")"
		resume free freed
		equal "$(names)" ""
		down
		rm -f "$WORK"/{up,free,freed,end}
	done
}

@test "threads without a context get the same answers" {
	alike "$BIN/drv_linked" init make=a,alloc,2Mi thread=make,b,alloc,2Mi thread=make,b,async,2Mi \
		thread=make,b,vmm,2Mi thread=drop,a thread=range,a drop=a thread=alloc,c,2Mi \
		ctxset=none make=d,alloc,2Mi make=d,async,2Mi make=d,pitch,2Mi ctxset=primary free=c
	equal "$stderr" ""
	# The CUDA runtime makes the context current in each thread by itself.
	alike "$BIN/rt_app_static" init thread=alloc,a,2Mi thread=free,a thread=make,b,async,2Mi \
		thread=drop,b
	equal "$stderr" ""
}

@test "a free in a thread without a context, or under another one: what is freed has no record" {
	up_named app 'w%i' "$BIN/drv_linked" init make=a,alloc,2Mi make=b,alloc,2Mi thread=drop,a \
		ctxnew=B drop=b
	has "$(cat "$WORK/app.out")" "drop b: 0"
	for drop in "a w0" "b w1"; do
		if grep -qx "drop ${drop% *}: 0" "$WORK/app.out"; then refute grep "^${drop#* } " <<<"$(names)"; fi
	done
}

# context_goes WORD...: the words end the context of w0 and w1, then make w2 in another context
context_goes() {
	rm -f "$WORK"/{up,go,gone,end}
	begin_named app 'w%i' "$BIN/drv_linked" init ${BEFORE:+$BEFORE} make=a,alloc,2Mi make=b,async,2Mi \
		touch="$WORK/up" await="$WORK/go" "$@" touch="$WORK/gone" await="$WORK/end"
	equal "$(names)" "w0 2097152
w1 2097152"
	resume go gone
	equal "$(names)" "w2 4194304"
	api open attach=b,w0 | grep -qx 'attach w0: E_NOT_FOUND'
	down
}

@test "a destroyed context's records go, and a new one's allocations are named" {
	for generation in "" ,v1; do
		words=(ctxdestroy=B$generation ctxset=primary make=c,alloc,4Mi)
		alike "$BIN/drv_linked" init ctxnew=B make=a,alloc,2Mi make=b,async,2Mi "${words[@]}" drop=a \
			drop=c
		equal "$stderr" ""
		BEFORE=ctxnew=B context_goes "${words[@]}"
	done
}

@test "a reset primary context's records go, and the new one's allocations are named" {
	for generation in "" ,v1; do
		words=(primary=reset$generation primary=retain ctxset=primary make=c,alloc,4Mi)
		alike "$BIN/drv_linked" init make=a,alloc,2Mi make=b,async,2Mi "${words[@]}" drop=c drop=a
		equal "$stderr" ""
		BEFORE='' context_goes "${words[@]}"
	done
}

@test "a released primary context's records go with its last user, not before" {
	for generation in "" ,v1; do
		words=(primary=release$generation primary=retain ctxset=primary make=c,alloc,4Mi)
		alike "$BIN/drv_linked" init make=a,alloc,2Mi make=b,async,2Mi "${words[@]}" drop=c drop=a
		equal "$stderr" ""
		BEFORE='' context_goes "${words[@]}"
	done
	begin_named app 'w%i' "$BIN/drv_linked" init primary=retain make=a,alloc,2Mi primary=release \
		touch="$WORK/up" await="$WORK/end2"
	equal "$(names)" "w0 2097152"
}

@test "a context that could not be destroyed keeps its records" {
	up_named app 'w%i' "$BIN/drv_linked" init make=a,alloc,2Mi ctxdestroy=Z
	equal "$(names)" "w0 2097152"
}

@test "a context that could not be destroyed keeps what is freed behind its stream" {
	needs_sim
	up_named producer weights "$BIN/rt_app_static" init alloc=a,2Mi
	begin consumer env GPUSHARE_SIM_FAIL=cuCtxDestroy:1:1 LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/drv_linked" \
		init ctxnew=B stream=s make=a,async,2Mi,s stall=s drop=a,async,s ctxdestroy=B touch="$WORK/kept" \
		await="$WORK/go" go=s make=b,async,64Ki,s touch="$WORK/gone" await="$WORK/end"
	equal "$(attachers weights)" 1
	resume go gone
	until_true attachers_are weights 0
	has "$(<"$WORK/consumer.out")" "ctxdestroy B: 999"
}

@test "cudaDeviceReset: the records go, and what comes after is named" {
	for program in rt_app_static rt_app_shared rt_thread_static; do
		program "$program"
		alike "${PROGRAM[@]}" init alloc=a,2Mi devicereset alloc=b,4Mi fill=b,1 byte=b,1 free=b
		equal "$stderr" ""
		up_named app 'w%i' "${PROGRAM[@]}" init alloc=a,2Mi devicereset alloc=b,4Mi
		equal "$(names)" "w1 4194304"
		down
	done
}

@test "what was attached in a context that goes is attached no more; the owner keeps it" {
	up_named producer weights "$BIN/rt_app_static" init alloc=a,2Mi fill=a,7
	local all=("ctxnew=B make=a,alloc,2Mi|ctxdestroy=B" "make=a,alloc,2Mi|primary=reset")
	# Freed behind a stream that stands still: it stays attached until the context goes.
	[ "$GPUSHARE_TEST_DRIVER" = gpu ] || all+=("ctxnew=B stream=s make=a,async,2Mi,s stall=s drop=a,async,s|ctxdestroy=B")
	for words in "${all[@]}"; do
		rm -f "$WORK"/{attached,go,gone}
		# shellcheck disable=SC2086 # words
		begin consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/drv_linked" init ${words%|*} \
			touch="$WORK/attached" await="$WORK/go" "${words#*|}" touch="$WORK/gone" await="$WORK/over"
		equal "$(attachers weights)" 1
		resume go gone
		equal "$(attachers weights)" 0
		kill -KILL "$PID"
	done
	equal "$(api open attach=b,weights byte=b,5 | tail -n 1)" "byte b: 42"
}

# reused WAY FREE...: if the driver returns a freed address again, only the new name has it
reused() {
	up_named app 'w%i' "$BIN/drv_linked" init ${BEFORE:+$BEFORE} make=a,"$1",1024Mi "${@:2}" \
		again=a,b,100
	if [ "$GPUSHARE_TEST_DRIVER" = gpu ] && grep -q "^again a: not the same" "$WORK/app.out"; then
		# A real driver may return another address; the old name is removed in both cases.
		equal "$(names)" ""
		api open attach=b,w0 | grep -qx 'attach w0: E_NOT_FOUND'
		down
		return
	fi
	has "$(cat "$WORK/app.out")" "again a: the same address"
	equal "$(lines "$(names)")" 1
	api open attach=b,w0 | grep -qx 'attach w0: E_NOT_FOUND'
	name=$(names)
	api open attach=b,"${name% *}" | grep -qx "attach ${name% *}: OK"
	down
}

@test "an address that is handed out again does not answer to the old name" {
	reused alloc drop=a
}

@test "an address that comes again after cuMemFreeAsync does not answer to the old name" {
	reused alloc drop=a,async
}

@test "an address that comes again after its context does not answer to the old name" {
	BEFORE=ctxnew=B reused alloc ctxdestroy=B ctxset=primary
}

@test "another object mapped at an address does not answer to the old name" {
	begin_named app 'w%i' "$BIN/drv_linked" init make=a,vmm,2Mi fill=a,1 remap=a fill=a,2 \
		touch="$WORK/up" await="$WORK/end" drop=a touch="$WORK/dropped" await="$WORK/over"
	equal "$(names)" "w1 2097152"
	equal "$(api open attach=a,w0 attach=b,w1 byte=b,0)" "open: OK
attach w0: E_NOT_FOUND
attach w1: OK
byte b: 2"
	resume end dropped
	equal "$(names)" ""
}

@test "a name given again has a generation of its own" {
	begin_named app "weights" "$BIN/rt_app_static" init alloc=a,2Mi touch="$WORK/up" await="$WORK/go" \
		free=a become=4 init alloc=a,2Mi touch="$WORK/again" await="$WORK/end"
	first=$(shown weights generation)
	resume go again
	second=$(shown weights generation)
	[ "$first" -gt 0 ]
	[ "$second" -gt "$first" ]
}

@test "an attached buffer is freed by a thread without a context, as other memory is" {
	for way in alloc vmm; do
		up_named producer weights "$BIN/drv_linked" init make=a,$way,2Mi fill=a,7
		equal "$(attaching weights "$BIN/drv_linked" init alloc=a,2Mi byte=a,5 thread=free,a free=a)" "init: 0
alloc a: 0
byte a: 42
free a: 0
free a: 1"
		kill -KILL "$PID"
		until_true nothing_named
	done
}

@test "a thread that is cancelled while it waits for a name leaves the others theirs" {
	up app env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=nobody:wait=1:must:size=1Mi GPUSHARE_NAME=w:size=2Mi \
		"$BIN/drv_linked" init cancel=alloc,a,1Mi within=$((500 + SLACK_MS)) alloc=b,2Mi
	equal "$(names)" "w 2097152"
	equal "$(grep -c late "$WORK/app.out" || true)" 0
}

@test "a thread that waits for a name does not hold up the others" {
	begin app env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=nobody:wait=60:size=1Mi GPUSHARE_NAME=w%i:size=2Mi \
		"$BIN/drv_linked" init aside=alloc,a,1Mi touch="$WORK/up" await="$WORK/go" alloc=b,2Mi alloc=c,2Mi \
		touch="$WORK/named" await="$WORK/end" _exit=0
	until_true waiters 1
	resume go named
	equal "$(names)" "w0 2097152
w1 2097152"
	refute grep "alloc a" "$WORK/app.out"
}
