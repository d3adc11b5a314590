#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# While one user floods a registry for all users, another one's look-ups are answered. Needs root, who becomes them.
load helpers

FLOODER=65534
LOOKS=1000
P50_US=20000 P90_US=100000 LOCK_US=20000

setup_more() {
	[ "$(id -u)" = 0 ] || skip "only root becomes other users"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${SANITIZE:-}${EMULATOR:-}" ] || skip "instruments and emulators have other times"
	ulimit -Sn "$(ulimit -Hn)"
	[ "$(ulimit -n)" -ge 16384 ] || skip "a process may have too few descriptors here"
	chmod 755 "$WORK"
}

is_open() {
	[ "$(stat -c %a "$1" 2>/dev/null)" = 666 ]
}

# serve NAME: a registry for all users in $WORK/NAME, with a name that its look-ups find. It logs nothing: the log is
# written under the lock, and the disk has its own times.
serve() {
	mkdir "$WORK/$1"
	start "$1" env LD_PRELOAD="$BIN/lib_holds.so" LIB_HOLDS="$WORK/$1.holds" gpushare-registry --dir "$WORK/$1" --system
	until_true is_open "$WORK/$1/registry.sock"
	start "$1.owner" env GPUSHARE_DIR="$WORK/$1" "$BIN/api_app" open alloc=m,mine,4096 touch="$WORK/$1.up" await="$WORK/end"
	await_file "$WORK/$1.up"
}

# The flood has begun, or its program has ended, which is told after the look-ups.
begun_or_ended() {
	grep -qs begun "$WORK/flood.out" || ! kill -0 "$PID" 2>/dev/null
}

# fair WAY: look-ups at the flooded registry are slower than those at an idle one by less than P50_US for half of them and
# P90_US for nine of ten, and none fails. What happens once in many look-ups shows in the CPU time that a thread spent with
# the lock: that time is the same on a loaded machine. Nothing is reopened under load: the socket stays the same file, and
# the look-ups have one connection from begin to end.
fair() {
	local looks held socket p50 p90 idle50 idle90 failed connections
	serve flooded
	serve idle
	socket=$(stat -c "%i %z" "$WORK/flooded/registry.sock")
	start flood "$BIN/fair_peer" "$1" $FLOODER "$WORK/flooded"
	PATIENCE=60 until_true begun_or_ended
	looks=$("$BIN/fair_peer" look mine "$LOOKS" "$WORK/flooded" "$WORK/idle")
	read -r _ held <"$WORK/flooded.holds"
	echo "# said: $1: $looks, lock held for $held us of CPU" >&3
	kill -0 "$PID" || { cat "$WORK/flood.err"; return 1; }
	read -r _ p50 p90 _ idle50 idle90 _ failed _ connections <<<"$looks"
	equal "$failed, $connections" "0, 1"
	[ $((p50 - idle50)) -lt $P50_US ]
	[ $((p90 - idle90)) -lt $P90_US ]
	[ "$held" -lt $LOCK_US ]
	equal "$(stat -c "%i %z" "$WORK/flooded/registry.sock")" "$socket"
}

@test "10,000 connections that say nothing slow down no other user" {
	fair half
}

@test "look-ups of missing names slow down no other user" {
	fair failing
}

@test "lists of everything slow down no other user" {
	fair listing
}

@test "descriptors whose close lingers slow down no other user" {
	fair lingering
}

@test "100,000 names that go at once slow down no other user" {
	fair releasing
}

@test "100,000 unlinked buffers that go at once slow down no other user" {
	fair unlinking
}

@test "1,000 connections that ask and never read slow down no other user" {
	fair unread
}
