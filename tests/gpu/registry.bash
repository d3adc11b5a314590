# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# registry_pids DIR: the registries that were told DIR, however they started
registry_pids() {
	local file
	for file in /proc/[0-9]*/cmdline; do
		if grep -qzxF "$1" "$file" 2>/dev/null && grep -qz gpushare-registry "$file" 2>/dev/null; then
			file=${file#/proc/}
			echo "${file%/cmdline}"
		fi
	done
}
