# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash: scene_NAME says whose calls fail (OF), what is there beforehand (prepare), what
# is played (scene), what of it must be so (judge), what may be left (nothing_left), and what ends it
# (finish_scene).
FAULT_LIB=$BIN/lib_fault.so

guarded() {
	timeout -k 2 "$DEADLINE_S" "$@"
}

# slurp VARIABLE FILE: all of it, as it is
slurp() {
	IFS= read -rd '' "$1" <"$2" || true
}

# What the registry has. Not its descriptors: an order page stays for ten seconds.
registry_has() {
	local said one has=
	said=$(GPUSHARE_TIMEOUT_MS=5000 "$BUILD/gpushare" stat --json 2>&1) || { echo "no answer: $said"; return; }
	for one in names attachments deferred waiters; do
		[[ $said =~ \"$one\":\ ([0-9]+) ]]
		has+=" ${BASH_REMATCH[1]}"
	done
	has=${has# }
	echo "${NAMES_VARY:-${has%% *}} ${has#* }"
}

# As before the scene, a moment after its end at the latest.
registry_is_as_before() {
	local has tries
	for ((tries = 0; tries < 200; tries++)); do
		has=$(registry_has)
		[ "$has" != "$BEFORE" ] || return 0
		sleep 0.01
	done
	echo "the registry has (names, attachments, deferred, waiters) $has, before it had $BEFORE"
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
		local said
		[ "$code" = 0 ] || { echo "exit code $code"; return 1; }
		slurp said "$WORK/out"
		[[ $'\n'$said != *$'\nleft 0 0\n' || $'\n'$said == *$'\n'wrong* || $'\n'$said == *$'\nleft '*$'\nleft '* ]] || return 0
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
scene_api_mapped() { api mapped; }
scene_api_events() { api events; }
scene_api_watch() { api watch; }
scene_api_ask() { api ask; }
scene_api_rights() { api rights; }
scene_api_host() { api host; }

# preloaded PRELOAD RULES PROGRAM WORD...: an unmodified program says what it says without us.
FREES='^(drop|free) '
without_us() (
	local fault=$1
	shift
	cd "$WORK" && GPUSHARE_SIM_FAIL=$fault guarded "$@" 2>/dev/null </dev/null | same_addresses
	echo "exit ${PIPESTATUS[0]}"
)

# An address that is printed after a call of the program's own has failed is another in each run.
same_addresses() {
	sed -E 's/\+[0-9]{10,}/+ADDRESS/'
}

# Could a failure of the program's own call have made it? Remembered: many sites are of one call.
own_fault() {
	local nth file=$TOP/own.$1
	[[ $1 == cu* ]] || return 1
	if [ ! -d "$file" ]; then
		mkdir "$file.$WORKER"
		for nth in 1 2 3 4 5 6 7 8; do without_us "$1:$nth:1" "${WORDS[@]}" >"$file.$WORKER/$nth"; done
		mv -T "$file.$WORKER" "$file" 2>/dev/null || rm -rf "$file.$WORKER"
	fi
	for nth in "$file"/*; do
		! cmp -s "$nth" "$WORK/said" || return 0
	done
	return 1
}

# An attached buffer that can't be given back is a free that fails as the driver says; so is a stream of
# which it does not say whether it is captured.
refused_free() {
	[[ $1 == cuStreamIsCapturing@* ]] || { [ -n "${ATTACHES:-}" ] && is_release "$1"; } || return 1
	cmp -s <(grep -vE "$FREES" "$WORK/said") <(grep -vE "$FREES" "$WORK/plain")
}

preloaded() {
	OF=libgpushare_shim.so
	RULES=$1
	shift
	WORDS=("$@")
	with_a_registry
	AT_LEAST=60
	scene() {
		[ -s "$WORK/plain" ] || without_us "" "${WORDS[@]}" >"$WORK/plain"
		# shellcheck disable=SC2086
		LD_PRELOAD="$FAULT_LIB $BUILD/libgpushare_shim.so" guarded env $RULES "${WORDS[@]}"
	}
	judge() {
		local said plain
		slurp said "$WORK/out"
		slurp plain "$WORK/plain"
		[ "$said""exit $code"$'\n' != "$plain" ] || return 0
		{ same_addresses <"$WORK/out"; echo "exit $code"; } >"$WORK/said"
		[ "${code:-0}" -lt 128 ] || [ "$code" = "$(sed -n 's/^exit //p' "$WORK/plain")" ] || { echo "exit code $code"; return 1; }
		cmp -s "$WORK/said" "$WORK/plain" || own_fault "${1%%@*}" || refused_free "$1" || {
			echo "another output than without us:"
			diff "$WORK/plain" "$WORK/said"
			return 1
		}
	}
}

# each_way SIZE WAY...: what a program does with memory that it makes so, and frees twice
each_way() {
	local way size=$1
	shift
	DOINGS=(init errno)
	for way in "$@"; do
		DOINGS+=("make=a,$way,$size" "fill=a,3" "byte=a,4" range=a drop=a drop=a)
	done
	DOINGS+=(exit=7)
}

scene_names() {
	each_way 700Ki alloc pitch async pool vmm
	preloaded GPUSHARE_NAME=w%i "$BIN/drv_linked" "${DOINGS[@]}"
}

scene_managed() {
	each_way 700Ki managed
	preloaded GPUSHARE_NAME=w%i:unified "$BIN/drv_linked" "${DOINGS[@]}"
}

scene_mapped() {
	each_way 700Ki alloc pitch async
	preloaded GPUSHARE_NAME=w%i:vmm "$BIN/drv_linked" "${DOINGS[@]}"
}

scene_runtime() {
	preloaded GPUSHARE_NAME=w%i "$BIN/rt_app_static" init alloc=a,1Mi fill=a,3 byte=a,1 free=a pitch=b,100,3 free=b exit=7
}

scene_attached() {
	each_way 3Mi alloc async vmm
	preloaded GPUSHARE_ATTACH=other:nth=1,othervmm:nth=2,othervmm:nth=3 "$BIN/drv_linked" "${DOINGS[@]}"
	SERVER=("$BIN/api_faults" serve)
	ATTACHES=1
}

scene_published() {
	preloaded 'GPUSHARE_PUBLISH=sync GPUSHARE_NAME=w%i' "$BIN/drv_linked" init alloc=x,1Mi stream=s fill=x,3 go=s fill=x,5 \
		go=s byte=x,4 free=x exit=7
}

scene_contexts() {
	preloaded GPUSHARE_NAME=w%i "$BIN/drv_linked" init errno make=a,alloc,700Ki primary=reset primary=retain \
		ctxset=primary make=b,vmm,700Ki primary=release primary=release drop=b ctxnew=c make=d,alloc,1Mi \
		ctxdestroy=c drop=d exit=7
	# a context that we could not give back nobody can
	sites_filter() {
		grep -v '^cuDevicePrimaryCtxRelease'
	}
}

# What is kept stays, and is somebody's who comes again.
scene_kept() {
	each_way 700Ki alloc
	preloaded GPUSHARE_NAME=k:keep:adopt "$BIN/drv_linked" "${DOINGS[@]}"
	nothing_left() {
		"$BUILD/gpushare" rm k >/dev/null 2>&1
		not_more "$1" && registry_is_as_before
	}
}

# The registry is started by who is the first to need it.
scene_start() {
	preloaded GPUSHARE_NAME=w%i "$BIN/drv_linked" init errno make=a,alloc,700Ki fill=a,3 byte=a,4 drop=a exit=7
	MUST_CALL='clone waitpid execve'
	eval "first_$(declare -f scene)"
	# one that the run before has started would be found
	scene() {
		end_registries
		rm -rf "${GPUSHARE_DIR:?}"/*
		first_scene
	}
	prepare() {
		:
	}
	nothing_left() {
		end_registries
		rm -rf "${GPUSHARE_DIR:?}"/*
		not_more "$1"
	}
	finish_scene() {
		end_registries
	}
}
