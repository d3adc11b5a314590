#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GPUSHARE_PUBLISH: unmodified programs whose named buffers are published for them; and what follows
# them, gpushare-attach --follow and --wait-for.
load helpers

# publishing WHEN RULES TAG PROGRAM...: in the background, under the preload
publishing() {
	start "$3" env LD_PRELOAD="$PRELOAD" GPUSHARE_PUBLISH="$1" GPUSHARE_NAME="$2" "${@:4}"
}

# sequence NAME: how often it was published
sequence() {
	gpushare stat --json "$1" | jq '.sequence // 0'
}

has_sequence() {
	[ "$(sequence "$1")" = "$2" ]
}

@test "sync: each wait that went well publishes each named buffer once" {
	for program in rt_app_static rt_app_shared rt_app_11 rt_app_12 drv_linked; do
		rm -f "$WORK"/up* "$WORK"/go*
		publishing sync a,b "$program" "$BIN/$program" init alloc=x,1Mi alloc=y,2Mi stream=s \
			touch="$WORK/up" await="$WORK/go" fill=x,7 go=s touch="$WORK/up1" \
			await="$WORK/go1" go=s go=s touch="$WORK/up2" await="$WORK/end"
		await_file "$WORK/up"
		equal "$program $(sequence a) $(sequence b)" "$program 0 0"
		touch "$WORK/go"
		await_file "$WORK/up1"
		equal "$program $(sequence a) $(sequence b)" "$program 1 1"
		touch "$WORK/go1"
		await_file "$WORK/up2"
		equal "$program $(sequence a) $(sequence b)" "$program 3 3"
		equal "$(cat "$WORK/$program.err")" ""
		touch "$WORK/end"
		finish "$PID"
		rm -f "$WORK/end"
	done
}
