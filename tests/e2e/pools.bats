#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a program reads of the memory of its pools while the shim names it: the same as without the preload.
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

@test "a pool that the program made; its end, and another one's beginning" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		pool=pool
		[[ $program != rt_* ]] || pool=entry-pool
		like_bare poolnew=p poolnew=q make=a,$pool:p,2Mi,s make=b,$pool:q,40Mi,s make=c,$pool,3Mi,s go=s \
			frompool=a,p frompool=b,q frompool=c,d drop=b,$pool,s go=s pooldestroy=q pooldestroy=p fill=a,3 \
			byte=a,4 poolnew=r make=e,$pool:r,1Mi,s frompool=e,r drop=a,$pool,s drop=e,$pool,s go=s
	done
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
