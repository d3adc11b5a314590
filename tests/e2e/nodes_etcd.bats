#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# An etcd as the list of nodes: gpushare node registers itself there, and nodes, ls --nodes and pull read it.
load helpers
load between

setup_more() {
	needs jq
	needs etcd
	[ -e "$BUILD/obj/tools/node/etcd.o" ] || skip "no objects here"
	between_setup
	# below the ports that the kernel gives to others while the etcd is down
	until PORT=$((RANDOM % 12000 + 20000)) && ! (: <>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null; do :; done
	export GPUSHARE_NODES=etcd://127.0.0.1:$PORT/lab/nodes
	ETCD_URL=http://127.0.0.1:$PORT
	start_etcd
}

teardown_more() {
	between_teardown
}

# start_etcd [OPTION...]: start an etcd, with what was in it before; ETCD_PID is its pid
start_etcd() {
	cd "$WORK" # its peer socket is a file there
	start etcd etcd --data-dir "$WORK/etcd" --listen-client-urls "$ETCD_URL" --advertise-client-urls "$ETCD_URL" \
		--listen-peer-urls unix://peer:1 --initial-advertise-peer-urls http://peer:1 \
		--initial-cluster default=http://peer:1 "$@"
	ETCD_PID=$PID
	until_true grep -qs "ready to serve client requests" "$WORK/etcd.err" || { tail -n 5 "$WORK/etcd.err"; return 1; }
}

kill_etcd() {
	kill "-${1:-KILL}" "$ETCD_PID"
	until_true has_ended "$ETCD_PID"
}

# post CALL JSON [TOKEN]: ask the JSON gateway
post() {
	/usr/bin/python3 -c 'if True:
		import sys, urllib.request
		url, token = sys.argv[1:]
		ask = urllib.request.Request(url, sys.stdin.read().encode(), {"Authorization": token} if token else {})
		plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
		print(plain.open(ask, timeout=10).read().decode())' "$ETCD_URL/v3/$1" "${3:-}" <<<"$2"
}

# put KEY VALUE: a key that no node has written
put() {
	post kv/put "{\"key\": \"$(printf "$1" | base64 -w 0)\", \"value\": \"$(printf "$2" | base64 -w 0)\"}" >/dev/null
}

# root_token: a token of the user root
root_token() {
	post auth/authenticate '{"name": "root", "password": "r"}' | jq -r .token
}

# named COMMAND...: run `openssl x509` for a certificate that is for localhost
named() {
	"$@" -extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1)
}

# joins NODE [OPTION...]: start a node that registers itself
joins() {
	serve "$1" --listen tls://127.0.0.1:0 --as "$1" "${@:2}"
	until_true grep -qs "registered as '$1' at $ADDRESS" "$WORK/$1.err"
}

# listed NAME...: those are the nodes in the directory
listed() {
	[ "$(gpushare nodes --json 2>/dev/null | jq -r '.[].node' | xargs)" = "$*" ]
}

@test "a node registers itself; it is listed and pulled from by its name, and gone after it was killed" {
	joins a
	joins c
	source_of a weights 20000000
	source_of c kv 3000
	equal "$(cat "$WORK/nodes" | wc -l)" 2 # which nobody reads
	run -0 gpushare nodes
	equal "$(sed 1d <<<"$output" | awk '{ print $1, $3, $4 }')" $'a up 0.1.0\nc up 0.1.0'
	equal "$(gpushare ls --nodes --no-headers | awk '{ print $1, $2 }')" $'a weights\nc kv'
	gpushare pull a:weights
	received weights
	run -1 --separate-stderr gpushare pull z:weights
	has "$stderr" "there is no node 'z' in the list of nodes"
	run -0 gpushare doctor
	has "$output" "GPUSHARE_NODES lists 2 nodes;"
	run -0 env http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 gpushare nodes # proxies aren't asked
	post kv/range '{"key": "AA==", "range_end": "AA=="}' >"$WORK/keys"
	equal "$(jq -r '.kvs[] | .key | @base64d' "$WORK/keys" | xargs)" "/lab/nodes/a /lab/nodes/c"
	equal "$(jq -r '.kvs[1].value | @base64d | fromjson | "\(.address) \(.user) \(.version)"' "$WORK/keys")" \
		"$ADDRESS $(id -un) 0.1.0"
	# an etcd forgets its old revisions when it is told to
	post kv/compaction "{\"revision\": $(jq -r .header.revision "$WORK/keys"), \"physical\": true}" >/dev/null
	listed a c
	kill -KILL "$NODE_PID"
	run -1 gpushare nodes
	took_ms until_true listed a
	((TOOK_MS < 16000 + SLACK_MS))
}

@test "the etcd is killed: transfers and addresses go on, and the node is there again when the etcd is" {
	joins a
	source_of a weights 64000000
	pulling weights
	kill_etcd
	touch "$WORK/go"
	finish "$PULLER"
	received weights
	run -1 --separate-stderr gpushare pull a:weights --as again
	has "$stderr" "etcd at 127.0.0.1:$PORT: Couldn't connect to server; a node's address, tls://HOST:PORT, works without etcd"
	gpushare pull "$ADDRESS:weights" --as again
	received again weights
	run -0 gpushare doctor
	has "$(grep '^warn *nodes' <<<"$output")" "etcd at 127.0.0.1:$PORT: Couldn't connect to server"
	until_true grep -q "etcd at 127.0.0.1:$PORT: " "$WORK/a.err"
	start_etcd
	until_true listed a
	until_true grep -qsz "Couldn't connect.*registered as" "$WORK/a.err"
}

@test "an etcd that says nothing: an answer within 5 s" {
	joins a
	kill -STOP "$ETCD_PID"
	SECONDS=0
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcd at 127.0.0.1:$PORT: Timeout was reached"
	((SECONDS <= 6))
	until_true grep -q "etcd at 127.0.0.1:$PORT: Timeout was reached" "$WORK/a.err"
	kill -CONT "$ETCD_PID"
	until_true listed a
}

@test "a lost lease, and a name that another node has" {
	joins a
	lease=$(post lease/leases '{}' | jq -r '.leases[0].ID')
	post lease/revoke "{\"ID\": \"$lease\"}" >/dev/null # it ends the key, too
	until_true listed a
	on c start c gpushare node --listen tls://127.0.0.1:0 --as a
	until_true grep -q "not registered: there is another node 'a'; --as gives this one another name" "$WORK/c.err"
	run -0 gpushare nodes
	has "$output" " $ADDRESS "
	kill -KILL "$NODE_PID"
	post kv/deleterange "{\"key\": \"$(printf /lab/nodes/a | base64)\"}" >/dev/null # as when its lease ends
	until_true grep -q "registered as 'a'" "$WORK/c.err"
}

@test "a key that somebody removed is there again at the next renewal" {
	joins a
	equal "$(post kv/deleterange "{\"key\": \"$(printf /lab/nodes/a | base64 -w 0)\"}" | jq -r .deleted)" 1
	until_true listed a
}

@test "a node that was killed and is started again has its name at once" {
	for run in first second; do
		on a start "$run" gpushare node --listen tls://127.0.0.1:0 --announce tls://a.lab:7411 --as a
		PATIENCE_S=2 until_true grep -q "registered as 'a' at tls://a.lab:7411" "$WORK/$run.err"
		kill -KILL "$PID"
	done
}

@test "a user and a password: of a file, again when the etcd has forgotten the token" {
	local prefix
	prefix="\"key\": \"$(printf /lab/ | base64)\", \"range_end\": \"$(printf /lab0 | base64)\""
	for call in 'user/add {"name": "root", "password": "r"}' 'user/grant {"user": "root", "role": "root"}' \
		'role/add {"name": "lab"}' 'user/add {"name": "me", "password": "p:w"}' 'user/grant {"user": "me", "role": "lab"}' \
		"role/grant {\"name\": \"lab\", \"perm\": {\"permType\": 2, $prefix}}" 'enable {}'; do
		post "auth/${call%% *}" "${call#* }" >/dev/null
	done
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcd at 127.0.0.1:$PORT: etcdserver: user name is empty"
	echo me >"$TLS/etcd-password"
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "$TLS/etcd-password: others have access to it; 'chmod 600' it"
	chmod 600 "$TLS/etcd-password"
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "$TLS/etcd-password: it needs a line 'USER:PASSWORD'"
	if [ "$(id -u)" != 0 ]; then # root reads everything
		chmod 0 "$TLS/etcd-password"
		run -1 --separate-stderr gpushare nodes
		has "$stderr" "$TLS/etcd-password: Permission denied"
		chmod 600 "$TLS/etcd-password"
	fi
	echo me:wrong >"$TLS/etcd-password"
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcdserver: authentication failed, invalid user ID or password"
	echo me:p:w >"$TLS/etcd-password"
	joins a
	listed a
	kill_etcd TERM # with it go the tokens
	start_etcd
	token=$(root_token)
	post lease/revoke "{\"ID\": \"$(post lease/leases '{}' "$token" | jq -r '.leases[0].ID')\"}" "$token" >/dev/null
	listed ""
	until_true listed a
	GPUSHARE_NODES=${GPUSHARE_NODES%/lab/*}/else run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcdserver: permission denied"
	refute grep -rqsz p:w /proc/"$NODE_PID"/{cmdline,environ}
}

@test "keys that are no nodes are left out, and too many are refused" {
	put /lab/nodes/good '{"address": "tls://127.0.0.1:1", "more": [1]}'
	put /lab/nodes/zoo '{"address": "tls://[::1]:1"}'
	put /lab/nodes/junk '{"address": "tls://h'
	put /lab/nodes/empty ''
	put /lab/nodes/array '["tls://h:1"]'
	put /lab/nodes/number '{"address": 1}'
	put /lab/nodes/binary '\xff\x00{"address": "tls://h:1"}'
	put /lab/nodes/plain '{"address": "tcp://127.0.0.1:1"}'
	put /lab/nodes/escape '{"address": "tls://\\u001b[31m:1"}'
	put /lab/nodes/nul '{"address": "tls://h:1"}\x00'
	put '/lab/nodes/bell\x07' '{"address": "tls://h:1"}'
	put '/lab/nodes/nul\x00' '{"address": "tls://h:1"}'
	put /lab/nodes/ '{"address": "tls://h:1"}'
	put /lab/nodes/below/one '{"address": "tls://h:1"}'
	put /lab/nodes2/other '{"address": "tls://h:1"}'
	put "/lab/nodes/$(printf %064d 0)" '{"address": "tls://h:1"}'
	put "/lab/nodes/$(printf %02000d 0)" '{"address": "tls://h:1"}'
	put /lab/nodes/long "{\"address\": \"tls://$(printf %0999d 0):1\"}"
	put /lab/nodes/longer "{\"address\": \"tls://h:1\", \"more\": \"$(printf %01000000d 0)\"}"
	run -1 --separate-stderr gpushare nodes --json
	equal "$(jq -c 'map([.node, .address])' <<<"$output")" '[["good","tls://127.0.0.1:1"],["zoo","tls://[::1]:1"]]'
	for i in 0 1 2; do
		post kv/txn "$(jq -n "{success: [range(100) | {request_put: {key: (\"/lab/nodes/$i/\\(.)\" | @base64)}}]}")" >/dev/null
	done
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcd at 127.0.0.1:$PORT: the prefix has more than 256 keys"
	for ((i = 0; i < 16; i++)); do put "/lab/nodes/big$i" "$(printf %01000000d 0)"; done
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcd at 127.0.0.1:$PORT: its answer is too long"
}

@test "an etcd with TLS: by its CA and a certificate, both checked" {
	kill_etcd
	authority "$WORK/pki"
	NAME=localhost certificate "$WORK/pki" named
	ETCD_URL=https://127.0.0.1:$PORT start_etcd --cert-file "$WORK/pki/node.crt" --key-file "$WORK/pki/node.key" \
		--client-cert-auth --trusted-ca-file "$WORK/pki/ca.pem"
	export GPUSHARE_NODES=etcds://localhost:$PORT/lab
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcd at localhost:$PORT: SSL peer certificate or SSH remote key was not OK"
	cp "$WORK/pki/ca.pem" "$TLS/etcd-ca.pem"
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "etcd at localhost:$PORT: "
	(umask 077 && cp "$WORK/pki/node.pem" "$TLS/etcd.pem")
	joins a
	listed a
	chmod 666 "$TLS/etcd-ca.pem"
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "$TLS/etcd-ca.pem: others may change it; 'chmod go-w' it"
}

@test "what can't be registered, or is no etcd, is said at once" {
	for nodes in etcd:// etcd://h:1 etcd://h/lab etcd://h:x/lab etcd://h:1/ etcd://me:secret@h:1/lab 'etcd://h:1/a b' "etcd://h:1/$(printf %0600d 0)"; do
		GPUSHARE_NODES=$nodes run -1 --separate-stderr gpushare nodes
		has "$stderr" "GPUSHARE_NODES names an etcd by etcd://HOST:PORT/PREFIX"
		refute grep secret <<<"$stderr"
	done
	for option in --announce=tls://10.0.0.1:1 --as=b; do
		GPUSHARE_NODES=$WORK/nodes run -1 --separate-stderr gpushare node --listen tls://127.0.0.1:0 "$option"
		has "$stderr" "--announce and --as are for an etcd, and GPUSHARE_NODES names none"
	done
	run -1 --separate-stderr gpushare node --listen tls://127.0.0.1:0 --as 'a b'
	has "$stderr" "'a b' can't be a node's name; --as gives this node another name"
	run -1 --separate-stderr gpushare node --listen tls://127.0.0.1:0 --announce 10.0.0.1
	has "$stderr" "the address in an etcd must be tls://HOST:PORT, not '10.0.0.1'; --announce sets that address"
	run -1 --separate-stderr gpushare node --listen tls://127.0.0.1:0 --announce 'tls://a b:1'
	has "$stderr" "must be tls://HOST:PORT, not 'tls://a b:1'"
	run -1 --separate-stderr gpushare node --listen tcp://127.0.0.1:0 --trusted-network lo
	has "$stderr" "the address in an etcd must be tls://HOST:PORT, not 'tcp://127.0.0.1:"
	on a start all gpushare node --listen tls://0.0.0.0:0
	until_true grep -q "registered as '$(hostname -s)' at tls://$(hostname):[1-9]" "$WORK/all.err"
	mkdir "$WORK/lib"
	: >"$WORK/lib/libcurl.so.4"
	LD_LIBRARY_PATH=$WORK/lib:${LD_LIBRARY_PATH:-} run -1 --separate-stderr gpushare nodes
	has "$stderr" "libcurl, which asks an etcd, is missing: $WORK/lib/libcurl.so.4: file too short; install libcurl4"
}

# answers STATUS BODY: nodes, of a server that answers each question so
answers() {
	[ -z "${FAKE:-}" ] || kill "$FAKE"
	rm -f "$WORK/fake.out"
	start fake /usr/bin/python3 -c 'if True:
		import http.server, sys
		class Fake(http.server.BaseHTTPRequestHandler):
			def do_POST(self):
				self.send_response(int(sys.argv[1]))
				self.send_header("Location", sys.argv[3])
				self.end_headers()
				self.wfile.write(sys.argv[2].encode())
		server = http.server.HTTPServer(("127.0.0.1", 0), Fake)
		print(server.server_port, flush=True)
		server.serve_forever()' "$1" "$2" "$ETCD_URL/v3/kv/range"
	FAKE=$PID
	until_true [ -s "$WORK/fake.out" ]
	GPUSHARE_NODES=etcd://127.0.0.1:$(cat "$WORK/fake.out")/lab/nodes run --separate-stderr gpushare nodes --json
}

@test "a server that is no etcd, and keys that nobody asked for" {
	node=$(printf '{"address": "tls://127.0.0.1:1"}' | base64 -w 0)
	answers 307 '{"kvs": []}'
	has "$stderr" ": its answer makes no sense"
	answers 200 '<html>'
	has "$stderr" ": its answer makes no sense"
	answers 404 '{"message": "\u001b[31mno"}'
	refute grep -q $'\e' <<<"$stderr"
	has "$stderr" "[31mno"
	answers 200 "{\"kvs\": [1, {\"key\": \"\", \"value\": \"$node\"}, {\"key\": \"$(printf /far/nodes/a | base64)\", \"value\": \"$node\"}]}"
	equal "$status $(jq -c . <<<"$output")" "0 []"
}
