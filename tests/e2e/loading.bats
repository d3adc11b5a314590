#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the process loads, when and how: constructors, unloading, plug-ins, several runtimes, and programs that a preload
# does not reach.
load helpers
load three_ways

setup_more() {
	PUBLIC=$(mktemp -d /tmp/gpushare.XXXXXX) # other users can enter it, unlike $WORK
	chmod 755 "$PUBLIC"
}

teardown_more() {
	rm -rf "$PUBLIC"
}

# If a program unloads the driver, the driver's allocations are lost, so turn the leak checker off.
unloads_driver() {
	needs_sim # the real driver's threads do not survive it
	export ASAN_OPTIONS=detect_leaks=0
}

@test "a first look-up races a dlopen whose constructor looks up" {
	rounds=200
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || rounds=24
	for ((round = 0; round < rounds; round++)); do
		rules=('w%i' '')
		script=("race=$BIN/lib_race.so,$((round % 20 * 100))")
		[ $((round % 4)) -gt 1 ] || script=(open=c,libcuda.so.1,global "${script[@]}")
		code=0
		out=$(env LD_PRELOAD="$(preloads yes)" GPUSHARE_NAME="${rules[round % 2]}" \
			timeout -k 1 5 "$BIN/drv_loader" "${script[@]}" </dev/null) || code=$?
		equal "$code" 0
		found=found
		[ $((round % 4)) -le 1 ] || found=missing
		equal "${out##*$'\n'}" "race: loaded, $found"
	done
}

@test "an allocation from a constructor that runs before ours" {
	recorded "w0 3145728
w1 1048576" "$BIN/drv_linked_early" early init alloc=a,1Mi fill=e,3 byte=e,1
	equal "$(head -n 2 <<<"$plain")" "early: 0
init: 0"
	# The constructor of another preloaded library allocates, with that library before and behind the shim.
	BEFORE=$BIN/lib_linked_early.so
	recorded "w0 3145728" "$BIN/drv_loader" open=c,libcuda.so.1 use=c init
	BEHIND=$BEFORE BEFORE=''
	recorded "w0 3145728" "$BIN/drv_loader" open=c,libcuda.so.1 use=c init
}

@test "libcuda is closed and opened elsewhere: nobody held it, and names come again" {
	unloads_driver
	script=(open=c,libcuda.so.1 use=c init alloc=a,1Mi free=a close=c block=c
		open=c,libcuda.so.1 use=c init)
	recorded "w1 2097152" "$BIN/drv_loader" "${script[@]}" alloc=a,2Mi fill=a,5 byte=a,1
	has "$plain" "close c: 0, gone"
	has "$plain" "moved c: yes"
	has "$plain" "byte a: 12"
	three_ways "$BIN/drv_loader" "${script[@]}" alloc=a,2Mi free=a close=c open=c,libcuda.so.1 \
		use=c init alloc=a,3Mi free=a
}

@test "libcuda is closed and opened at the same place, and another one there" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "instruments map memory of their own where a library was"
	unloads_driver
	for second in "$BUILD/sim/libcuda.so.1" "$BUILD/sim/old/libcuda.so.1"; do
		recorded "w1 2097152" "$BIN/drv_loader" open=c,libcuda.so.1 use=c init alloc=a,1Mi free=a \
			close=c open=c,"$second" use=c init alloc=a,2Mi fill=a,5 byte=a,1
		has "$plain" "close c: 0, gone"
		has "$plain" "moved c: no"
	done
}

# other_at_same_place FOLDER: the program closes its libcuda.so.1 and gets FOLDER/old's at the same address
other_at_same_place() {
	run -0 named 'w%i' "$BIN/drv_loader" open=c,"$1/libcuda.so.1" use=c close=c \
		open=c,"$1/old/libcuda.so.1" owner=c,cuMemAlloc_v2 owner=c,cuGetProcAddress
	equal "${lines[*]:4}" "moved c: no \
owner cuMemAlloc_v2: libgpushare_shim.so owner cuGetProcAddress: libgpushare_shim.so"
}

@test "another libcuda at the same place: its own entries are replaced, not the first one's" {
	unloads_driver
	other_at_same_place "$BUILD/sim"
}

@test "another libcuda at the same place: they are told apart without a build id too" {
	unloads_driver
	needs objcopy
	mkdir -p "$WORK/unmarked/old"
	for file in libcuda.so.1 old/libcuda.so.1; do
		objcopy -R .note.gnu.build-id "$BUILD/sim/$file" "$WORK/unmarked/$file"
	done
	other_at_same_place "$WORK/unmarked"
	recorded "w1 2097152" "$BIN/drv_loader" open=c,"$WORK/unmarked/libcuda.so.1" use=c init alloc=a,1Mi free=a \
		open=s,"$BIN/lib_stubs.so" close=s alloc=a,2Mi fill=a,5 byte=a,1
}

@test "a libcuda that lacks a call of every supported driver: the log and the API name the call, the program runs on" {
	needs_sim
	mkdir "$WORK/lacking"
	LC_ALL=C sed 's/cuStreamGetCtx/cuStreamGotCtx/g' "$BUILD/sim/libcuda.so.1" >"$WORK/lacking/libcuda.so.1"
	export LD_LIBRARY_PATH=$WORK/lacking:$LD_LIBRARY_PATH GPUSHARE_LOG=$WORK/log
	untouched w "$BIN/drv_linked" init errno stream=s alloc=a,1Mi fill=a,3 byte=a,4 make=b,async,2Mi,s drop=b,async,s \
		pool=d free=a
	three_ways "$BIN/drv_loader" open=c,libcuda.so.1 use=c init alloc=a,1Mi fill=a,5 byte=a,1 free=a
	equal "$(grep -c "$WORK/lacking/libcuda.so.1\" get no name: CUDA 11.8 or later .* has no cuStreamGetCtx" "$WORK/log")" 2
	equal "$(grep -c 'get no name' "$WORK/log")" 2
	equal "$(names)" ""
	run -0 --separate-stderr api open alloc=a,x,1Mi
	has "$output" "alloc x: E_NO_DRIVER"
	has "$stderr" "libcuda.so.1 has no cuStreamGetCtx"
}

# If a process has two libcudas, the first one whose cuInit is called is the driver, and the other one refuses calls
# (contract_lookup). The program may look names up in either one before.
@test "two libcudas are loaded: the one that starts gives names, whichever is looked up in first" {
	needs_sim
	both=(open=c,libcuda.so.1 open=d,"$BUILD/sim/old/libcuda.so.1")
	for order in "c d" "d c"; do
		read -r starts other <<<"$order"
		for looks in "use=$other" "use=$starts use=$other" ""; do
			recorded "w0 1048576
w2 3145728" "$BIN/drv_loader" "${both[@]}" $looks use=$starts init alloc=a,1Mi alloc=b,2Mi fill=a,5 use=$other init \
				alloc=x,1Mi free=a free=b use=$starts free=b alloc=c,3Mi byte=a,1
			equal "$(grep -E '^(init|alloc|free)' <<<"$plain")" "init: 0
alloc a: 0
alloc b: 0
init: 304
alloc x: 3
free a: 3
free b: 3
free b: 0
alloc c: 0"
		done
	done
}

@test "two libcudas are loaded: what the second one made is attached, freed, held for others, and ends with its context" {
	needs_sim
	export GPUSHARE_LOG=$WORK/log
	for backing in '' :vmm; do
		rm -f "$WORK"/{up,go,freed,end,seen,bye}
		GPUSHARE_SIM_MEMORY=8Mi start_named app "w%i$backing" "$BIN/drv_loader" open=c,libcuda.so.1 open=d,"$BUILD/sim/old/libcuda.so.1" use=c \
			use=d init alloc=a,2Mi alloc=b,4Mi fill=a,5 touch="$WORK/up" await="$WORK/go" use=c free=a use=d free=a \
			touch="$WORK/freed" await="$WORK/end" alloc=c,4Mi free=c primary=reset
		await_file "$WORK/up"
		begin other env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=w0:must "$BIN/drv_linked" init alloc=x,2Mi byte=x,1 \
			touch="$WORK/seen" await="$WORK/freed" byte=x,1 free=x touch="$WORK/bye"
		touch "$WORK/go"
		finish "$PID"
		await_file "$WORK/bye"
		equal "$(grep ^byte "$WORK/other.out" | uniq -c | tr -s ' ')" " 2 byte x: 12"
		equal "$(names)" "w1 4194304"
		touch "$WORK/end"
		finish app
		equal "$(sed -n '/^free/,$p' "$WORK/app.out")" "free a: 3
free a: 0
alloc c: 0
free c: 0
primary reset: 0"
		equal "$(names)" ""
	done
	has "$(<"$WORK/log")" '"w0" is given back' # there was no room for c
}

@test "two libcudas are loaded: whoever finds the second one otherwise is served, too" {
	needs_sim
	old=$BUILD/sim/old/libcuda.so.1
	# A runtime uses cuGetProcAddress, before cuInit.
	for kind in static shared; do
		recorded "w0 4194304" "$BIN/drv_loader" open=c,libcuda.so.1 open=d,"$old" use=d \
			open=p,"$BIN/lib_rt_plugin_$kind.so" call=p,runtime_alloc
	done
	# A plug-in that is linked with libcuda.
	script=(open=p,"$BIN/lib_linked_plugin.so" open=d,"$old" use=d)
	recorded "w0 1048576" "$BIN/drv_loader" "${script[@]}" call=p,plugin_init call=p,plugin_alloc
	has "$plain" "plugin_alloc: 0"
	recorded "w0 1048576" "$BIN/drv_loader" "${script[@]}" init alloc=a,1Mi call=p,plugin_init call=p,plugin_alloc \
		call=p,plugin_free fill=a,5 byte=a,1
	has "$plain" "plugin_alloc: 3"
	# Behind a library that has the name libcuda.so.1 and little else.
	mkdir "$WORK/stub"
	cp "$BIN/lib_stubs.so" "$WORK/stub/libcuda.so.1"
	recorded "w0 1048576" "$BIN/drv_loader" open=s,"$WORK/stub/libcuda.so.1" call=s,cuMemAlloc_v2 call=s,cuGetProcAddress \
		open=c,libcuda.so.1 use=c init alloc=a,1Mi fill=a,5 byte=a,1
}

@test "two libcudas are loaded: look-ups in either are hooked, and memory stays" {
	needs_sim # one driver in the process
	mkdir "$WORK/third"
	cp "$BUILD/sim/libcuda.so.1" "$WORK/third"
	script=(open=c,libcuda.so.1 open=d,"$BUILD/sim/old/libcuda.so.1" open=e,"$WORK/third/libcuda.so.1")
	three_ways "$BIN/drv_loader" "${script[@]}" both=c,d,10000 both=c,e,10000
	equal "$(grep -c "both: the heap stays" <<<"$plain")" 2
	export GPUSHARE_LOG=$WORK/log
	run -0 named 'w%i' "$BIN/drv_loader" "${script[@]}" owner=d,cuMemAlloc_v2 owner=c,cuMemAlloc_v2 \
		owner=e,cuMemFree_v2 owner=e,cuMemAlloc_v2 owner=c,cuMemFree_v2
	equal "$(grep ^owner <<<"$output")" "owner cuMemAlloc_v2: libgpushare_shim.so
owner cuMemAlloc_v2: libgpushare_shim.so
owner cuMemFree_v2: libcuda.so.1
owner cuMemAlloc_v2: libcuda.so.1
owner cuMemFree_v2: libgpushare_shim.so"
	equal "$(grep -c "$WORK/third/libcuda.so.1" "$WORK/log")" 1
	# The sanitizer reports what an unloaded library still held as a leak.
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || return 0
	# If one of the two hooked libcudas is closed, the shim hooks the next one in which the program looks up a name.
	run -0 named 'w%i' "$BIN/drv_loader" "${script[@]}" owner=d,cuMemAlloc_v2 owner=c,cuMemAlloc_v2 close=d \
		owner=e,cuMemAlloc_v2
	equal "$(grep -c '^owner cuMemAlloc_v2: libgpushare_shim.so' <<<"$output")" 3
	recorded "w0 2097152" "$BIN/drv_loader" "${script[@]}" use=c use=d init close=d use=e init alloc=a,2Mi
}

@test "two libcudas are loaded: calls through either walk no loaded objects" {
	needs_sim
	script=(open=p,"$BIN/lib_linked_plugin.so" open=d,"$BUILD/sim/old/libcuda.so.1" use=d init call=p,plugin_init)
	for turn in 1 2; do # the first call of each finds out where it goes on to
		script+=(call=default,walks_made alloc=a,1Mi free=a call=p,plugin_alloc call=p,plugin_free)
	done
	BEFORE=$BIN/lib_walks.so
	run -0 named never:size=512Gi env LD_PRELOAD="$(preloads yes)" "$BIN/drv_loader" "${script[@]}" \
		call=default,walks_made
	equal "$(grep -c '^call plugin_alloc: 3' <<<"$output")" 2
	equal "$(sed -n 's/^call walks_made: //p' <<<"$output" | tail -n 1)" 0
}

@test "calls after a dlclose of another library walk no loaded objects" {
	script=(open=c,libcuda.so.1 use=c init open=s,"$BIN/lib_stubs.so" open=t,"$BIN/lib_stubs.so"
		alloc=a,1Mi free=a)
	for close in t s; do # the first is held still, the second unloads it
		script+=(call=default,walks_made close=$close call=default,walks_made alloc=a,1Mi free=a)
	done
	BEFORE=$BIN/lib_walks.so
	for rules in '' 'never:size=512Gi'; do
		run -0 named "$rules" env LD_PRELOAD="$(preloads yes)" "$BIN/drv_loader" "${script[@]}" \
			call=default,walks_made
		has "$output" "close t: 0, stays"
		has "$output" "close s: 0, gone"
		mapfile -t made < <(sed -n 's/^call walks_made: //p' <<<"$output")
		echo "walks: before, in dlclose, in the calls behind it, in dlclose, in the calls: ${made[*]}"
		equal "${#made[*]}" 5
		[ "${made[0]}" -gt 0 ] # they are counted
		equal "${made[2]} ${made[4]}" "0 0"
		# close= calls dlclose twice
		[ "${made[1]}" -le 4 ]
		[ "${made[3]}" -le 4 ]
	done
}

@test "the driver's address space is somebody else's after it is closed: look-ups go on" {
	unloads_driver
	three_ways "$BIN/drv_loader" open=c,libcuda.so.1 use=c init close=c \
		open=s,"$BIN/lib_stubs.so" call=s,cuMemAlloc_v2 call=s,cuGetProcAddress_v2 \
		find=s,cuInit open=d,"$BIN/lib_interposer.so" find=d,cuMemAlloc_v2 close=s close=d
}

@test "a plug-in that is linked against libcuda is closed and opened elsewhere" {
	unloads_driver
	once=(open=p,"$BIN/lib_linked_plugin.so" call=p,plugin_init call=p,plugin_alloc)
	recorded "w1 1048576" "$BIN/drv_loader" "${once[@]}" call=p,plugin_free close=p block=p "${once[@]}"
	has "$plain" "close p: 0, gone"
	has "$plain" "moved p: yes"
	equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
}

@test "a plug-in with a runtime of its own is closed and opened elsewhere" {
	unloads_driver
	for kind in shared static; do
		once=(open=p,"$BIN/lib_rt_plugin_$kind.so" call=p,runtime_alloc)
		recorded "w1 4194304" "$BIN/drv_loader" "${once[@]}" call=p,runtime_free close=p block=p \
			"${once[@]}"
		has "$plain" "close p: 0, gone"
		equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
	done
}

@test "two runtimes in one process, static and shared, either first" {
	for first in static shared; do
		second=$([ $first = static ] && echo shared || echo static)
		recorded "w0 4194304
w1 4194304" "$BIN/drv_loader" open=a,"$BIN/lib_rt_plugin_$first.so" call=a,runtime_alloc \
			open=b,"$BIN/lib_rt_plugin_$second.so" call=b,runtime_alloc
		equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
	done
}

@test "a runtime, a linked plug-in, the driver and the API library in one process" {
	for preload in "$BUILD/libgpushare.so.0" ""; do
		BEHIND=$preload
		recorded "w0 4194304
w1 1048576
w2 2097152
w3 524288" "$BIN/drv_loader" open=l,"$BUILD/libgpushare.so.0" open=a,"$BIN/lib_rt_plugin_shared.so" \
			call=a,runtime_alloc open=p,"$BIN/lib_linked_plugin.so" call=p,plugin_init \
			call=p,plugin_alloc call=p,plugin_alloc_found open=c,libcuda.so.1 use=c init \
			alloc=a,512Ki
		equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
	done
}

# unseen PROGRAM...: like three_ways, and the shim never contacted a registry
unseen() {
	three_ways "$@"
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "past us without harm: dlmopen and deep binding" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the address sanitizer refuses RTLD_DEEPBIND and dlmopen"
	unseen "$BIN/drv_loader" open=p,"$BIN/lib_linked_plugin.so",deep call=p,plugin_init \
		call=p,plugin_alloc
	equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
	unseen "$BIN/drv_loader" open=p,"$BIN/lib_linked_plugin.so",new call=p,plugin_init \
		call=p,plugin_alloc call=p,plugin_alloc_found
	equal "$(sed -n 's/^call .*: //p' <<<"$plain" | uniq)" 0
}

@test "past us without harm: the C library's own dlsym, found by dlvsym" {
	unseen "$BIN/drv_loader" open=c,libcuda.so.1 use=c,libc init alloc=a,1Mi fill=a,3 byte=a,1
	has "$plain" "byte a: 10"
}

@test "past us without harm: a static program" {
	unseen "$BIN/drv_static" exit=7
	equal "$plain" static
}

@test "a time limit that the program sets later is not read" {
	up_named app w:size=2Mi "$BIN/drv_linked" init alloc=b,2Mi
	down
	kill -STOP "$(registry_pids)"
	GPUSHARE_TIMEOUT_MS=700 took_ms named w:size=2Mi "$BIN/drv_linked" init alloc=a,1Mi setenv=GPUSHARE_TIMEOUT_MS,1 alloc=b,2Mi
	kill -CONT "$(registry_pids)"
	[ "$TOOK_MS" -ge 700 ]
}

@test "past us without harm: a set-uid program" {
	needs setpriv
	[ "$(id -u)" = 0 ] || skip "only root makes a set-uid program of another user"
	mkdir -m 777 "$PUBLIC/meet"
	install -m 4755 "$BIN/drv_loader" "$PUBLIC/suid"
	as_user() {
		setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="$1" GPUSHARE_NAME="$2" \
			GPUSHARE_DIR="$PUBLIC/meet" "$PUBLIC/suid" "${@:3}" </dev/null
	}
	run -0 as_user "" "" find=default,dlsym
	grep -q . < <(find "$PUBLIC/suid" -perm -4000) || skip "set-uid bits do not stay here"
	driver=libcuda.so.1
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || driver=$BUILD/sim/libcuda.so.1
	script=(open=c,"$driver" use=c init alloc=a,1Mi fill=a,3 byte=a,1 owner=c,cuMemAlloc_v2 exit=4)
	plain_code=0 code=0
	plain=$(as_user "" "" "${script[@]}" 2>&1) || plain_code=$?
	with=$(as_user "$SHIM" 'w%i' "${script[@]}" 2>&1) || code=$?
	equal "$with" "$plain"
	equal "$code" "$plain_code"
	has "$plain" "byte a: 10"
	equal "$(ls -A "$PUBLIC/meet")" ""
}

@test "a constructor that waits for a thread which allocates: nobody waits for the loader" {
	run timeout 10 "$BIN/drv_loader" open=j,"$BIN/lib_linked_joining.so"
	if [ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] && [ "$status" = 124 ]; then
		skip "without us too it waits for ever: a real cuInit loads libraries, the simulated driver does not"
	fi
	equal "$status" 0
	has "$output" "joined: 0"
	equal "$(named w timeout 10 "$BIN/drv_loader" open=j,"$BIN/lib_linked_joining.so")" "$output"
	up_named app w "$BIN/drv_loader" open=j,"$BIN/lib_linked_joining.so"
	equal "$(names)" "w 1048576"
}
