#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare pull --trusted-network: bytes by UCX, or by the stream, with the reason.
load helpers
load between

LO="--trusted-network lo"

setup_more() {
	needs jq
	[ -e /usr/include/ucp/api/ucp.h ] && /usr/bin/python3 -c 'import ctypes; ctypes.CDLL("libucp.so.0")' 2>/dev/null ||
		skip "libucx-dev or libucx0 is not installed"
	between_setup
}

teardown_more() {
	between_teardown
}

# by_stream WORDS [COMMAND...]: a pull of a:weights uses the stream, and says WORDS
by_stream() {
	run -0 --separate-stderr "${@:2}" gpushare pull --rate ${NETWORK-$LO} a:weights
	has "$stderr" "$1" || return 1
	refute grep -q "by UCX" <<<"$stderr" || return 1
	received weights || return 1
	gpushare rm weights
}

# by_ucx NAME [WORD...]: a pull of NAME of node a uses UCX
by_ucx() {
	run --separate-stderr "${@:2}" gpushare pull --rate $LO "a:$1"
	equal "$status $(sed 's/.* //' <<<"$stderr")" "0 UCX" # one line: nothing else is said
}

# paused NAME: begin to pull NAME, and stop when the first bytes are here. WORKER is the node's.
paused() {
	needs_sim
	rm -f "$WORK"/p.*
	touch "$WORK/p.armed"
	PAUSE_FILE=$WORK/p PAUSE_AT=cuMemcpyHtoDAsync \
		LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$BIN/lib_pause.so" \
		start pull gpushare pull --rate $LO "a:$1"
	PULLER=$PID
	await_file "$WORK/p.paused"
	WORKER=$(workers)
	[ -n "$WORKER" ]
}

# fails MS WORDS: the paused pull goes on, fails within MS milliseconds with WORDS, and nothing is left
fails() {
	touch "$WORK/p.go"
	answers "$1" || return 1
	has "$(cat "$WORK/pull.err")" "$2" || return 1
	until_true is_over "$WORKER"
}

@test "UCX: the same bytes with TLS and without it, of sets and of a publication" {
	serve a --listen tls://127.0.0.1:0 $LO
	source_of a weights 20000001
	source_of a llama/0 5000000
	source_of a llama/1 3
	by_ucx weights
	received weights
	by_ucx 'llama/*'
	received llama/0
	received llama/1
	on a up app "$BIN/api_app" open alloc=a,w,64Mi fill=a,9 publish=a
	by_ucx w
	equal "$(gpushare get w | sha256sum)" "$(on a gpushare get w | sha256sum)"
	down
	kill "$NODE_PID"
	: >"$WORK/nodes"
	serve a --listen tcp://127.0.0.1:0 $LO
	gpushare rm weights
	by_ucx weights
	received weights
}

@test "UCX: the two sides may have other sizes of TCP segments, as users set them" {
	UCX_TCP_RX_SEG_SIZE=16K serve a --listen tcp://127.0.0.1:0 $LO
	source_of a weights 20000001
	by_ucx weights
	received weights
	gpushare rm weights
	UCX_TCP_RX_SEG_SIZE=32K by_ucx weights
	received weights
}

@test "UCX: nodes shows who offers it" {
	serve c
	serve a --listen tcp://127.0.0.1:0 $LO
	version=$(ucx_info -v 2>/dev/null | sed -n 's/.* \([0-9]*\.[0-9]*\)\.[0-9]*$/\1/p')
	run -0 gpushare nodes
	has "$(grep ^a <<<"$output")" "stream, ucx ${version:-1.}"
	equal "$(grep ^c <<<"$output" | awk "{ print \$NF }")" stream
	equal "$(gpushare nodes --json | jq -r '.[] | select(.node == "c") | .ucx')" ""
}

@test "UCX: other versions, a missing library, and networks that aren't trusted: the stream, with the reason" {
	serve a --listen tcp://127.0.0.1:0 $LO
	source_of a weights 5000000
	NETWORK='' by_stream "5000000 bytes in"
	by_stream "the stream is used, not UCX: the node has UCX 1." env GPUSHARE_UCX="$BIN/lib_ucx_other.so"
	has "$stderr" ", this host 1.99"
	for off in none ""; do
		by_stream "not UCX: GPUSHARE_UCX turns UCX off" env GPUSHARE_UCX="$off"
	done
	by_stream "not UCX: the library can't be loaded: $WORK/none.so: " env GPUSHARE_UCX="$WORK/none.so"
	by_stream "has no ucp_" env GPUSHARE_UCX="$BIN/lib_pause.so"
	NETWORK="--trusted-network eth999" by_stream "not UCX: 'eth999' is not the interface to the node"
	kill "$NODE_PID"
	: >"$WORK/nodes"
	GPUSHARE_UCX=none serve a --listen tls://127.0.0.1:0 $LO
	by_stream "node 'a': the stream is used, not UCX: the node offers no UCX"
	kill "$NODE_PID"
	: >"$WORK/nodes"
	serve a # trusts nobody
	by_stream "not UCX: the node offers no UCX"
}

@test "UCX: a node that refuses the puller's UCX worker, or sends it nothing, is asked for the bytes by the stream" {
	serve a --listen tcp://127.0.0.1:0 $LO
	ucx=$(gpushare nodes --json | jq -r '.[].ucx')
	for fake in no nothing; do
		[ $fake = no ] || export FAKE_CONNECT=1
		FAKE_UCX=$ucx start $fake /usr/bin/python3 "$ROOT/tests/e2e/fake_node.py" 6e6f a
		until_true [ -s "$WORK/$fake.out" ]
	done
	run -1 --separate-stderr timeout 8 gpushare pull $LO "tcp://127.0.0.1:$(cat "$WORK/nothing.out"):a"
	has "$stderr" ": its test byte did not come by UCX; the stream is used, not UCX"
	run -1 --separate-stderr timeout 8 gpushare pull $LO "tcp://127.0.0.1:$(cat "$WORK/no.out"):a"
	has "$stderr" ": no; the stream is used, not UCX"
	equal "$(grep -c ": no$" <<<"$stderr")" 1 # the answer to the Open
}

@test "UCX: an address that is none ends one connection" {
	serve a --listen tcp://127.0.0.1:0 $LO
	source_of a weights 100000
	send '\0\0\0\x1a\x3a\x18\x0a\x04AAAA\x12\x10AAAAAAAAAAAAAAAA\0\0\0\0' >"$WORK/answer" # a Connect
	until_true has_workers 0
	by_ucx weights
	received weights
	GPUSHARE_UCX=none serve c --listen tcp://127.0.0.1:0 $LO
	has "$(send '\0\0\0\x1a\x3a\x18\x0a\x04AAAA\x12\x10AAAAAAAAAAAAAAAA\0\0\0\0')" 08f1ffffffffffffffff01 # E_NOT_SUPPORTED
}

@test "UCX: the node's worker is killed in mid-transfer: the puller answers within a second" {
	serve a --listen tcp://127.0.0.1:0 $LO
	source_of a weights 64000000
	paused weights
	kill -KILL "$WORKER"
	fails 1000 "node 'a': the connection was closed"
}

@test "UCX: the node's worker is stopped in mid-transfer: the puller answers within 11 s" {
	serve a --listen tcp://127.0.0.1:0 $LO
	source_of a weights 64000000
	paused weights
	kill -STOP "$WORKER"
	fails 11000 "node 'a': nothing came for 10 s"
	by_ucx weights
	received weights
}

@test "UCX: the puller is killed in mid-transfer: nothing is left on either side" {
	serve a --listen tls://127.0.0.1:0 $LO
	source_of a weights 64000000
	paused weights
	kill -KILL "$PULLER"
	until_true is_over "$PULLER"
	until_true is_over "$WORKER"
	equal "$(gpushare ls -q)" ""
}
