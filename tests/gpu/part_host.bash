# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what the CPU's own loads and stores of a named buffer cost, and whether
# kernels see them.
: "${root:?}" "${bin:?}" "${scratch:?}" "${pid:=}"
HOST_SIZE=$((64 << 20))
write "" "## The CPU's loads and stores of another process's buffer, without CUDA" ""

# host_figure TEXT: the number behind it
host_figure() {
	awk -F'\t' -v what="$1" '$1 == what { print $2 }' "$scratch/host"
}

# host_target BOUND FIGURE: at most so much
host_target() {
	local is
	is=$(host_figure "$2")
	if [ "$GPUSHARE_TEST_GPU" = no ]; then
		write "- (simulated driver, no target) $2: $is"
	elif within "$is" "$1"; then
		ok "$2: $is (target: $1 or less)"
	else
		bad "target missed: $2: $is (target: $1 or less)"
	fi
}

host_rates() {
	start "$BUILD/gpushare" run --name host:map -- "$bin/app_hold" $HOST_SIZE
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	if ! "$bin/api_host" host >"$scratch/host" 2>"$scratch/errors"; then
		bad "api_host: $(tail -n 1 "$scratch/errors")"
		end
		return
	fi
	end || bad "app_hold: exit code $?"
	write "| what | |" "|---|---|"
	write "$(awk -F'\t' '$1 == "size" { exit } { printf "| %s | %s |\n", $1, $2 }' "$scratch/host")"
	write "" "Store 8 B: one store behind the other. Store 64 KiB: a memcpy by itself, 30 us behind the one before, until the CPU may go on. Load 8 B: one load; a memcpy of 8 bytes makes two. Else plain memcpy, one behind the other, each store with gpushare_map_flush. Beside CUDA's synchronous copies, with pinned memory, us:" ""
	write "| bytes | store | load | cuMemcpyHtoD | cuMemcpyDtoH |" "|---|---|---|---|---|"
	write "$(awk -F'\t' '$1 == "size" { on = 1; next } on { printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }' "$scratch/host")"
	write ""
	if [ "$(host_figure "bytes that CPU and CUDA see differently")" = 0 ]; then
		ok "what the CPU stores CUDA copies out, and the other way round"
	else
		bad "CPU and CUDA see different bytes"
	fi
	host_target 0.05 "store 8 B, us"
	host_target 2.8 "store 64 KiB, us"
	host_target 1.2 "load 8 B, us"
}
host_rates

# Kernels of one process, the CPU of another.
host_kernels() {
	local peer
	start "$BUILD/gpushare" run --name kernel:map -- "$bin/kernel_app_static" "$scratch/saved"
	heard 1 >/dev/null || { bad "kernel_app_static did not start"; return; }
	if ! peer=$("$bin/api_host_peer" kernel 2>"$scratch/errors"); then
		bad "api_host_peer: $peer $(tail -n 1 "$scratch/errors")"
		end
		return
	fi
	heard 3 >/dev/null || { bad "kernel_app_static did not answer"; end; return; }
	end || { bad "kernel_app_static: exit code $?"; return; }
	ok "kernels launched after the CPU's stores see them, and the CPU what they write: $(tr '\n' ';' <<<"$peer")"
}
if [ ! -x "$bin/kernel_app_static" ]; then
	skip "kernels beside the CPU: not built (needs nvcc)"
elif [ "$GPUSHARE_TEST_GPU" = no ]; then
	skip "kernels beside the CPU: needs a GPU"
else
	host_kernels
fi

# shellcheck source=tests/gpu/host_copies.bash
. "$root/tests/gpu/host_copies.bash"
