#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Rules with unified: every process reaches an unmodified program's managed memory at one address, as host memory.
load helpers

# Everything that a program may do with managed memory, on the CPU and on the GPU.
managed_life=(init stream=s make=a,managed,3000000 poke=a,5,77 byte=a,5 fill=a,3 peek=a,4 range=a about=a about=a,4097
	prefetch=a,3000000 prefetch=a,3000001 advise=a,100 attachmem=a,s freeasync=a,s peek=a,4 drop=a drop=a
	make=b,managed,4Mi poke=b,0,1 byte=b,0 drop=b)

@test "rule: managed memory of an unmodified program, which notices nothing" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		for program in drv_linked "drv_lookup gpa2" "drv_lookup gpa2_t"; do
			program "$program"
			untouched w:unified "${PROGRAM[@]}" "${managed_life[@]}"
			equal "$stderr" ""
			untouched 'w%i:unified' "${PROGRAM[@]}" "${managed_life[@]}" make=c,managed,2Mi ipcget=c,"$WORK/none"
			equal "$stderr" ""
		done
		for program in rt_app_static rt_app_shared; do
			[ -x "$BIN/$program" ] || continue
			untouched 'w%i:unified' "$BIN/$program" init make=a,managed,2Mi fill=a,1 byte=a,5 drop=a exit=4
			equal "$stderr" ""
		done
	done
	equal "$(names)" ""
}

@test "rule: named, reached by others' CPU and GPU, and gone with the free" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		rm -f "$WORK"/{up,go,freed,end}
		begin_named app w:unified "$BIN/drv_linked" init alloc=x,2Mi make=a,managed,3Mi fill=a,7 touch="$WORK/up" \
			await="$WORK/go" peek=a,9 byte=a,9 drop=a touch="$WORK/freed" await="$WORK/end"
		equal "$(names)" "w 3145728"
		equal "$(api open backing=w attach=b,w cpubyte=b,4 byte=b,4 cpuput=b,9,99 | tail -n 4)" \
			"backing w: 3, 3145728 of 4194304
attach w: OK
cpubyte b: 35
byte b: 35"
		resume go freed
		equal "$(names)" ""
		down app
		equal "$(tail -n 3 "$WORK/app.out")" "peek a: 99
byte a: 99
drop a: 0"
	done
}

@test "rule: keep, adopt and readonly go with it; the context's end takes the name along" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		named w:unified:keep:adopt "$BIN/drv_linked" init make=a,managed,2Mi fill=a,7 >/dev/null
		equal "$(api open attach=b,w cpubyte=b,4 pointer=b,"$WORK/at" | tail -n 1)" "cpubyte b: 35"
		equal "$(named w:unified:keep:adopt "$BIN/drv_linked" init make=a,managed,2Mi peek=a,4 byte=a,4 drop=a)" \
			"init: 0
make a: 0
peek a: 35
byte a: 35
drop a: 0"
		equal "$(api open attach=b,w at=b,"$WORK/at" | tail -n 1)" "at b: there"
		gpushare rm w
		rm -f "$WORK/up"
		begin_named app w:unified:readonly "$BIN/drv_linked" init ctxnew=B make=a,managed,2Mi fill=a,7 \
			touch="$WORK/up" await="$WORK/go" ctxdestroy=B touch="$WORK/gone" await="$WORK/end"
		has "$(api open attach=b,w cpubyte=b,4 put=b,1,1)" "put b: E_READ_ONLY"
		resume go gone
		equal "$(tail -n 1 "$WORK/app.out")" "ctxdestroy B: 0"
		equal "$(names)" ""
		down app
		rm -f "$WORK"/{go,gone,end}
	done
}

@test "attach rule: managed memory of another program, or of the API" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		rm -f "$WORK"/{up,end}
		begin_named app w:unified "$BIN/drv_linked" init make=a,managed,2Mi fill=a,7 touch="$WORK/up" await="$WORK/end" \
			peek=a,6 peek=a,7
		equal "$(attaching w:must "$BIN/drv_linked" init make=a,managed,2Mi peek=a,4 byte=a,4 poke=a,6,60 about=a \
			prefetch=a,2Mi drop=a 2>&1)" "init: 0
make a: 0
peek a: 35
byte a: 35
$("$BIN/drv_linked" init make=a,managed,2Mi about=a prefetch=a,2Mi drop=a | tail -n 3)"
		equal "$(attaching w:must "$BIN/drv_linked" init alloc=a,2Mi byte=a,4 free=a | tail -n 2)" "byte a: 35
free a: 0"
		GPUSHARE_LOG=$WORK/log run -0 --separate-stderr attaching w "$BIN/drv_linked" init make=a,managed,4Mi poke=a,1,1 \
			peek=a,1 drop=a
		equal "$stderr" ""
		has "$(cat "$WORK/log")" '"w" is not attached'
		equal "$(api open stat=w | tail -n 1)" "size 2097152 offset 0 base 2097152 attachers 0 mine 0 uid 1"
		down app
		equal "$(tail -n 2 "$WORK/app.out")" "peek a: 60
peek a: 56"
	done
}

@test "rule: where unified memory can't be had, a line in the log and managed memory; no name is used up by a failure" {
	needs_sim
	export GPUSHARE_SIM_HOST_NUMA=0
	export GPUSHARE_SIM_FAIL=cuMemHostRegister:1:1:2
	GPUSHARE_LOG=$WORK/log run -0 --separate-stderr named w:unified "$BIN/drv_linked" init make=a,managed,2Mi poke=a,0,4 byte=a,0 drop=a
	equal "$(tail -n 2 <<<"$output")" "byte a: 4
drop a: 0"
	equal "$stderr" ""
	equal "$(grep -c '"w" is not shared: ' "$WORK/log")" 1
	export GPUSHARE_SIM_FAIL=cuMemHostRegister:1:1:2,cuMemAllocManaged:1:1:2
	up_named app w:unified "$BIN/drv_linked" init make=a,managed,2Mi make=b,managed,4Mi
	equal "$(grep make "$WORK/app.out")" "make a: 2
make b: 0"
	equal "$(names)" "w 4194304"
}

@test "rule: what of it does not parse, and what the memory can't be given back is logged with" {
	needs_sim
	run -0 --separate-stderr named w:api=cudaMalloc:unified "$BIN/drv_linked" init alloc=a,1
	has "$stderr" "managed memory (cudaMallocManaged) only"
	run -0 --separate-stderr named w:unified=1 "$BIN/drv_linked" init alloc=a,1
	has "$stderr" "unified takes no value"
	GPUSHARE_SIM_FAIL=cuMemUnmap:1:1:999 GPUSHARE_LOG=$WORK/log named w:unified "$BIN/drv_linked" init \
		make=a,managed,3Mi drop=a >"$WORK/out"
	equal "$(tail -n 1 "$WORK/out")" "drop a: 0"
	grep -Eq "mapped memory of 4194304 bytes at 0x[0-9a-f]+ is not completely freed: .*UNKNOWN" "$WORK/log"
}
