#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Invalid rules: the preload prints one clear line, and the program runs as if there were no rules.
load helpers

script=(init alloc=a,1Mi fill=a,7 byte=a,5 free=a exit=5)

# refused RULES MARKED: the preload prints one line, in which MARKED, the invalid part of RULES, is marked
refused() {
	untouched "$1" "$BIN/rt_app_static" "${script[@]}"
	equal "$(lines "$stderr")" 1
	has "$stderr" "gpushare: GPUSHARE_NAME: "
	has "$stderr" ">>>$2<<<"
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "empty rules are no rules" {
	untouched "" "$BIN/rt_app_static" "${script[@]}"
	equal "$stderr" ""
	equal "$(ls -A "$GPUSHARE_DIR")" ""
}

@test "what can't be is marked, and what could be is said" {
	long=$(printf 'x%.0s' {1..256})
	for rule in 'my weights' "$long" 'w%q'; do
		refused "$rule" "$rule"
	done
	refused ':size=1Mi' ''
	refused 'a,,b' ''
	refused 'good,w*' 'w*'
	refused w:tag=a=b tag=a=b
	has "$stderr" "unknown option"
	for option in color=red size=ten size=4Mi-1Mi size= mode=abc mode=777 mode= group= nth=0 nth=5-2 nth=x device=-1 device=first \
		api= api from= from wait=3 must ttl=3; do
		refused "w:$option" "$option"
	done
	refused w:api=malloc api=malloc
	has "$stderr" ": api wants one of cuMemAlloc cuMemAllocPitch "
	has "$stderr" " cudaMallocFromPoolAsync: "
	refused w:from=a:b b # a colon ends a glob
	has "$stderr" "unknown option, none of nth size "
	has "$stderr" " keep "
	refused w:readonly:adopt adopt
	has "$stderr" '"keep"'
}

@test "GPUSHARE_ATTACH is refused in the same way" {
	run -5 --separate-stderr attaching w:keep "$BIN/rt_app_static" "${script[@]}"
	equal "$output" "$("$BIN/rt_app_static" "${script[@]}")"
	has "$stderr" "gpushare: GPUSHARE_ATTACH: "
	has "$stderr" ">>>keep<<<"
	equal "$(lines "$stderr")" 1
}

@test "a template that grows too long names nothing, and the program runs on" {
	export RANK
	RANK=$(printf '7%.0s' {1..300})
	untouched 'w%r' "$BIN/rt_app_static" "${script[@]}"
}

@test "many threads, one bad rule: still one line" {
	untouched w:size=ten "$BIN/rt_app_static" init threads=8,64Ki
	equal "$(lines "$stderr")" 1
}

@test "the line neither ends the program nor holds it where nobody reads it" {
	exec 7> >(:)
	until_true has_ended $!
	equal "$(named 'a:size=ten' "$BIN/drv_linked" init alloc=a,1Mi 2>&7)" "init: 0
alloc a: 0"
	exec 7>&-
	mkfifo "$WORK/full"
	exec 7<>"$WORK/full"
	head -c 65536 /dev/zero >&7
	equal "$(named 'a:size=ten' timeout 10 "$BIN/drv_linked" init alloc=a,1Mi 2>&7)" "init: 0
alloc a: 0"
	exec 7>&-
}

@test "a log that nobody reads holds no program" {
	mkfifo "$WORK/log"
	export GPUSHARE_LOG=$WORK/log
	equal "$(named w timeout 10 "$BIN/drv_linked" init alloc=a,1Mi)" "init: 0
alloc a: 0"
}

@test "a long name's line is whole" {
	long=$(printf 'x%.0s' {1..255})
	GPUSHARE_LOG=$WORK/said attaching "$long:must" "$BIN/drv_linked" init alloc=a,1Mi || true
	equal "$(grep -c 'is not attached' "$WORK/said")" 1
	has "$(cat "$WORK/said")" 'as the rule says "must"'
}
