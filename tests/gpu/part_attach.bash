# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: what attaching and having a buffer again cost, beside the driver's own
# calls. GPUSHARE_GPU_ROUNDS (200), GPUSHARE_GPU_SET (1,000 buffers), GPUSHARE_GPU_REOPEN (bytes, 8 GiB)
# make it smaller.
: "${root:?}" "${bin:?}" "${scratch:?}" "${shm:?}"
COST_ROUNDS=${GPUSHARE_GPU_ROUNDS:-200} ATTACH_SIZE=2097152
export GPUSHARE_REGISTRY=$BUILD/gpushare-registry # the cost_ programs have the library inside
REOPEN=${GPUSHARE_GPU_REOPEN:-$([ "$GPUSHARE_TEST_GPU" = no ] && echo 67108864 || echo 8589934592)}

# cost NAME WHAT: the median that the latest program printed
cost() {
	awk -F'\t' -v n="$1" -v w="$2" '$1 == n && $2 == w { print $3 }' "$scratch/costs"
}

# spread NAME WHAT: "median (least - most)"
cost_spread() {
	awk -F'\t' -v n="$1" -v w="$2" '$1 == n && $2 == w { printf "%.2f (%.2f - %.2f)", $3, $4, $5 }' "$scratch/costs"
}

# steps NAME: the rows of its table
steps() {
	awk -F'\t' -v n="$1" '$1 == n && $2 == "ours" { all = $3 }
		$1 == n && $2 !~ /^(bare|ours|ratio)$/ { printf "| %s | %.1f | %.0f%% |\n", $2, $3, 100 * $3 / all }' "$scratch/costs"
}

write "" "## Attaching a buffer of $((ATTACH_SIZE >> 20)) MiB of another process, $COST_ROUNDS rounds, us" ""
attach_cost() {
	local kind what most wider=()
	"$bin/cost_attach" $ATTACH_SIZE "$COST_ROUNDS" >"$scratch/costs" 2>"$scratch/errors" || { bad "cost_attach"; return; }
	for kind in ipc vmm; do
		[ $kind = ipc ] && what="cuIpcOpenMemHandle" || what="import, reserve, map, access"
		[ $kind = ipc ] || wider=("| the same with access for each GPU that reaches this one, as the library gives it | $(cost_spread "vmm peers" bare) |")
		write "| $kind, median (least - most) | us |" "|---|---|" \
			"| $what, with the $([ $kind = ipc ] && echo handle || echo descriptor) at hand | $(cost_spread $kind bare) |" \
			"${wider[@]}" \
			"| gpushare_attach, not attached yet | $(cost_spread $kind ours) |" \
			"| gpushare_attach, attached already | $(cost_spread "$kind again" attach) |" \
			"| gpushare_detach of that | $(cost_spread "$kind again" detach) |" ""
		write "| step of the first attach | us, median | share |" "|---|---|---|" "$(steps $kind)" ""
	done
	for kind in ipc vmm; do
		[ $kind = ipc ] && most=1.9 || most=1.8
		aim $most "$(cost $kind ratio)" "attach, $kind, cold: $(cost_spread $kind ratio) of the driver's own calls (target: $most or less)"
		[ $kind = ipc ] || aim $most "$(cost "vmm peers" ratio)" "attach, vmm, cold: $(cost_spread "vmm peers" ratio) of the driver's own calls where these too give every GPU access (target: $most or less)"
		aim 2 "$(cost "$kind again" attach)" "attach, $kind, warm: $(cost_spread "$kind again" attach) us (target: 2 us or less)"
	done
}
attach_cost

# set_cost COUNT: first attaches of a set beside as many of the driver's own opens, in turns
set_cost() {
	local kind
	write "" "## Attaching $1 buffers of $((ATTACH_SIZE >> 20)) MiB of another process together, us for each" ""
	"$bin/cost_attach" $ATTACH_SIZE 15 "$1" >"$scratch/costs" 2>"$scratch/errors" || { bad "cost_attach, a set"; return; }
	write "| median (least - most) | bare opens | gpushare_attach_many | ratio |" "|---|---|---|---|"
	for kind in ipc vmm "vmm peers"; do
		write "| $kind | $(cost_spread "$kind set" bare) | $(cost_spread "$kind set" ours) | $(cost_spread "$kind set" ratio) |"
	done
	write ""
	for kind in ipc vmm "vmm peers"; do
		aim 1.25 "$(cost "$kind set" ratio)" "a set of $1, $kind, first attaches: $(cost_spread "$kind set" ratio) of the bare opens (target: 1.25 or less)"
	done
}
set_cost "${GPUSHARE_GPU_SET:-1000}"

# reopen_size: what of REOPEN this host has room for, whole MiB
reopen_size() {
	{
		echo "$REOPEN"
		df -B1 --output=avail "$shm" | awk 'NR == 2 { printf "%.0f\n", $1 * 0.8 }'
		awk '/^MemAvailable:/ { printf "%.0f\n", $2 * 1024 * 0.3 }' /proc/meminfo
	} | sort -g | head -n 1 | awk '{ printf "%.0f", int($1 / 1048576) * 1048576 }'
}

# reopened TIMES COMMAND...: "wall: median (least - most)" in ms, and its words' columns likewise, in $scratch/reopened
reopened() {
	local times=$1 i began
	: >"$scratch/reopened"
	for ((i = 0; i < times; i++)); do
		began=$EPOCHREALTIME
		"${@:2}" >"$scratch/one" 2>"$scratch/errors" || return
		awk -v a="$began" -v b="$EPOCHREALTIME" '{ printf "%.3f %s\n", (b - a) * 1e3, $0 }' "$scratch/one" >>"$scratch/reopened"
	done
}

reopen_cost() {
	local bytes ours theirs python=(python3 "$root/tests/gpu/cost_load.py") code=0
	bytes=$(reopen_size)
	until "$bin/api_reopen" make kept "$bytes" 2>"$scratch/errors"; do
		[ "$bytes" -gt 67108864 ] || { bad "api_reopen make"; return; }
		bytes=$((bytes / 2)) # the GPU has no room for it
	done
	write "" "## Having a kept buffer of $((bytes >> 20)) MiB again in a new process, ms" ""
	[ "$bytes" = "$REOPEN" ] || write "$((REOPEN >> 20)) MiB was asked for; this host has room for so much." ""
	write "| new process | end to end | until CUDA is there | until the bytes are | reading the first and last |" "|---|---|---|---|---|"
	if reopened 7 "$bin/api_reopen" open kept; then
		write "| C, gpushare_open and gpushare_attach | $(median_of "$scratch/reopened" 1) | $(median_of "$scratch/reopened" 2) | $(median_of "$scratch/reopened" 3) | $(median_of "$scratch/reopened" 4) |"
	else
		bad "api_reopen open"
	fi
	"${python[@]}" save "$shm/saved.pt" "$bytes" >"$scratch/said" 2>"$scratch/errors" || code=$?
	if [ $code = 77 ] || [ ! -s "$shm/saved.pt" ]; then
		write ""
		skip "torch.load: $(tail -n 1 "$scratch/said")"
	elif reopened 5 "${python[@]}" attach kept "$BUILD/libgpushare.so.0" && ours=$(median_of "$scratch/reopened" 3) &&
		write "| PyTorch tensor, gpushare_attach | $(median_of "$scratch/reopened" 1) | $(median_of "$scratch/reopened" 2) | $ours | |" &&
		cut -d' ' -f4 "$scratch/reopened" | sort -u >"$scratch/sums" && reopened 5 "${python[@]}" load "$shm/saved.pt"; then
		theirs=$(median_of "$scratch/reopened" 3)
		write "| PyTorch tensor, torch.load from a tmpfs | $(median_of "$scratch/reopened" 1) | $(median_of "$scratch/reopened" 2) | $theirs | |" ""
		cut -d' ' -f4 "$scratch/reopened" | sort -u >>"$scratch/sums"
		if [ "$(sort -u "$scratch/sums")" = $((bytes * 90)) ]; then
			ok "the kept buffer again: $(awk -v a="${theirs%% *}" -v b="${ours%% *}" 'BEGIN { printf "%.1f", a / b }') times as fast as torch.load of the same bytes, CUDA being there; the same sum both ways"
		else
			bad "the bytes add up to $(tr '\n' ' ' <"$scratch/sums"), not to $((bytes * 90))"
		fi
	else
		write ""
		bad "cost_load.py"
	fi
	rm -f "$shm/saved.pt"
	"$BUILD/gpushare" rm kept 2>"$scratch/errors" || bad "gpushare rm kept"
}
reopen_cost
