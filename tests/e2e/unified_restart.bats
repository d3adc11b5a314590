#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Unified buffers survive the end of their owner, and of the registry with or without the memory that it keeps.
load helpers
load in_resyncing

fresh() {
	export GPUSHARE_SIM_HOST_NUMA=$1
	rm -f "$WORK"/{up,go,on,again,end,ready,told}
}

@test "kept: killed registries give it back, at its address, with what it holds" {
	for kind in $(unified_kinds); do
		fresh "$kind"
		api open make=a,w,3Mi,unified+keep fill=a,7 link=a cpuput=a,17,100 pointer=a,"$WORK/at" >/dev/null
		for stored in 100 101 102; do
			replace_registry
			equal "$(api open backing=w attach=b,w at=b,"$WORK/at" cpubyte=b,17 byte=b,17 cpuwalk=b walk=b \
				cpuput=b,17,$((stored + 1)))" "open: OK
backing w: 3, 3145728 of 4194304
attach w: OK
at b: there
cpubyte b: $stored
byte b: $stored
cpuwalk b: 4950
walk b: 4950"
		done
		replace_registry
		equal "$(api open make=a,w,3Mi,unified+keep+adopt at=a,"$WORK/at" cpubyte=a,17 | tail -n 3)" "adopted
at a: there
cpubyte a: 103"
		[ "$kind" = 1 ] || equal "$(api open attach=b,w,0,host map=m,b,0,18,r load=m,17 | tail -n 1)" "load m: 103"
		gpushare rm w
		replace_registry
		equal "$(names)" ""
	done
}

@test "an owner that is killed: the name goes, and the memory stays with whom it is attached" {
	for kind in $(unified_kinds); do
		fresh "$kind"
		up owner "$BIN/api_app" open make=a,w,2Mi,unified fill=a,7
		owner=$PID
		begin reader "$BIN/api_app" open attach=b,w map=m,b,0,9,rw touch="$WORK/up" await="$WORK/go" cpubyte=b,4 \
			byte=b,4 store=m,4,9 byte=b,4 state=b make=c,w,2Mi,unified cpuput=c,4,50 cpubyte=b,4 byte=c,4 \
			detach=b load=m,4 unmap=m free=c list
		kill_now "$owner"
		until_true nothing_named
		replace_registry
		touch "$WORK/go"
		finish reader
		equal "$(tail -n +4 "$WORK/reader.out")" "cpubyte b: 35
byte b: 35
byte b: 9
state b: withdrawn
make w: OK
cpubyte b: 9
byte c: 50
detach b: OK
load m: 9
unmap m: OK
free c: OK"
	done
}

@test "an owner that is killed, and what it kept: the next one has it by its rule, at its address" {
	for kind in $(unified_kinds); do
		fresh "$kind"
		up owner env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=w:unified:keep "$BIN/drv_linked" init make=a,managed,2Mi \
			fill=a,7 poke=a,5,99
		api open attach=b,w pointer=b,"$WORK/at" >/dev/null
		kill_now "$PID"
		until_true owner_gone w
		replace_registry
		begin next env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=w:unified:keep:adopt "$BIN/drv_linked" init make=a,managed,2Mi \
			peek=a,5 byte=a,4 touch="$WORK/up" await="$WORK/end" drop=a
		equal "$(api open attach=b,w at=b,"$WORK/at" byte=b,5 | tail -n 2)" "at b: there
byte b: 99"
		down
		equal "$(cat "$WORK/next.out")" "init: 0
make a: 0
peek a: 99
byte a: 35
drop a: 0"
		gpushare rm w
	done
}

@test "a rule's buffer, and an adopted one, of which no registry knows: told again" {
	for kind in $(unified_kinds); do
		fresh "$kind"
		api open make=a,k,2Mi,unified+keep fill=a,9 >/dev/null
		begin app env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=w:size=3Mi:unified,k:size=2Mi:unified:keep:adopt,late \
			"$BIN/drv_linked" init make=a,managed,3Mi fill=a,7 make=b,managed,2Mi touch="$WORK/up" \
			await="$WORK/go" alloc=x,4Mi touch="$WORK/again" await="$WORK/end" peek=a,6 peek=b,6 drop=a drop=b
		api open attach=b,w pointer=b,"$WORK/at" attach=c,k pointer=c,"$WORK/at2" >/dev/null
		restart_registry
		equal "$(names)" ""
		resume go again
		equal "$(names | sort)" "k 2097152
late 4194304
w 3145728"
		equal "$(api open backing=w attach=b,w at=b,"$WORK/at" cpubyte=b,4 byte=b,4 cpuput=b,6,60 backing=k attach=c,k \
			at=c,"$WORK/at2" cpubyte=c,4 cpuput=c,6,61)" "open: OK
backing w: 3, 3145728 of 4194304
attach w: OK
at b: there
cpubyte b: 35
byte b: 35
backing k: 3, 2097152 of 2097152
attach k: OK
at c: there
cpubyte c: 37"
		down app
		equal "$(tail -n 4 "$WORK/app.out")" "peek a: 60
peek b: 61
drop a: 0
drop b: 0"
		has "$(names)" "k 2097152"
		gpushare rm k
	done
}

@test "a session's likewise; another session of it has the same mapping" {
	for kind in $(unified_kinds); do
		fresh "$kind"
		begin app "$BIN/api_app" open make=a,w,2Mi,unified fill=a,7 touch="$WORK/up" await="$WORK/go" list \
			touch="$WORK/again" await="$WORK/end" another attach=b,w same=a,b map=m,b,0,9,r load=m,6 unmap=m \
			detach=b free=a
		restart_registry
		resume go again
		equal "$(api open backing=w attach=b,w cpubyte=b,4 byte=b,4 cpuput=b,6,60 | tail -n 4)" \
			"backing w: 3, 2097152 of 2097152
attach w: OK
cpubyte b: 35
byte b: 35"
		down app
		equal "$(tail -n 8 "$WORK/app.out")" "another: OK
attach w: OK
same: yes
map m: OK
load m: 60
unmap m: OK
detach b: OK
free a: OK"
		equal "$(names)" ""
	done
}

# brings_back COMMAND...: COMMAND has a kept buffer attached. At "go" it reports the buffer to a registry without state.
brings_back() {
	up owner "$BIN/api_app" open make=a,w,2Mi,unified+keep fill=a,7 pointer=a,"$WORK/at"
	owner=$PID
	begin reader "$@"
	reader=$PID
	kill_now "$owner"
	until_true owner_gone w
	restart_registry
	resume go told
	equal "$(names)" "w 2097152"
	owner_gone w
	equal "$(api open backing=w attach=b,w at=b,"$WORK/at" cpubyte=b,4 byte=b,4 | tail -n 5)" \
		"backing w: 3, 2097152 of 2097152
attach w: OK
at b: there
cpubyte b: 35
byte b: 35"
	down "$reader"
	equal "$(names)" "w 2097152"
	gpushare rm w
}

@test "kept, its owner gone, no registry knows it: who has it attached brings it back" {
	for kind in $(unified_kinds); do
		fresh "$kind"
		brings_back "$BIN/api_app" open attach=b,w touch="$WORK/up" await="$WORK/go" list touch="$WORK/told" \
			await="$WORK/end" byte=b,4 detach=b
		fresh "$kind"
		brings_back env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=w,x:size=4Mi "$BIN/drv_linked" init make=a,managed,2Mi \
			touch="$WORK/up" await="$WORK/go" alloc=x,4Mi touch="$WORK/told" await="$WORK/end" peek=a,4
		[ "$kind" = 0 ] || continue
		fresh "$kind"
		brings_back env GPUSHARE_SIM_FAIL=cuInit:1:99:100 "$BIN/api_app" open attach=b,w,0,host touch="$WORK/up" \
			await="$WORK/go" list touch="$WORK/told" await="$WORK/end" byte=b,4 detach=b
	done
}

@test "freed while others have it attached: gone at once, as it stays with them" {
	needs jq
	for kind in $(unified_kinds); do
		fresh "$kind"
		begin app env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=r:unified "$BIN/drv_linked" init make=a,managed,2Mi fill=a,7 \
			touch="$WORK/up" await="$WORK/go" drop=a touch="$WORK/again" await="$WORK/end"
		rm "$WORK/up"
		begin reader "$BIN/api_app" open make=a,w,2Mi,unified cpuput=a,4,1 another attach=b,w attach=c,r free=a list \
			touch="$WORK/up" await="$WORK/on" cpubyte=b,4 cpubyte=c,4 byte=c,4 state=c detach=b detach=c
		resume go again
		equal "$(gpushare ls --json | jq -c .)" "[]"
		touch "$WORK/on"
		finish reader
		equal "$(tail -n 8 "$WORK/reader.out")" "free a: OK
r 2097152
cpubyte b: 1
cpubyte c: 35
byte c: 35
state c: withdrawn
detach b: OK
detach c: OK"
		down app
		equal "$(tail -n 1 "$WORK/app.out")" "drop a: 0"
	done
}
