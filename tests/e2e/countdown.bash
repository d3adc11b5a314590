# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# bats gives each test a time limit by a countdown, a shell of its own that it ends with SIGABRT. Where that
# comes before the shell has its trap, its sleep stays and bats waits for it, for the whole limit. A test
# that may end at once waits here first.
countdown_stands() {
	local children word caught=0
	[ -n "${BATS_killer_pid:-}" ] || return 0
	# Its trap comes after its child; before that the shell has ours.
	while [ -d "/proc/$BATS_killer_pid" ]; do
		children=$(cat "/proc/$BATS_killer_pid/task/$BATS_killer_pid/children" 2>/dev/null) || return 0
		while read -r word caught; do
			[ "$word" = SigCgt: ] && break
		done <"/proc/$BATS_killer_pid/status"
		[ -z "$children" ] || ((!(0x$caught & 0x20))) || return 0
		sleep 0.01
	done
}
