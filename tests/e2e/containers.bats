#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Processes in their own pid, ipc, mount and user namespaces share only the registry's directory.
load helpers

setup_more() {
	local flags
	for flags in -Urmpif -mpif; do
		if unshare $flags --mount-proc true 2>/dev/null; then
			NAMESPACES=$flags
			return
		fi
	done
	skip "unshare(1) is not allowed here"
}

# in_container PROGRAM...: run PROGRAM as pid 1 of a container. The registry's directory is /mnt; $WORK is hidden.
in_container() {
	# shellcheck disable=SC2016 # the inner shell's
	exec unshare "$NAMESPACES" --kill-child --mount-proc sh -c '
		mount --make-rprivate / && mount --bind "$1" /mnt && mount -t tmpfs none "$2" &&
			mount -t tmpfs none /dev/shm || exit 90
		shift 2
		GPUSHARE_DIR=/mnt exec "$@"' sh "$GPUSHARE_DIR" "$WORK" "$@"
}

# contained TAG PROGRAM...: like start(), in a container. PID is the pid of unshare; the container ends with it.
contained() {
	start "$1" in_container "${@:2}"
}

# inside PROGRAM...: run PROGRAM in a container and wait for its end
inside() {
	(in_container "$@" </dev/null)
}

# Two places for the registry: the host, or pid 1 of a container, where it has no pids for processes outside.
start_outside() {
	start registry gpushare-registry --foreground --dir "$GPUSHARE_DIR"
	until_true answers
}

# The socket's file appears before the registry listens.
answers() {
	[ "$(GPUSHARE_AUTOSTART=0 "$BIN/api_app" open </dev/null 2>/dev/null)" = "open: OK" ]
}

start_inside() {
	contained registry gpushare-registry --foreground --dir /mnt
	until_true answers
}

# The processes synchronize by files in the registry's directory, the only one that all of them see.
shares_and_attaches() {
	needs jq
	contained owner "$BIN/api_app" open make=a,vmm,2Mi,vmm fill=a,7 make=b,ro,2Mi,readonly fill=b,7 \
		make=c,kept,2Mi,keep fill=c,7 touch=/mnt/up await=/mnt/end
	owner=$PID
	await_file "$GPUSHARE_DIR/up"
	equal "$(inside "$BIN/api_app" open attach=a,vmm byte=a,5 put=a,6,200 attach=b,ro byte=b,5 put=b,5,1 \
		attach=c,kept byte=c,5 detach=a 2>/dev/null)" "open: OK
attach vmm: OK
byte a: 42
put a: OK
attach ro: OK
read-only
byte b: 42
put b: E_READ_ONLY
attach kept: OK
byte c: 42
detach a: OK"
	equal "$(api open attach=a,vmm byte=a,6)" "open: OK
attach vmm: OK
byte a: 200"
	equal "$(inside env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=vmm:must "$BIN/drv_linked" init alloc=a,2Mi byte=a,6)" \
		"init: 0
alloc a: 0
byte a: 200"
	contained attacher "$BIN/api_app" open attach=a,vmm touch=/mnt/attached await=/mnt/end
	await_file "$GPUSHARE_DIR/attached"
	attachers_are vmm 1
	kill -KILL "$PID"
	until_true attachers_are vmm 0
	kill -KILL "$owner"
	kept_is_left() { [ "$(names)" = "kept 2097152" ] && [ "$(shown kept owner_alive)" = false ]; }
	until_true kept_is_left
	equal "$(inside "$BIN/api_app" open attach=c,kept byte=c,5 unlink=kept)" "open: OK
attach kept: OK
byte c: 42
unlink kept: OK"
	nothing_named
}

@test "the registry outside: owner and attacher in containers; kills are seen" {
	start_outside
	shares_and_attaches
}

@test "the registry in a container: the others' pids mean nothing to it, their connections do" {
	start_inside
	shares_and_attaches
}

@test "a program of rules in a container names its buffers, and they go with it" {
	start_inside
	contained owner env LD_PRELOAD="$PRELOAD" GPUSHARE_NAME=ipc,vmm:vmm,kept:keep "$BIN/drv_linked" init alloc=a,2Mi \
		fill=a,7 alloc=b,2Mi fill=b,7 alloc=c,2Mi fill=c,7 free=c touch=/mnt/up await=/mnt/end
	await_file "$GPUSHARE_DIR/up"
	equal "$(names)" "ipc 2097152
kept 2097152
vmm 2097152"
	equal "$(api open attach=b,vmm byte=b,5 attach=c,kept byte=c,5)" "open: OK
attach vmm: OK
byte b: 42
attach kept: OK
byte c: 42"
	kill -KILL "$PID"
	until_true names_are "kept 2097152"
}

@test "a process that the registry can't see knows its own buffers, and takes nobody's of the same pid for them" {
	start_inside
	words=(open alloc=a,ipc%,2Mi fill=a,7 make=r,ro%,2Mi,readonly attach=b,ipc% same=a,b attach=s,ro% put=s,5,1)
	want="open: OK
alloc ipc%: OK
fill a: OK
make ro%: OK
attach ipc%: OK
same: yes
attach ro%: OK
put s: OK"
	contained one "$BIN/api_app" "${words[@]//%/1}" touch=/mnt/up await=/mnt/end
	await_file "$GPUSHARE_DIR/up"
	equal "$(cat "$WORK/one.out")" "${want//%/1}"
	# This process is pid 1 of its container, like the owner of ro1. The registry is in a third container.
	equal "$(inside "$BIN/api_app" "${words[@]//%/2}" attach=x,ro1 put=x,5,1 2>/dev/null)" "${want//%/2}
attach ro1: OK
read-only
put x: E_READ_ONLY"
	run -0 --separate-stderr inside "$BIN/api_app" open make=r,ro1,2Mi,readonly
	equal "$output" "open: OK
make ro1: E_EXISTS"
}

# CUDA identifies the process that exported a handle by its pid in its own namespace.
@test "buffers of cudaMalloc: whose owner has the same pid is refused, and why is said" {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = gpu ] || skip "the simulated driver finds an IPC handle's owner in /dev/shm"
	start_inside
	contained owner "$BIN/api_app" open alloc=a,ipc,2Mi fill=a,7 touch=/mnt/up await=/mnt/end
	await_file "$GPUSHARE_DIR/up"
	run -0 --separate-stderr inside "$BIN/api_app" open attach=a,ipc
	equal "$output" "open: OK
attach ipc: E_NOT_SUPPORTED"
	has "$stderr" "it has the same pid, 1, in another container"
	run --separate-stderr inside env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=ipc:must GPUSHARE_LOG=stderr "$BIN/drv_linked" \
		init alloc=a,2Mi
	has "$output" "alloc a: 201"
	has "$stderr" "who has the same pid in another container"
	equal "$(shown ipc attachers)" 0
}

@test "buffers of cudaMalloc, too, cross containers" {
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = gpu ] || skip "the simulated driver finds an IPC handle's owner by its pid"
	start_inside
	contained owner "$BIN/api_app" open alloc=a,ipc,2Mi fill=a,7 touch=/mnt/up await=/mnt/end
	await_file "$GPUSHARE_DIR/up"
	behind=(sh -c '"$@"; exit' sh) # another pid than 1
	equal "$(inside "${behind[@]}" "$BIN/api_app" open attach=a,ipc byte=a,5)" "open: OK
attach ipc: OK
byte a: 42"
	equal "$(inside "${behind[@]}" env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=ipc:must "$BIN/drv_linked" init alloc=a,2Mi byte=a,5)" \
		"init: 0
alloc a: 0
byte a: 42"
}

made_inside() {
	[ "$(inside "$BIN/api_app" open make=a,vmm,2Mi,vmm)" = "open: OK
make vmm: OK" ]
}

@test "what starts by itself in a container serves the others as well, and ends with the container" {
	contained first "$BIN/api_app" open make=a,vmm,2Mi,vmm fill=a,7 touch=/mnt/up await=/mnt/end
	first=$PID
	await_file "$GPUSHARE_DIR/up"
	equal "$(inside "$BIN/api_app" open attach=a,vmm byte=a,5)" "open: OK
attach vmm: OK
byte a: 42"
	kill_now "$first"
	# Here nothing_named starts a new registry, on the host. The container's pids mean nothing to that registry: a
	# session whose end it can't see has 30 s to reconnect.
	PATIENCE_S=45 until_true nothing_named
	PATIENCE_S=45 until_true made_inside # in another user namespace it went unseen: that is another user's
}

@test "a registry that is killed leaves those whom the next one can't see a moment to come back" {
	export GPUSHARE_AUTOSTART=0
	start_inside
	first=$PID
	begin owner "$BIN/api_app" open make=a,vmm,2Mi,vmm fill=a,7 touch="$WORK/up" await="$WORK/go" list \
		touch="$WORK/again" await="$WORK/end"
	owner=$PID
	kill_now "$first"
	rm "$GPUSHARE_DIR/registry.sock"
	start_inside
	equal "$(names)" "vmm 2097152"
	resume go again
	equal "$(api open attach=a,vmm byte=a,5 | tail -n 1)" "byte a: 42"
	kill -KILL "$owner"
	until_true nothing_named
}

# pid_of PATTERN: the pid, on the host, of the process whose command line matches PATTERN
pid_of() {
	grep -lsaP "^$1" /proc/[0-9]*/cmdline | cut -d / -f 3
}

stays_no_more() {
	! names | grep -q stays
}

@test "a registry outside after one in a container: who is in there still has a moment to come back" {
	needs jq
	# A registry in another user namespace records other uids. No process on the host can prove to be one of those,
	# so owners reconnect.
	! unshare -mpif --mount-proc true 2>/dev/null || NAMESPACES=-mpif
	[[ $NAMESPACES != *U* ]] || skip "without root a container is another user namespace, whose uids mean nothing outside"
	export GPUSHARE_AUTOSTART=0
	# shellcheck disable=SC2016 # the inner shell's
	contained box sh -c '
		gpushare-registry --foreground --dir /mnt &
		until [ -e /mnt/registry.sock ]; do sleep 0.05; done
		for name in dies stays; do
			"$0" open make=a,$name,2Mi,vmm fill=a,7 touch=/mnt/$name await=/mnt/go list touch=/mnt/again "await=$1" &
		done
		wait' "$BIN/api_app" "$WORK/end"
	for name in dies stays; do await_file "$GPUSHARE_DIR/$name"; done
	dies=$(pid_of "\Q$BIN\E/api_app\x00open\x00make=a,dies,.*\Q$WORK\E/end")
	stays=$(pid_of "\Q$BIN\E/api_app\x00open\x00make=a,stays,.*\Q$WORK\E/end")
	equal "$(shown stays owner_pid)" "$(sed -n 's/^NSpid:.*\t//p' "/proc/$stays/status")"
	registry=$(cat "$GPUSHARE_DIR/registry.lock") # its own pid, in there
	registry=$(grep -lsP "^NSpid:\t.*\t$registry$" /proc/[0-9]*/status | cut -d / -f 3 |
		while read -r pid; do ! cmp -s "/proc/$pid/comm" <(echo gpushare-regist) || echo "$pid"; done)
	for pid in $registry "$dies"; do kill -KILL "$pid"; done
	for pid in $registry "$dies"; do until_true is_over "$pid"; done
	rm "$GPUSHARE_DIR/registry.sock"
	start_outside
	equal "$(names)" "dies 2097152
stays 2097152" # nobody knows yet
	touch "$GPUSHARE_DIR/go"
	await_file "$GPUSHARE_DIR/again"
	equal "$(shown stays owner_pid)" "$stays"
	equal "$(api open attach=a,stays byte=a,5 | tail -n 1)" "byte a: 42"
	kill -KILL "$stays"
	until_true stays_no_more
}
