#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare doctor: what works on this host and what doesn't; also for a given program.
load helpers

# doctor CODE [WORD...]: run gpushare doctor, which must exit with CODE; its lines are in $output
doctor() {
	run "-$1" --separate-stderr gpushare doctor "${@:2}"
	equal "$stderr" ""
}

# line STATUS AREA WORDS: $output has such a line
line() {
	grep -E "^$1 +$2 " <<<"$output" | grep -qF -- "$3" || { printf 'no "%s %s ...%s" in\n%s\n' "$@" "$output"; false; }
}

no_line() {
	! grep -E "^$1 +$2 " <<<"$output" | grep -F -- "$3"
}

# Copy a system program: the loader can list it, and it was built without gpushare.
copy_of() {
	cp "$(type -P "$1")" "$WORK/$1"
}

@test "doctor: driver, GPUs, registry, preload library, what works" {
	doctor 0
	line ok preload "$(realpath "$SHIM")"
	line ok driver libcuda.so.1
	line ok driver "it supports CUDA up to 1"
	line ok driver "GPU 0 is "
	line ok registry "$GPUSHARE_DIR, chosen by GPUSHARE_DIR"
	line ok works "names and attaching"
	equal "$(grep -c '^fail' <<<"$output")" 0
	[ -n "${EMULATOR:-}" ] || equal "$(registry_pids)" "" # none was started
}

@test "doctor --json says the same" {
	needs jq
	run -0 --separate-stderr gpushare doctor --json
	equal "$(jq -r '.status | test("^(ok|warn)$")' <<<"$output")" true
	equal "$(jq -r '.checks | map(.area) | unique - ["environment","vulkan"] | join(" ")' <<<"$output")" \
		"driver preload registry works"
	equal "$(jq '[.checks[] | select(.status != "ok" and (.next | not))] | length' <<<"$output")" 0
	run -1 --separate-stderr gpushare doctor --json /nonexistent
	equal "$(jq -r .status <<<"$output")" fail
	equal "$(jq -r '.checks[-1].next' <<<"$output")" "give its path"
}

@test "doctor: a registry that runs, and one that is silent, and what listens that is none" {
	up api "$BIN/api_app" open alloc=a,weights,1Mi
	doctor 0
	line ok registry "one runs: version $(gpushare --version | cut -d ' ' -f 2), pid $(registry_pids)"
	line ok registry "with 1 names"
	line ok registry "fds.sock"
	mkdir -m 700 "$WORK/f"
	start fake "$BIN/tool_fake_registry" "$WORK/f" silent
	await_file "$WORK/f/ready"
	GPUSHARE_TIMEOUT_MS=400 doctor 1 --dir "$WORK/f"
	line fail registry "$WORK/f"
	line fail works "no registry"
	no_line ok works keep
}

@test "doctor: no registry and none that would start; a directory that can't be trusted" {
	no_registry_yet
	GPUSHARE_AUTOSTART=0 doctor 1
	line fail registry "GPUSHARE_AUTOSTART=0"
	GPUSHARE_REGISTRY=/nonexistent doctor 1
	line fail registry "gpushare-registry was not found"
	chmod 755 "$GPUSHARE_DIR"
	doctor 1
	line fail registry "$GPUSHARE_DIR is open to others (mode 755)"
	has "$output" "next: run 'chmod 700 $GPUSHARE_DIR'"
	mkdir "$WORK/shared"
	chmod 1777 "$WORK/shared"
	for directory in "$WORK/shared" /tmp; do # they stay open to all users
		doctor 1 --dir "$directory"
		if [ -O "$directory" ]; then
			line fail registry "$directory is open to others (mode 1777)"
		else
			line fail registry "$directory belongs to uid 0, not to uid $(id -u)"
		fi
		has "$output" "next: use a directory of your own, such as GPUSHARE_DIR=/tmp/my-buffers"
		[[ $output != *chmod* ]]
	done
	doctor 1 --dir "$(printf '/long%.0s' {1..40})"
	line fail registry "--dir"
	doctor 0 --dir "$WORK/later"
	line ok registry "it is created when needed"
	[ ! -e "$WORK/later" ]
}

@test "doctor: the registry's directory can't be made, or can't be written to" {
	no_registry_yet
	doctor 1 --dir "$WORK/none/r"
	line fail registry "none runs, and $WORK/none/r can't be created or written to: No such file or directory"
	has "$output" "next: set GPUSHARE_DIR to a directory that you may write to"
	[ "$(id -u)" != 0 ] || skip "root may write to any directory"
	mkdir -m 500 "$WORK/read"
	doctor 1 --dir "$WORK/read"
	line fail registry "$WORK/read can't be created or written to: Permission denied"
	doctor 1 --dir "$WORK/read/r"
	line fail registry "$WORK/read/r can't be created or written to: Permission denied"
}

@test "doctor: the environment's rules, LD_PRELOAD, few descriptors" {
	GPUSHARE_NAME='a b' doctor 1
	line fail environment ">>>a b<<<"
	GPUSHARE_NAME='w%i:size=1Mi-' GPUSHARE_ATTACH=x doctor 0
	line ok environment "GPUSHARE_NAME is 'w%i:size=1Mi-'"
	line ok environment "GPUSHARE_ATTACH is 'x'"
	GPUSHARE_TIMEOUT_MS=soon doctor 0
	line warn environment "'soon'"
	run -0 env LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD:}$BIN/lib_plugin.so" \
		ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" gpushare doctor
	line warn environment "LD_PRELOAD has another library"
	run -0 bash -c 'ulimit -n 256; gpushare doctor'
	line warn environment "256 descriptors"
	GPUSHARE_SHIM=/nonexistent doctor 1
	line fail preload /nonexistent
	GPUSHARE_SHIM=$BATS_TEST_FILENAME doctor 1
	line fail preload "not a library for this machine's architecture"
}

@test "doctor: no driver, one that can't start, one without GPUs, a compute mode" {
	needs_sim
	LD_LIBRARY_PATH=/nonexistent doctor 1
	line fail driver "can't be loaded"
	has "$output" "LD_LIBRARY_PATH=$BUILD/sim"
	line fail works "no GPU"
	GPUSHARE_SIM_FAIL=cuInit:1:1:803 doctor 1
	line fail driver "(803)"
	has "$output" "next: libcuda and the kernel module have different versions"
	GPUSHARE_SIM_FAIL=cuInit:1:1:999 doctor 1
	line fail driver "(999)"
	CUDA_VISIBLE_DEVICES=-1 doctor 1
	line fail driver "CUDA_ERROR_NO_DEVICE"
	GPUSHARE_SIM_DEVICES=2 doctor 0
	line ok driver "GPU 1 is"
}

@test "doctor: an old driver, and one without what is needed" {
	needs_sim
	LD_LIBRARY_PATH=$BUILD/sim/old:$BUILD/sim doctor 0
	line ok driver "CUDA up to 11.8"
	mkdir -p "$WORK/stubs"
	printf 'int cuInit(unsigned f) { return 0; }\n' >"$WORK/stub.c"
	command -v gcc >/dev/null || skip "gcc is not installed"
	gcc -shared -fPIC -Wl,-soname,libcuda.so.1 "$WORK/stub.c" -o "$WORK/stubs/libcuda.so.1"
	LD_LIBRARY_PATH=$WORK/stubs doctor 1
	line fail driver "$WORK/stubs/libcuda.so.1"
	line fail driver "it lacks the function cu"
}

@test "doctor: the simulated driver is said, and what can't run on it" {
	needs_sim
	doctor 0 "$BIN/rt_app_static"
	line ok driver "it is the simulated driver"
	cp "$BIN/rt_app_static" "$WORK/real" # as NVIDIA's runtime names that call
	printf 'cuGetExportTable\0' >>"$WORK/real"
	doctor 1 "$WORK/real"
	line fail program "real can't run on the simulated driver"
	has "$output" "next: link it with 'nvcc -cudart shared'"
}

@test "doctor: a driver that crashes or hangs does so alone" {
	needs_sim
	command -v gcc >/dev/null || skip "gcc is not installed"
	printf 'int cuInit(unsigned f) { __builtin_trap(); }
		#define F(n) int n(void) { return 0; }
		F(cuDriverGetVersion) F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) F(cuDeviceTotalMem_v2)
		F(cuDeviceGetAttribute) F(cuGetErrorName) F(cuDeviceGetUuid)\n' >"$WORK/crash.c"
	gcc -shared -fPIC -Wl,-soname,libcuda.so.1 "$WORK/crash.c" -o "$WORK/libcuda.so.1"
	LD_LIBRARY_PATH=$WORK doctor 1
	line fail driver "crashes"
}

@test "doctor: Vulkan shows the GPU, another, none, or isn't there" {
	needs_sim
	doctor 0
	line ok vulkan "GPU 0 is Vulkan's device 0"
	line ok works "gpushare_map()"
	GPUSHARE_SIM_FAIL=vkCreateInstance:1:1:-9 doctor 0
	line warn vulkan "VkResult -9"
	line warn works "no gpushare_map()"
	mkdir "$WORK/sim"
	ln -s "$BUILD"/sim/libcuda.so.1 "$WORK/sim"
	LD_LIBRARY_PATH=$WORK/sim run gpushare doctor
	[ -e /usr/lib/x86_64-linux-gnu/libvulkan.so.1 ] || line warn vulkan "loader can't be used"
}

@test "doctor PROGRAM: how it comes to CUDA" {
	doctor 0 "$BIN/rt_app_static"
	line ok program "rt_app_static contains the CUDA runtime (static)"
	line ok program "the preload library loads into it"
	doctor 0 "$BIN/rt_app_shared"
	line ok program "rt_app_shared uses the CUDA runtime as a library, libcudart.so."
	doctor 0 "$BIN/drv_linked"
	line ok program "drv_linked calls the driver directly"
	doctor 0 "$BIN/drv_lookup"
	line ok program "drv_lookup calls the driver directly"
	doctor 0 "$BIN/tool_reaper"
	line warn program "no library that it links uses CUDA"
	PATH=$BIN:$PATH doctor 0 rt_app_static
	line ok program "it is $(realpath "$BIN/rt_app_static")"
}

@test "doctor PROGRAM: what can't be preloaded, and why" {
	doctor 1 "$BIN/drv_static"
	line fail program "static"
	no_line '(ok|warn|fail)' program "preload library loads"
	doctor 1 /nonexistent/app
	line fail program "'/nonexistent/app' was not found"
	doctor 1 no-such-program-anywhere
	line fail program "not on PATH"
	doctor 1 "$WORK"
	line fail program "Is a directory"
	: >"$WORK/empty"
	chmod +x "$WORK/empty"
	doctor 1 "$WORK/empty"
	line fail program "neither a program nor a script"
	head -c 100 "$BIN/rt_app_static" >"$WORK/cut"
	chmod +x "$WORK/cut"
	doctor 1 "$WORK/cut"
	line fail program "truncated or damaged"
	cp "$BIN/rt_app_static" "$WORK/not"
	chmod -x "$WORK/not"
	[ "$(id -u)" = 0 ] || doctor 1 "$WORK/not"
}

@test "doctor PROGRAM: another machine's, and one of 32 bits" {
	# e_machine at 18, e_ident[EI_CLASS] at 4
	copy_of true
	printf '\267\000' | dd of="$WORK/true" bs=1 seek=18 conv=notrunc status=none
	[ "$(uname -m)" = aarch64 ] || doctor 1 "$WORK/true"
	[ "$(uname -m)" = aarch64 ] || line fail program "it is for aarch64"
	copy_of false
	printf '\001' | dd of="$WORK/false" bs=1 seek=4 conv=notrunc status=none
	doctor 1 "$WORK/false"
	line fail program "with 32 bits"
}

@test "doctor PROGRAM: set-uid, set-gid" {
	[ "$(id -u)" = 0 ] || skip "files of others are made by root alone"
	copy_of true
	chown 12345:12345 "$WORK/true"
	chmod 4755 "$WORK/true"
	doctor 1 "$WORK/true"
	line fail program "set-uid"
	has "$output" AT_SECURE
	chmod 2755 "$WORK/true"
	doctor 1 "$WORK/true"
	line fail program "set-gid"
	chown 0:0 "$WORK/true"
	chmod 4755 "$WORK/true"
	doctor 0 "$WORK/true"
	line warn program "if another user runs it"
}

@test "doctor PROGRAM: a script's interpreter, a library that is missing, dlmopen" {
	printf '#!/usr/bin/env -S bash\n' >"$WORK/script"
	chmod +x "$WORK/script"
	doctor 0 "$WORK/script"
	line ok program "a script, which"
	line ok program "the preload library loads into it"
	printf '#!/nonexistent/interpreter\n' >"$WORK/bad"
	chmod +x "$WORK/bad"
	doctor 1 "$WORK/bad"
	line fail program "neither a program nor a script"
	command -v gcc >/dev/null || skip "gcc is not installed"
	printf 'int f(void) { return 0; }\n' >"$WORK/l.c"
	printf 'int f(void); int main(void) { return f(); }\n' >"$WORK/m.c"
	gcc -shared -fPIC -Wl,-soname,libodd.so "$WORK/l.c" -o "$WORK/libodd.so"
	gcc "$WORK/m.c" -L"$WORK" -lodd -o "$WORK/odd"
	doctor 1 "$WORK/odd"
	line fail program "it needs libodd.so, which is not found"
	mkdir "$WORK/stubs"
	gcc -shared -fPIC -Wl,-soname,libcuda.so.1 "$WORK/l.c" -o "$WORK/stubs/libcuda.so.1"
	gcc "$WORK/m.c" "$WORK/stubs/libcuda.so.1" -Wl,-rpath,"$WORK/stubs" -o "$WORK/linked"
	LD_LIBRARY_PATH= doctor 1 "$WORK/linked"
	line fail program "it would load $WORK/stubs/libcuda.so.1, a stub"
	printf '#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(void) { return !dlmopen(LM_ID_NEWLM, "x", 1); }\n' >"$WORK/d.c"
	gcc "$WORK/d.c" -ldl -o "$WORK/newlm"
	doctor 0 "$WORK/newlm"
	line warn program "newlm calls dlmopen"
}

@test "doctor: words that are none, names with odd characters, no colour in a pipe" {
	run -2 --separate-stderr gpushare doctor a b
	has "$stderr" "one PROGRAM at a time"
	cp "$BIN/rt_app_static" "$WORK/$(printf 'a\033[2Jb')"
	doctor 0 "$WORK/$(printf 'a\033[2Jb')"
	[[ $output != *$'\033'* ]]
	run -1 --separate-stderr sh -c 'gpushare doctor >/dev/full'
	has "$stderr" "standard output"
}
