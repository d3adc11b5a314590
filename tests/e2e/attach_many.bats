#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare_attach_many(): all of these names, or none. Requests are sent ahead of the answers to earlier ones.
load helpers

setup_more() {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
	start_registry
}

# owner WORD...: a process that shares m000 to m099, an ipc buffer "ipc" and a vmm buffer "vmm"
owner() {
	begin owner "$BIN/api_app" open raw=r,1Mi many=r,100 alloc=i,ipc,1Mi fill=i,3 make=v,vmm,2Mi,vmm fill=v,7 \
		touch="$WORK/owns" await="$WORK/end" close
	OWNER=$PID
}

# ends: the program app has ended; what it had attached is attached by nobody
ends() {
	finish "$PID"
	equal "$(api open attached='*')" "open: OK
attached *: 0"
}

# attaches: how many Attach requests the registry has answered
attaches() {
	gpushare metrics | sed -n 's/^gpushare_requests_total{verb="attach"} //p'
}

# paused WORD...: start a program that stops in its first driver call $PAUSE_AT after the word "touch=$WORK/p.armed"
paused() {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the sanitizer's library must be loaded first"
	start app env PAUSE_AT="$PAUSE_AT" PAUSE_FILE="$WORK/p" LD_PRELOAD="$BIN/lib_pause.so" "$BIN/api_app" open \
		touch="$WORK/p.armed" "$@"
	await_file "$WORK/p.paused"
}

@test "of each kind, one's own, one attached before, and one twice: in the order of the names" {
	local words=(byte=a,5 byte=c,5 byte=d,5 size=f same=a,b same=c,e same=d,o detach=a detach=b detach=c detach=d
		detach=e detach=f attached='[mivp]*' close)
	owner
	api open alloc=o,own,1Mi fill=o,9 attach=b,ipc attach=a,ipc attach=c,vmm attach=d,own attach=e,vmm attach=f,m007 \
		"${words[@]}" >"$WORK/single"
	api open alloc=o,own,1Mi fill=o,9 attach=b,ipc attachall=acdef,ipc,vmm,own,vmm,m007 "${words[@]}" >"$WORK/all"
	has "$(<"$WORK/all")" "attachall acdef: OK"
	equal "$(grep -v '^attach' "$WORK/all")" "$(grep -v '^attach' "$WORK/single")"
	equal "$(tail -n 2 "$WORK/all")" "attached [mivp]*: 0
close: OK"
}

@test "a set that is attached already is attached again without a request" {
	local asked
	owner
	begin reader "$BIN/api_app" open attachset=m,100 attachset=m,100 attachset=m,100 touch="$WORK/often" \
		await="$WORK/go" attachset=m,100 touch="$WORK/again" await="$WORK/end"
	asked=$(attaches)
	resume go again
	equal "$(attaches)" "$asked"
	equal "$(cat "$WORK/reader.out")" "open: OK
attachset m: OK
attachset m: OK
attachset m: OK
attachset m: OK"
}

@test "one name is refused: the sentence says which, and none of the others stays attached" {
	owner
	gpushare rm m050
	begin reader "$BIN/api_app" open attachset=m,50 detachset touch="$WORK/first" await="$WORK/on" attachset=m,100 \
		attachall=abc,ipc,none,vmm attachall=ab,vmm,m050 touch="$WORK/refused" await="$WORK/go" attachset=m,50 detachset \
		touch="$WORK/again" await="$WORK/end"
	sockets=$(ls -l "/proc/$PID/fd" | grep -c 'socket:') # CUDA's own, too
	resume on refused
	equal "$(api open attached='*')" "open: OK
attached *: 0"
	equal "$(cat "$WORK/reader.out")" "open: OK
attachset m: OK
detachset: OK
attachset m: E_NOT_FOUND
attachall abc: E_NOT_FOUND
attachall ab: E_NOT_FOUND"
	has "$(sed -n 1p "$WORK/reader.err")" m050
	has "$(sed -n 2p "$WORK/reader.err")" none
	equal "$(ls -l "/proc/$PID/fd" | grep -c 'socket:')" "$sockets"
	resume go again
	equal "$(tail -n 2 "$WORK/reader.out")" $'attachset m: OK\ndetachset: OK'
}

@test "the driver refuses one: none of the others stays attached" {
	needs_sim
	owner
	begin reader env GPUSHARE_SIM_FAIL=cuIpcOpenMemHandle:40:1:2 "$BIN/api_app" open attachset=m,100 touch="$WORK/refused" \
		await="$WORK/go" attachset=m,100 detachset touch="$WORK/again" await="$WORK/end"
	equal "$(api open attached='*')" "open: OK
attached *: 0"
	has "$(cat "$WORK/reader.out")" "attachset m: E_NO_MEMORY"
	has "$(cat "$WORK/reader.err")" m039
	resume go again
	has "$(cat "$WORK/reader.out")" $'attachset m: OK\ndetachset: OK'
}

@test "it waits for each name, and not longer than it may" {
	owner
	start reader "$BIN/api_app" open attachall=abc:30000,ipc,late,vmm attached='*' touch="$WORK/there" await="$WORK/go" \
		attachall=de:100,ipc,never attached='*' touch="$WORK/waited" await="$WORK/end"
	until_true waiters 1
	api open alloc=l,late,1Mi touch="$WORK/late" await="$WORK/there" >/dev/null
	resume go waited
	equal "$(grep attach "$WORK/reader.out")" "attachall abc: OK
attached *: 3
attachall de: E_TIMED_OUT
attached *: 2"
	has "$(cat "$WORK/reader.err")" never
}

@test "without CUDA: mapped memory, and nothing else" {
	owner
	run -0 --separate-stderr api open attachall=ab:0:host,vmm,vmm same=a,b byte=a,5 attachall=cd:0:host,vmm,ipc \
		detach=a detach=b attached='*'
	has "$output" "attachall ab: OK"
	has "$output" "attachall cd: E_NOT_SUPPORTED"
	has "$output" "attached *: 0"
	has "$stderr" "'ipc' is cudaMalloc memory"
}

@test "answers of before the registry hung give its calls no second time limit" {
	local limit_ms=4000 begin
	PAUSE_AT=cuIpcOpenMemHandle
	owner
	export GPUSHARE_TIMEOUT_MS=$limit_ms
	# the second attach of "ipc" asks for a page; what is attached when "none" is refused is given back
	paused attachall=abc,ipc,ipc,none
	kill -STOP "$(registry_pids)"
	begin=${EPOCHREALTIME/./}
	touch "$WORK/p.go"
	wait "$PID"
	begin=$(((${EPOCHREALTIME/./} - begin) / 1000))
	kill -CONT "$(registry_pids)"
	has "$(<"$WORK/app.out")" "attachall abc: E_NOT_FOUND"
	[ "$begin" -ge $((limit_ms * 9 / 10)) ] || { echo "$begin ms: it did not wait"; false; }
	[ "$begin" -lt $((limit_ms * 3 / 2)) ] || { echo "$begin ms"; false; }
}

@test "the registry ends while the first buffer is opened: its successor has them all" {
	PAUSE_AT=cuIpcOpenMemHandle
	owner
	paused attachset=m,100 attachset=m,100 attached='m*' detachset touch="$WORK/attached" await="$WORK/end"
	kill_registry
	resume p.go attached
	equal "$(cat "$WORK/app.out")" "open: OK
attachset m: OK
attachset m: OK
attached m*: 200
detachset: OK"
	equal "$(api open attached='m*')" "open: OK
attached m*: 100"
}

@test "the registry stops while the first buffer is opened: one wait, and none stays attached" {
	local registry
	PAUSE_AT=cuIpcOpenMemHandle
	export GPUSHARE_TIMEOUT_MS=$((300 + SLACK_MS))
	owner
	paused within=$((2 * GPUSHARE_TIMEOUT_MS + 500 + SLACK_MS)) attachset=m,100 touch="$WORK/timed" await="$WORK/go" \
		stat=none attached='*' touch="$WORK/again" await="$WORK/end"
	registry=$(registry_pids)
	halt "$registry"
	resume p.go timed
	kill -CONT "$registry"
	asks_again
	resume go again
	equal "$(cat "$WORK/app.out")" "open: OK
attachset m: E_TIMED_OUT
stat none: E_NOT_FOUND
attached *: 0"
}

# owing WORD...: "reader" has executed the words up to touch="$WORK/freed" while the registry was stopped
owing() {
	local registry
	export GPUSHARE_TIMEOUT_MS=$((1000 + SLACK_MS))
	begin reader "$BIN/api_app" open "$@" touch="$WORK/tried" await="$WORK/end"
	registry=$(registry_pids)
	halt "$registry"
	resume go freed
	stays 100 runs "$PID" # its next request waits at the registry, too
	kill -CONT "$registry"
}

@test "a free that the registry has not heard of comes before the set" {
	owner
	owing alloc=a,mine,1Mi touch="$WORK/up" await="$WORK/go" stat=none free=a touch="$WORK/freed" await="$WORK/on" \
		attachall=bc,mine,m000
	asks_again
	resume on tried
	equal "$(tail -n 1 "$WORK/reader.out")" "attachall bc: E_NOT_FOUND"
}

@test "a free that the registry has not answered comes before the set" {
	owner
	owing alloc=a,mine,1Mi touch="$WORK/up" await="$WORK/go" free=a touch="$WORK/freed" attachall=bc,mine,m000
	await_file "$WORK/tried"
	equal "$(tail -n 1 "$WORK/reader.out")" "attachall bc: E_NOT_FOUND"
}

@test "parts that the registry does not know to be freed make room for parts of the same names" {
	owing make=a,w1,2Mi,vmm make=b,w2,2Mi,vmm parts=a,p1,p2 touch="$WORK/up" await="$WORK/go" stat=none free=a \
		touch="$WORK/freed" await="$WORK/on" parts=b,p1,p2
	asks_again
	resume on tried
	equal "$(tail -n 1 "$WORK/reader.out")" "parts b: OK"
	equal "$(names | grep '^p')" "p1 1
p2 1"
}

@test "names behind one that it waited for are those of after the wait" {
	local words=(alloc=i,old-ipc,1Mi make=v,old-vmm,2Mi,vmm) before
	up before "$BIN/api_app" open "${words[@]}" fill=v,3
	before=$PID
	start reader "$BIN/api_app" open attachall=abc:30000,late,old-ipc,old-vmm byte=c,5 attached='*' touch="$WORK/read" \
		await="$WORK/end"
	until_true waiters 1
	kill_now "$before"
	up after "$BIN/api_app" open "${words[@]}" fill=v,7 alloc=l,late,1Mi
	await_file "$WORK/read"
	equal "$(cat "$WORK/reader.out")" "open: OK
attachall abc: OK
$(api open attach=c,old-vmm byte=c,5 | tail -n 1)
attached *: 3"
}

@test "a forked child can't use the session, and the parent goes on" {
	owner
	run -0 --separate-stderr api open attachset=m,40 child=fork,2 attachset=m,40 _exit=0 attachset=m,40 detachset
	has "$output" "attachset m: E_FORKED"
	equal "$(grep -c 'attachset m: OK' <<<"$output")" 2
}
