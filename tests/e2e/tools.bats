#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare-attach: what users type to read bytes from a buffer or write them into it.
load helpers

SIZE=8388608

setup_more() {
	start_named producer weights,kv-cache "$BIN/rt_app_static" await="$WORK/produce" init alloc=a,8Mi \
		fill=a,7 alloc=b,1Mi save=a,"$WORK/own" touch="$WORK/up" await="$WORK/changed" \
		save=a,"$WORK/after" touch="$WORK/saved" await="$WORK/end"
}

teardown_more() {
	if [ -e "$WORK/mounted" ]; then umount "$WORK/disk"; fi
}

produce() {
	resume produce up
}

# Save the current content of the producer's buffer to $WORK/after.
look() {
	resume changed saved
}

# no_trace: the directory out/ has no file and no partial file
no_trace() {
	equal "$(ls -A "$WORK/out")" ""
}

@test "-o FILE, -o -, a pipe and a redirection get all the bytes" {
	produce
	gpushare-attach weights -o "$WORK/a"
	cmp "$WORK/own" "$WORK/a"
	gpushare-attach --output "$WORK/a" weights
	cmp "$WORK/own" "$WORK/a"
	gpushare-attach weights | cmp "$WORK/own" -
	gpushare-attach weights >"$WORK/b"
	cmp "$WORK/own" "$WORK/b"
	gpushare-attach -o - weights | cmp "$WORK/own" -
	run -0 --separate-stderr gpushare-attach weights -o "$WORK/c"
	equal "$output" ""
	equal "$stderr" ""
}

@test "--offset and --length take a part" {
	produce
	part() { tail -c +$(($1 + 1)) "$WORK/own" | head -c "$2"; }
	gpushare-attach weights --offset 4097 --length 100000 | cmp - <(part 4097 100000)
	gpushare-attach weights --offset 4Mi | cmp - <(part 4194304 "$SIZE")
	gpushare-attach weights --length 1 | cmp - <(part 0 1)
	gpushare-attach weights --offset 1K --length 3Ki | cmp - <(part 1000 3072)
	equal "$(gpushare-attach weights --length 0 | wc -c)" 0
	equal "$(gpushare-attach weights --offset $SIZE | wc -c)" 0
}

@test "past the end: said with the numbers, and no file" {
	produce
	mkdir "$WORK/out"
	for range in "--offset $((SIZE + 1))" "--length $((SIZE + 1))" "--offset 4Mi --length 5Mi" \
		"--offset 18446744073709551615" "--offset 1 --length 18446744073709551615"; do
		# shellcheck disable=SC2086 # options
		run -1 --separate-stderr gpushare-attach weights $range -o "$WORK/out/dump"
		equal "$output" ""
		has "$stderr" weights
		has "$stderr" $SIZE
		no_trace
	done
}

@test "a name that can't be" {
	run -1 --separate-stderr gpushare-attach 'my weights'
	equal "$output" ""
	has "$stderr" 'my weights'
	run -1 --separate-stderr gpushare-attach ''
	equal "$output" ""
	equal "$(lines "$stderr")" 1
	run -1 gpushare-attach "$(printf 'x%.0s' {1..256})"
}

@test "--wait waits, and ends in time" {
	start waiter "$BUILD/gpushare-attach" weights --wait 30 --length 3 -o "$WORK/a"
	# The name may appear before the producer has filled the buffer, so check only the size.
	produce
	finish waiter
	equal "$(stat -c %s "$WORK/a")" 3
	begin=$(date +%s%N)
	run -1 gpushare-attach nobody --wait 0.3
	took_ms=$((($(date +%s%N) - begin) / 1000000))
	has "$output" nobody
	[ "$took_ms" -ge 300 ]
	[ "$took_ms" -le $((1500 + SLACK_MS)) ]
}

@test "--into writes a file into the buffer" {
	produce
	head -c $SIZE /dev/urandom >"$WORK/new"
	gpushare-attach weights --into "$WORK/new"
	look
	cmp "$WORK/new" "$WORK/after"
}

@test "--into a shorter file at an offset leaves the rest" {
	produce
	printf 'hello' >"$WORK/new"
	gpushare-attach weights --into "$WORK/new" --offset 1000
	look
	{ head -c 1000 "$WORK/own" && printf 'hello' && tail -c +1006 "$WORK/own"; } | cmp - "$WORK/after"
}

@test "--into a shorter file writes nothing, unless it is told that it is a part" {
	produce
	head -c 1000 /dev/urandom >"$WORK/new"
	run -1 --separate-stderr gpushare-attach weights --into "$WORK/new"
	has "$stderr" "holds 1000 bytes, and 'weights' has $SIZE; nothing was written: --offset 0"
	run -1 --separate-stderr gpushare put "$WORK/new" weights
	has "$stderr" "nothing was written"
	run -1 gpushare-attach weights --into /dev/null
	gpushare-attach weights --into "$WORK/new" --offset 0
	gpushare-attach weights --length 1000 | cmp "$WORK/new" -
	gpushare-attach weights --into "$WORK/new" --length 2000
}

@test "a pipe's reader that has gone ends it by SIGPIPE" {
	produce
	local codes
	set +o pipefail
	gpushare-attach weights 2>"$WORK/said" | head -c 10 >/dev/null && codes=("${PIPESTATUS[@]}")
	equal "${codes[0]}" $((128 + 13))
	equal "$(cat "$WORK/said")" ""
}

@test "--into a longer file writes nothing" {
	produce
	head -c $((SIZE + 1)) /dev/zero >"$WORK/new"
	run -1 --separate-stderr gpushare-attach weights --into "$WORK/new"
	has "$stderr" "$WORK/new"
	printf 'hello' >"$WORK/new"
	run -1 gpushare-attach weights --into "$WORK/new" --length 4
	run -1 gpushare-attach weights --into "$WORK/new" --offset $((SIZE - 4))
	run -1 gpushare-attach weights --into "$WORK/missing"
	has "$output" "$WORK/missing"
	run -1 gpushare-attach weights --into "$WORK"
	head -c $((SIZE + 1)) /dev/zero | run -1 gpushare-attach weights --into -
	look
	cmp "$WORK/own" "$WORK/after"
}

@test "--into - reads standard input, and what comes out goes in again" {
	produce
	gpushare-attach weights --offset 1Mi --length 1Mi | gpushare-attach weights --into - --offset 2Mi
	look
	{ head -c 2097152 "$WORK/own" && tail -c +1048577 "$WORK/own" | head -c 1048576 &&
		tail -c +3145729 "$WORK/own"; } | cmp - "$WORK/after"
}

@test "an output that can't be written: said, and the old file is as it was" {
	produce
	for file in "$WORK/missing/dump" "$WORK" /proc/gpushare-dump "$WORK/own/file"; do
		run -1 --separate-stderr gpushare-attach weights -o "$file"
		has "$stderr" "$file"
		equal "$(lines "$stderr")" 1
	done
	echo old >"$WORK/old"
	run -1 gpushare-attach nobody -o "$WORK/old"
	run -1 gpushare-attach weights --length 9Mi -o "$WORK/old"
	equal "$(cat "$WORK/old")" old
}

@test "a device that is full: said, and it stays where it is" {
	produce
	ln -s /dev/full "$WORK/full"
	run -1 --separate-stderr gpushare-attach weights -o "$WORK/full"
	has "$stderr" "$WORK/full"
	has "$stderr" "No space left"
	[ -c "$WORK/full" ]
	run -1 --separate-stderr sh -c 'gpushare-attach weights >/dev/full'
	has "$stderr" "No space left"
}

@test "a disk that is full: said, and the partial file is removed" {
	produce
	mkdir "$WORK/disk"
	if mount -t tmpfs -o size=1m none "$WORK/disk" 2>/dev/null; then
		touch "$WORK/mounted"
		run -1 --separate-stderr gpushare-attach weights -o "$WORK/disk/dump"
		has "$stderr" "No space left"
	else
		run -1 --separate-stderr sh -c 'trap "" XFSZ; ulimit -f 1000; exec "$@"' sh \
			gpushare-attach weights -o "$WORK/disk/dump"
		has "$stderr" "too large"
	fi
	has "$stderr" "$WORK/disk/dump"
	has "$stderr" removed
	equal "$(ls -A "$WORK/disk")" ""
}

@test "interrupted while nobody reads its pipe: ends of the signal, and detaches" {
	produce
	mkfifo "$WORK/pipe"
	exec 8<>"$WORK/pipe"
	start dump "$BUILD/gpushare-attach" weights -o "$WORK/pipe"
	# Once a byte has arrived, the tool is writing; it blocks when the pipe is full.
	head -c 1 <&8 >/dev/null
	kill -TERM "$PID"
	ends_with 143 "$PID"
	detached() { api open stat=weights | grep -q 'attachers 0 '; }
	until_true detached
}

@test "on a terminal: the first 256 bytes in hex" {
	needs script
	produce
	run -0 script -qec 'gpushare-attach weights' /dev/null </dev/null
	output=$(tr -d '\r' <<<"$output")
	line='00000000  07 0e 15 1c 23 2a 31 38  3f 46 4d 54 5b 62 69 70  |....#*18?FMT[bip|'
	has "$output" "$line"
	has "$output" "000000f0  "
	[[ $output != *"00000110  "* ]]
	has "$output" "256 of $SIZE"
	run -0 script -qec 'gpushare-attach weights --offset 16 --length 3' /dev/null </dev/null
	has "$output" "00000010  77 7e 85 "
	run -0 script -qec "gpushare-attach weights -o '$WORK/a'" /dev/null </dev/null
	equal "$output" ""
	cmp "$WORK/own" "$WORK/a"
}

@test "usage errors are exit code 2, with one line and no output" {
	misused '' gpushare-attach "" "one two" "--offset weights" "w --offset x" "w --length -1" "w --wait soon" \
		"w --nonsense" "-o a --into b w" "w -o"
	equal "$(registry_pids)" ""
}

@test "--help and --version need no registry" {
	run -0 gpushare-attach --help
	has "$output" "usage: gpushare-attach"
	has "$output" --into
	run -0 gpushare-attach --version
	[[ $output =~ ^gpushare-attach\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	equal "$(registry_pids)" ""
}
