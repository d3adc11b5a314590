#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare-attach: statistics that it computes while it copies the bytes.
load helpers

setup_more() {
	python3 - "$WORK" <<-'END'
		import struct, sys
		open(sys.argv[1] + '/values', 'wb').write(struct.pack('<8f', 1, 2, -3.5, float('nan'), 0, 1e30, float('inf'), -1e30))
	END
	head -c 20000000 /dev/urandom >"$WORK/large"
}

put() {
	gpushare-attach --restore "$WORK/$1" "$1"
}

# field NAME: the value of NAME in the output of --stats
field() {
	awk -v name="$1" '$1 == name { print $2 }' <<<"$output"
}

@test "--stats: minimum, maximum, mean, zeros, NaNs" {
	put values
	run -0 --separate-stderr gpushare-attach values --stats --dtype f32
	equal "$stderr" ""
	equal "$(field dtype) $(field shape) $(field count) $(field min) $(field max) $(field mean) $(field nan) $(field inf) $(field zeros)" \
		"float32 8 8 -1e+30 inf inf 1 1 1"
	run -0 gpushare-attach values --stats --dtype f32 --length 12
	equal "$(field mean)" -0.16666666666666666
	run -0 gpushare-attach values --stats
	equal "$(field dtype) $(field count) $(field min)" "uint8 32 0"
	run -0 gpushare-attach values --stats --dtype i32 --head 2
	equal "$(field min) $(field max) $(field nan)" "1065353216 1073741824 "
}

@test "--stats of what comes in many pieces is that of the whole" {
	put large
	run -0 gpushare-attach large --stats --dtype u16
	equal "$(field count) $(field min) $(field max) $(field mean)" "$(python3 -c 'import array, math, sys
a = array.array("H", open(sys.argv[1], "rb").read())
print(len(a), min(a), max(a), sum(a) / len(a))' "$WORK/large")"
}

@test "--sha256 is sha256sum's, and -o writes beside it" {
	put large
	run -0 gpushare-attach large --sha256 -o "$WORK/out"
	equal "${output%% *}" "$(sha256sum <"$WORK/large" | cut -d ' ' -f 1)"
	cmp "$WORK/large" "$WORK/out"
	run -0 gpushare-attach large --sha256 --offset 3 --length 100
	equal "$output" "$(tail -c +4 "$WORK/large" | head -c 100 | sha256sum | cut -d ' ' -f 1)  large"
	run -0 gpushare-attach large --sha256 --length 0
	equal "${output%% *}" "$(sha256sum </dev/null | cut -d ' ' -f 1)"
}

@test "--diff: 0 the same, 1 they differ, 2 trouble" {
	put large
	run -0 --separate-stderr gpushare-attach large --diff "$WORK/large"
	equal "$output$stderr" ""
	python3 -c 'import sys
f = open(sys.argv[1], "r+b")
f.seek(9000000); old = f.read(1)
f.seek(9000000); f.write(bytes([old[0] ^ 1]))
f.seek(19000003); old = f.read(2)
f.seek(19000003); f.write(bytes([old[0] ^ 8, old[1] ^ 1]))' "$WORK/large"
	run -1 --separate-stderr gpushare-attach large --diff "$WORK/large" --dtype u32
	equal "$stderr" ""
	has "$output" "large $WORK/large differ: byte 9000000, element [2250000]: "
	has "$output" "3 of 5000000 elements, 3 bytes"
	run -2 --separate-stderr gpushare-attach large --diff "$WORK/missing"
	equal "$output" ""
	has "$stderr" "$WORK/missing"
	run -2 gpushare-attach nobody --diff "$WORK/large"
	run -2 gpushare-attach large --diff "$WORK"
}

@test "--diff: one that ends first differs" {
	put values
	head -c 20 "$WORK/values" >"$WORK/short"
	{ cat "$WORK/values" && echo; } >"$WORK/long"
	run -1 gpushare-attach values --diff "$WORK/short"
	equal "$output" "$WORK/short ends first: 32 bytes of the buffer, 20 of the file"
	run -1 gpushare-attach values --diff "$WORK/long"
	equal "$output" "values ends first: 32 bytes of the buffer, 33 of the file"
	run -0 gpushare-attach values --length 20 --diff "$WORK/short"
	run -2 gpushare-attach values --diff /dev/null # no file to compare with
}

@test "--diff with a .npy file compares its data" {
	put values
	gpushare-attach values --format npy --dtype f32 --shape 2x4 -o "$WORK/values.npy"
	run -0 gpushare-attach values --diff "$WORK/values.npy"
	printf '\x00\x00\x80\x40' | dd of="$WORK/values.npy" bs=1 seek=148 conv=notrunc status=none
	run -1 gpushare-attach values --diff "$WORK/values.npy"
	has "$output" "byte 20, element [5]: 1e+30, 4"
	run -1 gpushare-attach values --diff "$WORK/values.npy" --shape 2x4 --dtype f32
	has "$output" "byte 20, element [1,1]: 1e+30, 4"
	run -2 gpushare-attach values --diff "$WORK/values.npy" --dtype f16
	has "$output" float32
}

@test "all at once, in one pass" {
	put large
	run -0 gpushare-attach large --stats --sha256 --diff "$WORK/large" --dtype u8 -o "$WORK/out"
	has "$output" "$(sha256sum <"$WORK/large" | cut -d ' ' -f 1)"
	has "$output" "count  20000000"
	cmp "$WORK/large" "$WORK/out"
}

@test "--rate: bytes, seconds and GB/s on standard error" {
	put large
	run -0 --separate-stderr gpushare-attach large --rate -o "$WORK/out"
	equal "$output" ""
	[[ $stderr =~ ^"gpushare-attach: 20000000 bytes in "[0-9]+\.[0-9]{3}" s, "[0-9]+\.[0-9]{2}" GB/s"$ ]]
	cmp "$WORK/large" "$WORK/out"
	run -0 --separate-stderr gpushare-attach large --rate --offset 5 --length 3 --sha256
	has "$stderr" "3 bytes in "
	has "$output" "$(tail -c +6 "$WORK/large" | head -c 3 | sha256sum | cut -d ' ' -f 1)"
	run -0 --separate-stderr gpushare-attach large --rate -o "$WORK/set/"
	has "$stderr" "20000000 bytes in "
}
