#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare-attach: dump many buffers into a directory, and restore them.
load helpers

setup_more() {
	start_named producer a/weights,a/bias,other "$BIN/rt_app_static" await="$WORK/produce" init alloc=a,18Mi \
		fill=a,7 alloc=b,24 fill=b,3 alloc=c,1Ki fill=c,5 touch="$WORK/up" await="$WORK/end"
	PRODUCER=$PID
}

teardown_more() {
	if [ -e "$WORK/mounted" ]; then umount "$WORK/disk"; fi
}

produce() {
	resume produce up
}

end_producer() {
	kill -KILL "$PRODUCER"
	gone() { equal "$(gpushare ls 'a/*' | wc -l)" 1 >/dev/null; }
	until_true gone
}

# entry NAME FIELD: the value of FIELD for NAME in the manifest
entry() {
	jq -r --arg name "$1" ".buffers[] | select(.name == \$name) | .$2" "$WORK/set/manifest.json"
}

@test "names and patterns, each once, with a manifest" {
	produce
	run -0 --separate-stderr gpushare-attach 'a/*' a/bias -o "$WORK/set"
	equal "$output$stderr" ""
	equal "$(cd "$WORK/set" && ls -A)" $'a%2Fbias.bin\na%2Fweights.bin\nmanifest.json'
	gpushare-attach a/weights | cmp - "$WORK/set/a%2Fweights.bin"
	equal "$(entry a/bias size) $(entry a/bias file) $(entry a/bias format) $(entry a/bias backing)" "24 a%2Fbias.bin raw ipc"
	equal "$(entry a/weights sha256)" "$(sha256sum <"$WORK/set/a%2Fweights.bin" | cut -d ' ' -f 1)"
	equal "$(entry a/bias device_uuid)" "$(shown a/bias gpu)"
	equal "$(entry a/bias generation)" "$(shown a/bias generation)"
}

@test "a name that begins with a dot, and one that is too long for a file" {
	long=$(printf 'n%.0s' {1..255})
	up app "$BIN/api_app" open alloc=a,../x,64 alloc=b,"$long",64
	gpushare-attach '*' -o "$WORK/set"
	end=-$(shown "$long" generation)
	equal "$(ls -A "$WORK/set")" "%2E.%2Fx.bin
manifest.json
${long:0:200-${#end}}$end.bin"
	run -0 gpushare-attach --diff "$WORK/set"
}

@test "one name into a directory: with a slash behind it" {
	produce
	gpushare-attach other -o "$WORK/set/"
	equal "$(ls -A "$WORK/set")" $'manifest.json\nother.bin'
}

@test "--restore puts all of it back, kept, tags and all" {
	produce
	gpushare-attach '*' -o "$WORK/set"
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
	has "$stderr" "a buffer 'a/bias' exists already"
	has "$stderr" "a buffer 'other' exists already"
	end_producer
	run -0 --separate-stderr gpushare-attach --restore "$WORK/set"
	equal "$output$stderr" ""
	for name in a/weights a/bias other; do
		run -0 gpushare-attach $name --diff "$WORK/set/${name//\//%2F}.bin"
		has "$(gpushare ls $name)" kept
	done
	# A second restore changes nothing.
	run -1 gpushare-attach --restore "$WORK/set"
	run -0 gpushare-attach other --diff "$WORK/set/other.bin"
}

@test "--restore follows no link inside the set" {
	produce
	gpushare-attach '*' -o "$WORK/set"
	end_producer
	head -c "$(stat -c %s "$WORK/set/other.bin")" /dev/urandom >"$WORK/secret"
	ln -sf "$WORK/secret" "$WORK/set/other.bin"
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
	has "$stderr" "other.bin' can't be restored: it is a symbolic link"
	equal "$(names)" ""
	ln -s "$WORK/set" "$WORK/link" # the set itself may be reached by one
	run -1 --separate-stderr gpushare-attach --restore "$WORK/link"
	has "$stderr" "it is a symbolic link"
	mv "$WORK/set/manifest.json" "$WORK/manifest"
	ln -s "$WORK/manifest" "$WORK/set/manifest.json"
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
	has "$stderr" "manifest.json' can't be read"
}

@test "--restore of some" {
	produce
	gpushare-attach '*' -o "$WORK/set"
	end_producer
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set" other 'b/*'
	has "$stderr" "b/*"
	equal "$(gpushare ls | wc -l)" 1
	gpushare-attach --restore "$WORK/set" 'a/*'
	equal "$(gpushare ls | awk 'NR > 1 { print $1 }')" $'a/bias\na/weights'
}

@test "npy sets carry dtype and shape, and come back with the tags" {
	produce
	gpushare-attach a/bias --format npy --dtype f32 --shape 2x3 -o "$WORK/bias.npy"
	end_producer
	gpushare-attach --restore "$WORK/bias.npy" bias
	gpushare-attach bias 'b*' --format npy -o "$WORK/set"
	equal "$(entry bias dtype) $(entry bias 'shape | tostring') $(entry bias tags.shape)" "float32 [2,3] 2x3"
	cmp "$WORK/bias.npy" "$WORK/set/bias.npy"
	gpushare rm bias
	gpushare-attach --restore "$WORK/set"
	gpushare-attach bias --format npy | cmp - "$WORK/bias.npy"
}

@test "raw bytes that begin like a .npy file are bytes" {
	printf '\x93NUMPY\x01\x00nonsense' >"$WORK/odd"
	produce
	gpushare-attach a/bias --into "$WORK/odd" --offset 0
	gpushare-attach a/bias other -o "$WORK/set"
	end_producer
	gpushare-attach --restore "$WORK/set"
	gpushare-attach a/bias | cmp - "$WORK/set/a%2Fbias.bin"
}

@test "a file that was changed: nothing of the set comes back" {
	produce
	gpushare-attach '*' -o "$WORK/set"
	end_producer
	printf 'x' | dd of="$WORK/set/other.bin" bs=1 seek=100 conv=notrunc status=none
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
	has "$stderr" SHA-256
	has "$stderr" other
	equal "$(gpushare ls | wc -l)" 1
	gpushare-attach --restore "$WORK/set" a/bias
	truncate -s 20 "$WORK/set/other.bin"
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set" other
	has "$stderr" "20 bytes"
	rm "$WORK/set/other.bin"
	run -1 gpushare-attach --restore "$WORK/set" other
}

@test "a manifest that makes no sense, or leads out of its directory" {
	produce
	gpushare-attach a/bias other -o "$WORK/set"
	cp "$WORK/set/manifest.json" "$WORK/good"
	for change in '.buffers[0].file = "../good"|not a file name in this directory' \
		'.buffers[0].file = "/etc/passwd"|not a file name in this directory' \
		'.buffers[0].file = ".."|not a file name in this directory' \
		'.buffers[0].file = ".hidden"|not a file name in this directory' \
		'.buffers[0].file = ""|not a file name in this directory' '.buffers[0].file = "a\u0000b"|line ' \
		'.buffers[0].name = "a\u0000b"|line ' '.buffers[0].name = ""|not a valid buffer name' \
		'.buffers[0].size = -1|size, generation' '.buffers[0].size = "24"|Expected integer' \
		'.buffers[0].sha256 = "x"|or sha256' '.buffers[0].format = "zip"|is neither raw nor npy' \
		'.buffers[0].tags = {"k": 1}|the tags' \
		'.buffers[0].tags = {"a": "", "b": "", "c": "", "d": "", "e": ""}|the tags' \
		'.buffers[0].tags = {("k" * 33): ""}|the tags' '.buffers[0].ttl_s = 4294967296|ttl_s' \
		'.buffers[0].generation = 1.5|Expected integer' '.buffers[0].mode = 416|the mode or group' \
		'.buffers[0].mode = ""|the mode of' '.buffers[0].mode = "0"|the mode of' \
		'.buffers[0].mode = "1777"|the mode of' '.buffers[0].mode = "-640"|the mode of' \
		'.buffers[0].mode = "640x"|the mode of' '.buffers[0].group = 5|the mode or group' \
		'.buffers[0].group = "g" * 64|the mode or group' \
		'del(.buffers[0].file)|Object item not found: file' '.buffers = {}|no list "buffers"' \
		'[]|no list "buffers"'; do
		jq "${change%|*}" "$WORK/good" >"$WORK/set/manifest.json"
		run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
		has "$stderr" "is not a valid manifest: "
		has "$stderr" "${change##*|}"
		equal "$(lines "$stderr")" 1
	done
	sed '0,/"size"/s/.*"size".*/&&/' "$WORK/good" >"$WORK/set/manifest.json"
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
	has "$stderr" "is not a valid manifest: line "
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set/"
	has "$stderr" "'$WORK/set/manifest.json'"
	head -c 100 "$WORK/good" >"$WORK/set/manifest.json"
	run -1 gpushare-attach --restore "$WORK/set"
	rm "$WORK/set/manifest.json"
	run -1 --separate-stderr gpushare-attach --restore "$WORK/set"
	has "$stderr" manifest.json
	run -1 gpushare-attach --restore "$WORK/missing"
	run -1 gpushare-attach --restore "$WORK/good" # a file: what is it to be called?
}

@test "a set that fails leaves what was there, and nothing of its own" {
	produce
	gpushare-attach a/bias other -o "$WORK/set"
	(cd "$WORK/set" && sha256sum ./* >"$WORK/sums")
	run -1 --separate-stderr gpushare-attach other a/bias nobody -o "$WORK/set"
	has "$stderr" nobody
	run -1 gpushare-attach 'nobody*' -o "$WORK/new"
	[ ! -e "$WORK/new" ]
	if [ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ]; then
		run -1 env GPUSHARE_SIM_FAIL=cuMemcpyDtoHAsync:3:1 gpushare-attach 'a/*' other -o "$WORK/set"
		run -1 env GPUSHARE_SIM_FAIL=cuMemcpyDtoHAsync:3:1 gpushare-attach 'a/*' other -o "$WORK/new"
		[ ! -e "$WORK/new" ]
	fi
	run -1 gpushare-attach other a/bias -o "$WORK/sums"
	run -1 gpushare-attach other a/bias -o "$WORK/missing/set"
	(cd "$WORK/set" && sha256sum --quiet -c "$WORK/sums")
	equal "$(find "$WORK/set" -type f | wc -l)" 3
	equal "$(find "$WORK/set" -mindepth 1 -type d)" ""
}

@test "a file of a set that can't take its place: what was there is there again" {
	produce
	mkdir -p "$WORK/set/other.bin"
	echo before >"$WORK/set/a%2Fbias.bin"
	run -1 --separate-stderr gpushare-attach '*' -o "$WORK/set"
	has "$stderr" "set/other.bin' can't be put in place: "
	equal "$(lines "$stderr")" 1
	equal "$(cd "$WORK/set" && ls -A)" $'a%2Fbias.bin\nother.bin'
	equal "$(cat "$WORK/set/a%2Fbias.bin")" before
	rmdir "$WORK/set/other.bin"
	gpushare-attach '*' -o "$WORK/set"
	equal "$(cd "$WORK/set" && ls -A)" $'a%2Fbias.bin\na%2Fweights.bin\nmanifest.json\nother.bin'
	equal "$(stat -c %h "$WORK/set/a%2Fbias.bin")" 1
}

@test "a set where there are no hard links: the older one is there again all the same" {
	produce
	mkdir -p "$WORK/set/other.bin"
	echo before >"$WORK/set/a%2Fbias.bin"
	without="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD }$BIN/lib_no_links.so"
	run -1 --separate-stderr env LD_PRELOAD="$without" gpushare-attach '*' -o "$WORK/set"
	has "$stderr" "set/other.bin' can't be put in place: "
	equal "$(cd "$WORK/set" && ls -A)" $'a%2Fbias.bin\nother.bin'
	equal "$(cat "$WORK/set/a%2Fbias.bin")" before
	rmdir "$WORK/set/other.bin"
	LD_PRELOAD="$without" gpushare-attach '*' -o "$WORK/set"
	equal "$(cd "$WORK/set" && ls -A)" $'a%2Fbias.bin\na%2Fweights.bin\nmanifest.json\nother.bin'
}

@test "a set on a disk that is full" {
	produce
	mkdir "$WORK/disk"
	if mount -t tmpfs -o size=10m none "$WORK/disk" 2>/dev/null; then
		touch "$WORK/mounted"
		run -1 --separate-stderr gpushare-attach '*' -o "$WORK/disk/set"
	else
		run -1 --separate-stderr sh -c 'ulimit -f 10000; exec "$@"' sh gpushare-attach '*' -o "$WORK/disk/set"
	fi
	has "$stderr" "writing '$WORK/disk/set/a%2Fweights.bin' failed after"
	has "$stderr" "; the incomplete set is removed"
	equal "$(lines "$stderr")" 1
	equal "$(ls -A "$WORK/disk")" ""
}

@test "--restore that fails on the way takes back what it had done" {
	needs_sim
	produce
	gpushare-attach '*' -o "$WORK/set"
	end_producer
	for fault in cuMemCreate:2:9 cuMemcpyHtoDAsync:2:1 cuMemExportToShareableHandle:3:9; do
		run -1 env GPUSHARE_SIM_FAIL=$fault gpushare-attach --restore "$WORK/set"
		equal "$(gpushare ls | wc -l)" 1
	done
	gpushare-attach --restore "$WORK/set"
}

@test "--diff DIR: which of a set's buffers have changed since" {
	produce
	gpushare tag other dtype=i16
	gpushare-attach 'a/*' -o "$WORK/set"
	gpushare-attach other --format npy -o "$WORK/more/"
	run -0 --separate-stderr gpushare-attach --diff "$WORK/set/"
	equal "$output$stderr" ""
	run -0 gpushare-attach --diff "$WORK/more"
	head -c 3 /dev/zero | gpushare-attach a/bias --into - --offset 5
	head -c 2 /dev/zero | gpushare-attach other --into - --offset 512
	run -1 --separate-stderr gpushare-attach --diff "$WORK/set"
	has "$output" "a/bias $WORK/set/a%2Fbias.bin differ: byte 5, element [5]: 0, "
	equal "${lines[1]}" "3 of 24 elements, 3 bytes"
	equal "${#lines[@]}$stderr" 2
	run -1 gpushare-attach --diff "$WORK/more/"
	has "$output" "other $WORK/more/other.npy differ: byte 512, element [256]: 0, "
	run -0 gpushare-attach a/weights --diff "$WORK/set"
	run -1 gpushare-attach 'a/b*' 'a/*' --diff "$WORK/set"
	equal "$(lines "$output")" 2 # each once
	rm "$WORK/set/a%2Fbias.bin"
	run -2 --separate-stderr gpushare-attach --diff "$WORK/set"
	has "$stderr" "a%2Fbias.bin"
	run -2 --separate-stderr gpushare-attach other --diff "$WORK/set"
	has "$stderr" "has no 'other'"
	for words in "-o $WORK/x" --stats --sha256 --follow "--offset 1" "--head 3" "--dtype f32" "--length 3" --rate; do
		# shellcheck disable=SC2086 # words
		run -2 --separate-stderr gpushare-attach --diff "$WORK/set" $words
		equal "$(lines "$stderr")" 1
		has "$stderr" "set"
	done
	run -2 gpushare-attach --diff "$WORK/set" --in "$WORK/more/other.npy" other
}

@test "--diff DIR: what is gone, of another size, or a set no more" {
	produce
	gpushare-attach a/bias other -o "$WORK/set"
	end_producer
	gpushare-attach --restore "$WORK/set"
	gpushare rm a/bias
	run -1 --separate-stderr gpushare-attach --diff "$WORK/set"
	equal "$output$stderr" "a/bias: only in $WORK/set"
	{ cat "$WORK/set/other.bin" && echo; } >"$WORK/long"
	gpushare rm other
	gpushare-attach --restore "$WORK/long" other
	run -1 gpushare-attach --diff "$WORK/set" other
	equal "$output" "$WORK/set/other.bin ends first: 1025 bytes of the buffer, 1024 of the file"
	if [ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ]; then
		run -2 env GPUSHARE_SIM_FAIL=cuMemcpyDtoHAsync:1:1 gpushare-attach --diff "$WORK/set"
		has "$output" "a/bias: only in" # the rest is looked at all the same
	fi
	gpushare rm other
	echo '{' >"$WORK/set/manifest.json"
	run -2 --separate-stderr gpushare-attach --diff "$WORK/set"
	has "$stderr" "manifest.json' is not a valid manifest: "
	rm "$WORK/set/manifest.json"
	run -2 --separate-stderr gpushare-attach --diff "$WORK/set"
	has "$stderr" "manifest.json' can't be read: "
}

@test "interrupted, whenever: all of a set or nothing of it" {
	produce
	gpushare-attach '*' -o "$WORK/good"
	for signal in INT TERM HUP; do
		ended=0
		for ms in 001 020 040 060 080 120; do
			ended_by $signal 0.$ms gpushare-attach '*' -o "$WORK/set"
			[ "$CODE" = 0 ] || ended=$((ended + 1))
			[ ! -e "$WORK/set" ] || diff -r "$WORK/good" "$WORK/set"
			[ "$CODE" != 0 ] || [ -e "$WORK/set" ]
			rm -rf "$WORK/set"
			equal "$(cd "$WORK" && find . -name '.*partial*' -o -name '.gpushare*')" ""
		done
		[ $ended != 0 ]
	done
	end_producer
	for signal in INT TERM HUP; do
		ended=0
		for ms in 001 020 040 060 080 120; do
			ended_by $signal 0.$ms gpushare-attach --restore "$WORK/good"
			[ "$CODE" = 0 ] || ended=$((ended + 1))
			there=$(gpushare ls --json | jq length)
			[ "$there" = 3 ] || equal "$CODE $there" "$((128 + $(kill -l $signal))) 0"
			[ "$there" = 0 ] || gpushare rm '*'
		done
		[ $ended != 0 ]
	done
}

@test "words about sets" {
	misused '' gpushare-attach "a b" "a* -o -" "a b -o d --stats" "a b -o d --head 3" "a* -o d --format hex" \
		"a* -o d --offset 1"
}

@test "a set of strangers sends no escapes to the terminal" {
	produce
	gpushare-attach other -o "$WORK/set/"
	end_producer
	escape=$'\033]0;x\a\302\233' # and a CSI of C1
	for key in name file format sha256; do
		jq --arg text "o$escape" ".buffers[0].$key = \$text" "$WORK/set/manifest.json" >"$WORK/manifest"
		for way in --restore --diff; do
			mkdir -p "$WORK/bad"
			cp "$WORK/manifest" "$WORK/bad/manifest.json"
			run --separate-stderr gpushare-attach $way "$WORK/bad"
			[ "$status" -ge 1 ]
			[ -n "$stderr" ]
			equal "$(tr -d '\n\040-\176' <<<"$output$stderr" | wc -c)" 0
		done
	done
	# Control characters in a name from the command line are not printed either. Valid UTF-8 is printed unchanged.
	run -1 --separate-stderr gpushare-attach --restore "$WORK/müll$escape"
	has "$stderr" "müll?]0;x???'"
}

@test "--diff follows no link inside the set" {
	produce
	gpushare-attach other -o "$WORK/set/"
	cp "$WORK/set/other.bin" "$WORK/same"
	ln -sf "$WORK/same" "$WORK/set/other.bin"
	run -2 --separate-stderr gpushare-attach --diff "$WORK/set"
	has "$stderr" "other.bin' can't be compared: it is a symbolic link"
	ln -s "$WORK/same" "$WORK/link" # a file that was named may be one
	run -0 gpushare-attach other --diff "$WORK/link"
}

@test "--diff of a folder that isn't there says so" {
	produce
	for folder in "$WORK/nodir/" "$WORK/nodir"; do
		run -2 --separate-stderr gpushare-attach --diff "$folder"
		has "$stderr" "nodir/manifest.json' can't be read: No such file or directory"
	done
	run -2 --separate-stderr gpushare-attach --diff "$WORK/nodir/" other
	has "$stderr" "can't be read: No such file or directory"
	run -2 --separate-stderr gpushare-attach other --diff "$WORK/nodir"
	has "$stderr" "nodir' can't be compared: No such file or directory"
}

# Another program set a dtype tag that no reader knows.
@test "tags that make no sense: --dtype and --format go before them, and a set is bytes" {
	produce
	api open tag=other,dtype,float33 tag=other,shape,many >/dev/null
	equal "$(gpushare tag other | tr '\n' ' ')" "dtype=float33 shape=many "
	run -1 --separate-stderr gpushare-attach other --format text
	has "$stderr" "tagged dtype=float33"
	run -0 --separate-stderr gpushare-attach other --format text --dtype u8 --head 2
	[ -n "$output" ]
	run -0 --separate-stderr gpushare-attach other --format u8 --head 2
	[ -n "$output" ]
	run -0 --separate-stderr gpushare-attach other --format npy --dtype u8 -o "$WORK/other.npy"
	run -0 --separate-stderr gpushare-attach other --stats --dtype u16
	for format in raw npy; do
		run -0 --separate-stderr gpushare-attach other -o "$WORK/$format/" --format $format
		equal "$stderr" ""
		equal "$(jq -r '.buffers[0].tags.dtype' "$WORK/$format/manifest.json")" float33
	done
	run -0 gpushare-attach other --diff "$WORK/npy/other.npy" --dtype u8
}
