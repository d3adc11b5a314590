#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry ends under its clients: the clients report to the next one what they have, and programs see no difference.
# The tests remove what the registry leaves behind, so that only the clients' reports count.
load helpers
load in_resyncing

@test "killed between a producer's allocations: the names are back, with what they hold" {
	words=(alloc=a,1Mi fill=a,3 save=a,"$WORK/a" alloc=b,2Mi fill=b,4 save=b,"$WORK/b" alloc=c,3Mi
		fill=c,5 save=c,"$WORK/c" make=e,entry-vmm,6Mi fill=e,6 save=e,"$WORK/e" touch="$WORK/up" await="$WORK/go"
		alloc=d,4Mi touch="$WORK/again" await="$WORK/end" byte=a,1 byte=b,1 byte=c,1 free=a free=b free=c free=d
		drop=e exit=5)
	app 'i:size=1Mi,v:size=2Mi:vmm,k:size=3Mi:keep:ttl=60,late,own' "${words[@]}"
	restart_registry
	equal "$(names)" ""
	resume go again
	equal "$(names | sort)" "i 1048576
k 3145728
late 6291456
own 4194304
v 2097152"
	for name in i:a v:b k:c late:e; do
		gpushare-attach "${name%:*}" -o "$WORK/read"
		cmp "$WORK/read" "$WORK/${name#*:}"
	done
	has "$(gpushare stat k)" "kept:"
	touch "$WORK/end"
	app_ends "${words[@]}"
	until_true names_are "k 3145728" # kept, as it was to be
	gpushare-attach k -o "$WORK/read"
	cmp "$WORK/read" "$WORK/c"
	[ ! -s "$WORK/app.err" ]
}

@test "hundreds of names come back, and no call waits longer for that than its time limit" {
	local words=(hoard=2,200,4Ki touch="$WORK/up" await="$WORK/go")
	for _ in {1..20}; do words+=(within=$LIMIT_MS alloc=a,1Mi free=a); done
	words+=(touch="$WORK/again" await="$WORK/end" release exit=5)
	app 'w%i:size=4Ki,x%i' "${words[@]}"
	restart_registry
	resume go again
	equal "$(names | sort)" "$(seq 0 399 | sed 's/.*/w& 4096/' | sort)"
	touch "$WORK/end"
	app_ends "${words[@]}"
}

@test "a session of the API likewise" {
	begin app "$BIN/api_app" open alloc=a,i,1Mi fill=a,3 save=a,"$WORK/a" make=b,k,2Mi,keep fill=b,4 \
		save=b,"$WORK/b" raw=r,2Mi share=c,s,r,4096,1Mi many=r,60 evmake=e,event touch="$WORK/up" await="$WORK/go" \
		within=$LIMIT_MS stat=i touch="$WORK/again" await="$WORK/end" byte=a,1 free=a free=c close
	restart_registry
	resume go again
	equal "$(names | grep -v '^m' | sort)" "i 1048576
k 2097152
s 1048576"
	equal "$(names | grep -c '^m')" 60
	equal "$(api open evopen=e,event evquery=e | tail -n 1)" "evquery e: OK"
	for name in i:a k:b; do
		gpushare-attach "${name%:*}" -o "$WORK/read"
		cmp "$WORK/read" "$WORK/${name#*:}"
	done
	down app
	equal "$(tail -n 4 "$WORK/app.out")" "byte a: 10
free a: OK
free c: OK
close: OK"
	equal "$(names)" "k 2097152"
}

@test "the call that reports a session's names knows them itself" {
	local call
	for call in 'stat=v stat v: OK' 'state=a state a: shared' 'tag=v,step,1 tag v: OK' 'attach=b,v attach v: OK' \
		'parts=a,p parts a: OK' 'parts=a,p,q,r parts a: OK'; do
		begin app "$BIN/api_app" open make=a,v,2Mi,vmm touch="$WORK/up" await="$WORK/go" "${call%% *}"
		restart_registry
		go
		finish "$PID"
		equal "$(sed -n 3p "$WORK/app.out")" "${call#* }"
		rm "$WORK"/{up,go}
	done
}

@test "an attach that waits outlasts it" {
	attaching 'w:wait=20' "$BIN/rt_app_static" init alloc=a,1Mi await="$WORK/up" byte=a,1 free=a \
		>"$WORK/rule.out" 2>"$WORK/rule.err" &
	rule=$!
	STARTED+=("$rule")
	start waiter "$BIN/api_app" open attach=b,w,20000 await="$WORK/up" byte=b,1 detach=b close
	waiter=$PID
	until_true waiters 2
	end_registry
	both_wait() { runs "$rule" && runs "$waiter"; }
	stays 300 both_wait
	start_registry
	up owner "$BIN/api_app" open alloc=a,w,1Mi fill=a,3
	until_true has_ended "$rule"
	finish "$waiter"
	equal "$(cat "$WORK/waiter.out")" "open: OK
attach w: OK
byte b: 10
detach b: OK
close: OK"
	equal "$(cat "$WORK/rule.out")" "init: 0
alloc a: 0
byte a: 10
free a: 0"
	[ ! -s "$WORK/rule.err" ]
}

@test "who is attached stays so, and is counted as before" {
	needs jq
	begin owner "$BIN/api_app" open make=a,w,1Mi,vmm fill=a,3 touch="$WORK/up" await="$WORK/go" list \
		touch="$WORK/told" await="$WORK/end"
	begin reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w:nth=1,w:nth=2,x:size=2Mi' "$BIN/rt_app_static" init \
		alloc=a,1Mi alloc=b,1Mi touch="$WORK/attached" await="$WORK/told" alloc=x,2Mi free=x byte=a,1 \
		byte=b,1 touch="$WORK/read" await="$WORK/end" free=a free=b
	begin mirrors "$BIN/api_app" open attach=b,w mirror=m,b,0,16,r detach=b touch="$WORK/mirrored" await="$WORK/told" list \
		touch="$WORK/listed2" await="$WORK/end" mclose=m
	begin session "$BIN/api_app" open attach=b,w attach=c,w touch="$WORK/attached2" await="$WORK/told" list \
		touch="$WORK/listed" await="$WORK/end" byte=b,1 detach=b detach=c
	session=$PID
	before=$(shown w attachers)
	equal "$before" 5
	restart_registry
	resume go listed
	await_file "$WORK/listed2"
	await_file "$WORK/read"
	equal "$(shown w attachers)" "$before"
	kill_now "$session"
	until_true attachers_are w 3
	down mirrors
	finish reader
	has "$(cat "$WORK/reader.out")" "byte a: 10
byte b: 10"
	finish owner
}

@test "freed behind a stream that stands still: attached until the stream goes on, for the next registry too" {
	begin owner "$BIN/api_app" open alloc=a,w,1Mi touch="$WORK/up" await="$WORK/go" list touch="$WORK/told" \
		await="$WORK/end"
	begin reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w:size=1Mi,x:size=2Mi' "$BIN/drv_linked" init stream=s \
		make=a,async,1Mi,s stall=s drop=a,async,s touch="$WORK/attached" await="$WORK/told" \
		make=x,async,2Mi,s touch="$WORK/listed" await="$WORK/on" go=s make=x,async,2Mi,s \
		touch="$WORK/gone" await="$WORK/end"
	equal "$(attachers w)" 1
	restart_registry
	detached_when_on
}

@test "memory that is kept, whose owner has gone: who has it attached brings it back" {
	up owner "$BIN/api_app" open make=a,api,1Mi,keep fill=a,3 save=a,"$WORK/a" make=b,rule,2Mi,keep fill=b,4 \
		save=b,"$WORK/b" make=c,plain,8Mi,vmm
	owner=$PID
	start session "$BIN/api_app" open attach=b,api attach=c,plain touch="$WORK/attached" await="$WORK/go" list \
		touch="$WORK/listed" await="$WORK/end" byte=b,1
	start reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='rule:size=2Mi,plain:size=8Mi,x:size=4Mi' "$BIN/rt_app_static" init \
		alloc=a,2Mi alloc=c,8Mi touch="$WORK/attached2" await="$WORK/go" alloc=x,4Mi touch="$WORK/read" \
		await="$WORK/end" byte=a,1
	await_file "$WORK/attached"
	await_file "$WORK/attached2"
	kill -KILL "$owner"
	until_true owner_gone api
	restart_registry
	resume go listed
	await_file "$WORK/read"
	equal "$(names | sort)" "api 1048576
rule 2097152"
	owner_gone api
	gpushare-attach api -o "$WORK/read1"
	cmp "$WORK/read1" "$WORK/a"
	gpushare-attach rule -o "$WORK/read2"
	cmp "$WORK/read2" "$WORK/b"
	down session
	finish reader
	equal "$(names | sort)" "api 1048576
rule 2097152"
	gpushare rm api
	gpushare rm rule
}

@test "kept likewise: who has it attached without CUDA brings it back too" {
	needs_sim # Vulkan is not on every host
	up owner "$BIN/api_app" open make=a,w,1Mi,keep fill=a,3 save=a,"$WORK/a"
	owner=$PID
	begin session env GPUSHARE_SIM_FAIL=cuInit:1:99:100 "$BIN/api_app" open attach=b,w,0,host touch="$WORK/attached" \
		await="$WORK/go" list touch="$WORK/listed" await="$WORK/end" byte=b,1
	kill -KILL "$owner"
	until_true owner_gone w
	restart_registry
	resume go listed
	until_true owner_gone w || { api open what=w; cat "$WORK"/session.*; return 1; }
	gpushare-attach w -o "$WORK/read"
	cmp "$WORK/read" "$WORK/a"
	down session
	gpushare rm w
}

@test "a child that forks in between has nothing to tell" {
	words=(alloc=a,1Mi touch="$WORK/up" await="$WORK/go" fork=_exit fork=exit touch="$WORK/forked" await="$WORK/on"
		alloc=b,2Mi touch="$WORK/again" await="$WORK/end" free=a exit=5)
	app 'w%i' "${words[@]}"
	restart_registry
	resume go forked
	equal "$(names)" ""
	resume on again
	equal "$(names | sort)" "w0 1048576
w1 2097152"
	touch "$WORK/end"
	app_ends "${words[@]}"
}

@test "memory that a program maps itself outlives the context in which it was made: a new registry has it" {
	begin app env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME='w%i' "$BIN/drv_linked" init ctxnew=B make=a,vmm,2Mi ctxdestroy=B \
		ctxset=primary touch="$WORK/up" await="$WORK/go" make=b,alloc,2Mi touch="$WORK/again" await="$WORK/end"
	APP=$PID
	restart_registry
	resume go again
	equal "$(names | sort)" "w0 2097152
w1 2097152"
}
