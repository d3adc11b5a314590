#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One process attaches a buffer more than once, and the registry dies before the process detaches one attachment.
# The other attachments stay counted: the owner holds the freed memory as long as that count is not 0.
load helpers

setup_more() {
	[ -z "${EMULATOR:-}" ] || skip "qemu-user starts no registry from a client"
	begin owner "$BIN/api_app" open alloc=a,one,1Mi touch="$WORK/owns" await="$WORK/free" free=a \
		touch="$WORK/freed" await="$WORK/end" close
}

# gives_back_one COMMAND...: COMMAND attaches "one" twice, waits for "go", and then detaches one of the two
gives_back_one() {
	start app "$@"
	await_file "$WORK/up"
	equal "$(attachers one)" 2
	kill_registry
	resume go left
	equal "$(attachers one)" 1
	resume free freed
	has "$(gpushare ls --deferred)" "one"
	down
}

@test "by a session" {
	gives_back_one "$BIN/api_app" open attach=b,one attach=c,one touch="$WORK/up" await="$WORK/go" \
		detach=b touch="$WORK/left" await="$WORK/end" byte=c,1 detach=c close
	has "$(cat "$WORK/app.out")" "detach b: OK
byte c: 0
detach c: OK"
}

@test "by a preloaded program" {
	gives_back_one env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=one:nth=1,one:nth=2 "$BIN/rt_app_static" init \
		alloc=a,1Mi alloc=b,1Mi touch="$WORK/up" await="$WORK/go" free=a touch="$WORK/left" \
		await="$WORK/end" byte=b,1 free=b exit=0
}

@test "by a preloaded program, in the order of a stream" {
	gives_back_one env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=one:nth=1,one:nth=2 "$BIN/drv_linked" init \
		stream=s make=a,async,1Mi,s make=b,async,1Mi,s touch="$WORK/up" await="$WORK/go" \
		drop=a,async,s go=s make=c,async,3Mi,s alloc=d,4Mi free=d touch="$WORK/left" await="$WORK/end" byte=b,1 \
		drop=b,async,s drop=c,async,s go=s exit=0
}

@test "by a preloaded program, while the next registry is told" {
	needs_sim
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "the sanitizer's library must be loaded first"
	gives_back_one env PAUSE_AT=cuIpcCloseMemHandle PAUSE_FILE="$WORK/p" LD_PRELOAD="$BIN/lib_pause.so $PRELOAD" \
		GPUSHARE_ATTACH=one:nth=1,one:nth=2,other:size=2Mi "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,1Mi \
		touch="$WORK/up" await="$WORK/go" touch="$WORK/p.armed" aside=free,a await="$WORK/p.paused" alloc=c,2Mi \
		touch="$WORK/p.go" rejoin touch="$WORK/left" await="$WORK/end" byte=b,1 free=b exit=0
}
