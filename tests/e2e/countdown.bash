# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# bats limits the time of each test with a countdown: a background shell that bats ends with SIGABRT. If SIGABRT
# arrives before the shell has set its trap, the shell's sleep survives and bats waits for it, up to the whole
# limit. A test that may end at once waits here for the trap first.
countdown_stands() {
	local children word caught=0
	[ -n "${BATS_killer_pid:-}" ] || return 0
	# The countdown sets its trap after it has started its child. Until then SigCgt shows the traps of this shell.
	while [ -d "/proc/$BATS_killer_pid" ]; do
		children=$(cat "/proc/$BATS_killer_pid/task/$BATS_killer_pid/children" 2>/dev/null) || return 0
		while read -r word caught; do
			[ "$word" = SigCgt: ] && break
		done <"/proc/$BATS_killer_pid/status"
		[ -z "$children" ] || ((!(0x$caught & 0x20))) || return 0
		sleep 0.01
	done
}
