#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs with other rights than their caller: what they start is nothing of his. Needs root, who
# becomes him.
load helpers

ITS=41003 CALLER=41004 TEAM=41501

setup_more() {
	[ "$(id -u)" = 0 ] || skip "only root makes a set-uid program of another user"
	needs setpriv
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${EMULATOR:-}" ] || skip "instruments and emulators stay this user's"
	! findmnt -no OPTIONS -T "$WORK" | grep -q nosuid || skip "no set-uid programs on this file system"
	chmod 755 "$WORK"
	PROGRAM=$WORK/own/a/b/gpushare # where no ../bin is
	MINE=$WORK/mine/a/b            # the caller's
	mkdir -m 777 "$WORK/open"
	install -d -m 755 "${PROGRAM%/*}"
	install -m 4755 -o "$ITS" "$BUILD/gpushare" "$PROGRAM"
	install -d -m 755 -o "$CALLER" "$MINE"
	printf '#!/bin/sh\nid >%s/started\n' "$WORK/open" >"$WORK/evil"
	chmod 755 "$WORK/evil"
	unset LD_LIBRARY_PATH GPUSHARE_DIR
}

teardown_more() {
	local pid
	for pid in $(GPUSHARE_DIR=/tmp/gpushare-$ITS registry_pids); do
		kill -KILL "$pid" || true
		until_true has_ended "$pid"
	done
	rm -rf "/tmp/gpushare-$ITS" "/tmp/gpushare-$CALLER"
}

as_caller() {
	setpriv --reuid "$CALLER" --regid "$CALLER" --clear-groups --inh-caps=-all "$@" </dev/null
}

# starts_none PROGRAM WHY: not what is there, and says so
starts_none() {
	run -1 as_caller "$1" watch
	has "$output" "$2"
	[ ! -e "$WORK/open/started" ]
	equal "$(GPUSHARE_DIR=/tmp/gpushare-$ITS registry_pids)" ""
}

started_one() {
	[ -n "$(GPUSHARE_DIR=/tmp/gpushare-$ITS registry_pids)" ]
}

# watching PROGRAM: a look starts none, so it watches until the test ends
watching() {
	start watcher setpriv --reuid "$CALLER" --regid "$CALLER" --clear-groups --inh-caps=-all "$1" watch
	until_true started_one
}

# refused FILE: it was found
refused() {
	starts_none "$MINE/gpushare" "$1 is not started"
}

@test "nothing of the caller's environment is looked at" {
	run -1 as_caller env GPUSHARE_REGISTRY="$WORK/evil" XDG_RUNTIME_DIR="$WORK/open" \
		GPUSHARE_DIR="$WORK/open/r" "$PROGRAM" watch
	has "$output" "/tmp/gpushare-$ITS"
	has "$output" "gpushare-registry was not found"
	equal "$(ls -A "$WORK/open")" ""
}

@test "what root alone could put there is started, as the program's user alone" {
	install -d -m 755 "$WORK/own/bin" "$WORK/own/a"
	install -m 755 "$BUILD/gpushare-registry" "$WORK/own/bin/real"
	mv "$WORK/own/bin/real" "$WORK/own/bin/gpushare-registry"
	chmod 775 "$WORK/own" "$WORK/own/bin" # root's group
	watching "$PROGRAM"
	started=$(GPUSHARE_DIR=/tmp/gpushare-$ITS registry_pids)
	uids=$(sed -n 's/^Uid:[[:space:]]*//p' "/proc/$started/status")
	equal "${uids//[[:space:]]/ }" "$ITS $ITS $ITS $ITS" # its caller can't end it
}

@test "another link to it, beside a registry of the caller's" {
	ln "$PROGRAM" "$MINE/gpushare"
	install -m 755 -o "$CALLER" "$WORK/evil" "$MINE/gpushare-registry"
	refused "$MINE/gpushare-registry"
	chown 0 "$MINE/gpushare-registry" # and then the directory is his
	refused "$MINE/gpushare-registry"
}

@test "links of the caller's to what is root's" {
	ln "$PROGRAM" "$MINE/gpushare"
	ln -s "$WORK/evil" "$MINE/gpushare-registry"
	refused "$WORK/evil"
	rm "$MINE/gpushare-registry"
	install -d -m 755 "$WORK/safe"
	install -m 755 "$WORK/evil" "$WORK/safe/gpushare-registry"
	chmod 1777 "$WORK/safe" # where anybody may have linked it
	ln -s "$WORK/safe/gpushare-registry" "$MINE/gpushare-registry"
	refused "$WORK/safe/gpushare-registry"
	chmod 755 "$WORK/safe"
	chmod 1777 "$WORK" # above it is no harm: it can't be replaced
	run -1 as_caller "$MINE/gpushare" watch
	until_true [ -e "$WORK/open/started" ]
	has "$(cat "$WORK/open/started")" "uid=$ITS"
}

@test "what is named by a link is what was looked at" {
	install -d -m 755 "$WORK/safe"
	install -m 755 "$BUILD/gpushare-registry" "$WORK/safe/gpushare-registry"
	ln "$PROGRAM" "$MINE/gpushare"
	ln -s "$WORK/safe/gpushare-registry" "$MINE/gpushare-registry"
	watching "$MINE/gpushare"
	started=$(GPUSHARE_DIR=/tmp/gpushare-$ITS registry_pids)
	equal "$(tr '\0' '\n' <"/proc/$started/cmdline" | head -n 1)" "$WORK/safe/gpushare-registry"
}

@test "a directory that a group may write to, which is not root's" {
	install -d -m 775 -g "$TEAM" "$WORK/own/bin"
	install -m 755 "$WORK/evil" "$WORK/own/bin/gpushare-registry"
	starts_none "$PROGRAM" "$WORK/own/bin/gpushare-registry is not started"
}

@test "a directory that a user may write to whom its access list names" {
	needs python3
	install -d -m 755 "$WORK/own/bin"
	install -m 755 "$WORK/evil" "$WORK/own/bin/gpushare-registry"
	run python3 - "$WORK/own/bin" "$CALLER" <<-'END' # setfacl -m u:CALLER:rwx
		import os, struct, sys
		nobody = 0xffffffff
		entries = (1, 7, nobody), (2, 7, int(sys.argv[2])), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)
		access = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
		os.setxattr(sys.argv[1], "system.posix_acl_access", access)
	END
	[ "$status" = 0 ] || skip "no access lists on this file system"
	equal "$(stat -c '%a %g' "$WORK/own/bin")" "775 0"
	starts_none "$PROGRAM" "$WORK/own/bin/gpushare-registry is not started"
}

@test "a set-gid program trusts nothing of its caller's" {
	install -m 2755 -g "$TEAM" "$BUILD/gpushare" "$MINE/gpushare"
	install -m 755 -o "$CALLER" "$WORK/evil" "$MINE/gpushare-registry"
	chown "$CALLER" "$WORK/mine" "$WORK/mine/a"
	refused "$MINE/gpushare-registry"
}
