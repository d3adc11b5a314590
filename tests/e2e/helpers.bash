# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by every .bats file. Gives each test its own directory and kills the processes that the test started.
bats_require_minimum_version 1.5.0
. "${BASH_SOURCE[0]%/*}/countdown.bash"

ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
BUILD=$(cd "${BUILD:-$ROOT/build}" && pwd)
BIN=$BUILD/tests/bin
SHIM=$BUILD/libgpushare_shim.so
PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$SHIM"
if [ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ]; then
	export LD_LIBRARY_PATH=$BUILD/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
# Added to each time limit, for a machine that runs more test files than it has cores. It does not depend on the load.
SLACK_MS=500
[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${SANITIZE:-}${EMULATOR:-}" ] || SLACK_MS=4000 # instruments and emulators are slow
# How many seconds until_true polls. A GPU serves one process at a time, so tests there take longer.
PATIENCE=20
[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || PATIENCE=60

setup() {
	WORK=$(mktemp -d)
	mkdir -m 700 "$WORK/r"
	export GPUSHARE_DIR=$WORK/r
	unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_TIMEOUT_MS GPUSHARE_AUTOSTART XDG_RUNTIME_DIR
	export GPUSHARE_TIMEOUT_MS=10000 # a busy machine's registry answers late; tests of this limit set it themselves
	PATH=$BUILD:$PATH
	STARTED=()
	declare -gA PIDS=()
	[ -z "${EMULATOR:-}" ] || start_registry
	countdown_stands
	if type setup_more >/dev/null 2>&1; then setup_more; fi
}

teardown() {
	local pid
	[ -n "${BATS_TEST_COMPLETED:-}" ] || [ -z "${output:-}" ] || printf -- '--- output: %s\n' "$(tail -n 40 <<<"$output")"
	[ -z "${COVERAGE:-}" ] || let_all_end
	for pid in "${STARTED[@]}" $(registry_pids); do
		! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null || true
	done
	for pid in $(keeper_pids); do # after the registries: a registry starts a killed keeper again
		kill -KILL "$pid" 2>/dev/null || true
	done
	if type teardown_more >/dev/null 2>&1; then teardown_more; fi
	rm -rf "$WORK"
}

# For a coverage build: a process that is killed writes no coverage counts. So programs that wait for "end" get it, and
# the daemons get SIGTERM: first those that a test started, perhaps in a container, which must not be killed before.
let_all_end() {
	local pid each found daemons=
	touch "$WORK/end"
	for pid in "${STARTED[@]}"; do
		is_ours "$pid" || continue
		found=
		for each in "$pid" $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do
			! grep -qsx gpushare-regist "/proc/$each/comm" || found+=" $each"
		done
		daemons+=$found
		[ -n "$found" ] || PATIENCE_S=1 until_true has_ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
	done
	for pid in $daemons $(registry_pids) $(keeper_pids); do # keepers too: they would start a registry again
		kill -TERM "$pid" 2>/dev/null || continue
		PATIENCE_S=3 until_true is_over "$pid" || true
	done
}

# The kernel may have reused the pid of an ended process for a process of another test.
is_ours() {
	[[ $'\n'$(jobs -rp)$'\n' == *$'\n'"$1"$'\n'* ]] || grep -qsazF "GPUSHARE_DIR=$WORK/" "/proc/$1/environ"
}

# Start the registry by hand. Without an emulator a client's autostart does this, but qemu-user forbids its clone().
start_registry() {
	gpushare-registry --dir "$GPUSHARE_DIR" </dev/null >/dev/null 2>"$WORK/registry.err" 3>&- 8>&- &
	disown
	until_true listens
}

# The socket file appears before the registry listens. A registry whose socket file was removed may still listen
# while its process ends.
listens() {
	[ -S "$GPUSHARE_DIR/registry.sock" ] && grep -qs " 00010000 .* $GPUSHARE_DIR/registry.sock\$" /proc/net/unix
}

# For tests of what happens while no registry runs.
no_registry_yet() {
	local pid
	[ -n "${EMULATOR:-}" ] || return 0
	for pid in $(registry_pids); do kill_now "$pid"; done
	rm -f "$GPUSHARE_DIR"/*
}

# Pids of the registries of this test's directory, however they were started.
registry_pids() {
	grep -lsaP "gpushare-registry\x00--dir\x00\Q$GPUSHARE_DIR\E\x00" /proc/[0-9]*/cmdline | cut -d / -f 3
}

# How many descriptors the registry has. With the first one that it gives its keeper it gets one more: their connection.
registry_fds() {
	find "/proc/$(registry_pids)/fd" -mindepth 1 | wc -l
}

fds_are() {
	[ "$(registry_fds)" -le "$1" ]
}

# Pids of the keepers of this test's directory.
keeper_pids() {
	grep -lsaP "gpushare-registry\x00--keeper\x00--dir\x00\Q$GPUSHARE_DIR\E\x00" /proc/[0-9]*/cmdline | cut -d / -f 3
}

# start TAG COMMAND...: run COMMAND in the background; PID and PIDS[TAG] are its pid, $WORK/TAG.out and .err its output
start() {
	local tag=$1
	shift
	"$@" </dev/null >"$WORK/$tag.out" 2>"$WORK/$tag.err" 3>&- 8>&- &
	PID=$!
	PIDS[$tag]=$PID
	STARTED+=("$PID")
}

# named RULES PROGRAM...: run PROGRAM under the preload with naming rules RULES
named() {
	env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$1" "${@:2}" </dev/null
}

# start_named TAG RULES PROGRAM...: like named, in the background
start_named() {
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	start "$1" env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$2" "${@:3}"
}

# begun_by START WORD...: run the command and wait for the file of its first touch= word. Remove that file first: an
# earlier start may have left it.
begun_by() {
	local word
	for word in "$@"; do
		[[ $word != touch=* ]] || break
	done
	rm -f "${word#touch=}"
	"$@"
	await_file "${word#touch=}"
}

# begin TAG COMMAND..., begin_named TAG RULES PROGRAM...: start it and wait until it has touched its first file
begin() {
	begun_by start "$@"
}

begin_named() {
	begun_by start_named "$@"
}

# up TAG COMMAND..., up_named TAG RULES PROGRAM...: start it and wait until it has touched $WORK/up. It then waits
# until `down` lets it finish.
up() {
	rm -f "$WORK/end"
	begin "$@" touch="$WORK/up" await="$WORK/end"
}

up_named() {
	rm -f "$WORK/end"
	begin_named "$@" touch="$WORK/up" await="$WORK/end"
}

# down [TAG or PID]: let it finish
down() {
	touch "$WORK/end"
	finish "${1:-$PID}"
}

# attaching RULES PROGRAM...: run an unmodified program whose allocations the preload answers with named buffers
attaching() {
	env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH="$1" "${@:2}" </dev/null
}

api() {
	"$BIN/api_app" "$@" </dev/null
}

# ended_by SIGNAL SECONDS COMMAND...: send SIGNAL after SECONDS; CODE is the exit code. A shell without job control
# makes its background commands ignore SIGINT, and exec keeps that. Programs on a terminal don't ignore it.
ended_by() {
	env --default-signal=INT,TERM,HUP "${@:3}" </dev/null >/dev/null 2>&1 3>&- 8>&- &
	local pid=$!
	CODE=0
	sleep "$2"
	kill -"$1" $pid 2>/dev/null || true
	wait $pid || CODE=$?
}

# names: the names in the registry, "NAME SIZE" a line
names() {
	api open list | grep -v '^open: OK$' || true
}

names_are() {
	[ "$(names)" = "$1" ]
}

nothing_named() {
	names_are ""
}

# attachers NAME: the number of NAME's attachments, without the owner's own use
attachers() {
	api open stat="$1" | sed -n 's/.* attachers \([0-9]*\) .*/\1/p'
}

attachers_are() {
	[ "$(attachers "$1")" = "$2" ]
}

# owner_gone NAME: NAME is kept, and the registry has noticed that its owner has ended
owner_gone() {
	[[ $(api open what="$1") == *"owner gone"* ]]
}

# kill_registry [SIGNAL]: kill the registry and wait for its end. Its files stay. The next client that asks starts
# a new registry.
kill_registry() {
	local pid
	for pid in $(registry_pids); do # one that came too late to serve may be about to end
		kill "-${1:-KILL}" "$pid" 2>/dev/null || true
		until_true is_over "$pid"
	done
}

# serves PID: the lock file has PID, and a registry answers
serves() {
	[ "$(cat "$GPUSHARE_DIR/registry.lock" 2>/dev/null)" = "$1" ] &&
		GPUSHARE_AUTOSTART=0 api open 2>/dev/null | grep -qx 'open: OK'
}

# kill_registries: kill the registry and its keeper, and wait for their end. Their files stay.
kill_registries() {
	local pid
	for pid in $(registry_pids) $(keeper_pids); do
		kill -KILL "$pid" 2>/dev/null || true # the other has ended with it
		until_true is_over "$pid"
	done
}

# end_registry: the same, and remove their files; only the clients' own knowledge is left
end_registry() {
	kill_registries
	rm -f "$GPUSHARE_DIR"/*
}

# restart_registry: the same, and start another one
restart_registry() {
	end_registry
	start_registry
}

# kill_now PID: kill it and wait for its end
kill_now() {
	kill -KILL "$1"
	until_true is_over "$1"
}

# halt PID: stop it and wait until it has stopped
halt() {
	kill -STOP "$1"
	until_true has_stopped "$1"
}

# resume FILE DONE: make $WORK/FILE, for which a program waits, and wait until the program has made $WORK/DONE
resume() {
	touch "$WORK/$1"
	await_file "$WORK/$2"
}

# await_file FILE [SECONDS]: wait until FILE exists, at most SECONDS (1.5 times PATIENCE)
await_file() {
	local end=$((SECONDS + ${2:-$((PATIENCE * 3 / 2))}))
	until [ -e "$1" ]; do
		if [ $SECONDS -gt $end ]; then
			echo "$1 did not appear"
			grep -Hs '' "$WORK"/*.err "$WORK"/*.out || true
			return 1
		fi
		sleep 0.01
	done
}

# until_true COMMAND...: poll COMMAND for PATIENCE_S (PATIENCE) seconds. After 30 tries, poll less often to leave the
# CPU to others.
until_true() {
	local end=$((SECONDS + ${PATIENCE_S:-$PATIENCE})) tries=0
	until "$@"; do
		[ $SECONDS -le $end ] || { echo "still not: $*"; return 1; }
		if ((++tries < 30)); then sleep 0.01; else sleep 0.05; fi
	done
}

# The read may fail for a running process, when a signal arrives.
has_ended() {
	local stat=
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || [ ! -d "/proc/$1" ] || return 1
	[[ ${stat##*) } != [!ZX]* ]]
}

# Check every thread: if a killed process still waits in the driver, its first thread has ended long before.
is_over() {
	! grep -hsqv '^State:[[:space:]]*[ZX]' < <(grep -hs '^State:' "/proc/$1/task"/*/status)
}

# Check every thread: the stop signal takes time to reach each.
has_stopped() {
	! grep -hsqv '^State:[[:space:]]*T' < <(grep -hs '^State:' "/proc/$1/task"/*/status)
}

runs() {
	! has_ended "$1"
}

# stays MS COMMAND...: COMMAND holds for MS milliseconds. This checks that something does not happen; until_true
# waits for something that does.
stays() {
	local end=$((${EPOCHREALTIME//[!0-9]/} + $1 * 1000))
	while ((${EPOCHREALTIME//[!0-9]/} < end)); do
		"${@:2}" || { echo "no more: ${*:2}"; return 1; }
		sleep 0.05
	done
}

# waiters COUNT: COUNT requests wait at the registry for a name
waiters() {
	gpushare metrics 2>/dev/null | grep -qx "gpushare_waiters $1"
}

# If a client got no answer or found another registry, it asks again a second later. Nothing outside the client
# shows that it is about to ask.
asks_again() {
	sleep 1.2
}

# finish TAG, finish PID: return the exit code of a process that start() started; kill it if it does not end in time
finish() {
	local code=0 pid=${PIDS[$1]:-$1}
	until_true has_ended "$pid" || kill -KILL "$pid"
	wait "$pid" || code=$?
	return "$code"
}

# ends_with CODE PID: it ends in time, with this exit code
ends_with() {
	local code=0
	finish "$2" || code=$?
	equal "$code" "$1"
}

equal() {
	[ "$1" = "$2" ] || { printf -- '--- is:\n%s\n--- should be:\n%s\n' "$1" "$2"; return 1; }
}

has() {
	[[ $1 == *"$2"* ]] || { printf -- '--- is:\n%s\n--- should contain:\n%s\n' "$1" "$2"; return 1; }
}

# refute COMMAND...: COMMAND fails. If another command follows a plain '! COMMAND', bash does not stop on its failure.
refute() {
	! "$@" || { printf -- 'should fail: %s\n' "$*"; return 1; }
}

lines() {
	if [ -z "$1" ]; then echo 0; else wc -l <<<"$1"; fi
}

# untouched RULES PROGRAM...: output and exit code equal those of a run without the preload; $stderr is what the
# preload wrote to stderr
untouched() {
	local plain plain_code=0 code=0 with
	# The sanitizer runtime must be loaded before an instrumented library, so both runs preload it.
	plain=$(env LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:-}" "${@:2}" </dev/null 2>"$WORK/plain.err") || plain_code=$?
	with=$(named "$@" 2>"$WORK/with.err") || code=$?
	has "$plain" "init: 0" # else nothing was tested
	equal "$with" "$plain"
	equal "$code" "$plain_code"
	# shellcheck disable=SC2034 # for the caller
	stderr=$(diff "$WORK/plain.err" "$WORK/with.err" | sed -n 's/^[<>] //p') || true
}

# misused TEXT COMMAND WORDS...: with each of WORDS, which are split, COMMAND ends with exit code 2, without output, and
# with a message that contains TEXT
misused() {
	local words
	local -
	set -f
	for words in "${@:3}"; do
		echo "$2 $words"
		# shellcheck disable=SC2086 # words
		run -2 --separate-stderr $2 $words
		equal "$output" ""
		[ -n "$stderr" ]
		has "$stderr" "$1"
	done
}

needs() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

needs_sim() {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || skip "faults need the simulated driver"
}

# Values of GPUSHARE_SIM_HOST_NUMA to test: unified memory comes from the driver (1) or from a memfd (0). A real
# driver ignores the variable.
unified_kinds() {
	echo 1
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || echo 0
}

# alike PROGRAM...: stdout and exit code are the same without the preload, with it but without rules, and with every
# allocation named. Without rules the preload writes nothing to stderr.
alike() {
	untouched '' "$@"
	equal "$stderr" ""
	untouched 'w%i' "$@"
}

# Split the program and its optional route, e.g. "drv_lookup gpa2", into the words of PROGRAM.
program() {
	read -ra PROGRAM <<<"$BIN/$1"
}

# shown NAME FIELD: the value of FIELD for NAME in `gpushare ls --json`
shown() {
	gpushare ls --json | jq -r --arg name "$1" ".. | objects | select(.name? == \$name) | .$2"
}

# terminal ROWSxCOLUMNS STEP...: terminal.py. Debian's Python has Debian's pyte.
terminal() {
	"$(type -P /usr/bin/python3 python3 | head -n 1)" "$ROOT/tests/e2e/terminal.py" "$@"
}

# took_ms COMMAND...: run COMMAND and set TOOK_MS to its duration in milliseconds
took_ms() {
	local began
	began=$(date +%s%3N)
	"$@"
	TOOK_MS=$(($(date +%s%3N) - began))
}
