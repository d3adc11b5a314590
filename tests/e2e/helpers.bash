# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by every .bats file: a directory of its own for each test, processes that end with it.
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
# What each time limit gets for a machine with more test files than cores: a constant, whatever the load is.
SLACK_MS=500
[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${SANITIZE:-}${EMULATOR:-}" ] || SLACK_MS=1500 # instruments and emulators are slow
# Seconds that until_true polls. A GPU serves one process at a time.
PATIENCE=20
[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || PATIENCE=60

setup() {
	WORK=$(mktemp -d)
	mkdir -m 700 "$WORK/r"
	export GPUSHARE_DIR=$WORK/r
	unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_TIMEOUT_MS GPUSHARE_AUTOSTART XDG_RUNTIME_DIR
	export GPUSHARE_TIMEOUT_MS=3000 # a busy machine's registry answers later; tests of the limit set their own
	PATH=$BUILD:$PATH
	STARTED=()
	[ -z "${EMULATOR:-}" ] || start_registry
	countdown_stands
	if type setup_more >/dev/null 2>&1; then setup_more; fi
}

teardown() {
	local pid
	[ -n "${BATS_TEST_COMPLETED:-}" ] || [ -z "${output:-}" ] || printf -- '--- output: %s\n' "$(tail -n 40 <<<"$output")"
	for pid in "${STARTED[@]}" $(registry_pids); do
		! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null || true
	done
	for pid in $(keeper_pids); do # after those who would start another
		kill -KILL "$pid" 2>/dev/null || true
	done
	if type teardown_more >/dev/null 2>&1; then teardown_more; fi
	rm -rf "$WORK"
}

# A process that ended may have left its number to somebody else's.
is_ours() {
	[[ $'\n'$(jobs -rp)$'\n' == *$'\n'"$1"$'\n'* ]] || grep -qsazF "GPUSHARE_DIR=$WORK/" "/proc/$1/environ"
}

# What the first name does where no emulator forbids it (autostart's clone).
start_registry() {
	gpushare-registry --dir "$GPUSHARE_DIR" </dev/null >/dev/null 2>"$WORK/registry.err" 3>&- 8>&- &
	disown
	until_true listens
}

# The socket has its name before that. One whose name was taken away may still be there: its process is ending.
listens() {
	[ -S "$GPUSHARE_DIR/registry.sock" ] && grep -qs " 00010000 .* $GPUSHARE_DIR/registry.sock\$" /proc/net/unix
}

# For tests of what happens while there is none.
no_registry_yet() {
	local pid
	[ -n "${EMULATOR:-}" ] || return 0
	for pid in $(registry_pids); do
		kill -KILL "$pid"
		until_true has_ended "$pid"
	done
	rm -f "$GPUSHARE_DIR"/*
}

# The registries of this test's directory, however they were started.
registry_pids() {
	grep -lsaP "gpushare-registry\x00--dir\x00\Q$GPUSHARE_DIR\E\x00" /proc/[0-9]*/cmdline | cut -d / -f 3
}

# And those who keep their descriptors.
keeper_pids() {
	grep -lsaP "gpushare-registry\x00--keeper\x00--dir\x00\Q$GPUSHARE_DIR\E\x00" /proc/[0-9]*/cmdline | cut -d / -f 3
}

# start TAG COMMAND...: in the background; its pid in PID, its output in $WORK/TAG.out and .err
start() {
	local tag=$1
	shift
	"$@" </dev/null >"$WORK/$tag.out" 2>"$WORK/$tag.err" 3>&- 8>&- &
	PID=$!
	STARTED+=("$PID")
}

# named RULES PROGRAM...: run under the preload
named() {
	env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$1" "${@:2}" </dev/null
}

# start_named TAG RULES PROGRAM...: the same in the background
start_named() {
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	start "$1" env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="$2" "${@:3}"
}

# begun_by START WORD...: which makes a file first of all; that one is not of a turn before
begun_by() {
	local word
	for word in "$@"; do
		[[ $word != touch=* ]] || break
	done
	rm -f "${word#touch=}"
	"$@"
	await_file "${word#touch=}"
}

# begin TAG COMMAND..., begin_named TAG RULES PROGRAM...: started, until it has touched its first file
begin() {
	begun_by start "$@"
}

begin_named() {
	begun_by start_named "$@"
}

# up TAG COMMAND..., up_named TAG RULES PROGRAM...: the same, and it stands there until `down` has PID go on to its end
up() {
	rm -f "$WORK/end"
	begin "$@" touch="$WORK/up" await="$WORK/end"
}

up_named() {
	rm -f "$WORK/end"
	begin_named "$@" touch="$WORK/up" await="$WORK/end"
}

down() {
	touch "$WORK/end"
	finish "$PID"
}

# attaching RULES PROGRAM...: an unmodified program that is given named buffers
attaching() {
	env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH="$1" "${@:2}" </dev/null
}

api() {
	"$BIN/api_app" "$@" </dev/null
}

# ended_by SIGNAL SECONDS COMMAND...: what came of it in CODE. A shell without job control has its
# background ignore SIGINT, which stays so over exec: a terminal's programs don't.
ended_by() {
	env --default-signal=INT,TERM,HUP "${@:3}" </dev/null >/dev/null 2>&1 3>&- 8>&- &
	local pid=$!
	CODE=0
	sleep "$2"
	kill -"$1" $pid 2>/dev/null || true
	wait $pid || CODE=$?
}

# names: what the registry knows, "NAME SIZE" a line
names() {
	api open list | grep -v '^open: OK$' || true
}

nothing_named() {
	[ -z "$(names)" ]
}

# attachers NAME: how often it is attached by others than its owner
attachers() {
	api open stat="$1" | sed -n 's/.* attachers \([0-9]*\) .*/\1/p'
}

# kill_registry [SIGNAL]: and wait for its end. What it wrote stays; the next one is whoever's that asks first.
kill_registry() {
	local pid
	for pid in $(registry_pids); do # one that came too late to serve may be about to end
		kill "-${1:-KILL}" "$pid" 2>/dev/null || true
		until_true is_over "$pid"
	done
}

# await_file FILE [SECONDS]
await_file() {
	local end=$((SECONDS + ${2:-30}))
	until [ -e "$1" ]; do
		if [ $SECONDS -gt $end ]; then
			echo "$1 did not appear"
			grep -Hs '' "$WORK"/*.err "$WORK"/*.out || true
			return 1
		fi
		sleep 0.01
	done
}

# until_true COMMAND...: poll it for PATIENCE_S (PATIENCE) seconds, less often when it takes long: others want the CPU too
until_true() {
	local end=$((SECONDS + ${PATIENCE_S:-$PATIENCE})) tries=0
	until "$@"; do
		[ $SECONDS -le $end ] || { echo "still not: $*"; return 1; }
		if ((++tries < 30)); then sleep 0.01; else sleep 0.05; fi
	done
}

# A read may fail of one that runs, when a signal comes.
has_ended() {
	local stat=
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || [ ! -d "/proc/$1" ] || return 1
	[[ ${stat##*) } != [!ZX]* ]]
}

# With each of its threads: of a killed process that waits in the driver the first has ended long before.
is_over() {
	! grep -hsqv '^State:[[:space:]]*[ZX]' < <(grep -hs '^State:' "/proc/$1/task"/*/status)
}

# Each thread of it: a signal takes its time to get there.
has_stopped() {
	! grep -hsqv '^State:[[:space:]]*T' < <(grep -hs '^State:' "/proc/$1/task"/*/status)
}

runs() {
	! has_ended "$1"
}

# stays MS COMMAND...: true all that time, of what is not to happen. What is to happen waits with until_true.
stays() {
	local end=$((${EPOCHREALTIME//[!0-9]/} + $1 * 1000))
	while ((${EPOCHREALTIME//[!0-9]/} < end)); do
		"${@:2}" || { echo "no more: ${*:2}"; return 1; }
		sleep 0.05
	done
}

# waiters COUNT: so many wait at the registry for a name
waiters() {
	gpushare metrics 2>/dev/null | grep -qx "gpushare_waiters $1"
}

# A client whose question got no answer, or that found another registry, asks again a second later. That it
# would ask shows nowhere outside of it.
asks_again() {
	sleep 1.2
}

# The exit code of the process PID, which start() started.
finish() {
	local code=0
	until_true has_ended "$1" || kill -KILL "$1"
	wait "$1" || code=$?
	return "$code"
}

equal() {
	[ "$1" = "$2" ] || { printf -- '--- is:\n%s\n--- should be:\n%s\n' "$1" "$2"; return 1; }
}

has() {
	[[ $1 == *"$2"* ]] || { printf -- '--- is:\n%s\n--- should contain:\n%s\n' "$1" "$2"; return 1; }
}

# refute COMMAND...: it fails. A plain '! COMMAND' is no failure to bash where another command follows.
refute() {
	! "$@" || { printf -- 'should fail: %s\n' "$*"; return 1; }
}

lines() {
	if [ -z "$1" ]; then echo 0; else wc -l <<<"$1"; fi
}

# untouched RULES PROGRAM...: output and exit code are those of a run without the preload; what
# the preload said on stderr is left in $stderr
untouched() {
	local plain plain_code=0 code=0 with
	# an instrumented library comes behind the instruments: they are on both sides
	plain=$(env LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:-}" "${@:2}" </dev/null 2>"$WORK/plain.err") || plain_code=$?
	with=$(named "$@" 2>"$WORK/with.err") || code=$?
	has "$plain" "init: 0" # else nothing was tested
	equal "$with" "$plain"
	equal "$code" "$plain_code"
	# shellcheck disable=SC2034 # for the caller
	stderr=$(diff "$WORK/plain.err" "$WORK/with.err" | sed -n 's/^[<>] //p') || true
}

needs() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

needs_sim() {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || skip "faults need the simulated driver"
}

# The values of GPUSHARE_SIM_HOST_NUMA: unified memory is the driver's (1) or a memfd (0); a real driver
# has its own way.
unified_kinds() {
	echo 1
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || echo 0
}

# alike PROGRAM...: bare, preloaded without rules and with every allocation named, the same stdout
# and exit code; without rules nothing is said
alike() {
	untouched '' "$@"
	equal "$stderr" ""
	untouched 'w%i' "$@"
}

# The program and its route where it has one, e.g. "drv_lookup gpa2", as words in PROGRAM.
program() {
	read -ra PROGRAM <<<"$BIN/$1"
}

# shown NAME FIELD: what `gpushare ls --json` says of it
shown() {
	gpushare ls --json | jq -r --arg name "$1" ".. | objects | select(.name? == \$name) | .$2"
}

# took_ms COMMAND...: its milliseconds in TOOK_MS
took_ms() {
	local began
	began=$(date +%s%3N)
	"$@"
	TOOK_MS=$(($(date +%s%3N) - began))
}
