#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Named memory that is freed while other processes have it attached. To its own program it is freed. The memory stays
# unchanged until the last attacher detaches; then the driver gets it back.
load helpers
load deferred

@test "it stays as long as others have it, whatever the owner makes meanwhile; then it is given back" {
	for program in "${PROGRAMS[@]}"; do
		echo "$program"
		program "$program"
		owner x "init" mark alloc=a,4Mi fill=a,7 save=a,"$WORK/was" "${UP[@]}" free=a taken=freed \
			alloc=b,4Mi fill=b,9 taken=made "${FREED[@]}" free=b taken=last "${END[@]}"
		held x
		resume go freed
		equal "$(names)" ""
		equal "$(deferred)" "x 1"
		leave
		cmp "$WORK/was" "$WORK/is.x"
		equal "$(deferred)" "x 0"
		resume again done
		equal "$(deferred)" ""
		equal "$(said 'free [ab]')" "0
0"
		taken "4
8
0"
		down "$OWNER"
		finish "$HOLDER"
	done
}

@test "no allocation waits for the GPU's work to give back what was left: the next cudaFree does" {
	needs_sim
	program drv_linked
	owner x init stream=s mark alloc=a,4Mi "${UP[@]}" free=a "${FREED[@]}" stall=s \
		within=$((500 + SLACK_MS)) alloc=b,2Mi make=c,async,2Mi,s drop=c,async,s go=s \
		free=b taken=free "${END[@]}"
	held x
	resume go freed
	leave
	deferred_pause
	resume again done
	equal "$(deferred)" ""
	taken 0
	refute grep late "$WORK/app.out"
}

@test "freed in the order of a stream: the same, behind the stream" {
	needs_sim
	for program in "${PROGRAMS[@]}"; do
		echo "$program"
		program "$program"
		plain=alloc
		[[ $program != rt_* ]] || plain=malloc
		owner x init stream=s mark make=a,$plain,4Mi,s fill=a,7 save=a,"$WORK/was" "${UP[@]}" \
			stall=s within=$((500 + SLACK_MS)) drop=a,async,s drop=a,async,s free=a \
			alloc=b,2Mi go=s alloc=c,2Mi "${FREED[@]}" free=b taken=last "${END[@]}"
		held x
		resume go freed
		equal "$(said 'drop a')" "0
1"
		equal "$(said 'free a')" 1
		refute grep late "$WORK/app.out"
		equal "$(deferred)" "x 1"
		leave
		cmp "$WORK/was" "$WORK/is.x"
		deferred_pause
		resume again done
		equal "$(deferred)" ""
		down "$OWNER"
		finish "$HOLDER"
	done
}

@test "an unmodified program has it, and frees it" {
	program rt_app_static
	for way in free drop=a,async; do
		[[ $way != free ]] || way=free=a
		owner x init mark alloc=a,4Mi fill=a,7 "${UP[@]}" free=a alloc=b,4Mi fill=b,9 "${FREED[@]}" \
			free=b taken=last "${END[@]}"
		GPUSHARE_ATTACH=x:must LD_PRELOAD="$PRELOAD" start holder "$BIN/rt_app_shared" init make=a,malloc,4Mi \
			touch="$WORK/held" await="$WORK/leave" byte=a,0 byte=a,4194303 $way touch="$WORK/left" \
			await="$WORK/end"
		HOLDER=$PID
		await_file "$WORK/held"
		resume go freed
		equal "$(deferred)" "x 1"
		leave
		equal "$(grep '^byte' "$WORK/holder.out")" "byte a: 7
byte a: $(((7 + 4194303 * 7 + (4194303 >> 8) * 13) % 256))"
		until_true deferred_is "x 0"
		resume again done
		equal "$(deferred)" ""
		taken 0
		down "$OWNER"
		finish "$HOLDER"
	done
}

@test "the one that has it is killed" {
	program rt_app_static
	owner x init alloc=a,4Mi "${UP[@]}" free=a "${FREED[@]}" alloc=b,2Mi free=b "${END[@]}"
	held x
	resume go freed
	kill -KILL "$HOLDER"
	until_true deferred_is "x 0"
	deferred_pause
	resume again done
	equal "$(deferred)" ""
}

@test "registries that are killed: it stays held, and is given back when the holder has ended" {
	program rt_app_static
	owner x,x,y init alloc=a,4Mi "${UP[@]}" free=a alloc=a,4Mi "${FREED[@]}" alloc=b,2Mi free=b "${END[@]}"
	held x
	resume go freed
	for _ in 1 2; do
		kill_registry
		equal "$(names)" "x 4194304"
		equal "$(attachers x)" 0 # of the new buffer of that name
		equal "$(deferred)" "x 1"
	done
	kill -KILL "$HOLDER"
	until_true deferred_is "x 0"
	kill_registry
	deferred_pause
	resume again done
	names >/dev/null
	until_true deferred_is ""
}

@test "the owner ends: nothing is left; the name can be had again meanwhile" {
	program rt_app_static
	owner 'x,x' init alloc=a,4Mi "${UP[@]}" free=a alloc=a,2Mi "${FREED[@]}" free=a "${END[@]}"
	held x
	resume go freed
	equal "$(names)" "x 2097152"
	equal "$(deferred)" "x 1"
	touch "$WORK/again" "$WORK/end"
	finish "$OWNER"
	until_true deferred_is ""
}

@test "to the program it is freed: a second free, and all that can be asked of a pointer" {
	for program in "${PROGRAMS[@]}"; do
		echo "$program"
		program "$program"
		rest=(errno free=a told=a free=a drop=a,async ipcget=a,"$WORK/handle" told=a fork=exit
			alloc=b,2Mi free=b)
		plain=$("${PROGRAM[@]}" init alloc=a,4Mi "${rest[@]}")
		owner x init alloc=a,4Mi "${UP[@]}" "${rest[@]}" "${END[@]}"
		held x
		resume go done
		equal "$(deferred)" "x 1"
		# A real driver's child process may crash at its exit, with or without the preload.
		equal "$(sed '/^child:/d' "$WORK/app.out")" "$(sed '/^child:/d' <<<"$plain")"
		leave
		down "$OWNER"
		finish "$HOLDER"
	done
}

@test "freed behind a stream that stands still, whose context or the memory's own ends" {
	needs_sim
	program drv_linked
	for words in "ctxnew=B stream=s make=a,alloc,4Mi" "stream=s ctxnew=B make=a,alloc,4Mi" \
		"make=a,alloc,4Mi ctxnew=B stream=s"; do
		echo "$words"
		# shellcheck disable=SC2086 # words
		owner x init mark $words fill=a,7 save=a,"$WORK/was" stall=s "${UP[@]}" drop=a,async,s "${FREED[@]}" \
			ctxdestroy=B ctxset=primary touch="$WORK/ended" await="$WORK/last" alloc=b,2Mi free=b taken=last "${END[@]}"
		held x
		resume go freed
		equal "$(deferred)" "x 1"
		resume again ended
		if [[ $words == *B*make* ]]; then
			equal "$(deferred)" ""
		else
			equal "$(deferred)" "x 1"
			leave
			cmp "$WORK/was" "$WORK/is.x"
			deferred_pause
		fi
		resume last done
		equal "$(deferred)" ""
		taken 0
		equal "$(said '[dfc].*' | sort -u)" 0
		touch "$WORK/end" "$WORK/leave"
		finish "$OWNER"
		finish "$HOLDER"
		rm "$WORK"/{ended,last}
	done
	for rule in 'w%i' 'w%i:vmm'; do
		untouched "$rule" "${PROGRAM[@]}" init ctxnew=B stream=s mark make=a,async,4Mi,s stall=s drop=a,async,s \
			ctxdestroy=B ctxset=primary taken=B make=b,alloc,2Mi drop=b taken=last
	done
}

@test "freed behind a stream, and the registry ends before it hears of it: the name goes, who has it keeps it" {
	needs_sim
	program drv_linked
	owner x,y init stream=s mark make=a,alloc,4Mi fill=a,7 save=a,"$WORK/was" "${UP[@]}" stall=s drop=a,async,s \
		"${FREED[@]}" make=b,async,2Mi,s touch="$WORK/told" await="$WORK/on" go=s make=c,async,2Mi,s taken=held \
		touch="$WORK/behind" await="$WORK/last" alloc=d,2Mi free=d taken=back "${END[@]}"
	held x
	registry=$(registry_pids)
	kill -STOP "$registry" # it does not hear of the free
	resume go freed
	kill_registry
	asks_again
	resume again told
	equal "$(names)" "y 2097152"
	resume on behind
	leave
	cmp "$WORK/was" "$WORK/is.x"
	deferred_pause
	resume last done
	taken "8
4"
	down "$OWNER"
	finish "$HOLDER"
}

@test "while a stream is captured: a free is what it is without us" {
	program drv_linked
	for mode in "" ,relaxed; do
		rest=(stream=s capture=s$mode free=a endcapture=s capture=s$mode alloc=b,2Mi endcapture=s)
		plain=$("${PROGRAM[@]}" init alloc=a,4Mi "${rest[@]}")
		owner x init alloc=a,4Mi "${UP[@]}" "${rest[@]}" "${FREED[@]}" capture=s,relaxed alloc=b,2Mi free=b \
			endcapture=s "${END[@]}"
		held x
		resume go freed
		equal "$(cat "$WORK/app.out")" "$plain"
		leave
		deferred_pause
		resume again done
		equal "$(tail -n 1 "$WORK/app.out")" "endcapture s: 0, a graph"
		equal "$(deferred)" ""
		down "$OWNER"
		finish "$HOLDER"
	done
}

@test "a free waits for the GPU's work, as ever" {
	needs_sim
	program drv_linked
	owner x init stream=s alloc=a,4Mi "${UP[@]}" stall=s touch="$WORK/freeing" free=a touch="$WORK/done"
	held x
	resume go freeing
	waits() { [ ! -e "$WORK/done" ]; }
	stays 300 waits
	kill -KILL "$OWNER"
}

@test "the name was taken away before: what is attached is held all the same" {
	program rt_app_static
	owner x init mark alloc=a,4Mi fill=a,3 save=a,"$WORK/was" "${UP[@]}" free=a taken=freed "${END[@]}"
	held x
	gpushare rm x
	equal "$(deferred)" ""
	resume go done
	equal "$(deferred)" "x 1"
	taken 4
	leave
	cmp "$WORK/was" "$WORK/is.x"
}

@test "the owner's own attachments hold nothing, nor does mapped memory" {
	program rt_app_static
	owner x init mark alloc=a,4Mi "${UP[@]}" free=a "${END[@]}"
	resume go done
	equal "$(deferred)" ""
	down "$OWNER"
	owner y:vmm init mark alloc=a,4Mi fill=a,7 save=a,"$WORK/was" "${UP[@]}" free=a "${END[@]}"
	held y
	resume go done
	equal "$(deferred)" ""
	leave
	cmp "$WORK/was" "$WORK/is.y"
}

@test "threads free and allocate while others attach, leave and are killed" {
	for program in rt_app_static drv_linked; do
		program "$program"
		owner 'w%i' init mark "${UP[@]}" churn=8,300,256Ki,"$WORK/live" release taken=end "${END[@]}"
		touch "$WORK/go"
		until [ -e "$WORK/done" ]; do
			timeout -s KILL 0.2 "$BIN/api_app" open attach=a,w1 attach=b,w2 attach=c,w3 attach=d,w4 \
				attach=e,w5 attach=f,w6 await="$WORK/never" >"$WORK/killed.out" || true
		done
		equal "$(said release)" "0 failed"
		down "$OWNER"
		until_true deferred_is ""
	done
}

@test "API: gpushare_free holds what others have, the next calls give it back, close gives all" {
	begin owner "$BIN/api_app" open alloc=a,x,4Mi alloc=b,y,4Mi fill=a,7 touch="$WORK/up" await="$WORK/go" \
		free=a free=b touch="$WORK/freed" await="$WORK/again" alloc=c,z,1Mi touch="$WORK/third" \
		await="$WORK/closing" close touch="$WORK/done" await="$WORK/end"
	OWNER=$PID
	held x
	begin other "$BIN/api_app" open attach=a,y touch="$WORK/other" await="$WORK/end"
	resume go freed
	equal "$(deferred)" "x 1
y 1"
	equal "$(names)" ""
	leave
	equal "$(od -An -tu1 -N 2 "$WORK/is.x" | xargs)" "7 14"
	until_true deferred_is $'x 0\ny 1'
	resume again third
	equal "$(deferred)" "y 1"
	resume closing done
	until_true deferred_is ""
	has "$(cat "$WORK/owner.out")" "free a: OK
free b: OK"
	down "$OWNER"
}

@test "API: gpushare_state tells an attacher what became of the name" {
	program rt_app_static
	owner 'x,x' init alloc=a,4Mi "${UP[@]}" free=a "${FREED[@]}" alloc=a,2Mi "${END[@]}"
	begin holder "$BIN/api_app" open attach=a,x state=a touch="$WORK/held" await="$WORK/two" state=a \
		touch="$WORK/left" await="$WORK/three" state=a attach=b,x detach=a touch="$WORK/apart" await="$WORK/end"
	HOLDER=$PID
	resume go freed
	resume two left
	resume again done
	resume three apart
	equal "$(attachers x)" 1 # it detached the other one
	equal "$(grep '^state' "$WORK/holder.out")" "state a: shared
state a: withdrawn
state a: replaced"
	api open make=a,k,2Mi,keep
	equal "$(api open attach=a,k state=a | tail -n 1)" "state a: kept"
	api open unlink=k
}

@test "ls --deferred: a table, JSON, a glob, nothing; stat without a name" {
	program rt_app_static
	start_registry
	run -0 --separate-stderr gpushare ls --deferred
	equal "$stderr" ""
	equal "$output" "NAME  SIZE  HELD  GPU  OWNER  ATTACHMENTS  AGE"
	equal "$(gpushare ls --deferred --json)" "[]"
	owner 'w%i' init alloc=a,4Mi alloc=b,3000000 alloc=c,2Mi "${UP[@]}" free=a free=b "${FREED[@]}"
	held w0 w1 w2
	resume go freed
	run -0 gpushare ls --deferred
	equal "${#lines[@]}" 3
	[[ ${lines[1]} =~ ^w0\ +4194304\ +4194304\ +GPU-.*\ 1\  ]]
	[[ ${lines[2]} =~ ^w1\ +3000000\ +4194304\ +GPU-.*\ 1\  ]]
	equal "$(gpushare ls --deferred --json 'w1*' | jq -r '.[] | "\(.name) \(.size) \(.deferred)"')" "w1 3000000 true"
	equal "$(gpushare ls --json | jq -r '.[] | "\(.name) \(.deferred)"')" "w2 false"
	run -0 gpushare stat
	has "$output" "names:       1"
	has "$output" "attachments: 3"
	has "$output" "deferred:    2"
	equal "$(gpushare stat --json | jq -r '"\(.names) \(.attachments) \(.deferred) \(.connections >= 2)"')" "1 3 2 true"
}
