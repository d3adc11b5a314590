#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# nodes.sh BUILD [MIB [ROUNDS]]: pulls of one buffer beside iperf3 and ucx_perftest, in turns, as medians. As root they
# run in two network namespaces that a veth pair joins, else over loopback. Prints a table for RESULTS.md.
set -eu
build=$(realpath "$1") mib=${2:-1024} rounds=${3:-5}
work=$(mktemp -d)
export PATH=$build:$PATH LD_LIBRARY_PATH=$build/sim GPUSHARE_NODES=$work/nodes
export GPUSHARE_SIM_POPULATE=1 # as a GPU's, memory has its pages before the bytes come
export GPUSHARE_SAME_HOST=0
TLS=$work/tls here=127.0.0.1 interface=lo at=() from=() began=()

finish() {
	for pid in "${began[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	for side in a b; do
		GPUSHARE_DIR=$work/$side gpushare registry stop --force >/dev/null 2>&1 || true
		[ "$here" = 127.0.0.1 ] || ip netns del "gpushare-$side" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap finish EXIT

if ip netns add gpushare-a 2>/dev/null && ip netns add gpushare-b; then
	here=10.77.0.1 interface=node0
	at=(ip netns exec gpushare-a) from=(ip netns exec gpushare-b)
	ip link add node0 netns gpushare-a type veth peer name node0 netns gpushare-b
	for side in "a 1" "b 2"; do
		read -r name number <<<"$side"
		ip -n "gpushare-$name" addr add "10.77.0.$number/24" dev node0
		ip -n "gpushare-$name" link set node0 up
		ip -n "gpushare-$name" link set lo up
	done
fi

# start COMMAND...: run it on the node's side until the end
start() {
	"${at[@]}" "$@" >/dev/null 2>>"$work/errors" &
	began+=($!)
}

certificates() {
	local kind=(-nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256)
	umask 077
	mkdir "$TLS"
	openssl req -x509 "${kind[@]}" -subj /CN=ca -keyout "$TLS/ca.key" -out "$TLS/ca.pem"
	openssl req "${kind[@]}" -subj /CN=gpushare -keyout "$TLS/key" -out "$TLS/csr"
	openssl x509 -req -in "$TLS/csr" -CA "$TLS/ca.pem" -CAkey "$TLS/ca.key" -CAcreateserial -out "$TLS/crt"
	cat "$TLS/crt" "$TLS/key" >"$TLS/node.pem"
}

# pulled NODE [OPTION...]: MB/s of a pull
pulled() {
	GPUSHARE_DIR=$work/b "${from[@]}" gpushare pull --rate --tls "$TLS" "${@:2}" "$1:w" 2>"$work/pull.err"
	[ $# = 1 ] || grep -q "by UCX" "$work/pull.err"
	GPUSHARE_DIR=$work/b gpushare rm w
	awk '{ printf "%.0f\n", $2 / $5 / 1e6 }' "$work/pull.err"
}

# iperf STREAMS
iperf() {
	"${from[@]}" iperf3 -c "$here" -p 7490 -n "${mib}M" -P "$1" -J |
		jq '.end.sum_received.bits_per_second / 8e6 | round'
}

# perftest MODE BYTES: UCX's own measure of active messages, of $mib MiB in all; MODE is poll or sleep
perftest() {
	local run=(env UCX_TLS=tcp "UCX_NET_DEVICES=$interface" ucx_perftest -p 7492 -E "$1" -t ucp_am_bw -w 2 -s "$2"
		-n $((mib * 1048576 / $2)))
	"${at[@]}" "${run[@]}" >/dev/null 2>&1 &
	until "${at[@]}" ss -ltn | grep -q :7492; do sleep 0.05; done
	"${from[@]}" "${run[@]}" "$here" | awk '/^Final/ { printf "%.0f\n", $7 * 1.048576 }'
	wait $!
}

ways=("iperf3, 1 stream" "iperf3, 4 streams" "ucx_perftest, 4 MiB, polls" "ucx_perftest, 4 MiB, sleeps"
	"ucx_perftest, one message, sleeps" "pull by UCX" "pull by UCX, free copies" "pull by TCP" "pull by TCP, free copies"
	"pull by TLS")
measure() {
	case $1 in
	0) iperf 1 ;;
	1) iperf 4 ;;
	2) perftest poll 4194304 ;;
	3) perftest sleep 4194304 ;;
	4) perftest sleep $((mib * 1048576)) ;;
	5) pulled plain --trusted-network "$interface" ;;
	6) GPUSHARE_SIM_COPIES=0 pulled free --trusted-network "$interface" ;;
	7) pulled plain ;;
	8) GPUSHARE_SIM_COPIES=0 pulled free ;;
	9) pulled tls ;;
	esac
}

mkdir -m 700 "$work/a" "$work/b"
certificates 2>/dev/null
head -c "${mib}M" /dev/urandom >"$work/bytes"
GPUSHARE_DIR=$work/a gpushare restore "$work/bytes" w
rm "$work/bytes"
start iperf3 -s -p 7490
start env GPUSHARE_DIR="$work/a" gpushare node --listen "tcp://$here:7411" --trusted-network "$interface"
start env GPUSHARE_DIR="$work/a" GPUSHARE_SIM_COPIES=0 \
	gpushare node --listen "tcp://$here:7413" --trusted-network "$interface"
start env GPUSHARE_DIR="$work/a" gpushare node --listen "tls://$here:7412" --tls "$TLS"
printf 'plain tcp://%s:7411\nfree tcp://%s:7413\ntls tls://%s:7412\n' "$here" "$here" "$here" >"$GPUSHARE_NODES"
until [ "$("${from[@]}" gpushare nodes --tls "$TLS" 2>/dev/null | grep -c ' up ')" = 3 ]; do sleep 0.1; done
for ((round = 0; round < rounds; round++)); do
	for i in "${!ways[@]}"; do
		measure "$i" >>"$work/way$i"
	done
done
printf '%s MiB, medians of %s rounds, %s, load %s, %s cores\n\n' "$mib" "$rounds" \
	"$([ "$interface" = lo ] && echo loopback || echo "two network namespaces")" "$(cut -d' ' -f1 /proc/loadavg)" "$(nproc)"
printf '| what | MB/s | least to most |\n|---|---|---|\n'
for i in "${!ways[@]}"; do
	sort -n "$work/way$i" | awk -v way="${ways[i]}" '{ all[NR] = $1 }
		END { printf "| %s | %d | %d to %d |\n", way, all[int((NR + 1) / 2)], all[1], all[NR] }'
done
