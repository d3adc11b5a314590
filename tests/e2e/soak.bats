#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Many processes at once for a long time: twelve for twenty seconds, or what `make soak` sets; see
# tests/chaos/README.md.
load helpers

@test "after so long of sharing, attaching, freeing and dying no name, descriptor or byte is left" {
	local processes=${GPUSHARE_SOAK_PROCESSES:-12} # a slot has one or two
	[ -z "${GPUSHARE_SOAK_SECONDS:-}" ] || processes=${GPUSHARE_SOAK_PROCESSES:-200}
	export GPUSHARE_CHAOS_SLOTS=$((processes * 3 / 4)) GPUSHARE_CHAOS_SECONDS=${GPUSHARE_SOAK_SECONDS:-20}
	export GPUSHARE_TIMEOUT_MS=90000 # hundreds of processes take turns on few cores
	export GPUSHARE_CHAOS_REGISTRY=${GPUSHARE_CHAOS_REGISTRY:-0} # its deaths are chaos.bats's
	local code=0
	"$BIN/api_chaos" "${GPUSHARE_TEST_DRIVER:-sim}" "$BIN" "$PRELOAD" >"$WORK/said" || code=$?
	sed 's/^/# said: /' "$WORK/said" >&3
	return "$code"
}
