#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each allocation gets one record, by every way to allocate and every way to reach the driver. If a call fails, the
# results are the same as without the preload.
load helpers

RUNTIMES=(rt_app_static rt_app_shared rt_thread_static rt_thread_shared)
DRIVERS=(drv_linked "drv_lookup dlsym" "drv_lookup gpa" "drv_lookup gpa2" "drv_lookup gpa2s"
	"drv_lookup chain" "drv_lookup dlsym_t" "drv_lookup gpa_t" "drv_lookup gpa2_t")

# Programs of the older runtimes. The simulated static runtime can act as any version. A shared runtime has the version
# that its program was linked with.
older_runtimes() {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || return 0
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || return 0 # nothing of ours that the others don't run
	printf '%s\n' "rt_app_static 11" "rt_app_static 12" "rt_thread_static 11" "rt_thread_static 12" \
		rt_app_11 rt_app_12 rt_thread_11 rt_thread_12
}

# has_ways WAY...: the registry lists exactly one buffer for each WAY of the running program app, and another process
# can read each
has_ways() {
	local i=0 script=() names="" bytes="" way
	for way in "$@"; do
		names+="w$i 2097152"$'\n'
		bytes+="byte b: $((i + 35))"$'\n'
		script+=(attach=b,"w$i" byte=b,5 detach=b)
		i=$((i + 1))
	done
	equal "$(names)" "${names%$'\n'}"
	equal "$(api open "${script[@]}" | grep '^byte b: ')" "${bytes%$'\n'}"
}

# one_record_each PROGRAM WAY...: allocate by all WAYs in one process, then free: no record is left
one_record_each() {
	local make=() drop=() i=0 way slot
	program "$1"
	shift
	for way in "$@"; do
		slot=$(printf '\x'"$(printf %x $((97 + i)))")
		make+=("make=$slot,$way,2Mi" "fill=$slot,$i")
		drop+=("byte=$slot,3" "drop=$slot")
		i=$((i + 1))
	done
	untouched 'w%i' "${PROGRAM[@]}" init "${make[@]}" "${drop[@]}" exit=4
	equal "$stderr" ""
	rm -f "$WORK"/{up,free,freed,end}
	begin_named app 'w%i' "${PROGRAM[@]}" init "${make[@]}" touch="$WORK/up" await="$WORK/free" \
		"${drop[@]}" touch="$WORK/freed" await="$WORK/end"
	has_ways "$@"
	resume free freed
	equal "$(names)" ""
	down
}

each_runtime() {
	local runtimes runtime cudart
	runtimes=$(printf '%s\n' "${RUNTIMES[@]}" && older_runtimes)
	[ "$(lines "$runtimes")" -ge "${#RUNTIMES[@]}" ]
	while read -r runtime cudart; do
		echo "$runtime, cudart ${cudart:-own}"
		GPUSHARE_SIM_CUDART=$cudart one_record_each "$runtime" "$@"
	done <<<"$runtimes"
}

each_driver() {
	local driver
	for driver in "${DRIVERS[@]}"; do
		echo "$driver"
		one_record_each "$driver" "$@"
	done
}

@test "runtime: cudaMalloc" {
	each_runtime malloc malloc
}

@test "runtime: cudaMallocPitch and cudaMalloc3D" {
	each_runtime pitch 3d
}

@test "runtime: cudaMallocAsync" {
	each_runtime async async
}

@test "runtime: cudaMallocFromPoolAsync" {
	each_runtime pool pool
}

@test "runtime, cudaGetDriverEntryPoint: cuMemAlloc, cuMemAllocPitch" {
	each_runtime entry-alloc entry-pitch
}

@test "runtime, cudaGetDriverEntryPoint: cuMemAllocAsync, cuMemAllocFromPoolAsync" {
	each_runtime entry-async entry-pool
}

@test "runtime, cudaGetDriverEntryPoint: cuMemCreate, mapped" {
	each_runtime entry-vmm entry-vmm
}

@test "driver: cuMemAlloc, cuMemAllocPitch" {
	each_driver alloc pitch
}

@test "driver: cuMemAllocAsync, cuMemAllocFromPoolAsync" {
	each_driver async pool
}

@test "driver: cuMemCreate, mapped" {
	each_driver vmm vmm
}

@test "all ways in one process, each by its own size" {
	up_named app 'malloc:size=3Mi,pitch:size=4Mi,async:size=6Mi,pool:size=8Mi,vmm:size=10Mi' \
		"$BIN/rt_app_static" init make=a,malloc,3Mi make=b,pitch,4Mi make=c,async,6Mi \
		make=d,pool,8Mi make=e,entry-vmm,10Mi
	equal "$(names)" "async 6291456
malloc 3145728
pitch 4194304
pool 8388608
vmm 10485760"
}

# said_of_managed LINE: LINE names the buffer and suggests another call
said_of_managed() {
	equal "$(lines "$1")" 1
	has "$1" '"heap" is not shared: '
	grep -Eq 'cuda?M(em)?[Aa]lloc([^A-Za-z]|$)' <<<"$1" || { echo "no way out in: $1"; return 1; }
}

@test "a rule that matched nothing: a line in the log at the exit of the process, none for its children" {
	export GPUSHARE_LOG=$WORK/log
	named 'weights:size=1Gi-:from=*none*,small,never:nth=7' "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,4Mi fork=3 free=a exit=5 || true
	for rule in weights:size=1Gi-:from=*none* never:nth=7; do
		equal "$(grep -cF "rule \"$rule\" matched none of 2 allocations (largest 4194304)" "$WORK/log")" 1
	done
	equal "$(grep -c matched "$WORK/log")" 2
	GPUSHARE_LOG=$WORK/attach attaching 'frame:size=8Mi' "$BIN/rt_app_shared" init alloc=a,1Mi
	equal "$(sed 's/^[^:]*: //' "$WORK/attach")" 'rule "frame:size=8Mi" matched none of 1 allocations (largest 1048576)'
	rm "$WORK/log"
	named small true
	[ ! -e "$WORK/log" ]
}

@test "managed memory has no record: nothing is printed, the log says why and what to use" {
	for program in "${RUNTIMES[@]}" drv_linked "drv_lookup gpa2"; do
		program "$program"
		rm -f "$WORK/log"
		GPUSHARE_LOG=$WORK/log untouched heap "${PROGRAM[@]}" init make=a,managed,2Mi fill=a,3 byte=a,4 \
			make=b,managed,2Mi drop=a drop=b exit=3
		equal "$stderr" ""
		said_of_managed "$(grep '"heap"' "$WORK/log")"
	done
	up_named app heap:size=2Mi "$BIN/rt_app_static" init make=a,managed,2Mi
	equal "$(names)" ""
}

@test "refused calls answer the same: size 0, no out pointer, double, foreign, interior, NULL" {
	for program in "${RUNTIMES[@]}" "${DRIVERS[@]}"; do
		program "$program"
		script=(init errno nullout=1Mi alloc=a,0 alloc=a,2Mi at=b,a,512 drop=b,free foreign=c,0x7ff000001000 drop=c,free
			foreign=d,0 drop=d,free drop=d,async free=a free=a make=e,async,0 make=e,pool,0 exit=2)
		alike "${PROGRAM[@]}" "${script[@]}"
		equal "$stderr" ""
		untouched 'w%i:vmm' "${PROGRAM[@]}" "${script[@]}"
		equal "$stderr" ""
	done
}

@test "freed by the wrong call: as without us, and the records follow" {
	for program in rt_app_static rt_app_shared drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		alike "${PROGRAM[@]}" init alloc=a,2Mi drop=a,async free=a make=b,async,2Mi at=c,b,512 \
			drop=c,async drop=b,free drop=b,async make=d,async,2Mi drop=d drop=d
		equal "$stderr" ""
	done
	program "drv_lookup gpa2"
	up_named app 'w%i' "${PROGRAM[@]}" init alloc=a,2Mi drop=a,async at=c,a,512 drop=c,free \
		make=b,async,2Mi drop=b,free
	# If the driver accepted the free, the record is removed.
	for drop in "a w0" "b w1"; do
		if grep -qx "drop ${drop% *}: 0" "$WORK/app.out"; then refute grep "^${drop#* } " <<<"$(names)"; fi
	done
}

@test "stream-ordered memory that is freed again: refused, and the program goes on" {
	for program in "${RUNTIMES[@]}"; do
		program "$program"
		alike "${PROGRAM[@]}" init make=a,async,2Mi fill=a,3 drop=a drop=a drop=a,free drop=a wait=device \
			drop=a drop=a,free make=b,async,2Mi fill=b,4 byte=b,5 drop=b wait=device exit=3
		equal "$stderr" ""
	done
	GPUSHARE_SIM_FAIL=cuPointerGetAttribute:1:1 alike "$BIN/drv_linked" init make=a,async,2Mi drop=a drop=a
	local many=(init make=z,async,2Mi)
	for _ in {1..70}; do many+=(make=a,async,2Mi make=b,async,2Mi drop=a drop=b drop=a drop=b); done
	alike "$BIN/drv_linked" "${many[@]}"
}

@test "a free that fails: the memory keeps its name" {
	needs_sim
	for words in "cuMemFree drop=a,free" "cuMemFreeAsync drop=a,async"; do
		GPUSHARE_SIM_FAIL=${words% *}:1:1 up_named app w "$BIN/drv_linked" init alloc=a,700Ki "${words#* }"
		has "$(<"$WORK/app.out")" "drop a: 999"
		equal "$(names)" "w 716800"
		down
	done
}

@test "host memory of cuMemCreate, as NCCL makes it, is left alone" {
	needs_sim
	alike "$BIN/drv_linked" init hostmem=a,2Mi hostmem=b,2Mi
	up_named app 'w%i' "$BIN/drv_linked" init hostmem=a,2Mi make=b,vmm,2Mi
	has "$(<"$WORK/app.out")" "hostmem a: 0"
	equal "$(names)" "w0 2097152"
}

@test "mapping calls that fail answer the same" {
	alike "$BIN/drv_linked" init make=a,vmm,2Mi at=b,a,0 drop=a drop=b make=c,vmm,2Mi remap=c remap=c drop=c
	equal "$stderr" ""
}

@test "out of memory is the same answer, and uses up no name" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=8M
	for program in rt_app_static drv_linked "drv_lookup gpa2"; do
		program "$program"
		script=(init alloc=a,16Mi make=a,async,16Mi make=a,pitch,16Mi make=a,pool,16Mi alloc=b,4Mi alloc=c,4Mi
			alloc=d,2Mi free=b alloc=d,4Mi alloc=e,2Mi free=c free=d)
		alike "${PROGRAM[@]}" "${script[@]}"
		equal "$stderr" ""
		untouched 'w%i:vmm' "${PROGRAM[@]}" "${script[@]}"
		equal "$stderr" ""
	done
	for rule in 'w%i' 'w%i:vmm'; do
		up_named app "$rule" "$BIN/rt_app_static" init alloc=a,16Mi make=a,async,16Mi make=a,pitch,16Mi \
			make=a,entry-vmm,16Mi alloc=b,4Mi alloc=c,16Mi alloc=d,2Mi
		equal "$(names)" "w0 4194304
w1 2097152"
		down
	done
}

@test "mapped memory that runs out is the same answer" {
	needs_sim
	GPUSHARE_SIM_MEMORY=8M alike "$BIN/drv_linked" init make=a,vmm,4Mi make=b,vmm,6Mi make=c,vmm,4Mi drop=a \
		drop=c
}

@test "what only fits unrounded is still allocated, and left without a name" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=4M
	untouched kv:nth=3 "$BIN/drv_linked" init alloc=a,1Mi alloc=b,2Mi alloc=c,1Mi fill=c,2 byte=c,9 \
		alloc=d,1Mi free=c
	equal "$stderr" ""
	export GPUSHARE_LOG=$WORK/log
	up_named app kv:nth=3,mib:size=2Mi "$BIN/drv_linked" init alloc=a,1Mi alloc=b,2Mi alloc=c,1Mi
	equal "$(names)" "mib 2097152"
	grep -q '"kv" is not shared: sharing it takes whole blocks of 2 MiB, for which there is no room' "$WORK/log"
}

@test "a named allocation has its blocks to itself; the size is the one asked for" {
	for program in rt_app_static drv_linked; do
		program "$program"
		alike "${PROGRAM[@]}" init alloc=a,700 range=a alloc=b,3Mi range=b fill=a,3 byte=a,699
		rm -f "$WORK"/{up,end,log}
		up app env GPUSHARE_SIM_LOG="$WORK/log" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=small \
			"${PROGRAM[@]}" init alloc=a,700 alloc=b,700 alloc=c,700 range=a range=b \
			apart=a,b apart=a,c
		equal "$(grep '^apart\|^range.*+' "$WORK/app.out")" "range a: 700+0, attributes 700+0
range b: 700+0, attributes 700+0
apart a b: yes
apart a c: yes"
		equal "$(names)" "small 700"
		equal "$(shown small size)" 700
		equal "$(api open stat=small | sed -n 's/^size \([0-9]*\) .*/\1/p')" 700
		has "$(gpushare stat small)" 700
		gpushare-attach small -o "$WORK/dump"
		equal "$(stat -c %s "$WORK/dump")" 700
		if [ -e "$WORK/log" ]; then
			equal "$(awk '$2 == "cuMemAlloc_v2" { print $NF }' "$WORK/log")" "2097152
700
700"
		fi
		down
	done
}

@test "the program's own IPC works on named buffers of every kind" {
	for program in rt_app_static drv_linked; do
		program "$program"
		for way in alloc pitch; do
			[ "$program $way" != "rt_app_static alloc" ] || way=malloc
			alike "${PROGRAM[@]}" child=spawn,6,stays await="$WORK/ready" init \
				ipcopen=b,"$WORK/handle",2Mi byte=b,5 put=b,6,9 ipcclose=b init \
				make=a,"$way",2Mi fill=a,7 ipcget=a,"$WORK/handle" touch="$WORK/ready" reap \
				byte=a,6 drop=a remove="$WORK/ready"
			equal "$stderr" ""
		done
	done
}

@test "what has no legacy handle has none when it is named" {
	alike "$BIN/drv_linked" init make=b,vmm,2Mi ipcget=b,"$WORK/none" make=c,managed,2Mi \
		ipcget=c,"$WORK/none" foreign=d,0x7ff000001000 ipcget=d,"$WORK/none"
	[ ! -e "$WORK/none" ]
}

@test "stream-ordered memory has no legacy handle when it is named" {
	alike "$BIN/drv_linked" init make=a,async,2Mi ipcget=a,"$WORK/none" make=b,pool,2Mi \
		ipcget=b,"$WORK/none" drop=a drop=b
	[ ! -e "$WORK/none" ]
}

@test "the program's own IPC works on attached buffers" {
	begin_named producer weights "$BIN/rt_app_static" init alloc=a,2Mi fill=a,7 touch="$WORK/up" \
		await="$WORK/look" byte=a,6 touch="$WORK/seen" await="$WORK/end"
	begin consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/drv_linked" init alloc=a,2Mi \
		ipcget=a,"$WORK/handle" touch="$WORK/got" await="$WORK/free" free=a
	equal "$("$BIN/drv_linked" init ipcopen=b,"$WORK/handle",2Mi byte=b,5 put=b,6,9 ipcclose=b)" "init: 0
ipcopen b: 0
byte b: 42
put b: 0
ipcclose b: 0"
	touch "$WORK/look" "$WORK/free"
	await_file "$WORK/seen"
	finish consumer
	equal "$(tail -n 1 "$WORK/producer.out")" "byte a: 9"
	equal "$(cat "$WORK/consumer.out")" "init: 0
alloc a: 0
ipcget a: 0
free a: 0"
}
