#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A keeper without a registry starts one, so that memory that no process needs is released.
load helpers

# in_folder TAG COMMAND...: run COMMAND with $WORK/TAG as the registry's directory
in_folder() {
	GPUSHARE_DIR=$WORK/$1 "${@:2}"
}

teardown_more() {
	local tag pid
	for tag in dead ttl lives off brief hangs parts; do
		for pid in $(in_folder "$tag" registry_pids) $(in_folder "$tag" keeper_pids); do
			kill -KILL "$pid" 2>/dev/null || true
		done
	done
}

# begin TAG WORD...: start a registry and a session whose memory the keeper holds; PID is the session's pid
begin() {
	mkdir -m 700 "$WORK/$1"
	in_folder "$1" start_registry
	in_folder "$1" start "$1" "$BIN/api_app" open "${@:2}" touch="$WORK/$1.up" await="$WORK/end"
	await_file "$WORK/$1.up"
	until_true keeps_one "$1"
}

end_registry() {
	local pid
	pid=$(in_folder "$1" registry_pids)
	kill_now "$pid"
}

# kill_both TAG PID: kill the registry, then the owner
kill_both() {
	end_registry "$1"
	kill_now "$2"
}

# keeps TAG: how many descriptors of clients the keeper holds
keeps() {
	local pid
	pid=$(in_folder "$1" keeper_pids)
	[ -n "$pid" ] || pid=none
	readlink "/proc/$pid"/fd/* 2>/dev/null | grep -vc 'socket:\|/dev/null\|pidfd' || true
}

keeps_one() {
	[ "$(keeps "$1")" = 1 ]
}

# The keeper has released everything and no registry serves.
let_go_alone() {
	[ -z "$(in_folder "$1" registry_pids)" ] && [ ! -e "$WORK/$1/registry.sock" ] && let_go "$1"
}

let_go() {
	[ "$(keeps "$1")" = 0 ]
}

@test "left alone it starts a registry, within seconds: for owners that died, for a ttl; if told not to, one that tidies up" {
	begin dead make=a,w,2Mi,vmm
	kill_both dead "$PID"
	begin ttl make=a,w,2Mi,keep+ttl:3
	kill_both ttl "$PID"
	begin lives make=a,w,2Mi,vmm
	end_registry lives
	GPUSHARE_AUTOSTART=0 begin off make=a,w,2Mi,vmm
	kill_both off "$PID"
	GPUSHARE_AUTOSTART=0 begin brief make=a,w,2Mi,keep+ttl:3
	kill_both brief "$PID"
	serves() { [ -n "$(in_folder lives registry_pids)" ]; }
	until_true serves
	for tag in dead ttl; do until_true let_go "$tag"; done
	# The new registry has its own process name, not the name that the keeper sets for itself.
	registry=$(in_folder lives registry_pids)
	equal "$(cat "/proc/$registry/comm")" gpushare-regist
	answers() { [ "$(GPUSHARE_AUTOSTART=0 in_folder lives names 2>/dev/null)" = "w 2097152" ]; }
	until_true answers # it was seen before it listened
	# The keeper starts a new registry after each kill, each time later.
	for _ in 1 2; do
		end_registry lives
		until_true answers
	done
	for tag in off brief; do PATIENCE_S=60 until_true let_go_alone "$tag"; done
}

@test "a registry that is started for a folder which has gone meanwhile does not make it again" {
	run -1 --separate-stderr gpushare-registry --dir "$WORK/gone" --orphan --foreground
	has "$stderr" "$WORK/gone was removed: No such file or directory"
	[ ! -e "$WORK/gone" ]
}

# sleeps PID: none of the process's threads wakes within 1.5 seconds
sleeps() {
	local before
	before=$(awk '/^voluntary/ { n += $2 } END { print n }' "/proc/$1"/task/*/status)
	sleep 1.5
	[ "$(awk '/^voluntary/ { n += $2 } END { print n }' "/proc/$1"/task/*/status)" = "$before" ]
}

@test "idle, a registry sleeps: with a client, a kept name and a keeper, whose end it sees all the same" {
	begin dead make=a,w,2Mi,keep
	registry=$(in_folder dead registry_pids) keeper=$(in_folder dead keeper_pids)
	until_true sleeps "$registry"
	kill -KILL "$keeper"
	another() { [[ $(in_folder dead keeper_pids) != @(|"$keeper") ]]; }
	until_true another
	until_true keeps_one dead
	until_true sleeps "$registry"
	rm -rf "$WORK/dead"
	kill -KILL "$PID"
	until_true has_ended "$registry" # nobody finds it any more
}

@test "registries that fail before they connect are started later and later" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented registry's calls are its instruments'"
	local owner sites=$WORK/sites first
	LD_PRELOAD="$BIN/lib_fault.so" FAULT_OF=gpushare-registry FAULT_RECORD="$sites" begin lives make=a,w,2Mi,vmm
	owner=$PID
	first=$(head -n 1 "$sites")
	end_registry lives
	start lock flock --no-fork "$WORK/lives/registry.lock" sleep 30 # as if one served, which the keeper can't see
	kill -KILL "$owner"
	: >"$sites"
	sleep 9.5
	starts=$(grep -cxF "$first" "$sites")
	[ "$starts" -ge 1 ] && [ "$starts" -le 3 ]
}

@test "the registry that it starts is an upgrade at its own place, but none that others can write" {
	local mode registry program=$WORK/bin/gpushare-registry
	mkdir "$WORK/bin"
	cp "$BUILD/gpushare-registry" "$program"
	PATH=$WORK/bin:$PATH begin lives make=a,w,2Mi,vmm
	serves() { [[ $(in_folder lives registry_pids) =~ ^[0-9]+$ ]]; }
	for mode in 777 755; do
		rm "$program"
		cp "$BUILD/gpushare-registry" "$program"
		chmod $mode "$program"
		end_registry lives
		until_true serves
		registry=$(in_folder lives registry_pids)
		case $mode in
		777) equal "$(readlink "/proc/$registry/exe")" "$program (deleted)" ;;
		755) equal "$(readlink "/proc/$registry/exe")" "$program" ;;
		esac
		stays 500 runs "$registry"
		equal "$(cat "/proc/$registry/comm")" gpushare-regist
	done
}

@test "one that has stopped is given up: the next registry serves without it, and it ends when it can" {
	needs jq
	local keeper
	begin hangs make=a,w,2Mi,vmm
	keeper=$(in_folder hangs keeper_pids)
	kill -STOP "$keeper"
	end_registry hangs
	took_ms equal "$(in_folder hangs names)" "w 2097152"
	[ "$TOOK_MS" -lt 5000 ]
	equal "$(in_folder hangs shown w missing)" true
	kill -CONT "$keeper"
	until_true has_ended "$keeper"
}

@test "one that answers late, as on a busy machine, is not given up" {
	needs jq
	begin hangs make=a,w,2Mi,vmm
	kill -STOP "$(in_folder hangs keeper_pids)"
	end_registry hangs
	start late bash -c 'sleep 1.5; kill -CONT "$1"' bash "$(in_folder hangs keeper_pids)"
	equal "$(in_folder hangs names)" "w 2097152"
	equal "$(in_folder hangs shown w missing)" false
}

@test "while a user has as many descriptors under way as the kernel allows, the next registry waits for the keeper's" {
	needs jq
	[ "$(id -u)" != 0 ] || skip "root may have any number of them under way"
	ulimit -n 256
	begin lives make=a,w,2Mi,vmm
	local under_way
	start under_way python3 -c '
import socket, time
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    while True:
        socket.send_fds(here, [b"x"], [0] * 250)
except OSError as error:
    print(error, flush=True)
time.sleep(600)'
	under_way=$PID
	until_true grep -q "Too many references" "$WORK/under_way.out"
	end_registry lives
	start names env GPUSHARE_DIR="$WORK/lives" gpushare ls
	starts() { [ -n "$(in_folder lives registry_pids)" ]; }
	until_true starts
	stays 500 starts
	kill -KILL "$under_way"
	answers() { [ "$(in_folder lives names 2>/dev/null)" = "w 2097152" ]; }
	until_true answers
	equal "$(in_folder lives shown w missing)" false
}

# The administrator ended this registry, so no other starts by itself. The memory of owners that die is released anyway.
@test "--system, ended by a signal: what dies is let go of, and the next one has the rest" {
	[ "$(id -u)" = 0 ] || skip "only root can have a folder for all users here"
	local registry owner access
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --system
	registry=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	start owner "$BIN/api_app" open make=a,w,2Mi,vmm make=c,y,2Mi,keep touch="$WORK/owner.up" await="$WORK/end"
	owner=$PID
	await_file "$WORK/owner.up"
	start other "$BIN/api_app" open make=d,z,2Mi,vmm touch="$WORK/other.up" await="$WORK/end"
	await_file "$WORK/other.up"
	has_kept() { [ "$(keeps r)" = "$1" ]; }
	until_true has_kept 3
	chmod 1750 "$GPUSHARE_DIR" # as for one group
	access=$(stat -c %a "$GPUSHARE_DIR")
	kill -TERM "$registry"
	until_true has_ended "$registry"
	kill -KILL "$owner"
	PATIENCE_S=60 until_true has_kept 2
	[ -z "$(registry_pids)" ]
	[ ! -e "$GPUSHARE_DIR/registry.sock" ]
	equal "$(stat -c %a "$GPUSHARE_DIR")" "$access"
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --system
	await_file "$GPUSHARE_DIR/registry.sock"
	has_kept 2
	equal "$(names)" "y 2097152
z 2097152"
	equal "$(api open attach=a,y attach=b,z)" "open: OK
attach y: OK
attach z: OK"
}

@test "a buffer and its parts take one descriptor, until the last of them ends, also after the registry was killed" {
	local bytes
	begin parts make=a,w,4Mi,keep fill=a,7 parts=a,p1,p2
	keeps_one parts
	bytes=$(in_folder parts gpushare get p2 -o - | sha256sum)
	end_registry parts
	in_folder parts gpushare rm w
	keeps_one parts
	end_registry parts
	equal "$(in_folder parts gpushare get p2 -o - | sha256sum)" "$bytes"
	in_folder parts gpushare rm p1
	keeps_one parts
	equal "$(in_folder parts gpushare get p2 -o - | sha256sum)" "$bytes"
	in_folder parts gpushare rm p2
	until_true let_go parts
}
