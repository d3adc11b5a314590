#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The systemd units, under the test's own systemd: a user manager in namespaces that end with it.
load helpers

setup_more() {
	[ -d "$ROOT/tools/systemd" ] || skip "no source tree here"
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "an instrumented build is not for installing"
	needs make
	DEST=$WORK/dest
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$ROOT" BUILD="$BUILD" install-files DESTDIR="$DEST" PREFIX=/usr
	UNITS=$DEST/usr/lib/systemd
}

@test "systemd-analyze and systemd-tmpfiles understand every line" {
	needs systemd-analyze
	mkdir "$WORK/units"
	cp "$UNITS/system/gpushare-registry@.service" "$WORK/units/gpushare-registry@root.service"
	cp "$UNITS/user/gpushare-registry.service" "$WORK/units/"
	# Use the installed programs, because systemd-analyze checks that they exist.
	sed -i "s|=/usr/bin/|=$DEST/usr/bin/|" "$WORK"/units/*
	equal "$(systemd-analyze verify --man=no "$WORK/units/gpushare-registry@root.service" 2>&1)" ""
	equal "$(XDG_RUNTIME_DIR=$WORK systemd-analyze --user verify --man=no "$WORK/units/gpushare-registry.service" 2>&1)" ""
	mkdir "$WORK/system"
	sed "s|=/usr/bin/|=$DEST/usr/bin/|" "$UNITS/system/gpushare-registry.service" >"$WORK/system/gpushare-registry.service"
	equal "$(systemd-analyze verify --man=no "$WORK/system/gpushare-registry.service" 2>&1)" ""
	needs systemd-tmpfiles
	root=$WORK/root
	mkdir -p "$root/run"
	local as=() # it gives folders to root
	[ "$(id -u)" = 0 ] || as=(unshare --map-root-user)
	"${as[@]}" true 2>/dev/null || skip "systemd-tmpfiles wants root, or a user namespace"
	equal "$("${as[@]}" systemd-tmpfiles --root="$root" --create "$DEST/usr/lib/tmpfiles.d/gpushare.conf" 2>&1)" ""
	equal "$(stat -c %a "$root/run/gpushare")" 755
}

@test "all programs and manual pages that the units name are installed" {
	for unit in "$UNITS"/*/*; do
		if [[ $unit == *.service ]]; then
			program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit")
			[ -x "$DEST$program" ] || { echo "$unit: $program"; false; }
		fi
		pages=$(grep '^Documentation=' "$unit" | grep -oE 'man:[a-z-]*\([178]\)' | sed 's/man:\(.*\)(\(.\))/\1.\2/')
		[ -n "$pages" ]
		for page in $pages; do
			[ -e "$BUILD/man/$page" ] || ! command -v scdoc >/dev/null || { echo "$unit: $page"; false; }
		done
		# The unit has the number twice: for systemd, and in FDSTORE because some versions of systemd don't pass
		# it on.
		equal "$(sed -n 's/^FileDescriptorStoreMax=//p' "$unit")" "$(sed -n 's/^Environment=FDSTORE=//p' "$unit")"
	done
}

# managed UNIT SCRIPT: run SCRIPT under a manager that has only UNIT, as main.service
managed() {
	local units=$WORK/units target
	mkdir -p "$units"
	for target in basic shutdown exit; do
		printf '[Unit]\nDefaultDependencies=no\n' >"$units/$target.target"
	done
	cp "$1" "$units/main.service"
	# The service can't see the programs in the test's directory, or they have the wrong owner. Use copies in a
	# private /run.
	sed -i 's|=/usr/bin/|=/run/bin/|; s|/run/gpushare/%i|%t/gpushare/%i|; /^User=/d' "$units/main.service"
	sed -i "s|%i|main|g" "$units/main.service"
	printf '%s\n' "$2" >"$WORK/script"
	cat >"$WORK/inside" <<'INSIDE'
umount -R /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup && mkdir -p "/sys/fs/cgroup/$1" && echo $$ >"/sys/fs/cgroup/$1/cgroup.procs" &&
	mount -t tmpfs -o mode=755 none /run && mount -t proc proc /proc && mkdir -m 700 -p /run/systemd/system /run/mine /run/bin || exit 77
# what a system's manager has for everything that is hidden
mkdir -p /run/systemd/inaccessible/dir && : >/run/systemd/inaccessible/reg && chmod 000 /run/systemd/inaccessible/*
cp "$2/usr/bin/"* /run/bin/
export XDG_RUNTIME_DIR=/run/mine SYSTEMD_UNIT_PATH=$3/units HOME=$3
export GPUSHARE_DIR=$XDG_RUNTIME_DIR/gpushare
! grep -q gpushare/main "$3/units/main.service" || GPUSHARE_DIR+=/main
/usr/lib/systemd/systemd --user --unit=basic.target --log-target=console >"$3/manager.log" 2>&1 &
manager=$!
for _ in $(seq 100); do [ -S $XDG_RUNTIME_DIR/systemd/private ] && break; kill -0 $manager || exit 77; sleep 0.05; done
set -e
. "$3/script" # with its end, this process's, all others' comes
INSIDE
	# The cgroup has the name of the test's directory. It is empty when its last process has ended; teardown removes
	# it.
	GROUP=gpushare-${WORK##*.}
	code=0
	timeout -k 5 60 unshare --mount --cgroup --pid --fork --kill-child --propagation private \
		bash "$WORK/inside" "$GROUP" "$DEST" "$WORK" </dev/null 3>&- || code=$?
	[ $code != 77 ] || skip "systemd can't be a user's manager here: $(tail -n 1 "$WORK/manager.log" 2>/dev/null)"
	[ $code = 0 ] || { cat "$WORK/manager.log"; return 1; }
}

teardown_more() {
	[ -n "${GROUP:-}" ] || return 0
	local mine=$WORK/cgroup
	mkdir -p "$mine"
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --propagation private sh -c 'mount -t cgroup2 none "$1" && find "$1/$2" -depth -type d -exec rmdir {} \;' \
		- "$mine" "$GROUP" 2>/dev/null || true
}

needs_manager() {
	needs_sim
	needs unshare
	needs systemctl
	[ -x /usr/lib/systemd/systemd ] || skip "systemd is not installed"
	[ "$(id -u)" = 0 ] || skip "a manager in namespaces of its own wants root"
	unshare --mount --cgroup --pid --fork true 2>/dev/null || skip "no namespaces to make here"
	export PAINTER=$BIN/painter_static SHIM
}

# A kept buffer survives its owner's death and the registry's restart, in the manager's fd store. The registry works
# within all restrictions of the unit.
# shellcheck disable=SC2016 # the script's
KEPT='
said() { local is; is=$(tr -d '\0'); [ "$is" = "$1" ] || { echo "is '$is', not '$1'" >&2; exit 1; }; }
show() { systemctl --user show main -p "$1" --value; }
export GPUSHARE_AUTOSTART=0 # or one of ours would come up between two of the unit
begins() { gpushare-attach canvas --length 22 -o - | said "painted by the painter"; }
systemctl --user start main
show SubState | said running
first=$(show MainPID)
grep -qE "^Seccomp:.*2$" "/proc/$first/status" && grep -qE "^NoNewPrivs:.*1$" "/proc/$first/status"
LD_PRELOAD=$SHIM GPUSHARE_NAME=canvas:keep "$PAINTER" "$HOME/seen" >"$HOME/painter" &
owner=$!
until grep -q painted "$HOME/painter"; do sleep 0.05; kill -0 $owner; done
begins
kill -KILL $owner
wait $owner || true
until gpushare ls | grep -q owner-gone; do sleep 0.05; done
show NFileDescriptorStore | said 1
systemctl --user restart main
[ "$(show MainPID)" != "$first" ]
begins
# killed, it comes back by itself
second=$(show MainPID)
kill -KILL "$second"
until [ "$(show MainPID)" != "$second" ] && [ "$(show SubState)" = running ]; do sleep 0.05; done
begins
gpushare rm canvas
until [ "$(show NFileDescriptorStore)" = 0 ]; do sleep 0.05; done
if pgrep -f "gpushare-registry.--keeper"; then exit 1; fi
systemctl --user stop main
show Result | said success
'

@test "the user's unit: ready is told, descriptors are kept over a restart, nothing that it needs is forbidden" {
	needs_manager
	managed "$UNITS/user/gpushare-registry.service" "$KEPT"
}

@test "the system's unit: the same behind all that it is shut off from" {
	needs_manager
	managed "$UNITS/system/gpushare-registry@.service" "$KEPT"
}

@test "a unit takes over from a registry that started by itself, and what that keeps" {
	needs_manager
	# shellcheck disable=SC2016 # the script's
	managed "$UNITS/user/gpushare-registry.service" '
said() { local is; is=$(tr -d '\0'); [ "$is" = "$1" ] || { echo "is '$is', not '$1'" >&2; exit 1; }; }
LD_PRELOAD=$SHIM GPUSHARE_NAME=canvas:keep "$PAINTER" "$HOME/seen" >"$HOME/painter" &
owner=$!
until grep -q painted "$HOME/painter"; do sleep 0.05; kill -0 $owner; done
kill -KILL $owner
wait $owner || true
systemctl --user start main
gpushare-attach canvas --length 22 -o - | said "painted by the painter"
systemctl --user show main -p NFileDescriptorStore --value | said 1
gpushare rm canvas
systemctl --user stop main
'
}

@test "gpushare registry knows the unit: by whom it was started, its journal; stop ends the unit" {
	needs_manager
	# shellcheck disable=SC2016 # the script's
	managed "$UNITS/user/gpushare-registry.service" '
said() { local is; is=$(cat); [ "$is" = "$1" ] || { echo "is $is, not $1" >&2; exit 1; }; }
systemctl --user start main
pid=$(systemctl --user show main -p MainPID --value)
gpushare registry status --json | jq -r "[.started_by, .unit, .pid] | @csv" | said "\"systemd\",\"main.service\",$pid"
gpushare registry start | grep -q "already running: pid $pid .* started by systemd: main.service"
mkdir "$HOME/bin"
printf "%s\n" "#!/bin/sh" "echo journal of \"\$@\"" >"$HOME/bin/journalctl"
chmod +x "$HOME/bin/journalctl"
PATH=$HOME/bin:$PATH gpushare registry log | said "journal of --user-unit main.service"
gpushare registry stop | said "stopped: pid $pid served $GPUSHARE_DIR"
until [ "$(systemctl --user show main -p SubState --value)" = dead ]; do sleep 0.05; done
systemctl --user show main -p Result --value | said success
'
}
