#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Driver calls that fail on demand: the simulated driver only.
load helpers

setup_more() {
	needs_sim
}

@test "no IPC handle: the program is untouched, the name is absent, said once" {
	export GPUSHARE_SIM_FAIL=cuIpcGetMemHandle:1:99:1
	untouched 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi fill=a,3 byte=a,1 free=a exit=5
	GPUSHARE_LOG=$WORK/log start_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi \
		touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(env -u GPUSHARE_SIM_FAIL "$BIN/api_app" open list)" "open: OK"
	equal "$(wc -l <"$WORK/log")" 1
	has "$(cat "$WORK/log")" w0
	has "$(cat "$WORK/log")" cuIpcGetMemHandle
}

@test "an allocation that fails is counted by no rule, by every way to allocate" {
	local call way rule fault program=("$BIN/drv_linked" init)
	while read -r way call; do
		rule=w:nth=2
		[ "$way" != managed ] || rule=w:nth=2:unified
		fault=$call:1:1:2
		up app env GPUSHARE_SIM_FAIL="$fault" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$rule,other:size=1" "${program[@]}" \
			make=a,"$way",2Mi make=b,"$way",2Mi make=c,"$way",4Mi fill=c,7
		equal "$way: $(grep '^make' "$WORK/app.out" | xargs)" "$way: make a: 2 make b: 0 make c: 0"
		equal "$way: $(names)" "$way: w 4194304"
		if [ "$way" != managed ] && [ "$way" != vmm ]; then
			equal "$way: $(GPUSHARE_SIM_FAIL=$fault attaching w:nth=2 "${program[@]}" make=a,"$way",4Mi \
				make=b,"$way",4Mi make=c,"$way",4Mi byte=c,5 | tail -n 1)" "$way: byte c: 42"
		fi
		down
	done <<<"alloc cuMemAlloc
pitch cuMemAllocPitch
managed cuMemAllocManaged
async cuMemAllocAsync
pool cuMemAllocFromPoolAsync
vmm cuMemCreate"
}

@test "an attachment whose ordinary memory then fails is tried again by the next allocation" {
	local log=$WORK/log
	equal "$(GPUSHARE_LOG=$log GPUSHARE_SIM_FAIL=cuMemAlloc:1:1:2 attaching nobody "$BIN/drv_linked" init alloc=a,1Mi \
		alloc=b,1Mi alloc=c,1Mi)" "init: 0
alloc a: 2
alloc b: 0
alloc c: 0"
	equal "$(grep -c '"nobody" is not attached' "$log")" 2
}

@test "a copy into a buffer is there when the call returns: it waits, and says when it can't" {
	equal "$(GPUSHARE_SIM_FAIL=cuStreamSynchronize:1:1:999 api open alloc=a,w,2Mi put=a,5,1 put=a,5,2 byte=a,5 2>/dev/null |
		tail -n 3)" "put a: E_CUDA
put a: OK
byte a: 2"
}

@test "a free that fails is answered as it failed" {
	GPUSHARE_SIM_FAIL=cuMemFree_v2:1:1:1 untouched weights "$BIN/drv_linked" init alloc=a,1Mi free=a free=a
}

@test "the driver sees the program's calls, once each, and the handle's" {
	start app env GPUSHARE_SIM_LOG="$WORK/log" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=weights \
		"$BIN/drv_linked" init alloc=a,1Mi alloc=b,2Mi free=a free=b
	finish "$PID"
	equal "$(grep -c '\bcuMemAlloc_v2\b' "$WORK/log")" 2
	equal "$(grep -c '\bcuMemFree_v2\b' "$WORK/log")" 2
	equal "$(grep -c '\bcuIpcGetMemHandle\b' "$WORK/log")" 1
}

@test "unnamed, the driver sees what it would have seen without us" {
	script=(init alloc=a,1Mi fill=a,3 byte=a,1 pitch=b,100,3 free=a free=b)
	for program in rt_app_static drv_linked; do
		env GPUSHARE_SIM_LOG="$WORK/plain" "$BIN/$program" "${script[@]}" >/dev/null
		env GPUSHARE_SIM_LOG="$WORK/with" LD_PRELOAD="$PRELOAD" "$BIN/$program" "${script[@]}" >/dev/null
		calls() { grep -o '\bcu[A-Z][A-Za-z0-9_]*' "$1"; }
		equal "$(calls "$WORK/with")" "$(calls "$WORK/plain")"
		rm "$WORK/with" "$WORK/plain"
	done
}

@test "a context whose end fails keeps its memory, its names and the sizes that were asked for" {
	for words in "primary=reset" "primary=reset,v1" "ctxdestroy=B" "ctxdestroy=B,v1"; do
		for rule in 'w%i' 'w%i:vmm'; do
			echo "$words, $rule"
			rm -f "$WORK"/{up,end}
			script=(init ctxnew=B)
			[[ $words != primary* ]] || script=(init)
			script+=(make=a,alloc,700 make=b,async,3000000 fill=a,7 "$words" range=a range=b byte=a,5)
			export GPUSHARE_SIM_FAIL=cuDevicePrimaryCtxReset:1:1:999,cuCtxDestroy:1:1:999
			plain=$("$BIN/drv_linked" "${script[@]}")
			has "$plain" ": 999"
			start_named app "$rule" "$BIN/drv_linked" "${script[@]}" touch="$WORK/up" await="$WORK/end" drop=a drop=b
			unset GPUSHARE_SIM_FAIL
			await_file "$WORK/up"
			equal "$(cat "$WORK/app.out")" "$plain"
			equal "$(names)" "w0 700
w1 3000000"
			equal "$(api open attach=b,w0 byte=b,5 | tail -n 1)" "byte b: 42"
			down
			equal "$(tail -n 2 "$WORK/app.out")" "drop a: 0
drop b: 0"
			equal "$(names)" ""
		done
	done
}

@test "a context whose end fails keeps adopted memory, which the next registry gets too" {
	named w:keep "$BIN/drv_linked" init alloc=a,2Mi fill=a,7
	begin_named app w:keep:adopt,x:size=1Mi env GPUSHARE_SIM_FAIL=cuCtxDestroy:1:1:999 "$BIN/drv_linked" init \
		ctxnew=B make=a,alloc,2Mi ctxdestroy=B touch="$WORK/up" await="$WORK/go" alloc=b,1Mi touch="$WORK/asked" \
		await="$WORK/end"
	has "$(<"$WORK/app.out")" "ctxdestroy B: 999"
	equal "$(names)" "w 2097152"
	restart_registry
	resume go asked
	equal "$(names)" "w 2097152
x 1048576"
	equal "$(api open attach=b,w byte=b,5 | tail -n 1)" "byte b: 42"
}

@test "opening the handle fails: the API says which call, the consumer has ordinary memory" {
	up_named producer weights "$BIN/rt_app_static" init alloc=a,1Mi
	export GPUSHARE_SIM_FAIL=cuIpcOpenMemHandle_v2:1:99:999
	run -0 --separate-stderr api open attach=b,weights
	equal "$output" "open: OK
attach weights: E_CUDA"
	has "$stderr" cuIpcOpenMemHandle
	equal "$(attaching weights "$BIN/rt_app_static" init alloc=a,1Mi fill=a,7 byte=a,5 free=a 2>&1)" \
		"init: 0
alloc a: 0
fill a: 0
byte a: 42
free a: 0"
	run -1 gpushare-attach weights -o "$WORK/dump"
	[ ! -e "$WORK/dump" ]
}

@test "a copy that fails half way: the call is named, the partial file removed" {
	mkdir "$WORK/out"
	up_named producer weights "$BIN/rt_app_static" init alloc=a,64Mi
	GPUSHARE_SIM_FAIL=cuMemcpyDtoHAsync_v2:2:99:999 run -1 --separate-stderr \
		gpushare-attach weights -o "$WORK/out/dump"
	equal "$(ls -A "$WORK/out")" ""
	has "$stderr" weights
	has "$stderr" cuMemcpyDtoHAsync
}
