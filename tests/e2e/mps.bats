#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Under CUDA's Multi-Process Service (MPS): one process of NVIDIA's makes the GPU calls of all its clients.
load helpers

setup_more() {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || skip "MPS needs a GPU: the simulated driver has none"
	needs nvidia-cuda-mps-control
	export CUDA_MPS_PIPE_DIRECTORY=$WORK/pipe CUDA_MPS_LOG_DIRECTORY=$WORK/log
	mkdir "$WORK/pipe" "$WORK/log"
	nvidia-cuda-mps-control -d </dev/null 3>&- 8>&-
	until_true mps get_server_list
}

teardown_more() {
	if [ -d "$WORK/pipe" ]; then mps quit >"$WORK/quit" || cat "$WORK/quit"; fi
}

mps() {
	echo "$1" | nvidia-cuda-mps-control
}

@test "under MPS, buffers of every kind are attached, written and dumped by other clients" {
	up owner "$BIN/api_app" open alloc=i,ipc,2Mi put=i,5,7 make=v,vmm,2Mi,vmm put=v,5,7 make=k,kept,2Mi,keep put=k,5,7
	[ -n "$(mps get_server_list)" ] # the owner is its client
	for name in ipc vmm kept; do
		equal "$(api open attach=a,$name byte=a,5 put=a,6,9 detach=a)" "open: OK
attach $name: OK
byte a: 7
put a: OK
detach a: OK"
		equal "$(gpushare-attach $name | head -c 7 | tail -c 2 | od -An -tu1 | xargs)" "7 9"
	done
	down
	equal "$(api open attach=a,kept byte=a,6)" "open: OK
attach kept: OK
byte a: 9"
}

@test "under MPS, an unmodified program's memory has its name, and another one's is attached" {
	up_named owner 'w:size=2Mi-' "$BIN/rt_app_static" init alloc=a,2Mi fill=a,3
	equal "$(names)" "w 2097152"
	gpushare-attach w >"$WORK/dump"
	equal "$(attaching w:size=2Mi- "$BIN/rt_app_static" init alloc=b,2Mi save=b,"$WORK/seen" free=b)" "init: 0
alloc b: 0
save b: 0
free b: 0"
	cmp "$WORK/dump" "$WORK/seen"
	down
}
