#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Three hosts: network namespaces, each with a registry, two of them with a node. The puller is in r.
load helpers
load between

# link HOST HOST N: the first is 10.99.N.1, the other 10.99.N.2
link() {
	ip link add "$NET$1$2" netns "$NET$1" type veth peer name "$NET$2$1" netns "$NET$2" 2>/dev/null ||
		skip "no veth pairs here"
	ip -n "$NET$1" addr add "10.99.$3.1/30" dev "$NET$1$2"
	ip -n "$NET$2" addr add "10.99.$3.2/30" dev "$NET$2$1"
	ip -n "$NET$1" link set "$NET$1$2" up
	ip -n "$NET$2" link set "$NET$2$1" up
}

setup_more() {
	needs ip
	needs jq
	[ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
	NET=gs$BASHPID
	ip netns add "${NET}a" 2>/dev/null || skip "network namespaces are refused here"
	ip netns add "${NET}c"
	ip netns add "${NET}r"
	link a r 1
	link c r 2
	link a c 3
	between_setup
}

teardown_more() {
	local host
	between_teardown
	for host in a c r; do ip netns delete "$NET$host" 2>/dev/null || true; done
}

# within HOST COMMAND...: run COMMAND on that host
within() {
	ip netns exec "$NET$1" "${@:2}"
}

# node HOST: start a node there; PORT is its port, NODE_PID its pid
node() {
	start "$1" ip netns exec "$NET$1" env GPUSHARE_DIR="$WORK/$1" gpushare node --listen tls://0.0.0.0:0
	NODE_PID=$PID
	until_true grep -qs 'listening on' "$WORK/$1.err"
	PORT=$(sed -n 's/.*listening on .*:\([0-9]*\)$/\1/p' "$WORK/$1.err")
}

# received_from HOST: bytes that came to r from there
received_from() {
	within r cat "/sys/class/net/${NET}r$1/statistics/rx_bytes"
}

@test "three hosts: a pull from the first, and then by way of the second" {
	source_of a weights 20000001
	node a
	echo "a tls://10.99.3.1:$PORT" >"$WORK/nodes.c"
	echo "a tls://10.99.1.1:$PORT" >"$WORK/nodes"
	node c
	echo "c tls://10.99.2.1:$PORT" >>"$WORK/nodes"
	within c env GPUSHARE_DIR="$WORK/c" GPUSHARE_NODES="$WORK/nodes.c" gpushare pull a:weights
	within r gpushare pull a:weights --via c
	received weights
	[ "$(received_from c)" -gt 20000000 ]
	[ "$(received_from a)" -lt 1000000 ]
	within r gpushare pull a:weights --as direct
	received direct weights
	[ "$(received_from a)" -gt 20000000 ]
	equal "$(within r gpushare ls --nodes -q | sort | xargs)" "weights weights"
}

@test "the cable is pulled in mid-transfer: the puller answers within 11 s, nothing is left, and the worker ends" {
	local worker
	source_of a weights 400000000
	node a
	start pull ip netns exec "${NET}r" gpushare pull "tls://10.99.1.1:$PORT:weights"
	PULLER=$PID
	flows() { [ "$(received_from a)" -gt 20000000 ]; }
	until_true flows
	worker=$(workers)
	ip -n "${NET}a" link set "${NET}ar" down
	answers 11000
	has "$(cat "$WORK/pull.err")" ": nothing came for 10 s"
	PATIENCE_S=25 until_true is_over "$worker"
}
