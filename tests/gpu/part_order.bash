# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: publish and acquire between processes, what they cost and that no frame
# is lost, doubled or torn.
: "${root:?}" "${bin:?}" "${scratch:?}"
ORDER_COUNT=${GPUSHARE_ORDER_COUNT:-100000} ORDER_ROUNDS=${GPUSHARE_ORDER_ROUNDS:-2000}
write "" "## Publish and acquire between processes, us" ""

order_figure() {
	awk -F'\t' -v what="$1" '$1 == what { print $2; exit }' "$scratch/order"
}

# order_target BOUND FIGURE: at most so much
order_target() {
	local is
	is=$(order_figure "$2")
	[ -n "$is" ] || { bad "$2 was not measured"; return; }
	aim "$1" "$is" "$2: $is us (target: $1 or less)"
}

order_costs() {
	if ! timeout 300 "$bin/api_order_bench" "$ORDER_ROUNDS" >"$scratch/order" 2>"$scratch/errors"; then
		bad "api_order_bench: $(tail -n 1 "$scratch/errors")"
		return
	fi
	write "| what | median | p99 |" "|---|---|---|"
	write "$(awk -F'\t' '$1 != "means" { printf "| %s | %s | %s |\n", $1, $2, $3 }' "$scratch/order")"
	order_torch
	write "" "By $(order_figure means); $ORDER_ROUNDS of each." ""
	order_target 10 "GPU to GPU, round trip"
	write "- that is $(awk -v a="$(order_figure "GPU to GPU, round trip")" \
		-v b="$(order_figure "the driver's own calls, GPU to GPU, round trip")" \
		'BEGIN { printf "%.3f", b ? a / b : 0 }') of the driver's own calls in the same run"
	order_target 0.5 "CPU to CPU, one way"
	for call in publish acquire release reclaim; do
		order_target 1.5 "gpushare_$call"
	done
}

# What frameworks do in its place.
order_torch() {
	local figures
	if [ "$GPUSHARE_TEST_GPU" = no ] || ! python3 -c 'import torch' 2>/dev/null; then
		skip "PyTorch's queue of CUDA tensors: needs a GPU and PyTorch"
	elif figures=$(timeout 300 python3 "$root/tests/gpu/order_torch.py" 500 2>"$scratch/errors"); then
		write "| PyTorch's queue of CUDA tensors, put to get | ${figures% *} | ${figures#* } |"
	else
		bad "order_torch.py: $(tail -n 1 "$scratch/errors")"
	fi
}
order_costs

# order_crew CONSUMERS COUNT SLOTS WAY [ENVIRONMENT...]
order_crew() {
	local began=$EPOCHREALTIME said rate
	if ! said=$(timeout 600 env "${@:5}" "$bin/api_order" crew "${@:1:4}" 2>"$scratch/errors"); then
		bad "$1 consumers, $2 hand-overs, $3 slots, $4 ${*:5}: $(head -n 1 "$scratch/errors")"
		return
	fi
	rate=$(awk -v a="$began" -v b="$EPOCHREALTIME" -v n="$2" 'BEGIN { printf "%.0f", n / (b - a) }')
	ok "$(tail -n 1 <<<"$said"): every frame once, in order, none torn; $rate a second, start-up and checking included ${*:5}"
}
write "" "## Hand-overs of frames of 8 KiB" ""
for order_way in stream host; do
	order_crew 1 "$ORDER_COUNT" 4 $order_way
	order_crew 4 "$ORDER_COUNT" 4 $order_way
	order_crew 16 "$ORDER_COUNT" 8 $order_way
done
order_crew 4 $((ORDER_COUNT / 10)) 1 mixed
order_crew 4 $((ORDER_COUNT / 10)) 4 mixed GPUSHARE_ORDERING=host-functions
