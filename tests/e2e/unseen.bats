#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the preload must not change: output, exit codes, errno, children, descriptors and look-ups.
load helpers

@test "unnamed: no thread, no descriptor, no connection, no registry" {
	no_registry_yet
	script=(init alloc=a,1Mi census fill=a,5 byte=a,3 free=a census exit=6)
	for program in rt_app_static rt_app_shared drv_linked; do
		expected=$("$BIN/$program" "${script[@]}" </dev/null) || true
		run -6 --separate-stderr env LD_PRELOAD="$PRELOAD" "$BIN/$program" "${script[@]}"
		equal "$output" "$expected"
		equal "$stderr" ""
	done
	equal "$(ls -A "$GPUSHARE_DIR")" ""
	equal "$(registry_pids)" ""
}

@test "no rule matches: no thread, no descriptor, no connection, no registry" {
	no_registry_yet
	untouched w:size=512Mi "$BIN/rt_app_static" init alloc=a,1Mi census free=a census
	equal "$stderr" ""
	equal "$(ls -A "$GPUSHARE_DIR")" ""
	equal "$(registry_pids)" ""
}

@test "a named program has no more threads than without, and two sockets more" {
	plain=$("$BIN/rt_app_static" init alloc=a,1Mi census)
	with=$(named weights "$BIN/rt_app_static" init alloc=a,1Mi census)
	equal "$(grep -o '[0-9]* threads' <<<"$with")" "$(grep -o '[0-9]* threads' <<<"$plain")"
	before=$(sed -n 's/.* \([0-9]*\) unix.*/\1/p' <<<"$plain")
	equal "$(sed -n 's/.* \([0-9]*\) unix.*/\1/p' <<<"$with")" $((before + 2))
}

@test "who collects the program's orphans does not wait long for the started registry" {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user refuses autostart's clone()"
	took_ms env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=weights "$BIN/tool_reaper" "$BIN/rt_app_static" \
		init alloc=a,1Mi free=a
	[ "$TOOK_MS" -lt $((5000 + 2 * SLACK_MS)) ]
	equal "$(registry_pids)" ""
}

@test "the started registry holds none of the program's descriptors" {
	exec 7>"$WORK/held"
	start_named app weights "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/end"
	exec 7>&-
	await_file "$WORK/up"
	registry=$(registry_pids)
	equal "$(lines "$registry")" 1
	held=$(find "/proc/$registry/fd" -lname "$WORK/held")
	equal "$held" ""
	held=$(find "/proc/$registry/fd" -lname "$WORK/app.*")
	equal "$held" ""
}

@test "errno is as the driver left it" {
	for program in rt_app_static drv_linked; do
		untouched 'w%i' "$BIN/$program" errno init alloc=a,1Mi alloc=b,2Mi free=a free=b
		equal "$stderr" ""
	done
}

@test "dlerror keeps what was pending" {
	for program in rt_app_static drv_linked; do
		untouched 'w%i' "$BIN/$program" init pend=no_such_symbol_at_all alloc=a,1Mi dlerror \
			pend=no_such_symbol_at_all free=a dlerror
		equal "$stderr" ""
	done
	[ -e "$GPUSHARE_DIR/registry.sock" ]
}

@test "a child that lives on does not keep its dead parent's names" {
	begin_named app weights "$BIN/rt_app_static" init alloc=a,1Mi forkhold="$WORK/child" \
		touch="$WORK/up" await=/nonexistent/never
	app=$PID
	child=$(cat "$WORK/child")
	STARTED+=("$child")
	begin gone "$BIN/api_app" open stat=weights touch="$WORK/watching" \
		gone="$app,weights,$((100 + SLACK_MS))"
	kill -KILL "$app"
	finish "$PID"
	equal "$(tail -n 1 "$WORK/gone.out")" "gone weights: E_NOT_FOUND"
	kill -0 "$child"
}

@test "a program that closes our socket runs on, and names its next buffer" {
	untouched 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi sockets=close alloc=b,2Mi fill=b,3 byte=b,1 \
		free=a free=b exit=5
	up_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi sockets=close alloc=b,2Mi
	has "$(names)" "w1 2097152"
}

@test "a program that puts its own file where our socket was finds nothing in it" {
	untouched 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi "sockets=steal,$WORK/stolen" alloc=b,2Mi \
		fill=b,3 byte=b,1 free=a free=b exit=5
	equal "$(stat -c %s "$WORK/stolen")" 0
	up_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi "sockets=steal,$WORK/stolen" \
		alloc=b,2Mi
	has "$(names)" "w1 2097152"
	equal "$(stat -c %s "$WORK/stolen")" 0
	# The program's file is still open: the shim has not closed it.
	[ -n "$(find "/proc/$PID/fd" -lname "$WORK/stolen")" ]
}

# sockets_of_driver BELOW: print "sockets below BELOW: N", where N counts the driver's own sockets below descriptor
# BELOW
sockets_of_driver() {
	"$BIN/rt_app_static" init alloc=a,1Mi "sockets=steal,$WORK/stolen,$1" </dev/null | grep '^sockets below'
}

@test "a program that takes descriptors by number leaves the registry's connection alone" {
	bare=$(sockets_of_driver 256)
	up_named app w "$BIN/rt_app_static" init alloc=a,1Mi "sockets=steal,$WORK/stolen,256"
	has "$(cat "$WORK/app.out")" "$bare"
	equal "$(names)" "w 1048576"
	begin user "$BIN/api_app" open alloc=b,mine,1Mi "sockets=steal,$WORK/stolen,256" touch="$WORK/asked" await="$WORK/end"
	has "$(cat "$WORK/user.out")" "$bare"
	has "$(names)" "mine 1048576"
}

@test "where so many descriptors are not allowed the connection has a lower one" {
	start_registry
	run -0 bash -c 'ulimit -n 64; "$@"' - env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=w "$BIN/rt_app_static" init alloc=a,1Mi sockets=steal,"$WORK/stolen",64
	bare=$(sockets_of_driver 64)
	has "$output" "sockets below 64: $((${bare##* } + 2))"
}

@test "a program that closes every descriptor ends as it would have" {
	untouched weights "$BIN/rt_app_static" init alloc=a,1Mi closefrom=3 exit=9
	equal "$stderr" ""
}

@test "no CUDA at all: the preload is silent and starts nothing" {
	[ -z "${EMULATOR:-}" ] || skip "sh and cat are not of the preload's machine under $EMULATOR"
	run -0 --separate-stderr named weights sh -c 'echo hi; cat /dev/null; true'
	equal "$output" hi
	equal "$stderr" ""
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "standard descriptors that the program has closed are not taken for the registry's socket" {
	# shellcheck disable=SC2016 # for the inner one
	up_named app weights bash -c 'exec "$@" <&- >&- 2>&-' bash "$BIN/drv_linked" init alloc=a,2Mi
	equal "$(names)" "weights 2097152"
	for fd in 0 1 2; do
		[[ $(readlink "/proc/$PID/fd/$fd") != socket:* ]]
	done
}
