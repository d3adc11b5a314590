#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a process frees while no registry runs: the next registry drops these names at once, not only at the process's
# end.
load helpers

# session WORD...: start api_app and wait until it has touched its first file
session() {
	begin app "$BIN/api_app" open "$@"
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
	resume go freed
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
	resume go closed
	found ""
	down
}

@test "a session that has only attached is closed: the next registry knows of no attachment" {
	needs_autostart
	begin owner "$BIN/api_app" open alloc=a,one,1Mi touch="$WORK/mine" await="$WORK/end"
	begin app "$BIN/api_app" open attach=a,one touch="$WORK/up" await="$WORK/go" close touch="$WORK/closed" \
		await="$WORK/end"
	equal "$(attachers one)" 1
	kill_registry
	resume go closed
	equal "$(attachers one)" 0
	down
}

@test "freed by a preloaded program" {
	needs_autostart
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,2Mi touch="$WORK/up" await="$WORK/go" \
		free=a touch="$WORK/freed" await="$WORK/end" free=b
	kill_registry
	resume go freed
	found "w1 2097152"
	down
}

@test "nothing was left behind that could know the names: no registry is started for them" {
	needs_autostart
	session alloc=a,one,1Mi alloc=b,two,1Mi touch="$WORK/up" await="$WORK/go" free=a close touch="$WORK/closed" \
		await="$WORK/end"
	kill_registry
	rm -rf "$GPUSHARE_DIR"
	resume go closed
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
