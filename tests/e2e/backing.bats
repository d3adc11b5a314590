#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Rules that ask for mapped memory (vmm, keep, readonly). An unmodified program's allocation becomes cuMemCreate memory
# at an ordinary pointer, and the program can't tell.
load helpers

# ways PROGRAM: set WAYS to the ways of allocating for which rules can give mapped memory
ways() {
	WAYS=(alloc pitch async pool)
	[[ $1 != rt_* ]] || WAYS=(malloc pitch 3d async pool entry-alloc)
}

# same_as_bare PROGRAM...: with mapped memory, output and exit code equal those of a run without the preload, and
# the preload writes nothing to stderr
same_as_bare() {
	untouched 'w%i:vmm' "$@"
	equal "$stderr" ""
}

backings() {
	gpushare ls --json | jq -r '.. | objects | select(.name?) | "\(.name) \(.backing) \(.size)"' | sort
}

# every_way PROGRAM: each way to allocate is mapped memory under its name, and nothing else of it shows
every_way() {
	needs jq
	program "$1"
	ways "$1"
	for way in "${WAYS[@]}"; do
		echo "$way"
		script=(init make=a,"$way",2Mi fill=a,3 byte=a,5 make=b,"$way",3000000 fill=b,4)
		same_as_bare "${PROGRAM[@]}" "${script[@]}" byte=b,9 drop=a drop=b drop=b exit=3
		rm -f "$WORK"/{up,free,freed,end}
		begin_named app 'w%i:vmm' "${PROGRAM[@]}" "${script[@]}" touch="$WORK/up" await="$WORK/free" \
			byte=a,6 drop=a drop=b touch="$WORK/freed" await="$WORK/end"
		equal "$(backings | cut -d' ' -f1,2)" "w0 vmm
w1 vmm"
		equal "$(api open attach=b,w0 byte=b,5 put=b,6,77 | tail -n 2)" "byte b: 38
put b: OK"
		resume free freed
		equal "$(tail -n 3 "$WORK/app.out" | head -n 1)" "byte a: 77"
		equal "$(names)" ""
		down
	done
}

@test "every way to allocate is mapped memory under its name: static cudart" {
	every_way rt_app_static
}

@test "every way to allocate is mapped memory under its name: shared cudart" {
	every_way rt_app_shared
}

@test "every way to allocate is mapped memory under its name: a stream per thread" {
	every_way rt_thread_static
}

@test "every way to allocate is mapped memory under its name: a program linked with libcuda" {
	every_way drv_linked
}

@test "every way to allocate is mapped memory under its name: dlsym" {
	every_way "drv_lookup dlsym"
}

@test "every way to allocate is mapped memory under its name: cuGetProcAddress" {
	every_way "drv_lookup gpa2_t"
}

@test "the size asked for is told to the program and to others, the rounding by ls" {
	needs jq
	script=(init alloc=a,700 range=a alloc=b,3Mi range=b fill=a,3 byte=a,699)
	same_as_bare "$BIN/drv_linked" "${script[@]}" about=a about=a,600 about=b,4 make=c,async,2Mi about=c
	untouched 'w%i' "$BIN/drv_linked" "${script[@]}" make=c,async,2Mi about=c # memory of a pool has no context
	up_named app 'w%i:vmm' "$BIN/drv_linked" "${script[@]}"
	equal "$(backings)" "w0 vmm 700
w1 vmm 3145728"
	equal "$(shown w0 held) $(shown w1 held)" "2097152 4194304"
}

@test "no allocation handle is retained of it, wherever the pointer lies: as without us" {
	script=(init alloc=a,4Mi retain=a at=b,a,512 retain=b at=c,a,4194303 retain=c unmap=a,4Mi fill=a,3 byte=a,5
		make=d,async,2Mi at=e,d,1 retain=d retain=e)
	mapped=(make=v,vmm,2Mi at=f,v,512 retain=v retain=f unmap=v,2Mi)
	for program in rt_app_static drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		same_as_bare "${PROGRAM[@]}" "${script[@]}"
	done
	same_as_bare "$BIN/drv_linked" "${script[@]}" "${mapped[@]}"
	up_named owner 'w%i:vmm' "$BIN/drv_linked" init alloc=a,4Mi alloc=b,2Mi
	equal "$(attaching w0:must:size=4Mi,w1:must:api=cuMemAllocAsync "$BIN/drv_linked" "${script[@]}")" \
		"$("$BIN/drv_linked" "${script[@]}")"
}

@test "freed by the wrong call, an interior pointer, another thread: as without us" {
	for program in rt_app_static drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		same_as_bare "${PROGRAM[@]}" init alloc=a,2Mi drop=a,async make=b,async,2Mi at=c,b,512 \
			drop=c,async drop=b,free drop=b,async make=d,async,2Mi drop=d drop=d
	done
	same_as_bare "$BIN/drv_linked" init make=a,alloc,2Mi thread=make,b,alloc,2Mi thread=make,b,async,2Mi \
		thread=drop,a thread=range,a drop=a thread=alloc,c,2Mi ctxset=none free=c free=c
}

@test "a free waits for the GPU; in a stream's order it waits for the stream and no more" {
	for program in rt_app_static drv_linked; do
		program "$program"
		same_as_bare "${PROGRAM[@]}" init stream=s make=a,async,2Mi,s fill=a,3 byte=a,4 drop=a,async,s \
			make=b,pool,2Mi,s make=c,async,700 drop=b,async,s go=s drop=c make=d,async,2Mi,s \
			drop=d,free go=s
		rm -f "$WORK"/{up,go,gone,end}
		begin_named app 'w%i:vmm' "${PROGRAM[@]}" init stream=s make=a,async,2Mi,s fill=a,7 go=s stall=s \
			within=$((500 + SLACK_MS)) drop=a,async,s byte=a,5 put=a,6,99 byte=a,6 touch="$WORK/up" \
			await="$WORK/go" go=s make=e,async,2Mi,s touch="$WORK/gone" await="$WORK/end"
		equal "$(names)" ""
		equal "$(tail -n 4 "$WORK/app.out")" "drop a: 0
byte a: 42
put a: 0
byte a: 99"
		resume go gone
		equal "$(tail -n 1 "$WORK/app.out")" "make e: 0"
		equal "$(names)" "w1 2097152"
		down
	done
}

@test "cuMemFree unmaps behind the GPU's work" {
	needs_sim
	GPUSHARE_SIM_LOG=$WORK/log named w:vmm "$BIN/drv_linked" init alloc=a,2Mi fill=a,1 free=a >/dev/null
	equal "$(grep -oE ' (cuMemCreate|cuMemMap|cuMemUnmap|cuMemAddressFree|cuMemRelease|cuMemAlloc_v2|cuMemFree_v2) ' \
		"$WORK/log" | tr -d '\n')" " cuMemCreate  cuMemMap  cuMemAlloc_v2  cuMemFree_v2  cuMemUnmap  cuMemAddressFree  cuMemRelease "
}

@test "captures: an allocation and a free spoil what they would have spoilt, and spare the rest" {
	for program in rt_app_static rt_thread_static drv_linked; do
		program "$program"
		way=alloc
		[[ $program != rt_* ]] || way=malloc
		for words in "capture=s make=a,async,2Mi,s" "capture=s make=a,$way,2Mi" \
			"capture=s,relaxed make=a,async,2Mi,s" "capture=s,relaxed make=a,$way,2Mi" \
			"make=a,$way,2Mi capture=s drop=a" "make=a,$way,2Mi capture=s,relaxed drop=a" \
			"make=a,async,2Mi capture=s drop=a,async,s"; do
			echo "$program, $words"
			# shellcheck disable=SC2086 # words
			same_as_bare "${PROGRAM[@]}" init stream=s $words endcapture=s make=b,$way,2Mi fill=b,1 drop=b
		done
	done
}

@test "contexts that end take it along" {
	for words in "ctxnew=B make=a,alloc,2Mi ctxdestroy=B" "ctxnew=B make=a,alloc,2Mi ctxdestroy=B,v1" \
		"make=a,alloc,2Mi primary=reset" "make=a,alloc,2Mi primary=release" \
		"ctxnew=B stream=s make=a,async,2Mi,s drop=a,async,s ctxdestroy=B"; do
		echo "$words"
		rm -f "$WORK"/{up,end,log}
		# shellcheck disable=SC2086 # words
		same_as_bare "$BIN/drv_linked" init $words exit=2
		# shellcheck disable=SC2086 # words
		up app env GPUSHARE_SIM_LOG="$WORK/log" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=w:vmm \
			"$BIN/drv_linked" init $words
		equal "$(names)" ""
		[ ! -e "$WORK/log" ] || equal "$(grep -cE ' (cuMemCreate|cuMemUnmap) 0 ' "$WORK/log")" 2
		down
	done
}

@test "memory that waits behind a stream is given back before memory is short" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=4M
	same_as_bare "$BIN/drv_linked" init stream=s make=a,async,4Mi,s drop=a,async,s make=b,alloc,4Mi drop=b
}

# fallen RULE BACKING FAULT: under FAULT the program gets ordinary memory and sees no difference; the registry then
# lists BACKING ("BACKING SIZE", or nothing)
fallen() {
	rm -f "$WORK"/{up,end,log}
	begin app env GPUSHARE_LOG="$WORK/log" GPUSHARE_SIM_FAIL="$3" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$1" "$BIN/drv_linked" init errno \
		make=a,"$WAY",700 range=a fill=a,3 byte=a,4 touch="$WORK/up" await="$WORK/end" drop=a
	equal "$(backings | cut -d' ' -f2,3)" "$2"
	down
	equal "$(cat "$WORK/app.out")" "$("$BIN/drv_linked" init errno make=a,"$WAY",700 range=a fill=a,3 byte=a,4 drop=a)"
	equal "$(cat "$WORK/app.err")" ""
}

@test "mapped memory that can't be made: ordinary memory, shared as the rule allows, and the log says so" {
	needs_sim
	needs jq
	start_registry
	for WAY in alloc async; do
		for call in cuMemGetAllocationGranularity cuMemCreate cuMemAddressReserve cuMemMap cuMemSetAccess; do
			echo "$call"
			rules=(keep readonly vmm) # CUDA makes no IPC handle of stream-ordered memory
			if [ $WAY = alloc ]; then
				fallen w:vmm "ipc 700" "$call:1:2" # twice: an address is asked for in two ways
				has "$(cat "$WORK/log")" '"w" is shared by an IPC handle, not as mapped memory: '
				rules=(keep readonly)
			fi
			for rule in "${rules[@]}"; do
				fallen w:$rule "" "$call:1:2"
				has "$(cat "$WORK/log")" '"w" is not shared: '
			done
		done
		fallen w:vmm "" cuMemExportToShareableHandle:1:1
		fallen w:keep "" cuMemExportToShareableHandle:1:1
	done
}

@test "no address space for more than was asked for: a call that succeeds leaves errno alone" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the address sanitizer needs address space of its own"
	[ -n "${EMULATOR:-}" ] || start_registry # one that the program starts would have its limit
	for program in rt_app_static drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		for rule in 'w:nth=2' 'w:nth=2:vmm' 'w:nth=2:keep'; do
			for way in entry-alloc entry-pitch; do
				[[ $program == rt_* ]] || way=${way#entry-}
				echo "$program, $rule, $way"
				untouched "$rule" "${PROGRAM[@]}" init errno make=x,$way,4096 cramp=1Mi make=a,$way,4096 \
					fill=a,3 byte=a,5 range=a drop=a drop=x
				equal "$stderr" ""
			done
		done
	done
}

@test "a name that is taken, a registry that is not there: memory as without us" {
	begin_named owner w "$BIN/drv_linked" init alloc=a,2Mi touch="$WORK/owned" await="$WORK/end"
	untouched w:keep "$BIN/drv_linked" init errno alloc=a,3Mi range=a fill=a,3 byte=a,4 ipcget=a,"$WORK/h" free=a
	equal "$stderr" ""
	GPUSHARE_AUTOSTART=0 GPUSHARE_DIR=$WORK/nobody untouched w:keep "$BIN/drv_linked" init errno \
		make=a,async,3Mi range=a fill=a,3 drop=a
	equal "$stderr" ""
}

@test "keep: it stays when the owner frees it, exits, is killed; a restarted one replaces it" {
	for end in free=a exit=0 kill; do
		begin_named app kept:keep "$BIN/rt_app_static" init alloc=a,3000000 fill=a,7 touch="$WORK/up" \
			$([ $end = kill ] && echo await="$WORK/never" || echo $end)
		[ $end != kill ] || kill -KILL "$PID"
		finish "$PID" || true
		equal "$(api open attach=b,kept byte=b,5 detach=b | tail -n 2)" "byte b: 42
detach b: OK"
	done
	was=$(gpushare stat kept | sed -n 's/^generation: *//p')
	begin_named app kept:keep "$BIN/rt_app_static" init alloc=a,4Mi fill=a,9 touch="$WORK/again" await="$WORK/end"
	equal "$(api open attach=b,kept byte=b,5 | tail -n 1)" "byte b: 44"
	[ "$(gpushare stat kept | sed -n 's/^generation: *//p')" -gt "$was" ]
}

@test "adopt: a restarted program gets what the one before it left, by every way" {
	for program in rt_app_static drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		ways "$program"
		[ "$program" != drv_linked ] || WAYS+=(vmm)
		for way in "${WAYS[@]}"; do
			echo "$program $way"
			named w:keep "${PROGRAM[@]}" init make=a,"$way",2Mi fill=a,7 >/dev/null
			was=$(gpushare stat w | sed -n 's/^generation: *//p')
			has "$(named w:keep:adopt "${PROGRAM[@]}" init make=a,"$way",2Mi byte=a,5 put=a,6,99 byte=a,6 drop=a)" \
				"byte a: 42"
			has "$(named w:keep:adopt "${PROGRAM[@]}" init make=a,"$way",2Mi byte=a,6)" "byte a: 99"
			equal "$(gpushare stat w | sed -n 's/^generation: *//p')" "$was"
			gpushare rm w
		done
	done
}

@test "adopt: another size is replaced, nothing is nothing, and no second memory is needed" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=4M
	named w:keep:adopt "$BIN/drv_linked" init alloc=a,4Mi fill=a,7 >/dev/null
	has "$(named w:keep:adopt "$BIN/drv_linked" init alloc=a,4Mi byte=a,5)" "byte a: 42"
	has "$(named w:keep:adopt "$BIN/drv_linked" init alloc=a,2Mi byte=a,5)" "byte a: 0"
	equal "$(names)" "w 2097152"
}

@test "readonly: the owner writes, others read; an attaching program's write is refused" {
	begin_named owner w:readonly "$BIN/drv_linked" init alloc=a,2Mi fill=a,7 touch="$WORK/up" await="$WORK/go" \
		put=a,6,9 byte=a,6 touch="$WORK/put" await="$WORK/end"
	equal "$(attaching w "$BIN/drv_linked" init alloc=a,2Mi byte=a,5 put=a,5,1 byte=a,5 free=a)" "init: 0
alloc a: 0
byte a: 42
put a: 1
byte a: 42
free a: 0"
	resume go put
	equal "$(tail -n 1 "$WORK/owner.out")" "byte a: 9"
	GPUSHARE_LOG=$WORK/log run -0 --separate-stderr attaching w:must "$BIN/drv_linked" init make=a,vmm,2Mi
	equal "$output" "init: 0
make a: 800"
	equal "$stderr" ""
	has "$(cat "$WORK/log")" "read-only"
}

# Pairs of programs that pass a handle. Some look their driver calls up, some are linked with them.
PAIRS=("drv_linked drv_linked" "rt_app_static rt_app_shared" "drv_lookup:gpa2 drv_lookup:dlsym" "rt_app_11 rt_app_static")

@test "the program's own IPC works on mapped buffers: handed to another, opened twice, closed twice" {
	for pair in "${PAIRS[@]}"; do
		echo "$pair"
		program "$(tr : ' ' <<<"${pair% *}")" && owner=("${PROGRAM[@]}")
		program "$(tr : ' ' <<<"${pair#* }")" && other=("${PROGRAM[@]}")
		way=alloc
		[[ $pair != rt_* ]] || way=malloc
		for how in bare named; do
			rm -f "$WORK"/{handle,got,seen,end}
			[ $how = named ] && export LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=w:vmm
			begin owner "${owner[@]}" init make=a,$way,3000000 fill=a,7 ipcget=a,"$WORK/handle" \
				touch="$WORK/got" await="$WORK/seen" byte=a,6 drop=a touch="$WORK/end"
			GPUSHARE_NAME=unused:nth=99 start other "${other[@]}" init ipcopen=b,"$WORK/handle",3000000 range=b byte=b,5 \
				ipcopen=c,"$WORK/handle",3000000 put=c,6,9 byte=b,6 drop=b,free ipcclose=b byte=c,5 \
				touch="$WORK/seen" await="$WORK/end" byte=c,5 ipcclose=c ipcclose=c
			unset LD_PRELOAD GPUSHARE_NAME
			finish "$PID"
			cat "$WORK/owner.out" "$WORK/other.out" "$WORK/other.err" >"$WORK/$how"
		done
		equal "$(cat "$WORK/named")" "$(cat "$WORK/bare")"
		has "$(cat "$WORK/named")" "byte a: 9"
		equal "$(tail -n 2 "$WORK/other.out")" "ipcclose c: 0
ipcclose c: 1"
		until_true nothing_named
	done
}

@test "handles: refused where the driver refuses them, with its answers" {
	for words in "make=a,alloc,2Mi ipcget=a,$WORK/h ipcopen=b,$WORK/h,2Mi ipcclose=a" \
		"make=a,async,2Mi ipcget=a,$WORK/h" "make=a,alloc,2Mi ctxset=none ipcget=a,$WORK/h" \
		"make=a,alloc,2Mi at=b,a,512 ipcget=b,$WORK/h unmap=a,2Mi unmap=a,4Mi byte=a,1 drop=a ipcget=a,$WORK/h"; do
		echo "$words"
		# shellcheck disable=SC2086 # words
		same_as_bare "$BIN/drv_linked" init errno $words
	done
}

@test "a handle is worth what the registry says: not without the name, not to who may not ask" {
	named w:keep "$BIN/drv_linked" init make=a,alloc,2Mi fill=a,7 ipcget=a,"$WORK/h" >/dev/null
	open() { named x:nth=99 "$BIN/drv_linked" init "ipcopen=b,$WORK/h,2Mi" "$@" | tail -n 1; }
	equal "$(open byte=b,5)" "byte b: 42"
	equal "$(open ctxset=none ipcopen=c,"$WORK/h",2Mi)" "ipcopen c: 201"
	equal "$(GPUSHARE_AUTOSTART=0 GPUSHARE_DIR=$WORK/nobody open)" "ipcopen b: 205"
	named w:keep "$BIN/drv_linked" init make=a,alloc,2Mi fill=a,9 >/dev/null # another generation
	equal "$(open)" "ipcopen b: 400"
	gpushare rm w
	equal "$(open)" "ipcopen b: 400"
	# A changed byte makes it an unknown handle, which the driver refuses.
	printf x | dd of="$WORK/h" bs=1 seek=30 conv=notrunc 2>/dev/null
	equal "$(open)" "ipcopen b: 1"
}

@test "a name longer than a handle holds; readonly is readonly; attached buffers have handles too" {
	long=$(printf 'n%.0s' {1..250})
	# More names than one page of the registry's list holds begin alike.
	up_named owner "$long%i:readonly" "$BIN/drv_linked" init hoard=1,99,4Ki make=b,alloc,2Mi fill=b,7 \
		ipcget=b,"$WORK/h"
	equal "$(named x:nth=99 "$BIN/drv_linked" init ipcopen=b,"$WORK/h",2Mi byte=b,5 put=b,5,1 ipcget=b,"$WORK/n" ipcclose=b)" \
		"init: 0
ipcopen b: 0
byte b: 42
put b: 1
ipcget b: 1
ipcclose b: 0"
	attaching "${long}99" "$BIN/drv_linked" init make=a,alloc,2Mi ipcget=a,"$WORK/again" free=a >/dev/null
	cmp "$WORK/h" "$WORK/again"
	attachers() { gpushare ls --json | jq '[.. | objects | select(.name?) | .attachers] | add'; }
	none() { [ "$(attachers)" = 0 ]; }
	until_true none
}

@test "opened in a context that goes, and in threads: given back once" {
	named w:keep "$BIN/drv_linked" init make=a,alloc,2Mi fill=a,7 ipcget=a,"$WORK/h" >/dev/null
	begin_named app x:nth=99 "$BIN/drv_linked" init ctxnew=B ipcopen=b,"$WORK/h",2Mi ipcopen=b,"$WORK/h",2Mi \
		touch="$WORK/up" await="$WORK/go" ctxdestroy=B ctxset=primary ipcclose=b touch="$WORK/gone" await="$WORK/end"
	attachers() { gpushare ls --json | jq '.[0].attachers'; }
	equal "$(attachers)" 1
	resume go gone
	equal "$(attachers)" 0
	equal "$(tail -n 1 "$WORK/app.out")" "ipcclose b: 1"
}

@test "faults while a handle is opened: an error, and nothing stays attached" {
	needs_sim
	named w:keep "$BIN/drv_linked" init make=a,alloc,2Mi fill=a,7 ipcget=a,"$WORK/h" >/dev/null
	for call in cuMemImportFromShareableHandle cuMemAddressReserve cuMemMap cuMemSetAccess cuCtxGetCurrent; do
		output=$(GPUSHARE_SIM_FAIL=$call:1:1 named x:nth=99 "$BIN/drv_linked" init errno ipcopen=b,"$WORK/h",2Mi \
			ipcopen=b,"$WORK/h",2Mi byte=b,5 touch="$WORK/up" ipcclose=b)
		equal "$output" "init: 0
ipcopen b: 999 errno 0
ipcopen b: 0 errno 0
byte b: 42
ipcclose b: 0 errno 0"
		equal "$(gpushare ls --json | jq '.[0].attachers')" 0
	done
}
