# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153 # names of the tests that load it
# What the tests of freed memory that others have attached share.

PROGRAMS=(rt_app_static rt_app_shared drv_linked "drv_lookup gpa2_t")

# held NAME...: another process attaches them, in its slots a, b, ...; it detaches all when $WORK/leave
# comes, and tells by $WORK/left; its pid in HOLDER
held() {
	local letters=abcdefghij words=() leave=() at=0 name
	for name in "$@"; do
		words+=("attach=${letters:at:1},$name")
		leave+=("save=${letters:at:1},$WORK/is.$name" "detach=${letters:at:1}")
		at=$((at + 1))
	done
	start holder "$BIN/api_app" open "${words[@]}" touch="$WORK/held" await="$WORK/leave" \
		"${leave[@]}" touch="$WORK/left" await="$WORK/end"
	HOLDER=$PID
	await_file "$WORK/held"
	equal "$(grep -c ': OK$' "$WORK/holder.out")" $(($# + 1))
}

# owner RULES WORD...: the program PROGRAM; held by somebody else once it has made $WORK/up
owner() {
	rm -f "$WORK"/{up,held,go,freed,leave,left,again,done,end}
	start_named app "$1" "${PROGRAM[@]}" "${@:2}"
	OWNER=$PID
	await_file "$WORK/up"
}

leave() {
	touch "$WORK/leave"
	await_file "$WORK/left"
}

# The owner does not ask the registry more often than every 50 ms, and nobody sees when it last did.
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

# What is taken of the memory, MiB a line. On a GPU others take some of it too.
taken() {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || equal "$(said 'taken .*')" "$1"
}

setup_more() {
	UP=(touch="$WORK/up" await="$WORK/go")
	FREED=(touch="$WORK/freed" await="$WORK/again")
	END=(touch="$WORK/done" await="$WORK/end")
}
