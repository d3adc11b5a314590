#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry that is absent, dies or misbehaves. The API and the tools return a clear status within the deadline. A
# preloaded program sees no difference.
load helpers

setup_more() {
	export GPUSHARE_TIMEOUT_MS=$((400 + SLACK_MS))
	LIMIT_MS=$((GPUSHARE_TIMEOUT_MS + 300 + SLACK_MS)) # less than waiting twice
}

# Pids of the fake registries that clients have started.
fake_pids() {
	grep -lsaP "tool_fake_registry\x00\Q$GPUSHARE_DIR\E\x00" /proc/[0-9]*/cmdline | cut -d / -f 3
}

teardown_more() {
	local pid
	for pid in $(fake_pids); do
		kill -KILL "$pid" 2>/dev/null || true
	done
}

fake() {
	start fake "$BIN/tool_fake_registry" "$GPUSHARE_DIR" "$1"
	await_file "$GPUSHARE_DIR/ready"
}

# misbehaves HOW STATUS...: opening a session returns one of STATUS in time, with one line on stderr. Tools fail
# cleanly, and a preloaded program runs as usual.
misbehaves() {
	local how=$1
	shift
	fake "$how"
	GPUSHARE_AUTOSTART=0 run -0 --separate-stderr api within=$LIMIT_MS open
	case " $* " in
	*" ${output#open: } "*) ;;
	*) equal "$output" "open: $*" ;;
	esac
	equal "$(lines "$stderr")" 1
	has "$stderr" "$GPUSHARE_DIR"
	if [ "$how" = dies ]; then return; fi
	untouched weights "$BIN/rt_app_static" init within=$LIMIT_MS alloc=a,1Mi fill=a,3 \
		byte=a,1 free=a exit=5
	[ "$(lines "$stderr")" -le 1 ]
	run -1 --separate-stderr gpushare-attach weights -o "$WORK/dump"
	[ ! -e "$WORK/dump" ]
	equal "$(lines "$stderr")" 1
}

@test "accepts and says nothing" {
	misbehaves silent E_TIMED_OUT
}

@test "greets and says nothing" {
	misbehaves mute E_TIMED_OUT
}

@test "noise for a greeting" {
	misbehaves noise E_PROTOCOL
}

@test "noise for an answer" {
	misbehaves garbage E_PROTOCOL
}

@test "an answer of 2^40 bytes" {
	misbehaves oversize E_PROTOCOL
}

@test "an answer to another question" {
	misbehaves wrongid E_PROTOCOL E_TIMED_OUT
}

@test "an answer that comes a byte at a time, for ever" {
	misbehaves drip E_TIMED_OUT E_PROTOCOL
}

@test "dies in the middle of a call" {
	misbehaves dies E_NO_REGISTRY
}

@test "closes each connection: it is not asked for ever" {
	misbehaves closes E_NO_REGISTRY
}

# dying COUNT: the first COUNT registries that a client starts die at their first request; then comes one that works
dying() {
	cat >"$WORK/dying" <<-SCRIPT
		#!/bin/sh
		echo >>"$WORK/starts"
		[ "\$(wc -l <"$WORK/starts")" -le $1 ] || exec "$BUILD/gpushare-registry" "\$@"
		rm -f "$GPUSHARE_DIR"/*
		exec "$BIN/tool_fake_registry" "$GPUSHARE_DIR" dies
	SCRIPT
	chmod +x "$WORK/dying"
	export GPUSHARE_REGISTRY=$WORK/dying GPUSHARE_TIMEOUT_MS=15000
}

@test "registries that die one after the other under a call: the one after them answers it" {
	[ -z "${EMULATOR:-}" ] || skip "an emulator refuses autostart's clone()"
	dying 10
	equal "$(api within=15000 open alloc=a,w,64Ki list)" "open: OK
alloc w: OK
w 65536"
	# A registry that meets the one before, while that is still dying, leaves it the directory.
	[ "$(wc -l <"$WORK/starts")" -ge 11 ]
	[ "$(wc -l <"$WORK/starts")" -le 21 ]
}

@test "a call that ends each registry is given up, with pauses between them" {
	[ -z "${EMULATOR:-}" ] || skip "an emulator refuses autostart's clone()"
	dying 1000
	equal "$(api within=15000 open)" "open: E_NO_REGISTRY"
	[ "$(wc -l <"$WORK/starts")" -le 22 ]
	[ "$(wc -l <"$WORK/starts")" -ge 15 ]
	rm "$WORK/starts"
	GPUSHARE_TIMEOUT_MS=300 run -0 --separate-stderr api within=$((900 + SLACK_MS)) open
	has "$output" "open: E_"
	[ "$(lines "$output")" = 1 ]
}

@test "a time limit that is no number from 1 to 3600000 is one of a second" {
	local value pids=()
	start_registry
	kill -STOP "$(registry_pids)"
	for value in 0 3600001 12x -1 99999999999999999999 300; do
		start "limit$value" env GPUSHARE_TIMEOUT_MS="$value" "$BIN/api_app" open
		pids+=("$PID")
	done
	for PID in "${pids[@]}"; do
		finish "$PID"
	done
	equal "$(cat "$WORK"/limit*.err | grep -o '([0-9]* ms)' | sort | uniq -c | xargs)" "5 (1000 ms) 1 (300 ms)"
	kill -CONT "$(registry_pids)"
}

@test "dies in the middle of a call of a preloaded program" {
	export GPUSHARE_AUTOSTART=0
	expected=$("$BIN/rt_app_static" init alloc=a,1Mi fill=a,3 byte=a,1 free=a)
	fake dies
	equal "$(named weights "$BIN/rt_app_static" init within=$LIMIT_MS alloc=a,1Mi fill=a,3 \
		byte=a,1 free=a 2>/dev/null)" "$expected"
}

@test "ten named buffers and a registry that hangs: the program waits once, not ten times" {
	fake mute
	allocations=()
	for slot in a b c d e f g h i j; do allocations+=("alloc=$slot,64Ki"); done
	begin=$(date +%s%N)
	named 'w%i' "$BIN/rt_app_static" init "${allocations[@]}" >"$WORK/out" 2>/dev/null
	took_ms=$((($(date +%s%N) - begin) / 1000000))
	begin=$(date +%s%N)
	"$BIN/rt_app_static" init "${allocations[@]}" >"$WORK/plain" </dev/null
	plain_ms=$((($(date +%s%N) - begin) / 1000000))
	cmp "$WORK/out" "$WORK/plain"
	[ "$took_ms" -le $((plain_ms + LIMIT_MS + 500)) ] || { echo "$took_ms ms"; false; }
}

@test "out of sight after a chroot: mapped allocations wait for it once, not each time" {
	[ "$(id -u)" = 0 ] || skip "only root may chroot"
	[ -z "${SANITIZE:-}" ] || skip "instruments want /proc"
	mkdir "$WORK/root"
	start_registry
	took_ms named 'w%i:vmm' "$BIN/drv_linked" init alloc=a,2Mi chroot="$WORK/root" hoard=1,60,2Mi >"$WORK/out" 2>"$WORK/err"
	equal "$(cat "$WORK/out" "$WORK/err")" $'init: 0\nalloc a: 0\nhoard: 0 failed'
	[ "$TOOK_MS" -lt 3000 ] || { echo "$TOOK_MS ms"; false; }
}

@test "absent, and none to be started: the program runs on" {
	export GPUSHARE_AUTOSTART=0
	untouched weights "$BIN/rt_app_static" init within=$LIMIT_MS alloc=a,1Mi fill=a,3 \
		byte=a,1 free=a exit=5
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "absent because its program is missing: one line, and the program runs on" {
	mkdir "$WORK/alone"
	cp "$SHIM" "$WORK/alone/"
	plain=$("$BIN/rt_app_static" init alloc=a,1Mi free=a)
	run -0 --separate-stderr env PATH=/usr/bin:/bin \
		LD_PRELOAD="${PRELOAD%"$SHIM"}$WORK/alone/${SHIM##*/}" GPUSHARE_NAME=w \
		"$BIN/rt_app_static" init within=$LIMIT_MS alloc=a,1Mi free=a
	equal "$output" "$plain"
	[ "$(lines "$stderr")" -le 1 ]
}

# witness: a program that tells in $WORK/said how it was started as a registry
witness() {
	mkdir "$WORK/good" "$WORK/unreadable"
	cat >"$WORK/good/gpushare-registry" <<-SCRIPT
		#!/bin/sh
		{ echo "\$*"; pwd; env; for fd in /proc/\$\$/fd/*; do echo "fd \${fd##*/}"; done
		while read -r line; do case \$line in SigBlk:*|SigIgn:*) echo "\$line" ;; esac; done
		} </proc/\$\$/status >"$WORK/said.new"
		mv "$WORK/said.new" "$WORK/said"
	SCRIPT
	chmod +x "$WORK/good/gpushare-registry"
	touch "$WORK/unreadable/gpushare-registry" # not executable
	mkdir "$WORK/alone" # a library without a registry beside it
	cp "$BUILD/libgpushare.so.0" "$WORK/alone/"
}

@test "a registry is found on the PATH, and started with nothing of the program's" {
	[ -z "${EMULATOR:-}" ] || skip "an emulator refuses autostart's clone()"
	witness
	long=$(printf 'x%.0s' {1..4096})
	run -0 --separate-stderr env PATH=":$long::$WORK/none:$WORK/unreadable:$WORK/good:$PATH" GPUSHARE_REGISTRY= LD_AUDIT= \
		LD_LIBRARY_PATH="$WORK/alone:$LD_LIBRARY_PATH" "$BIN/api_app" open 200</dev/null
	equal "$output" "open: E_NO_REGISTRY"
	await_file "$WORK/said"
	equal "$(head -n 2 "$WORK/said")" "--dir $GPUSHARE_DIR --idle-exit 60 --orphan
/"
	grep -qx 'GPUSHARE_REGISTRY=' "$WORK/said"
	grep -qx 'SigBlk:.0*' "$WORK/said"
	grep -qx 'SigIgn:.0*' "$WORK/said"
	run -1 grep -E '^(LD_PRELOAD=|LD_AUDIT=|fd 200)' "$WORK/said"
}

@test "a registry that can't be started: what it is and why, at once" {
	[ -z "${EMULATOR:-}" ] || skip "an emulator refuses autostart's clone()"
	witness
	mkdir "$WORK/bad"
	printf '\177ELF, but no more of it' >"$WORK/bad/gpushare-registry"
	chmod +x "$WORK/bad/gpushare-registry"
	while read -r path registry words; do
		run -0 --separate-stderr env PATH="${path/%-/}" ${registry:+GPUSHARE_REGISTRY="${registry/%-/}"} \
			LD_LIBRARY_PATH="$WORK/alone:$LD_LIBRARY_PATH" "$BIN/api_app" within=$LIMIT_MS open
		equal "$output" "open: E_NO_REGISTRY"
		has "$stderr" "$words"
	done <<-TABLE
		- - gpushare-registry was not found
		$WORK/good $WORK/none not in \$GPUSHARE_REGISTRY
		$WORK/bad - /bad/gpushare-registry can't be started: Exec format error
		$WORK/good $WORK/bad /bad can't be started: Permission denied
	TABLE
	[ ! -e "$WORK/said" ]
}

@test "killed between two calls: the next one starts another" {
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/killed" \
		alloc=b,2Mi fill=b,3 byte=b,1 touch="$WORK/again" await="$WORK/end" free=a free=b exit=5
	first=$(registry_pids)
	kill -KILL "$first"
	resume killed again
	has "$(names)" "w1 2097152"
	touch "$WORK/end"
	ends_with 5 app
	equal "$(cat "$WORK/app.out")" "init: 0
alloc a: 0
alloc b: 0
fill b: 0
byte b: 10
free a: 0
free b: 0"
}

@test "killed between two calls of the API: a status, then a session that works" {
	begin app "$BIN/api_app" open alloc=a,one,1Mi touch="$WORK/up" await="$WORK/killed" \
		within=$LIMIT_MS stat=none free=a close open alloc=b,two,1Mi list free=b close
	kill -KILL "$(registry_pids)"
	touch "$WORK/killed"
	finish app
	equal "$(grep -v '^stat\|^free a' "$WORK/app.out")" "open: OK
alloc one: OK
close: OK
open: OK
alloc two: OK
two 1048576
free b: OK
close: OK"
	grep -qx 'stat none: \(E_NO_REGISTRY\|E_NOT_FOUND\)' "$WORK/app.out"
}

@test "stopped, not dead: the API times out, the program runs on" {
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" \
		await="$WORK/stopped" within=$LIMIT_MS alloc=b,1Mi free=a free=b exit=5
	registry=$(registry_pids)
	halt "$registry"
	equal "$(api within=$LIMIT_MS open)" "open: E_TIMED_OUT"
	touch "$WORK/stopped"
	ends_with 5 app
	equal "$(cat "$WORK/app.out")" "init: 0
alloc a: 0
alloc b: 0
free a: 0
free b: 0"
}

@test "a socket left by a dead registry is no obstacle" {
	fake silent
	kill -KILL "$PID"
	finish "$PID" || true
	[ -e "$GPUSHARE_DIR/registry.sock" ]
	rm "$GPUSHARE_DIR/ready"
	export GPUSHARE_TIMEOUT_MS=3000
	equal "$(api open alloc=a,w,1Mi list)" "open: OK
alloc w: OK
w 1048576"
}
