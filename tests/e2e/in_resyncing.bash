# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # names of the tests that load it
# Shared by the tests of restarted registries.

setup_more() {
	export GPUSHARE_AUTOSTART=0
	LIMIT_MS=$((${GPUSHARE_TIMEOUT_MS:-1000} + 300 + SLACK_MS))
	[ -n "${EMULATOR:-}" ] || start_registry
}

teardown_more() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 20 "$WORK/registry.err"
}

# replace_registry: kill the registry and start a successor, which finds the files of the first one
replace_registry() {
	local registry
	registry=$(registry_pids)
	kill_now "$registry"
	rm -f "$GPUSHARE_DIR"/{registry,fds}.sock
	start_registry
}

# app RULES WORDS...: start a program that touches a file when it is up and then waits for `go`; APP is its pid
app() {
	GPUSHARE_LOG=$WORK/log begin_named app "$1" "$BIN/rt_app_static" init "${@:2}"
	APP=$PID
}

go() {
	touch "$WORK/go"
}

# app_ends WORD...: wait for the program's end; its output and exit code equal those of WORD... without the preload
app_ends() {
	local code=0 plain plain_code=0
	finish "$APP" || code=$?
	plain=$("$BIN/rt_app_static" init "${@}" </dev/null) || plain_code=$?
	equal "$(cat "$WORK/app.out")" "$plain"
	equal "$code" "$plain_code"
}

# detached_when_on: let the program go on. w is attached until its stream goes on, too.
detached_when_on() {
	resume go listed
	equal "$(attachers w)" 1
	resume on gone
	none() { [ "$(attachers w)" = 0 ]; }
	until_true none
}
