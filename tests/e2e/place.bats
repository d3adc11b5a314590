#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The registry's directory is removed or recreated while the registry runs. No registry stays that clients can't find,
# and none harms its successor.
load helpers

# serve TAG: start a registry; PID is its pid
serve() {
	start "$1" gpushare-registry --dir "$GPUSHARE_DIR" --foreground --idle-exit 60
	until_true grep -qs serving "$WORK/$1.err"
}

# ends_soon PID: the process ends within 2 s, long before the idle timeout of a minute
ends_soon() {
	took_ms until_true has_ended "$1"
	[ "$TOOK_MS" -le $((2000 + SLACK_MS)) ] || { echo "$TOOK_MS ms"; return 1; }
}

@test "removed: an idle registry ends, and one that keeps what nobody can find any more" {
	serve idle
	rm -rf "$GPUSHARE_DIR"
	ends_soon "$PID"
	has "$(cat "$WORK/idle.err")" "was removed: leaving"
	mkdir -m 700 "$GPUSHARE_DIR"
	serve keeping
	api open make=a,kept,2Mi,keep >/dev/null
	rm -rf "$GPUSHARE_DIR"
	ends_soon "$PID"
	alone() { [ -z "$(keeper_pids)" ]; }
	until_true alone
}

@test "a file in place of the socket is kept, and no registry starts" {
	no_registry_yet
	echo mine >"$GPUSHARE_DIR/registry.sock"
	run -1 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR"
	has "$stderr" "exists and is not a socket"
	equal "$(cat "$GPUSHARE_DIR/registry.sock")" mine
}

@test "removed: a registry stays as long as somebody is connected" {
	serve first
	registry=$PID
	begin app "$BIN/api_app" open alloc=a,w,1Mi touch="$WORK/up" await="$WORK/go" stat=w touch="$WORK/asked" \
		await="$WORK/end" free=a close
	rm -rf "$GPUSHARE_DIR"
	stays 1200 runs "$registry"
	resume go asked
	has "$(cat "$WORK/app.out")" "stat w: OK"
	down
	ends_soon "$registry"
}

@test "made anew: the one before leaves the one that serves there alone" {
	serve first
	first=$PID
	up app "$BIN/api_app" open make=a,w,1Mi,vmm
	rm -rf "$GPUSHARE_DIR"
	mkdir -m 700 "$GPUSHARE_DIR"
	serve second
	second=$PID
	equal "$(names)" ""
	api open make=a,kept,1Mi,keep >/dev/null
	down app
	ends_soon "$first"
	[ -S "$GPUSHARE_DIR/registry.sock" ]
	[ -S "$GPUSHARE_DIR/fds.sock" ]
	equal "$(GPUSHARE_AUTOSTART=0 api open make=a,w,1Mi,vmm attach=b,w)" "open: OK
make w: OK
attach w: OK"
	# The first registry has not ended its successor's keeper.
	one() { [ "$(keeper_pids | wc -w)" = 1 ]; }
	until_true one
	kill_now "$second"
	equal "$(names)" "kept 1048576"
}

@test "registry.lock removed alone: who comes is told that one serves, or takes over from it" {
	serve first
	first=$PID
	up app "$BIN/api_app" open alloc=a,w,1Mi
	for _ in 1 2; do
		rm "$GPUSHARE_DIR/registry.lock"
		run -3 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR"
		equal "$stderr" "gpushare-registry: a registry (pid $first) already serves $GPUSHARE_DIR"
	done
	equal "$(names)" "w 1048576"
	stays 1200 runs "$first"
	rm "$GPUSHARE_DIR/registry.lock"
	start second gpushare-registry --dir "$GPUSHARE_DIR" --foreground --replace
	second=$PID
	finish "$first"
	until_true grep -qs serving "$WORK/second.err"
	equal "$(names)" "w 1048576"
	equal "$(registry_pids)" "$second"
}

@test "made anew while a registry waits for the lock: it takes the one that others see" {
	needs flock
	touch "$WORK/hold"
	start holder flock "$GPUSHARE_DIR/registry.lock" \
		sh -c "touch '$WORK/held'; while [ -e '$WORK/hold' ]; do sleep 0.01; done"
	await_file "$WORK/held"
	start second gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	waits() { find "/proc/$PID/fd" -lname '*/registry.lock' | grep -q .; }
	until_true waits
	rm -rf "$GPUSHARE_DIR"
	mkdir -m 700 "$GPUSHARE_DIR"
	rm "$WORK/hold"
	until_true grep -qs serving "$WORK/second.err"
	equal "$(cat "$GPUSHARE_DIR/registry.lock")" "$PID"
	run -3 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR"
}

# comes_while_stopped: start a second registry, in PID, while the first one, in $first, is stopped. The first one has
# the lock and listens but does nothing, like a killed registry whose last thread still runs.
comes_while_stopped() {
	halt "$first"
	rm -f "$WORK/second.err" # of one before
	start second gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	says_nothing() { runs "$PID" && [ ! -s "$WORK/second.err" ]; }
	stays 300 says_nothing
}

@test "killed, and not quite gone: the next one waits for that, and serves" {
	serve first
	first=$PID
	comes_while_stopped
	kill -KILL "$first"
	until_true grep -qs serving "$WORK/second.err"
}

@test "killed, its lock held on by what it was starting: the next one waits for that, and serves" {
	needs flock
	serve first
	kill_now "$PID"
	touch "$WORK/hold"
	start holder flock "$GPUSHARE_DIR/registry.lock" \
		sh -c "touch '$WORK/held'; while [ -e '$WORK/hold' ]; do sleep 0.01; done"
	await_file "$WORK/held"
	start second gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	says_nothing() { runs "$PID" && [ ! -s "$WORK/second.err" ]; }
	stays 300 says_nothing
	rm "$WORK/hold"
	until_true grep -qs serving "$WORK/second.err"
}

@test "one that is only slow has the place: who comes is told so when it answers, and after 2 s in any case" {
	serve first
	first=$PID code=0
	comes_while_stopped
	kill -CONT "$first"
	finish "$PID" || code=$?
	equal "$code $(cat "$WORK/second.err")" \
		"3 gpushare-registry: a registry (pid $first) already serves $GPUSHARE_DIR"
	comes_while_stopped
	took_ms until_true has_ended "$PID"
	[ "$TOOK_MS" -le $((2000 + SLACK_MS)) ] || { echo "$TOOK_MS ms"; false; }
	equal "$(cat "$WORK/second.err")" "gpushare-registry: a registry (pid $first) already serves $GPUSHARE_DIR"
	kill -CONT "$first"
	equal "$(names)" ""
}

@test "several clients at once start one registry, and none is left behind by it" {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
	rm -rf "$GPUSHARE_DIR"
	for i in {1..15}; do
		mkdir -m 700 "$GPUSHARE_DIR"
		for tag in a b c; do start "$tag" "$BIN/api_app" open list; done
		for app in "${STARTED[@]: -3}"; do finish "$app"; done
		equal "$(cat "$WORK"/{a,b,c}.out)" "open: OK
open: OK
open: OK"
		[ $((i % 2)) = 0 ] || kill -KILL "$(cat "$GPUSHARE_DIR/registry.lock")"
		rm -rf "$GPUSHARE_DIR"
	done
	none() { [ -z "$(registry_pids)" ]; }
	took_ms until_true none
	[ "$TOOK_MS" -le $((3000 + SLACK_MS)) ] || { echo "$TOOK_MS ms"; false; }
}

@test "a program with few descriptors starts a registry that has more, or hears why it can't" {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
	export GPUSHARE_AUTOSTART=1
	run -0 sh -c 'ulimit -Sn 12; exec "$@"' sh "$BIN/api_app" open alloc=a,one,1Mi
	has "$output" "open: OK"
	[ "$(sed -n 's/^Max open files *\([0-9]*\).*/\1/p' "/proc/$(registry_pids)/limits")" -gt 12 ]
	run --separate-stderr env GPUSHARE_DIR="$WORK/other" sh -c 'ulimit -n 20; exec "$@"' sh "$BIN/api_app" open
	has "$output$stderr" "may have only 20 file descriptors (ulimit -Hn)"
}
