#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Child processes, however they are created: none disturbs its parent's names, and a child that uses CUDA itself has
# its own names.
load helpers

HOWS=(fork double clone exec vfork spawn)

# undisturbed WORD...: after the words have made children, the parent's name and data are unchanged
undisturbed() {
	rm -f "$WORK"/{up,end}
	begin_named app "weights:nth=1" "${PROGRAM[@]}" init alloc=a,1Mi fill=a,9 "$@" touch="$WORK/up" \
		await="$WORK/end" free=a touch="$WORK/freed" await="$WORK/over"
	equal "$(names)" "weights 1048576"
	equal "$(api open attach=b,weights byte=b,1 | tail -n 1)" "byte b: 16"
	resume end freed
	equal "$(names)" ""
	touch "$WORK/over"
	finish "$PID"
	rm -f "$WORK"/{freed,over}
}

@test "children after CUDA has begun: the same output, the parent's name stands" {
	hows=(fork double)
	# A real driver does not notice a child of a bare clone(), which then spoils the parent's context.
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || hows+=(clone)
	for program in rt_app_static drv_linked "drv_lookup gpa2"; do
		program "$program"
		for how in "${hows[@]}"; do
			echo "$program, $how"
			words=(child="$how",4 alloc=b,1Mi free=a free=b exit=3)
			alike "${PROGRAM[@]}" init alloc=a,1Mi fill=a,9 "${words[@]}" byte=a,1 free=a exit=5
			equal "$stderr" ""
			undisturbed "${words[@]}"
		done
	done
}

@test "every kind of free and question, in a child and at the very end: the same output" {
	needs_sim # a real driver's child may crash
	local made calls word later=()
	made=(init ctxnew=B stream=s poolnew=p make=a,alloc,3Mi make=b,async,2Mi,s make=c,pool:p,2Mi,s make=d,vmm,2Mi
		make=e,managed,2Mi make=f,pitch,1Mi)
	calls=(told=a range=b range=d range=e ipcget=a,"$WORK/h" ipcclose=a retain=d handle=d pool=p prefetch=e,4096 advise=e,4096
		attachmem=e,s drop=a,alloc
		drop=b,async,s drop=d,vmm drop=e,managed freeasync=f,s pooltrim=p,0 poolset=p,6,0 pooldestroy=p primary=reset
		ctxdestroy=B alloc=g,3Mi make=h,async,3Mi,s make=i,vmm,2Mi errno)
	for word in "${calls[@]}"; do
		later=(later="${word/=/,}" "${later[@]}") # the latest handler runs first
	done
	for program in drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		for how in fork double; do
			alike "${PROGRAM[@]}" "${made[@]}" child=$how,${#calls[@]} "${calls[@]}" "${calls[@]:0:8}" exit=5
		done
		alike "${PROGRAM[@]}" "${later[@]}" "${made[@]}" exit=5
		untouched 'w%i:vmm' "${PROGRAM[@]}" "${made[@]}" child=fork,${#calls[@]} "${calls[@]}" exit=5
		untouched 'w%i:keep' "${PROGRAM[@]}" "${later[@]}" "${made[@]}" exit=5
	done
}

@test "programs begun anew after CUDA has begun: the same output, the parent's name stands" {
	for program in rt_app_static "drv_lookup gpa2"; do
		program "$program"
		for how in exec vfork spawn; do
			echo "$program, $how"
			words=(child="$how",7 init census alloc=b,1Mi fill=b,4 byte=b,1 free=b exit=3)
			alike "${PROGRAM[@]}" init alloc=a,1Mi fill=a,9 "${words[@]}" byte=a,1 free=a exit=5
			undisturbed "${words[@]}"
		done
	done
}

@test "children end by _exit, exec of another program, abort and a signal: the parent's name stands" {
	program rt_app_static
	for end in _exit=3 abort raise=9 raise=15; do
		alike "${PROGRAM[@]}" init alloc=a,1Mi child=fork,1 "$end" child=clone,1 "$end" byte=a,0 free=a
		undisturbed child=fork,1 "$end" child=clone,1 "$end"
	done
}

@test "a child of before CUDA, and its parent: each has its own names" {
	for how in "${HOWS[@]}"; do
		rm -f "$WORK"/{up,child,pid,end}
		begin_named app 'w%p-%i' "$BIN/rt_app_static" child="$how",7,stays init pid="$WORK/pid" \
			alloc=a,1Mi alloc=b,2Mi touch="$WORK/child" await="$WORK/end" free=a \
			init alloc=a,3Mi touch="$WORK/up" await="$WORK/end" reap
		await_file "$WORK/up"
		child=$(cat "$WORK/pid")
		STARTED+=("$child")
		equal "$(names | sort)" "$(printf '%s\n' "w$PID-0 3145728" "w$child-0 1048576" \
			"w$child-1 2097152" | sort)"
		equal "$(api open stat="w$child-1" stat="w$PID-0" | grep -c '^size')" 2
		kill -KILL "$child"
		until_true names_are "w$PID-0 3145728"
		down
		until_true nothing_named
	done
}

@test "a child of before CUDA ends first or last: the other's names stand" {
	program rt_app_static
	alike "${PROGRAM[@]}" child=fork,5 init alloc=a,1Mi fill=a,3 byte=a,1 free=a init alloc=a,1Mi \
		fill=a,9 byte=a,1 free=a
	begin_named app 'w%p' "$BIN/rt_app_static" child=fork,4,stays init alloc=a,1Mi touch="$WORK/child" \
		await="$WORK/end" init pid="$WORK/pid" alloc=a,2Mi touch="$WORK/up" await="$WORK/die" _exit=0
	await_file "$WORK/up"
	equal "$(lines "$(names)")" 2
	touch "$WORK/die"
	finish "$PID"
	left() { [[ $(names) == w*' 1048576' ]] && [ "$(lines "$(names)")" = 1 ]; }
	until_true left
	touch "$WORK/end"
	until_true nothing_named
}

@test "fifty children forked off in mid-registration end well and in time; the parent's names stand" {
	export ASAN_OPTIONS=detect_leaks=0 # a forked thread's own memory looks lost
	for program in rt_app_static rt_app_shared drv_linked; do
		program "$program"
		alike "${PROGRAM[@]}" init storm=50,64Ki
		rm -f "$WORK"/{up,end}
		begin_named app 'w%i' "${PROGRAM[@]}" init storm=50,64Ki hoard=2,5,4Ki touch="$WORK/up" \
			await="$WORK/end" release touch="$WORK/freed" await="$WORK/over"
		# storm= leaves one allocation, of 64 KiB.
		equal "$(names | cut -d' ' -f2 | sort -n | uniq -c | tr -s ' ')" " 10 4096
 1 65536"
		resume end freed
		equal "$(names)" "w0 65536"
		touch "$WORK/over"
		finish "$PID"
		equal "$(tail -n 3 "$WORK/app.out")" "storm: 0 children ended badly, 0 late, 0 calls failed
hoard: 0 failed
release: 0 failed"
		rm -f "$WORK"/{freed,over}
	done
}

@test "children forked off while the registry is stopped are not held up" {
	begin_named app 'w%i' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/go" \
		within=$((500 + SLACK_MS)) child=fork,2 alloc=b,1Mi exit=0 child=clone,2 free=a _exit=0 \
		child=fork,1 _exit=0 touch="$WORK/done"
	registry=$(registry_pids)
	halt "$registry"
	resume go done
	kill -CONT "$registry"
	finish "$PID"
	has "$(cat "$WORK/app.out")" "child fork: 0"
	equal "$(grep late "$WORK/app.out" || true)" ""
}

@test "a process that becomes another program leaves its names behind" {
	begin_named app 'w%p' "$BIN/rt_app_static" init alloc=a,1Mi touch="$WORK/up" await="$WORK/go" \
		become=5 init alloc=b,2Mi touch="$WORK/again" await="$WORK/end" exit=6
	equal "$(names)" "w$PID 1048576"
	resume go again
	equal "$(names)" "w$PID 2097152"
	touch "$WORK/end"
	ends_with 6 "$PID"
	equal "$(cat "$WORK/app.err")" ""
}

@test "a process that becomes another program names anew while a child holds its old connection" {
	needs_sim # NVIDIA's driver answers 304 after exec() while such a child holds what the program had
	start_named app 'w%p' "$BIN/rt_app_static" init alloc=a,1Mi forkhold="$WORK/child,raw" \
		become=5 init alloc=b,2Mi touch="$WORK/again" await="$WORK/end" exit=6
	await_file "$WORK/child"
	STARTED+=("$(cat "$WORK/child")")
	await_file "$WORK/again"
	equal "$(names)" "w$PID 2097152"
	touch "$WORK/end"
	ends_with 6 "$PID"
}
