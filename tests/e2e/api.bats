#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The C API: test programs that use it, in two processes if the test needs two.
load helpers

# owner SCRIPT...: start api_app in the background; it stays after its script
owner() {
	up owner "$BIN/api_app" open "$@"
}

@test "alloc, attach from elsewhere, change, detach, free" {
	begin owner "$BIN/api_app" open alloc=a,weights,1Mi fill=a,7 touch="$WORK/up" \
		await="$WORK/changed" byte=a,5 free=a list close
	equal "$(api open attach=b,weights size=b byte=b,4 put=b,5,200 detach=b close)" "open: OK
attach weights: OK
size b: 1048576
byte b: 35
put b: OK
detach b: OK
close: OK"
	touch "$WORK/changed"
	finish "$PID"
	equal "$(cat "$WORK/owner.out")" "open: OK
alloc weights: OK
fill a: OK
byte a: 200
free a: OK
close: OK"
}

@test "share an interior pointer: its own bytes, at its own offset" {
	owner raw=p,1Mi share=w,whole,p,0,1Mi fill=w,7 share=s,inner,p,4097,8000 byte=s,0 stat=inner
	# the pattern's byte at 4097: 7 + 4097 * 7 + 16 * 13 = 28894 = 222 (mod 256)
	equal "$(tail -n 3 "$WORK/owner.out")" "byte s: 222
stat inner: OK
size 8000 offset 4097 base 1048576 attachers 0 mine 1 uid 1"
	equal "$(api open attach=b,inner size=b byte=b,0 put=b,7999,3 byte=b,8000 \
		attach=w,whole byte=w,12096)" "open: OK
attach inner: OK
size b: 8000
byte b: 222
put b: OK
byte b: E_RANGE
attach whole: OK
byte w: 3"
}

@test "small neighbours in one block keep apart" {
	owner raw=p,512 raw=q,512 share=a,one,p,0,512 share=b,two,q,0,512 fill=a,1 fill=b,2
	equal "$(api open attach=a,one attach=b,two size=a byte=a,0 byte=b,0 put=a,511,9 byte=b,0)" \
		"open: OK
attach one: OK
attach two: OK
size a: 512
byte a: 1
byte b: 2
put a: OK
byte b: 2"
}

@test "what alloc makes has its blocks to itself, or what there is room for" {
	owner alloc=a,small,1 alloc=b,odd,2097153 alloc=c,even,4Mi raw=p,1Mi share=d,raw,p,0,1Mi
	equal "$(api open stat=small stat=odd stat=even | grep base)" \
		"size 1 offset 0 base 2097152 attachers 0 mine 0 uid 1
size 2097153 offset 0 base 4194304 attachers 0 mine 0 uid 1
size 4194304 offset 0 base 4194304 attachers 0 mine 0 uid 1"
	has "$(gpushare stat small)" "isolated:    yes"
	has "$(gpushare stat raw)" "isolated:    no"
	has "$(gpushare stat raw)" "gpushare_alloc()"
}

@test "alloc takes the exact size where whole blocks do not fit" {
	needs_sim
	up owner env GPUSHARE_SIM_FAIL=cuMemAlloc:1:1:2 "$BIN/api_app" open alloc=a,tight,1Mi fill=a,7
	equal "$(api open attach=b,tight byte=b,4 stat=tight | grep -v OK)" "byte b: 35
size 1048576 offset 0 base 1048576 attachers 1 mine 0 uid 1"
}

@test "what the driver refuses: its call or its answer is named, nothing is left, and the next try works" {
	needs_sim
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuDevicePrimaryCtxRetain:1:1:101,cuMemAlloc:1:2:2,cuCtxPushCurrent:2:1,cuIpcGetMemHandle:1:1:801,cuDeviceGetUuid:2:1,cuMemFree:3:1 \
		"$BIN/api_app" open alloc=a,x,1 alloc=a,x,77 alloc=a,x,1 alloc=a,x,1 alloc=a,x,1 stat=x alloc=a,x,1 free=a stat=x
	equal "$output" "open: OK
alloc x: E_CUDA
alloc x: E_NO_MEMORY
alloc x: E_CUDA
alloc x: E_CUDA
alloc x: E_CUDA
stat x: E_NOT_FOUND
alloc x: OK
free a: E_CUDA
stat x: E_NOT_FOUND"
	for words in CUDA_ERROR_INVALID_DEVICE cuMemAlloc cuCtxPushCurrent CUDA_ERROR_NOT_SUPPORTED UUID cuMemFree; do
		has "$stderr" "$words"
	done
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuStreamCreate:1:1,cuMemHostAlloc:2:1:2,cuEventCreate:2:1,cuMemcpyDtoHAsync:2:1,cuEventSynchronize:1:1,cuMemcpyHtoDAsync:1:1,cuStreamSynchronize:5:1,cuMemcpyDtoH:1:1 \
		"$BIN/api_app" open alloc=b,big,20000007 fill=b,7 sum=b sum=b sum=b sum=b sum=b ones=b ones=b byte=b,0 ones=b sum=b
	equal "$(sed 1,3d <<<"$output")" "sum b: E_CUDA
sum b: E_NO_MEMORY
sum b: E_CUDA
sum b: E_CUDA
sum b: E_CUDA
ones b: E_CUDA
ones b: E_CUDA
byte b: E_CUDA
ones b: OK
sum b: 20000007"
	for words in cuStreamCreate cuMemHostAlloc cuEventCreate cuMemcpyDtoHAsync cuEventSynchronize cuMemcpyHtoDAsync cuStreamSynchronize \
		cuMemcpyDtoH; do
		has "$stderr" "$words"
	done
}

@test "an attach that the driver refuses: what that means, and nothing stays attached" {
	needs_sim
	owner alloc=a,late,100000
	while read -r fault wanted words; do
		run -0 --separate-stderr env GPUSHARE_SIM_FAIL="$fault" "$BIN/api_app" open attach=b,late stat=late
		equal "$fault $(sed 1d <<<"$output" | cut -d ' ' -f 1-8)" "$fault attach late: $wanted
stat late: OK
size 100000 offset 0 base 2097152 attachers 0"
		has "$stderr" "$words"
	done <<-'TABLE'
		cuIpcOpenMemHandle:1:1:400 E_OWNER_GONE api_app
		cuIpcOpenMemHandle:1:1:800 E_OWNER_GONE CUDA_ERROR_NOT_PERMITTED
		cuIpcOpenMemHandle:1:1:801 E_CUDA not supported on the GPU
		cuIpcOpenMemHandle:1:1:201 E_NOT_SUPPORTED the same pid
		cuIpcOpenMemHandle:1:1:2 E_NO_MEMORY late
		cuInit:1:1:100 E_NO_DRIVER CUDA_ERROR_NO_DEVICE
	TABLE
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuIpcCloseMemHandle:1:1 "$BIN/api_app" open attach=b,late share=c,mine,@b,0,10 \
		detach=b stat=late
	has "$output" "share mine: E_NOT_SHAREABLE"
	has "$stderr" "share it there"
	has "$output" "detach b: E_CUDA"
	has "$output" "attachers 0"
	has "$stderr" "cuIpcCloseMemHandle"
	run -0 --separate-stderr env GPUSHARE_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=1 GPUSHARE_SIM_PEERS=0 "$BIN/api_app" open attach=b,late
	has "$output" "attach late: E_DEVICE"
	[[ $stderr == *GPU-*", which this process does not see; it sees GPU-"* ]]
}

@test "attach twice: one address, counted" {
	owner alloc=a,weights,1Mi fill=a,7
	equal "$(api open attach=b,weights attach=c,weights same=b,c detach=b byte=c,4 detach=c \
		attach=d,weights byte=d,4 detach=d stat=weights | grep -v ' OK$')" "same: yes
byte c: 35
byte d: 35
size 1048576 offset 0 base 2097152 attachers 0 mine 0 uid 1"
}

@test "attach again: the same buffer, until another one has its name" {
	api open make=a,w,2Mi,keep fill=a,3
	begin app "$BIN/api_app" open attach=a,w attach=b,w attach=d,w attach=e,w same=a,e touch="$WORK/up" \
		await="$WORK/go" attach=c,w byte=c,1 byte=a,1
	api open make=a,w,2Mi,keep fill=a,9
	touch "$WORK/go"
	finish "$PID"
	has "$(cat "$WORK/app.out")" "same: yes"
	equal "$(tail -n 2 "$WORK/app.out")" "byte c: 16
byte a: 10"
}

@test "attaching one's own buffer gives one's own address" {
	equal "$(api open alloc=a,weights,1Mi fill=a,7 attach=b,weights same=a,b byte=b,4 detach=b byte=a,4 \
		free=a | grep -v ' OK$')" "same: yes
byte b: 35
byte a: 35"
}

@test "an unmodified program's own session and the preload's name agree" {
	up_named app weights "$BIN/rt_app_static" init alloc=a,1Mi fill=a,7
	equal "$(api open stat=weights | tail -n 1)" \
		"size 1048576 offset 0 base 2097152 attachers 0 mine 0 uid 1"
}

@test "the API inside a preloaded program: one record, one owner" {
	equal "$(named 'w%i' "$BIN/api_app" open raw=p,1Mi share=s,mine,p,0,1Mi list free=a |
		grep -v ' OK$')" "mine 1048576
w0 1048576"
}

@test "wait ends in time" {
	equal "$(api open within=$((1000 + SLACK_MS)) attach=b,never,300)" "open: OK
attach never: E_TIMED_OUT"
}

@test "list: in order, by pattern, over pages, stopped by the caller" {
	owner raw=p,1Mi many=p,700 alloc=x,a/b,64Ki alloc=y,a.c,64Ki
	equal "$(lines "$(names)")" 702
	names | cut -d' ' -f1 | LC_ALL=C sort -uc
	equal "$(api open list='a*')" "open: OK
a.c 65536
a/b 65536"
	equal "$(api open list='m69[0-2]' liststop)" "open: OK
m690 1
m691 1
m692 1
liststop: E_CANCELLED"
}

@test "unlink takes the name; the memory and the attachment stay" {
	owner alloc=a,weights,1Mi fill=a,7
	equal "$(api open attach=b,weights unlink=weights stat=weights byte=b,4 put=b,0,1)" "open: OK
attach weights: OK
unlink weights: OK
stat weights: E_NOT_FOUND
byte b: 35
put b: OK"
	equal "$(api open unlink=weights)" "open: OK
unlink weights: E_NOT_FOUND"
}

@test "close withdraws and detaches" {
	equal "$(api open alloc=a,weights,1Mi close open list stat=weights)" "open: OK
alloc weights: OK
close: OK
open: OK
stat weights: E_NOT_FOUND"
}

@test "names that can't be" {
	long=$(printf 'x%.0s' {1..256})
	equal "$(api open alloc=a,,1Mi "alloc=a,a b,1Mi" "alloc=a,$long,1Mi" alloc=a,ä,1Mi stat= attach=b,*)" \
		"open: OK
alloc: E_NAME
alloc a b: E_NAME
alloc $long: E_NAME
alloc ä: E_NAME
stat: E_NAME
attach *: E_NAME"
	equal "$(api open alloc=a,"${long%x}",1Mi free=a)" "open: OK
alloc ${long%x}: OK
free a: OK"
}

@test "what can't be shared says why" {
	run -0 --separate-stderr api open raw=p,1Mi share=a,w,p,0,0 share=a,w,p,0,2Mi share=a,w,p,1048575,2 \
		share=a,w,q,0,1Mi raw=m,1Mi,managed share=a,w,m,0,1Mi alloc=a,w,0 raw=o,1Mi,async share=a,w,o,0,1Mi \
		raw=h,1Mi,host share=a,w,h,0,1Mi raw=s,1,static share=a,w,s,0,1 list
	equal "$output" "open: OK
share w: E_INVALID
share w: E_RANGE
share w: E_RANGE
share w: E_INVALID
share w: E_NOT_SHAREABLE
alloc w: E_INVALID
share w: E_NOT_SHAREABLE
share w: E_NOT_SHAREABLE
share w: E_NOT_SHAREABLE"
	equal "$(lines "$stderr")" 9
	for words in "is managed" "is stream-ordered memory (cudaMallocAsync)," "is host memory" "CUDA does not know 0x"; do
		has "$stderr" "$words"
	done
}

@test "detach and free are not each other" {
	owner alloc=a,weights,1Mi
	equal "$(api open attach=b,weights free=b detach=b alloc=c,own,64Ki detach=c free=c)" "open: OK
attach weights: OK
free b: E_INVALID
detach b: OK
alloc own: OK
detach c: E_INVALID
free c: OK"
}

# requests VERB: how many the registry has had
requests() {
	gpushare metrics | sed -n "s/^gpushare_requests_total{verb=\"$1\"} //p"
}

@test "what is attached already, or was looked up, is answered without the registry, and never wrongly" {
	[ -z "${EMULATOR:-}" ] || skip "an emulator has no shared pages"
	owner alloc=a,x,1Mi
	begin reader "$BIN/api_app" open repeat=3,1 attach=b,x repeat=3,1 stat=x touch="$WORK/warm" await="$WORK/counted" \
		repeat=50,2 attach=b,x stat=x touch="$WORK/done" await="$WORK/again" repeat=50,1 detach=b touch="$WORK/back" \
		await="$WORK/gone" attach=c,x stat=x byte=b,4 touch="$WORK/missed" await="$WORK/new" attach=c,x size=c size=b \
		detach=c repeat=3,1 detach=b
	attaches=$(requests attach)
	lookups=$(requests lookup)
	resume counted done
	equal "$(requests attach) $(requests lookup)" "$attaches $lookups"
	equal "$(attachers x)" 3
	resume again back
	equal "$(attachers x)" 3 # those that the registry does not know of go first
	gpushare rm x
	resume gone missed
	begin other "$BIN/api_app" open alloc=a,x,2Mi touch="$WORK/new" await="$WORK/end"
	finish reader
	equal "$(grep -v '^attach x: OK\|^stat x: OK\|^size .* offset\|^open' "$WORK/reader.out" | uniq -c | tr -s ' ')" " 50 detach b: OK
 1 attach x: E_NOT_FOUND
 1 stat x: E_NOT_FOUND
 1 byte b: 0
 1 size c: 2097152
 1 size b: 1048576
 1 detach c: OK
 3 detach b: OK"
	equal "$(attachers x)" 0
}

@test "the index of a registry that was killed is not believed" {
	export GPUSHARE_AUTOSTART=0
	start_registry
	begin app "$BIN/api_app" open alloc=a,x,1Mi repeat=4,1 stat=x touch="$WORK/up" await="$WORK/killed" stat=x \
		touch="$WORK/asked" await="$WORK/next" repeat=3,1 stat=x
	kill_registry
	resume killed asked
	start_registry
	touch "$WORK/next"
	finish app
	equal "$(grep '^stat' "$WORK/app.out" | uniq -c | tr -s ' ')" " 4 stat x: OK
 1 stat x: E_NO_REGISTRY
 3 stat x: OK"
}

# answers WHO STATUS: the calls that returned STATUS in WHO (child or parent); not maps, which need Vulkan on a GPU
answers() {
	grep -xE "$1 [a-z_]+ $2" <<<"$output" | cut -d ' ' -f 2 | grep -vE '^gpushare_(map|unmap)' | sort | xargs
}

@test "each call in a forked child is told that the session is not its own, and takes nothing from the parent" {
	owner alloc=b,w0,4096 evmake=e,event
	run -0 "$BIN/api_timely" forked
	equal "$(answers child OK)" \
		"close deleter gpushare_close gpushare_mirror_drop gpushare_open gpushare_watch_close"
	equal "$(answers child '[^O].*')" "$(answers child E_FORKED)"
	equal "$(answers parent '[^O].*')" "gpushare_holders gpushare_stat gpushare_tag gpushare_unlink" # of nobody's
	equal "$(answers parent E_NOT_FOUND)" "$(answers parent '[^O].*')"
	[ "$(grep -c ^parent <<<"$output")" -gt 50 ]
	[ "$GPUSHARE_TEST_DRIVER" = gpu ] || has "$output" "own attach E_CUDA" # CUDA does not survive a fork
}

@test "NULL for a session or an object is E_INVALID, and nothing to release" {
	run -0 --separate-stderr "$BIN/api_timely" nothing
	equal "$(grep -v ' E_INVALID$' <<<"$output" | cut -d ' ' -f 1 | xargs)" "gpushare_open gpushare_close gpushare_detach\
 gpushare_free gpushare_watch_close gpushare_unmap gpushare_mirror_close gpushare_mirror_drop gpushare_event_close"
	[ "$(grep -c ' E_INVALID$' <<<"$output")" -gt 40 ]
}

@test "NULL for a result, a list or a callback: E_INVALID, and the sentence names it; the words for all values" {
	run -0 "$BIN/api_timely" results
	equal "$(grep -v ' E_INVALID: [a-z_ ]* is NULL' <<<"$output")" "gpushare_stat(session, NULL, &info) E_NAME: '' is not a \
buffer name: it is NULL
of NULL: 0 0 0 -1 0 0 -1 none"
	[ "$(grep -c ' E_INVALID: ' <<<"$output")" -gt 30 ]
	run -0 "$BIN/api_timely" texts
	equal "$output" "SHARED=shared KEPT=kept WITHDRAWN=withdrawn REPLACED=replaced unknown
SHARE=share ATTACH=attach DETACH=detach PUBLISH=publish WITHDRAW=withdraw UNLINK=unlink DEFERRED=deferred \
OWNER_GONE=owner-gone EXPIRE=expire REMOVE=remove LOST=lost RESTART=restart unknown
NONE=none HOST=host HOST_FUNCTION=host-functions STREAM=stream-memory-operations unknown"
}

@test "no registry and none to be started: E_NO_REGISTRY" {
	export GPUSHARE_AUTOSTART=0
	equal "$(api within=$((1000 + SLACK_MS)) open)" "open: E_NO_REGISTRY"
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "its directory is made for its user alone, under any umask" {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
	export GPUSHARE_DIR=$WORK/made
	equal "$(umask 0777 && api open)" "open: OK"
	equal "$(stat -c %a "$GPUSHARE_DIR")" 700
	equal "$(api open)" "open: OK"
}

# refused DIRECTORY STATUS WORDS: no session is opened there; WORDS say why
refused() {
	run -0 --separate-stderr api open="$1"
	equal "$output" "open: $2"
	has "$stderr" "$3"
}

@test "a directory that is not the user's alone is refused, and left as it is; one that can't be made, too" {
	for mode in 710 750 701 755 777; do
		chmod $mode "$GPUSHARE_DIR"
		refused "$GPUSHARE_DIR" E_DENIED "run 'chmod 700 $GPUSHARE_DIR'"
		equal "$(stat -c %a "$GPUSHARE_DIR")" $mode
	done
	chmod 1777 "$GPUSHARE_DIR" # like /tmp
	refused "$GPUSHARE_DIR" E_DENIED "(mode 1777); use a directory of your own"
	chmod 700 "$GPUSHARE_DIR"
	ln -s "$GPUSHARE_DIR" "$WORK/link"
	touch "$WORK/file"
	for file in link link/ file; do refused "$WORK/$file" E_DENIED "symbolic link"; done
	for directory in / /tmp /var/tmp /usr/lib /etc; do
		refused "$directory" E_DENIED "; use a directory of your own, such as GPUSHARE_DIR="
		[[ $stderr != *chmod* ]]
	done
	refused "$WORK/no/such" E_NOT_FOUND "can't make $WORK/no/such: there is no $WORK/no; run 'mkdir -p $WORK/no'"
	refused /proc/gpushare E_NOT_FOUND "; use another directory"
	[ "$(id -u)" = 0 ] || return 0 # only root can give a directory away
	mkdir -m 700 "$WORK/theirs"
	chown 12345 "$WORK/theirs"
	refused "$WORK/theirs" E_DENIED "uid 12345"
}

@test "processes of one user that name a group at the same time all get it, however slow the look-up is" {
	local i slow pids=()
	slow="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$BIN/lib_slow_names.so"
	start registry env LD_PRELOAD="$slow" gpushare-registry --foreground --dir "$GPUSHARE_DIR"
	until_true [ -S "$GPUSHARE_DIR/registry.sock" ]
	for i in 1 2 3 4 5; do
		start "p$i" "$BIN/api_app" open raw=a,2Mi share="s,w$i,a,0,4096,mode:640+group:$(id -gn)"
		pids+=("$PID")
	done
	for i in 1 2 3 4 5; do
		finish "${pids[i - 1]}"
		has "$(cat "$WORK/p$i.out")" "share w$i: OK"
	done
}

@test "copies and mirrors spoil no capture, and copy as without one" {
	local words=(fill=b,3 byte=b,70000 save=b,"$WORK/b" mirror=m,b,0,4096,rw mput=m,0,9 mclose=m byte=b,0 byte=b,1) plain
	plain=$(api open context alloc=b,x,4Mi stream=s "${words[@]}" byte=b,0)
	mv "$WORK/b" "$WORK/plain"
	run -0 api open context alloc=b,x,4Mi stream=s capture=s "${words[@]}" endcapture=s byte=b,0
	equal "$output" "$plain"
	cmp "$WORK/b" "$WORK/plain"
}
