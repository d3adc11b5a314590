# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash. scene_NAME sets whose calls fail (OF), and defines the functions that set the scene up
# (prepare), play it (scene), check the result (judge), check what is left (nothing_left), and end it (finish_scene).
FAULT_LIB=$BIN/lib_fault.so

guarded() {
	timeout -k 2 "$DEADLINE_S" "$@"
}

# slurp VARIABLE FILE: read the whole file, with its newlines at the end
slurp() {
	IFS= read -rd '' "$1" <"$2" || true
}

# Print the registry's counts. The descriptors are left out: an order page stays for ten seconds.
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

# Wait up to two seconds for the registry's counts to be as before the scene.
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

# scene_as NAME: the scene that was set up is also NAME(), for another scene() that calls it
scene_as() {
	local scene
	scene=$(declare -f scene)
	eval "$1() ${scene#*()}"
}

# forgets NAME: before what is left is checked, remove the name
forgets() {
	local check
	check=$(declare -f nothing_left)
	eval "other_names_left() ${check#*()}"
	FORGOTTEN=$1
	nothing_left() {
		"$BUILD/gpushare" rm "$FORGOTTEN" >/dev/null 2>&1
		other_names_left "$1"
	}
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

# Print a pattern of the complaints that the fault excuses. The request that finds the connection lost is answered
# before its names are back. And with a faked answer, the registry may say anything.
excused() {
	case $1 in
	ask.6@*=s* | ask.6@*=ok) echo "the name is there$" ;;
	ask.* | send@* | recv@* | poll@* | connect@*) echo "(list: not once there|state: not shared)$" ;;
	*) echo '^$' ;;
	esac
}

# api SCENE...: play scenes of api_faults, which itself reports what is wrong.
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
scene_api_attach_set() { api set; }
scene_api_mapped() { api mapped; }
scene_api_events() { api events; }
scene_api_watch() { api watch; }
scene_api_ask() { api ask; }
scene_api_rights() { api rights; }
scene_api_host() { api host; }
scene_api_parts() { api parts; }

# preloaded RULES PROGRAM WORD...: an unmodified program must print the same as without the preload.
FREES='^(drop|free) '
without_us() (
	local fault=$1
	shift
	cd "$WORK" && GPUSHARE_SIM_FAIL=$fault guarded "$@" 2>/dev/null </dev/null | same_addresses
	echo "exit ${PIPESTATUS[0]}"
)

# After a call of the program itself has failed, it prints an address that differs from run to run.
same_addresses() {
	sed -E 's/\+[0-9]{10,}/+ADDRESS/'
}

# Could a failure of the program's own call have made this output? The outputs are kept: many sites call the same.
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

# If an attached buffer can't be released, the program's free fails with the driver's error. The same holds if the
# driver can't say whether a stream is being captured.
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

# each_way SIZE WAY...: in DOINGS, a program's steps that allocate memory in each way, use it, and free it twice
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
	# if our release of the context fails, nobody else can release it
	sites_filter() {
		grep -v '^cuDevicePrimaryCtxRelease'
	}
}

# A kept buffer stays, and a later run adopts it.
scene_kept() {
	each_way 700Ki alloc
	preloaded GPUSHARE_NAME=k:keep:adopt "$BIN/drv_linked" "${DOINGS[@]}"
	forgets k
}

# The program's first need of a registry starts one.
scene_start() {
	preloaded GPUSHARE_NAME=w%i "$BIN/drv_linked" init errno make=a,alloc,700Ki fill=a,3 byte=a,4 drop=a exit=7
	MUST_CALL='clone waitpid execve'
	scene_as first_scene
	# end the registry of the run before, or the program would find it
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
