# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what the CPU's own loads and stores of a named buffer cost, and whether
# kernels see them.
: "${bin:?}" "${scratch:?}" "${pid:=}"
HOST_SIZE=$((64 << 20))
write "" "## The CPU's loads and stores of another process's buffer, without CUDA" ""

# host_figure TEXT: the number behind it
host_figure() {
	awk -F'\t' -v what="$1" '$1 == what { print $2 }' "$scratch/host"
}

# host_aim most|least BOUND VALUE WHAT [H100 B200]: VALUE is to be at most, at least BOUND; a row of the
# part's table, with what gdrcopy has. On the simulated driver the numbers mean nothing, but are there.
for file in host_targets host mirror; do : >"$scratch/$file"; done
host_aim() {
	local verdict=PASS low=$2 high=$3 words="$2 or more"
	[ "$1" = least ] || low=$3 high=$2 words="$2 or less"
	if [ "$GPUSHARE_TEST_GPU" = no ] && within "$3" "$3"; then
		verdict="simulated driver"
		write "- (simulated driver, no target) $4: $3"
	elif within "$low" "$high"; then
		ok "$4: $3 (target: $words)"
	else
		verdict=MISSED
		bad "target missed: $4: ${3:-not measured} (target: $words)"
	fi
	printf '| %s | %s | %s | %s | %s | %s |\n' "$4" "$words" "${3:-not measured}" "$verdict" "${5:-}" "${6:-}" >>"$scratch/host_targets"
}

# host_least FIGURE...: the least of them
host_least() {
	local figure
	for figure; do
		host_figure "$figure"
	done | sort -g | head -n 1
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
	write "" "Store 8 B: one store behind the other. Store 64 KiB: a memcpy, or a copy by streaming stores, by itself, 30 us behind the one before, until the CPU may go on. Load 8 B: one load; a memcpy of 8 bytes makes two. Else plain memcpy, one behind the other, each store with gpushare_map_flush. Beside CUDA's synchronous copies, with pinned memory, us:" ""
	write "| bytes | store | load | cuMemcpyHtoD | cuMemcpyDtoH |" "|---|---|---|---|---|"
	write "$(awk -F'\t' '$1 == "size" { on = 1; next } on { printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }' "$scratch/host")"
	write ""
	if [ "$(host_figure "bytes that CPU and CUDA see differently")" = 0 ]; then
		ok "what the CPU stores CUDA copies out, and the other way round"
	else
		bad "CPU and CUDA see different bytes"
	fi
}

host_aims() {
	host_aim most 0.05 "$(host_figure "store 8 B, us")" "store 8 B, us" "" 0.10
	host_aim most 2.8 "$(host_least "store 64 KiB, us" "store 64 KiB by gpushare_copy_to, us")" \
		"store 64 KiB, by memcpy or gpushare_copy_to, us" "" 2.9
	host_aim most 1.2 "$(host_figure "load 8 B, us")" "load 8 B, us" "" 1.16
}
host_rates
host_aims

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

# A mirror's round trip beside the driver's copies of pinned memory.
MIRROR_SIZE=${GPUSHARE_GPU_DUMP:-1073741824} MIRROR_REPEATS=7

# mirror_rate LINE: of what host_mirror printed
mirror_rate() {
	sed -n "$1p" "$scratch/mirror" | cut -f 2
}

mirror() {
	write "" "## A mirror of $((MIRROR_SIZE >> 20)) MiB of another process, GB/s" ""
	start "$BUILD/gpushare" run --name mirrored -- "$bin/app_hold" "$MIRROR_SIZE"
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	if ! "$bin/host_mirror" mirrored $MIRROR_REPEATS >"$scratch/mirror" 2>"$scratch/errors"; then
		bad "host_mirror: $(tail -n 1 "$scratch/errors")"
		end
		return
	fi
	end || bad "app_hold: exit code $?"
	write "| way | median | least | most |" "|---|---|---|---|"
	write "$(awk -F'\t' '$1 != "first" { printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }' "$scratch/mirror")"
	write "" "- the first opening pins the memory: $(awk -F'\t' '$1 == "first" { print $2 }' "$scratch/mirror") ms; the session keeps it for the next"
}

mirror_aims() {
	host_aim least 0.9 "$(awk -v a="$(mirror_rate 3)" -v b="$(mirror_rate 1)" 'BEGIN { if (b > 0) printf "%.3f", a / b }')" "a mirror's opening, of the pinned copy beside it"
	host_aim least 0.9 "$(awk -v a="$(mirror_rate 4)" -v b="$(mirror_rate 2)" 'BEGIN { if (b > 0) printf "%.3f", a / b }')" "a mirror's write-back, of the pinned copy beside it"
}
mirror
mirror_aims

write "" "## The CPU's side beside its targets, and beside gdrcopy" "" "| what | target | measured | | gdrcopy, H100 | gdrcopy, B200 |" "|---|---|---|---|---|---|"
write "$(cat "$scratch/host_targets")"
write "" "gdrcopy: quoted from what its users have published, of other hosts, by its own gdrcopy_copylat (one copy behind the other, each with a fence). It needs a kernel module, and memory of the process's own. cuMemcpy at the same sizes is in the table of sizes above."
