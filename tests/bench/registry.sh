#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/bench/registry.sh [OUT_DIR]: measures the registry beside other servers that look up a name. Writes its part of
# OUT_DIR/RESULTS.md, and the drawings beside it. A missed target is reported and is no failure; a measurement that
# fails is one. If Redis or gnuplot is missing, the script says so and continues without it. These make it shorter or
# longer: GPUSHARE_BENCH_TRIP_ROUNDS, _TRIPS, _RATE_ROUNDS, _RATE_MS, _CLIENTS, _MANY (numbers of names).
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
redis='' sharer=''
# Patterns: a prefix, a suffix, one that matches nothing, and one that matches all.
globs=('model07/*' '*99.weight' 'none*' '*')
# shellcheck source=tests/bench/results.bash
. "$here/results.bash"
# shellcheck source=tests/bench/registry_report.bash
. "$here/registry_report.bash"

start_redis() {
	[ -n "$has_redis" ] || return 0
	serve redis.sock redis-server --port 0 --unixsocket "$GPUSHARE_DIR/redis.sock" --save '' --appendonly no \
		--daemonize no --dir "$scratch"
	redis=$PID
}

# share COUNT: share that many names until stop_all; sets SHARED, the time that took, and ANSWER, an answer's size
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
	read -r SHARED ANSWER <"$scratch/shared"
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

# Measure round trips and rates of each server; Redis is left out if it is not installed.
measure_trips() {
	local kinds=(echo nng_echo registry nng redis index)
	local with_fds=(fd_echo descriptor)
	[ -n "$has_redis" ] || kinds=(echo nng_echo registry nng index)
	renew
	start_registry
	serve echo.sock "$bench/serve" echo "$GPUSHARE_DIR/echo.sock"
	serve fd.sock "$bench/serve" fd "$GPUSHARE_DIR/fd.sock"
	serve nng.sock "$bench/serve" nng "$GPUSHARE_DIR/nng.sock"
	start_redis
	share $NAMES
	[ -z "$has_redis" ] || "$bench/many" set $NAMES "$ANSWER" >/dev/null 2>"$scratch/errors" || fail "Redis's names"
	"$bench/trips" $NAMES "$TRIP_ROUNDS" "$TRIPS" "${kinds[@]}" "${with_fds[@]}" >"$scratch/trips" 2>"$scratch/errors" || fail "round trips"
	"$bench/rates" $NAMES "$RATE_ROUNDS" "$RATE_MS" "$CLIENTS" "${kinds[@]}" >"$scratch/rates" 2>"$scratch/errors" || fail "rates"
}

# look_up COUNT KIND: the median time of a look-up among COUNT names
look_up() {
	"$bench/trips" "$1" 5 1000 "$2" 2>"$scratch/errors" | cut -f 3 | sort -g | sed -n 3p
}

# measure_many COUNT: print lines COUNT WHO WHAT NUMBER, which become $scratch/many
measure_many() {
	local before
	renew
	start_registry
	"$bench/many" list 1 none >/dev/null 2>&1 # its threads are there, and have their stacks
	before=$(resident "$registry")
	share "$1"
	printf '%s\tregistry\tshare\t%s\n' "$1" "$(awk -v s="$SHARED" -v n="$1" 'BEGIN { print s * 1e6 / n }')"
	printf '%s\tregistry\tbytes\t%s\n' "$1" $((($(resident "$registry") - before) / $1))
	"$bench/many" list "$((2000000 / $1 > 9 ? 9 : 2000000 / $1 + 1))" "${globs[@]}" 2>"$scratch/errors" >"$scratch/list" || fail "listing $1 names"
	sed "s/^/$1\tregistry\tlist\t/" "$scratch/list"
	idle 5 >"$scratch/idle"
	printf '%s\tregistry\tlook\t%s\n' "$1" "$(look_up "$1" index)"
	[ -n "$has_redis" ] || return 0
	start_redis
	before=$(resident "$redis")
	"$bench/many" set "$1" "$ANSWER" >"$scratch/set" 2>"$scratch/errors" || fail "$1 names in Redis"
	printf '%s\tredis\tshare\t%s\n' "$1" "$(awk -v n="$1" '{ print $1 * 1e6 / n }' "$scratch/set")"
	printf '%s\tredis\tbytes\t%s\n' "$1" $((($(resident "$redis") - before) / $1))
	"$bench/many" keys 3 "${globs[@]}" 2>"$scratch/errors" >"$scratch/list" || fail "Redis's KEYS"
	sed "s/^/$1\tredis\tlist\t/" "$scratch/list"
	printf '%s\tredis\tlook\t%s\n' "$1" "$(look_up "$1" redis)"
}

has_redis='' has_plot=''
! command -v redis-server >/dev/null 2>&1 || has_redis=$(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/')
! command -v gnuplot >/dev/null 2>&1 || has_plot=1
[ -n "$has_redis" ] || echo "skipped: Redis: redis-server is not installed"
[ -n "$has_plot" ] || echo "skipped: drawings: gnuplot is not installed"
echo "measuring the registry beside others; this takes some minutes"
load=$(cut -d' ' -f1 /proc/loadavg)
measure_trips
for count in "${MANY[@]}"; do
	measure_many "$count" >>"$scratch/many" || exit 1
done
stop_all
report
