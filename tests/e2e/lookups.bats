#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What dlsym and cuGetProcAddress return: the same as without the preload, except the allocation functions of the driver
# if there are rules.
load helpers
load three_ways

# both_orders LIBRARIES COMMAND...: run COMMAND with the libraries before the shim, then behind it
both_orders() {
	BEFORE=$1 BEHIND='' "${@:2}"
	BEFORE='' BEHIND=$1 "${@:2}"
}

# missing HANDLE...: a look-up there finds no function of the driver, and dlerror reports it in its usual words
missing() {
	local name handle names=(cuMemAlloc_v2 cuMemFree_v2 cuGetProcAddress cuGetProcAddress_v2
		cuMemAllocManaged cudaMalloc cudaFree cuInit cuNoSuchCall cu c '' dlsym_)
	for handle in "$@"; do
		for name in "${names[@]}"; do
			three_ways "$BIN/drv_loader" "find=$handle,$name"
			has "$plain" "undefined symbol: $name"
		done
	done
}

@test "no driver loaded: a miss is a miss, with dlerror's own words" {
	missing default
}

@test "no driver loaded: each name that the preload exports is a miss" {
	local name exports script=()
	exports=$(readelf --dyn-syms -W "$SHIM" | awk '$7 != "UND" && $8 ~ /^cu/ { sub(/@.*/, "", $8); print $8 }')
	for name in $exports; do
		script+=(find={default,self,next},"$name")
	done
	three_ways "$BIN/drv_loader" "${script[@]}"
	equal "$(grep -c 'undefined symbol: cu' <<<"$plain")" ${#script[@]}
	[ ${#script[@]} -gt 150 ]
}

@test "no driver loaded: a miss in the program's own handle" {
	missing self
}

@test "no driver loaded: nothing is next" {
	missing next
}

@test "a driver loaded locally: not in everybody's scope, found by its handle" {
	for handle in default self next; do
		three_ways "$BIN/drv_loader" open=c,libcuda.so.1 find=$handle,cuMemAlloc_v2 \
			find=$handle,cuMemAlloc find=c,cuMemAlloc_v2 find=c,cuMemAlloc_v3 \
			find=c,cuMemAlloc find=c,
		has "$plain" "undefined symbol: cuMemAlloc_v2"
		has "$plain" "find cuMemAlloc_v2: found"
	done
}

@test "a driver loaded globally: found through every handle, and what is found works" {
	for handle in default self; do
		recorded "w0 1048576" "$BIN/drv_loader" open=c,libcuda.so.1,global \
			find=$handle,cuMemAlloc_v2 use=$handle init alloc=a,1Mi
		has "$plain" "find cuMemAlloc_v2: found"
	done
}

@test "names that merely begin as the driver's, and a library with stubs of the driver's names" {
	script=(open=s,"$BIN/lib_stubs.so")
	for name in cudnnCreate cuMemAllocSomething custom cuda cuGetProcAddress_v3 cuMemAlloc_v \
		cuMemAlloc_v2_ptsz cuM CuMemAlloc_v2 cuMemAlloc_v2 cuMemFree_v2 cuGetProcAddress \
		cuGetProcAddress_v2 cudaMalloc cudaFree; do
		script+=(call=s,$name)
	done
	three_ways "$BIN/drv_loader" "${script[@]}"
	equal "$(sed -n 's/^call .*: //p' <<<"$plain")" "$(seq 1 15)"
	three_ways "$BIN/drv_loader" open=c,libcuda.so.1,global "${script[@]}"
	equal "$(sed -n 's/^call .*: //p' <<<"$plain")" "$(seq 1 15)"
}

@test "names of any length" {
	for length in 14 64 255 256 4096 1Mi; do
		for handle in default self c; do
			three_ways "$BIN/drv_loader" open=c,libcuda.so.1 long=$handle,$length
		done
	done
	has "$plain" "long: missing, message of 104"
}

@test "RTLD_NEXT from a library that has an allocator of its own, both orders" {
	for program in drv_linked "drv_lookup dlsym" "drv_lookup gpa2"; do
		# shellcheck disable=SC2086 # its words
		both_orders "$BIN/lib_interposer.so" recorded "w0 1048576" "$BIN/"$program init alloc=a,1Mi
	done
}

@test "another preloaded dlsym answers what only it knows, both orders" {
	both_orders "$BIN/lib_dlsym.so" three_ways "$BIN/drv_loader" call=default,wrapper_answer \
		open=c,libcuda.so.1 find=c,cuInit find=c,cuMemAlloc_v2
	has "$plain" "call wrapper_answer: 21"
}

@test "another preloaded dlsym: the buffer of a linked program has one name, both orders" {
	both_orders "$BIN/lib_dlsym.so" recorded "w0 1048576" "$BIN/drv_linked" init alloc=a,1Mi
}

@test "another preloaded dlsym behind us: the buffer of a program that looks up has one name" {
	# Before the shim, the library calls the C library's dlsym directly. The shim doesn't see the look-up and names
	# nothing.
	BEHIND=$BIN/lib_dlsym.so
	recorded "w0 1048576" "$BIN/drv_loader" open=c,libcuda.so.1 use=c init alloc=a,1Mi
	BEFORE=$BEHIND BEHIND=''
	three_ways "$BIN/drv_loader" open=c,libcuda.so.1 use=c init alloc=a,1Mi free=a
}

@test "an OpenMP runtime probes for tools: found, not found, from constructors" {
	runtime=$BIN/lib_ompt.so tool=$BIN/lib_ompt_tool.so
	for libraries in "$runtime" "$tool" "$runtime $tool" "$tool $runtime"; do
		both_orders "$libraries" three_ways "$BIN/drv_loader" find=default,ompt_start_tool \
			call=default,ompt_start_tool call=default,ompt_start_tool
		has "$plain" "find ompt_start_tool: found"
	done
	# One library before the shim and one behind it.
	BEFORE=$runtime BEHIND=$tool
	three_ways "$BIN/drv_loader" call=default,ompt_start_tool
	has "$plain" "call ompt_start_tool: 5"
}

@test "weak references without CUDA: what we export resolves, and fails as it must" {
	# The loader resolves a weak reference to the shim's exports, so the preload is visible here. If the program
	# calls them without a driver or a runtime, they return an error.
	plain=$(as_usual "$BIN/drv_loader" open=w,"$BIN/lib_weak.so" call=w,weak_answers)
	equal "$(grep -c absent <<<"$plain")" 8
	for rules in "" 'w%i'; do
		run -0 --separate-stderr env LD_PRELOAD="$(preloads yes)" GPUSHARE_NAME="$rules" \
			"$BIN/drv_loader" open=w,"$BIN/lib_weak.so" call=w,weak_answers
		equal "$stderr" ""
		equal "$(grep -v '^cu' <<<"$output")" "$(grep -v '^cu' <<<"$plain")"
		equal "$(sed -n 's/^\(cuInit\|cuCtxGetDevice\|cudaGetDeviceCount\): //p' <<<"$output" | uniq)" absent
		# driver: CUDA_ERROR_NOT_INITIALIZED; runtime: cudaErrorInitializationError (3),
		# or cudaErrorInsufficientDriver (35)
		[[ ! $output =~ cu[A-Z][A-Za-z_0-9]*:\ answers\ ([^3]|3[0-9]) ]]
		[[ ! $output =~ cuda[A-Za-z]*:\ answers\ ([0-24-9]|3[0-46-9]) ]]
	done
	equal "$(names)" ""
}

@test "weak references with a driver: the real ones" {
	as_usual "$BIN/drv_loader" open=c,libcuda.so.1,global open=w,"$BIN/lib_weak.so" \
		call=w,weak_answers >"$WORK/plain"
	run -0 --separate-stderr env LD_PRELOAD="$(preloads yes)" "$BIN/drv_loader" \
		open=c,libcuda.so.1,global open=w,"$BIN/lib_weak.so" call=w,weak_answers
	equal "$stderr" ""
	equal "$(grep -v ^cuda <<<"$output")" "$(grep -v ^cuda "$WORK/plain")"
}

@test "RTLD_DEFAULT from a local plug-in that is linked against the driver" {
	recorded "w0 1048576
w1 2097152" "$BIN/drv_loader" open=p,"$BIN/lib_linked_plugin.so" call=p,plugin_init \
		call=p,plugin_alloc call=p,plugin_alloc_found
	equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
	three_ways "$BIN/drv_loader" open=q,"$BIN/lib_plugin.so" call=q,plugin_finds_itself
	has "$plain" "call plugin_finds_itself: 42"
}

@test "the driver's look-ups in itself are answered with its own" {
	cp "$BIN/lib_driver_self.so" "$WORK/libcuda.so.999"
	cp "$BIN/lib_driver_self.so" "$WORK/libother.so"
	three_ways "$BIN/drv_loader" open=c,libcuda.so.1 open=d,"$WORK/libcuda.so.999" \
		call=d,driver_finds_itself use=c init alloc=a,1Mi call=d,driver_finds_itself free=a
	equal "$(grep -c 'driver_finds_itself: 4' <<<"$plain")" 2
	# The same code in another library finds the hooks, so the test above is able to fail.
	run -0 named 'w%i' "$BIN/drv_loader" open=c,libcuda.so.1 open=d,"$WORK/libother.so" \
		call=d,driver_finds_itself
	has "$output" "driver_finds_itself: 0"
}

@test "whose the pointers are: the driver's without rules, ours with" {
	script=(open=c,libcuda.so.1 owner=c,cuMemAlloc_v2 owner=c,cuMemFree_v2 owner=c,cuMemAlloc
		owner=c,cuMemFree owner=c,cuMemcpyHtoD_v2 owner=c,cuGetErrorName)
	plain=$(as_usual "$BIN/drv_loader" "${script[@]}")
	equal "$(env LD_PRELOAD="$(preloads yes)" "$BIN/drv_loader" "${script[@]}")" "$plain"
	equal "$(named 'w%i' "$BIN/drv_loader" "${script[@]}" | grep shim)" \
		"owner cuMemAlloc_v2: libgpushare_shim.so
owner cuMemFree_v2: libgpushare_shim.so"
	script=(open=c,libcuda.so.1)
	for name in cuStreamSynchronize cuStreamSynchronize_ptsz cuCtxSynchronize cuEventSynchronize; do
		script+=(owner=c,$name)
	done
	equal "$(named 'w%i' "$BIN/drv_loader" "${script[@]}" | grep -c shim)" 0
	equal "$(GPUSHARE_PUBLISH=sync named 'w%i' "$BIN/drv_loader" "${script[@]}" | grep -c ': libgpushare_shim.so$')" 4
}

@test "cuGetProcAddress, all that can be asked: codes, status, and the pointer that dlsym gives" {
	three_ways "$BIN/drv_proc"
	has "$plain" "entries: cuGetProcAddress cuGetProcAddress_v2"
	# A driver may write through a NULL result. Don't make that call if it crashes without the preload.
	local null=" null 1"
	[[ $plain != *"4 parameters, NULL result: signal"* ]] || null=
	has "$plain" "cuMemAlloc 2000 0: 0 cuMemAlloc$null |"
	has "$plain" "cuMemAlloc 3020 0: 0 cuMemAlloc_v2$null |"
	has "$plain" "cuMemAllocAsync 12000 2: 0 cuMemAllocAsync_ptsz$null |"
}

@test "cuGetProcAddress: replaced with rules from the version on that means the 64-bit call" {
	plain=$(as_usual "$BIN/drv_proc" owners)
	[[ $plain != *preload* && $plain == *driver* ]]
	equal "$(env LD_PRELOAD="$(preloads yes)" "$BIN/drv_proc" owners)" "$plain"
	with=$(named 'w%i' "$BIN/drv_proc" owners)
	equal "${with//: preload/: driver}" "$plain"
	for call in cuMemAlloc cuMemAllocPitch cuMemFree; do
		for flags in 0 1 2; do
			has "$with" "$call 2000 $flags: driver"
			for version in 3020 11030 12000 13000; do
				has "$with" "$call $version $flags: preload"
			done
		done
	done
	for version in 11030 12000 13000; do
		has "$with" "cuGetProcAddress $version 0: preload"
	done
	run -1 grep -E '^(cuInit|cuGetErrorName|cuMemcpyHtoD|cuMemGetInfo) .*preload' <<<"$with"
}

@test "cuGetProcAddress of a driver that lacks an API" {
	needs_sim
	for call in cuMemAlloc cuMemAlloc_v2 cuMemFree_v2 cuGetProcAddress cuGetProcAddress_v2 \
		cuMemAllocAsync cuCtxGetDevice cuIpcGetMemHandle; do
		GPUSHARE_SIM_LACKS=$call three_ways "$BIN/drv_proc"
		has "$plain" "${call%_v2} 3020 0: "
	done
}

@test "a driver without cuGetProcAddress_v2" {
	needs_sim
	export LD_LIBRARY_PATH=$BUILD/sim/old:$LD_LIBRARY_PATH
	three_ways "$BIN/drv_proc"
	has "$plain" "cuMemAlloc 3020 0: 0 cuMemAlloc_v2 null 1"
	equal "$(head -n 1 <<<"$plain")" "entries: cuGetProcAddress"
	for cudart in 11 12 13; do
		for kind in static shared; do
			GPUSHARE_SIM_CUDART=$cudart recorded "w0 1048576" "$BIN/rt_app_$kind" init alloc=a,1Mi
		done
	done
}

@test "a driver without any cuGetProcAddress" {
	needs_sim
	[ -e "$BUILD/sim/ancient/libcuda.so.1" ] || skip "no simulated driver without cuGetProcAddress: sim/ancient"
	export LD_LIBRARY_PATH=$BUILD/sim/ancient:$LD_LIBRARY_PATH
	three_ways "$BIN/drv_proc"
	equal "$plain" "entries:"
	recorded "w0 1048576" "$BIN/rt_app_static" init alloc=a,1Mi
	recorded "w0 1048576" "$BIN/drv_lookup" dlsym init alloc=a,1Mi
}

@test "cudaGetDriverEntryPoint: one name a buffer, whatever its flags" {
	for kind in static shared; do
		for flags in 0 1 2; do
			recorded "w0 1048576" "$BIN/rt_app_$kind" entries=$flags init make=a,entry-alloc,1Mi fill=a,3 byte=a,1
			equal "$(grep -c ': 0$' <<<"$plain")" 3
		done
	done
}

@test "a library behind us that replaces cudaMalloc and dlclose is called as without us" {
	for program in rt_app_shared rt_app_12; do
		both_orders "$BIN/lib_behind.so" recorded "w0 1048576" "$BIN/$program" init alloc=a,1Mi
		has "$(cat "$WORK/plain.err")" "passing by: cudaMalloc"
	done
	both_orders "$BIN/lib_behind.so" three_ways "$BIN/drv_loader" open=s,"$BIN/lib_stubs.so" close=s
	has "$(cat "$WORK/plain.err")" "passing by: dlclose"
}
