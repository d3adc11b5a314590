#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare get and put, which run gpushare-attach.
load helpers

setup_more() {
	begin_named app weights "$BIN/rt_app_static" init alloc=a,1Mi fill=a,7 save=a,"$WORK/own" \
		touch="$WORK/up" await="$WORK/look" save=a,"$WORK/after" touch="$WORK/saved" await="$WORK/end"
}

@test "get copies to a file and into a pipe, with gpushare-attach's options" {
	gpushare get weights -o "$WORK/a"
	cmp "$WORK/own" "$WORK/a"
	gpushare get weights | cmp "$WORK/own" -
	gpushare get --offset 10 --length 5 weights >"$WORK/part"
	tail -c +11 "$WORK/own" | head -c 5 | cmp "$WORK/part" -
	run -1 --separate-stderr gpushare get nobody
	has "$stderr" nobody
}

@test "put copies a file or standard input into a buffer" {
	head -c 1048576 /dev/urandom >"$WORK/new"
	gpushare put "$WORK/new" weights
	gpushare get weights | cmp "$WORK/new" -
	printf hello | gpushare put - weights --offset 100
	touch "$WORK/look"
	await_file "$WORK/saved"
	equal "$(tail -c +101 "$WORK/after" | head -c 5)" hello
	run -1 --separate-stderr gpushare put /nonexistent weights
	has "$stderr" /nonexistent
}

@test "get and put: bad words are exit code 2" {
	for words in "get" "put" "put $WORK/own" "put --offset 1 weights" "get a --nonsense" "put $WORK/own a --nonsense"; do
		# shellcheck disable=SC2086 # words
		run -2 --separate-stderr gpushare $words
		equal "$output" ""
		[ -n "$stderr" ]
	done
}

@test "without gpushare-attach: said" {
	mkdir "$WORK/alone"
	cp "$BUILD/gpushare" "$WORK/alone/"
	PATH=/usr/bin:/bin run -1 --separate-stderr "$WORK/alone/gpushare" get weights
	has "$stderr" "gpushare-attach was not found"
	ln -s "$BUILD/gpushare-attach" "$WORK/alone/"
	PATH=/usr/bin:/bin "$WORK/alone/gpushare" get weights | cmp "$WORK/own" -
}
