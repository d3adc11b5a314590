#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare get, put, save, restore, diff and follow. attach_*.bats and publish.bats have the same by the second name.
load helpers

setup_more() {
	begin_named app weights "$BIN/rt_app_static" init alloc=a,1Mi fill=a,7 save=a,"$WORK/own" \
		touch="$WORK/up" await="$WORK/look" save=a,"$WORK/after" touch="$WORK/saved" await="$WORK/end"
}

# array TYPE SHAPE SIZE: print a .npy file of zeros
array() {
	printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"
	head -c "$3" /dev/zero
}

@test "put: an array goes in without its header, where it fits" {
	array '<f4' '(512, 512)' 1048576 >"$WORK/zeros.npy"
	array '<f4' '(2,)' 8 >"$WORK/two.npy"
	gpushare tag weights dtype=f32 shape=512x512
	gpushare put "$WORK/zeros.npy" weights
	gpushare get weights | cmp - <(head -c 1048576 /dev/zero)
	gpushare put "$WORK/own" weights
	gpushare put "$WORK/two.npy" weights --offset 16 --length 8
	gpushare get weights --length 32 | cmp - <(head -c 16 "$WORK/own"; printf '\0\0\0\0\0\0\0\0'; tail -c +25 "$WORK/own" | head -c 8)
	gpushare put "$WORK/two.npy" weights --offset 0 --format raw
	equal "$(gpushare get weights --offset 1 --length 5)" NUMPY
	gpushare tag weights dtype=f16
	run -1 --separate-stderr gpushare put "$WORK/zeros.npy" weights
	has "$stderr" "holds float32 512x512, and 'weights' is tagged float16 512x512; nothing was written"
	run -1 --separate-stderr gpushare put "$WORK/two.npy" weights --offset 0
	has "$stderr" "holds 8 bytes, and there are 1048576 bytes from offset 0 of 'weights'; nothing was written"
	run -1 --separate-stderr gpushare put "$WORK/own" weights --format npy
	has "$stderr" "is not a .npy file; nothing was written"
}

@test "save, diff and restore: a set, and one file" {
	gpushare save "$WORK/set" weights 'w*'
	equal "$(ls -A "$WORK/set")" $'manifest.json\nweights.bin'
	cmp "$WORK/own" "$WORK/set/weights.bin"
	gpushare save --format npy "$WORK/arrays" weights
	equal "$(ls -A "$WORK/arrays")" $'manifest.json\nweights.npy'
	run -0 --separate-stderr gpushare diff "$WORK/set"
	equal "$output$stderr" ""
	run -0 gpushare diff "$WORK/own" weights
	printf x | gpushare put - weights --offset 7
	run -1 gpushare diff "$WORK/own" weights
	has "$output" "weights $WORK/own differ: byte 7"
	run -1 gpushare diff "$WORK/set" 'we*'
	has "$output" "differ: byte 7"
	head -c 7 "$WORK/own" >"$WORK/seven"
	run -0 gpushare diff "$WORK/seven" weights --head 7
	run -2 --separate-stderr gpushare diff "$WORK/set" nobody
	has "$stderr" "has no 'nobody'"
	run -1 --separate-stderr gpushare restore "$WORK/set"
	has "$stderr" "a buffer 'weights' exists already"
	touch "$WORK/look"
	down
	gpushare restore "$WORK/set"
	gpushare get weights | cmp - "$WORK/own"
	gpushare restore --mode 640 "$WORK/arrays/weights.npy" other
	gpushare diff "$WORK/own" other
	equal "$(shown other mode)" 0640
}

someone_waits() {
	[ "$(gpushare stat --json | jq .waiters)" = 1 ]
}

a_second_has_passed() {
	[ "$SECONDS" -ge 2 ]
}

@test "diff: the progress of a whole set on a terminal, after a second" {
	needs jq
	gpushare restore "$WORK/own" kept
	gpushare save "$WORK/set" kept weights
	gpushare rm kept
	start diff terminal 24x100 printed="2 MiB of 2 MiB, 100%, " end=0 -- gpushare diff "$WORK/set" --wait 60
	until_true someone_waits # for the one that is gone
	SECONDS=0
	until_true a_second_has_passed
	gpushare restore "$WORK/own" kept
	finish "$PID"
}

@test "put: the progress of reading a pipe, whose end is not known" {
	head -c 4194304 /dev/urandom >"$WORK/new"
	gpushare restore "$WORK/new" kept
	mkfifo "$WORK/pipe"
	start put terminal 24x100 printed=" 2 MiB, " end=0 -- bash -c "gpushare put - kept <'$WORK/pipe'"
	exec 7>"$WORK/pipe"
	head -c 1048576 "$WORK/new" >&7
	SECONDS=0
	until_true a_second_has_passed
	tail -c +1048577 "$WORK/new" >&7
	exec 7>&-
	finish "$PID"
	gpushare get kept | cmp "$WORK/new" -
}

@test "follow: a publication by number, for as long as told" {
	run -1 --separate-stderr gpushare follow weights --count 1 --wait-for 1 --timeout 0.1 -o "$WORK/a"
	has "$stderr" "gpushare: publication 1 of 'weights' did not come within 0.1 s; the last was 0"
	app=$PID
	start f gpushare follow weights --wait-for 1
	gone=$PID
	start g gpushare follow weights --count 1 --wait-for 1
	lacking=$PID
	until_true grep -q memfd:gpushare-order "/proc/$gone/maps"
	until_true grep -q memfd:gpushare-order "/proc/$lacking/maps"
	touch "$WORK/look" "$WORK/end"
	finish "$app"
	finish "$gone"
	ends_with 1 "$lacking"
}

@test "bad words, and options of another verb, are exit code 2" {
	for words in "get" "put" "put $WORK/own" "put --offset 1 weights" "get a --nonsense" "put $WORK/own a --nonsense" \
		"save" "save $WORK/d" "restore" "diff" "diff $WORK/own" "diff $WORK/own a b" "follow" "follow a b" "get a b" \
		"get a --count 2" "get a --timeout 2" "get a --into f" "get a --mode 640" "get a --format f32" "get a -o - --stats" \
		"put f a --format hex" "put f a --stats" "save d a --head 3" "save d a --format text" "restore d --format npy" \
		"diff f a -o g" "diff f a --stats" "diff $WORK a --head 3" "follow a --rate" "follow a --count 0" "follow a --wait-for 0"; do
		# shellcheck disable=SC2086 # words
		run -2 --separate-stderr gpushare $words
		equal "$output" ""
		has "$stderr" "try 'gpushare ${words%% *} --help'"
	done
	run -2 --separate-stderr gpushare get a --format f32
	equal "$stderr" "gpushare: --format wants raw, hex, npy, text or png (--dtype gives the type), not 'f32'; try 'gpushare get --help'"
}

@test "gpushare alone is enough, and gpushare-attach is its second name" {
	mkdir "$WORK/alone"
	cp "$BUILD/gpushare" "$WORK/alone/"
	PATH=/usr/bin:/bin "$WORK/alone/gpushare" get weights | cmp "$WORK/own" -
	ln -s gpushare "$WORK/alone/gpushare-attach"
	PATH=/usr/bin:/bin "$WORK/alone/gpushare-attach" weights | cmp "$WORK/own" -
	[ "$(readlink "$BUILD/gpushare-attach")" = gpushare ]
}
