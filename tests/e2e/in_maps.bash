# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests of maps for the CPU share.

setup_more() {
	export GPUSHARE_SIM_LOG=$WORK/log
}

# Vulkan, as far as this takes it, is not on every host with a GPU.
needs_map() {
	local said
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || return 0
	said=$(api open make=a,probe,2Mi,vmm map=m,a,0,1,r 2>&1)
	[[ $said == *"map m: OK"* ]] || skip "this host maps nothing: ${said##*map m: }"
}

# hostly WORD...: api_app in a process that can't start CUDA, on the simulated driver at least
hostly() {
	env ASAN_OPTIONS=handle_segv=0 GPUSHARE_SIM_FAIL="cuInit:1:99:100${FAULT:+,$FAULT}" "$BIN/api_app" open "$@" </dev/null
}

# owner RULE WORD...: an unmodified program, its 4 MiB filled with pattern 7
owner() {
	start_named owner "$1" "$BIN/rt_app_static" init alloc=a,4Mi fill=a,7 touch="$WORK/up" \
		await="$WORK/go" "${@:2}"
	await_file "$WORK/up"
	OWNER=$PID
}

owner_ends() {
	touch "$WORK/go"
	finish "$OWNER"
}

# pattern PLACE: the byte there, of pattern 7
pattern() {
	echo $(((7 + $1 * 7 + ($1 >> 8) * 13) & 255))
}

# calls NAME: how often Vulkan was called so
calls() {
	grep -c " vk$1 " "$WORK/log" || true
}
