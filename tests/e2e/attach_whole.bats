#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare-attach: a dumped file is complete or absent, however the dump ends, on each kind of disk.
load helpers

SIZE=50331649 # no multiple of anything

setup_more() {
	up_named producer big "$BIN/rt_app_static" init alloc=a,$SIZE fill=a,7 save=a,"$WORK/own"
	mkdir "$WORK/out"
}

teardown_more() {
	if [ -e "$WORK/mounted" ]; then umount "$WORK/disk"; fi
	if [ -n "${SHM:-}" ]; then rm -rf "$SHM"; fi
}

nothing_new() {
	equal "$(ls -A "$WORK/out")" "$1"
}

@test "a large file on a disk, and over one that was there" {
	gpushare-attach big -o "$WORK/out/file"
	cmp "$WORK/own" "$WORK/out/file"
	head -c 60000000 /dev/zero >"$WORK/out/file"
	chmod 640 "$WORK/out/file"
	gpushare-attach big -o "$WORK/out/file" --offset 3
	tail -c +4 "$WORK/own" | cmp - "$WORK/out/file"
	equal "$(stat -c %a "$WORK/out/file")" 640
	nothing_new file
}

@test "a large file in a tmpfs" {
	[ -w /dev/shm ] || skip "there is no /dev/shm"
	SHM=$(mktemp -d /dev/shm/gpushare.XXXXXX)
	gpushare-attach big -o "$SHM/file"
	cmp "$WORK/own" "$SHM/file"
	gpushare-attach big -o "$SHM/file" --length 20000001
	head -c 20000001 "$WORK/own" | cmp - "$SHM/file"
	taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$BUILD/gpushare-attach" big -o "$SHM/file"
	cmp "$WORK/own" "$SHM/file"
	equal "$(ls -A "$SHM")" file
}

@test "no room: said before the first byte, and what was there stays" {
	mkdir "$WORK/disk"
	limit=(sh -c 'ulimit -f 40000; exec "$@"' sh)
	if mount -t tmpfs -o size=40m none "$WORK/disk" 2>/dev/null; then
		touch "$WORK/mounted"
		limit=()
	fi
	echo old >"$WORK/disk/file"
	run -1 --separate-stderr "${limit[@]}" gpushare-attach big -o "$WORK/disk/file"
	has "$stderr" "writing '$WORK/disk/file' failed after 0 bytes: "
	equal "$(cat "$WORK/disk/file")" old
	equal "$(ls -A "$WORK/disk")" file
}

@test "where O_DIRECT is refused" {
	refuse="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$BIN/lib_no_direct.so"
	LD_PRELOAD="$refuse" "$BUILD/gpushare-attach" big -o "$WORK/out/file"
	cmp "$WORK/own" "$WORK/out/file"
	nothing_new file
}

@test "put from a pipe leaves nothing in TMPDIR" {
	head -c 100 /dev/zero | TMPDIR="$WORK/out" gpushare put - big --offset 7
	[ "$(gpushare get big -o - --offset 7 --length 100 | tr -d '\0' | wc -c)" = 0 ]
	nothing_new ""
}

@test "the driver fails while it is dumped: said, and what was there stays" {
	needs_sim
	echo old >"$WORK/out/file"
	for fault in cuMemcpyDtoHAsync:1:1 cuMemcpyDtoHAsync:3:1 cuMemcpyDtoHAsync:7:1 cuEventSynchronize:4:1 \
		cuMemHostAlloc:2:1 cuStreamSynchronize:1:1; do
		for words in "--format raw" "--format npy" "--format u8 --length 100000" "--sha256"; do
			# shellcheck disable=SC2086 # words
			GPUSHARE_SIM_FAIL=$fault run --separate-stderr gpushare-attach big -o "$WORK/out/file" $words
			[ "$status" = 1 ] || [[ $words == *length* ]]
			if [ "$status" = 1 ]; then
				equal "$(cat "$WORK/out/file")" old
				equal "$(lines "$stderr")" 1
				equal "$output" ""
			else
				echo old >"$WORK/out/file"
			fi
			nothing_new file
		done
	done
}

@test "killed, whenever: what was there, or all of it, and nothing else" {
	echo old >"$WORK/out/file"
	for signal in KILL TERM INT HUP; do
		ended=0
		for ms in 001 020 040 060 080 120; do
			ended_by $signal 0.$ms gpushare-attach big -o "$WORK/out/file"
			case $CODE in
			0) cmp "$WORK/own" "$WORK/out/file" ;;
			*) # it may have been on its way out
				equal "$CODE" $((128 + $(kill -l $signal)))
				ended=$((ended + 1))
				[ "$(head -c 4 "$WORK/out/file")" = old ] || cmp "$WORK/own" "$WORK/out/file"
				;;
			esac
			echo old >"$WORK/out/file"
			[ $signal != KILL ] || rm -f "$WORK"/out/.file.??????.partial # docs/limits.md
			nothing_new file
		done
		[ $ended != 0 ] # else the signal never came to it
	done
}

@test "a progress bar on a terminal, in colour unless NO_COLOR says no" {
	needs script
	bar() { script -qec "gpushare-attach big -o '$WORK/pipe'" /dev/null </dev/null; }
	slowly() { python3 -c 'import sys, time
while sys.stdin.buffer.read(4 << 20): time.sleep(0.2)' <"$WORK/pipe" & }
	mkfifo "$WORK/pipe"
	slowly
	plain=$(NO_COLOR=1 TERM=xterm bar)
	has "$plain" "%, "
	has "$plain" "/s, "
	has "$plain" " left"
	[[ $plain != *$'\e[32m'* ]]
	slowly
	has "$(TERM=xterm bar)" $'[\e[32m='
}
