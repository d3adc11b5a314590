#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a keeper does when no registry comes any more: it gets one, so that memory which nobody needs is let go of.
load helpers

# in_folder TAG COMMAND...: with a directory of its own
in_folder() {
	GPUSHARE_DIR=$WORK/$1 "${@:2}"
}

teardown_more() {
	local tag pid
	for tag in dead ttl lives off; do
		for pid in $(in_folder "$tag" registry_pids) $(in_folder "$tag" keeper_pids); do
			kill -KILL "$pid" 2>/dev/null || true
		done
	done
}

# begin TAG WORD...: a session with memory in a keeper; its pid in PID
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
	kill -KILL "$pid"
	until_true has_ended "$pid"
}

# kill_both TAG PID: the owner too
kill_both() {
	end_registry "$1"
	kill -KILL "$2"
	until_true has_ended "$2"
}

# keeps TAG: how many descriptors of others
keeps() {
	local pid
	pid=$(in_folder "$1" keeper_pids)
	[ -n "$pid" ] || pid=none
	readlink "/proc/$pid"/fd/* 2>/dev/null | grep -vc 'socket:\|/dev/null\|pidfd' || true
}

keeps_one() {
	[ "$(keeps "$1")" = 1 ]
}

left_alone() {
	[ -z "$(in_folder "$1" registry_pids)" ] && keeps_one "$1"
}

let_go() {
	[ "$(keeps "$1")" = 0 ]
}

@test "left alone it starts a registry, after ten seconds: for owners that died, for a ttl; not if told not to" {
	local -A alone
	begin dead make=a,w,2Mi,vmm
	kill_both dead "$PID"
	alone[dead]=$EPOCHSECONDS
	begin ttl make=a,w,2Mi,keep+ttl:3
	kill_both ttl "$PID"
	alone[ttl]=$EPOCHSECONDS
	begin lives make=a,w,2Mi,vmm
	end_registry lives
	alone[lives]=$EPOCHSECONDS
	GPUSHARE_AUTOSTART=0 begin off make=a,w,2Mi,vmm
	kill_both off "$PID"
	alone[off]=$EPOCHSECONDS
	before_time() { # a real driver takes its time to start
		for tag in off lives ttl dead; do
			((EPOCHSECONDS - alone[$tag] < 9)) || return 0
			left_alone "$tag" || return 1
		done
	}
	stays 6000 before_time
	for tag in dead ttl; do until_true let_go "$tag"; done
	serves() { [ -n "$(in_folder lives registry_pids)" ]; }
	until_true serves
	# nobody's child, with nothing of the keeper's but its own connection to it
	registry=$(in_folder lives registry_pids)
	equal "$(cat "/proc/$registry/comm")" gpushare-regist
	[ "$(sed -n 's/^PPid:\t//p' "/proc/$registry/status")" != "$(in_folder lives keeper_pids)" ]
	answers() { [ "$(GPUSHARE_AUTOSTART=0 in_folder lives names 2>/dev/null)" = "w 2097152" ]; }
	until_true answers # it was seen before it listened
	stays 2000 left_alone off
}

# The administrator ended it: no registry comes by itself. The owner may, and what is kept waits for anybody.
@test "--system, ended by a signal: its keeper lets go of what isn't kept with its owner, and of nothing before" {
	[ "$(id -u)" = 0 ] || skip "only root can have a folder for all users here"
	local registry owner other
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --system
	registry=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	start owner "$BIN/api_app" open make=a,w,2Mi,vmm make=b,x,2Mi,vmm make=c,y,2Mi,keep touch="$WORK/owner.up" await="$WORK/end"
	owner=$PID
	await_file "$WORK/owner.up"
	start other "$BIN/api_app" open make=d,z,2Mi,vmm touch="$WORK/other.up" await="$WORK/end"
	other=$PID
	await_file "$WORK/other.up"
	has_kept() { [ "$(keeps r)" = "$1" ]; }
	until_true has_kept 4
	kill -TERM "$registry"
	until_true has_ended "$registry"
	kill -KILL "$owner"
	until_true has_kept 2
	# what is left is as it was, for the registry that comes next
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --system
	registry=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	equal "$(names)" "y 2097152
z 2097152"
	equal "$(api open attach=a,y attach=b,z)" "open: OK
attach y: OK
attach z: OK"
	kill -TERM "$registry"
	until_true has_ended "$registry"
	kill -KILL "$other"
	until_true has_kept 1
}
