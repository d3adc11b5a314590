#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/bench/registry.sh [OUT_DIR]: measures the registry beside other servers that look up a name. Writes its part of
# OUT_DIR/RESULTS.md. A missed target is reported and is no failure; a measurement that fails is one. These make it
# shorter or longer: GPUSHARE_BENCH_TRIP_ROUNDS, _TRIPS, _RATE_ROUNDS, _RATE_MS, _CLIENTS, _MANY (numbers of names).
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
BUILD=$(cd "$root" && cd "${BUILD:-build}" && pwd) || exit 1
bench=$BUILD/bench
out=$(cd "${1:-$here/../../docs/measurements/bench}" && pwd) || exit 1
# shellcheck source=tests/bench/measuring.bash
. "$here/measuring.bash"
TRIP_ROUNDS=${GPUSHARE_BENCH_TRIP_ROUNDS:-41} TRIPS=${GPUSHARE_BENCH_TRIPS:-500}
RATE_ROUNDS=${GPUSHARE_BENCH_RATE_ROUNDS:-7} RATE_MS=${GPUSHARE_BENCH_RATE_MS:-400}
CLIENTS=${GPUSHARE_BENCH_CLIENTS:-1,8,64}
read -ra MANY <<<"${GPUSHARE_BENCH_MANY:-10000 1000000}"
NAMES=1000 # shared while round trips and rates are measured
unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_LOG XDG_RUNTIME_DIR LD_PRELOAD
export GPUSHARE_BENCH_PLACE=$scratch/r GPUSHARE_DIR=$scratch/r GPUSHARE_AUTOSTART=0 GPUSHARE_TIMEOUT_MS=60000
sharer=''
# Patterns: a prefix, a suffix, one that matches nothing, and one that matches all.
globs=('model07/*' '*99.weight' 'none*' '*')
# shellcheck source=tests/bench/results.bash
. "$here/results.bash"
# shellcheck source=tests/bench/registry_report.bash
. "$here/registry_report.bash"

# share COUNT: share that many names until stop_all; sets SHARED, the seconds that took
share() {
	rm -f "$scratch/in" "$scratch/shared"
	mkfifo "$scratch/in"
	"$bench/many" share "$1" <"$scratch/in" >"$scratch/shared" 2>"$scratch/errors" &
	sharer=$!
	started+=("$sharer")
	exec 7>"$scratch/in"
	until [ -s "$scratch/shared" ]; do
		kill -0 "$sharer" 2>/dev/null || fail "sharing $1 names"
		sleep 0.1
	done
	read -r SHARED <"$scratch/shared"
}

# renew: stop all servers and begin with an empty directory
renew() {
	stop_all
	rm -rf "$scratch/r"
	mkdir -m 700 "$scratch/r"
}

# resident PID: the process's resident bytes of anonymous and shared memory, without files
resident() {
	awk '$1 == "RssAnon:" || $1 == "RssShmem:" { n += $2 } END { print n * 1024 }' "/proc/$1/status"
}

# switches PID: how often the process's threads have gone to sleep; a thread that never wakes makes no system call
switches() {
	awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }' "/proc/$1"/task/*/status
}

# idle SECONDS: how often per second the registry's threads wake while no client sends a request
idle() {
	local before
	sleep 11 # nng's timers of connections that have ended run out 10 s after these
	before=$(switches "$registry")
	sleep "$1"
	awk -v n=$(($(switches "$registry") - before)) -v s="$1" 'BEGIN { print n / s }'
}

# Measure round trips and rates of each server.
measure_trips() {
	local kinds=(echo nng_echo registry nng index)
	local with_fds=(fd_echo descriptor)
	renew
	start_registry
	serve echo.sock "$bench/serve" echo "$GPUSHARE_DIR/echo.sock"
	serve fd.sock "$bench/serve" fd "$GPUSHARE_DIR/fd.sock"
	serve nng.sock "$bench/serve" nng "$GPUSHARE_DIR/nng.sock"
	share $NAMES
	"$bench/trips" $NAMES "$TRIP_ROUNDS" "$TRIPS" "${kinds[@]}" "${with_fds[@]}" >"$scratch/trips" 2>"$scratch/errors" || fail "round trips"
	"$bench/rates" $NAMES "$RATE_ROUNDS" "$RATE_MS" "$CLIENTS" "${kinds[@]}" >"$scratch/rates" 2>"$scratch/errors" || fail "rates"
}

# look_up COUNT: the median time of a look-up among COUNT names
look_up() {
	"$bench/trips" "$1" 5 1000 index 2>"$scratch/errors" | cut -f 3 | sort -g | sed -n 3p
}

# measure_many COUNT: print lines COUNT WHAT NUMBER, which become $scratch/many
measure_many() {
	local before
	renew
	start_registry
	"$bench/many" list 1 none >/dev/null 2>&1 # its threads are there, and have their stacks
	before=$(resident "$registry")
	share "$1"
	printf '%s\tshare\t%s\n' "$1" "$(awk -v s="$SHARED" -v n="$1" 'BEGIN { print s * 1e6 / n }')"
	printf '%s\tbytes\t%s\n' "$1" $((($(resident "$registry") - before) / $1))
	"$bench/many" list "$((2000000 / $1 > 9 ? 9 : 2000000 / $1 + 1))" "${globs[@]}" 2>"$scratch/errors" >"$scratch/list" || fail "listing $1 names"
	sed "s/^/$1\tlist\t/" "$scratch/list"
	idle 5 >"$scratch/idle"
	printf '%s\tlook\t%s\n' "$1" "$(look_up "$1")"
}

echo "measuring the registry beside others; this takes some minutes"
load=$(cut -d' ' -f1 /proc/loadavg)
measure_trips
for count in "${MANY[@]}"; do
	measure_many "$count" >>"$scratch/many" || exit 1
done
stop_all
report
