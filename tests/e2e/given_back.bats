#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a process frees while no registry runs: the next registry drops these names at once, not only at the process's
# end.
load helpers

# session WORD...: start api_app and wait until it has touched "up"
session() {
	start app "$BIN/api_app" open "$@"
	await_file "$WORK/up"
}

no_start() {
	needs_autostart
	export GPUSHARE_AUTOSTART=0
	start_registry
}

needs_autostart() {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
}

# found NAMES: the registry has exactly NAMES; if none runs, this starts one
found() {
	GPUSHARE_AUTOSTART=1 equal "$(GPUSHARE_AUTOSTART=1 names)" "$1"
}

@test "freed by a session: nothing else is asked" {
	needs_autostart
	session alloc=a,one,1Mi make=b,two,1Mi,vmm alloc=c,stays,1Mi touch="$WORK/up" await="$WORK/go" \
		free=a free=b touch="$WORK/freed" await="$WORK/end" close
	kill_registry
	touch "$WORK/go"
	await_file "$WORK/freed"
	found "stays 1048576"
	down
	has "$(cat "$WORK/app.out")" "free a: OK
free b: OK"
}

@test "a session is closed: its names go with it, in one deadline" {
	needs_autostart
	session alloc=a,one,1Mi make=b,two,1Mi,vmm alloc=c,three,1Mi touch="$WORK/up" await="$WORK/go" \
		within=$((1000 + SLACK_MS)) close touch="$WORK/closed" await="$WORK/end"
	kill_registry
	touch "$WORK/go"
	await_file "$WORK/closed"
	found ""
	down
}

@test "freed by a preloaded program" {
	needs_autostart
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,2Mi touch="$WORK/up" await="$WORK/go" \
		free=a touch="$WORK/freed" await="$WORK/end" free=b
	kill_registry
	touch "$WORK/go"
	await_file "$WORK/freed"
	found "w1 2097152"
	down
}

@test "no registry may be started: the next connection of that process tells of it" {
	no_start
	session alloc=a,one,1Mi touch="$WORK/up" await="$WORK/go" close open touch="$WORK/closed" await="$WORK/on" \
		open alloc=b,two,1Mi touch="$WORK/opened" await="$WORK/end" free=b close
	kill_registry
	touch "$WORK/go"
	await_file "$WORK/closed"
	rm -f "$GPUSHARE_DIR"/{registry,fds}.sock
	start_registry
	found "one 1048576" # nobody could know
	touch "$WORK/on"
	await_file "$WORK/opened"
	found "two 1048576"
	run -1 --separate-stderr gpushare-attach one
	has "$stderr" "withdr"
	down
	has "$(cat "$WORK/app.out")" "close: OK
open: E_NO_REGISTRY
open: OK"
}

@test "nothing was left behind that could know the names: no registry is started for them" {
	needs_autostart
	session alloc=a,one,1Mi alloc=b,two,1Mi touch="$WORK/up" await="$WORK/go" free=a close touch="$WORK/closed" \
		await="$WORK/end"
	kill_registry
	rm -rf "$GPUSHARE_DIR"
	touch "$WORK/go"
	await_file "$WORK/closed"
	[ ! -e "$GPUSHARE_DIR" ]
	equal "$(registry_pids)" ""
	down
	mkdir -m 700 "$GPUSHARE_DIR"
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up2" await="$WORK/go2" free=a
	kill_registry
	rm -rf "$GPUSHARE_DIR"
	touch "$WORK/go2"
	finish "$PID"
	[ ! -e "$GPUSHARE_DIR" ]
}
