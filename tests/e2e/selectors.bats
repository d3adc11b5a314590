#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Rules that select allocations by the call and by the caller.
load helpers

# chosen RULES NAMES PROGRAM...: PROGRAM waits at its end; by then the registry has exactly NAMES
chosen() {
	local rules=$1 expected=$2
	shift 2
	up_named app "$rules" "$@"
	equal "$(names | sort)" "$expected"
	down
}

@test "api=: a driver's call, whoever made it; a runtime's, where the runtime is shared" {
	# shellcheck disable=SC2054 # words of a script
	all=(init make=a,malloc,1Mi make=b,pitch,2Mi make=c,async,3Mi make=d,pool,4Mi make=e,entry-vmm,6Mi
		make=f,3d,8Mi)
	driver='a%i:api=cuMemAlloc,p%i:api=cuMemAllocPitch,s%i:api=cuMemAllocAsync,o%i:api=cuMemAllocFromPoolAsync,v%i:api=cuMemCreate'
	for program in rt_app_static rt_app_shared rt_thread_static rt_thread_shared; do
		chosen "$driver" "a0 1048576
o0 4194304
p0 2097152
p1 8388608
s0 3145728
v0 6291456" "$BIN/$program" "${all[@]}"
	done
	runtime='a%i:api=cudaMalloc,p%i:api=cudaMallocPitch,s%i:api=cudaMallocAsync,o%i:api=cudaMallocFromPoolAsync,d%i:api=cudaMalloc3D'
	for program in rt_app_shared rt_thread_shared; do
		chosen "$runtime" "a0 1048576
d0 8388608
o0 4194304
p0 2097152
s0 3145728" "$BIN/$program" "${all[@]}"
	done
	chosen "$runtime" "" "$BIN/drv_linked" init make=a,alloc,1Mi make=b,pitch,2Mi make=c,async,3Mi
	chosen "$driver" "a0 1048576
p0 2097152
s0 3145728
v0 4194304" "$BIN/drv_linked" init make=a,alloc,1Mi make=b,pitch,2Mi make=c,async,3Mi make=d,vmm,4Mi
}

@test "from=: the program, whichever way it comes to the driver" {
	for program in rt_app_static rt_app_shared rt_thread_static rt_thread_shared drv_linked \
		"drv_lookup dlsym" "drv_lookup gpa2" "drv_lookup chain"; do
		program "$program"
		# shellcheck disable=SC2054 # words of a script
		script=(init alloc=a,1Mi make=b,async,2Mi make=c,pitch,3Mi)
		chosen "w%i:from=${PROGRAM[0]##*/},x%i" "w0 1048576
w1 2097152
w2 3145728" "${PROGRAM[@]}" "${script[@]}"
		chosen "w%i:from=${PROGRAM[0]##*/}:size=2Mi,x%i:from=*lib*" "w0 2097152" "${PROGRAM[@]}" "${script[@]}"
		chosen "x%i:from=libcudart*,y%i:from=libcuda.so*,z%i:from=libgpushare*" "" "${PROGRAM[@]}" "${script[@]}"
	done
}

@test "from=: a library, linked or loaded, with a runtime or without; the others are left alone" {
	for kind in shared static; do
		chosen "p%i:from=lib_rt_plugin_$kind.so,x%i:from=lib_rt_plugin*" "p0 4194304" "$BIN/drv_loader" \
			open=a,"$BIN/lib_rt_plugin_$kind.so" call=a,runtime_alloc open=c,libcuda.so.1 use=c init alloc=a,1Mi
	done
	chosen "l%i:from=lib_linked_plugin.so,app%i:from=drv_loader" "app0 524288
l0 1048576
l1 2097152" "$BIN/drv_loader" open=p,"$BIN/lib_linked_plugin.so" call=p,plugin_init call=p,plugin_alloc \
		call=p,plugin_alloc_found open=c,libcuda.so.1 use=c init alloc=a,512Ki
}

@test "from=: a library that comes where another was has its own path; NCCL's own memory is left alone" {
	local name script=(open=c,libcuda.so.1 use=c init) used=(call=p,plugin_init call=p,plugin_alloc)
	mkdir "$WORK/libnccl"
	for name in one.so two.so libnccl.so.2 libnccl-net.so libnccl/app.so mylibnccl.so; do
		cp "$BIN/lib_linked_plugin.so" "$WORK/$name"
		script+=(open=p,"$WORK/$name" "${used[@]}" close=p)
	done
	GPUSHARE_LOG=$WORK/log named 'one:from=*one.so,two:from=*two.so,app:from=*app.so,my:from=*mylibnccl.so,x%i' \
		"$BIN/drv_loader" "${script[@]}" >"$WORK/out"
	equal "$(sed -n 's/.*"\(.*\)" is shared.*/\1/p' "$WORK/log" | xargs)" "one two app my"
	[ "$(grep -c '^moved p: no' "$WORK/out")" -gt 0 ]
}

@test "from= chooses what is answered with a buffer, too" {
	begin_named producer weights "$BIN/rt_app_static" init alloc=a,4Mi fill=a,7 touch="$WORK/made" await="$WORK/over"
	up consumer env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=weights:from=lib_rt_plugin_shared.so "$BIN/drv_loader" \
		open=c,libcuda.so.1 use=c init alloc=a,1Mi open=a,"$BIN/lib_rt_plugin_shared.so" call=a,runtime_alloc
	equal "$(api open stat=weights | sed -n 's/.* attachers \([0-9]*\) .*/\1/p')" 1
}

@test "%r is the rank that the launcher gave; %% is none" {
	for variable in RANK OMPI_COMM_WORLD_RANK SLURM_PROCID; do
		env -u RANK -u OMPI_COMM_WORLD_RANK -u SLURM_PROCID "$variable=3" LD_PRELOAD="$PRELOAD" GPUSHARE_NAME='r%r' \
			"$BIN/drv_linked" init alloc=a,1Mi touch="$WORK/up" await="$WORK/end" </dev/null >/dev/null 3>&- &
		STARTED+=("$!")
		PID=$!
		await_file "$WORK/up"
		equal "$(names)" "r3 1048576"
		down
		rm -f "$WORK"/{up,end}
	done
}
