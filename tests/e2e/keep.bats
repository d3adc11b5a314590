#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Buffers that outlive their owners, that readers can't change, and that keep their address.
load helpers

# owner WORDS...: start api_app; it carries out WORDS and waits until it is ended
owner() {
	up owner "$BIN/api_app" open "$@"
	OWNER=$PID
}

# kill_owner NAME: kill the owner and wait until the registry has noticed
kill_owner() {
	kill -KILL "$OWNER"
	until_true owner_gone "$1"
}

@test "killed: name and contents stay, for every reader, until rm" {
	owner make=a,weights,3Mi,keep fill=a,7
	before=$(names)
	kill_owner weights
	equal "$(names)" "$before"
	gpushare-attach weights -o "$WORK/one"
	api open attach=b,weights save=b,"$WORK/two" put=b,5,200 >/dev/null
	cmp "$WORK/one" "$WORK/two"
	equal "$(stat -c %s "$WORK/one")" 3145728
	equal "$(api open attach=b,weights byte=b,4 byte=b,5)" "open: OK
attach weights: OK
byte b: 35
byte b: 200"
	gpushare rm weights
	equal "$(names)" ""
	run -1 --separate-stderr gpushare-attach weights
	has "$stderr" "unlinked"
}

@test "freed, closed, exited: it stays all the same, and its descriptor goes with rm" {
	api open alloc=x,ipc,1Mi touch="$WORK/started" >/dev/null
	owner alloc=x,first,1Mi
	before=$(registry_fds)
	api open make=a,freed,2Mi,keep fill=a,7 free=a what=freed >"$WORK/out"
	equal "$(tail -n 1 "$WORK/out")" "what freed: flags 1 ttl 0 owner gone"
	api open make=a,closed,2Mi,keep fill=a,8 close >/dev/null
	api open make=a,exited,2Mi,keep fill=a,9 exit=3 >/dev/null || true
	equal "$(lines "$(names)")" 4
	equal "$(api open attach=a,freed attach=b,closed attach=c,exited byte=a,4 byte=b,4 byte=c,4 | grep byte)" \
		"byte a: 35
byte b: 36
byte c: 37"
	for name in freed closed exited; do gpushare rm $name; done
	until_true fds_are $((before + 1))
	equal "$(names)" "first 1048576"
}

@test "who is attached keeps the memory when rm takes the name" {
	owner make=a,w,2Mi,keep fill=a,7
	begin reader "$BIN/api_app" open attach=b,w touch="$WORK/attached" await="$WORK/removed" byte=b,4 detach=b
	kill_owner w
	gpushare rm w
	touch "$WORK/removed"
	finish "$PID"
	equal "$(tail -n 2 "$WORK/reader.out")" "byte b: 35
detach b: OK"
}

@test "a ttl runs from the owner's end, and the registry leaves after it, not before" {
	owner make=a,w,2Mi,keep+ttl:2
	registry=$(registry_pids)
	kill -KILL "$registry" "$OWNER" # for one that leaves soon
	until_true has_ended "$registry"
	rm -f "$GPUSHARE_DIR"/*.sock
	start registry gpushare-registry --foreground --idle-exit 1 --dir "$GPUSHARE_DIR"
	registry=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	owner make=a,w,2Mi,keep+ttl:4
	stays 3000 names_are "w 2097152" # with its owner it has all the time
	kill_owner w
	equal "$(names)" "w 2097152"
	has "$(gpushare stat w)" "kept:        for "
	stays 1500 runs "$registry" # though nobody is connected
	equal "$(names)" "w 2097152"
	until_true nothing_named
	run -1 --separate-stderr gpushare-attach w
	has "$stderr" "ttl"
	until_true has_ended "$registry"
	has "$(cat "$WORK/registry.err")" "idle: leaving"
}

@test "a ttl that began while there was no registry goes on over the next ones" {
	needs jq
	owner make=a,w,2Mi,keep+ttl:100
	registry=$(registry_pids)
	kill -KILL "$registry" "$OWNER"
	until_true has_ended "$registry"
	until_true is_over "$OWNER"
	first=$(shown w ttl_left_s)
	for _ in 1 2; do
		sleep 2
		kill_registry
	done
	[ "$(shown w ttl_left_s)" -le $((first - 3)) ]
}

@test "as long as anything is kept its registry and keeper stay, one starting the other; with the last of it they go" {
	no_registry_yet
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --idle-exit 1
	registry=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	api open make=a,one,2Mi,keep fill=a,7 make=b,two,2Mi,keep >/dev/null
	keeper=$(keeper_pids)
	both_run() { runs "$registry" && runs "$keeper"; }
	stays 2500 both_run
	gpushare rm one
	stays 2500 both_run
	equal "$(registry_pids) $(keeper_pids)" "$registry $keeper"
	kill -KILL "$keeper"
	another() { # not the one that only starts it
		next=$(keeper_pids)
		[[ $next =~ ^[0-9]+$ ]] && [ "$next" != "$keeper" ] && stays 200 runs "$next"
	}
	until_true another
	keeper=$next
	gpushare rm two
	until_true has_ended "$registry"
	until_true has_ended "$keeper"
	equal "$(registry_pids)$(keeper_pids)" ""
	[ ! -e "$GPUSHARE_DIR/registry.state" ]
}

@test "a restarted producer replaces it as a new generation; a living one's name is taken" {
	needs jq
	owner make=a,w,2Mi,keep fill=a,7
	run -0 --separate-stderr api open make=b,w,2Mi,keep
	equal "$output" "open: OK
make w: E_EXISTS"
	first=$(shown w generation)
	begin reader "$BIN/api_app" open attach=b,w touch="$WORK/attached" await="$WORK/replaced" byte=b,4 \
		attach=c,w byte=c,4 detach=b detach=c
	kill_owner w
	owner make=a,w,4Mi,keep fill=a,50
	[ "$(shown w generation)" -gt "$first" ]
	equal "$(names)" "w 4194304"
	equal "$(shown w attachers)" 0
	touch "$WORK/replaced"
	finish reader
	equal "$(tail -n 5 "$WORK/reader.out")" "byte b: 35
attach w: OK
byte c: 78
detach b: OK
detach c: OK"
}

@test "adopted: the old memory, contents, generation and address, writable again" {
	needs jq
	owner make=a,w,3Mi,keep+readonly fill=a,7 put=a,3000000,200 link=a
	generation=$(shown w generation)
	kill_owner w
	equal "$(api open make=a,w,3Mi,keep+adopt byte=a,3000000 put=a,3000000,9 what=w walk=a free=a what=w)" "open: OK
make w: OK
adopted
byte a: 200
put a: OK
what w: flags 1 ttl 0 owner alive
walk a: 4950
free a: OK
what w: flags 1 ttl 0 owner gone"
	equal "$(shown w generation)" "$generation"
	# A different size makes a different buffer.
	equal "$(api open make=a,w,2Mi,keep+adopt byte=a,5)" "open: OK
make w: OK
byte a: 0"
	[ "$(shown w generation)" -gt "$generation" ]
	# If no such buffer exists, adopt makes it.
	equal "$(api open make=a,new,2Mi,keep+adopt)" "open: OK
make new: OK"
	# If its owner lives, adopt fails.
	owner make=a,mine,2Mi,keep
	run -0 --separate-stderr api open make=a,mine,2Mi,keep+adopt
	equal "$output" "open: OK
make mine: E_EXISTS"
	has "$stderr" "taken by pid $OWNER"
}

@test "an adoption that fails leaves it kept for the next" {
	needs_sim
	owner make=a,w,2Mi,keep fill=a,7
	kill_owner w
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuMemMap:1:1:2 "$BIN/api_app" open make=a,w,2Mi,keep+adopt what=w
	equal "$output" "open: OK
make w: E_NO_MEMORY
what w: flags 1 ttl 0 owner gone"
	equal "$(api open make=a,w,2Mi,keep+adopt byte=a,4)" "open: OK
make w: OK
adopted
byte a: 35"
}

@test "read-only: reads for all, writes for the owner alone" {
	owner make=a,w,3Mi,readonly fill=a,7 put=a,5,200
	run -0 --separate-stderr api open attach=b,w byte=b,4 byte=b,5 put=b,5,1 byte=b,5
	equal "$output" "open: OK
attach w: OK
read-only
byte b: 35
byte b: 200
put b: E_READ_ONLY
byte b: 200"
	has "$stderr" "'w' is read-only here: its owner"
	begin other "$BIN/api_app" open make=o,x,3Mi,vmm touch="$WORK/x" await="$WORK/go"
	run -0 --separate-stderr api open attach=b,x,0,r put=b,5,1
	has "$stderr" "'x' is read-only here: it was attached with read_only"
	touch "$WORK/go"
	finish "$PID"
	echo new >"$WORK/new"
	run -1 --separate-stderr gpushare-attach w --into "$WORK/new"
	has "$stderr" "read-only"
	has "$stderr" "nothing was written"
	equal "$(gpushare-attach w | wc -c)" 3145728
	equal "$(api open make=a,v,2Mi,readonly attach=b,v put=b,0,5 byte=a,0 what=v)" "open: OK
make v: OK
attach v: OK
put b: OK
byte a: 5
what v: flags 2 ttl 0 owner alive"
	kill -KILL "$OWNER"
	equal "$(api open gone="$OWNER",w,1000)" "open: OK
gone w: E_NOT_FOUND"
}

@test "read-only: refused before any CUDA call" {
	needs_sim
	owner make=a,w,2Mi,readonly
	GPUSHARE_SIM_LOG=$WORK/log api open attach=b,w put=b,5,1 detach=b 2>/dev/null >"$WORK/out"
	has "$(cat "$WORK/out")" "put b: E_READ_ONLY"
	run -1 grep -E 'cuMemcpy|cuMemset|cuStreamCreate' "$WORK/log"
	# cuMemSetAccess makes the mapping read-only: the driver refuses writes that bypass this library.
	has "$(grep -c cuMemSetAccess "$WORK/log")" 1
}

# Give every process the same addresses by default, as a real driver does.
alike_addresses() {
	export GPUSHARE_SIM_SLOT=7
}

@test "a linked structure with device pointers in it, at its address in another process" {
	alike_addresses
	owner raw=p,2Mi raw=q,2Mi,vmm make=a,w,1Mi,keep link=a walk=a
	equal "$(tail -n 1 "$WORK/owner.out")" "walk a: 4950"
	equal "$(api open raw=p,2Mi raw=q,2Mi,vmm attach=b,w,0,same walk=b attach=c,w,0,same same=b,c)" "open: OK
attach w: OK
walk b: 4950
attach w: OK
same: yes"
	kill_owner w
	equal "$(api open raw=p,4Mi,vmm attach=b,w,0,same walk=b)" "open: OK
attach w: OK
walk b: 4950"
	equal "$(api open attach=b,w,0,prefer walk=b)" "open: OK
attach w: OK
walk b: 4950"
}

@test "a linked structure of an unmodified program: others follow it, and so does who adopts it" {
	alike_addresses
	for program in rt_app_static drv_linked; do
		up_named owner w:nth=2:keep "$BIN/$program" init alloc=x,4Mi alloc=a,1Mi link=a walk=a
		equal "$(tail -n 1 "$WORK/owner.out")" "walk a: 4950"
		equal "$(api open raw=p,2Mi raw=q,2Mi,vmm attach=b,w,0,same walk=b)" "open: OK
attach w: OK
walk b: 4950"
		kill -KILL "$PID"
		until_true owner_gone w
		equal "$(named w:nth=2:keep:adopt "$BIN/$program" init alloc=x,2Mi alloc=a,1Mi walk=a)" "init: 0
alloc x: 0
alloc a: 0
walk a: 4950"
	done
}

@test "the owner's address is taken: E_ADDRESS_TAKEN, and nothing stays attached" {
	needs jq
	owner make=a,w,2Mi,vmm raw=p,2Mi alloc=i,ipc,2Mi
	run -0 --separate-stderr api open attach=b,w attach=c,w,0,same stat=w
	equal "$output" "open: OK
attach w: OK
attach w: E_ADDRESS_TAKEN
stat w: OK
size 2097152 offset 0 base 2097152 attachers 1 mine 0 uid 1"
	has "$stderr" "already attached here"
	run -0 --separate-stderr api open make=a,v,2Mi,vmm attach=b,v,0,same attach=b,v,0,prefer put=b,3,4 byte=a,3 stat=v
	equal "$output" "open: OK
make v: OK
attach v: E_ADDRESS_TAKEN
attach v: OK
put b: OK
byte a: 4
stat v: OK
size 2097152 offset 0 base 2097152 attachers 1 mine 1 uid 1"
	has "$stderr" "which is taken here"
	run -0 --separate-stderr api open attach=b,ipc,0,same attach=b,ipc,0,prefer
	equal "$output" "open: OK
attach ipc: E_NOT_SUPPORTED
attach ipc: OK"
	has "$stderr" "cudaMalloc memory"
	equal "$(shown w attachers)$(shown ipc attachers)" 00
}

@test "what makes no sense is E_INVALID and leaves nothing" {
	run -0 --separate-stderr api open make=a,w,2Mi,ttl:3 make=a,w,2Mi,adopt make=a,w,2Mi,strange \
		make=a,w,2Mi,readonly+ttl:3 make=a,w,0,keep list
	equal "$output" "open: OK
make w: E_INVALID
make w: E_INVALID
make w: E_INVALID
make w: E_INVALID
make w: E_INVALID"
	has "$stderr" "'w': ttl_s needs GPUSHARE_FLAG_KEEP"
	has "$stderr" "unknown flags 0x40"
}

@test "the registry keeps so much and no more, and says what to do" {
	run -2 --separate-stderr gpushare-registry --keep-limit much --dir "$GPUSHARE_DIR"
	has "$stderr" "keep-limit"
	start registry gpushare-registry --keep-limit 6Mi --dir "$GPUSHARE_DIR"
	await_file "$GPUSHARE_DIR/registry.sock"
	run -0 --separate-stderr api open make=a,a,3Mi,keep make=b,b,1,keep make=c,c,1,keep make=d,d,8Mi,vmm
	equal "$output" "open: OK
make a: OK
make b: OK
make c: E_LIMIT
make d: OK"
	has "$stderr" "this user keeps 6291456"
	has "$stderr" "may keep 6291456 ("
	has "$stderr" "gpushare rm"
	gpushare rm a
	has "$(api open make=c,c,1,keep)" "make c: OK"
}

@test "ls, stat and JSON tell what is kept, read-only, without an owner, and for how long" {
	needs jq
	owner make=a,ro,2Mi,readonly make=b,kept,2Mi,keep make=c,both,2Mi,keep+readonly+ttl:90 alloc=d,plain,2Mi
	run -0 gpushare ls
	[[ ${lines[0]} == *"  STATE" ]]
	[[ ${lines[1]} == both*"  read-only,kept,ttl=1m30s" ]]
	[[ ${lines[2]} == kept*"  kept" ]]
	[[ ${lines[4]} == ro*"  read-only" ]]
	kill_owner kept
	run -0 gpushare ls
	equal "${#lines[@]}" 3
	[[ ${lines[1]} =~ ^both.*\ api_app\[$OWNER\].*\ \ read-only,kept,owner-gone,left=1m[0-9]+s$ ]]
	[[ ${lines[2]} == kept*"  kept,owner-gone" ]]
	equal "$(gpushare ls --json | jq -c '.[] | [.name, .keep, .readonly, .owner_alive, .ttl_s, .ttl_left_s > 0, .owner_pid]')" \
		"[\"both\",true,true,false,90,true,$OWNER]
[\"kept\",true,false,false,0,false,$OWNER]"
	has "$(gpushare stat both)" "read-only:   yes, except for its owner"
	has "$(gpushare stat both)" ", which has freed it or ended"
	has "$(gpushare stat kept)" "kept:        until 'gpushare rm kept'"
}

@test "killed at any moment: no stale name, no lost buffer, no descriptor left" {
	owner alloc=x,there,2Mi
	before=$(registry_fds)
	for ms in 0 5 10 15 20 25 30 40 50 60 80 100; do
		start victim "$BIN/api_app" open make=a,w,8Mi,keep fill=a,7 touch="$WORK/filled" put=a,1,1 free=a \
			make=a,v,8Mi,keep+adopt fill=a,9 free=a make=b,u,2Mi,readonly alloc=c,t,2Mi await="$WORK/end"
		sleep "0.$(printf %03d $ms)"
		kill -KILL "$PID"
		wait "$PID" 2>/dev/null || true
		settled() { run api open what=w what=v stat=u stat=t && [[ $output != *alive* && $output != *"stat u: OK"* &&
			$output != *"stat t: OK"* ]]; }
		until_true settled
		if [ -e "$WORK/filled" ]; then
			equal "$(api open attach=b,w byte=b,4 | tail -n 1)" "byte b: 35"
			rm "$WORK/filled"
		fi
		gpushare rm w 2>/dev/null || true
	done
	gpushare rm v 2>/dev/null || true
	equal "$(names)" "there 2097152"
	until_true fds_are $((before + 1))
}

# dies_at SITE#NTH: start a registry that dies at that call while a new buffer replaces a kept one. The next registry
# must have the old buffer or the new one. With an empty first argument, it does not die.
dies_at() {
	env LD_PRELOAD="$BIN/lib_fault.so" FAULT_OF=gpushare-registry FAULT_HIT="$WORK/hit" "${@:2}" ${1:+FAULT_AT="$1=die"} \
		gpushare-registry --dir "$GPUSHARE_DIR" </dev/null >/dev/null 2>"$WORK/registry.err" 3>&- 8>&- &
	STARTED+=($!)
	disown
	await_file "$GPUSHARE_DIR/registry.sock"
	api open make=a,w,1Mi,keep >/dev/null
	until_true owner_has_gone
	[ -n "$1" ] || cp "$WORK/sites" "$WORK/before"
	GPUSHARE_AUTOSTART=0 api open make=b,w,1Mi,keep >/dev/null 2>&1 || true
}

owner_has_gone() {
	[ "$(gpushare ls --json | jq -r '.[].owner_alive')" = false ]
}

@test "a registry that is killed while it replaces what is kept has the one or the other" {
	local sites site first last nth died=0
	needs_sim
	[ -z "${EMULATOR:-}${SANITIZE:-}${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented registry's calls are its instruments'"
	dies_at "" FAULT_RECORD="$WORK/sites"
	sites=$(grep '^pwrite@' "$WORK/sites" | sort -u) # registry.state is written there
	for site in $sites; do
		first=$(grep -cxF "$site" "$WORK/before" || true) last=$(grep -cxF "$site" "$WORK/sites")
		for ((nth = first + 1; nth <= last; nth++)); do
			kill -KILL $(registry_pids) $(keeper_pids) 2>/dev/null || true
			rm -rf "$GPUSHARE_DIR" "$WORK/hit"
			mkdir -m 700 "$GPUSHARE_DIR"
			dies_at "$site#$nth"
			[ -e "$WORK/hit" ] || continue # it wrote less often this time
			has "$(api open attach=c,w)" "attach w: OK"
			died=$((died + 1))
		done
	done
	[ "$died" -ge 3 ]
}

@test "staged: other processes see nothing of the name before it is committed, also over a restart" {
	sees_nothing() {
		equal "$(api open stat=x attach=b,x make=c,x,1Mi,keep unlink=x list 2>"$WORK/err")" "open: OK
stat x: E_NOT_FOUND
attach x: E_NOT_FOUND
make x: E_EXISTS
unlink x: E_NOT_FOUND"
		equal "$(grep -c "no buffer is named" "$WORK/err")" 3
	}
	owner make=a,x,1Mi,keep+staged what=x list touch="$WORK/up" await="$WORK/go" fill=a,7 tag=x,dtype,u8 commit=a commit=a \
		what=x touch="$WORK/committed"
	sees_nothing
	kill_registry
	[ -z "${EMULATOR:-}" ] || start_registry
	sees_nothing
	start other "$BIN/api_app" open attach=b,x,20000 byte=b,5 what=x commit=b await="$WORK/committed" unlink=x
	until_true waiters 1
	touch "$WORK/go"
	finish "$PID"
	equal "$(<"$WORK/other.out")" "open: OK
attach x: OK
byte b: 42
what x: flags 1 ttl 0 owner alive
commit b: E_INVALID
unlink x: OK"
	equal "$(sed 1,2d "$WORK/owner.out")" "what x: flags 17 ttl 0 owner alive
x 1048576
fill a: OK
tag x: OK
commit a: OK
commit a: OK
what x: flags 1 ttl 0 owner alive"
}

@test "staged: committed after the registry forgot it; what makes no sense" {
	begin app "$BIN/api_app" open make=a,x,1Mi,keep+staged touch="$WORK/made" await="$WORK/go" commit=a what=x unlink=x \
		make=b,x,1Mi,keep+staged+adopt commit=z alloc=c,y,1Mi commit=c
	run -0 --separate-stderr api open make=a,x,1Mi,keep
	has "$stderr" "is taken by"
	end_registry
	[ -z "${EMULATOR:-}" ] || start_registry
	touch "$WORK/go"
	finish app
	equal "$(sed 1,2d "$WORK/app.out")" "commit a: OK
what x: flags 1 ttl 0 owner alive
unlink x: OK
make x: E_INVALID
commit z: E_INVALID
alloc y: OK
commit c: OK"
}

@test "each call of the driver that fails while a buffer is made: said, and nothing is left of it" {
	needs_sim
	while read -r fault wanted; do
		run -0 --separate-stderr env GPUSHARE_SIM_FAIL="$fault" "$BIN/api_app" open context make=a,x,1Mi,vmm free=a mark \
			make=a,w,3Mi,keep stat=w marked make=a,w,3Mi,keep make=b,w,3Mi,keep
		equal "$(sed 1,3d <<<"$output")" "make w: $wanted
stat w: E_NOT_FOUND
more than at the mark: 0 fds, 0 mappings, 0 bytes
make w: OK
make w: E_EXISTS"
		has "$stderr" "w"
		gpushare rm w
	done <<-TABLE
		cuMemCreate:2:1:2 E_NO_MEMORY
		cuMemAddressReserve:2:2:801 E_NOT_SUPPORTED
		cuMemMap:2:1:1 E_CUDA
		cuMemSetAccess:2:1:1 E_CUDA
		cuMemExportToShareableHandle:2:1:999 E_CUDA
	TABLE
}

# lose: kill the registry and its keeper, which have all descriptors. The next registry knows the names.
lose() {
	kill_registries
	[ -z "${EMULATOR:-}" ] || start_registry
}

# having WORDS...: start api_app, which attaches w in slot b and waits for $WORK/go before it carries out WORDS
having() {
	rm -f "$WORK"/{has,go,told}
	begin having "$BIN/api_app" open attach=b,w touch="$WORK/has" await="$WORK/go" "$@" touch="$WORK/told" await="$WORK/end"
	HAVING=$PID
}

@test "lost, and its owner has gone: who has it attached brings it back; nobody adopts it before, but may replace it" {
	owner make=a,w,2Mi,keep fill=a,7
	having list
	kill_owner w
	lose
	resume go told
	equal "$(api open what=w attach=b,w byte=b,4)" "open: OK
what w: flags 1 ttl 0 owner gone
attach w: OK
byte b: 35"
	lose
	run -0 --separate-stderr api open attach=b,w make=a,w,2Mi,keep+adopt byte=a,4 attach=b,w
	equal "$output" "open: OK
attach w: E_NOT_FOUND
make w: OK
byte a: 0
attach w: OK"
}

@test "lost, and nobody has it any more, or its name was removed before: it does not come back" {
	owner make=a,w,2Mi,keep
	having detach=b
	kill_now "$OWNER"
	lose
	resume go told
	run -0 --separate-stderr api open stat=w attach=b,w
	equal "$output" "open: OK
stat w: E_NOT_FOUND
attach w: E_NOT_FOUND"
	has "$stderr" "had it; it was lost with the registry"
	finish_having
	owner make=a,w,2Mi,keep
	having list
	gpushare rm w
	lose
	resume go told
	equal "$(names)" ""
	finish_having
}

finish_having() {
	down "$HAVING"
}
