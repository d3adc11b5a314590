#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Bounds of deferred frees: how much freed but attached memory an owner holds, and what releases it early.
load helpers
load deferred

@test "GPUSHARE_DEFERRED_FREE=0 frees at once; so is freed what nobody has, or is bigger than all of it" {
	program rt_app_static
	for limit in 0 1Mi 4M; do
		export GPUSHARE_DEFERRED_FREE=$limit
		owner x init mark alloc=a,4Mi "${UP[@]}" free=a taken=freed "${END[@]}"
		unset GPUSHARE_DEFERRED_FREE
		held x
		resume go done
		equal "$(deferred)" ""
		taken 0
		touch "$WORK/leave" "$WORK/end"
		finish "$OWNER"
		finish "$HOLDER"
	done
	named x "$BIN/rt_app_static" init mark alloc=a,4Mi free=a taken=a >"$WORK/app.out"
	taken 0
}

@test "it holds so many bytes: the oldest goes" {
	program rt_app_static
	export GPUSHARE_DEFERRED_FREE=9Mi
	owner 'w%i' init mark alloc=a,4Mi alloc=b,2Mi alloc=c,3Mi alloc=d,1Mi "${UP[@]}" free=b free=a \
		taken=two free=c taken=three free=d taken=four "${END[@]}"
	held w0 w1 w2 w3
	resume go done
	taken "12
10
6"
	equal "$(deferred)" "w2 1
w3 1"
}

@test "it holds 64 buffers: the oldest goes" {
	program drv_linked
	owner 'w%i' init mark hoard=1,70,2Mi "${UP[@]}" release taken=all "${END[@]}"
	attach=()
	for i in $(seq 0 69); do attach+=("attach=a,w$i"); done
	begin holder "$BIN/api_app" open "${attach[@]}" touch="$WORK/held" await="$WORK/end"
	HOLDER=$PID
	equal "$(grep -c '^attach .*: OK$' "$WORK/holder.out")" 70
	resume go done
	taken 128
	equal "$(lines "$(deferred)")" 64
	equal "$(gpushare stat | sed -n 's/^deferred: *//p')" 64
	equal "$(gpushare ls --deferred | wc -l)" 65
}

@test "memory is short: all of it goes, and the allocation is made, by whichever call" {
	needs_sim
		# 39Mi is not a multiple of the block size, and too little memory is left to round it up.
	for way in {alloc,pitch,managed,async,pool,vmm},40Mi {alloc,async,pool},39Mi; do

		for rule in 'w%i' 'w%i:nth=1'; do
			echo "$way, $rule"
			program drv_linked
				export GPUSHARE_SIM_MEMORY=64M
			# The simulated driver does not count managed memory as used, so make this call fail.
						[ $way != managed,40Mi ] || export GPUSHARE_SIM_FAIL=cuMemAllocManaged:1:1:2
			owner "$rule" init alloc=a,40Mi "${UP[@]}" free=a make=b,$way "${END[@]}"
			unset GPUSHARE_SIM_MEMORY GPUSHARE_SIM_FAIL
			held w0
			resume go done
			equal "$(said 'make b')" 0
			equal "$(deferred)" ""
			touch "$WORK/leave" "$WORK/end"
			finish "$OWNER"
			finish "$HOLDER"
		done
	done
	program rt_app_static
	export GPUSHARE_SIM_MEMORY=64M
	owner 'w%i:nth=1' init alloc=a,40Mi "${UP[@]}" free=a alloc=b,80Mi alloc=b,40Mi "${END[@]}"
	held w0
	resume go done
	equal "$(said 'alloc b')" "2
0"
}

@test "its context is destroyed, the primary one reset or released: it is gone, and the program goes on" {
	program drv_linked
	for words in "ctxnew=B|ctxset=B|ctxdestroy=B ctxset=primary" "|ctxset=primary|primary=reset" \
		"|ctxset=primary|primary=release"; do
		IFS='|' read -r before meanwhile after <<<"$words"
		echo "$words"
		# shellcheck disable=SC2086 # words
		owner x init mark $before make=a,alloc,4Mi "${UP[@]}" $meanwhile free=a "${FREED[@]}" $after \
			primary=retain ctxset=primary taken=end make=b,alloc,2Mi free=b "${END[@]}"
		held x
		resume go freed
		equal "$(deferred)" "x 1"
		resume again done
		equal "$(deferred)" ""
		equal "$(said 'make b') $(said 'free b')" "0 0"
		touch "$WORK/leave" "$WORK/end"
		finish "$OWNER"
		finish "$HOLDER"
	done
}

@test "there is no registry any more: it stays while another would know of it, then all of it is given back" {
	program rt_app_static
	[ -n "${EMULATOR:-}" ] || start_registry
	GPUSHARE_AUTOSTART=0 GPUSHARE_TIMEOUT_MS=300 owner x init mark alloc=a,4Mi "${UP[@]}" free=a \
		taken=freed "${FREED[@]}" alloc=b,2Mi free=b taken=killed touch="$WORK/killed" \
		await="$WORK/forgotten" alloc=c,2Mi free=c taken=gone "${END[@]}"
	held x
	resume go freed
	kill_registry
	deferred_pause
	resume again killed
	rm "$GPUSHARE_DIR/registry.state"
	asks_again
	resume forgotten done
	taken "4
4
0"
}

@test "the registry answers no free: what others may have is held, and it hears of all of them later" {
	program drv_linked
	[ -n "${EMULATOR:-}" ] || start_registry
	registry=$(registry_pids)
	GPUSHARE_TIMEOUT_MS=300 owner 'w%i:size=2Mi' init mark alloc=a,2Mi alloc=b,2Mi alloc=c,2Mi "${UP[@]}" \
		free=a free=b free=c taken=stopped "${FREED[@]}" alloc=d,2Mi paced=told,100,4Ki taken=told \
		touch="$WORK/told" await="$WORK/left" paced=left,100,4Ki taken=left "${END[@]}"
	held w0 w1
	stop_registry
	resume go freed
	go_on
	asks_again
	resume again told
	equal "$(names)" "w3 2097152"
	leave
	await_file "$WORK/done"
	taken "6
6
2"
}

# paced= calls in a group, one a millisecond, and how many of them a real driver may make wait by itself: now and then 3
# to 6 in a row, up to 11 of 600 were seen. A question every 50 ms makes 36 of 1,800 calls wait.
ROUNDS=600 DRIVER_WAITS=0
[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || ROUNDS=1800 DRIVER_WAITS=24

# waited LABEL: how many of the owner's paced= calls with this LABEL waited
waited() {
	sed -n "s/^paced $1: \([0-9]*\) waited, 0 failed.*/\1/p" "$WORK/app.out"
}

# paced PROGRAM THEN MORE TAKEN [WAITS]: the owner makes three groups of calls that no rule names. The first group is
# before it frees a name that another process has attached, the second after the free and THEN, the third after MORE.
# In each of the last two groups at most WAITS more calls wait than in the first. TAKEN is the memory in use after
# each of these two groups.
paced() {
	local most
	program "$1"
	[ -n "${EMULATOR:-}" ] || start_registry
	registry=$(registry_pids)
	owner x init mark alloc=a,4Mi paced=before,$ROUNDS,1Mi "${UP[@]}" free=a "${FREED[@]}" \
		paced=deferred,$ROUNDS,1Mi taken=deferred touch="$WORK/paced" await="$WORK/more" \
		paced=later,$ROUNDS,1Mi taken=later "${END[@]}"
	held x
	resume go freed
	"$2"
	resume again paced
	"$3"
	resume more done
	cat "$WORK/app.out"
	most=$(($(waited before) + ${5:-0}))
	most=$((most + DRIVER_WAITS))
	[ "$(waited deferred)" -le "$most" ]
	[ "$(waited later)" -le "$most" ]
	taken "$4"
}

# has_attachers COUNT...: the numbers of attachers of all names, in the order of the list
has_attachers() {
	[ "$(gpushare ls --json | jq -r '.[].attachers' | xargs)" = "$*" ]
}

stop_registry() {
	kill -STOP "$registry"
	until_true has_stopped "$registry"
}

start_another() {
	kill_registry
	start_registry
}

leave_and_stop() {
	leave
	stop_registry
}

go_on() {
	kill -CONT "$registry"
}

go_on_and_leave() {
	go_on
	leave
}

@test "the registry answers the free late, and nothing else: one time limit for both" {
	mkdir -m 700 "$WORK/f"
	[ -n "${EMULATOR:-}" ] || start_registry
	start slow "$BIN/tool_fake_registry" "$WORK/f" deaf "$GPUSHARE_DIR" 3 # hello, share, withdraw
	await_file "$WORK/f/ready"
	begin_named app w env GPUSHARE_DIR="$WORK/f" GPUSHARE_AUTOSTART=0 GPUSHARE_TIMEOUT_MS=4000 "$BIN/drv_linked" \
		init alloc=a,2Mi fill=a,7 touch="$WORK/up" await="$WORK/go" within=$((4000 + SLACK_MS)) free=a touch="$WORK/freed" \
		await="$WORK/end"
	held w
	resume go freed
	equal "$(deferred)" "w 1"
	equal "$(said 'free a')" 0
	equal "$(grep late "$WORK/app.out" || true)" ""
}

@test "the registry is stopped, and an earlier request is unanswered: the free is told later, and deferred" {
	[ -n "${EMULATOR:-}" ] || start_registry
	registry=$(registry_pids)
	start theirs "$BIN/api_app" open alloc=a,x,2Mi touch="$WORK/theirs" await="$WORK/end"
	await_file "$WORK/theirs"
	begin_named app w:size=4Mi env GPUSHARE_ATTACH=x:size=2Mi GPUSHARE_TIMEOUT_MS=$((500 + SLACK_MS)) "$BIN/drv_linked" init \
		stream=s alloc=a,4Mi fill=a,7 make=b,async,2Mi,s stall=s drop=b,async,s touch="$WORK/up" await="$WORK/go" \
		go=s alloc=c,1Mi free=a touch="$WORK/freed" await="$WORK/end"
	held w
	stop_registry
	touch "$WORK/go"
	await_file "$WORK/freed"
	go_on
	until_true deferred_is "w 1"
	equal "$(said 'free a')" 0
	equal "$(names)" "x 2097152"
}

@test "calls that no rule names don't wait for the registry that knows who has the memory" {
	paced rt_app_static true leave "4
0"
	equal "$(deferred)" ""
}

@test "nor for one that is stopped: the memory is given back when it goes on" {
	paced drv_linked stop_registry go_on_and_leave "4
0"
	until_true deferred_is ""
}

@test "nor for one that was stopped when the last of them had left" {
	paced rt_app_static leave_and_stop go_on "0
0"
	until_true deferred_is ""
}

@test "nor for one that was killed" {
	paced rt_app_shared kill_registry true "4
4"
}

@test "nor for one that was started since, but to connect to it" {
	paced rt_app_static start_another leave "4
0" 1
	equal "$(deferred)" ""
}

@test "nor do calls behind a stream's end of what was attached, or of more than is held" {
	local way
	needs_sim
	program drv_linked
	[ -n "${EMULATOR:-}" ] || start_registry
	registry=$(registry_pids)
	begin owner "$BIN/api_app" open alloc=a,x,4Mi make=b,y,6Mi,vmm touch="$WORK/made" await="$WORK/over"
	for way in attached freed; do
		rm -f "$WORK"/{up,held,go,freed,leave,left,again,done,end}
		make=async,
		[ $way = attached ] || make=alloc,
		words=(init stream=s paced=before,$ROUNDS,1Mi make=a,${make}4Mi make=b,${make}6Mi "${UP[@]}"
			stall=s drop=a,async,s drop=b,async,s "${FREED[@]}" go=s paced=behind,$ROUNDS,1Mi "${END[@]}")
		if [ $way = attached ]; then
			start app env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=x:size=4Mi,y:size=6Mi "${PROGRAM[@]}" "${words[@]}"
		else
			GPUSHARE_DEFERRED_FREE=6Mi start_named app 'w%i:size=4Mi-' "${PROGRAM[@]}" "${words[@]}"
		fi
		app=$PID
		await_file "$WORK/up"
		[ $way = attached ] || held w0 w1
		resume go freed
		stop_registry
		resume again done
		go_on
		cat "$WORK/app.out"
		[ "$(waited behind)" -le "$(waited before)" ]
		if [ $way = attached ]; then
			until_true has_attachers 0 0
		else
			until_true deferred_is "w1 1"
			leave
		fi
		down "$app"
	done
}

@test "memory freed behind a stream that stands, which others have: an allocation that finds too little answers" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=12M GPUSHARE_TIMEOUT_MS=500
	program drv_linked
	owner x init stream=s alloc=a,4Mi "${UP[@]}" stall=s drop=a,async,s "${FREED[@]}" alloc=b,10Mi go=s alloc=c,10Mi "${END[@]}"
	held x
	touch "$WORK/go"; await_file "$WORK/freed"; touch "$WORK/again"
	await_file "$WORK/done"
	equal "$(said 'alloc [bc]')" "2
0"
}

@test "memory that others have, and a stream that stands: an allocation that finds too little does not wait for it" {
	needs_sim
	export GPUSHARE_SIM_MEMORY=12M
	program drv_linked
	owner x init stream=s alloc=a,4Mi "${UP[@]}" free=a stall=s alloc=b,10Mi "${END[@]}"
	held x
	resume go done
	equal "$(said 'alloc b')" 0
	equal "$(deferred)" ""
}

@test "two deferred frees whose generations share a place in the page of changes are both done" {
	needs_sim
	program drv_linked
	rm -f "$WORK"/{up,held,go,freed,leave,left,again,done,end,mid,mid2}
	begin_named app "w%i:size=4Mi" "${PROGRAM[@]}" init mark alloc=a,4Mi touch="$WORK/mid" await="$WORK/mid2" \
		alloc=b,4Mi "${UP[@]}" free=a free=b alloc=c,4Mi alloc=d,4Mi "${FREED[@]}" free=c touch="$WORK/c" \
		await="$WORK/c2" free=d taken=last "${END[@]}"
	"$BIN/api_app" open raw=r,4Mi many=r,511
	touch "$WORK/mid2"; await_file "$WORK/up"
	held w0 w1
	touch "$WORK/go"; await_file "$WORK/freed"; leave
	deferred_pause; touch "$WORK/again"; await_file "$WORK/c"
	deferred_pause; touch "$WORK/c2"; await_file "$WORK/done"
	equal "$(deferred)" ""
}

@test "API: memory is short: what was held goes" {
	needs_sim
	GPUSHARE_SIM_MEMORY=64M start owner "$BIN/api_app" open alloc=a,x,40Mi touch="$WORK/up" await="$WORK/go" \
		free=a alloc=b,y,40Mi free=b make=c,z,40Mi,vmm touch="$WORK/done" await="$WORK/end"
	await_file "$WORK/up"
	held x
	resume go done
	has "$(cat "$WORK/owner.out")" "free a: OK
alloc y: OK
free b: OK
make z: OK"
	equal "$(deferred)" ""
}
