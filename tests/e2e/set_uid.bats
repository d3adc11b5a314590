#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs with other rights than their caller use the registry of their own user and start none. Needs root, to run as
# the caller.
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

# starts_none PROGRAM: PROGRAM starts no registry, not even a planted one, and prints the reason
starts_none() {
	run -1 as_caller "$1" watch
	has "$output" "no registry runs for /tmp/gpushare-$ITS, and a program that has other rights than its caller (set-uid) starts none"
	equal "$(ls -A "$WORK/open")" ""
	equal "$(GPUSHARE_DIR=/tmp/gpushare-$ITS registry_pids)" ""
}

@test "nothing of the caller's environment is looked at" {
	export GPUSHARE_REGISTRY="$WORK/evil" XDG_RUNTIME_DIR="$WORK/open" GPUSHARE_DIR="$WORK/open/r"
	starts_none "$PROGRAM"
}

@test "it starts no registry, whoever has put one beside it" {
	install -m 755 "$WORK/evil" "$WORK/own/a/b/gpushare-registry"
	starts_none "$PROGRAM"
	ln "$PROGRAM" "$MINE/gpushare"
	install -m 755 -o "$CALLER" "$WORK/evil" "$MINE/gpushare-registry"
	starts_none "$MINE/gpushare"
}

@test "nor does a set-gid program" {
	install -m 2755 -g "$TEAM" "$BUILD/gpushare" "$MINE/gpushare"
	install -m 755 -o "$CALLER" "$WORK/evil" "$MINE/gpushare-registry"
	run -1 as_caller "$MINE/gpushare" watch
	has "$output" "(set-uid) starts none"
	equal "$(ls -A "$WORK/open")" ""
}

@test "it uses the one that its user has started" {
	setpriv --reuid "$ITS" --regid "$ITS" --clear-groups "$BUILD/gpushare-registry" \
		--dir "/tmp/gpushare-$ITS" --foreground </dev/null >"$WORK/registry.out" 2>"$WORK/registry.err" 3>&- &
	STARTED+=("$!")
	until_true grep -qs serving "$WORK/registry.err"
	run -0 as_caller "$PROGRAM" ls
}
