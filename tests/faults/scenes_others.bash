# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash with another process: a publisher, an attacher of a freed buffer, or the next registry.
scene_api_consume() {
	api consume
	SERVER=("$BIN/api_faults" publish)
	NAMES_VARY=some
}

# The same with ordering by host functions, on the CPU.
scene_api_consume_host_functions() {
	scene_api_consume
	SERVER=(env GPUSHARE_ORDERING=host-functions "${SERVER[@]}")
	scene() {
		GPUSHARE_ORDERING=host-functions LD_PRELOAD=$FAULT_LIB guarded "$BIN/api_faults" "${WORDS[@]}"
	}
}

scene_api_deferred() {
	api deferred
	SERVER=("$BIN/api_faults" hold)
}

scene_api_keep() {
	api keep
	forgets kept
}

# next_registry: when the file "up" appears, replace the registry by another one, then make the file "go"
next_registry() {
	rm -f "$WORK/up" "$WORK/go"
	(
		await "$WORK/up"
		unset FAULT_AT FAULT_HIT FAULT_LEFT FAULT_RECORD
		"$BUILD/gpushare-registry" --dir "$GPUSHARE_DIR" --idle-exit 0 --replace --ready-fd 3 3>"$WORK/ready" \
			</dev/null >/dev/null 2>&1 &
		for ((tries = 0; tries < 1000; tries++)); do
			[ ! -s "$WORK/ready" ] || break
			sleep 0.01
		done
		rm -f "$WORK/ready"
		: >"$WORK/go"
	) &
	NEXT=$!
}

# with_a_restart: play the scene in $WORK, and replace the registry during it
with_a_restart() {
	scene_as plays_on
	scene() {
		local code=0
		next_registry
		(cd "$WORK" && plays_on) || code=$?
		: >"$WORK/up" # it may have had no such moment
		wait $NEXT
		return $code
	}
	finish_scene() {
		end_pids ${SERVER_PID:+"$SERVER_PID"}
		end_registries
	}
}

scene_api_restart() {
	api restart
	with_a_restart
}

scene_restart() {
	preloaded 'GPUSHARE_NAME=a:nth=1,b:nth=2:vmm,c' "$BIN/drv_linked" init errno make=a,alloc,700Ki make=b,alloc,700Ki \
		fill=a,3 fill=b,4 touch=up await=go make=c,alloc,700Ki byte=a,4 byte=b,4 drop=a drop=b drop=c exit=7
	with_a_restart
	scene_as restarts
	scene() {
		if [ ! -s "$WORK/plain" ]; then
			: >"$WORK/go"
			(cd "$WORK" && without_us "" "${WORDS[@]}") >"$WORK/plain"
		fi
		restarts
	}
}

# The program frees a buffer that another process has attached, then continues and exits.
scene_deferred() {
	preloaded GPUSHARE_NAME=mine "$BIN/drv_linked" init errno make=a,alloc,700Ki fill=a,3 byte=a,4 touch=up await=go drop=a \
		make=b,alloc,700Ki fill=b,3 drop=b make=c,pool,700Ki drop=c exit=7
	SERVER=("$BIN/api_faults" hold)
	scene_as frees
	scene() {
		local code=0
		: >"$WORK/go"
		[ -s "$WORK/plain" ] || (cd "$WORK" && without_us "" "${WORDS[@]}") >"$WORK/plain"
		rm -f "$WORK/up" "$WORK/go"
		(
			await "$WORK/up"
			for ((tries = 0; tries < 10; tries++)); do
				[[ $(registry_has) != *' 1 0 '* ]] || break
			done
			: >"$WORK/go"
		) &
		(cd "$WORK" && frees) || code=$?
		: >"$WORK/up"
		wait $!
		return $code
	}
}
