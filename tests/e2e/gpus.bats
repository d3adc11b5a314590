#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Several GPUs in the machine: different GPUs visible to owner and attacher, and attaching by peer access.
load helpers

setup_more() {
	export GPUSHARE_SIM_DEVICES=2
	[[ $("$BIN/drv_linked" init device=1) == *"device 1: 0" ]] || skip "one GPU here; the simulated driver has two"
}

# owner DEVICE [VISIBLE]: share an IPC, a vmm and a read-only buffer on DEVICE; each has the byte 7 at offset 5
owner() {
	up owner env ${2:+CUDA_VISIBLE_DEVICES=$2} "$BIN/api_app" open make=i,ipc,2Mi,gpu:"$1" put=i,5,7 \
		make=v,vmm,2Mi,vmm+gpu:"$1" put=v,5,7 make=r,ro,2Mi,readonly+gpu:"$1" put=r,5,7
	equal "$(sed 's/.*: //' "$WORK/owner.out" | sort | uniq -c | tr -s ' ')" " 7 OK"
}

# gpus WORD...: run api_app and drop the first line of its output, the status of its session
gpus() {
	"$BIN/api_app" open "$@" </dev/null | tail -n +2
	return "${PIPESTATUS[0]}"
}

@test "attached for another GPU, which reaches the owner's: read and written" {
	owner 0
	for name in ipc vmm; do
		equal "$(gpus attachfor=a,$name,1 byte=a,5 put=a,6,9 detach=a)" "attach $name: OK
for device 1
byte a: 7
put a: OK
detach a: OK"
		equal "$(gpus attachfor=a,$name,0 byte=a,6)" "attach $name: OK
for device 0
byte a: 9"
	done
	equal "$(gpus attachfor=a,ro,1 byte=a,5 put=a,5,1 2>/dev/null)" "attach ro: OK
for device 1
byte a: 7
put a: E_READ_ONLY"
	run -0 --separate-stderr gpus attachfor=a,vmm,64
	equal "$output" "attach vmm: E_INVALID"
	has "$stderr" "there is no device 64"
}

@test "the owner's GPU is not visible here: it is attached for the one that is" {
	owner 0 0
	for name in ipc vmm; do
		equal "$(CUDA_VISIBLE_DEVICES=1 gpus attachfor=a,$name byte=a,5 put=a,5,8 byte=a,5 put=a,5,7 detach=a)" "attach $name: OK
for device 0
byte a: 7
put a: OK
byte a: 8
put a: OK
detach a: OK"
	done
	equal "$(CUDA_VISIBLE_DEVICES=1 gpushare-attach ipc | head -c 6 | tail -c 1 | od -An -tu1 | tr -d ' ')" 7
}

@test "other ordinals on either side: the UUID decides" {
	owner 1 0,1
	for name in ipc vmm; do
		equal "$(CUDA_VISIBLE_DEVICES=1,0 gpus attachfor=a,$name byte=a,5)" "attach $name: OK
for device 0
byte a: 7"
		equal "$(CUDA_VISIBLE_DEVICES=1 gpus attachfor=a,$name byte=a,5)" "attach $name: OK
for device 0
byte a: 7"
		equal "$(CUDA_VISIBLE_DEVICES=1,0 gpus attachfor=a,$name,1 byte=a,5)" "attach $name: OK
for device 1
byte a: 7"
	done
}

@test "a pool's access for another GPU, given before an allocation and after it: as without us, and named" {
	script=(init make=a,async,2Mi fill=a,7 poolaccess=d,1,3 make=b,pool,3000000 fill=b,3 poolnew=p
		make=c,pool:p,2Mi fill=c,5 poolaccess=p,1,3 device=1 memset=a,9,4 byte=a,0 byte=a,5 put=a,6,8 memset=b,9,4
		byte=b,0 byte=b,2999999 memset=c,9,4 byte=c,3 byte=c,4 device=0 byte=a,0 byte=a,6 byte=b,0 byte=c,0)
	has "$("$BIN/drv_linked" "${script[@]}")" "memset a: 0"
	for rule in 'w%i' 'w%i:vmm' 'w%i:readonly'; do
		untouched "$rule" "$BIN/drv_linked" "${script[@]}" drop=a drop=b drop=c exit=3
		equal "$stderr" ""
	done
	up_named app 'w%i' "$BIN/drv_linked" "${script[@]}"
	equal "$(gpus attachfor=a,w0 byte=a,0 byte=a,6)" "attach w0: OK
for device 0
byte a: 9
byte a: 8"
	equal "$(gpus attachfor=a,w1,1 byte=a,0 | tail -n 1)" "byte a: 9"
	equal "$(gpus attachfor=a,w2,0 byte=a,0 | tail -n 1)" "byte a: 9"
}

@test "a pool's memory for another GPU that can't be mapped: the pool's own, without a name" {
	needs_sim
	script=(init make=a,async,2Mi fill=a,7 poolaccess=d,1,3 device=1 memset=a,9,4 byte=a,0)
	plain=$("$BIN/drv_linked" "${script[@]}")
	export GPUSHARE_LOG=$WORK/log GPUSHARE_SIM_FAIL=cuMemCreate:1:9:801
	equal "$(named 'w%i' "$BIN/drv_linked" "${script[@]}" 2>&1)" "$plain"
	has "$(cat "$WORK/log")" '"w0" is not shared: making mapped memory failed with CUDA_ERROR_NOT_SUPPORTED'
}

@test "by a rule: an unmodified program on another GPU, or that sees only another, gets the buffer" {
	owner 0 0
	begin_named named "rule/ipc,rule/vmm:vmm" "$BIN/drv_linked" init alloc=a,2Mi fill=a,9 \
		alloc=b,2Mi fill=b,9 touch="$WORK/named" await="$WORK/end"
	for name in rule/ipc rule/vmm; do
		equal "$(attaching $name:must "$BIN/drv_linked" init device=1 cycle=1,2Mi,9 | tail -n 1)" "cycle: 0 failed"
		equal "$(CUDA_VISIBLE_DEVICES=1 attaching $name:must "$BIN/drv_linked" init cycle=1,2Mi,9 | tail -n 1)" \
			"cycle: 0 failed"
	done
}

@test "a program that maps memory by itself gets no buffer of a GPU that it does not see" {
	begin_named named w:vmm "$BIN/drv_linked" init make=a,vmm,2Mi fill=a,7 touch="$WORK/named" await="$WORK/end"
	equal "$(attaching w:must "$BIN/drv_linked" init make=a,vmm,2Mi byte=a,5 | tail -n 1)" "byte a: 42"
	run -0 --separate-stderr env CUDA_VISIBLE_DEVICES=1 LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=w \
		GPUSHARE_LOG="$WORK/log" "$BIN/drv_linked" init make=a,vmm,2Mi
	equal "$stderr" ""
	has "$(cat "$WORK/log")" "its GPU is not visible to this process"
	equal "$output" "init: 0
make a: 0"
}

@test "no peer access: E_DEVICE with a sentence, a line in the log by a rule, and nothing stays attached" {
	needs_sim
	needs jq
	export GPUSHARE_SIM_PEERS=0
	owner 0 0
	for name in ipc vmm; do
		export GPUSHARE_LOG=$WORK/log.$name
		run -0 --separate-stderr gpus attachfor=a,$name,1
		equal "$output" "attach $name: E_DEVICE"
		has "$stderr" "the two have no peer access"
		CUDA_VISIBLE_DEVICES=1 run -0 --separate-stderr gpus attachfor=a,$name
		equal "$output" "attach $name: E_DEVICE"
		has "$stderr" "which this process does not see; it sees GPU-"
		has "$stderr" "(CUDA_VISIBLE_DEVICES=1), and device 0 can't reach it"
		run -0 --separate-stderr attaching $name:must "$BIN/drv_linked" init device=1 cycle=1,2Mi
		equal "${lines[2]}" "cycle: 1 failed"
		equal "$(grep gpushare <<<"$stderr" || true)" ""
		has "$(cat "$GPUSHARE_LOG")" "it is on another GPU, to which the program's GPU has no peer access;"
		CUDA_VISIBLE_DEVICES=1 run -0 --separate-stderr attaching $name "$BIN/drv_linked" init cycle=1,2Mi
		equal "${lines[1]}" "cycle: 0 failed"
		equal "$stderr" ""
		has "$(cat "$GPUSHARE_LOG")" "its GPU is not visible to this process, and the program's GPU can't reach it;"
		equal "$(gpus attachfor=a,$name byte=a,5)" "attach $name: OK
for device 0
byte a: 7"
		equal "$(shown $name attachers)" 0
	done
}
