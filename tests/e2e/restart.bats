#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry that is killed or ended, and its successor: the buffers of living owners are there although the owners do
# nothing. The buffers of dead owners are not.
load helpers

# owner NAME RULES WORD...: start an unmodified program that carries out the words and then waits
owner() {
	rm -f "$WORK/$1.up"
	begin_named "$1" "$2" "$BIN/rt_app_static" init "${@:3}" touch="$WORK/$1.up" await="$WORK/end"
}

@test "killed: an ipc buffer of a living program is attached at once, though that does nothing" {
	needs jq
	owner one weights alloc=a,2Mi fill=a,7
	generation=$(shown weights generation)
	for _ in 1 2 3; do
		kill_registry
		equal "$(attaching weights "$BIN/rt_app_static" init alloc=a,2Mi byte=a,4 | tail -n 1)" \
			"byte a: 35"
		equal "$(shown weights generation)" "$generation"
		equal "$(names)" "weights 2097152"
		run ! named weights "$BIN/rt_app_static" init alloc=a,1Mi must=none
	done
	# The new registry still notices the end of the owner.
	kill_now "$PID"
	until_true nothing_named
	run -1 --separate-stderr gpushare-attach weights
	has "$stderr" "exited"
}

@test "killed: hundreds of names, all there; a generation is never given again" {
	needs jq
	up_named many 'w%i' "$BIN/drv_linked" init hoard=2,200,4Ki
	before=$(gpushare ls --json | jq -S '[.. | objects | select(.generation?) | {name, generation}]')
	kill_registry
	equal "$(gpushare ls --json | jq -S '[.. | objects | select(.generation?) | {name, generation}]')" "$before"
	owner fresh fresh alloc=a,1Mi
	[ "$(shown fresh generation)" -gt "$(jq '[.[].generation] | max' <<<"$before")" ]
}

@test "an owner that dies while there is no registry: its names are gone, and who had them" {
	owner one lost alloc=a,1Mi
	first=$PID
	owner two stays alloc=a,1Mi
	kill_registry
	kill_now "$first"
	until_true names_are "stays 1048576" # a process with a GPU takes its time to end
	run -1 --separate-stderr gpushare-attach lost
	has "$stderr" "\"lost\" is gone: pid $first (rt_app_static) exited"
}

@test "attachers stay counted, and one that dies meanwhile is not" {
	owner one weights alloc=a,2Mi fill=a,7
	for tag in a b; do
		begin "$tag" env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights "$BIN/rt_app_static" init \
			alloc=a,2Mi touch="$WORK/$tag.up" await="$WORK/end"
	done
	equal "$(attachers weights)" 2
	kill_registry
	equal "$(attachers weights)" 2
	kill_registry
	kill_now "$PID"
	until_true attachers_are weights 1
	kill_now "${STARTED[1]}"
	until_true attachers_are weights 0
}

@test "the last change was cut: all before it is there" {
	owner one first alloc=a,1Mi
	owner two second alloc=a,1Mi
	kill_registry
	truncate -s -3 "$GPUSHARE_DIR/registry.state"
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	until_true grep -q serving "$WORK/registry.err"
	equal "$(names)" "first 1048576"
	has "$(cat "$WORK/registry.err")" "damaged record"
}

@test "ended by a signal: what is shared stays for the next one, and nothing where nothing is" {
	owner one weights alloc=a,2Mi fill=a,7
	registry=$(registry_pids)
	kill -HUP "$registry"
	kill -PIPE "$registry"
	equal "$(names)" "weights 2097152"
	equal "$(registry_pids)" "$registry" # those two end nothing
	for signal in TERM INT; do
		kill_registry "$signal"
		[ ! -e "$GPUSHARE_DIR/registry.sock" ]
		[ -s "$GPUSHARE_DIR/registry.state" ]
		equal "$(names)" "weights 2097152"
	done
	kill_now "$PID"
	until_true nothing_named
	kill_registry TERM
	[ ! -e "$GPUSHARE_DIR/registry.state" ]
}

@test "left when idle: no file; not while a program of before lives" {
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --idle-exit 60
	await_file "$GPUSHARE_DIR/registry.sock"
	owner one weights alloc=a,1Mi
	program=$PID
	kill_registry
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --foreground --idle-exit 1
	registry=$PID
	stays 2000 runs "$registry" || { cat "$WORK/registry.err"; false; }
	equal "$(names)" "weights 1048576"
	kill_now "$program"
	until_true has_ended "$registry"
	has "$(cat "$WORK/registry.err")" "idle: leaving"
	[ ! -e "$GPUSHARE_DIR/registry.state" ]
}

@test "the file can't be written: said once, and everything else goes on" {
	no_registry_yet
	mkdir "$GPUSHARE_DIR/registry.state"
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	await_file "$GPUSHARE_DIR/registry.sock"
	owner one a alloc=a,1Mi
	owner two b alloc=a,1Mi
	equal "$(names)" "a 1048576
b 1048576"
	equal "$(grep -c "can't write registry.state" "$WORK/registry.err")" 1
	kill_registry
	equal "$(names)" "" # and a new one serves
	rmdir "$GPUSHARE_DIR/registry.state"
}

@test "the disk is full: no part of the file is left, and all of it is there again once there is room" {
	needs prlimit
	no_registry_yet
	(trap '' XFSZ && exec gpushare-registry --dir "$GPUSHARE_DIR" </dev/null >/dev/null 2>&1 3>&- 8>&-) &
	STARTED+=($!)
	await_file "$GPUSHARE_DIR/registry.sock"
	prlimit --pid "$(registry_pids)" --fsize=1024:unlimited
	for name in a b c d; do owner "$name" "$name" alloc=a,1Mi; done
	[ ! -e "$GPUSHARE_DIR/registry.state" ]
	prlimit --pid "$(registry_pids)" --fsize=unlimited:unlimited
	is_written() { names >/dev/null && [ -s "$GPUSHARE_DIR/registry.state" ]; }
	PATIENCE_S=45 until_true is_written
	kill_registry
	equal "$(names)" "$(printf '%s 1048576\n' a b c d)"
}

@test "a link, a pipe or noise in its place is not followed, waited for or believed" {
	no_registry_yet
	echo mine >"$WORK/precious"
	ln -s "$WORK/precious" "$GPUSHARE_DIR/registry.state"
	owner one a alloc=a,1Mi
	equal "$(names)" "a 1048576"
	equal "$(cat "$WORK/precious")" mine
	[ ! -L "$GPUSHARE_DIR/registry.state" ]
	cp "$GPUSHARE_DIR/registry.state" "$WORK/state"
	kill_registry
	# Nor does the registry read through a symbolic link.
	ln -sf "$WORK/state" "$GPUSHARE_DIR/registry.state"
	equal "$(names)" ""
	kill_registry
	rm -f "$GPUSHARE_DIR/registry.state"
	mkfifo "$GPUSHARE_DIR/registry.state"
	took_ms equal "$(names)" ""
	[ "$TOOK_MS" -lt 5000 ]
	kill_registry
	head -c 100000 /dev/urandom >"$GPUSHARE_DIR/registry.state"
	equal "$(names)" ""
}

@test "what is kept without an owner, and what a living one has by descriptor, is there with its contents" {
	api open make=a,kept,2Mi,keep fill=a,7 >/dev/null
	up one "$BIN/api_app" open make=b,own,2Mi,readonly fill=b,9
	for signal in KILL TERM KILL; do
		kill_registry "$signal"
		equal "$(api open attach=a,kept byte=a,4 attach=b,own byte=b,4 | grep byte)" "byte a: 35
byte b: 37"
	done
	kill_now "$PID"
	until_true names_are "kept 2097152"
	gpushare rm kept
	kill_registry
	equal "$(names)" ""
}

@test "exec while there is no registry: what the program before it shared has gone" {
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/go" \
		become=4 init touch="$WORK/again" await="$WORK/end" exit=0
	kill_registry
	resume go again
	equal "$(names)" ""
	kill -0 "$PID"
}

@test "killed with its keeper: what nobody has brought back so far is listed as missing" {
	needs jq
	begin_named one 'w:keep,v' "$BIN/rt_app_static" init alloc=a,2Mi fill=a,7 touch="$WORK/up" await="$WORK/go" \
		alloc=b,1Mi touch="$WORK/again" await="$WORK/end"
	owner=$PID
	equal "$(shown w missing)" false
	kill_registries
	equal "$(names)" "w 2097152"
	equal "$(shown w missing)" true
	has "$(gpushare ls)" "missing,kept"
	has "$(gpushare stat w)" "missing:     it can't be attached"
	run -1 --separate-stderr gpushare-attach w
	has "$stderr" "nobody has brought its memory back"
	run --separate-stderr api open make=a,w,2Mi,keep make=a,w,2Mi,keep+adopt attach=a,w,500
	equal "$output" "open: OK
make w: E_EXISTS
make w: E_EXISTS
attach w: E_TIMED_OUT" # its owner lives
	has "${stderr_lines[-1]}" "nobody has brought its memory back yet"
	start waiter "$BIN/api_app" open attach=a,w,20000 byte=a,4
	until_true waiters 1
	resume go again
	finish waiter
	has "$(cat "$WORK/waiter.out")" "byte a: 35"
	equal "$(shown w missing)" false
	kill_registries
	equal "$(names | sort)" $'v 1048576\nw 2097152'
	equal "$(shown w missing)" true
	start watch gpushare watch
	until_true grep -qs watching "$WORK/watch.err"
	kill_now "$owner" # who alone could have brought it back
	told() { [ "$(awk '$3 == "w" { print $2, $3 }' "$WORK/watch.out")" = $'owner-gone w\nremove w' ]; }
	until_true told
}

@test "registry.state that was deleted is there again, with names and attachments" {
	needs jq
	owner one first alloc=a,2Mi
	begin attacher "$BIN/api_app" open attach=a,first touch="$WORK/attached" await="$WORK/end"
	attacher=$PID
	rm "$GPUSHARE_DIR/registry.state"
	until_true test -s "$GPUSHARE_DIR/registry.state"
	owner two second alloc=a,2Mi
	kill -STOP "$attacher" # else it could tell itself
	kill_registry
	equal "$(names | sort)" $'first 2097152\nsecond 2097152'
	equal "$(attachers first)" 1
	kill -CONT "$attacher"
}
