# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # names of the tests that load it
# What the tests of restarted registries share.

setup_more() {
	export GPUSHARE_AUTOSTART=0
	LIMIT_MS=$((${GPUSHARE_TIMEOUT_MS:-1000} + 300 + SLACK_MS))
	[ -n "${EMULATOR:-}" ] || start_registry
}

teardown_more() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 20 "$WORK/registry.err"
}

# end_registry: by SIGKILL, and nothing is left but what its clients have
end_registry() {
	local pid
	for pid in $(registry_pids) $(keeper_pids); do
		kill -KILL "$pid"
		until_true is_over "$pid"
	done
	rm -f "$GPUSHARE_DIR"/*
}

# replace_registry: by SIGKILL, and its successor finds what it wrote
replace_registry() {
	local registry
	registry=$(registry_pids)
	kill -KILL "$registry"
	until_true is_over "$registry"
	rm -f "$GPUSHARE_DIR"/{registry,fds}.sock
	start_registry
}

restart_registry() {
	end_registry
	start_registry
}

# app RULES WORDS...: a program that says when it is up and goes on when told to; its pid in APP
app() {
	GPUSHARE_LOG=$WORK/log begin_named app "$1" "$BIN/rt_app_static" init "${@:2}"
	APP=$PID
}

go() {
	touch "$WORK/go"
}

# ends CODE: and with the output that it has without us
app_ends() {
	local code=0 plain plain_code=0
	finish "$APP" || code=$?
	plain=$("$BIN/rt_app_static" init "${@}" </dev/null) || plain_code=$?
	equal "$(cat "$WORK/app.out")" "$plain"
	equal "$code" "$plain_code"
}
