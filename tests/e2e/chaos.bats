#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Kills processes at many different moments, from a fixed seed: see tests/chaos/README.md.
load helpers

@test "owners, attachers and the registry are killed at every moment: nothing stale, lost, leaked or hung" {
	export GPUSHARE_TIMEOUT_MS=5000
	# Under instruments every start takes ten times as long, a registry's too.
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] ||
		export GPUSHARE_CHAOS_KILLS=${GPUSHARE_CHAOS_KILLS:-100} GPUSHARE_TIMEOUT_MS=12000
	"$BIN/api_chaos" "${GPUSHARE_TEST_DRIVER:-sim}" "$BIN" "$PRELOAD"
}
