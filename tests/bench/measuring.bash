# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by run.sh and registry.sh: the begin and the end of a measurement. Its files are in $scratch. `started` has
# the processes that it started, $registry among them.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpushare-bench.XXXXXX")
started=() registry=

stop_all() {
	exec 7>&- # who waits for what comes there
	[ ${#started[@]} = 0 ] || kill -TERM "${started[@]}" 2>/dev/null
	wait
	started=()
}

# Removing the folder ends the keeper; wait for that.
finish() {
	stop_all
	rm -rf "$scratch"
	for _ in {1..100}; do
		grep -qsaF "$scratch/" /proc/[0-9]*/cmdline || break
		sleep 0.05
	done
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
	echo "gpushare: not measured: $1" >&2
	[ ! -s "$scratch/errors" ] || sed 's/^/    /' "$scratch/errors" | tail -n 20 >&2
	exit 1
}

# serve SOCKET COMMAND...: start a server in the background, set PID, and wait until the socket exists
serve() {
	local tries=0
	"${@:2}" </dev/null >/dev/null 2>"$scratch/errors" &
	PID=$!
	started+=("$PID")
	until [ -S "$GPUSHARE_DIR/$1" ]; do
		[ $((tries += 1)) -le 400 ] || fail "$2 did not start"
		sleep 0.05
	done
}

start_registry() {
	serve registry.sock "$BUILD/gpushare-registry" --dir "$GPUSHARE_DIR"
	registry=$PID
}
