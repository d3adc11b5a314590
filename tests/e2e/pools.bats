#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a program reads and sets of its memory pools while the shim names their memory: the same as without the preload.
load helpers

PROGRAMS=(rt_app_static rt_app_shared rt_thread_static drv_linked "drv_lookup gpa2_t")

# like_bare WORD...: with named memory, mapped memory and a size rule, the output is the same as without the preload
like_bare() {
	local rule
	for rule in 'w%i' 'w%i:vmm' 'w%i:size=2Mi-'; do
		untouched "$rule" "${PROGRAM[@]}" init stream=s "$@"
		equal "$stderr" ""
	done
}

@test "used, reserved and their highs, trims, thresholds: the default pool's" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		async=async
		[[ $program != rt_* ]] || async=entry-async
		for way in $async ${async/async/pool}; do
			echo "$program $way"
			like_bare pool=d make=b,$way,64Mi,s pool=d make=a,$way,1,s make=c,$way,3000000,s pool=d pooltrim=d,0 \
				pool=d drop=b,$way,s go=s pool=d drop=a,$way,s drop=c,$way,s go=s pool=d poolset=d,6,0 poolset=d,8,0 pool=d poolset=d,8,5 \
				poolset=d,7,0 poolset=d,5,0 make=e,$way,5Mi,s poolset=d,6,0 poolset=d,8,0 pool=d drop=e,$way,s go=s pool=d
			like_bare poolset=d,4,0xffffffffffffffff make=a,$way,64Mi,s pool=d make=b,$way,128Mi,s pool=d \
				make=c,$way,1Mi,s pool=d drop=b,$way,s pool=d go=s pool=d pooltrim=d,150Mi pool=d pooltrim=d,0 pool=d drop=a,$way,s \
				drop=c,$way,s go=s pool=d pooltrim=d,0 pool=d
			like_bare poolset=d,4,70Mi make=a,$way,1Mi,s make=b,$way,200Mi,s drop=b,$way,s go=s pool=d drop=a,$way,s go=s pool=d \
				pooltrim=d,0 pool=d
		done
	done
}

@test "a pool that the program made; its end, and another one's beginning" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		pool=pool
		[[ $program != rt_* ]] || pool=entry-pool
		like_bare poolnew=p poolnew=q make=a,$pool:p,2Mi,s make=b,$pool:q,40Mi,s make=c,$pool,3Mi,s go=s pool=p pool=q \
			pool=d frompool=a,p frompool=b,q frompool=c,d drop=b,$pool,s go=s pool=q pool=p pooldestroy=q pooldestroy=p fill=a,3 \
			byte=a,4 poolnew=r pool=r make=e,$pool:r,1Mi,s pool=r drop=a,$pool,s drop=e,$pool,s go=s pool=r pool=d
	done
}

@test "more pools than the shim counts" {
	local i words=()
	program drv_linked
	for ((i = 0; i < 65; i++)); do # the letter then names the latest
		words+=(poolnew=p make=a,pool:p,1,s drop=a,pool,s)
	done
	like_bare "${words[@]}" go=s pool=p pooldestroy=p
}

@test "memory freed behind a stream that stands still is not used, and is reserved" {
	for program in rt_app_static drv_linked; do
		program "$program"
		async=async
		[[ $program != rt_* ]] || async=entry-async
		like_bare poolset=d,4,0xffffffffffffffff make=a,$async,40Mi,s go=s stall=s drop=a,$async,s pool=d pooltrim=d,0 pool=d \
			go=s pooltrim=d,0 pool=d
	done
}

@test "an attached buffer counts as the pool's memory that it stands for" {
	up_named producer weights "$BIN/drv_linked" init alloc=a,40Mi fill=a,7
	script=(init stream=s make=a,async,40Mi,s pool=d drop=a,async,s go=s pool=d)
	equal "$(attaching weights:must "$BIN/drv_linked" "${script[@]}")" "$("$BIN/drv_linked" "${script[@]}")"
}

@test "a pool whose memory the program can export is left alone, and the log says so" {
	export GPUSHARE_LOG=$WORK/log
	up_named app 'w%i' "$BIN/drv_linked" init poolnew=p,exportable make=a,pool:p,2Mi frompool=a,p pool=p \
		make=b,pool,2Mi
	equal "$(names | wc -l)" 1
	has "$(cat "$WORK/log")" "is not shared: its pool can be exported"
	unset GPUSHARE_LOG
	PROGRAM=("$BIN/drv_linked")
	like_bare poolnew=p,exportable make=a,pool:p,2Mi,s frompool=a,p pool=p drop=a,pool,s go=s pool=p
}

@test "memory that is left alone is counted, but takes no name and no buffer" {
	program drv_linked
	script=(poolnew=p,exportable make=a,pool:p,2Mi make=b,pool:p,2Mi make=c,pool,4Mi fill=c,7)
	while read -r rule named; do
		up_named app "$rule" "${PROGRAM[@]}" init "${script[@]}"
		equal "$(names)" "$named"
		down
	done <<<"w:nth=3 w 4194304
w%i:nth=2-3 w0 4194304
w:nth=2"
	up_named app weights "${PROGRAM[@]}" init alloc=a,4Mi fill=a,7
	for rule in weights:nth=3 weights; do
		equal "$(attaching "$rule" "${PROGRAM[@]}" init "${script[@]:0:3}" make=c,pool,4Mi byte=c,5 | tail -n 1)" "byte c: 42"
	done
	equal "$(attaching weights:nth=2 "${PROGRAM[@]}" init "${script[@]:0:3}" make=c,pool,4Mi fill=c,1 byte=c,5 | tail -n 1)" \
		"$("${PROGRAM[@]}" init "${script[@]:0:3}" make=c,pool,4Mi fill=c,1 byte=c,5 | tail -n 1)"
}

@test "the driver fails in between: the program reads what it would read without us" {
	needs_sim
	program drv_linked
	script=(poolnew=p poolset=p,4,0xffffffffffffffff make=a,pool:p,2Mi,s make=b,pool:p,64Mi,s pooltrim=d,0 pool=d pool=p
		drop=b,pool,s go=s pool=p pooltrim=p,0xffffffffffffffff pool=p)
	export GPUSHARE_SIM_FAIL=cuMemPoolDestroy:1:1,cuMemPoolTrimTo:3:1
	like_bare "${script[@]}" pooldestroy=p pool=p pooltrim=p,0 pool=p drop=a,pool,s go=s pool=p pooltrim=p,0 pool=p \
		pooldestroy=p
	unset GPUSHARE_SIM_FAIL
	plain=$("${PROGRAM[@]}" init stream=s "${script[@]}")
	for nth in {1..5}; do # what we ask when the memory is made
		equal "$nth $(GPUSHARE_SIM_FAIL=cuMemPoolGetAttribute:$nth:1 named w "${PROGRAM[@]}" init stream=s "${script[@]}")" \
			"$nth $plain"
	done
}
