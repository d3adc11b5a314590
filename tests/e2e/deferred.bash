# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # names of the tests that load it
# Shared by the tests of named memory that its owner frees while other processes have it attached.

PROGRAMS=(rt_app_static rt_app_shared drv_linked "drv_lookup gpa2_t")

# held NAME...: another process attaches the names in its slots a, b, ...; when $WORK/leave appears, it detaches
# all and creates $WORK/left; HOLDER is its pid
held() {
	local letters=abcdefghij words=() leave=() at=0 name
	for name in "$@"; do
		words+=("attach=${letters:at:1},$name")
		leave+=("save=${letters:at:1},$WORK/is.$name" "detach=${letters:at:1}")
		at=$((at + 1))
	done
	begin holder "$BIN/api_app" open "${words[@]}" touch="$WORK/held" await="$WORK/leave" \
		"${leave[@]}" touch="$WORK/left" await="$WORK/end"
	HOLDER=$PID
	equal "$(grep -c ': OK$' "$WORK/holder.out")" $(($# + 1))
}

# owner RULES WORD...: start PROGRAM under the preload and wait until it has created $WORK/up; OWNER is its pid
owner() {
	rm -f "$WORK"/{up,held,go,freed,leave,left,again,done,end}
	start_named app "$1" "${PROGRAM[@]}" "${@:2}"
	OWNER=$PID
	await_file "$WORK/up"
}

leave() {
	resume leave left
}

# The owner asks the registry at most once every 50 ms, and nothing shows when it last asked.
deferred_pause() {
	sleep 0.06
}

deferred() {
	gpushare ls --deferred --json >"$WORK/ls.json" || echo failed
	jq -r '.[] | "\(.name) \(.attachers)"' "$WORK/ls.json"
}

deferred_is() {
	[ "$(deferred)" = "$1" ]
}

said() {
	sed -n "s/^$1: //p" "$WORK/app.out"
}

# The "taken" lines of the program: how much of the GPU's memory is in use, MiB a line. Not compared on a real GPU,
# where other processes use memory too.
taken() {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || equal "$(said 'taken .*')" "$1"
}

setup_more() {
	UP=(touch="$WORK/up" await="$WORK/go")
	FREED=(touch="$WORK/freed" await="$WORK/again")
	END=(touch="$WORK/done" await="$WORK/end")
}
