#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Buffers in host memory, at one address for the CPU and the GPU, in every process.
load helpers

# owner WORDS...: start api_app; it carries out WORDS and waits until `down` lets it finish
owner() {
	up owner "$BIN/api_app" open "$@"
}

@test "what one CPU or GPU stores, each of the others has, at one address" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		owner make=a,w,3Mi,unified fill=a,7 cpuput=a,5,100 link=a pointer=a,"$WORK/at"
		equal "$(api open attach=b,w at=b,"$WORK/at" cpubyte=b,17 byte=b,17 cpuwalk=b walk=b cpuput=b,17,50 \
			byte=b,17 put=b,18,51 cpubyte=b,18 backing=w size=b detach=b)" "open: OK
attach w: OK
at b: there
cpubyte b: 126
byte b: 126
cpuwalk b: 4950
walk b: 4950
byte b: 50
put b: OK
cpubyte b: 51
backing w: 3, 3145728 of 4194304
size b: 3145728
detach b: OK"
		equal "$(api open attach=b,w cpubyte=b,17 cpubyte=b,18 | tail -n 2)" "cpubyte b: 50
cpubyte b: 51"
		down
		equal "$(names)" ""
	done
}

@test "its map is the memory itself; in a process without CUDA too where it is a file" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		owner make=a,w,3Mi,unified fill=a,7 pointer=a,"$WORK/at"
		equal "$(api open attach=b,w map=m,b,0,3Mi,rw mapped=m mapat=m,"$WORK/at" store=m,9,77 byte=b,9 \
			map=n,b,9,1,r load=n,0 detach=b close load=m,9 unmap=m load=n,0 unmap=n)" "open: OK
attach w: OK
map m: OK
mapped m: 3145728 bytes by host, cached, coherent, atom 1
mapat m: there
byte b: 77
map n: OK
load n: 77
detach b: OK
close: OK
load m: 77
unmap m: OK
load n: 77
unmap n: OK"
		if [ "$kind" = 0 ]; then
			equal "$(api open attach=b,w,0,host where=b map=m,b,0,3Mi,rw mapat=m,"$WORK/at" load=m,9 mapped=m \
				put=b,9,78 byte=b,9 load=m,9 unmap=m)" "open: OK
attach w: OK
where b: no address, device -1
map m: OK
mapat m: there
load m: 77
mapped m: 3145728 bytes by host, cached, coherent, atom 1
put b: OK
byte b: 78
load m: 78
unmap m: OK"
			equal "$(api open block="$WORK/at" attach=b,w,0,host map=m,b,0,3Mi,rw mapat=m,"$WORK/at" load=m,9)" \
				"open: OK
attach w: OK
map m: OK
mapat m: elsewhere
load m: 78"
		else
			run -0 --separate-stderr api open attach=b,w,0,host stat=w
			has "$output" "attach w: E_NOT_SUPPORTED"
			has "$output" "attachers 0"
			has "$stderr" "without host_only"
		fi
		down
	done
}

@test "an address that is taken: said so, and not attached" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		owner make=a,w,2Mi,unified pointer=a,"$WORK/at"
		run -0 --separate-stderr api open block="$WORK/at" attach=b,w stat=w
		has "$output" "attach w: E_ADDRESS_TAKEN"
		has "$output" "attachers 0"
		has "$stderr" "in every process"
		down
	done
}

@test "sessions of one process share it, the owner's own too" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		equal "$(api open make=a,w,2Mi,unified attach=b,w same=a,b another attach=c,w same=a,c cpuput=c,3,9 \
			detach=c detach=b byte=a,3 free=a list)" "open: OK
make w: OK
attach w: OK
same: yes
another: OK
attach w: OK
same: yes
detach c: OK
detach b: OK
byte a: 9
free a: OK"
		owner make=a,w,2Mi,unified fill=a,7
		equal "$(api open attach=a,w attach=b,w another attach=c,w same=a,c detach=a detach=b byte=c,4 cpubyte=c,4 \
			detach=c stat=w | tail -n 4)" "cpubyte c: 35
detach c: OK
stat w: OK
size 2097152 offset 0 base 2097152 attachers 0 mine 0 uid 1"
		down
	done
}

@test "read-only: for the others' CPU, GPU and calls; the owner writes" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		owner make=a,w,2Mi,unified+readonly fill=a,7
		equal "$(api open attach=b,w cpubyte=b,4 byte=b,4 put=b,4,1 map=m,b,0,9,rw map=m,b,0,9,r load=m,4)" "open: OK
attach w: OK
read-only
cpubyte b: 35
byte b: 35
put b: E_READ_ONLY
map m: E_READ_ONLY
map m: OK
load m: 35"
		run -139 env ASAN_OPTIONS=handle_segv=0 "$BIN/api_app" open attach=b,w cpuput=b,4,1
		[ "$kind" = 1 ] || run -139 env ASAN_OPTIONS=handle_segv=0 "$BIN/api_app" open attach=b,w,0,host map=m,b,0,9,r store=m,4,1
		down
	done
}

@test "kept, whoever goes; adopted where it was, or not at all" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		owner make=a,w,2Mi,unified+keep fill=a,7 pointer=a,"$WORK/at"
		kill -KILL "$PID"
		until_true owner_gone w
		equal "$(api open attach=b,w at=b,"$WORK/at" byte=b,4 cpuput=b,5,8 | tail -n 2)" "at b: there
byte b: 35"
		run -0 api open block="$WORK/at" make=a,w,2Mi,unified+keep+adopt
		has "$output" "make w: E_ADDRESS_TAKEN"
		equal "$(api open make=a,w,2Mi,unified+keep+adopt at=a,"$WORK/at" cpubyte=a,5 byte=a,4)" "open: OK
make w: OK
adopted
at a: there
cpubyte a: 8
byte a: 35"
		equal "$(api open make=a,w,2Mi,keep+adopt backing=w)" "open: OK
make w: OK
backing w: 2, 2097152 of 2097152"
		gpushare rm w
		equal "$(names)" ""
	done
}

@test "no bytes, too many, flags that exclude each other" {
	run -0 --separate-stderr api open make=a,w,0,unified make=a,w,2Mi,unified+vmm array=a,w,0,8,unified array=a,w,8,0,unified \
		array=a,w,0x4000000000000000,4,unified array=a,w,0x4000000000000000,8, make=a,w,2Mi,unified+adopt list
	equal "$output" "open: OK
make w: E_INVALID
make w: E_INVALID
array w: E_INVALID
array w: E_INVALID
array w: E_INVALID
array w: E_INVALID
make w: E_INVALID"
	has "$stderr" "4611686018427387904 elements of 4 bytes are more than an address space can hold"
	equal "$(api open array=a,w,1000,24,unified size=a array=b,v,1000,24, size=b array=c,u,0x2000000000000,8,unified)" "open: OK
array w: OK
size a: 24000
array v: OK
size b: 24000
array u: E_NO_MEMORY"
}

@test "a forked child has neither the address nor the descriptor" {
	for kind in $(unified_kinds); do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		equal "$(api open make=a,w,2Mi,unified inherit cpuput=a,0,3 byte=a,0)" "open: OK
make w: OK
inherit: E_FORKED
byte a: 3"
	done
}

@test "each call of the driver that fails: said, nothing left, and the next try works" {
	needs_sim
	for kind in 1 0; do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		calls=(cuMemHostRegister)
		[ $kind = 0 ] || calls=(cuMemCreate cuMemMap cuMemSetAccess cuMemExportToShareableHandle)
		for call in "${calls[@]}"; do
			run -0 --separate-stderr env GPUSHARE_SIM_FAIL=$call:1:1:2 "$BIN/api_app" open \
				make=a,w,2Mi,unified make=a,w,2Mi,unified cpuput=a,1,2 byte=a,1
			equal "$output" "open: OK
make w: E_NO_MEMORY
make w: OK
byte a: 2"
		done
		owner make=a,w,2Mi,unified fill=a,7
		[ $kind = 0 ] || calls=(cuMemImportFromShareableHandle cuMemMap cuMemSetAccess)
		for call in "${calls[@]}"; do
			run -0 --separate-stderr env GPUSHARE_SIM_FAIL=$call:1:1:801 "$BIN/api_app" open attach=b,w stat=w \
				attach=b,w cpubyte=b,4
			equal "$output" "open: OK
attach w: E_NOT_SUPPORTED
stat w: OK
size 2097152 offset 0 base 2097152 attachers 0 mine 0 uid 1
attach w: OK
cpubyte b: 35"
			has "$stderr" "$call"
		done
		down
	done
}

@test "a driver that refuses the node's memory, or lacks the calls, gets a file" {
	needs_sim
	equal "$(GPUSHARE_SIM_FAIL=cuMemCreate:1:1:801 api open make=a,w,2Mi,unified cpuput=a,1,2 byte=a,1 | tail -n 1)" \
		"byte a: 2"
	for call in cuMemSetAccess:1:1:101 cuMemMap:1:1:1; do
		equal "$(GPUSHARE_SIM_FAIL=$call api open make=a,w,2Mi,unified cpuput=a,1,2 byte=a,1 | tail -n 1)" "byte a: 2"
	done
}

@test "memory that can't be freed: said with its address and size" {
	needs_sim
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuMemUnmap:1:1:999 "$BIN/api_app" open make=a,w,3Mi,unified free=a
	has "$output" "free a: E_CUDA"
	[[ $stderr =~ "the 4194304 bytes at 0x"[0-9a-f]+" can't be freed" ]]
	run -0 --separate-stderr env GPUSHARE_SIM_HOST_NUMA=0 GPUSHARE_SIM_FAIL=cuMemHostUnregister:1:1:999 "$BIN/api_app" \
		open make=a,w,3Mi,unified free=a
	has "$output" "free a: E_CUDA"
	[[ $stderr =~ "the 4194304 bytes at 0x"[0-9a-f]+" can't be freed" ]]
}

@test "every GPU reaches it, and a process that does not see the owner's" {
	needs_sim
	export GPUSHARE_SIM_DEVICES=2
	for kind in 1 0; do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		CUDA_VISIBLE_DEVICES=0 owner make=a,w,2Mi,unified fill=a,7
		equal "$(CUDA_VISIBLE_DEVICES=1 api open attach=b,w byte=b,4 where=b)" "open: OK
attach w: OK
byte b: 35
where b: an address, device 0"
		down
	done
}

@test "gpushare ls and stat, gpushare-attach: dumped and filled" {
	needs jq
	owner make=a,w,3Mi,unified fill=a,7
	has "$(gpushare stat w)" "backing:     host"
	equal "$(gpushare ls --json | jq -c '.[] | [.backing, .size, .held]')" '["host",3145728,4194304]'
	gpushare-attach w -o "$WORK/dump"
	head -c 3M /dev/zero | gpushare-attach w --into -
	equal "$(api open attach=b,w cpubyte=b,4 | tail -n 1)" "cpubyte b: 0"
	equal "$(stat -c %s "$WORK/dump")" 3145728
}

@test "records that are not true harm nobody who attaches them" {
	needs jq
	start_registry
	begin mine "$BIN/api_app" open alloc=a,mine,1 touch="$WORK/there" await="$WORK/no"
	uuid=$(shown mine gpu)
	kill -KILL "$PID"
	start liar "$BIN/liar_peer" "$GPUSHARE_DIR" "$(tr -d - <<<"${uuid#GPU-}")"
	until_true grep -q told "$WORK/liar.out"
	run -0 --separate-stderr api open context evopen=e,event make=a,own,3Mi,unified mark attach=b,nowhere attach=b,loose \
		attach=b,huge attach=b,far attach=b,loose,0,host attach=b,huge,0,host marked cpuput=a,5,9 byte=a,5
	equal "$(sed '1d; s/^evopen event: E_CUDA/evopen event: E_OWNER_GONE/' <<<"$output")" "evopen event: E_OWNER_GONE
make own: OK
attach nowhere: E_PROTOCOL
attach loose: E_CUDA
attach huge: E_CUDA
attach far: E_CUDA
attach loose: E_NOT_SUPPORTED
attach huge: E_NOT_SUPPORTED
more than at the mark: 0 fds, 0 mappings, 0 bytes
byte a: 9"
	has "$stderr" "sent no address"
	has "$stderr" "cuMemImport"
}
