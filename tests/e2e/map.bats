#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A buffer's memory mapped at a CPU address, in processes that make no CUDA call.
load helpers
load in_maps

@test "an unmodified program's cudaMalloc, mapped without CUDA: stores are seen both ways" {
	needs_map
	# put= may return while the GPU still copies. The byte= after it waits for the copy.
	owner w:map put=a,4194303,17 byte=a,4194303 touch="$WORK/put" await="$WORK/stored" byte=a,100 byte=a,4194303
	start guest env GPUSHARE_SIM_FAIL=cuInit:1:99:100 "$BIN/api_app" open attach=b,w,0,host where=b \
		map=m,b,0,4Mi,rw load=m,5 store=m,100,201 touch="$WORK/go" await="$WORK/put" load=m,4194303 \
		store=m,4194303,18 flush=m,0,4Mi touch="$WORK/stored" await="$WORK/looked" unmap=m detach=b close
	until_true test -e "$WORK/stored"
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || run -1 grep libcuda "/proc/$PID/maps"
	touch "$WORK/looked"
	finish "$PID"
	finish "$OWNER"
	equal "$(cat "$WORK/guest.out")" "open: OK
attach w: OK
where b: no address, device -1
map m: OK
load m: 42
load m: 17
flush m: OK
unmap m: OK
detach b: OK
close: OK"
	equal "$(tail -n 2 "$WORK/owner.out")" "byte a: 201
byte a: 18"
}

@test "any offset, any length; maps of one buffer share a mapping, and each is given back by itself" {
	needs_map
	owner w:map
	equal "$(hostly attach=b,w,0,host map=m,b,1,1,r map=n,b,4099,4190205,rw map=o,b,0,4Mi,rw \
		apart=o,m apart=o,n load=m,0 load=n,0 load=o,4099 store=n,4190204,9 load=o,4194303 \
		unmap=o load=n,4190204 unmap=n load=m,0 unmap=m map=p,b,4194303,1,r load=p,0)" "open: OK
attach w: OK
map m: OK
map n: OK
map o: OK
apart: 1
apart: 4099
load m: $(pattern 1)
load n: $(pattern 4099)
load o: $(pattern 4099)
load o: 9
unmap o: OK
load n: 9
unmap n: OK
load m: $(pattern 1)
unmap m: OK
map p: OK
load p: 9"
}

@test "shared: the second map of a buffer calls nobody; the last unmap gives all back" {
	needs_sim
	owner w:map
	hostly attach=b,w,0,host map=m,b,0,1,r map=n,b,0,1,r unmap=m unmap=n attach=c,w,0,host map=m,c,0,1,r unmap=m
	equal "$(calls CreateInstance) $(calls CreateDevice)" "1 1"
	equal "$(grep -c 'vkAllocateMemory 0 0x0 4194304' "$WORK/log")" 2
	equal "$(calls AllocateMemory)" "$(calls FreeMemory)"
}

@test "the owner is killed, or frees it: what is mapped stays" {
	needs_map
	owner w:map
	begin guest "$BIN/api_app" open attach=b,w,0,host map=m,b,0,4Mi,rw touch="$WORK/mapped" \
		await="$WORK/killed" load=m,5 store=m,6,77 load=m,6 load=m,4194303 unmap=m
	kill_now "$OWNER"
	touch "$WORK/killed"
	finish "$PID"
	equal "$(tail -n 4 "$WORK/guest.out")" "load m: 42
load m: 77
load m: $(pattern 4194303)
unmap m: OK"
	rm "$WORK"/{up,mapped}
	owner w:map free=a touch="$WORK/freed" await="$WORK/end"
	begin guest "$BIN/api_app" open attach=b,w,0,host map=m,b,0,4Mi,rw touch="$WORK/mapped" \
		await="$WORK/freed" load=m,5 store=m,5,1 load=m,5
	touch "$WORK/go"
	finish "$PID"
	equal "$(tail -n 2 "$WORK/guest.out")" "load m: 42
load m: 1"
}

@test "a map outlives its attachment and its session; exit with a live one is an ordinary exit" {
	needs_map
	owner w:map
	equal "$(hostly attach=b,w,0,host map=m,b,0,4Mi,rw detach=b load=m,5 close load=m,5 unmap=m \
		open attach=b,w,0,host map=n,b,5,1,r close load=n,0 exit=3 || echo "exit $?")" "open: OK
attach w: OK
map m: OK
detach b: OK
load m: 42
close: OK
load m: 42
unmap m: OK
open: OK
attach w: OK
map n: OK
close: OK
load n: 42
exit 3"
	touch "$WORK/go"
}

@test "with CUDA too: attached by address, the owner's own, and adopted" {
	needs_map
	owner w:map
	equal "$(api open attach=b,w map=m,b,0,4Mi,rw load=m,5 put=b,5,3 load=m,5 store=m,6,4 byte=b,6 where=b |
		sed 1,3d)" "load m: 42
put b: OK
load m: 3
byte b: 4
where b: an address, device 0"
	equal "$(api open make=a,mine,2Mi,vmm map=m,a,0,2Mi,rw put=a,9,3 load=m,9 store=m,9,5 byte=a,9 |
		sed 1,3d)" "put a: OK
load m: 3
byte a: 5"
	api open make=a,kept,2Mi,keep fill=a,7 close >/dev/null
	equal "$(api open make=a,kept,2Mi,keep+adopt map=m,a,0,2Mi,rw load=m,5 close unmap=m)" "open: OK
make kept: OK
adopted
map m: OK
load m: 42
close: OK
unmap m: OK"
}

@test "a program's own cuMemCreate memory, by an inner range of it" {
	needs_map
	up owner "$BIN/api_app" open raw=p,4Mi,vmm share=w,whole,p,0,4Mi fill=w,7 share=s,inner,p,2097153,8000
	equal "$(hostly attach=b,inner,0,host attach=w,whole,0,host map=m,b,1,7999,rw map=n,w,0,4Mi,r \
		store=m,7998,250 load=n,2105152 load=m,0 | sed 1,5d)" "load n: 250
load m: $(pattern 2097154)"
}

@test "read-only: not for writing, and a store ends in a signal" {
	needs_map
	owner w:map:readonly
	run --separate-stderr hostly attach=b,w,0,host map=m,b,0,1,w map=m,b,0,1,rw put=b,0,1 map=m,b,5,1,r load=m,0 mapped=m
	equal "$(sed '$d' <<<"$output")" "open: OK
attach w: OK
read-only
map m: E_READ_ONLY
map m: E_READ_ONLY
put b: E_READ_ONLY
map m: OK
load m: 42"
	has "$stderr" "write it there"
	run -139 hostly attach=b,w,0,host map=m,b,5,1,r store=m,0,1
	touch "$WORK/go"
	finish "$OWNER"
}

@test "copies of a host_only buffer go through the map; a kept buffer is read where CUDA does not start" {
	needs_map
	api open make=a,kept,3Mi,keep fill=a,7 close >/dev/null
	equal "$(hostly attach=b,kept,0,host byte=b,5 put=b,3145727,9 byte=b,3145727 save=b,"$WORK/saved" ones=b sum=b \
		sum=b detach=b close | sed 1,2d)" "byte b: 42
put b: OK
byte b: 9
save b: OK
ones b: OK
sum b: 3145728
sum b: 3145728
detach b: OK
close: OK"
	equal "$(stat -c %s "$WORK/saved")" 3145728
	equal "$(od -An -tu1 -N1 -j3145727 "$WORK/saved" | tr -d ' ')" 9
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || equal "$(calls AllocateMemory)" "$(calls FreeMemory)"
}

@test "fork: the map is the parent's; the child's calls say so, and its address is not there" {
	needs_map
	owner w:map
	equal "$(hostly attach=b,w,0,host map=m,b,0,4Mi,rw address=m \
		child=fork,6 address=m mapped=m map=n,b,0,1,r flush=m,0,1 unmap=m close \
		child=fork,1 peek=0 \
		child=fork,3 open attach=c,w,0,host map=n,c,0,1,r \
		child=exec,4 open attach=c,w,0,host map=n,c,0,1,r load=n,0 load=m,5 unmap=m 2>/dev/null |
		grep -v '^mapped')" "open: OK
attach w: OK
map m: OK
address m: there
address m: none
map n: E_FORKED
flush m: E_FORKED
unmap m: E_FORKED
close: OK
child fork: 0
child fork: signal 11
open: OK
attach w: OK
map n: E_FORKED
child fork: 0
open: OK
attach w: OK
map n: OK
load n: 7
child exec: 0
load m: 42
unmap m: OK"
	equal "$(hostly child=fork,5 close open attach=c,w,0,host map=n,c,5,1,r load=n,0 | tail -n 2)" "load n: 42
child fork: 0"
}

@test "a GPU without coherent memory for the CPU is refused; every map is coherent" {
	needs_sim
	owner w:map
	run --separate-stderr env GPUSHARE_SIM_VULKAN=noncoherent "$BIN/api_app" open attach=b,w,0,host map=m,b,0,1,r
	has "$output" "map m: E_NOT_SUPPORTED"
	has "$stderr" "shows the CPU none of its memory coherently"
	# With a coherent and another memory type, the map uses the coherent one.
	equal "$(GPUSHARE_SIM_VULKAN=both api open attach=b,w,0,host map=m,b,0,8,r,coherent mapped=m | tail -n 1)" \
		"mapped m: 8 bytes by vulkan, cached, coherent, atom 1"
}

@test "dma-buf where the driver offers its mmap, and Vulkan where that is refused or shows something else" {
	needs_sim
	owner w:map
	script=(open attach=b,w map=m,b,5,1,rw mapped=m load=m,0 store=m,0,99 byte=b,5 put=b,5,42 unmap=m)
	equal "$(GPUSHARE_SIM_DMABUF=mmap api "${script[@]}" | sed 1,3d)" "mapped m: 1 bytes by dma-buf, write-combined, coherent, atom 1
load m: 42
byte b: 99
put b: OK
unmap m: OK"
	run -1 grep vk "$WORK/log"
	for how in broken apart none; do
		has "$(GPUSHARE_SIM_DMABUF=$how api "${script[@]}")" "mapped m: 1 bytes by vulkan"
	done
	# Without CUDA there is no device address from which to make a dma-buf.
	has "$(GPUSHARE_SIM_DMABUF=mmap hostly attach=b,w,0,host map=m,b,5,1,rw mapped=m)" "by vulkan"
	for fault in cuMemGetHandleForAddressRange:2:1 cuMemGetHandleForAddressRange:1:1 cuDeviceGetAttribute:1:9; do
		has "$(GPUSHARE_SIM_FAIL=$fault GPUSHARE_SIM_DMABUF=mmap api "${script[@]}")" "by vulkan"
	done
	# A dma-buf of a read-only buffer gives no write access either.
	up reader "$BIN/api_app" open make=a,fixed,2Mi,vmm+readonly fill=a,7
	script=(open attach=b,fixed map=m,b,5,1,rw map=m,b,5,1,r mapped=m load=m,0 store=m,0,1)
	GPUSHARE_SIM_DMABUF=mmap run -139 env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0" "$BIN/api_app" "${script[@]::7}"
	equal "$(GPUSHARE_SIM_DMABUF=mmap api "${script[@]::6}" | tail -n 4)" "map m: E_READ_ONLY
map m: OK
mapped m: 1 bytes by dma-buf, write-combined, coherent, atom 1
load m: 42"
	# Each process proves dma-buf maps once.
	rm "$WORK/log"
	GPUSHARE_SIM_DMABUF=mmap api open attach=a,w attach=b,fixed map=m,a,0,1,r map=n,b,0,1,r unmap=m map=m,a,0,1,rw
	equal "$(grep -c cuMemGetHandleForAddressRange "$WORK/log")" 4
	script=(open attach=b,w map=m,b,5,1,rw mapped=m)
	# If there is no memory for the proof, the map is made anyway.
	has "$(GPUSHARE_SIM_FAIL=cuMemCreate:1:1:2 GPUSHARE_SIM_DMABUF=mmap api "${script[@]}")" "by dma-buf"
}

@test "attached for another GPU, by peer access: mapped all the same, by Vulkan, and copies are right" {
	needs_sim
	export GPUSHARE_SIM_DEVICES=2 GPUSHARE_SIM_DMABUF=mmap
	owner w:map
	equal "$(CUDA_VISIBLE_DEVICES=1 api open attach=b,w map=m,b,5,1,rw mapped=m load=m,0 store=m,0,99 byte=b,5 put=b,5,42 \
		load=m,0 unmap=m)" "open: OK
attach w: OK
map m: OK
mapped m: 1 bytes by vulkan, write-combined, coherent, atom 1
load m: 42
byte b: 99
put b: OK
load m: 42
unmap m: OK"
}

@test "host_only attachments are a thing of their own: counted, and given back as others" {
	needs_map
	owner w:map
	equal "$(api open attach=b,w,0,host attach=c,w where=b where=c stat=w detach=b detach=c stat=w 2>&1 |
		grep -E 'where|attachers')" "where b: no address, device -1
where c: an address, device 0
size 4194304 offset 0 base 4194304 attachers 2 mine 0 uid 1
size 4194304 offset 0 base 4194304 attachers 0 mine 0 uid 1"
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || has "$(hostly attach=b,w,0,same)" "attach w: E_NO_DRIVER"
}

@test "one descriptor for a buffer, however often it is attached; if the program closed it, that is said" {
	needs_sim
	up owner "$BIN/api_app" open make=a,w,64Ki,vmm
	run -0 --separate-stderr "$BIN/api_app" open context attach=z,w,0,host map=m,z,0,1,r unmap=m detach=z mark attach=b,w,0,host \
		marked attach=c,w,0,host map=m,b,0,1,r unmap=m marked detach=b marked detach=c marked
	equal "$(grep -o '[0-9]* fds' <<<"$output" | xargs)" "1 fds 1 fds 1 fds 0 fds"
	run -0 --separate-stderr "$BIN/api_app" open attach=b,w,0,host closefrom=256 map=m,b,0,1,r detach=b attach=b,w,0,host \
		map=m,b,0,1,r
	equal "$(sed 1,2d <<<"$output")" "map m: E_LIMIT
detach b: OK
attach w: OK
map m: OK"
	has "$stderr" "the program has closed"
}

@test "sessions of a process share a mapping, which outlives both; the program's signals are as before" {
	needs_map
	owner w:map
	run -0 hostly signals attach=a,w,0,host map=m,a,0,4Mi,w signals another attach=b,w,0,host map=n,b,7,1,r apart=m,n close \
		store=m,7,9 load=n,0 unmap=m load=n,0 unmap=n
	equal "$(grep ^signals <<<"$output" | sort -u | wc -l)" 4 # one line for each kind
	equal "$(grep -v '^signals\|OK' <<<"$output")" "apart: 7
load n: 9
load n: 9"
}

@test "while a buffer is mapped, the CPU makes small copies and the driver large ones, each to be seen by the other" {
	needs_sim
	# The driver's copies fail, so what succeeds is the CPU's.
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuMemcpyHtoD:1:1000,cuMemcpyDtoH:1:1000 "$BIN/api_app" open make=a,x,300000,vmm \
		make=b,y,256Ki,vmm make=c,z,4Ki,vmm make=d,u,4097,vmm put=a,0,1 byte=a,0 map=m,a,0,300000,rw map=n,b,0,1,rw map=o,c,0,1,rw \
		map=p,d,0,1,rw put=a,1,9 load=m,1 load=m,0 fill=a,7 fill=b,7 byte=b,4 save=c,"$WORK/c" save=d,"$WORK/d" put=a,300000,1 \
		unmap=m put=a,0,1
	equal "$(sed 1,5d <<<"$output" | grep -v '^map')" "put a: E_CUDA
byte a: E_CUDA
put a: OK
load m: 9
load m: 0
fill a: E_CUDA
fill b: OK
byte b: 35
save c: OK
save d: E_CUDA
put a: E_RANGE
unmap m: OK
put a: E_CUDA"
	equal "$(api open make=a,x,300000,vmm map=m,a,0,300000,rw fill=a,7 load=m,5 put=a,5,9 load=m,5 store=m,6,8 mirror=n,a,0,100,rw \
		mbyte=n,6 mput=n,7,77 mclose=n load=m,7 byte=a,7 unmap=m byte=a,6 | grep -v OK)" "load m: 42
load m: 9
mbyte n: 8
load m: 77
byte a: 77
byte a: 8"
}
