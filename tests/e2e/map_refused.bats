#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# CPU maps that can't be made: each failure has a status and a reason, and leaves nothing behind.
load helpers
load in_maps

@test "the driver gives no descriptor of the owner's own: the call is named, and the next try works" {
	needs_sim
	for fault in cuMemRetainAllocationHandle:1:1:1 cuMemExportToShareableHandle:2:1:1; do
		GPUSHARE_SIM_FAIL=$fault run --separate-stderr api open make=a,mine,2Mi,vmm map=m,a,0,1,r map=m,a,0,1,r free=a unmap=m
		equal "$(tail -n 4 <<<"$output")" "map m: E_CUDA
map m: OK
free a: OK
unmap m: OK"
		has "$stderr" "${fault%%:*} answered CUDA_ERROR_INVALID_VALUE"
	done
}

@test "cudaMalloc memory is not mapped: the reason, and what to do" {
	owner w
	run --separate-stderr api open attach=b,w map=m,b,0,1,r
	equal "$output" "open: OK
attach w: OK
map m: E_NOT_SUPPORTED"
	has "$stderr" "'map'"
	has "$stderr" "gpushare_mirror_open()"
	run --separate-stderr hostly attach=b,w,0,host stat=w
	has "$output" "attach w: E_NOT_SUPPORTED"
	has "$output" "attachers 0"
	has "$stderr" "'map'"
}

@test "what makes no sense is refused, and nothing is mapped" {
	needs_map
	owner w:map
	equal "$(hostly attach=b,w,0,host mirror=q,b,0,1,r map=m,b,0,0,r map=m,b,4Mi,1,r map=m,b,1,4Mi,r map=m,b,0,1,x \
		map=m,z,0,1,r unmap=m mapped=m flush=m,0,1 attach=c,w,0,host map=n,c,3,5,r flush=n,0,5 flush=n,1,5 \
		invalidate=n,5,0 invalidate=n,6,0 2>/dev/null | sed 1,2d)" "mirror q: E_NOT_SUPPORTED
map m: E_INVALID
map m: E_RANGE
map m: E_RANGE
map m: E_INVALID
map m: E_INVALID
unmap m: OK
mapped m: E_INVALID
flush m: E_INVALID
attach w: OK
map n: OK
flush n: OK
flush n: E_RANGE
invalidate n: OK
invalidate n: E_RANGE"
}

@test "no Vulkan loader, or none that is one: the reason and the alternative" {
	needs_sim
	owner w:map
	mkdir "$WORK/bad"
	echo "not a library" >"$WORK/bad/libvulkan.so.1"
	run --separate-stderr env LD_LIBRARY_PATH="$WORK/bad:$LD_LIBRARY_PATH" "$BIN/api_app" open attach=b,w,0,host \
		map=m,b,0,1,r byte=b,0
	equal "$output" "open: OK
attach w: OK
map m: E_NOT_SUPPORTED
byte b: E_NOT_SUPPORTED"
	has "$stderr" "'w' can't be mapped for the CPU: the Vulkan loader, libvulkan.so.1, can't be loaded"
	has "$stderr" "libvulkan1"
	has "$stderr" "gpushare_mirror_open()"
	cp "$BUILD/sim/libcuda.so.1" "$WORK/bad/libvulkan.so.1"
	run --separate-stderr env LD_LIBRARY_PATH="$WORK/bad:$LD_LIBRARY_PATH" "$BIN/api_app" open attach=b,w,0,host map=m,b,0,1,r
	has "$stderr" "no vkGetInstanceProcAddr"
}

@test "a GPU that Vulkan does not show, or does not show the memory of" {
	needs_sim
	up owner env GPUSHARE_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=1 "$BIN/api_app" open make=a,w,2Mi,vmm fill=a,7
	run --separate-stderr hostly attach=b,w,0,host map=m,b,0,1,r
	has "$output" "map m: E_NOT_SUPPORTED"
	has "$stderr" "Vulkan shows 1 device here, and the buffer's GPU, GPU-$(shown w gpu | cut -d - -f 2-), is not among them"
	GPUSHARE_SIM_DEVICES=2 run --separate-stderr hostly attach=b,w,0,host map=m,b,5,1,r load=m,0
	has "$output" "load m: 42"
	run --separate-stderr env GPUSHARE_SIM_DEVICES=2 GPUSHARE_SIM_VULKAN=small-bar "$BIN/api_app" open attach=b,w,0,host map=m,b,0,1,r
	has "$output" "map m: E_NOT_SUPPORTED"
	has "$stderr" "BAR"
	for word in no-import no-queues; do
		run --separate-stderr env GPUSHARE_SIM_DEVICES=2 GPUSHARE_SIM_VULKAN=$word "$BIN/api_app" open attach=b,w,0,host map=m,b,0,1,r
		has "$output" "map m: E_NOT_SUPPORTED"
		has "$stderr" "can't import memory"
	done
}

@test "what Vulkan refuses: a status and a reason; the next try works, and nothing is left behind" {
	needs_sim
	owner w:map
	clean=$(hostly attach=b,w,0,host map=m,b,5,1,r load=m,0 unmap=m map=m,b,5,1,r load=m,0 census | tail -n 3)
	has "$clean" "census: 1 threads"
	while read -r fault wanted words; do
		FAULT=$fault run --separate-stderr hostly attach=b,w,0,host map=m,b,5,1,r map=m,b,5,1,r load=m,0 census
		equal "$fault $(tail -n 4 <<<"$output")" "$fault map m: $wanted
$clean"
		has "$stderr" "$words"
		has "$stderr" "gpushare_mirror_open()"
	done <<-'TABLE'
		vkCreateInstance:1:1:-9 E_NOT_SUPPORTED no Vulkan driver was found
		vkCreateInstance:1:1:-1 E_NO_MEMORY VK_ERROR_OUT_OF_HOST_MEMORY
		vkCreateInstance:1:1:-3 E_NOT_SUPPORTED Vulkan does not start here
		vkCreateInstance:1:1:-6 E_NOT_SUPPORTED VK_ERROR_LAYER_NOT_PRESENT
		vkEnumeratePhysicalDevices:1:1:-3 E_NOT_SUPPORTED vkEnumeratePhysicalDevices answered VK_ERROR_INITIALIZATION_FAILED
		vkCreateDevice:1:1:-4 E_NOT_SUPPORTED the GPU was lost
		vkCreateDevice:1:1:-10 E_LIMIT vkCreateDevice
		vkAllocateMemory:1:1:-1000072003 E_NOT_SUPPORTED Vulkan does not import this kind of CUDA memory
		vkAllocateMemory:1:1:-2 E_NO_MEMORY BAR1
		vkAllocateMemory:1:1:-10 E_LIMIT unmap some
		vkMapMemory:1:1:-5 E_NO_MEMORY VK_ERROR_MEMORY_MAP_FAILED
		vkMapMemory:1:1 E_NOT_SUPPORTED vkMapMemory answered -13
	TABLE
	equal "$(calls AllocateMemory)" "$(($(calls FreeMemory) + 13 + $(grep -c 'vkAllocateMemory -' "$WORK/log")))"
}

@test "Vulkan of another age: the call that it lacks is named" {
	needs_sim
	owner w:map
	while read -r name words; do
		run --separate-stderr env GPUSHARE_SIM_LACKS="$name" "$BIN/api_app" open attach=b,w,0,host map=m,b,0,1,r map=m,b,0,1,r
		has "$output" "map m: E_NOT_SUPPORTED"
		has "$stderr" "$words"
	done <<-'TABLE'
		vkCreateInstance vkCreateInstance answered VK_ERROR_INCOMPATIBLE_DRIVER
		vkGetPhysicalDeviceProperties2 the Vulkan loader is too old: no vkGetPhysicalDeviceProperties2
		vkUnmapMemory the GPU's Vulkan driver has no vkUnmapMemory
	TABLE
	equal "$(calls CreateInstance) $(calls DestroyInstance)" "3 2"
	equal "$(calls CreateDevice) $(calls DestroyDevice)" "2 2"
}

@test "no descriptors left: E_LIMIT, and the attachment is given back" {
	needs_sim
	owner w:map
	for left in 0 1; do # for the descriptor itself, and for the one that Vulkan takes over
		run --separate-stderr hostly attach=b,w,0,host map=m,b,0,1,r unmap=m fdlimit=$left map=m,b,0,1,r
		equal "$(tail -n 2 <<<"$output")" "unmap m: OK
map m: E_LIMIT"
		has "$stderr" "ulimit -n"
	done
}
