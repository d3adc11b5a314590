#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Scale: what a thousand cycles leave behind, and ten thousand names at once.
load helpers

NOTHING_MORE="more than at the mark: 0 fds, 0 mappings, 0 bytes"

setup_more() {
	# If a name travels as a descriptor, it costs its owner one or two descriptors.
	ulimit -n 65536 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"
}

# holds NAME WORD...: start an owner that marks what it holds; after $WORK/end it reports what it holds beyond the mark
holds() {
	begin "$@" touch="$WORK/$1.up" await="$WORK/mark" mark touch="$WORK/$1.marked" await="$WORK/end" marked
	OWNERS+=("$PID")
}

# rules NAME: a rule for each of 1010 allocations
rules() {
	printf "$1:must,%.0s" {1..1009}
	echo "$1:must"
}

registry_mappings() {
	wc -l <"/proc/$(registry_pids)/maps"
}

@test "what fails of a thousand says how the first time" {
	up owner "$BIN/api_app" open make=a,here,2Mi,none fill=a,7
	run -0 --separate-stderr "$BIN/api_app" open cycle=2,here,7 cycle=2,none,7 cycle=2,here,8 remake=2,here,2Mi,none
	equal "$output" "open: OK
cycle: 0 failed
cycle: 2 failed
cycle: 2 failed
remake: 2 failed"
	has "$stderr" "the first to fail is number 0: attach: E_NOT_FOUND: "
	has "$stderr" "the first to fail is number 0: it begins with 7"
	has "$stderr" "the first to fail is number 0: alloc_with: E_EXISTS: "
	run -0 --separate-stderr attaching none:must "$BIN/drv_linked" init cycle=2,2Mi
	has "$output" "cycle: 2 failed"
	has "$stderr" "the first to fail is number 0: alloc: "
}

@test "a thousand attaches and detaches leave everything as it was" {
	export GPUSHARE_TIMEOUT_MS=60000 # a free that isn't answered in time is deferred, and found here
	OWNERS=()
	holds ipc "$BIN/api_app" context open make=a,ipc,2Mi,none fill=a,7
	holds vmm "$BIN/api_app" context open make=a,vmm,2Mi,vmm fill=a,8
	holds ruled env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME="rule/ipc,rule/vmm:vmm" "$BIN/drv_linked" init alloc=a,2Mi fill=a,9 \
		alloc=b,2Mi fill=b,10
	touch "$WORK/mark"
	for tag in ipc vmm ruled; do await_file "$WORK/$tag.marked"; done
	for cycle in ipc,7 vmm,8 rule/ipc,9 rule/vmm,10; do
		rm -f "$WORK/warm" "$WORK/go"
		start api "$BIN/api_app" context open cycle=10,$cycle mark touch="$WORK/warm" await="$WORK/go" \
			cycle=1000,$cycle marked touch="$WORK/cycled" await="$WORK/seen"
		unchanged_by "$PID" api
		start rule env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH="$(rules "${cycle%,*}")" "$BIN/drv_linked" init \
			cycle=10,2Mi,"${cycle#*,}" mark touch="$WORK/warm" await="$WORK/go" \
			cycle=1000,2Mi,"${cycle#*,}" marked touch="$WORK/cycled" await="$WORK/seen"
		unchanged_by "$PID" rule
	done
	touch "$WORK/end"
	for pid in "${OWNERS[@]}"; do finish "$pid"; done
	for tag in ipc vmm ruled; do equal "$(tail -n 1 "$WORK/$tag.out")" "$NOTHING_MORE"; done
}

# unchanged_by PID TAG [WORD]: between $WORK/warm and $WORK/cycled, the program and the registry accumulate nothing
unchanged_by() {
	local fds mappings
	await_file "$WORK/warm"
	fds=$(registry_fds) mappings=$(registry_mappings)
	resume go cycled
	until_true fds_are "$fds"
	echo "mappings of the registry: $mappings, then $(registry_mappings)"
	# The heap may take two more mappings per thread. A sanitizer's heap has a mapping for each size.
	[ "$(registry_mappings)" -le $((mappings + 2 + 2 * $(nproc) ${GPUSHARE_TEST_ASAN_PRELOAD:+ + 32})) ]
	touch "$WORK/seen"
	finish "$1"
	equal "$(tail -n 2 "$WORK/$2.out")" "${3:-cycle}: 0 failed
$NOTHING_MORE" || { head -n 8 "$WORK/$2.err"; return 1; }
	rm -f "$WORK/warm" "$WORK/go" "$WORK/cycled" "$WORK/seen"
}

@test "a thousand named allocations and frees leave everything as it was" {
	export GPUSHARE_TIMEOUT_MS=60000 # a free that isn't answered in time is deferred, and found here
	up keeper "$BIN/api_app" open make=a,first,2Mi,vmm
	for options in none vmm; do
		start api "$BIN/api_app" context open remake=10,w,2Mi,$options mark touch="$WORK/warm" await="$WORK/go" \
			remake=1000,w,2Mi,$options marked touch="$WORK/cycled" await="$WORK/seen"
		unchanged_by "$PID" api remake
	done
	for rule in 'w%i' 'w%i:vmm'; do
		start_named rule "$rule" "$BIN/drv_linked" init cycle=10,2Mi mark touch="$WORK/warm" await="$WORK/go" \
			cycle=1000,2Mi marked touch="$WORK/cycled" await="$WORK/seen"
		unchanged_by "$PID" rule
	done
	equal "$(names)" "first 2097152"
}

# within_ms LIMIT COMMAND...: COMMAND takes at most LIMIT ms; its output is in $WORK/list
within_ms() {
	took_ms "${@:2}" >"$WORK/list"
	[ "$TOOK_MS" -le $(($1 + 4 * SLACK_MS)) ] || { echo "took $TOOK_MS ms: ${*:2}"; return 1; }
}

@test "a pattern that costs much is answered in parts: the listing is whole, and nobody waits for it" {
	local long pattern
	long=$(printf 'a%.0s' {1..250}) pattern="*[9$(printf 'x%.0s' {1..240})]9*"
	up_named owner "$long%i" "$BIN/drv_linked" init hoard=1,300,4Ki
	equal "$(gpushare ls --json | jq length)" 300
	asked=$(gpushare metrics | sed -n 's/^gpushare_requests_total{verb="list"} //p')
	equal "$(gpushare ls "$pattern" | grep -c '^a')" 3
	asked=$(($(gpushare metrics | sed -n 's/^gpushare_requests_total{verb="list"} //p') - asked))
	[ "$asked" -ge 100 ]
	[ "$asked" -le 200 ]
	down
}

# registry_kib: the registry's private memory, without the index, which has a fixed size
registry_kib() {
	awk '$1 == "RssAnon:" { print $2 }' "/proc/$(registry_pids)/status"
}

# True if the registry has at most KIB of such memory
memory_is() {
	[ "$(registry_kib)" -le "$1" ]
}

# come_and_go COUNT: so many connections, one after the other, each of which gets a session
come_and_go() {
	/usr/bin/python3 - "$1" "$GPUSHARE_DIR/registry.sock" <<-'END'
		import socket, sys
		for _ in range(int(sys.argv[1])):
		    peer = socket.socket(socket.AF_UNIX)
		    peer.connect(sys.argv[2])
		    peer.sendall(b"\0SP\0\0\x30\0\0")  # an SP REQ
		    peer.recv(8, socket.MSG_WAITALL)
	END
}

@test "twenty thousand connections that came and went leave no memory behind" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${SANITIZE:-}" ] || skip "the sanitizers keep what is freed"
	local before
	api open >/dev/null
	come_and_go 4000
	before=$(registry_kib)
	come_and_go 20000
	until_true memory_is $((before + 256)) || { echo "$before KiB, then $(registry_kib)"; return 1; }
}

@test "ten thousand names at once, of cudaMalloc memory: listed within a second, found, gone with their memory" {
	needs jq
	local before full
	api open >/dev/null
	before=$(registry_kib)
	up owner "$BIN/api_app" open raw=p,2Mi many=p,10000
	equal "$(cat "$WORK/owner.out")" "open: OK"
	ten_thousand_are_there
	full=$(registry_kib)
	kill -KILL "$PID"
	equal "$(api open gone="$PID",m9999,$((1000 + SLACK_MS)) list)" "open: OK
gone m9999: E_NOT_FOUND"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${SANITIZE:-}" ] || return 0 # the sanitizers keep what is freed
	[ "$full" -ge $((before + 2048)) ]
	until_true memory_is $((before + (full - before) / 4))
}

@test "ten thousand names at once that travel as descriptors: the same, and no descriptor is left" {
	needs jq
	local patience_s=30
	[ "${GPUSHARE_TEST_GPU:-}" != must ] || patience_s=120 # a GPU's driver takes milliseconds for each
	api open >/dev/null
	before=$(registry_fds)
	[ "$(sed -n 's/^Max open files *[0-9]* *\([0-9]*\).*/\1/p' "/proc/$(registry_pids)/limits")" -ge 20000 ] ||
		skip "a process may have too few descriptors here"
	start owner "$BIN/api_app" open raw=p,2Mi,vmm many=p,10000 touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up" "$patience_s"
	equal "$(cat "$WORK/owner.out")" "open: OK"
	ten_thousand_are_there
	[ "$(registry_fds)" -ge $((before + 10000)) ]
	kill -KILL "$PID"
	equal "$(api open gone="$PID",m9999,$((1000 + SLACK_MS)) list)" "open: OK
gone m9999: E_NOT_FOUND"
	until_true fds_are $((before + 1))
}

ten_thousand_are_there() {
	within_ms 1000 gpushare ls
	equal "$(wc -l <"$WORK/list")" 10001
	within_ms 1500 gpushare ls --json
	equal "$(jq length "$WORK/list")" 10000
	# The first attach makes a CUDA context. A real driver's time for that is not limited here.
	equal "$(api open within=$((100 + SLACK_MS)) stat=m9999 stat=m000 stat=none attach=a,m5000 detach=a |
		sed "/^size/d; $([ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || echo '/^late: attach=/d')")" "open: OK
stat m9999: OK
stat m000: OK
stat none: E_NOT_FOUND
attach m5000: OK
detach a: OK"
}

# folder_kib: the size of the registry's files in KiB
folder_kib() {
	find "$GPUSHARE_DIR" -maxdepth 1 -type f -printf '%s\n' 2>/dev/null | awk '{ all += $1 } END { print int(all / 1024) }'
}

@test "the registry's files take what its state needs, however often that changes" {
	local most=0 needed now
	start owner "$BIN/api_app" open raw=p,2Mi many=p,10000 touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up" 60
	needed=$(folder_kib)
	[ "$needed" -ge 1000 ]
	start tags "$BIN/api_app" open retag=m000,60000
	until has_ended "$PID"; do
		now=$(folder_kib)
		((now <= most)) || most=$now
	done
	equal "$(cat "$WORK/tags.out")" "open: OK
tag m000: OK"
	echo "needed $needed KiB, took $most KiB"
	((most <= needed + 64))
}

@test "registry.state that has become too large stays as it is where no other can be made" {
	local sharer registry
	[ -x "$BUILD/bench/many" ] || skip "instruments would be measured"
	start_registry
	up owner "$BIN/api_app" open make=a,w,2Mi,vmm
	mkfifo "$WORK/never"
	start many bash -c 'exec "$0" share 20000 <>"$1"' "$BUILD/bench/many" "$WORK/never"
	sharer=$PID
	PATIENCE_S=60 until_true test -s "$WORK/many.out" || { cat "$WORK/many.err"; return 1; }
	mkdir -p "$GPUSHARE_DIR/registry.state.new/in/the/way"
	kill -KILL "$sharer"
	PATIENCE_S=60 until_true names_are "w 2097152"
	stays 2000 test -s "$GPUSHARE_DIR/registry.state"
	registry=$(registry_pids)
	kill_now "$registry"
	start_registry
	has "$(api open attach=a,w)" "attach w: OK" # its owner asks nothing meanwhile
}

@test "what the registry has descriptors for is E_LIMIT, and the rest goes on" {
	(
		ulimit -n 400
		exec gpushare-registry --dir "$GPUSHARE_DIR" </dev/null >/dev/null 2>&1 3>&- 8>&-
	) &
	STARTED+=($!)
	await_file "$GPUSHARE_DIR/registry.sock"
	up owner "$BIN/api_app" open raw=p,2Mi,vmm many=p,300 raw=q,2Mi share=i,ipc,q,0,1Mi
	equal "$(grep -c 'share m[0-9]*: E_LIMIT' "$WORK/owner.out")" 100
	equal "$(tail -n 1 "$WORK/owner.out")" "share ipc: OK"
	has "$(cat "$WORK/owner.err")" "descriptors"
	has "$(cat "$WORK/owner.err")" "raise the registry's 'ulimit -n'"
	equal "$(lines "$(names)")" 201
	gpushare rm m007
	equal "$(api open attach=a,m199 make=b,again,2Mi,vmm)" "open: OK
attach m199: OK
make again: OK"
}

@test "connections that the registry has no descriptors for are closed, and its clients go on" {
	needs python3
	(
		ulimit -n 400
		exec gpushare-registry --dir "$GPUSHARE_DIR" </dev/null >/dev/null 2>&1 3>&- 8>&-
	) &
	STARTED+=($!)
	until_true listens
	begin owner "$BIN/api_app" open alloc=a,w,2Mi touch="$WORK/up" await="$WORK/full" alloc=b,v,2Mi touch="$WORK/named" \
		await="$WORK/end"
	cat >"$WORK/crowd.py" <<-'END'
		import select, socket, sys, time
		crowd = [socket.socket(socket.AF_UNIX) for _ in range(600)]
		until = time.monotonic() + 3
		for one in crowd:
		    one.setblocking(False)
		    while one.connect_ex(sys.argv[1]) and time.monotonic() < until:
		        time.sleep(0.001)
		time.sleep(1)
		ended = select.poll()
		for one in crowd:
		    ended.register(one, select.POLLRDHUP)
		print(len(crowd) - len(ended.poll(0)), flush=True)
		sys.stdin.read()
	END
	mkfifo "$WORK/leave"
	start crowd bash -c 'exec python3 "$0" "$1" <>"$2"' "$WORK/crowd.py" "$GPUSHARE_DIR/registry.sock" "$WORK/leave"
	until_true test -s "$WORK/crowd.out"
	open=$(cat "$WORK/crowd.out")
	echo "$open of 600 are open"
	[ "$open" -ge 200 ]
	[ "$open" -le $((400 / 3 * 2)) ]
	resume full named
	has "$(cat "$WORK/owner.out")" "alloc v: OK"
	kill -KILL "$PID"
	finish "$PID" || true
	until_true names_are $'v 2097152\nw 2097152'
}
