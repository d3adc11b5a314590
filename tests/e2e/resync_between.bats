#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What happens between a registry and its successor, and what clients report to the successor about it.
load helpers
load in_resyncing

@test "threads that allocate and free go on, whatever registries do" {
	words=(alloc=a,1Mi fill=a,3 save=a,"$WORK/a" touch="$WORK/up" await="$WORK/go")
	for _ in {1..30}; do words+=(threads=8,64Ki); done
	words+=(touch="$WORK/done" await="$WORK/end" alloc=b,3Mi)
	for _ in {1..8}; do words+=(alloc=c,64Ki free=c); done # what one call has no time for is for those after it
	words+=(touch="$WORK/again" await="$WORK/end2" byte=a,1 exit=5)
	app 'v:nth=1:vmm,t%i:size=64Ki:vmm,late' "${words[@]}"
	go
	for _ in 1 2 3; do
		restart_registry
		sleep 0.1 # the load: so long each registry is there
	done
	await_file "$WORK/done"
	restart_registry
	asks_again
	resume end again
	has "$(names)" "v 1048576"
	has "$(names)" "late 3145728"
	gpushare-attach v -o "$WORK/read"
	cmp "$WORK/read" "$WORK/a"
	touch "$WORK/end2"
	app_ends "${words[@]}"
}

@test "stopped before it is told: the program waits once, and tells it later" {
	words=(alloc=a,1Mi touch="$WORK/up" await="$WORK/go" within=$LIMIT_MS alloc=b,1Mi alloc=c,1Mi touch="$WORK/on"
		await="$WORK/end" alloc=d,1Mi touch="$WORK/again" await="$WORK/end2" exit=5)
	app 'w%i' "${words[@]}"
	restart_registry
	registry=$(registry_pids)
	halt "$registry"
	resume go on
	kill -CONT "$registry"
	asks_again
	resume end again
	has "$(names)" "w0 1048576"
	has "$(names)" "w3 1048576"
	touch "$WORK/end2"
	app_ends "${words[@]}"
}

@test "attachments that end while the registry does not answer: it hears of all of them later" {
	local registry
	up owner "$BIN/api_app" open alloc=a,w0,1Mi alloc=b,w1,1Mi
	begin reader env GPUSHARE_TIMEOUT_MS=300 LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w%i:size=1Mi,none:size=2Mi' \
		"$BIN/rt_app_static" init alloc=a,1Mi alloc=b,1Mi touch="$WORK/attached" await="$WORK/go" free=a free=b \
		touch="$WORK/freed" await="$WORK/on" alloc=c,2Mi touch="$WORK/told" await="$WORK/end"
	registry=$(registry_pids)
	halt "$registry"
	resume go freed
	kill -CONT "$registry"
	asks_again
	resume on told
	equal "$(attachers w0) $(attachers w1)" "0 0"
}

@test "a name that another process has taken meanwhile: said in the log, and the program goes on" {
	words=(alloc=a,1Mi fill=a,3 alloc=b,2Mi touch="$WORK/up" await="$WORK/go" alloc=c,4Mi touch="$WORK/again"
		await="$WORK/end" byte=a,1 free=a free=b free=c exit=5)
	app 'v:size=1Mi:vmm,i:size=2Mi,late' "${words[@]}"
	restart_registry
	begin thief "$BIN/api_app" open alloc=a,v,3Mi alloc=b,i,3Mi touch="$WORK/taken" await="$WORK/end2"
	resume go again
	equal "$(names | sort)" "i 3145728
late 4194304
v 3145728"
	has "$(cat "$WORK/log")" '"v" is not shared any more'
	has "$(cat "$WORK/log")" '"i" is not shared any more'
	touch "$WORK/end"
	app_ends "${words[@]}"
	equal "$(names | sort)" "i 3145728
v 3145728"
	touch "$WORK/end2"
}

@test "a name of a session that another process has taken meanwhile: it stays the other's, the session goes on" {
	begin app "$BIN/api_app" open alloc=a,w,1Mi fill=a,3 touch="$WORK/up" await="$WORK/go" stat=none stat=none byte=a,1 \
		free=a alloc=b,late,1Mi touch="$WORK/again" await="$WORK/end"
	restart_registry
	begin thief "$BIN/api_app" open alloc=a,w,3Mi touch="$WORK/taken" await="$WORK/end"
	resume go again
	equal "$(names | sort)" "late 1048576
w 3145728"
	has "$(<"$WORK/app.out")" $'byte a: 10\nfree a: OK'
	down app
}

@test "stopped before a session tells it: one wait, and none for each buffer when the session closes" {
	begin app "$BIN/api_app" open alloc=a,a,4096 alloc=b,b,4096 alloc=c,c,4096 alloc=d,d,4096 touch="$WORK/up" \
		await="$WORK/go" within=$LIMIT_MS stat=none close
	restart_registry
	registry=$(registry_pids)
	halt "$registry"
	go
	finish app
	kill -CONT "$registry"
	equal "$(tail -n 2 "$WORK/app.out")" "stat none: E_TIMED_OUT
close: OK"
}

@test "freed as the first thing after it: held for who has it attached, all the same" {
	words=(alloc=a,2Mi fill=a,3 touch="$WORK/up" await="$WORK/go" free=a touch="$WORK/freed" await="$WORK/end"
		alloc=b,1Mi free=b exit=5)
	app 'w%i' "${words[@]}"
	begin reader "$BIN/api_app" open attach=b,w0 touch="$WORK/attached" await="$WORK/freed" byte=b,1 \
		touch="$WORK/read" await="$WORK/end" detach=b
	replace_registry
	resume go read
	equal "$(names)" ""
	has "$(gpushare ls --deferred)" "w0"
	has "$(cat "$WORK/reader.out")" "byte b: 10"
	down reader
	app_ends "${words[@]}"
}

# pauses CALL: in programs that start from now on, this driver call stops at file "p.armed" until file "p.go" exists
pauses() {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the sanitizer's library must be loaded first"
	export PAUSE_AT=$1 PAUSE_FILE=$WORK/p
	PRELOAD="$BIN/lib_pause.so $PRELOAD"
}

@test "freed while the program brings it back: nobody finds the name" {
	pauses cuIpcGetMemHandle
	app 'a:nth=1,b:size=2Mi:vmm,c:size=4Mi' make=a,malloc,1024Mi touch="$WORK/up" await="$WORK/go" aside=alloc,b,2Mi \
		await="$WORK/p.paused" drop=a again=a,d,100 touch="$WORK/p.go" rejoin alloc=c,4Mi touch="$WORK/again" \
		await="$WORK/end"
	restart_registry
	touch "$WORK/p.armed"
	resume go again
	equal "$(names | sort)" "b 2097152
c 4194304"
	down "$APP"
	has "$(<"$WORK/app.out")" "again a: the same address"
}

@test "freed in the order of a stream while the next registry is told: attached until the stream goes on" {
	pauses cuEventRecord
	begin owner "$BIN/api_app" open alloc=a,w,1Mi touch="$WORK/up" await="$WORK/go" list touch="$WORK/told" \
		await="$WORK/end"
	begin reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w:size=1Mi,x:size=2Mi,y:size=4Mi' "$BIN/rt_app_static" \
		init stream=s make=a,async,1Mi,s stall=s touch="$WORK/attached" await="$WORK/told" \
		aside=drop,a,async,s await="$WORK/p.paused" make=x,async,2Mi,s touch="$WORK/p.go" rejoin \
		make=y,async,4Mi,s touch="$WORK/listed" await="$WORK/on" go=s make=x,async,2Mi,s \
		touch="$WORK/gone" await="$WORK/end"
	restart_registry
	touch "$WORK/p.armed"
	detached_when_on
}

@test "a moment without one is no outage: soon afterwards names are given again" {
	words=(alloc=a,1Mi touch="$WORK/up" await="$WORK/go" alloc=b,2Mi touch="$WORK/without" await="$WORK/on"
		alloc=c,4Mi touch="$WORK/again" await="$WORK/end" exit=5)
	app 'w%i' "${words[@]}"
	end_registry
	resume go without
	start_registry
	sleep 0.1
	resume on again
	equal "$(names | sort)" "w0 1048576
w2 4194304"
	touch "$WORK/end"
	app_ends "${words[@]}"
}

@test "names that were removed do not come back with the next registries" {
	app 'i:size=1Mi,k:size=3Mi:keep:ttl=60,late%i' alloc=a,1Mi alloc=b,3Mi touch="$WORK/up" await="$WORK/go" alloc=c,2Mi \
		touch="$WORK/again" await="$WORK/end" alloc=d,2Mi touch="$WORK/last" await="$WORK/over"
	gpushare rm i k
	replace_registry
	resume go again
	equal "$(names)" "late0 2097152"
	replace_registry
	resume end last
	equal "$(names | sort)" "late0 2097152
late1 2097152"
	touch "$WORK/over"
	finish "$APP"
}
