#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The calls that order a buffer, one by one: refusals, streams beside each other and the CPU, contexts, graphs, calls of
# the driver that fail, consumers that come and go. order.bats has whole crews of processes.
load helpers

# says EXPECTED WORDS...: api_app, after opening a session with 4 KiB in slot b, prints EXPECTED. Its errors are in
# $stderr.
says() {
	run -0 --separate-stderr timeout 60 "$BIN/api_app" open alloc=b,x,4096 "${@:2}"
	equal "$(sed 1,2d <<<"$output")" "$1"
}

# fails FAULT EXPECTED WORDS...: the same, on a driver that fails
fails() {
	GPUSHARE_SIM_FAIL=$1 says "${@:2}"
}

@test "no buffer, not joined, not published, a host_only buffer: refused with a reason" {
	says "publish z: E_INVALID
join z: E_INVALID
release b: E_INVALID
release b: E_INVALID
acquire b: E_TIMED_OUT
acquire b: E_TIMED_OUT
release b: E_RANGE
join b: 1
leave b: OK
leave b: OK
make y: OK
attach y: OK
publish w: E_INVALID
acquire w: E_INVALID
publish v: 1
sequence w: 1
ordering w: host" publish=z join=z release=b,1 release=b,1,d acquire=b,1,0 acquire=b,1,30 release=b,1 join=b leave=b \
		leave=b make=v,y,4096,vmm attach=w,y,0,host publish=w,d acquire=w,1,d publish=v sequence=w ordering=w
	has "$stderr" "the buffer is NULL"
	has "$stderr" "has not joined 'x'"
	has "$stderr" "publication 1 of 'x' did not come within 30 ms; the last was 0"
	has "$stderr" "neither published nor waited for"
	has "$stderr" "the call that ends in _host"
}

@test "publications come in the order of the calls, by whichever streams and the CPU" {
	script=(stream=f hold=h publish=b,h publish=b,h publish=b,f sequence=b letgo=h,soon publish=b sequence=b)
	expected="publish b: 1
publish b: 2
publish b: 3
sequence b: 0
publish b: 4
sequence b: 4"
	says "$expected" "${script[@]}"
	# If the driver can't tell streams apart, each publication waits for the one before it.
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || fails cuStreamGetId:1:99 "$expected" "${script[@]}"
}

@test "releases come in the order of the calls; a lower number takes nothing back" {
	says "join b: 1
publish b: 1
publish b: 2
acquire b: OK
release b: OK
release b: OK
release b: OK
reclaim b: E_TIMED_OUT
reclaim b: OK
publish b: 3
sequence b: 2
release b: OK
sequence b: 3
reclaim b: OK
publish b: 4
publish b: 5
release b: OK
release b: OK
reclaim b: OK
release b: OK
reclaim b: OK" hold=h stream=f stream=r join=b publish=b publish=b acquire=b,1,h release=b,1,h release=b,2,f \
		release=b,1,f reclaim=b,1,30 reclaim=b,2,r publish=b,r sequence=b letgo=h,soon release=b,2 sync=r sequence=b \
		reclaim=b,2,0 publish=b publish=b release=b,4 release=b,1,f sync=f reclaim=b,4,0 release=b,5,f sync=f reclaim=b,5,0
	has "$stderr" "publication 1 of 'x' was not released by all its consumers within 30 ms"
	says "join b: 1
publish b: 1
publish b: 2
release b: OK
release b: OK
reclaim b: OK" stream=f join=b publish=b publish=b release=b,2 release=b,1,f sync=f reclaim=b,2,0
	# The CPU's release comes after a stream's that was given before.
	says "join b: 1
publish b: 1
publish b: 2
release b: OK
reclaim b: E_TIMED_OUT
release b: OK
reclaim b: OK" hold=h join=b publish=b publish=b release=b,1,h aside=release,b,2 reclaim=b,1,60 letgo=h rejoin reclaim=b,2,0
	# Another thread leaves while a release waits.
	for how in stream-memory-operations host-functions; do
		GPUSHARE_ORDERING=$how run -0 --separate-stderr timeout 60 "$BIN/api_app" open alloc=b,x,4096 hold=h stream=s join=b \
			publish=b publish=b release=b,1,h "aside=release,b,2$([ $how != host-functions ] || echo ,s)" reclaim=b,1,400 \
			leave=b letgo=h rejoin
		equal "$(tail -n 2 <<<"$output" | sort)" "leave b: OK
release b: E_INVALID"
		has "$stderr" "another thread has just left"
	done
}

@test "a stream's own context is used, whichever is current, and none needs to be" {
	says "join b: 1
publish b: 1
context: the same
publish b: 2
acquire b: OK
release b: OK
reclaim b: OK
context: the same
publish b: 3
acquire b: OK
publish b: 4
publish b: 5
publish b: 6
context: the same
acquire b: 6" stream=s context=new stream=t join=b publish=b,s context=same publish=b,t acquire=b,2,t release=b,2,t \
		reclaim=b,2,t sync=t context context=same publish=b,t acquire=b,3,s context=none publish=b,d publish=b,s \
		publish=b,t context=same acquire=b,6,5000
	GPUSHARE_ORDERING=host-functions says "publish b: 1
publish b: 2
acquire b: OK
publish b: 3" publish=b,d context=new stream=t publish=b,t acquire=b,2,t sync=t context=end publish=b
}

@test "captured into a graph: nothing happens before it is launched, then all of it" {
	says "join b: 1
publish b: 1
release b: OK
reclaim b: OK
publish b: 0
acquire b: OK
reclaim b: E_TIMED_OUT
sequence b: 1
sequence b: 2
reclaim b: OK
reclaim b: E_TIMED_OUT" stream=s join=b publish=b,s sync=s capture=s release=b,1,s reclaim=b,1,s publish=b,s acquire=b,2,s \
		endcapture=s reclaim=b,1,20 sequence=b launch=s sync=s sequence=b reclaim=b,1,0 reclaim=b,2,0
	# A launch takes its number after those that streams had before the capture.
	says "publish b: 1
publish b: 0
publish b: 0
acquire b: E_TIMED_OUT
sequence b: 3
publish b: 0
acquire b: 4" stream=s hold=h publish=b,h capture=s publish=b,s endcapture=s launch=s publish=b,s acquire=b,1,60 letgo=h sync=s \
		sequence=b publish=b,s acquire=b,4,5000
	GPUSHARE_ORDERING=host-functions says "join b: 1
publish b: 1
acquire b: 1
release b: E_NOT_SUPPORTED
reclaim b: E_NOT_SUPPORTED
publish b: E_NOT_SUPPORTED
release b: OK
reclaim b: OK" stream=s join=b publish=b,s acquire=b,1,5000 capture=s release=b,1,s reclaim=b,1,s publish=b,s endcapture=s \
		release=b,1,s reclaim=b,1,s sync=s
	has "$stderr" "can't be captured into a graph"
}

@test "a graph that releases is launched after its consumer left: no other consumer's frame is released" {
	begin owner "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" await="$WORK/joined" publish=b \
		touch="$WORK/published" await="$WORK/launched" reclaim=b,2,100 touch="$WORK/tried" reclaim=b,2,20000
	begin first "$BIN/api_app" open attach=b,x join=b stream=s capture=s acquire=b,2,s release=b,2,s endcapture=s \
		leave=b touch="$WORK/left" await="$WORK/published" launch=s sync=s touch="$WORK/launched" await="$WORK/tried"
	# The lowest free place is given out first, and the one that was left is not free.
	start second "$BIN/api_app" open attach=b,x join=b touch="$WORK/joined" await="$WORK/tried" release=b,2
	finish "$PID"
	finish owner
	equal "$(grep release "$WORK/first.out")" "release b: OK"
	equal "$(grep reclaim "$WORK/owner.out")" "reclaim b: E_TIMED_OUT
reclaim b: OK"
}

@test "without stream memory operations the calls wait for what other streams and the CPU publish" {
	export GPUSHARE_ORDERING=host-functions
	says "join b: 1
publish b: 1
sequence b: 0
acquire b: OK
sequence b: 1
release b: OK
reclaim b: OK
publish b: 2
publish b: 3
sequence b: 1
publish b: 4
sequence b: 4
publish b: 5
publish b: 6
sequence b: 6" stream=s join=b hold=h publish=b,h sequence=b letgo=h,soon acquire=b,1,s sequence=b release=b,1,s \
		reclaim=b,1,s hold=h publish=b,h publish=b,h sequence=b letgo=h,soon publish=b,s sync=s sequence=b hold=h \
		publish=b,h letgo=h,soon publish=b sequence=b
}

@test "what the driver refuses: said with its call, no number is lost, and the next try works" {
	needs_sim
	tries=(publish=b,s acquire=b,2,s release=b,1,s reclaim=b,1,s)
	for call in cuMemHostRegister cuStreamIsCapturing; do
		fails $call:1:4 "join b: 1
publish b: 1
publish b: E_CUDA
acquire b: E_CUDA
release b: E_CUDA
reclaim b: E_CUDA
reclaim b: E_TIMED_OUT
publish b: 2
acquire b: OK
release b: OK
reclaim b: OK
sequence b: 2
reclaim b: OK" stream=s join=b publish=b "${tries[@]}" reclaim=b,1,0 "${tries[@]}" sync=s sequence=b reclaim=b,1,0
		has "$stderr" "ordering 'x' failed: $call"
	done
	fails cuStreamWaitValue32:2:1,cuStreamWaitValue64:1:2 "join b: 1
publish b: 1
publish b: E_CUDA
acquire b: E_CUDA
reclaim b: E_CUDA
publish b: 2
acquire b: OK
release b: OK
sequence b: 2
reclaim b: OK" stream=s join=b hold=h publish=b,h publish=b,s acquire=b,1,s reclaim=b,1,s publish=b,s acquire=b,2,s letgo=h \
		release=b,2,s sync=s sequence=b reclaim=b,2,0
	fails cuStreamWriteValue64:1:2,cuStreamWaitValue32:2:1 "join b: 1
publish b: 1
publish b: E_CUDA
release b: E_CUDA
release b: OK
publish b: 2
release b: E_CUDA
release b: OK
reclaim b: OK" stream=s join=b publish=b hold=h publish=b,h release=b,1,h release=b,1,h publish=b release=b,2,s release=b,2,s \
		letgo=h sync=s reclaim=b,2,5000
	fails cuCtxPushCurrent:4:1 "publish b: 1
publish b: E_CUDA
publish b: 2
sequence b: 2" hold=h publish=b,h publish=b letgo=h,soon publish=b sequence=b
	has "$stderr" "an earlier publication of 'x' by a stream will not come: its CUDA context has failed"
	for call in cuDeviceGetAttribute cuCtxGetDevice; do # it can't tell what the GPU has
		fails $call:1:99 "publish b: 1
ordering b: host-functions" stream=s publish=b,s ordering=b sync=s
	done
	export GPUSHARE_ORDERING=host-functions
	fails cuLaunchHostFunc:1:1 "join b: 1
publish b: E_CUDA
publish b: 1
sequence b: 1" stream=s join=b publish=b,s publish=b,s sync=s sequence=b
	fails cuEventQuery:1:2 "publish b: 1
publish b: E_CUDA
acquire b: E_CUDA
publish b: 2
sequence b: 2" stream=s hold=h publish=b,h publish=b,s acquire=b,1,s letgo=h,soon publish=b,s sync=s sequence=b
}

# publisher WORDS...: start a process that attaches x in slot b and carries out WORDS
publisher() {
	begin publisher "$BIN/api_app" open attach=b,x "$@"
	PUBLISHER=$PID
}

@test "a second publisher is told who it is; what the first published stays when it frees the buffer" {
	begin owner "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" await="$WORK/go" free=b \
		touch="$WORK/freed" await="$WORK/end"
	owner=$PID
	publisher stream=s publish=b reclaim=b,1,0 acquire=b,1,s acquire=b,2,s orderstatus=b touch="$WORK/go" \
		await="$WORK/freed" sync=s orderstatus=b acquire=b,2,s acquire=b,2,60000 acquire=b,1,0 sequence=b release=b,1 \
		detach=b
	finish "$PUBLISHER"
	equal "$(sed 1,2d "$WORK/publisher.out")" "publish b: E_DENIED
reclaim b: E_DENIED
acquire b: OK
acquire b: OK
orderstatus b: OK
orderstatus b: E_OWNER_GONE
acquire b: E_OWNER_GONE
acquire b: E_OWNER_GONE
acquire b: 1
sequence b: 1
release b: OK
detach b: OK"
	has "$(<"$WORK/publisher.err")" "published by process $owner"
	has "$(<"$WORK/publisher.err")" "publication 1 was the last, and 2 will not come"
}

@test "a killed publisher's number that never came is the next publisher's; a waiting one is told that all has ended" {
	for how in stream-memory-operations host-functions; do
		GPUSHARE_ORDERING=$how begin owner "$BIN/api_app" open make=b,x,4096,vmm touch="$WORK/up" await="$WORK/go" \
			stream=s publish=b,s sync=s sequence=b leave=b free=b touch="$WORK/freed"
		owner=$PID
		GPUSHARE_ORDERING=$how publisher hold=h publish=b,h touch="$WORK/given" await="$WORK/end"
		kill_now "$PUBLISHER"
		until_true attachers_are x 0
		touch "$WORK/go"
		finish "$owner"
		equal "$(sed 1,2d "$WORK/owner.out")" "publish b: 1
sequence b: 1
leave b: OK
free b: OK"
		rm "$WORK"/{go,given,freed}
	done
	# The owner ends while a publisher waits for its own stream.
	up owner "$BIN/api_app" open make=b,x,4096,vmm
	owner=$PID
	GPUSHARE_ORDERING=host-functions publisher stream=s hold=h publish=b,h aside=publish,b,s touch="$WORK/given" rejoin letgo=h
	down "$owner"
	finish "$PUBLISHER"
	equal "$(sed 1,2d "$WORK/publisher.out")" "publish b: 1
publish b: E_OWNER_GONE"
}

@test "a registry that is stopped: what needs it times out and is not done; what doesn't goes on" {
	export GPUSHARE_TIMEOUT_MS=$((500 + SLACK_MS))
	begin app "$BIN/api_app" open alloc=b,x,4096 touch="$WORK/up" await="$WORK/go" publish=b join=b touch="$WORK/late" \
		await="$WORK/on" publish=b join=b touch="$WORK/joined" await="$WORK/again" publish=b publish=b,d acquire=b,3,5000 \
		release=b,3 reclaim=b,3,0
	registry=$(registry_pids)
	halt "$registry"
	resume go late
	kill -CONT "$registry"
	resume on joined
	halt "$registry"
	touch "$WORK/again"
	finish app
	kill -CONT "$registry"
	equal "$(sed 1,2d "$WORK/app.out")" "publish b: E_TIMED_OUT
join b: E_TIMED_OUT
publish b: 1
join b: 1
publish b: 2
publish b: 3
acquire b: 3
release b: OK
reclaim b: OK"
}

@test "a consumer that left without a registry is one no more, and the next registry hears of it" {
	export GPUSHARE_AUTOSTART=0
	start_registry
	begin app "$BIN/api_app" open alloc=b,x,4096 publish=b join=b reclaim=b,1,0 touch="$WORK/up" await="$WORK/go" leave=b \
		reclaim=b,1,0 touch="$WORK/left" await="$WORK/on" leave=b publish=b reclaim=b,2,0
	kill_registry
	resume go left
	start_registry
	touch "$WORK/on"
	finish app
	equal "$(sed 1,3d "$WORK/app.out")" "join b: 1
reclaim b: E_TIMED_OUT
leave b: E_NO_REGISTRY
reclaim b: E_TIMED_OUT
leave b: OK
publish b: 2
reclaim b: OK"
}

@test "registries that know nothing: nobody takes a living publisher for gone" {
	start_registry
	begin owner "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" await="$WORK/go" stat=x publish=b \
		touch="$WORK/published" await="$WORK/on" stat=x free=b
	publisher stream=s acquire=b,2,s touch="$WORK/waits" await="$WORK/lost" stat=none orderstatus=b stat=none orderstatus=b \
		touch="$WORK/go" sync=s orderstatus=b sequence=b acquire=b,3,s touch="$WORK/again" await="$WORK/lost2" stat=none \
		orderstatus=b touch="$WORK/on" sync=s orderstatus=b
	restart_registry
	resume lost again
	restart_registry
	touch "$WORK/lost2"
	finish "$PUBLISHER"
	finish owner
	equal "$(sed 1,3d "$WORK/publisher.out")" "stat none: E_NOT_FOUND
orderstatus b: OK
stat none: E_NOT_FOUND
orderstatus b: OK
orderstatus b: OK
sequence b: 2
acquire b: OK
stat none: E_NOT_FOUND
orderstatus b: OK
orderstatus b: E_OWNER_GONE"
}

@test "a request while another thread shares the buffer with the next registry: the publisher is not gone" {
	needs_sim
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer's build has nothing to preload"
	start_registry
	begin owner env LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$BIN/lib_pause.so" \
		PAUSE_AT=cuIpcGetMemHandle PAUSE_FILE="$WORK/p" "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" \
		await="$WORK/go" aside=stat,other await="$WORK/p.paused" stat=none orderstatus=b join=b touch="$WORK/p.go" \
		rejoin orderstatus=b join=b publish=b
	restart_registry
	touch "$WORK/p.armed" "$WORK/go"
	finish owner
	equal "$(sed 1,3d "$WORK/owner.out")" "stat none: E_NOT_FOUND
orderstatus b: OK
join b: E_TIMED_OUT
stat other: E_NOT_FOUND
orderstatus b: OK
join b: 1
publish b: 2"
	has "$(<"$WORK/owner.err")" "has not shared 'x' with it again"
}

@test "a registry that made another page meanwhile: who has the lost one is told to attach again" {
	start_registry
	begin owner "$BIN/api_app" open alloc=a,x,4096 another attach=b,x publish=b touch="$WORK/up" await="$WORK/lost" state=a \
		touch="$WORK/known" await="$WORK/taken" join=b acquire=b,2,1000 publish=b attach=c,x
	restart_registry
	resume lost known
	publisher join=b touch="$WORK/taken" await="$WORK/end"
	finish owner
	equal "$(sed 1,6d "$WORK/owner.out")" "join b: E_OWNER_GONE
acquire b: E_OWNER_GONE
publish b: E_OWNER_GONE
attach x: OK"
	has "$(<"$WORK/owner.err")" "has lost the stream-sync page of 'x'"
}

@test "a program that uses all low descriptor numbers itself: the page is given back, and none of them is closed" {
	needs_sim # a real driver has descriptors of its own there
	start_registry
	begin owner "$BIN/api_app" raw=r,4096 open share=b,x,r,0,4096 publish=b seize="$WORK/own",256 touch="$WORK/up" \
		await="$WORK/go" stat=none orderstatus=b publish=b another attach=c,x sequence=c detach=c free=b seized
	restart_registry
	touch "$WORK/go"
	finish owner
	equal "$(sed 1,3d "$WORK/owner.out")" "stat none: E_NOT_FOUND
orderstatus b: OK
publish b: 2
another: OK
attach x: OK
sequence c: 2
detach c: OK
free b: OK
seized: 0 closed"
}

@test "a detach ends the roles, also while a mirror keeps the memory; attached again, it joins again" {
	begin owner "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" await="$WORK/detached" reclaim=b,1,5000 \
		touch="$WORK/go" await="$WORK/joined" publish=b reclaim=b,2,0 free=b touch="$WORK/freed"
	begin other "$BIN/api_app" open attach=b,x join=b mirror=m,b,0,4096,r detach=b touch="$WORK/detached" await="$WORK/go" \
		attach=c,x join=c mclose=m touch="$WORK/joined" await="$WORK/freed" detach=c \
		alloc=y,y,4096 another attach=d,y publish=d mirror=n,d,0,4096,r detach=d acquire=y,2,5000 publish=y mclose=n
	finish "$PID"
	finish owner
	equal "$(sed 1,3d "$WORK/owner.out")" "reclaim b: OK
publish b: 2
reclaim b: E_TIMED_OUT
free b: OK"
	equal "$(sed 1,2d "$WORK/other.out")" "join b: 1
mirror m: OK
detach b: OK
attach x: OK
join c: 2
mclose m: OK
detach c: OK
alloc y: OK
another: OK
attach y: OK
publish d: 1
mirror n: OK
detach d: OK
acquire y: E_OWNER_GONE
publish y: 2
mclose n: OK"
}

@test "the second detach ends the roles, too, while a mirror of the first attach keeps the memory" {
	begin owner "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" await="$WORK/detached" reclaim=b,1,1000 \
		touch="$WORK/freed"
	owner=$PID
	begin other "$BIN/api_app" open attach=b,x mirror=m,b,0,4096,r detach=b attach=c,x join=c detach=c \
		touch="$WORK/detached" await="$WORK/freed"
	finish "$PID"
	finish "$owner"
	has "$(<"$WORK/other.out")" "join c: 1"
	has "$(<"$WORK/owner.out")" "reclaim b: OK"
}

@test "consumers come and go more often than a buffer takes: each leave is one request, and gives its place back" {
	requests() { gpushare metrics | sed -n 's/^gpushare_requests_total{verb="order"} //p'; }
	begin app "$BIN/api_app" open alloc=b,x,4096 publish=b touch="$WORK/up" await="$WORK/go" stream=s join=b leave=b \
		touch="$WORK/left" await="$WORK/on" repeat=150,7 join=b release=b,1,s sync=s leave=b join=b release=b,1 leave=b \
		free=b
	before=$(requests)
	resume go left
	equal "$(requests)" $((before + 2))
	touch "$WORK/on"
	finish app
	equal "$(sed 1,4d "$WORK/app.out" | sort | uniq -c | xargs)" \
		"1 free b: OK 300 join b: 1 301 leave b: OK 300 release b: OK"
}

@test "streams write into a page as long as they may, and no longer than that it takes memory" {
	needs_sim
	unregistered() { grep -c 'cuMemHostUnregister 0' "$WORK/log" || true; }
	export GPUSHARE_SIM_LOG=$WORK/log
	# Its consumer has left, and its session is closed.
	run -0 timeout 60 "$BIN/api_app" open make=v,y,4096,vmm publish=v join=v hold=h release=v,1,h leave=v close letgo=h sync=h
	equal "$(tail -n 1 <<<"$output")" "close: OK"
	equal "$(unregistered)" 0
	# Of many that came and went, one stream holds up one; a graph may be launched for ever.
	rm "$WORK/log"
	begin app "$BIN/api_app" open make=b,x,4096,vmm stream=s hold=h join=b publish=b release=b,1,h leave=b free=b \
		make=c,captured,4096,vmm publish=c,s capture=s publish=c,s endcapture=s free=c repeat=64,3 \
		make=v,y,4096,vmm publish=v,s free=v touch="$WORK/up" await="$WORK/go" letgo=h sync=h close touch="$WORK/closed"
	given=$(unregistered)
	[ "$given" -le 64 ]
	touch "$WORK/go"
	finish "$PID"
	equal "$(unregistered)" 65
}

@test "a driver that hangs holds up other threads' calls ten seconds and no longer" {
	needs_sim
	[ -z "${EMULATOR:-}" ] || skip "the registry is started by hand there"
	mkfifo "$WORK/log" # what the simulated driver logs; without a reader it waits there
	sleep 600 <>"$WORK/log" 3>&- 8>&- &
	reader=$!
	STARTED+=("$reader")
	begin app env GPUSHARE_SIM_LOG="$WORK/log" "$BIN/api_app" open alloc=b,x,4096 stream=s publish=b touch="$WORK/up" \
		await="$WORK/go" aside=publish,b,s publish=b,s touch="$WORK/told" rejoin
	kill_now "$reader"
	took_ms touch "$WORK/go"
	until_true grep -q TIMED_OUT "$WORK/app.out"
	has "$(<"$WORK/app.err")" "another thread has used the page of 'x' for 10000 ms; does the GPU's driver hang?"
	exec 9<>"$WORK/log"
	finish app
	exec 9<&-
	equal "$(sed 1,3d "$WORK/app.out")" "publish b: E_TIMED_OUT
publish b: 2"
}
