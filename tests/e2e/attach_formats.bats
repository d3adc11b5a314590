#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare-attach: bytes as values, as hex and as .npy files; the effect of tags and flags on the format.
load helpers

# --restore tags the buffer of a .npy file with the array's dtype and shape.
setup_more() {
	python3 - "$WORK" <<-'END'
		import struct, sys

		def npy(name, descr, shape, data):
		    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
		    text += ' ' * (-(10 + len(text) + 1) % 64) + '\n'
		    with open(sys.argv[1] + '/' + name, 'wb') as f:
		        f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode() + data)

		npy('matrix.npy', '<f4', '(2, 3)', struct.pack('<6f', 0.5, -1.25, 3, 1e10, float('nan'), 0.1))
		npy('halves.npy', '<f2', '(4,)', struct.pack('<4e', 1, -2, 0.5, 65504))
		npy('brains.npy', '<V2', '(2, 2)', struct.pack('<4H', 0x3f80, 0xc000, 0x7f80, 0x3dcd))
		npy('longs.npy', '<i8', '(3, 1)', struct.pack('<3q', -2**63, 2**63 - 1, 0))
		npy('truths.npy', '|b1', '(2,)', b'\x01\x00')
	END
}

# put NAME...: restore each NAME.npy as a buffer
put() {
	local name
	for name in "$@"; do gpushare-attach --restore "$WORK/$name.npy" "$name"; done
}

# Print the data of a .npy file without its header.
data() {
	python3 -c 'import struct, sys
all = open(sys.argv[1], "rb").read()
sys.stdout.buffer.write(all[10 + struct.unpack("<H", all[8:10])[0]:])' "$1"
}

@test "text: values with their index, of the type and shape of the tags" {
	put matrix halves brains longs truths
	equal "$(gpushare-attach matrix --format text | tr -s ' ')" \
		$'[0,0] 0.5 -1.25 3\n[1,0] 1e+10 nan 0.1'
	equal "$(gpushare-attach halves --format text | tr -s ' ')" '[0] 1 -2 0.5 65504'
	equal "$(gpushare-attach brains --format text | tr -s ' ')" $'[0,0] 1 -2\n[1,0] inf 0.1001'
	equal "$(gpushare-attach longs --format text)" \
		$'[0,0] -9223372036854775808\n[1,0] 9223372036854775807\n[2,0] 0'
	equal "$(gpushare-attach truths --format text | tr -s ' ')" '[0] true false'
}

@test "every type reads the bytes as its own" {
	printf '\x01\x00\x00\x00\x00\x00\xf0\x3f' >"$WORK/one"
	gpushare-attach --restore "$WORK/one" one
	for pair in "f64 1" "i8 1 0 0 0 0 0 -16 63" "u8 1 0 0 0 0 0 240 63" "i16 1 0 0 16368" "u16 1 0 0 16368" \
		"i32 1 1072693248" "u32 1 1072693248" "i64 4607182418800017409" "u64 4607182418800017409" \
		"f16 5.9605e-08 0 0 1.9844" "bf16 9.184e-41 0 0 1.875" "f32 1.4013e-45 1.875" \
		"bool true false false false false false true true"; do
		type=${pair%% *} want=${pair#* }
		case $type in
		f64) want=$(python3 -c 'import struct; print(repr(struct.unpack("<d", open("'"$WORK/one"'", "rb").read())[0]))') ;;
		esac
		found=$(gpushare-attach one --format "$type" | tr -s ' ')
		case $type in
		f32) has "$found" "e-45 1.875" ;;
		*) equal "$found" "[0] $want" ;;
		esac
	done
	equal "$(gpushare-attach one --dtype torch.int32 --format text)" "$(gpushare-attach one --format i32)"
}

@test "flags come before tags" {
	put matrix
	equal "$(gpushare-attach matrix --format u32 --shape 3,2 --head 3 | tr -s ' ')" \
		$'[0,0] 1056964608 3214934016\n[1,0] 1077936128'
	equal "$(gpushare-attach matrix --format u8 --head 2 | tr -s ' ')" '[0] 0 0'
	equal "$(gpushare-attach matrix --format text --offset 4 --length 8 | tr -s ' ')" '[0] -1.25 3'
	equal "$(gpushare-attach matrix --format text --shape '(6,)' --head 1 | tr -s ' ')" '[0] 0.5'
}

@test "hex and raw; --head counts bytes of them" {
	put truths matrix
	equal "$(gpushare-attach matrix --format hex --offset 8 --head 4)" \
		$'00000008  00 00 40 40                                       |..@@|\n0000000c'
	gpushare-attach matrix --format raw | cmp - <(data "$WORK/matrix.npy")
	equal "$(gpushare-attach matrix --head 5 | wc -c)" 5
	equal "$(gpushare-attach matrix --head 1K | wc -c)" 24
	equal "$(gpushare-attach matrix --format text --head 0)" ""
}

@test "npy: what went in comes out, and NumPy reads it" {
	put matrix halves brains longs truths
	for name in matrix halves brains longs truths; do
		gpushare-attach $name --format npy -o "$WORK/out.npy"
		cmp "$WORK/$name.npy" "$WORK/out.npy"
	done
	gpushare-attach matrix --format npy --head 4 -o "$WORK/head.npy"
	gpushare-attach matrix --format npy --dtype i16 --shape 2x2x3 >"$WORK/flags.npy"
	for python in python3 /usr/bin/python3; do
		$python -c 'import numpy' 2>/dev/null || continue
		equal "$($python -c 'import numpy, sys
for name in "out", "head", "flags":
    a = numpy.load(sys.argv[1] + "/" + name + ".npy")
    print(a.dtype, a.shape, a.flags.c_contiguous)' "$WORK")" $'bool (2,) True\nfloat32 (4,) True\nint16 (2, 2, 3) True'
		return
	done
	has "$(head -c 128 "$WORK/flags.npy")" "'descr': '<i2', 'fortran_order': False, 'shape': (2, 2, 3), }"
	equal "$(stat -c %s "$WORK/head.npy")" 144
}

@test "without tags and flags a .npy file is of bytes" {
	head -c 5 /dev/urandom >"$WORK/five"
	gpushare-attach --restore "$WORK/five" five
	gpushare-attach five --format npy -o "$WORK/five.npy"
	has "$(head -c 128 "$WORK/five.npy" | tr -d '\0')" "'|u1', 'fortran_order': False, 'shape': (5,)"
	data "$WORK/five.npy" | cmp - "$WORK/five"
}

@test "a large .npy file begins its data at a page" {
	head -c 20000000 /dev/urandom >"$WORK/large"
	gpushare-attach --restore "$WORK/large" large
	gpushare-attach large --format npy --dtype f32 -o "$WORK/large.npy"
	equal "$(stat -c %s "$WORK/large.npy")" 20004096
	tail -c +4097 "$WORK/large.npy" | cmp - "$WORK/large"
	data "$WORK/large.npy" | cmp - "$WORK/large"
}

@test "what does not fit: said with the numbers, no output, no file" {
	put matrix
	mkdir "$WORK/out"
	for words in "--format npy --shape 2x4" "--format text --shape 5" "--stats --shape 3x3" \
		"--format f64 --length 12" "--format npy --offset 1" \
		"--format text --shape 4294967296x1073741825" "--format npy --shape 9223372036854775807"; do
		# shellcheck disable=SC2086 # options
		run -1 --separate-stderr gpushare-attach matrix $words -o "$WORK/out/file"
		equal "$output" ""
		equal "$(lines "$stderr")" 1
		equal "$(ls -A "$WORK/out")" ""
	done
	run -1 --separate-stderr gpushare-attach matrix --format npy --shape 2x4
	has "$stderr" "2x4 of float32 is 32 bytes, but 24 bytes of 'matrix'"
}

# image FILE: print a PNG file's width, height, channels and bytes
image() {
	python3 - "$1" <<-'END'
		import struct, sys, zlib

		file, chunks, at = open(sys.argv[1], 'rb').read(), {}, 8
		assert file[:8] == b'\x89PNG\r\n\x1a\n'
		while at < len(file):
		    size, kind = struct.unpack('>I4s', file[at:at + 8])
		    data = file[at + 8:at + 8 + size]
		    assert struct.unpack('>I', file[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + data)
		    chunks[kind] = chunks.get(kind, b'') + data
		    at += 12 + size
		assert kind == b'IEND'
		width, height, bits, colours, *rest = struct.unpack('>IIBBBBB', chunks[b'IHDR'])
		assert bits == 8 and rest == [0, 0, 0]
		each = {0: 1, 2: 3, 6: 4}[colours]
		packed, size = zlib.decompress(chunks[b'IDAT']), width * each
		above, out = bytes(size), b''

		def predict(a, b, c):
		    return min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]

		for y in range(height):
		    kind, row = packed[y * (size + 1)], bytearray(packed[y * (size + 1) + 1:(y + 1) * (size + 1)])
		    for x in range(size):
		        a, c = (row[x - each], above[x - each]) if x >= each else (0, 0)
		        b = above[x]
		        row[x] = row[x] + (0, a, b, (a + b) // 2, predict(a, b, c))[kind] & 255
		    above, out = row, out + row
		assert len(packed) == height * (size + 1)
		print(width, height, each, *out)
	END
}

@test "png: bytes as they are, gray, RGB and RGBA" {
	head -c 240 /dev/urandom >"$WORK/bytes"
	gpushare restore "$WORK/bytes" frame
	want=$(od -An -v -tu1 -w240 "$WORK/bytes" | tr -s ' ')
	for shape in "12x20 20 12 1" "8x10x3 10 8 3" "10x6x4 6 10 4"; do
		run -0 --separate-stderr gpushare get frame --format png --shape "${shape%% *}" -o "$WORK/frame.png"
		equal "$output$stderr" ""
		equal "$(image "$WORK/frame.png")" "${shape#* }$want"
	done
	gpushare tag frame dtype=u8 shape=8x10x3
	gpushare-attach frame --format png >"$WORK/frame.png"
	equal "$(image "$WORK/frame.png")" "10 8 3$want"
}

@test "png: a file that can't be written is absent" {
	head -c 100000 /dev/urandom >"$WORK/bytes"
	gpushare restore "$WORK/bytes" frame
	mkdir "$WORK/out"
	run -1 --separate-stderr bash -c 'ulimit -f 16; gpushare get frame --format png --shape 250x400 -o "$1"' - "$WORK/out/file"
	has "$stderr" "writing '$WORK/out/file' failed after"
	equal "$(lines "$stderr")" 1
	equal "$(ls -A "$WORK/out")" ""
}

# The stream's buffer is full after 1523 values, so the last newline writes it.
@test "text: a write that fails at the end is an error" {
	head -c 131072 /dev/zero >"$WORK/bytes"
	gpushare restore "$WORK/bytes" frame
	run -1 --separate-stderr gpushare get frame --dtype u8 --shape 128x1024 --head 1523 --format text -o /dev/full
	has "$stderr" "writing '/dev/full' failed after 0 bytes: No space left"
	equal "$(lines "$stderr")" 1
}

needs_numpy() {
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "numpy is not installed"
}

@test "png: other types are scaled from the least to the most finite value, and it says how" {
	needs_numpy
	/usr/bin/python3 - "$WORK" <<-'END'
		import sys, numpy

		def save(name, values, dtype):
		    numpy.save(sys.argv[1] + '/' + name + '.npy', numpy.array(values, dtype))

		real = [[-1, 0, 4], [numpy.inf, -numpy.inf, numpy.nan]]
		save('half', real, 'f2')
		save('single', real, 'f4')
		save('double', real, 'f8')
		save('word', [[0, 1000, 65535]], 'u2')
		save('short', [[-128, 0, 127]], 'i1')
		save('same', [[3, 3]], 'f4')
		save('none', [[numpy.nan, numpy.inf]], 'f4')
	END
	printf '\x80\xbf\x00\x00\x80\x40\x80\x7f\x80\xff\xc0\x7f' >"$WORK/brain.npy"
	for line in "half|3 2 1 0 51 255 255 0 0|scaled -1..4 to 0..255, NaN as 0" \
		"single|3 2 1 0 51 255 255 0 0|scaled -1..4 to 0..255, NaN as 0" \
		"double|3 2 1 0 51 255 255 0 0|scaled -1..4 to 0..255, NaN as 0" \
		"brain|3 2 1 0 51 255 255 0 0|scaled -1..4 to 0..255, NaN as 0" \
		"word|3 1 1 0 4 255|scaled 0..65535 to 0..255" \
		"short|3 1 1 0 128 255|scaled -128..127 to 0..255" \
		"same|2 1 1 0 0|scaled 3..3 to 0..255" \
		"none|2 1 1 0 0|has no finite value: all pixels are 0"; do
		IFS='|' read -r name pixels words <<<"$line"
		gpushare restore "$WORK/$name.npy" "$name"
		[ "$name" != brain ] || gpushare tag brain dtype=bf16 shape=2x3
		run -0 --separate-stderr gpushare get "$name" --format png -o "$WORK/scaled.png"
		equal "$output" ""
		equal "$stderr" "gpushare: '$name' $words"
		equal "$(image "$WORK/scaled.png")" "$pixels"
	done
}

@test "png: several blocks, with rows that lie across them" {
	needs_numpy
	/usr/bin/python3 - "$WORK/ramp.npy" "$WORK/want" <<-'END'
		import sys, numpy
		ramp = numpy.arange(1000 * 1100) % 256
		numpy.save(sys.argv[1], ramp.reshape(1000, 1100).astype('f8'))
		open(sys.argv[2], 'w').write('1100 1000 1 ' + ' '.join(map(str, ramp)) + '\n')
	END
	gpushare restore "$WORK/ramp.npy" ramp
	gpushare get ramp --format png -o "$WORK/ramp.png"
	image "$WORK/ramp.png" | cmp - "$WORK/want"
}

@test "png: a shape that is no image's is refused, before anything is written" {
	put matrix
	mkdir "$WORK/out"
	run -1 --separate-stderr gpushare get matrix --format png --shape 6 -o "$WORK/out/file"
	equal "$stderr" "gpushare: 'matrix' has shape 6, but a PNG needs HxW, HxWx3 or HxWx4: give one, as in --shape 480x640x3"
	for words in "--shape 1x2x3x1" "--shape 3x1x2" "--head 3" "--shape 2x0x3 --length 0" "--shape 2x3x3"; do
		# shellcheck disable=SC2086 # options
		run -1 --separate-stderr gpushare get matrix --format png $words -o "$WORK/out/file"
		equal "$(lines "$stderr")" 1
		has "$stderr" matrix
	done
	head -c 1000001 /dev/zero >"$WORK/wide"
	gpushare restore "$WORK/wide" wide
	run -1 --separate-stderr gpushare get wide --format png --shape 1x1000001 -o "$WORK/out/file"
	has "$stderr" "'wide' has shape 1x1000001, but a PNG has up to 1000000 pixels each way, and 512 Mi in all"
	equal "$(ls -A "$WORK/out")" ""
	run -2 --separate-stderr gpushare put "$WORK/matrix.npy" matrix --format png
	run -2 --separate-stderr gpushare save "$WORK/out" matrix --format png
}

# tty COLUMNS WORD...: what `gpushare WORD...` prints on a terminal
tty() {
	TERM=xterm script -qec "stty cols $1; gpushare ${*:2}" /dev/null </dev/null | tr -d '\r'
}

@test "plot: a histogram, and the mean of each slice, as wide as the terminal" {
	needs script
	needs_numpy
	/usr/bin/python3 - "$WORK" <<-'END'
		import sys, numpy
		nan, inf = numpy.nan, numpy.inf
		numpy.save(sys.argv[1] + '/steps.npy', numpy.array([[0, 0, nan], [8, 8, -inf], [15, 16, inf], [nan] * 3], 'f4'))
		numpy.save(sys.argv[1] + '/ramp.npy', numpy.arange(4000, dtype='u2'))
		numpy.save(sys.argv[1] + '/none.npy', numpy.array([nan], 'f2'))
	END
	put steps ramp none
	export LC_ALL=C.UTF-8 # for the lengths below
	run -0 --separate-stderr gpushare get steps --plot
	equal "$stderr" ""
	full=$(printf '█%.0s' {1..54})
	equal "$(tr -s ' ' <<<"$output")" " 0 $full 2"$'\n 1 0\n 2 0\n 3 0\n 4 0\n 5 0\n 6 0\n 7 0\n 8 '"$full 2"$'\n 9 0
 10 0\n 11 0\n 12 0\n 13 0\n 14 0\n 15 '"$full 2"$'\n 6 not finite\nmean of 4 slices along the first axis: 0..15.5\n⢀⡇\n⣸⡇'
	equal "${#lines[0]}" 80
	run -0 gpushare get none --plot
	equal "$output" "           1 not finite"
	# a straight line, at any width; the bars are green
	for width in 50 120; do
		run -0 tty "$width" get ramp --plot
		has "$output" $'\e[32m█'
		plain=$(sed $'s/\e\\[[0-9]*m//g' <<<"$output")
		equal "$(grep -c "^ .*█ *250$" <<<"$plain")" 16
		[[ $(head -1 <<<"$plain") =~ ^.{$width}$ ]]
		[[ $(tail -1 <<<"$plain") =~ ^⣀.*⣿.{$((width / 2 - 1))}$ ]]
		[[ $(tail -1 <<<"$plain") =~ ^.{$width}$ ]]
	done
	export NO_COLOR=1
	run -0 tty 50 get ramp --plot
	[[ $output != *$'\e[3'* ]]
	gpushare get ramp --plot -o "$WORK/ramp" >"$WORK/plot"
	has "$(cat "$WORK/plot")" "mean of 4000 slices along the first axis: 12..3987"
	equal "$(tail -c 8000 "$WORK/ramp.npy" | sha256sum)" "$(sha256sum <"$WORK/ramp")"
	run -2 --separate-stderr gpushare get ramp --plot -o -
	run -2 --separate-stderr gpushare follow ramp --plot
}

@test "words that make no sense: exit code 2, one line, no registry" {
	misused '' "gpushare-attach name" "--format f33" "--format" "--dtype float" "--shape 2x" \
		"--shape 4294967296x4294967297" "--head x" "--format f32 --dtype f16" "--dtype f16 --format f32" \
		"--into f --format npy" "--in f --into f" "--restore f --stats" "-o - --stats" "--stats -o - --sha256" \
		"--device x" "--in f -o g"
	equal "$(registry_pids)" ""
}

@test "--in: an array goes into a buffer that it fits" {
	put matrix longs
	python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(128); f.write(bytes(24))' "$WORK/matrix.npy"
	gpushare-attach matrix --in "$WORK/matrix.npy"
	equal "$(gpushare-attach matrix --format text | tr -s ' ')" $'[0,0] 0 0 0\n[1,0] 0 0 0'
	run -1 --separate-stderr gpushare-attach matrix --in "$WORK/longs.npy"
	has "$stderr" "int64 3x1"
	has "$stderr" "float32 2x3"
	run -1 --separate-stderr gpushare-attach matrix --in "$WORK/halves.npy" --offset 8
	has "$stderr" "8 bytes"
	gpushare-attach matrix --in "$WORK/halves.npy" --offset 8 --length 8
	equal "$(gpushare-attach matrix --format f16 --offset 8 --length 8 | tr -s ' ')" '[0] 1 -2 0.5 65504'
}

@test "--in: a file that is none, or is cut, or lies, changes nothing" {
	put matrix
	gpushare-attach matrix -o "$WORK/before"
	head -c 100 "$WORK/matrix.npy" >"$WORK/cut-header.npy"
	head -c 150 "$WORK/matrix.npy" >"$WORK/cut-data.npy"
	{ cat "$WORK/matrix.npy" && echo; } >"$WORK/long.npy"
	sed 's/(2, 3)/(2, 4)/' "$WORK/matrix.npy" >"$WORK/lies.npy"
	sed 's/(2, 3), }  */(2, 9223372036854775807), }/' "$WORK/matrix.npy" >"$WORK/huge.npy"
	data "$WORK/matrix.npy" >"$WORK/raw.npy"
	: >"$WORK/empty.npy"
	for file in cut-header cut-data long lies huge raw empty missing; do
		run -1 --separate-stderr gpushare-attach matrix --in "$WORK/$file.npy"
		has "$stderr" "$file.npy"
		equal "$(lines "$stderr")" 1
		[ $file = raw ] || [ $file = empty ] || run -1 gpushare-attach --restore "$WORK/$file.npy" other
	done
	gpushare-attach matrix | cmp - "$WORK/before"
	run -1 gpushare stat other
}

@test "on a terminal text is cut, and NO_COLOR is no matter there" {
	needs script
	head -c 4096 /dev/zero >"$WORK/zeros"
	gpushare-attach --restore "$WORK/zeros" zeros
	run -0 script -qec 'gpushare-attach zeros --format f32' /dev/null </dev/null
	has "$output" "[56]"
	[[ $output != *"[64]"* ]]
	has "$output" "256 of 4096 bytes shown"
	text=$output
	run -0 script -qec 'gpushare get zeros --dtype f32' /dev/null </dev/null
	equal "${output//gpushare: /gpushare-attach: }" "$text"
	run -0 script -qec 'gpushare-attach zeros --format f32 --head 72' /dev/null </dev/null
	has "$output" "[64]"
	[[ $output != *"shown"* ]]
}
