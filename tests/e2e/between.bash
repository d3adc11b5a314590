# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For tests with several nodes. Each node is a folder of $WORK with a registry of its own; GPUSHARE_DIR is that of b.

KIND=(-nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256)

# authority FOLDER: make a CA there
authority() {
	mkdir -p "$1"
	(umask 022 && openssl req -x509 "${KIND[@]}" -days 3650 -subj /CN=test -keyout "$1/ca.key" -out "$1/ca.pem" 2>/dev/null)
}

# certificate FOLDER [COMMAND...]: make node.pem there, of the CA there, for $NAME. COMMAND runs openssl, such as faketime.
certificate() {
	openssl req "${KIND[@]}" -subj "/CN=${NAME:-gpushare}" -keyout "$1/node.key" -out "$1/node.csr" 2>/dev/null
	"${@:2}" openssl x509 -req -in "$1/node.csr" -CA "$1/ca.pem" -CAkey "$1/ca.key" -CAcreateserial -days 30 \
		-out "$1/node.crt" 2>/dev/null
	(umask 077 && cat "$1/node.crt" "$1/node.key" >"$1/node.pem")
}

between_setup() {
	needs openssl
	export XDG_CONFIG_HOME=$WORK/config GPUSHARE_NODES=$WORK/nodes GPUSHARE_SAME_HOST=0
	TLS=$WORK/config/gpushare
	authority "$TLS"
	certificate "$TLS"
	mkdir -m 700 "$WORK/a" "$WORK/c"
	: >"$WORK/nodes"
}

between_teardown() {
	local pid
	for GPUSHARE_DIR in "$WORK/a" "$WORK/c"; do
		for pid in $(registry_pids) $(keeper_pids); do
			kill -KILL "$pid" 2>/dev/null || true
		done
	done
}

# on NODE COMMAND...: run COMMAND with the registry of NODE
on() {
	GPUSHARE_DIR=$WORK/$1 "${@:2}"
}

# serve NODE [OPTION...]: start a node, by ${STARTER[@]}, and add it to the file of nodes; NODE_PID is its pid, ADDRESS
# its address
serve() {
	local address=(--listen tls://127.0.0.1:0)
	[ $# = 1 ] || address=()
	rm -f "$WORK/$1.err" # of an earlier one
	on "$1" start "$1" "${STARTER[@]}" gpushare node "${address[@]}" "${@:2}"
	NODE_PID=$PID
	until_true grep -qs 'listening on' "$WORK/$1.err"
	ADDRESS=$(sed -n 's/.*listening on //p' "$WORK/$1.err")
	echo "$1 $ADDRESS" >>"$WORK/nodes"
}

# source_of NODE NAME SIZE: a kept buffer of random bytes there, which are also in $WORK/NAME
source_of() {
	mkdir -p "$WORK/$(dirname "$2")"
	head -c "$3" /dev/urandom >"$WORK/$2"
	on "$1" gpushare restore "$WORK/$2" "$2"
}

# workers: pids of the workers of NODE_PID
workers() {
	pgrep -P "$NODE_PID" -x gpushare-worker || true
}

has_workers() {
	[ "$(workers | wc -l)" = "$1" ]
}

# relayed: RELAY is an address of node a over relay.py, which creates $WORK/held when it begins to hold the bytes back.
# `touch $WORK/go` lets them go on.
relayed() {
	rm -f "$WORK"/{held,go,relay.out}
	start relay /usr/bin/python3 "$ROOT/tests/e2e/relay.py" "${ADDRESS##*:}" 16000000 "$WORK/held" "$WORK/go"
	until_true [ -s "$WORK/relay.out" ]
	RELAY=${ADDRESS%:*}:$(cat "$WORK/relay.out")
}

# pulling NAME: start to pull NAME of node a, relayed, and wait until the bytes are held back. PULLER is the puller's
# pid, WORKER the worker's.
pulling() {
	relayed
	start pull env --default-signal=INT gpushare pull --rate "$RELAY:$1"
	PULLER=$PID
	await_file "$WORK/held"
	WORKER=$(workers)
	[ -n "$WORKER" ]
}

# received NAME [SOURCE]: b's buffer NAME has the bytes of $WORK/SOURCE (NAME)
received() {
	gpushare get "$1" -o - | cmp - "$WORK/${2:-$1}"
}

# answers MS: the puller fails within MS milliseconds, and nothing is left
answers() {
	local code=0
	took_ms until_true has_ended "$PULLER"
	((TOOK_MS <= $1 + SLACK_MS)) || { echo "it took $TOOK_MS ms"; return 1; }
	finish "$PULLER" || code=$?
	equal "$code" 1 || return 1
	nothing_left
}

# a staged buffer has no name, but its memory is counted
nothing_left() {
	equal "$(gpushare ls -q)" "" || return 1
	until_true [ "$(gpushare stat --json | jq .kept_bytes)" = 0 ]
}

# send HEX: send bytes to the last node, and read what it answers until it closes
send() {
	exec 7<>"/dev/tcp/127.0.0.1/${ADDRESS##*:}"
	# shellcheck disable=SC2059
	printf "$1" >&7 || true
	timeout 15 cat <&7 | od -An -tx1 | tr -d ' \n'
	exec 7>&-
}
