#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the loader sees in the built ELF files: machine, exports, needed libraries, symbol versions.
load helpers

setup_more() {
	needs nm
	needs readelf
}

# Print the names in the global set of a version script.
listed() {
	sed 's:/\*.*\*/::; s/#.*//' "$1" | tr '\n\t' '  ' |
		sed 's/.*global: *\(.*\) local:.*/\1/' | tr '; \t' '\n' | grep . | sort
}

exported() {
	nm -D --defined-only "$1" | awk '$2 ~ /[TWDBRVi]/ { sub(/@.*/, "", $3); print $3 }' | sort
}

@test "every product is for the machine that it was built for" {
	case ${ARCH:-$(uname -m)} in
	aarch64) machine=AArch64 ;;
	x86_64) machine="Advanced Micro Devices X86-64" ;;
	esac
	for file in "$SHIM" "$BUILD"/libgpushare.so.0 "$BUILD"/libgpushare.a "$BUILD"/gpushare{,-attach,-registry}; do
		header=$(readelf -hW "$file")
		equal "$(sed -n 's/^ *Machine: *//p' <<<"$header")" "$machine"
	done
}

@test "the preload exports exactly what shim_list.h lists" {
	[ -e "$BUILD/gen/shim.sym" ] || skip "no build tree here"
	listed=$(listed "$BUILD/gen/shim.sym")
	has "$listed" cuMemAlloc_v2
	has "$listed" cudaMalloc
	has "$listed" dlsym
	equal "$(exported "$SHIM")" "$listed"
}

@test "the preload's version script is anonymous: dlsym@GLIBC_2.34 stays interposed" {
	run readelf -VW "$SHIM"
	[[ $output != *"Version definition section"* ]]
}

@test "the API library exports gpushare_ names only, the header's all of them" {
	exported=$(exported "$BUILD/libgpushare.so.0")
	equal "$(grep -v '^gpushare_' <<<"$exported")" ""
	[ -e "$ROOT/include/gpushare.h" ] || skip "no source tree here"
	equal "$exported" "$(grep -o '\bgpushare_[a-z_]*(' "$ROOT/include/gpushare.h" |
		tr -d '(' | sort -u)"
}

@test "nothing that is loaded into a program needs a driver, runtime, nng or vulkan" {
	for file in "$SHIM" "$BUILD/libgpushare.so.0" "$BUILD/gpushare" "$BUILD/gpushare-attach"; do
		needed=$(readelf -dW "$file" | grep NEEDED)
		has "$needed" libc.so
		run -1 grep -E 'libcuda|libcudart|libnng|libvulkan|libmbed' <<<"$needed"
	done
}

@test "the registry needs no driver" {
	needed=$(readelf -dW "$BUILD/gpushare-registry" | grep NEEDED)
	has "$needed" libc.so
	run -1 grep -E 'libcuda|libcudart' <<<"$needed"
}

@test "the preload has no text relocations, no executable stack, no lazy binding" {
	run readelf -dlW "$SHIM"
	[[ $output != *TEXTREL* ]]
	[[ $output =~ GNU_STACK.*RW\  ]]
	[[ ! $output =~ GNU_STACK[^$'\n']*RWE ]]
	has "$output" BIND_NOW
}

@test "the API library has its soname, and each of its symbols the version that it came with" {
	has "$(readelf -dW "$BUILD/libgpushare.so.0")" "soname: [libgpushare.so.0]"
	equal "$(nm -D --defined-only "$BUILD/libgpushare.so.0" | sed -n 's/.*@@//p' | sort -u)" GPUSHARE_0.1
	equal "$(nm -D --defined-only "$BUILD/libgpushare.so.0" | awk '$2 == "T"' | grep -vc '@@')" 0
}
