#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry that ends under its clients: they tell the next one what they have, and the programs
# notice nothing. What a registry leaves behind itself is removed: the clients alone must do.
load helpers

setup_more() {
	export GPUSHARE_AUTOSTART=0
	LIMIT_MS=$((${GPUSHARE_TIMEOUT_MS:-1000} + 300 + SLACK_MS))
	[ -n "${EMULATOR:-}" ] || start_registry
}

teardown_more() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 20 "$WORK/registry.err"
}

# end_registry: by SIGKILL, and nothing is left but what its clients have
end_registry() {
	local pid
	for pid in $(registry_pids) $(keeper_pids); do
		kill -KILL "$pid"
		until_true has_ended "$pid"
	done
	rm -f "$GPUSHARE_DIR"/*
}

# replace_registry: by SIGKILL, and its successor finds what it wrote
replace_registry() {
	local registry
	registry=$(registry_pids)
	kill -KILL "$registry"
	until_true has_ended "$registry"
	rm -f "$GPUSHARE_DIR"/{registry,fds}.sock
	start_registry
}

restart_registry() {
	end_registry
	start_registry
}

# app RULES WORDS...: a program that says when it is up and goes on when told to; its pid in APP
app() {
	rm -f "$WORK/up"
	GPUSHARE_LOG=$WORK/log start_named app "$1" "$BIN/rt_app_static" init "${@:2}"
	APP=$PID
	await_file "$WORK/up"
}

up() {
	echo "touch=$WORK/up" "await=$WORK/go"
}

go() {
	touch "$WORK/go"
}

# ends CODE: and with the output that it has without us
app_ends() {
	local code=0 plain plain_code=0
	finish "$APP" || code=$?
	plain=$("$BIN/rt_app_static" init "${@}" </dev/null) || plain_code=$?
	equal "$(cat "$WORK/app.out")" "$plain"
	equal "$code" "$plain_code"
}

# contents NAME SEED: what a reader finds under the name
contents() {
	gpushare-attach "$1" -o "$WORK/read"
	cmp "$WORK/read" "$WORK/$2"
}

@test "killed between a producer's allocations: the names are back, with what they hold" {
	words=(alloc=a,1Mi fill=a,3 save=a,"$WORK/a" alloc=b,2Mi fill=b,4 save=b,"$WORK/b" alloc=c,3Mi
		fill=c,5 save=c,"$WORK/c" touch="$WORK/up" await="$WORK/go" alloc=d,4Mi touch="$WORK/again"
		await="$WORK/end" byte=a,1 byte=b,1 byte=c,1 free=a free=b free=c free=d exit=5)
	app 'i:size=1Mi,v:size=2Mi:vmm,k:size=3Mi:keep:ttl=60,late' "${words[@]}"
	restart_registry
	equal "$(names)" ""
	go
	await_file "$WORK/again"
	equal "$(names | sort)" "i 1048576
k 3145728
late 4194304
v 2097152"
	for name in i:a v:b k:c; do
		gpushare-attach "${name%:*}" -o "$WORK/read"
		cmp "$WORK/read" "$WORK/${name#*:}"
	done
	has "$(gpushare stat k)" "kept:"
	touch "$WORK/end"
	app_ends "${words[@]}"
	names_are() { [ "$(names)" = "$1" ]; }
	until_true names_are "k 3145728" # kept, as it was to be
	gpushare-attach k -o "$WORK/read"
	cmp "$WORK/read" "$WORK/c"
	[ ! -s "$WORK/app.err" ]
}

@test "killed twice and again: each time all is told" {
	words=(alloc=a,1Mi fill=a,3 save=a,"$WORK/a")
	for i in 1 2 3; do words+=(touch="$WORK/up$i" await="$WORK/go$i" alloc=b,2Mi free=b); done
	words+=(touch="$WORK/up" await="$WORK/end" exit=5)
	rm -f "$WORK/up"
	start_named app 'v:nth=1:vmm,other%i' "$BIN/rt_app_static" init "${words[@]}"
	APP=$PID
	for i in 1 2 3; do
		await_file "$WORK/up$i"
		restart_registry
		touch "$WORK/go$i"
	done
	await_file "$WORK/up"
	equal "$(names)" "v 1048576"
	gpushare-attach v -o "$WORK/read"
	cmp "$WORK/read" "$WORK/a"
	touch "$WORK/end"
	app_ends "${words[@]}"
}

@test "a session of the API likewise" {
	start app "$BIN/api_app" open alloc=a,i,1Mi fill=a,3 save=a,"$WORK/a" make=b,k,2Mi,keep fill=b,4 \
		save=b,"$WORK/b" raw=r,2Mi share=c,s,r,4096,1Mi touch="$WORK/up" await="$WORK/go" \
		within=$LIMIT_MS stat=i touch="$WORK/again" await="$WORK/end" byte=a,1 free=a free=c close
	APP=$PID
	await_file "$WORK/up"
	restart_registry
	go
	await_file "$WORK/again"
	equal "$(names | sort)" "i 1048576
k 2097152
s 1048576"
	for name in i:a k:b; do
		gpushare-attach "${name%:*}" -o "$WORK/read"
		cmp "$WORK/read" "$WORK/${name#*:}"
	done
	touch "$WORK/end"
	finish "$APP"
	equal "$(tail -n 4 "$WORK/app.out")" "byte a: 10
free a: OK
free c: OK
close: OK"
	equal "$(names)" "k 2097152"
}

@test "an attach that waits outlasts it" {
	attaching 'w:wait=20' "$BIN/rt_app_static" init alloc=a,1Mi await="$WORK/up" byte=a,1 free=a \
		>"$WORK/rule.out" 2>"$WORK/rule.err" &
	rule=$!
	STARTED+=("$rule")
	start waiter "$BIN/api_app" open attach=b,w,20000 await="$WORK/up" byte=b,1 detach=b close
	waiter=$PID
	sleep 0.3
	end_registry
	sleep 0.3
	start_registry
	start owner "$BIN/api_app" open alloc=a,w,1Mi fill=a,3 touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
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
	start owner "$BIN/api_app" open make=a,w,1Mi,vmm fill=a,3 touch="$WORK/up" await="$WORK/go" list \
		touch="$WORK/told" await="$WORK/end"
	owner=$PID
	await_file "$WORK/up"
	start reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w:nth=1,w:nth=2,x:size=2Mi' "$BIN/rt_app_static" init \
		alloc=a,1Mi alloc=b,1Mi touch="$WORK/attached" await="$WORK/told" alloc=x,2Mi free=x byte=a,1 \
		byte=b,1 touch="$WORK/read" await="$WORK/end" free=a free=b
	reader=$PID
	await_file "$WORK/attached"
	start session "$BIN/api_app" open attach=b,w attach=c,w touch="$WORK/attached2" await="$WORK/told" list \
		touch="$WORK/listed" await="$WORK/end" byte=b,1 detach=b detach=c
	session=$PID
	await_file "$WORK/attached2"
	before=$(shown w attachers)
	equal "$before" 4
	restart_registry
	go
	await_file "$WORK/listed"
	await_file "$WORK/read"
	equal "$(shown w attachers)" "$before"
	kill -KILL "$session"
	until_true has_ended "$session"
	is_less() { [ "$(shown w attachers)" = "$1" ]; }
	until_true is_less 2
	touch "$WORK/end"
	finish "$reader"
	has "$(cat "$WORK/reader.out")" "byte a: 10
byte b: 10"
	finish "$owner"
}

@test "memory that is kept, whose owner has gone: who has it attached brings it back" {
	start owner "$BIN/api_app" open make=a,api,1Mi,keep fill=a,3 save=a,"$WORK/a" make=b,rule,2Mi,keep fill=b,4 \
		save=b,"$WORK/b" touch="$WORK/up" await="$WORK/end"
	owner=$PID
	await_file "$WORK/up"
	start session "$BIN/api_app" open attach=b,api touch="$WORK/attached" await="$WORK/go" list \
		touch="$WORK/listed" await="$WORK/end" byte=b,1
	session=$PID
	start reader env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='rule:size=2Mi,x:size=4Mi' "$BIN/rt_app_static" init \
		alloc=a,2Mi touch="$WORK/attached2" await="$WORK/go" alloc=x,4Mi touch="$WORK/read" \
		await="$WORK/end" byte=a,1
	reader=$PID
	await_file "$WORK/attached"
	await_file "$WORK/attached2"
	kill -KILL "$owner"
	is_gone() { [[ $(api open "what=$1") == *"owner gone"* ]]; }
	until_true is_gone api
	restart_registry
	go
	await_file "$WORK/listed"
	await_file "$WORK/read"
	equal "$(names | sort)" "api 1048576
rule 2097152"
	is_gone api
	gpushare-attach api -o "$WORK/read1"
	cmp "$WORK/read1" "$WORK/a"
	gpushare-attach rule -o "$WORK/read2"
	cmp "$WORK/read2" "$WORK/b"
	touch "$WORK/end"
	finish "$session"
	finish "$reader"
	equal "$(names | sort)" "api 1048576
rule 2097152"
	gpushare rm api
	gpushare rm rule
}

@test "kept likewise: who has it attached without CUDA brings it back too" {
	needs_sim # Vulkan is not on every host
	start owner "$BIN/api_app" open make=a,w,1Mi,keep fill=a,3 save=a,"$WORK/a" touch="$WORK/up" await="$WORK/end"
	owner=$PID
	await_file "$WORK/up"
	start session env GPUSHARE_SIM_FAIL=cuInit:1:99:100 "$BIN/api_app" open attach=b,w,0,host touch="$WORK/attached" \
		await="$WORK/go" list touch="$WORK/listed" await="$WORK/end" byte=b,1
	session=$PID
	await_file "$WORK/attached"
	kill -KILL "$owner"
	is_gone() { [[ $(api open what=w) == *"owner gone"* ]]; }
	until_true is_gone
	restart_registry
	go
	await_file "$WORK/listed"
	is_gone
	gpushare-attach w -o "$WORK/read"
	cmp "$WORK/read" "$WORK/a"
	touch "$WORK/end"
	finish "$session"
	gpushare rm w
}

@test "a child that forks in between has nothing to tell" {
	words=(alloc=a,1Mi touch="$WORK/up" await="$WORK/go" fork=_exit fork=exit touch="$WORK/forked" await="$WORK/on"
		alloc=b,2Mi touch="$WORK/again" await="$WORK/end" free=a exit=5)
	app 'w%i' "${words[@]}"
	restart_registry
	go
	await_file "$WORK/forked"
	equal "$(names)" ""
	touch "$WORK/on"
	await_file "$WORK/again"
	equal "$(names | sort)" "w0 1048576
w1 2097152"
	touch "$WORK/end"
	app_ends "${words[@]}"
}

@test "threads that allocate and free go on, whatever registries do" {
	words=(alloc=a,1Mi fill=a,3 save=a,"$WORK/a" touch="$WORK/up" await="$WORK/go")
	for _ in {1..30}; do words+=(threads=8,64Ki); done
	words+=(touch="$WORK/done" await="$WORK/end" alloc=b,3Mi touch="$WORK/again" await="$WORK/end2" byte=a,1 exit=5)
	app 'v:nth=1:vmm,t%i:size=64Ki:vmm,late' "${words[@]}"
	go
	for _ in 1 2 3; do
		restart_registry
		sleep 0.1
	done
	await_file "$WORK/done"
	restart_registry
	sleep 1.1
	touch "$WORK/end"
	await_file "$WORK/again"
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
	kill -STOP "$registry"
	until_true has_stopped "$registry"
	go
	await_file "$WORK/on"
	kill -CONT "$registry"
	sleep 1.2
	touch "$WORK/end"
	await_file "$WORK/again"
	has "$(names)" "w0 1048576"
	has "$(names)" "w3 1048576"
	touch "$WORK/end2"
	app_ends "${words[@]}"
}

@test "a name that another process has taken meanwhile: said in the log, and the program goes on" {
	words=(alloc=a,1Mi fill=a,3 alloc=b,2Mi touch="$WORK/up" await="$WORK/go" alloc=c,4Mi touch="$WORK/again"
		await="$WORK/end" byte=a,1 free=a free=b free=c exit=5)
	app 'v:size=1Mi:vmm,i:size=2Mi,late' "${words[@]}"
	restart_registry
	start thief "$BIN/api_app" open alloc=a,v,3Mi alloc=b,i,3Mi touch="$WORK/taken" await="$WORK/end2"
	await_file "$WORK/taken"
	go
	await_file "$WORK/again"
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

@test "freed while there is none: the next one does not hear of it" {
	words=(alloc=a,1Mi alloc=b,2Mi touch="$WORK/up" await="$WORK/go" free=a touch="$WORK/freed" await="$WORK/on"
		alloc=c,4Mi touch="$WORK/again" await="$WORK/end" exit=5)
	app 'w%i' "${words[@]}"
	registry=$(registry_pids)
	kill -KILL "$registry" # what it wrote stays
	until_true has_ended "$registry"
	rm -f "$GPUSHARE_DIR"/{registry,fds}.sock
	go
	await_file "$WORK/freed"
	start_registry
	sleep 0.2
	touch "$WORK/on"
	await_file "$WORK/again"
	equal "$(names | sort)" "w1 2097152
w2 4194304"
	touch "$WORK/end"
	app_ends "${words[@]}"
}

@test "what it left is taken up by the next one: nothing changes, not for a moment" {
	needs jq
	words=(alloc=a,1Mi alloc=b,2Mi fill=b,4 save=b,"$WORK/b" touch="$WORK/up" await="$WORK/go" alloc=c,4Mi
		touch="$WORK/again" await="$WORK/end" free=a free=b free=c exit=5)
	app 'i:size=1Mi,v:size=2Mi:vmm,late' "${words[@]}"
	before=$(shown i generation)-$(shown v generation)
	replace_registry
	equal "$(shown i generation)-$(shown v generation)" "$before"
	gpushare-attach v -o "$WORK/read"
	cmp "$WORK/read" "$WORK/b"
	go
	await_file "$WORK/again"
	equal "$(shown i generation)-$(shown v generation)" "$before"
	equal "$(names | sort)" "i 1048576
late 4194304
v 2097152"
	touch "$WORK/end"
	app_ends "${words[@]}"
	equal "$(names)" ""
}

@test "freed as the first thing after it: held for who has it attached, all the same" {
	words=(alloc=a,2Mi fill=a,3 touch="$WORK/up" await="$WORK/go" free=a touch="$WORK/freed" await="$WORK/end"
		alloc=b,1Mi free=b exit=5)
	app 'w%i' "${words[@]}"
	start reader "$BIN/api_app" open attach=b,w0 touch="$WORK/attached" await="$WORK/freed" byte=b,1 \
		touch="$WORK/read" await="$WORK/end" detach=b
	reader=$PID
	await_file "$WORK/attached"
	replace_registry
	go
	await_file "$WORK/read"
	equal "$(names)" ""
	has "$(gpushare ls --limbo)" "w0"
	has "$(cat "$WORK/reader.out")" "byte b: 10"
	touch "$WORK/end"
	finish "$reader"
	app_ends "${words[@]}"
}

@test "a moment without one is no outage: soon afterwards names are given again" {
	words=(alloc=a,1Mi touch="$WORK/up" await="$WORK/go" alloc=b,2Mi touch="$WORK/without" await="$WORK/on"
		alloc=c,4Mi touch="$WORK/again" await="$WORK/end" exit=5)
	app 'w%i' "${words[@]}"
	end_registry
	go
	await_file "$WORK/without"
	start_registry
	sleep 0.1
	touch "$WORK/on"
	await_file "$WORK/again"
	equal "$(names | sort)" "w0 1048576
w2 4194304"
	touch "$WORK/end"
	app_ends "${words[@]}"
}
