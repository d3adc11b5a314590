#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each driver call that the shim makes fails once while the shim names or attaches a program's memory. The program sees
# no difference, and no name is left behind. Simulated driver only.
load helpers

setup_more() {
	needs_sim
	export WORK PRELOAD
}

each_fails() {
	bash "$BATS_TEST_DIRNAME/faults_each.bash" "$@"
}

# twice WAY SIZE: words for two allocations; each is freed twice, in case the first free fails
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

# TIMES=3: the 3rd use of a call is the one for the program's range= word.
@test "faults: naming cuMemAlloc memory" {
	TIMES=3 naming alloc
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

@test "faults: naming managed memory, as unified" {
	for kind in 1 0; do
		export GPUSHARE_SIM_HOST_NUMA=$kind
		twice managed 700Ki
		GPUSHARE_NAME=w:unified:nth=1,w:unified:nth=2 each_fails names init errno "${WORDS[@]}" exit=7
	done
}

@test "faults: naming cuMemCreate memory" {
	naming vmm
}

# naming_mapped WAY: rules ask for mapped memory; if making it fails, the program gets ordinary memory
naming_mapped() {
	twice "$1" 700Ki
	GPUSHARE_NAME=w:nth=1:vmm,w:nth=2:vmm each_fails names init errno "${WORDS[@]}" exit=7
}

@test "faults: mapped memory for cuMemAlloc" {
	naming_mapped alloc
}

@test "faults: mapped memory for cuMemAllocPitch" {
	naming_mapped pitch
}

# If the driver can't tell whether the stream is captured, the free returns that error, so leave this call out.
@test "faults: mapped memory for cuMemAllocAsync" {
	OMIT=cuStreamIsCapturing naming_mapped async
}

@test "faults: contexts that end with mapped memory" {
	OMIT='cuDevicePrimaryCtxRelease.*' GPUSHARE_NAME='w%i:vmm' each_fails nothing init errno \
		make=a,alloc,700Ki primary=reset primary=retain ctxset=primary make=b,alloc,700Ki \
		primary=release primary=release drop=b ctxnew=c make=d,alloc,1Mi ctxdestroy=c drop=d exit=7
}

# OMIT: if the shim fails to release a primary context, nothing else can release it. The check is "nothing": a name
# may outlive its context if the driver does not tell which context ends.
@test "faults: contexts that end with named memory" {
	OMIT='cuDevicePrimaryCtxRelease.*' GPUSHARE_NAME='w%i' each_fails nothing init errno \
		make=a,alloc,700Ki primary=reset primary=retain ctxset=primary make=b,alloc,700Ki \
		primary=release primary=release drop=b ctxnew=c make=d,alloc,1Mi ctxdestroy=c drop=d exit=7
}

# produced WAY: start a program that shares 2 MiB with the pattern that the consumer writes too
produced() {
	up_named producer weights "$BIN/drv_linked" init make=a,"$1",2Mi fill=a,3
}

# attaching_by WAY: like naming, but the program's allocations become the producer's buffer
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

# program_words PROGRAM: set WORDS to make and free two allocations by each way that PROGRAM supports
program_words() {
	local way
	WORDS=(init errno)
	for way in alloc async pitch vmm; do
		[[ $1 != rt_* || $way != alloc ]] || way=malloc
		[[ $1 != rt_* || $way != vmm ]] || way=entry-vmm
		WORDS+=("make=a,$way,700Ki" "make=b,$way,2Mi" "fill=a,3" "byte=a,4" "drop=a" "drop=b")
	done
	WORDS+=(exit=7)
}

# without_memory N PROGRAM...: the shim's Nth malloc fails; print output and exit code; $WORK/asked counts the mallocs
without_memory() {
	local code=0
	LD_PRELOAD="$BIN/lib_malloc.so $PRELOAD" LIB_MALLOC_NTH=$1 LIB_MALLOC_COUNT=$WORK/asked \
		"${@:2}" </dev/null 2>"$WORK/err" || code=$?
	echo "exit $code"
}

@test "faults: no memory for the shim, each time that it asks for some" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented library's memory is its instruments'"
	export GPUSHARE_LOG=$WORK/log
	for program in drv_linked "drv_lookup gpa2" rt_app_shared; do
		program "$program"
		program_words "$program"
		plain=$("${PROGRAM[@]}" "${WORDS[@]}" </dev/null || echo "exit $?")
		has "$plain" "exit 7"
		equal "$(GPUSHARE_NAME='w%i' without_memory 0 "${PROGRAM[@]}" "${WORDS[@]}")" "$plain"
		[ "$(cat "$WORK/asked")" -ge 15 ]
		equal "$(grep -c 'is shared' "$WORK/log")" 8
		# Try one more than the usual number: after a failure, a message or a retry may allocate too.
		for ((n = 1; n <= $(cat "$WORK/asked") + 1; n++)); do
			: >"$WORK/log"
			equal "$(GPUSHARE_NAME="w:nth=1,w:nth=3,w:nth=5,w:nth=7,x%i" without_memory $n \
				"${PROGRAM[@]}" "${WORDS[@]}")" "$plain"
			[ "$(grep -vcx 'gpushare: GPUSHARE_NAME: out of memory' "$WORK/err")" = 0 ]
			[ "$(grep -c 'is taken by' "$WORK/log")" = 0 ]
		done
		[ $n -ge 15 ]
		rm "$WORK/log"
	done
}

@test "faults: no memory for the shim while memory is mapped" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented library's memory is its instruments'"
	export GPUSHARE_LOG=$WORK/log
	program_words drv_linked
	plain=$("$BIN/drv_linked" "${WORDS[@]}" </dev/null || echo "exit $?")
	equal "$(GPUSHARE_NAME='w%i:vmm' without_memory 0 "$BIN/drv_linked" "${WORDS[@]}")" "$plain"
	equal "$(grep -c 'is shared' "$WORK/log")" 8
	for ((n = 1; n <= $(cat "$WORK/asked") + 1; n++)); do
		equal "$(GPUSHARE_NAME='w%i:vmm' without_memory $n "$BIN/drv_linked" "${WORDS[@]}")" "$plain"
	done
	[ $n -ge 15 ]
	equal "$(names)" ""
}

@test "faults: no memory for the shim while buffers are attached" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented library's memory is its instruments'"
	up_named producer x,y "$BIN/drv_linked" init make=a,alloc,2Mi fill=a,3 make=b,vmm,2Mi fill=b,3
	words=(init errno make=a,alloc,2Mi fill=a,3 byte=a,4 make=b,vmm,2Mi fill=b,3 byte=b,4 make=c,async,2Mi
		fill=c,3 byte=c,4 drop=a drop=b drop=c exit=7)
	plain=$("$BIN/drv_linked" "${words[@]}" </dev/null || echo "exit $?")
	export GPUSHARE_ATTACH=x:api=cuMemAlloc,y:api=cuMemCreate,x:api=cuMemAllocAsync
	equal "$(without_memory 0 "$BIN/drv_linked" "${words[@]}")" "$plain"
	equal "$(cat "$WORK/err")" ""
	[ "$(cat "$WORK/asked")" -ge 8 ]
	for ((n = 1; n <= $(cat "$WORK/asked") + 1; n++)); do
		equal "$(without_memory $n "$BIN/drv_linked" "${words[@]}")" "$plain"
		[ "$(wc -l <"$WORK/err")" -le 1 ]
	done
	[ $n -ge 8 ]
	equal "$(gpushare ls --json | jq -c '[.[] | .attachers]')" "[0,0]"
}

# failing HOW NTH: start a proxy between the program and the registry that fails in way HOW at request NTH
failing() {
	mkdir -m 700 "$WORK/f"
	start failing "$BIN/tool_failing_registry" "$WORK/f" "$GPUSHARE_DIR" "$@"
	await_file "$WORK/f/ready"
}

# each_request VARIABLE RULES LAST WORD...: requests 1 to LAST fail in turn, in each way; the program sees no difference
each_request() {
	local variable=$1 rules=$2 last=$3 how nth plain output code
	shift 3
	plain=$("$BIN/drv_linked" "$@" </dev/null || echo "exit $?")
	has "$plain" "exit 7"
	for how in dies closes mute limit late; do
		for ((nth = 1; nth <= last; nth++)); do
			echo "$how $nth"
			failing "$how" "$nth"
			output=$(env GPUSHARE_DIR="$WORK/f" GPUSHARE_AUTOSTART=0 LD_PRELOAD="$PRELOAD" "$variable=$rules" \
				GPUSHARE_TIMEOUT_MS=$((150 + SLACK_MS)) "$BIN/drv_linked" "$@" </dev/null \
				2>"$WORK/err" || echo "exit $?")
			equal "$output" "$plain"
			equal "$(cat "$WORK/err")" ""
			kill -KILL "$PID" 2>/dev/null || true
			wait "$PID" 2>/dev/null || true
			rm -rf "$WORK/f"
		done
	done
}

# The program sends 6 requests: hello, two names, and their ends.
@test "faults: the registry goes wrong at each request of a program that names" {
	has "$(api open)" OK
	each_request GPUSHARE_NAME 'w%i' 6 init errno within=$((450 + 2 * SLACK_MS)) make=a,alloc,700Ki fill=a,3 \
		make=b,async,2Mi byte=a,4 drop=a drop=b exit=7
	until_true nothing_left
}

@test "faults: the registry goes wrong at each request of a program whose memory is mapped" {
	has "$(api open)" OK
	each_request GPUSHARE_NAME 'w%i:vmm' 6 init errno within=$((450 + 2 * SLACK_MS)) make=a,alloc,700Ki fill=a,3 \
		make=b,async,2Mi byte=a,4 drop=a drop=b exit=7
	until_true nothing_left
}

@test "faults: the registry goes wrong at each request of a program that attaches" {
	produced alloc
	each_request GPUSHARE_ATTACH weights:nth=1,weights:nth=2 6 init errno within=$((450 + 2 * SLACK_MS)) \
		make=a,alloc,2Mi fill=a,3 byte=a,5 make=b,async,2Mi fill=b,3 byte=b,5 drop=a drop=b exit=7
	none() { [ "$(shown weights attachers)" = 0 ]; }
	until_true none
}

nothing_left() {
	[ -z "$(names)" ]
}
