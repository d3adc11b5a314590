# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the tests of maps for the CPU.

setup_more() {
	export GPUSHARE_SIM_LOG=$WORK/log
}

# Not every GPU host has the Vulkan features that maps for the CPU need.
needs_map() {
	local said
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || return 0
	said=$(api open make=a,probe,2Mi,vmm map=m,a,0,1,r 2>&1)
	[[ $said == *"map m: OK"* ]] || skip "this host maps nothing: ${said##*map m: }"
}

# hostly WORD...: run api_app in a process where the simulated driver fails cuInit; a real driver ignores the fault
hostly() {
	env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0" GPUSHARE_SIM_FAIL="cuInit:1:99:100${FAULT:+,$FAULT}" "$BIN/api_app" open "$@" </dev/null
}

# owner RULE WORD...: start an unmodified program with a 4 MiB buffer of pattern 7; OWNER is its pid
owner() {
	begin_named owner "$1" "$BIN/rt_app_static" init alloc=a,4Mi fill=a,7 touch="$WORK/up" \
		await="$WORK/go" "${@:2}"
	OWNER=$PID
}

owner_ends() {
	touch "$WORK/go"
	finish "$OWNER"
}

# pattern PLACE: the byte of pattern 7 at offset PLACE
pattern() {
	echo $(((7 + $1 * 7 + ($1 >> 8) * 13) & 255))
}

# calls NAME: the number of calls to the Vulkan function vkNAME
calls() {
	grep -c " vk$1 " "$WORK/log" || true
}
