#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare node, nodes, pull and ls --nodes: what goes from one registry to another, and to whom.
load helpers
load between

setup_more() {
	needs jq
	between_setup
}

teardown_more() {
	between_teardown
}

@test "pull: the same bytes, tags and mode, kept and complete; a set keeps its names" {
	serve a
	source_of a weights 20000001
	source_of a llama/0 5000000
	source_of a llama/1 3
	on a gpushare tag weights dtype=u8 step=7
	on a gpushare restore --mode 640 "$WORK/llama/0" other
	refute grep restore <<<"$(gpushare pull --help)"
	run -0 --separate-stderr gpushare pull a:weights --as mine --tag from=a --rate
	has "$stderr" "gpushare: 20000001 bytes in "
	received mine weights
	equal "$(shown mine tags | jq -cS 'del(."copy-of")')" '{"dtype":"u8","from":"a","step":"7"}'
	equal "$(shown mine mode) $(shown mine keep) $(shown mine readonly)" "0600 true false"
	gpushare pull a:other --readonly
	equal "$(shown other mode) $(shown other readonly)" "0600 true" # the group here is another
	gpushare pull a:other --group "$(id -g)" --as grouped
	equal "$(shown grouped mode)" 0640
	gpushare pull a:weights --mode 644
	equal "$(shown weights mode)" 0644
	gpushare pull 'a:llama/*'
	received llama/0
	received llama/1
	equal "$(gpushare ls -q)" $'grouped\nllama/0\nllama/1\nmine\nother\nweights'
}

@test "pull: by address; what the source's rule said of it travels; a source that is published once" {
	serve a
	on a up app "$BIN/api_app" open make=a,ro,1Mi,keep+readonly fill=a,9 publish=a
	gpushare pull "$ADDRESS:ro"
	equal "$(shown ro readonly) $(shown ro size)" "true 1048576"
	equal "$(gpushare get ro | sha256sum)" "$(on a gpushare get ro | sha256sum)"
	down
}

@test "pull: a kept buffer whose publisher has ended" {
	serve a
	for last in "" reclaim=a,1,0; do
		on a "$BIN/api_app" open make=a,k,1Mi,keep fill=a,9 publish=a $last
		gpushare pull a:k
		equal "$(gpushare get k | sha256sum)" "$(on a gpushare get k | sha256sum)"
		gpushare rm k
		on a gpushare rm k
	done
}

@test "pull: a name that is taken, missing or wrong, and a node that is unknown or ended" {
	serve a
	source_of a weights 1000
	source_of a also 1000
	on r gpushare restore "$WORK/also" weights
	run -1 --separate-stderr gpushare pull a:weights
	has "$stderr" "a buffer 'weights' exists already; 'gpushare rm weights' removes it"
	run -1 gpushare pull 'a:*'
	equal "$(gpushare ls -q)" weights
	run -1 --separate-stderr gpushare pull a:nothing
	has "$stderr" "node 'a': no buffer is named \"nothing\""
	run -1 --separate-stderr gpushare pull 'a:no*'
	has "$stderr" "node 'a' has no buffer that 'no*' matches"
	run -1 --separate-stderr gpushare pull a:-x
	has "$stderr" "'-x' is not a buffer name"
	run -1 --separate-stderr gpushare pull "a:$(printf '%0300d' 0)*"
	has "$stderr" "the pattern has more than 255 characters"
	run -1 --separate-stderr gpushare pull weights
	has "$stderr" "'weights' is not NODE:NAME"
	run -1 --separate-stderr gpushare pull z:weights
	has "$stderr" "there is no node 'z' in the list of nodes"
	run -2 --separate-stderr gpushare pull 'a:*' --as x
	has "$stderr" "--as is for one NAME"
	run -1 --separate-stderr gpushare pull 'tcp://[::1]:1:w' --as x # the brackets are no pattern
	refute grep -e --as <<<"$stderr"
	run -2 --separate-stderr gpushare pull a:weights --tag nonsense
	has "$stderr" "--tag wants KEY=VALUE"
	kill -KILL "$NODE_PID"
	until_true has_ended "$NODE_PID"
	run -1 --separate-stderr gpushare pull a:also
	has "$stderr" "node 'a': $ADDRESS: no node listens there"
	equal "$(gpushare ls -q)" weights
}

@test "the file of nodes: comments and blank lines, and the number of a line that is wrong" {
	printf '# of the lab\n\na tls://127.0.0.1:1 # first\nb tcp://[::1]:2\n' >"$WORK/nodes"
	run -1 --separate-stderr gpushare nodes
	equal "$(awk '{ print $1, $2, $3 }' <<<"$output")" $'NODE ADDRESS STATE\na tls://127.0.0.1:1 down\nb tcp://[::1]:2 down'
	for line in "a" "a http://h:1" "a tls://h:65536" "a tls://h" "a:b tls://h:1" "a tls://h:1 more"; do
		echo "$line" >"$WORK/nodes"
		run -1 --separate-stderr gpushare ls --nodes
		has "$stderr" "$WORK/nodes:1: a line is 'name address'"
	done
	rm "$WORK/nodes"
	run -1 --separate-stderr gpushare nodes
	has "$stderr" "$WORK/nodes, can't be read: No such file"
	printf 'b\xff tcp://127.0.0.1:1\nb tcp://127.0.0.1:1\n' >"$WORK/nodes"
	run -1 --separate-stderr gpushare nodes --json
	has "$stderr" "a node's name or address in the list of nodes isn't UTF-8"
	equal "$(jq -r '.[].node' <<<"$output")" b
	GPUSHARE_NODES=$WORK run -1 --separate-stderr gpushare nodes
	has "$stderr" "$WORK, can't be read: Is a directory"
	GPUSHARE_NODES=$(printf '%05000d' 0) run -1 --separate-stderr gpushare nodes
	has "$stderr" ", can't be read: File name too long; GPUSHARE_NODES=FILE names another"
	run -1 --separate-stderr gpushare pull tls://nosuchhost.invalid:1:x
	has "$stderr" "node 'tls://nosuchhost.invalid:1': tls://nosuchhost.invalid:1: "
	refute grep -q "Address invalid" <<<"$stderr"
	run -1 --separate-stderr env -u HOME -u XDG_CONFIG_HOME gpushare pull tls://127.0.0.1:1:x
	has "$stderr" "HOME is not set; --tls DIR says where ca.pem and node.pem are"
}

@test "nodes and ls --nodes: all are asked; one that is down is named, and the others are shown" {
	serve c
	serve a
	source_of a weights 1000
	source_of c weights 2000
	source_of c kv 3000
	run -0 gpushare nodes
	equal "$(sed 1d <<<"$output" | awk '{ print $1, $3, $4 }')" $'c up 0.1.0\na up 0.1.0'
	run -0 gpushare ls --nodes -o NODE,NAME,SIZE 'w*'
	equal "$(sed 1d <<<"$output" | tr -s ' ')" $'c weights 2000\na weights 1000'
	equal "$(gpushare ls --nodes --sort -SIZE --no-headers | awk '{ print $1, $2 }')" $'c kv\nc weights\na weights'
	equal "$(gpushare ls --nodes --no-headers "" | wc -l)" 3
	refute grep -q NODE <<<"$(gpushare ls)"
	kill -KILL "$NODE_PID"
	until_true has_ended "$NODE_PID"
	run -1 --separate-stderr gpushare ls --nodes --json
	equal "$(jq -r '.[] | .node + " " + .name, .isolated' <<<"$output")" $'c kv\ntrue\nc weights\ntrue'
	has "$stderr" "node 'a': $ADDRESS: no node listens there"
	run -1 --separate-stderr gpushare nodes --json
	equal "$(jq -c '[.[] | .node, .up]' <<<"$output")" '["c",true,"a",false]'
	run -2 gpushare ls --nodes --deferred
}

@test "a node without a registry, and one whose registry begins later" {
	serve a
	run -1 --separate-stderr gpushare pull a:weights
	has "$stderr" "node 'a': no registry"
	source_of a weights 1000
	gpushare pull a:weights
	received weights
}

# via NAME: pull NAME of a, by way of c
via() {
	run -0 --separate-stderr gpushare pull "a:$1" --via c "${@:2}"
}

@test "pull --via: from the replica, if that has the same version; each other buffer from the node itself" {
	serve c
	serve a
	local name
	for name in llama/0 llama/1 llama/2; do source_of a $name 3000000; done
	on c gpushare pull 'a:llama/*'
	on c gpushare tag llama/0 extra=1
	# what c has as a copy can't be told from the source, except by bytes that nobody published
	printf x | on c gpushare put - llama/0 --offset 0
	on c gpushare rm llama/1
	on c gpushare restore "$WORK/llama/0" llama/1 # no copy, but the same size
	on a gpushare rm llama/2
	on a gpushare restore "$WORK/llama/0" llama/2 # another version
	via 'llama/*'
	equal "$stderr" ""
	equal "$(gpushare get llama/0 | sha256sum)" "$(on c gpushare get llama/0 | sha256sum)" # so it came from c
	equal "$(shown llama/0 tags | jq -c 'keys')" '["copy-of"]'
	received llama/1
	received llama/2 llama/0
	equal "$(shown llama/0 tags | jq -r '."copy-of"')" "$(on c shown llama/0 tags | jq -r '."copy-of"')"
	run -1 gpushare pull a:nothing --via c
	run -2 --separate-stderr gpushare pull a:llama/0 --via c --follow
	has "$stderr" "--via does not go with --follow"
}

@test "pull --via: a version that was published since, by the source or in the replica, is not used" {
	serve c
	serve a
	on a begin app "$BIN/api_app" open make=a,w,1Mi,keep fill=a,1 publish=a touch="$WORK/up" await="$WORK/go" \
		reclaim=a,1,10000 fill=a,2 publish=a touch="$WORK/done" await="$WORK/end"
	on c gpushare pull a:w
	on c "$BIN/api_app" open attach=b,w put=b,0,99 # c's copy has another first byte
	via w --as one
	cmp -s <(gpushare get one) <(on c gpushare get w)
	on c "$BIN/api_app" open attach=b,w publish=b # and now that is a publication of its own
	via w --as two
	cmp -s <(gpushare get two) <(on a gpushare get w)
	on c gpushare rm w
	on c gpushare pull a:w
	touch "$WORK/go"
	await_file "$WORK/done"
	via w --as three
	cmp -s <(gpushare get three) <(on a gpushare get w)
	on a begin owned "$BIN/api_app" open make=a,mine,1Mi,keep fill=a,1 touch="$WORK/owned" await="$WORK/end"
	on c gpushare pull a:mine
	on c "$BIN/api_app" open attach=b,mine put=b,0,99
	via mine # its owner may have written it
	cmp -s <(gpushare get mine) <(on a gpushare get mine)
}

@test "pull --via: a replica that is down, or ends in mid-transfer" {
	serve c
	local replica=$NODE_PID
	ADDRESS_C=$ADDRESS
	serve a
	source_of a weights 64000000
	on c gpushare pull a:weights
	ADDRESS=$ADDRESS_C relayed
	start pull gpushare pull a:weights --via "$RELAY"
	PULLER=$PID
	await_file "$WORK/held"
	kill -KILL "$(workers)" # as if node a had closed the connection, which was silent for 12 s
	kill -KILL "$replica"
	touch "$WORK/go"
	finish "$PULLER"
	received weights
	has "$(cat "$WORK/pull.err")" "; going on with node 'a'"
	gpushare rm weights
	run -0 --separate-stderr gpushare pull a:weights --via c
	has "$stderr" "node 'c': $ADDRESS_C: no node listens there; going on with node 'a'"
	received weights
	run -0 --separate-stderr gpushare pull a:weights --as more --via nobody
	has "$stderr" "there is no node 'nobody' in the list of nodes"
}

# on_this_host ARGUMENT...: pull, by a connection that holds back what is beyond 16 MB: only as on one host it succeeds
on_this_host() {
	relayed
	GPUSHARE_SAME_HOST='' run -0 --separate-stderr timeout 9 gpushare pull "$RELAY:$1" "${@:2}"
	equal "$stderr" ""
	[ ! -e "$WORK/held" ]
}

@test "pull on one host: the GPU copies what the node's registry has, but what a publisher may write comes by the connection" {
	serve a
	source_of a weights 64000000
	on a gpushare tag weights dtype=u8
	on_this_host weights --tag from=a
	received weights
	equal "$(shown weights tags | jq -cS 'del(."copy-of")')" '{"dtype":"u8","from":"a"}'
	on a begin app "$BIN/api_app" open make=a,w,32Mi,keep fill=a,3 publish=a touch="$WORK/up" await="$WORK/end"
	app=$PID
	GPUSHARE_SAME_HOST='' pulling w
	touch "$WORK/go" "$WORK/end"
	finish "$PULLER"
	finish "$app"
	on_this_host w --as ended
	for copy in w ended; do
		equal "$(gpushare get $copy | sha256sum)" "$(on a gpushare get w | sha256sum)"
	done
	on a up unified "$BIN/api_app" open make=a,u,20Mi,unified fill=a,4
	on_this_host u
	equal "$(gpushare get u | sha256sum)" "$(on a gpushare get u | sha256sum)"
}

@test "pull on one host: what can't be copied by the GPU, or a directory that is another one here: by the connection" {
	serve a
	source_of a weights 5000000
	head -c 5000000 /dev/zero >"$WORK/zeros"
	on c gpushare restore "$WORK/zeros" weights
	unset GPUSHARE_SAME_HOST
	GPUSHARE_SIM_FAIL=cuMemcpy:1:1 gpushare pull a:weights
	received weights
	unshare -m true || skip "no mount namespaces here"
	unshare -m sh -c "mount --bind $WORK/c $WORK/a && gpushare pull a:weights --as same"
	received same weights
}

# python STATEMENT: run it with the package of the tree
python() {
	PYTHONPATH=$ROOT/tools/python/src PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c "import gpushare; $1"
}

@test "Python's gpushare.pull(): the command's options, and its message as an exception" {
	[ -x /usr/bin/python3 ] || skip "python3 is not installed"
	serve a
	source_of a weights 1000000
	GPUSHARE_NAME=nonsense=1 python 'gpushare.pull("a:weights", "mine", read_only=True, mode=0o640, group='"$(id -g)"', tags={"x": "1"})'
	received mine weights
	equal "$(shown mine readonly) $(shown mine mode) $(shown mine tags | jq -r .x)" "true 0640 1"
	python 'gpushare.pull("a:w*", via="a", tls="'"$TLS"'", directory="'"$GPUSHARE_DIR"'", device=0)'
	received weights
	run -1 python 'gpushare.pull("a:nothing")'
	has "$output" "gpushare._errors.GpushareError: node 'a': no buffer is named \"nothing\""
	run -1 python 'gpushare.pull("a:w*", "many")'
	has "$output" "gpushare.InvalidError: --as is for one NAME"
	PATH=/nowhere run -1 python 'gpushare.pull("a:weights")'
	has "$output" "gpushare.NotSupportedError: the command gpushare is not on PATH: install it"
}

# refused TLS: a puller with those files gets nothing, and b has no buffer
refused() {
	run -1 --separate-stderr timeout 8 gpushare pull --tls "$1" a:weights
	has "$stderr" "node 'a'"
	equal "$(gpushare ls -q)" ""
	until_true has_workers 0
}

# speak VERSION: connect to the node by that version of TLS, with a good certificate
speak() {
	timeout 8 openssl s_client -connect "${ADDRESS#tls://}" -CAfile "$TLS/ca.pem" -cert "$TLS/node.pem" -key "$TLS/node.pem" \
		-cipher DEFAULT@SECLEVEL=0 "-$1" <<<Q
}

@test "a node speaks TLS 1.2, and nothing older" {
	serve a
	run -0 speak tls1_2
	has "$output" "Protocol  : TLSv1.2"
	for version in tls1 tls1_1; do run -1 speak "$version"; done
}

@test "certificates: of another CA, expired, or none is refused on both sides, and a key that others can read" {
	needs faketime
	serve a
	source_of a weights 1000
	authority "$WORK/foreign"
	certificate "$WORK/foreign"
	cp -r "$WORK/foreign" "$WORK/mixed" # accepts the node, and is not accepted
	cp "$TLS/ca.pem" "$WORK/mixed"
	cp -r "$TLS" "$WORK/expired"
	certificate "$WORK/expired" faketime '90 days ago'
	refused "$WORK/foreign"
	refused "$WORK/mixed"
	has "$stderr" "check that the CA of $WORK/mixed/ca.pem signed both certificates"
	refused "$WORK/expired"
	run -1 timeout 8 openssl s_client -connect "${ADDRESS#tls://}" -CAfile "$TLS/ca.pem" -ign_eof
	until_true has_workers 0
	gpushare pull a:weights
	received weights
	gpushare rm weights
	: >"$WORK/nodes"
	kill -KILL "$NODE_PID"
	serve a --listen tls://127.0.0.1:0 --tls "$WORK/expired"
	refused "$TLS"
	has "$stderr" "during the TLS handshake"
	chmod 666 "$TLS/ca.pem"
	run -1 --separate-stderr gpushare pull a:weights
	has "$stderr" "$TLS/ca.pem: others may change it; 'chmod go-w' it"
	chmod 644 "$TLS/ca.pem"
	chmod 640 "$TLS/node.pem"
	run -1 --separate-stderr gpushare pull a:weights
	has "$stderr" "$TLS/node.pem: others have access to it; 'chmod 600' it"
	run -1 --separate-stderr gpushare node
	has "$stderr" "'chmod 600' it"
	rm "$TLS/node.pem"
	run -1 --separate-stderr gpushare node
	has "$stderr" "$TLS/node.pem: No such file"
	(umask 077 && cp "$TLS/node.crt" "$TLS/node.pem")
	run -1 --separate-stderr gpushare node
	has "$stderr" "$TLS/node.pem: no certificate with its private key can be read from it"
	rm "$TLS/ca.pem"
	run -1 --separate-stderr gpushare node
	has "$stderr" "$TLS/ca.pem: No such file"
	run -1 --separate-stderr env -u HOME -u XDG_CONFIG_HOME gpushare node
	has "$stderr" "HOME is not set; --tls DIR says where ca.pem and node.pem are"
}

@test "a node's certificate is for 'gpushare': one of the same CA for another name is refused" {
	cp -r "$TLS" "$WORK/other"
	NAME=mail certificate "$WORK/other"
	serve a --listen tls://127.0.0.1:0 --tls "$WORK/other"
	source_of a weights 1000
	refused "$TLS"
}

@test "without TLS: only on an address of the interface that is called trusted" {
	run -1 --separate-stderr gpushare node --listen tcp://127.0.0.1:0
	has "$stderr" "whoever reaches it may read all that you may read; --trusted-network IFACE"
	run -1 --separate-stderr gpushare node --listen tcp://0.0.0.0:0 --trusted-network lo
	has "$stderr" "tcp://0.0.0.0:0 is not an address of the interface 'lo'"
	run -1 gpushare node --listen tcp://127.0.0.1:0 --trusted-network eth999
	run -2 gpushare node --listen udp://127.0.0.1:0
	serve a --listen tcp://127.0.0.1:0 --trusted-network lo
	source_of a weights 20000000
	gpushare pull a:weights
	received weights
	serve a --listen tcp://127.0.0.1:0 --trusted-network lo # two nodes of one registry
	equal "$(gpushare ls --nodes --no-headers | wc -l)" 2
}

@test "without TLS: a peer that the host reaches by another interface is closed" {
	needs ip
	local interface address
	read -r interface address < <(ip -br -4 addr | awk '$1 != "lo" && $3 { sub("@.*", "", $1); sub("/.*", "", $3); print $1, $3 }') ||
		skip "there is no interface but lo"
	serve a --listen "tcp://$address:0" --trusted-network "$interface"
	source_of a weights 1000
	gpushare pull a:weights
	received weights
	# its source address is one of lo
	run timeout 8 /usr/bin/python3 -c "import socket; s = socket.create_connection(('$address', ${ADDRESS##*:}),
		source_address=('127.0.0.1', 0)); s.sendall(b'\0\0\0\4\x0a\2\x08\1'); print(len(s.recv(99)))"
	[ "$output" = 0 ] || has "$output" ConnectionResetError
	has "$(cat "$WORK/a.err")" "refused 127.0.0.1, which is not on the network of '$interface'"
}

@test "junk bytes: before and after the handshake they end one connection, and nothing else" {
	serve c --listen tls://127.0.0.1:0
	equal "$(send 'GET / HTTP/1.0\r\n\r\n')" ""
	until_true has_workers 0
	runs "$NODE_PID"
	serve a --listen tcp://127.0.0.1:0 --trusted-network lo
	source_of a weights 100000
	equal "$(send '\xff\xff\xff\xff')" ""                  # a message of 4 GiB
	equal "$(send '\0\0\0\0')" ""                          # an empty one
	equal "$(send '\0\0\0\x03\x0a\x7f\x01')" ""            # one whose field ends behind it
	equal "$(send '\0\0\0\x05\x1a\x03\x0a\x01-')" ""       # an Open of '-'
	has "$(send '\0\0\0\x04\x0a\x02\x08\x01\0\0\0\0')" 08f1ffffffffffffffff01 # a Hello of protocol 1: E_NOT_SUPPORTED
	has "$(send '\0\0\0\x02\x42\0\0\0\0\0')" 08ffffffffffffffffff01 # a Fetch without an Open: E_INVALID
	has "$(send '\0\0\0\x02\x2a\0\0\0\0\0')" 08ffffffffffffffffff01 # and a Close
	equal "$(send '\0\0\0\x0a\x3a\x08\x0a\x02AA\x12\x02BB')" "" # a Connect whose token has 2 bytes
	until_true has_workers 0
	gpushare pull a:weights
	received weights
}

@test "an idle node: no CUDA, no calls of the system; and its worker ends with the connection" {
	serve a
	source_of a weights 1000
	gpushare pull a:weights
	until_true has_workers 0
	refute grep -qE 'libcuda|libcurl' "/proc/$NODE_PID/maps"
	switches() { cat /proc/"$NODE_PID"/task/*/status | sed -n 's/^\(non\)\?voluntary_ctxt_switches:\s*//p' | paste -sd +; }
	before=$(($(switches)))
	sleep 2
	equal "$(($(switches)))" "$before"
}

@test "silent connections: the oldest is closed for a new one, and all after 10 s" {
	serve a
	source_of a weights 1000
	local fd fds=()
	for ((i = 0; i < 200; i++)); do
		exec {fd}<>"/dev/tcp/127.0.0.1/${ADDRESS##*:}"
		fds+=("$fd")
	done
	gpushare pull a:weights
	received weights
	few() {
		(($(find "/proc/$NODE_PID/fd" -lname 'socket:*' | wc -l) <= $1))
	}
	until_true few 135
	until_true few 5
	for fd in "${fds[@]}"; do exec {fd}>&-; done
}

@test "a node whose starter ignores SIGCHLD releases the connections that have ended" {
	local STARTER=(env --ignore-signal=CHLD) sockets
	source_of a weights 1000000
	serve a
	sockets=$(find "/proc/$NODE_PID/fd" -lname 'socket:*' | wc -l)
	gpushare pull a:weights
	received weights
	released() {
		[ "$(find "/proc/$NODE_PID/fd" -lname 'socket:*' | wc -l)" = "$sockets" ]
	}
	until_true released
}

@test "a node with 128 connections says so to the next puller" {
	serve a --listen tcp://127.0.0.1:0 --trusted-network lo
	local fd fds=()
	for ((i = 0; i < 128; i++)); do
		exec {fd}<>"/dev/tcp/127.0.0.1/${ADDRESS##*:}"
		printf '\0\0\0\004\012\002\010\004' >&"$fd"
		fds+=("$fd")
	done
	for fd in "${fds[@]}"; do read -r -N 4 -u "$fd" -t 10 _ || true; done
	exec {fd}<>"/dev/tcp/127.0.0.1/${ADDRESS##*:}" # one more, which says nothing: it holds no place
	fds+=("$fd")
	for ((i = 0; i < 2; i++)); do
		run -1 --separate-stderr gpushare pull a:weights
		has "$stderr" "node 'a': it serves 128 connections already"
	done
	for fd in "${fds[@]}"; do exec {fd}>&-; done
}
