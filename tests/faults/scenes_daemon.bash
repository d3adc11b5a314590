# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash in which the daemon's own calls fail, and its clients report what they see of it.
# in_our_functions: from a list of call sites, keep those in our functions. nng and other libraries are linked in too.
in_our_functions() {
	local named
	named=$(find "$BUILD"/obj/registry "$BUILD"/obj/gen -name '*.o' -print0 | xargs -0 nm --defined-only | sed -n 's/.* [tT] //p' | sort -u)
	awk -v named="$named" 'BEGIN { n = split(named, list, "\n"); for (i = 1; i <= n; i++) ours[list[i]] = 1 }
		NR == FNR { if ($2 ~ /^[tT]$/) { at[++count] = "x" $1; name[count] = $3 }; next }
		{ split($0, part, "+"); where = "x" substr("0000000000000000", length(part[2]) + 1) part[2]; low = 1; high = count
			while (low < high) { mid = int((low + high + 1) / 2); if (at[mid] < where) low = mid; else high = mid - 1 }
			if (name[low] in ours) print }' <(nm -n "$BUILD/gpushare-registry") -
}

# Wait until the daemon listens or has given up. If it has given up, the first client starts another one.
daemon_is_up() {
	local tries
	for ((tries = 0; tries < 500; tries++)); do
		[ ! -e "$GPUSHARE_DIR/fds.sock" ] || [ ! -e "$GPUSHARE_DIR/registry.sock" ] || return 0
		kill -0 "$REGISTRY" 2>/dev/null || return 0
		sleep 0.01
	done
	echo "wrong: no daemon is up"
}

# client WORD...: run api_faults, which itself reports what is wrong
client() {
	local code=0
	timeout -k 2 15 "$BIN/api_faults" "$@" 2>>"$WORK/clients.err" || code=$?
	[ $code = 0 ] || echo "wrong: api_faults $*: exit code $code"
}

program() {
	LD_PRELOAD=$BUILD/libgpushare_shim.so timeout -k 2 15 env "$1" "$BIN/drv_linked" init errno make=a,alloc,700Ki \
		fill=a,3 byte=a,4 drop=a make=b,vmm,2Mi fill=b,3 byte=b,5 drop=b exit=7 2>>"$WORK/clients.err"
	echo "exit $?"
}

# comes_or_ends PID [FILE]: wait until FILE exists or the process has ended; false if neither happens
comes_or_ends() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		[ ! -e "${2:-}" ] && kill -0 "$1" 2>/dev/null || return 0
		sleep 0.01
	done
	return 1
}

# Start a server; if it fails, start a second one. The daemon's fault may have hit the first.
with_a_server() {
	local tries
	for tries in 1 2; do
		GPUSHARE_TIMEOUT_MS=3000 "$BIN/api_faults" serve "$WORK/up" </dev/null >/dev/null 2>>"$WORK/clients.err" &
		SERVER_PID=$!
		comes_or_ends "$SERVER_PID" "$WORK/up" || echo "wrong: a server hangs"
		[ ! -e "$WORK/up" ] || break
		end_pids "$SERVER_PID"
	done
	[ -e "$WORK/up" ] || echo "wrong: no server, and the second one neither"
	rm -f "$WORK/up"
}

clients() {
	with_a_server
	client ipc vmm share
	client other othervmm otherhost mapped
	client events watch
	program GPUSHARE_NAME=w%i
	program GPUSHARE_NAME=k:keep
	"$BUILD/gpushare" rm k >/dev/null 2>&1
	"$BUILD/gpushare" ls >/dev/null 2>&1
}

ends_with() {
	local code=0
	end_pids ${SERVER_PID:+"$SERVER_PID"} 2>/dev/null
	BEFORE='0 0 0 0'
	"$BUILD/gpushare" rm k >/dev/null 2>&1
	registry_is_as_before || true
	kill -TERM "$REGISTRY" 2>/dev/null
	comes_or_ends "$REGISTRY" || kill -KILL "$REGISTRY"
	wait "$REGISTRY" 2>/dev/null || code=$?
	end_registries
	rm -rf "${GPUSHARE_DIR:?}"/*
	echo "daemon $code"
}

registry() {
	daemon() {
		LD_PRELOAD=$1 FAULT_AT=$2 "$BUILD/gpushare-registry" --foreground --idle-exit 0 --dir "$GPUSHARE_DIR" "${@:3}" \
			</dev/null >/dev/null 2>>"$WORK/daemon.err" &
		REGISTRY=$!
	}
	OF=gpushare-registry
	AT_LEAST=50
	sites_filter() {
		in_our_functions | grep -v '^\(ask\|fds\)\.'
	}
	prepare() {
		:
	}
	finish_scene() {
		end_registries
	}
	# The daemon exits with its connections open and its state in memory, so only files count. A keeper or a registry
	# that it started may report the same files when it exits, so each file counts once.
	nothing_left() {
		local list
		for list in "$WORK/left" "$WORK/left.plain"; do
			[ ! -e "$list" ] || sort -u -o "$list" "$list"
			sed -i '/^fd /!d; /^fd \(socket\|pipe\|anon_inode\|\/dev\)/d' "$list" 2>/dev/null
		done
		not_more "$1"
	}
	judge() {
		local code
		[ -s "$WORK/plain" ] || cp "$WORK/out" "$WORK/plain"
		code=$(sed -n 's/^daemon //p' "$WORK/out")
		! grep '^wrong' "$WORK/out" | grep -vE "(list: not once there|state: not shared|the name is there)$" || return 1
		! grep -m 1 '^the registry has' "$WORK/out" || return 1
		[ "$(grep -c '^exit 7$' "$WORK/out")" = 2 ] || { echo "a program's exit code"; return 1; }
		cmp -s <(sed -n '/^init/,/^exit/p' "$WORK/out") <(sed -n '/^init/,/^exit/p' "$WORK/plain") || { echo "a program's output"; return 1; }
		case $code in
		0) ;;
		1 | 2) [ -s "$WORK/daemon.err" ] || { echo "it gave up without a word"; return 1; } ;;
		*) echo "the daemon's exit code is $code"; return 1 ;;
		esac
	}
}

scene_registry() {
	registry
	LIMIT_MS=15000
	scene() {
		: >"$WORK/daemon.err" && : >"$WORK/clients.err"
		daemon "$FAULT_LIB" "$FAULT_AT"
		daemon_is_up
		unset FAULT_AT FAULT_RECORD FAULT_LEFT FAULT_HIT
		clients
		ends_with
		cat "$WORK/daemon.err" "$WORK/clients.err" >&2
	}
}

# The daemon with the faults takes over what a killed daemon left.
scene_successor() {
	registry
	LIMIT_MS=15000
	scene() {
		local at=$FAULT_AT record=${FAULT_RECORD:-} left=${FAULT_LEFT:-}
		: >"$WORK/daemon.err" && : >"$WORK/clients.err"
		unset FAULT_AT FAULT_RECORD FAULT_LEFT
		daemon "" ""
		daemon_is_up
		with_a_server
		program GPUSHARE_NAME=k:keep
		end_pids "$REGISTRY"
		FAULT_RECORD=$record FAULT_LEFT=$left daemon "$FAULT_LIB" "$at" --replace
		sleep 0.05
		daemon_is_up
		client other othervmm mapped
		client ipc
		program GPUSHARE_NAME=w%i
		ends_with
		cat "$WORK/daemon.err" "$WORK/clients.err" >&2
	}
}
