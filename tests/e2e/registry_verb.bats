#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare registry start, stop, status, log. A unit of systemd: units.bats.
load helpers

setup_more() {
	no_registry_yet
}

verb() {
	run "-$1" --separate-stderr gpushare registry "${@:2}"
}

# One that was not started by a program: its log is $WORK/log.
by_hand() {
	start hand sh -c "exec gpushare-registry --dir $GPUSHARE_DIR --foreground 2>$WORK/log"
	until_true listens
}

@test "none runs: status says so with 3, stop has nothing to do, log nothing to show; none is started" {
	needs jq
	verb 3 status
	equal "$output" "state:       not running
directory:   $GPUSHARE_DIR"
	verb 3 status --json
	equal "$(jq -c . <<<"$output")" "{\"running\":false,\"directory\":\"$GPUSHARE_DIR\"}"
	verb 0 stop
	equal "$output" "not running: no registry serves $GPUSHARE_DIR"
	verb 1 log
	has "$stderr" "no registry serves $GPUSHARE_DIR"
	equal "$(registry_pids)" ""
	ln -s fds.sock "$GPUSHARE_DIR/fds.sock"
	for word in start stop status log; do
		verb 1 "$word"
		equal "$output" ""
		equal "$stderr" "gpushare: the registry of $GPUSHARE_DIR can't be reached: Too many levels of symbolic links"
	done
}

@test "start starts one, as a program would, whatever GPUSHARE_AUTOSTART is; once" {
	[ -z "${EMULATOR:-}" ] || skip "an emulated program can't start one"
	GPUSHARE_AUTOSTART=0 verb 0 start
	pid=$(registry_pids)
	has "$output" "started: pid $pid serves $GPUSHARE_DIR; it exits after 60 s without use"
	verb 0 start
	has "$output" "already running: pid $pid serves $GPUSHARE_DIR, started by a program"
	equal "$(registry_pids)" "$pid"
	GPUSHARE_REGISTRY=/nonexistent verb 1 start --dir "$WORK/other"
	has "$stderr" "gpushare-registry was not found"
	verb 1 start --dir /run/gpushare/system
	has "$stderr" "the directory of a systemd unit: start it with 'systemctl start gpushare-registry'"
}

@test "status: who serves, since when, started by whom, and what it has" {
	needs jq
	by_hand
	up api "$BIN/api_app" open alloc=a,w,64Ki alloc=b,v,64Ki
	verb 0 status
	[[ ${lines[0]} =~ ^state:\ +running$ ]]
	[[ ${lines[1]} =~ ^directory:\ +$GPUSHARE_DIR$ ]]
	[[ ${lines[2]} =~ ^pid:\ +$(registry_pids),\ uid\ $(id -u)$ ]]
	[[ ${lines[3]} =~ ^started\ by:\ +hand$ ]]
	[[ ${lines[4]} =~ ^log:\ +$WORK/log$ ]]
	[[ ${lines[5]} =~ ^since:\ +20[0-9-]+\ [0-9:]+\ .*\ \([0-9]+s\ ago\)$ ]]
	[[ ${lines[6]} =~ ^version:\ +[0-9.]+$ ]]
	[[ ${lines[7]} =~ ^names:\ +2$ ]]
	verb 0 status --json
	equal "$(jq -c '[.running, .pid, .started_by, .names, .log]' <<<"$output")" \
		"[true,$(registry_pids),\"hand\",2,\"$WORK/log\"]"
}

@test "stop ends it; names of living programs return with the next one" {
	by_hand
	up api "$BIN/api_app" open alloc=a,w,64Ki
	pid=$(registry_pids)
	verb 0 stop
	equal "$output" "stopped: pid $pid served $GPUSHARE_DIR"
	has_ended "$pid"
	verb 3 status
	by_hand
	until_true grep -q "^w " <(names)
}

# keeps NAME...: each is kept, and its owner has ended
keeps() {
	for name in "$@"; do
		api open make=a,"$name",2Mi,keep fill=a,7 exit=3 >/dev/null || true
	done
}

keeper_gone() {
	[ -z "$(keeper_pids)" ]
}

@test "stop refuses while buffers are kept that have no owner; --force ends it, its keeper, and them" {
	by_hand
	keeps one two
	pid=$(registry_pids)
	verb 1 stop
	equal "$stderr" "gpushare: 2 kept buffers without an owner (4 MiB), such as 'two', would be lost; copy what you \
need with 'gpushare get NAME -o FILE', or add --force"
	equal "$(registry_pids)" "$pid"
	equal "$(names)" "one 2097152
two 2097152"
	[ -n "$(keeper_pids)" ]
	verb 0 stop --force
	until_true keeper_gone
	equal "$(registry_pids)" "" # a keeper would have started one
}

@test "one that does not answer: status and stop say so, and --force says how to end it" {
	by_hand
	pid=$(registry_pids)
	halt "$pid"
	export GPUSHARE_TIMEOUT_MS=300
	verb 1 status
	[[ ${lines[0]} =~ ^state:\ +does\ not\ answer$ ]]
	has "$output" "$pid, uid"
	verb 1 stop
	has "$stderr" "it is not known whether kept buffers would be lost; --force stops pid $pid anyway"
	verb 1 stop --force
	has "$stderr" "has not ended within 5 s; 'kill -KILL $pid' ends it"
	kill -CONT "$pid"
	until_true has_ended "$pid" # the signal waited
}

@test "log: the file behind its standard error, or that there is none" {
	by_hand
	verb 0 log
	equal "$stderr" "gpushare: the log is $WORK/log"
	has "$output" "serving $GPUSHARE_DIR/registry.sock"
	verb 0 stop
	start_registry
	verb 1 log
	equal "$output" ""
	has "$stderr" "'gpushare-registry --foreground --replace --dir $GPUSHARE_DIR' takes over"
}

@test "words that are none are exit code 2" {
	misused '' "gpushare registry" "" restart "start stop" "start --force" "status --force" "stop --json" "log --json"
	equal "$(gpushare --complete registry '' | tr '\n' ' ')" "start stop status log "
}

@test "--foreground: a line for what each client did, with its user, process and program" {
	start registry gpushare-registry --foreground --dir "$GPUSHARE_DIR"
	await_file "$GPUSHARE_DIR/registry.sock"
	api open alloc=a,w,2Mi tag=w,dtype,u8 publish=a attach=b,w detach=b unlink=w free=a >"$WORK/app.out"
	until_true grep -q " end: " "$WORK/registry.err"
	equal "$(sed -n "s/^gpushare-registry: \([a-z]*\): uid $(id -u) pid [1-9][0-9]* (api_app), /\1 /p" "$WORK/registry.err" |
		sed 's/generation [0-9]*/generation N/; s/^hello .*/hello/')" 'hello
share "w", generation N, 2097152 bytes
tag "w", 1 tags
order "w" as publisher, slot 0
attach "w"
detach "w"
unlink "w"
end 0 names withdrawn, 0 kept, 0 attachments released'
}
