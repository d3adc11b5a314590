#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each driver call that the shim makes fails once while a program's memory is named or attached: the
# program sees nothing of it, and no name is left behind. The simulated driver only.
load helpers

setup_more() {
	needs_sim
	export WORK PRELOAD
}

each_fails() {
	bash "$BATS_TEST_DIRNAME/faults_each.bash" "$@"
}

# twice WAY SIZE: two allocations, freed once more in case that the first free fails
twice() {
	local slot
	WORDS=()
	for slot in a b; do
		WORDS+=("make=$slot,$1,$2" "fill=$slot,3" "byte=$slot,4" "range=$slot" "drop=$slot" "drop=$slot")
	done
}

naming() {
	twice "$1" 700Ki
	GPUSHARE_NAME=w:nth=1,w:nth=2 each_fails names init errno "${WORDS[@]}" exit=7
}

@test "faults: naming cuMemAlloc memory" {
	naming alloc
}

@test "faults: naming pitched memory" {
	naming pitch
}

@test "faults: naming stream-ordered memory" {
	naming async
}

@test "faults: naming memory of a pool" {
	naming pool
}

@test "faults: naming cuMemCreate memory" {
	naming vmm
}

# A context that the shim could not give back, nobody can. Whether a name outlives its context where
# the driver does not say which one ends is not asked.
@test "faults: contexts that end with named memory" {
	OMIT='cuDevicePrimaryCtxRelease.*' GPUSHARE_NAME='w%i' each_fails nothing init errno \
		make=a,alloc,700Ki primary=reset primary=retain ctxset=primary make=b,alloc,700Ki \
		primary=release primary=release drop=b ctxnew=c make=d,alloc,1Mi ctxdestroy=c drop=d exit=7
}

# produced WAY: a program that has made 2 MiB of the pattern that the consumer writes itself
produced() {
	start_named producer weights "$BIN/drv_linked" init make=a,"$1",2Mi fill=a,3 touch="$WORK/up" \
		await="$WORK/end"
	await_file "$WORK/up"
}

# attaching_by WAY: as naming, and the buffers are the producer's
attaching_by() {
	twice "$1" 2Mi
	GPUSHARE_ATTACH=weights:nth=1,weights:nth=2 each_fails attachments init errno "${WORDS[@]}" exit=7
	equal "$(api open stat=weights | sed -n 's/.* attachers \([0-9]*\) .*/\1/p')" 0
}

@test "faults: attaching in place of cuMemAlloc memory" {
	produced alloc
	attaching_by alloc
}

@test "faults: attaching in place of stream-ordered memory" {
	produced alloc
	attaching_by async
}

@test "faults: attaching what came as a descriptor" {
	produced vmm
	attaching_by alloc
}

@test "faults: attaching in place of cuMemCreate memory" {
	produced vmm
	attaching_by vmm
}
