# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash: scene_NAME says whose calls fail (OF), what is there beforehand (prepare), what
# is played (scene), what of it must be so (judge), what may be left (nothing_left), and what ends it
# (finish_scene).
FAULT_LIB=$BIN/lib_fault.so

guarded() {
	timeout -k 2 "$DEADLINE_S" "$@"
}

number_of() {
	sed -n "s/^  \"$1\": \([0-9]*\),*$/\1/p" <<<"$2"
}

# What the registry has. Not its descriptors: an order page stays for ten seconds.
registry_has() {
	local said
	said=$(GPUSHARE_TIMEOUT_MS=5000 "$BUILD/gpushare" stat --json 2>&1) || { echo "no answer: $said"; return; }
	echo "$(number_of names "$said") $(number_of attachments "$said") $(number_of limbo "$said") $(number_of waiters "$said")"
}

# As before the scene, a moment after its end at the latest.
registry_is_as_before() {
	local has tries
	for ((tries = 0; tries < 200; tries++)); do
		has=$(registry_has)
		[ "$has" != "$BEFORE" ] || return 0
		sleep 0.01
	done
	echo "the registry has (names, attachments, limbo, waiters) $has, before it had $BEFORE"
	return 1
}

start_registry() {
	"$BUILD/gpushare-registry" --dir "$GPUSHARE_DIR" --idle-exit 0 </dev/null >/dev/null 2>&1 &
	REGISTRY=$!
	await "$GPUSHARE_DIR/fds.sock"
}

await() {
	local tries
	for ((tries = 0; tries < 1000; tries++)); do
		[ ! -e "$1" ] || return 0
		sleep 0.01
	done
	return 1
}

with_a_registry() {
	prepare() {
		start_registry || return 1
		if [ -n "${SERVER:-}" ]; then
			GPUSHARE_TIMEOUT_MS=5000 "${SERVER[@]}" "$WORK/up" </dev/null >"$WORK/server.out" 2>&1 &
			SERVER_PID=$!
			await "$WORK/up" || return 1
		fi
		BEFORE=$(registry_has)
	}
	finish_scene() {
		end_pids ${SERVER_PID:+"$SERVER_PID"} "$REGISTRY"
	}
	nothing_left() {
		not_more "$1" && registry_is_as_before
	}
}

# A connection that was lost brings its names back behind the question that found it so; and a registry
# may say anything of what it was told.
excused() {
	case $1 in
	ask.6@*=s* | ask.6@*=ok) echo "the name is there$" ;;
	ask.* | send@* | recv@* | poll@* | connect@*) echo "(list: not once there|state: not shared)$" ;;
	*) echo '^$' ;;
	esac
}

# api SCENE...: api_faults says itself what is wrong.
api() {
	OF=libgpushare.so.0
	WORDS=("$@")
	with_a_registry
	SERVER=("$BIN/api_faults" serve)
	scene() {
		LD_PRELOAD=$FAULT_LIB guarded "$BIN/api_faults" "${WORDS[@]}"
	}
	judge() {
		[ "$code" = 0 ] || { echo "exit code $code"; return 1; }
		! grep '^wrong' "$WORK/out" | grep -vE "$(excused "$1")" || return 1
		is_release "$1" || [ "$(grep -c '^left -*[0-9]* -*[0-9]*$' "$WORK/out")" = 1 ] || { echo "no end"; return 1; }
		is_release "$1" || [[ $(tail -n 1 "$WORK/out") =~ ^left\ (0|-[0-9]*)\ (0|-[0-9]*)$ ]] || {
			echo "$(tail -n 1 "$WORK/out"): descriptors, device bytes"
			return 1
		}
	}
}

scene_api_ipc() { api ipc; }
scene_api_vmm() { api vmm; }
scene_api_unified() { api unified; }
scene_api_share() { api share; }
scene_api_attach() { api other; }
scene_api_attach_vmm() { api othervmm; }
scene_api_attach_unified() { api otherhost; }
scene_api_host() { api host; }
scene_api_events() { api events; }
scene_api_watch() { api watch; }
