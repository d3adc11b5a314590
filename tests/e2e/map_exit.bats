#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A process maps a buffer for the CPU and forks. The exit handler of NVIDIA's Vulkan driver must not run in the child.
# Also tests how the parent ends.
load helpers
load in_maps

# bounded COMMAND...: kill COMMAND after 60 s by SIGKILL, because a process that hangs in exit ignores other signals
bounded() {
	timeout -s KILL 60 "$@"
}

# mapping WORD...: like hostly, with the owner's buffer w mapped as m, and unmapped after WORD...; the exit code is 7
mapping() {
	run -7 bounded env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0" GPUSHARE_SIM_FAIL=cuInit:1:99:100 "$BIN/api_app" open \
		attach=b,w,0,host map=m,b,0,4Mi,rw "$@" load=m,5 unmap=m map=n,b,5,1,rw load=n,0 exit=7 </dev/null
	output=$(sed '1,/^map m/d; /^load m: 42$/,$d' <<<"$output")
}

@test "its code stands, by whatever way it ends, and the parent goes on mapping and ends well" {
	needs_map
	owner w:map
	mapping child=fork,1 exit=5 child=fork,0 child=fork,1 thread=exit,6 \
		child=fork,3 child=fork,1 exit=9 exit=4 child=double,1 exit=3 \
		child=fork,1 _exit=10 child=fork,1 quick_exit=11 child=exec,1 exit=12
	equal "$output" "child fork: 5
child fork: 0
child fork: 6
child fork: 9
child fork: 4
child double: 0
child fork: 10
child fork: 11
child exec: 12"
}

@test "what it printed is there; handlers run that were registered after the first map, in the parent all" {
	needs_map
	owner w:map
	mapping child=fork,1 exit=5
	equal "$(bounded env GPUSHARE_SIM_FAIL=cuInit:1:99:100 "$BIN/api_app" later=mutter,-before last=mutter,-destructor \
		open attach=b,w,0,host map=m,b,0,4Mi,rw later=mutter,-after unmap=m \
		child=fork,3 later=mutter,-own mutter=words exit=5 mutter=parent </dev/null | sed 1,3d)" "unmap m: OK
words-own-afterchild fork: 5
parent-after-before-destructor"
}

@test "the first process of a pid namespace, forked from another one's: no pid tells the two apart" {
	needs_sim
	unshare -Urpf --mount-proc true 2>/dev/null || skip "unshare(1) is not allowed here"
	api open make=a,kept,2Mi,keep fill=a,7 close >/dev/null
	run -7 bounded env GPUSHARE_SIM_FAIL=cuInit:1:99:100 unshare -Urpf --kill-child --mount-proc "$BIN/api_app" open \
		attach=b,kept,0,host map=m,b,0,2Mi,rw child=first,3 pid="$WORK/pid" map=n,b,5,1,rw exit=5 load=m,5 unmap=m exit=7
	equal "$output" "open: OK
attach kept: OK
map m: OK
map n: E_FORKED
the session was opened by process 1 before fork(); call gpushare_open() in this process
child first: 5
load m: 42
unmap m: OK"
	equal "$(cat "$WORK/pid")" 1
}

@test "a second GPU: its driver's handlers, too" {
	needs_sim
	export GPUSHARE_SIM_DEVICES=2
	api open make=a,one,2Mi,keep close >/dev/null
	CUDA_VISIBLE_DEVICES=1 api open make=a,two,2Mi,keep close >/dev/null
	run -7 bounded "$BIN/api_app" open attach=a,one,0,host map=m,a,0,1,r child=fork,1 exit=5 attach=b,two,0,host \
		map=n,b,0,1,r child=fork,1 exit=6 unmap=m unmap=n exit=7
	equal "$(grep child <<<"$output")" "child fork: 5
child fork: 6"
	equal "$(calls CreateDevice)" 2
}

@test "a plug-in that has mapped stays loaded after dlclose, and one that has not is gone" {
	needs_map
	owner w:map
	# drv_loader is not instrumented, but the library may be.
	run -7 bounded env LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:-}" "$BIN/drv_loader" open=p,"$BIN/lib_mapping.so" close=p open=p,"$BIN/lib_mapping.so" \
		call=p,mapping_open child=fork,1 exit=5 call=p,mapping_load call=p,mapping_close close=p \
		child=fork,1 exit=6 exit=7
	equal "$(grep -v '^moved' <<<"$output")" "open p: ok
close p: 0, gone
open p: ok
call mapping_open: 0
child fork: 5
call mapping_load: 42
call mapping_close: 0
close p: 0, stays
child fork: 6"
}
