#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare-attach on a host where CUDA can't start: the CPU can still reach kept buffers.
load helpers

setup_more() {
	needs_sim
	up owner "$BIN/api_app" open make=a,weights,3Mi,keep fill=a,7 save=a,"$WORK/own" make=b,fixed,1Mi,keep+readonly \
		alloc=c,plain,1Mi
}

# Makes the CUDA calls fail that create or retain a context.
no_context=cuDevicePrimaryCtxRetain:1:99:2,cuCtxCreate:1:99:2

@test "a kept buffer whose owner is gone is dumped, whole and in parts, and filled" {
	kill -KILL "$PID"
	until_true owner_gone weights
	export GPUSHARE_SIM_FAIL=$no_context
	run -0 --separate-stderr gpushare-attach weights -o "$WORK/a"
	equal "$output" ""
	has "$stderr" "cuDevicePrimaryCtxRetain answered CUDA_ERROR_OUT_OF_MEMORY; going on without CUDA"
	cmp "$WORK/own" "$WORK/a"
	part() { tail -c +$(($1 + 1)) "$WORK/own" | head -c "$2"; }
	gpushare-attach weights --offset 4097 --length 100001 2>/dev/null | cmp - <(part 4097 100001)
	gpushare-attach weights --offset 3145727 2>/dev/null | cmp - <(part 3145727 1)
	equal "$(gpushare-attach weights --length 0 2>/dev/null | wc -c)" 0
	printf 'new bytes' >"$WORK/new"
	gpushare-attach weights --into "$WORK/new" --offset 12345 2>/dev/null
	dd if="$WORK/new" of="$WORK/own" bs=1 seek=12345 conv=notrunc status=none
	unset GPUSHARE_SIM_FAIL
	gpushare-attach weights | cmp - "$WORK/own"
}

@test "no driver, a driver that won't start, another GPU made visible, with a way to it and without" {
	mkdir "$WORK/lib"
	ln -s "$BUILD/sim/libvulkan.so.1" "$WORK/lib/"
	LD_LIBRARY_PATH=$WORK/lib run -0 --separate-stderr gpushare-attach weights -o "$WORK/a"
	has "$stderr" "libcuda.so.1 was not found"
	cmp "$WORK/own" "$WORK/a"
	GPUSHARE_SIM_FAIL=cuInit:1:1:999 run -0 --separate-stderr gpushare-attach weights -o "$WORK/b"
	has "$stderr" "the CUDA driver does not start"
	cmp "$WORK/own" "$WORK/b"
	export GPUSHARE_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=1
	GPUSHARE_SIM_PEERS=0 run -0 --separate-stderr gpushare-attach weights -o "$WORK/c"
	has "$stderr" "which this process does not see"
	cmp "$WORK/own" "$WORK/c"
	run -0 --separate-stderr gpushare-attach weights -o "$WORK/d"
	equal "$stderr" ""
	cmp "$WORK/own" "$WORK/d"
}

@test "kept unified memory: as the file that it is, without Vulkan too; of a node's memory both reasons" {
	mkdir "$WORK/lib"
	ln -s "$BUILD/sim/libcuda.so.1" "$WORK/lib/"
	for kind in 0 1; do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		equal "$(api open make=a,grid$kind,3Mi,unified+keep fill=a,7 save=a,"$WORK/own$kind" close | grep -c OK)" 5
	done
	export GPUSHARE_SIM_FAIL=$no_context LD_LIBRARY_PATH=$WORK/lib
	run -0 --separate-stderr gpushare-attach grid0 -o "$WORK/a"
	has "$stderr" "going on without CUDA"
	cmp "$WORK/own0" "$WORK/a"
	printf 'new bytes' >"$WORK/new"
	gpushare-attach grid0 --into "$WORK/new" --offset 12345 2>/dev/null
	dd if="$WORK/new" of="$WORK/own0" bs=1 seek=12345 conv=notrunc status=none
	run -1 --separate-stderr gpushare-attach grid1 -o "$WORK/b"
	has "$stderr" "going on without CUDA"
	has "$stderr" "which only CUDA can map"
	[ ! -e "$WORK/b" ]
	unset GPUSHARE_SIM_FAIL
	gpushare-attach grid0 | cmp - "$WORK/own0"
	gpushare-attach grid1 | cmp - "$WORK/own1"
}

@test "what the CPU can't reach either: both reasons, and no file" {
	export GPUSHARE_SIM_FAIL=$no_context
	run -1 --separate-stderr gpushare-attach plain -o "$WORK/a"
	has "$stderr" "going on without CUDA"
	has "$stderr" "'plain' is cudaMalloc memory"
	run -1 --separate-stderr gpushare-attach fixed --into /dev/null
	has "$stderr" "read-only"
	mkdir "$WORK/lib"
	ln -s "$BUILD/sim/libcuda.so.1" "$WORK/lib/"
	: >"$WORK/lib/libvulkan.so.1"
	LD_LIBRARY_PATH=$WORK/lib run -1 --separate-stderr gpushare-attach weights -o "$WORK/a"
	has "$stderr" "going on without CUDA"
	has "$stderr" "'weights' can't be mapped for the CPU"
	[ ! -e "$WORK/a" ]
	run -1 --separate-stderr gpushare-attach nobody
	equal "$(lines "$stderr")" 1
}
