#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The registry records a name, but its answer comes too late. The program continues, and the name must refer to the
# memory that the program has.
load helpers

setup_more() {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented library's calls are its instruments'"
	[ -z "${EMULATOR:-}" ] || skip "an emulator's calls are its own"
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	start_registry
	# Find where the shim asks for a name in this build.
	env FAULT_RECORD="$WORK/sites" FAULT_OF=libgpushare_shim.so GPUSHARE_NAME=w \
		LD_PRELOAD="$BIN/lib_fault.so $SHIM" "$BIN/rt_app_static" init alloc=a,1Mi free=a >/dev/null
	SITE=$(grep -m 1 '^fds\.1@' "$WORK/sites")
	UNTOLD=$((400 + SLACK_MS / 4)) # ms that an answer may take
}

# late NTH RULES WORDS...: start a program to whose NTH name the answer comes too late
late() {
	start_named owner "$2" env GPUSHARE_TIMEOUT_MS=$UNTOLD GPUSHARE_LOG="$WORK/log" FAULT_AT="$SITE#$1=late" \
		FAULT_OF=libgpushare_shim.so FAULT_HIT="$WORK/hit" LD_PRELOAD="${BEFORE:-} $BIN/lib_fault.so $SHIM" \
		"$BIN/rt_app_static" init "${@:3}"
	OWNER=$PID
	await_file "$WORK/up"
	[ -e "$WORK/hit" ]
}

again() {
	gpushare rm w 2>/dev/null || true
	rm -f "$WORK"/{end,up,hit,go,named,more,freed,log}
}

# End the owner and remove everything, so that the next rule starts from nothing.
owner_ends() {
	touch "$WORK/end"
	wait "$OWNER"
	again
}

# kept_or_gone [OTHERS]: after the program has freed w, a kept w is still there; otherwise only OTHERS are left
kept_or_gone() {
	if [ "$rule" = w:keep ]; then
		same_as_owner a w
	else
		equal "$(names | cut -d ' ' -f 1)" "${1:-}"
	fi
}

# same_as_owner SLOT NAME: the program and another process read the same byte of NAME
same_as_owner() {
	grep "^byte $1: " "$WORK/owner.out" | tail -n 1 >"$WORK/owners"
	api open attach="$1,$2" "byte=$1,5" | grep "^byte" >"$WORK/readers"
	diff "$WORK/owners" "$WORK/readers"
}

@test "the name is of what the program has, mapped or not" {
	for rule in w w:vmm w:keep; do
		late 1 "$rule" alloc=a,1Mi fill=a,7 byte=a,5 touch="$WORK/up" await="$WORK/end"
		has "$(names)" "w"
		same_as_owner a w
		touch "$WORK/end"
		wait "$OWNER"
		[ "$rule" != w:keep ] || same_as_owner a w
		[ "$rule" = w:keep ] || equal "$(names)" ""
		again
	done
}

go_on() {
	asks_again
	touch "$WORK/go"
	await_file "$WORK/$1"
}

@test "it goes when the program frees it, or is kept as it is then" {
	for rule in w w:vmm w:keep; do
		late 1 "$rule" alloc=a,1Mi fill=a,7 byte=a,5 touch="$WORK/up" await="$WORK/go" free=a \
			touch="$WORK/freed" await="$WORK/end"
		go_on freed
		kept_or_gone
		owner_ends
	done
}

@test "the program's next name tells of it too, and then it is as any other" {
	for rule in w w:vmm w:keep; do
		late 1 "$rule:size=1Mi,next:size=2Mi" alloc=a,1Mi fill=a,7 byte=a,5 touch="$WORK/up" await="$WORK/go" \
			alloc=b,2Mi touch="$WORK/named" await="$WORK/more" free=a touch="$WORK/freed" await="$WORK/end"
		go_on named
		has "$(<"$WORK/log")" '"w" is shared: 1048576 bytes'
		equal "$(names | sort | cut -d ' ' -f 1,2)" "next 2097152
w 1048576"
		same_as_owner a w
		resume more freed
		kept_or_gone next
		owner_ends
	done
}

@test "a registry that comes after that one has it from the program" {
	for rule in w w:vmm w:keep; do
		late 1 "$rule:size=1Mi,next:size=2Mi" alloc=a,1Mi fill=a,7 byte=a,5 touch="$WORK/up" await="$WORK/go" \
			alloc=b,2Mi touch="$WORK/named" await="$WORK/end"
		kill_registry
		start_registry # the program waits for no more than $UNTOLD ms
		go_on named
		same_as_owner a w
		owner_ends
	done
}

@test "the answer is lost once more: the name is asked for again" {
	local registry
	needs_sim
	export PAUSE_AT=cuIpcGetMemHandle PAUSE_FILE=$WORK/p
	BEFORE=$BIN/lib_pause.so late 1 w:nth=1,next:nth=2:vmm,last:nth=3 alloc=a,1Mi fill=a,7 byte=a,5 touch="$WORK/up" \
		await="$WORK/go" aside=alloc,b,2Mi await="$WORK/p.paused" touch="$WORK/named" await="$WORK/p.go" rejoin \
		touch="$WORK/more" await="$WORK/on" alloc=c,4Mi touch="$WORK/freed" await="$WORK/end"
	touch "$WORK/p.armed"
	go_on named
	registry=$(registry_pids)
	kill -STOP "$registry"
	until_true has_stopped "$registry"
	touch "$WORK/p.go"
	await_file "$WORK/more"
	kill -CONT "$registry"
	asks_again
	resume on freed
	same_as_owner a w
	has "$(<"$WORK/log")" '"w" is shared: 1048576 bytes'
	owner_ends
}

@test "a registry that has the name still, as it is told of the rest later: the name is asked for again" {
	local words=() i
	up_named producer 'w%i' "$BIN/drv_linked" init hoard=1,176,2Mi
	for i in {1..176}; do words+=(make=a,async,2Mi,s drop=a,async,s); done # attached until the stream goes on
	mkdir -m 700 "$WORK/f"
	start slow "$BIN/tool_fake_registry" "$WORK/f" slow "$GPUSHARE_DIR" 178 # hello, 176 times attach, share
	await_file "$WORK/f/ready"
	begin app env GPUSHARE_DIR="$WORK/f" GPUSHARE_AUTOSTART=0 GPUSHARE_TIMEOUT_MS=2000 GPUSHARE_LOG="$WORK/log" \
		LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH='w%i:size=2Mi' GPUSHARE_NAME=own:size=3Mi,x%i:size=5Mi "$BIN/drv_linked" init \
		stream=s stall=s "${words[@]}" make=b,alloc,3Mi touch="$WORK/lost" await="$WORK/on" \
		repeat=8,2 make=c,alloc,5Mi drop=c,async touch="$WORK/told" await="$WORK/over"
	asks_again
	resume on told
	has "$(names)" "own 3145728"
	equal "$(grep -c '"w.*" is attached' "$WORK/log")" 176
	equal "$(grep -c '"own" is shared' "$WORK/log")" 1
}

@test "another's name by then: it stays the other's, and the program has its memory" {
	for rule in w w:vmm; do
		late 1 "$rule:size=1Mi,next:size=2Mi" alloc=a,1Mi fill=a,7 touch="$WORK/up" await="$WORK/go" \
			alloc=b,2Mi touch="$WORK/named" await="$WORK/more" byte=a,5 free=a touch="$WORK/freed"
		gpushare rm w
		start other "$BIN/api_app" open alloc=x,w,3Mi touch="$WORK/other" await="$WORK/end"
		local other=$PID
		await_file "$WORK/other"
		go_on named
		has "$(<"$WORK/log")" '"w" is not shared: '
		touch "$WORK/more"
		wait "$OWNER"
		equal "$(tail -n 2 "$WORK/owner.out")" "byte a: 42
free a: 0"
		equal "$(names)" "w 3145728"
		touch "$WORK/end"
		wait "$other"
		rm "$WORK/other"
		again
	done
}

@test "an IPC handle of it opens elsewhere" {
	late 1 w:vmm alloc=a,1Mi fill=a,7 byte=a,5 touch="$WORK/up" await="$WORK/go" ipcget=a,"$WORK/handle" \
		touch="$WORK/given" await="$WORK/end"
	go_on given
	named unused:nth=99 "$BIN/rt_app_static" init ipcopen=b,"$WORK/handle",1Mi byte=b,5 >"$WORK/opened"
	equal "$(tail -n 1 "$WORK/opened")" "byte b: 42"
	touch "$WORK/end"
	wait "$OWNER"
}

# late_api SITE NTH WORDS...: run api_app; the answer to its NTH question of that kind (of rehearse) comes too late, or
# its NTH call there fails as $ERRNO says, such as e104
late_api() {
	local fault=(FAULT_OF=libgpushare.so.0 LD_PRELOAD="$BIN/lib_fault.so") site
	env FAULT_RECORD="$WORK/sites.api" "${fault[@]}" "$BIN/api_app" open make=x,x,1Mi,vmm make=y,y,1Mi,staged commit=y \
		attach=b,theirs detach=b </dev/null \
		>/dev/null 2>&1
	site=$(grep -m 1 "^$1@" "$WORK/sites.api")
	env GPUSHARE_TIMEOUT_MS=$UNTOLD FAULT_AT="$site#$2=${ERRNO:-late}" FAULT_HIT="$WORK/hit" "${fault[@]}" \
		"$BIN/api_app" open "${@:3}" >"$WORK/out" 2>"$WORK/err" </dev/null
	[ -e "$WORK/hit" ]
	rm "$WORK/hit"
}

@test "what the API gave up on is not kept, and can't be adopted" {
	for flags in vmm keep; do
		late_api 'fds\.1' 1 "make=a,w,1Mi,$flags" list "make=b,w,1Mi,keep+adopt" what=w
		equal "$(<"$WORK/out")" "open: OK
make w: E_TIMED_OUT
make w: OK
what w: flags 1 ttl 0 owner alive"
		gpushare rm w
	done
}

@test "what the API was refused too late takes nothing from what is kept of that name" {
	late_api 'fds\.1' 2 make=a,w,1Mi,keep make=b,w,1Mi,keep free=a what=w
	equal "$(<"$WORK/out")" "open: OK
make w: OK
make w: E_TIMED_OUT
free a: OK
what w: flags 1 ttl 0 owner gone"
}

@test "what the API gave up to adopt is kept as it was" {
	api open make=a,w,1Mi,keep fill=a,7
	generation=$(shown w generation)
	late_api 'fds\.1' 1 make=a,w,1Mi,keep+adopt what=w
	equal "$(<"$WORK/out")" "open: OK
make w: E_TIMED_OUT
what w: flags 1 ttl 0 owner gone"
	equal "$(shown w generation)" "$generation"
	has "$(api open make=a,w,1Mi,keep+adopt byte=a,5)" "byte a: 42"
}

@test "where fds.sock can't be reached, or ends, what needs no descriptor is shared and freed over the other socket" {
	for fault in "connect e13 2" "recvmsg e104 1" "recvmsg e104 2"; do
		read -r site ERRNO nth <<<"$fault"
		late_api "$site" "$nth" alloc=a,w,1Mi stat=w free=a stat=w alloc=a,w,1Mi attach=b,w detach=b
		equal "$(grep -v '^size' "$WORK/out" | cut -d ' ' -f 1-3)" "open: OK
alloc w: OK
stat w: OK
free a: OK
stat w: E_NOT_FOUND
alloc w: OK
attach w: OK
detach b: OK"
		equal "$(names)" ""
	done
}

@test "where fds.sock ends and the registry does not, the call ends within its time" {
	# The first buffer starts the driver, which takes a second on a GPU.
	ERRNO=e104 late_api recvmsg 2 alloc=b,first,1Mi touch="$WORK/begun" make=a,w,1Mi,vmm touch="$WORK/over"
	has "$(<"$WORK/out")" "make w: E_NO_REGISTRY"
	awk -v begun="$(stat -c %.3Y "$WORK/begun")" -v over="$(stat -c %.3Y "$WORK/over")" -v limit_ms=$((UNTOLD + 400)) \
		'BEGIN { print (over - begun) * 1000; exit !((over - begun) * 1000 < limit_ms) }'
}

@test "a commit whose answer came too late has committed or not, and can be made again" {
	late_api 'ask\.22' 1 make=a,w,1Mi,keep+staged commit=a commit=a what=w
	equal "$(<"$WORK/out")" "open: OK
make w: OK
commit a: E_TIMED_OUT
commit a: OK
what w: flags 1 ttl 0 owner alive"
}

@test "an attach that the API gave up on counts nothing, nor one whose name came later; a detach counts once" {
	up owner "$BIN/api_app" open alloc=a,theirs,1Mi
	late_api 'fds\.1' 1 attach=b,theirs stat=theirs attach=b,theirs attach=c,theirs stat=theirs detach=b detach=c stat=theirs
	equal "$(sed 's/ mine.*//' "$WORK/out")" "open: OK
attach theirs: E_TIMED_OUT
stat theirs: OK
size 1048576 offset 0 base 2097152 attachers 0
attach theirs: OK
attach theirs: OK
stat theirs: OK
size 1048576 offset 0 base 2097152 attachers 2
detach b: OK
detach c: OK
stat theirs: OK
size 1048576 offset 0 base 2097152 attachers 0"
	begin reader "$BIN/api_app" open attach=b,later,200 touch="$WORK/over" await="$WORK/shared" stat=later
	owner=$PID
	begin other "$BIN/api_app" open alloc=a,later,1Mi touch="$WORK/shared" await="$WORK/end"
	finish "$owner"
	has "$(<"$WORK/reader.out")" "attach later: E_TIMED_OUT"
	has "$(<"$WORK/reader.out")" "attachers 0"
	late_api 'fds\.1' 3 attach=b,theirs attach=c,theirs detach=b stat=theirs detach=c stat=theirs
	equal "$(grep -o 'attachers .*mine\|TIMED_OUT' "$WORK/out" | cut -d ' ' -f 1,2)" "attachers 1
attachers 0"
}
