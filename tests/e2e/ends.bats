#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Ends and signals: a program ends as without the preload, in time even without a registry, and its names are removed.
load helpers

LAST=(alloc=a,2Mi alloc=b,2Mi)

@test "return, exit, exit in a thread, _exit, quick_exit, abort: the same code or signal" {
	for program in rt_app_static rt_app_shared drv_linked; do
		program "$program"
		for end in alloc=c,64Ki exit=3 thread=exit,4 thread=_exit,5 _exit=6 quick_exit=7 \
			thread=quick_exit,8 abort thread=abort raise=9; do
			echo "$program, $end"
			alike "${PROGRAM[@]}" init "${LAST[@]}" "$end"
		done
	done
}

@test "SIGINT and SIGTERM: the default action, a handler that exits, one that _exits" {
	for program in rt_app_static drv_linked; do
		program "$program"
		for words in default=2\ raise=2 raise=15 catch=2,exit,7\ raise=2 catch=2,_exit,8\ raise=2; do
			# shellcheck disable=SC2086 # words
			alike "${PROGRAM[@]}" init "${LAST[@]}" $words
		done
	done
}

@test "frees at the very end: atexit handlers of before and after, static destructors" {
	for program in rt_app_static rt_app_shared drv_linked "drv_lookup gpa2"; do
		program "$program"
		for words in later=free,a last=free,a liblast="$BIN/lib_ending.so",free,a; do
			echo "$program, $words"
			alike "${PROGRAM[@]}" "$words" init "${LAST[@]}" exit=3
			alike "${PROGRAM[@]}" init "${LAST[@]}" "$words" exit=3
			alike "${PROGRAM[@]}" init "${LAST[@]}" "$words" thread=exit,4
			equal "$stderr" ""
		done
		alike "${PROGRAM[@]}" later=free,a init later=alloc,c,2Mi "${LAST[@]}" later=free,b \
			last=alloc,d,2Mi liblast="$BIN/lib_ending.so",free,c
		equal "$stderr" ""
	done
	# What is allocated by then is given no name.
	GPUSHARE_LOG=$WORK/log named 'w%i' "$BIN/rt_app_static" later=alloc,b,2Mi init alloc=a,1Mi last=alloc,c,2Mi
	equal "$(sed -n 's/.*"\(.*\)" is shared.*/\1/p' "$WORK/log")" w0
}

# ends_in_time SIGNAL WORD...: the registry gets SIGNAL; the program's end then takes less than a second
ends_in_time() {
	local signal=$1 registry code=0 plain=0
	shift
	rm -f "$WORK"/{up,go}
	touch "$WORK/go"
	"${PROGRAM[@]}" init "${LAST[@]}" touch="$WORK/up" await="$WORK/go" "$@" </dev/null \
		>/dev/null || plain=$?
	rm -f "$WORK"/{up,go}
	begin_named app 'w%i' "${PROGRAM[@]}" init "${LAST[@]}" touch="$WORK/up" await="$WORK/go" "$@"
	registry=$(registry_pids)
	kill "-$signal" "$registry"
	until_true "$([ "$signal" = STOP ] && echo has_stopped || echo has_ended)" "$registry"
	touch "$WORK/go"
	took_ms finish "$PID" || true
	[ "$TOOK_MS" -le $((1000 + SLACK_MS)) ] || { echo "$signal, $*: $TOOK_MS ms"; return 1; }
	wait "$PID" || code=$?
	equal "$code" "$plain"
	[ "$signal" != STOP ] || kill -KILL "$registry"
	until_true has_ended "$registry"
}

@test "an end without a word takes no longer when the registry is stopped or dead" {
	program rt_app_static
	for signal in STOP KILL; do
		for end in alloc=a,0 exit=3 thread=exit,4 _exit=6 quick_exit=7 abort; do
			ends_in_time "$signal" "$end"
		done
	done
}

@test "frees at the end wait for a stopped registry once, not once each" {
	export GPUSHARE_TIMEOUT_MS=500
	for program in rt_app_static drv_linked; do
		program "$program"
		for signal in STOP KILL; do
			ends_in_time "$signal" later=free,a later=free,b exit=3
			ends_in_time "$signal" last=free,a liblast="$BIN/lib_ending.so",free,b exit=3
			ends_in_time "$signal" free=a free=b exit=3
		done
	done
}

@test "signal mask and dispositions are the same after the first name as before" {
	for program in rt_app_static drv_linked; do
		program "$program"
		alike "${PROGRAM[@]}" signals init signals alloc=a,2Mi signals free=a signals thread=signals \
			sigchld alloc=b,2Mi signals
		equal "$stderr" ""
		[ -e "$GPUSHARE_DIR/registry.sock" ]
	done
}

# fresh_registry RULES PROGRAM...: like untouched, and the program has to start a registry
fresh_registry() {
	equal "$(registry_pids)" ""
	untouched "$@"
	equal "$stderr" ""
	[ -n "$(registry_pids)" ]
}

@test "the registry's start: no SIGCHLD, nobody to wait for, no read interrupted" {
	fresh_registry weights "$BIN/rt_app_static" sigchld reading init alloc=a,1Mi children free=a children \
		wasread children
}

@test "the registry's start in a thread, and with SIGCHLD ignored or blocked" {
	fresh_registry weights "$BIN/rt_app_static" ignore=17 init thread=alloc,a,1Mi children signals \
		child=fork,1 exit=3 free=a children
}

@test "a program that reaps every child it has finds only its own" {
	fresh_registry 'w%i' "$BIN/drv_linked" child=spawn,1,stays exit=3 reap init alloc=a,1Mi reap \
		child=spawn,1,stays exit=4 reap
}

@test "signals that interrupt every call lose no name and change no result" {
	for program in rt_app_static drv_linked; do
		program "$program"
		alike "${PROGRAM[@]}" init ticking=200 hoard=1,300,4Ki ticking=0 release
		equal "$stderr" ""
		begin_named app 'w%i' "${PROGRAM[@]}" init ticking=200 hoard=1,300,4Ki ticking=0 \
			touch="$WORK/up" await="$WORK/free" ticking=200 release ticking=0 \
			touch="$WORK/freed" await="$WORK/end"
		equal "$(lines "$(names)")" 300
		resume free freed
		equal "$(names)" ""
		down
		rm -f "$WORK"/{up,free,freed,end}
	done
}

@test "an interrupt from the keyboard ends the program, not the registry" {
	needs setsid
	begin app env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=weights setsid "$BIN/rt_app_static" default=2 init \
		alloc=a,1Mi touch="$WORK/up" await="$WORK/never"
	registry=$(registry_pids)
	kill -INT -- "-$PID"
	ends_with 130 "$PID"
	until_true nothing_named
	equal "$(registry_pids)" "$registry"
}
