#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry for all users: what each user may do with the buffers of others. Needs root, to run commands as them.
load helpers

OWNER=41001 MEMBER=41002 OTHER=65534 TEAM=41500

setup_more() {
	[ "$(id -u)" = 0 ] || skip "only root becomes other users"
	needs setpriv
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}${EMULATOR:-}" ] || skip "instruments and emulators stay this user's"
	needs_sim # whose device memory any user can open
	chmod 755 "$WORK"
	cp -r "$BUILD/sim" "$WORK/sim"
	mkdir "$WORK/bin" "$WORK/home"
	cp "$BUILD"/gpushare "$BUILD"/gpushare-attach "$BUILD"/gpushare-registry "$BUILD"/libgpushare.so.0 \
		"$BUILD"/libgpushare_shim.so "$BIN"/api_app "$BIN"/drv_linked "$WORK/bin"
	export LD_LIBRARY_PATH=$WORK/sim:$WORK/bin
	chmod 1777 "$WORK/home"
	chmod -R a+rX "$WORK/bin" "$WORK/sim"
	export GPUSHARE_DIR=$WORK/sys
	cat >"$WORK/as" <<-END
		#!/bin/bash
		groups=(--clear-groups)
		[ "\$1" = "$OTHER" ] || groups=(--groups "$TEAM")
		exec setpriv --reuid "\$1" --regid "\$1" "\${groups[@]}" --inh-caps=-all env HOME="$WORK/home" \
			PATH="$WORK/bin:\$PATH" "\${@:2}"
	END
	chmod 755 "$WORK/as"
}

# as UID COMMAND...: run COMMAND as UID; OWNER and MEMBER are in the group TEAM. $WORK/as is a program that execs
# COMMAND, so its pid is COMMAND's.
as() {
	"$WORK/as" "$@" </dev/null
}

# serve [OPTION...]: start the registry as root
serve() {
	rm -f "$WORK/registry.err" # of one before
	start registry "$WORK/bin/gpushare-registry" --dir "$GPUSHARE_DIR" --system --foreground "$@"
	REGISTRY=$PID
	until_true grep -qs serving "$WORK/registry.err" # a socket may be that of one before
	until_true [ "$(stat -c %a "$GPUSHARE_DIR/registry.sock")" != 600 ]
}

# owner TAG WORDS...: start OWNER's api_app in the background and wait until it has touched "up"
owner() {
	rm -f "$WORK/home/up" "$WORK/home/go"
	start "$1" "$WORK/as" "$OWNER" api_app open "${@:2}" touch="$WORK/home/up" await="$WORK/home/go"
	await_file "$WORK/home/up"
}

@test "the directory and the sockets are open to all, and to nobody who would write there" {
	serve
	equal "$(stat -c '%a %u' "$GPUSHARE_DIR")" "1755 0"
	for socket in registry fds; do
		until_true equal "$(stat -c %a "$GPUSHARE_DIR/$socket.sock")" 666 >/dev/null
	done
	for file in registry.lock; do
		equal "$(stat -c %a "$GPUSHARE_DIR/$file")" 600
	done
	equal "$(as "$OTHER" gpushare ls | wc -l)" 1
}

@test "without --dir it serves /run/gpushare/system" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	# shellcheck disable=SC2016 # the inner shell's
	run -0 --separate-stderr env -u GPUSHARE_DIR timeout 30 unshare -m sh -c '
		mount -t tmpfs none /run && mkdir -m 755 /run/gpushare && exec "$1" --system --foreground --idle-exit 1' sh "$WORK/bin/gpushare-registry"
	has "$stderr" "serving /run/gpushare/system/registry.sock"
}

@test "a group's registry: its members and nobody else" {
	serve --group "$TEAM"
	equal "$(stat -c '%a %g' "$GPUSHARE_DIR")" "1750 $TEAM"
	equal "$(stat -c '%a %g' "$GPUSHARE_DIR/registry.sock")" "660 $TEAM"
	as "$MEMBER" gpushare ls
	run -1 as "$OTHER" gpushare ls
	has "$output" "Permission denied"
	for group in no-such-group 12x 4294967295 99999999999999999999; do
		run -1 "$WORK/bin/gpushare-registry" --dir "$WORK/t" --system --group "$group"
		has "$output" "no group '$group'"
	done
	run -2 "$WORK/bin/gpushare-registry" --dir "$WORK/t" --group "$TEAM"
}

@test "what is nobody else's nobody else sees" {
	serve
	owner mine make=a,secret,2Mi,vmm fill=a,7
	for user in "$MEMBER" "$OTHER"; do
		equal "$(as "$user" gpushare ls --json | jq length)" 0
		equal "$(as "$user" gpushare stat --json | jq .names)" 0
		for verb in "stat secret" "rm secret" "tag secret k=v"; do
			# shellcheck disable=SC2086 # its words
			run -1 as "$user" gpushare $verb
			has "$output" 'no buffer is named "secret"'
		done
		has "$(as "$user" api_app open attach=a,secret)" "attach secret: E_NOT_FOUND"
		has "$(as "$user" api_app open attach=a,secrets)" "attach secrets: E_NOT_FOUND"
		has "$(as "$user" api_app open alloc=a,secret,4096)" "alloc secret: E_EXISTS"
		run -1 as "$user" gpushare-attach secret
	done
	equal "$(as "$OWNER" gpushare ls --json | jq -r '.[].name')" secret
	equal "$(gpushare ls --json | jq -r '.[] | .name + " " + .mode + " " + (.owner_uid | tostring)')" \
		"secret 0600 $OWNER" # root sees all
	has "$(as "$OWNER" api_app open attach=a,secret byte=a,9)" "attach secret: OK"
}

@test "who may read reads, and is told what he may not" {
	serve
	owner team make=a,w,2Mi,vmm+mode:640+group:$TEAM fill=a,7
	has "$(as "$MEMBER" api_app open attach=a,w)" "attach w: E_DENIED"
	has "$(as "$MEMBER" api_app open attach=a,w 2>&1)" \
		"belongs to uid $OWNER, its mode is 0640, and uid $MEMBER may only read it; attach it read-only"
	equal "$(as "$MEMBER" api_app open attach=a,w,0,r byte=a,9 put=a,0,5)" "$(
		as "$OWNER" api_app open attach=a,w,0,r byte=a,9 put=a,0,5)"
	has "$(as "$MEMBER" api_app open attach=a,w,0,r put=a,0,5)" "E_READ_ONLY"
	has "$(as "$OTHER" api_app open attach=a,w,0,r)" "attach w: E_NOT_FOUND"
	as "$MEMBER" gpushare-attach w >"$WORK/dump"
	equal "$(stat -c %s "$WORK/dump")" 2097152
	as "$MEMBER" gpushare stat w >"$WORK/stat"
	grep -q "^rights: *rw-r----- $OWNER:$TEAM" "$WORK/stat"
	as "$MEMBER" gpushare ls | grep -q "rw-r----- $OWNER:$TEAM"
	run -1 as "$MEMBER" gpushare rm w
	has "$output" "belongs to uid $OWNER; only that user or root may unlink it"
	run -1 as "$MEMBER" gpushare tag w k=v
	has "$output" "only that user or root may tag it"
	gpushare rm w
}

@test "who may write writes; a handle is not given to who may but read" {
	serve
	owner all make=a,w,2Mi,vmm+mode:666 fill=a,7 raw=r,2Mi share=s,i,r,0,4096,mode:644
	has "$(as "$OTHER" api_app open attach=a,w put=a,0,5 byte=a,0)" "attach w: OK"
	has "$(as "$OTHER" api_app open attach=a,i,0,r)" "attach i: E_DENIED"
	has "$(as "$OTHER" api_app open attach=a,i,0,r 2>&1)" "cudaMalloc memory"
}

@test "a mode or group that can't be is refused, and nothing is shared" {
	serve
	while IFS='|' read -r words sentence; do
		has "$(as "$OWNER" api_app open make=a,w,2Mi,vmm+"$words" 2>&1)" "$sentence"
	done <<-END
		mode:700|mode 0700 is invalid
		mode:10000|use only read and write bits
		mode:660+group:no-such-group|no group 'no-such-group'
		mode:660+group:12x|no group '12x'
		mode:660+group:4294967295|no group
		mode:660+group:501|not in the group '501'
		mode:660+group:root|not in the group 'root'
	END
	equal "$(gpushare ls --json | jq length)" 0
	has "$(api open make=a,w,2Mi,keep+mode:660+group:501)" "make w: OK" # root may name any group
	has "$(api open make=a,x,2Mi,keep+mode:660+group:tty)" "make x: OK"
	equal "$(gpushare ls --json | jq -r '.[].owner_gid' | xargs)" "501 $(getent group tty | cut -d : -f 3)"
}

@test "what is kept is its user's: nobody else replaces, adopts or unlinks it" {
	serve
	for mode in 600 604; do
		as "$OWNER" api_app open make=a,k,2Mi,keep+mode:$mode
		for words in keep keep+adopt; do
			has "$(as "$OTHER" api_app open make=a,k,2Mi,$words)" "make k: E_EXISTS"
		done
		run -1 as "$OTHER" gpushare rm k
		equal "$(gpushare ls --json k | jq -r '.[] | (.owner_uid | tostring) + " " + (.owner_alive | tostring)')" \
			"$OWNER false"
	done
}

@test "rules say so too: mode, group, and readonly of who attaches" {
	serve
	start owner "$WORK/as" "$OWNER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_NAME="w:vmm:mode=640:group=$TEAM" \
		drv_linked init alloc=a,2Mi fill=a,7 touch="$WORK/home/up" await="$WORK/home/go"
	await_file "$WORK/home/up"
	equal "$(gpushare ls --json | jq -r '.[] | .mode + " " + (.owner_gid | tostring)')" "0640 $TEAM"
	run -0 --separate-stderr as "$MEMBER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_ATTACH=w \
		GPUSHARE_LOG=stderr drv_linked init alloc=a,2Mi
	has "$stderr" "may only read it"
	run -0 --separate-stderr as "$MEMBER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_ATTACH=w:readonly \
		drv_linked init alloc=a,2Mi byte=a,9
	equal "$stderr" ""
	equal "$(as "$OWNER" env GPUSHARE_NAME=x LD_PRELOAD="$WORK/bin/libgpushare_shim.so" drv_linked init alloc=a,2Mi)" \
		"$(as "$OWNER" drv_linked init alloc=a,2Mi)"
}

@test "a restart keeps whose it is" {
	serve
	owner team make=a,w,2Mi,keep+mode:640+group:$TEAM fill=a,7
	kill_now "$REGISTRY"
	serve
	equal "$(gpushare ls --json | jq -r '.[] | .mode + " " + (.owner_gid | tostring) + " " + (.owner_uid | tostring)')" \
		"0640 $TEAM $OWNER"
	has "$(as "$MEMBER" api_app open attach=a,w,0,r)" "attach w: OK"
	has "$(as "$OTHER" api_app open attach=a,w,0,r)" "attach w: E_NOT_FOUND"
}

@test "who waits is told no more than others, and the audit tells of it" {
	echo 'audit = audit.log' >"$WORK/conf"
	serve --config "$WORK/conf"
	start hidden "$WORK/as" "$OTHER" api_app open attach=a,w,60000
	hidden=$PID
	start denied "$WORK/as" "$MEMBER" api_app open attach=a,w,20000
	denied=$PID
	waiting() { equal "$(gpushare stat --json | jq .waiters)" 2 >/dev/null; }
	until_true waiting
	owner mine make=a,w,2Mi,vmm+mode:640+group:$TEAM
	finish "$denied" || true
	has "$(cat "$WORK/denied.out")" "attach w: E_DENIED"
	until_true grep -q "^[^ ]* attach uid=$MEMBER .* name=\"w\" outcome=E_DENIED" "$WORK/sys/audit.log"
	until_true grep -qE "^[^ ]* (attach|lookup) uid=$OTHER .* name=\"w\" outcome=E_DENIED why=\"the peer waits" "$WORK/sys/audit.log"
	count=$(gpushare stat --json | jq .hidden)
	[ "$count" -ge 1 ]
	refute has_ended "$hidden" # another one's name does not wake it
	kill -KILL "$hidden"
	has "$(as "$OTHER" api_app open attach=a,w,300)" "attach w: E_TIMED_OUT" # it stands already
	[ "$(gpushare stat --json | jq .hidden)" -gt "$count" ]
	gpushare metrics | grep -q '^gpushare_hidden_total [1-9]'
	equal "$(as "$OTHER" gpushare stat --json | jq .hidden)" 0
}

@test "each user is told of his own sums, and the administrator of all" {
	echo 'user_descriptors = 2' >"$WORK/conf"
	serve --config "$WORK/conf"
	owner mine make=a,k1,2Mi,keep make=b,k2,2Mi,keep
	has "$(as "$OWNER" api_app open make=c,k3,2Mi,keep 2>&1)" "user_descriptors in registry.conf"
	equal "$(as "$OWNER" gpushare stat --json | jq -c '[.kept_bytes, .descriptors, .connections]')" "[4194304,2,2]"
	equal "$(as "$OTHER" gpushare stat --json | jq -c '[.kept_bytes, .descriptors, .connections]')" "[0,0,1]"
	equal "$(gpushare stat --json | jq -c '[.kept_bytes, .descriptors, .connections]')" "[4194304,2,2]"
	gpushare metrics | grep -q '^gpushare_limits_reached_total{limit="user_descriptors"} [1-9]'
	as "$OWNER" gpushare metrics | grep -q '^gpushare_limits_reached_total{limit="user_descriptors"} [1-9]'
	as "$OTHER" gpushare metrics | grep -q '^gpushare_limits_reached_total{limit="user_descriptors"} 0'
	requests='^gpushare_requests_total{verb="share"}'
	gpushare metrics | grep -q "$requests [1-9]"
	as "$OWNER" gpushare metrics | grep -q "$requests [1-9]"
	as "$OTHER" gpushare metrics | grep -q "$requests 0"
	has "$(as "$OTHER" api_app open make=a,mine,2Mi,keep)" "make mine: OK"
}

@test "events have modes and groups, and who opens one may record it" {
	serve
	owner events evmake=a,secret evmake=b,team,0,660,$TEAM evmake=c,seen,0,664,$TEAM evrecord=b
	equal "$("$WORK/bin/api_app" open evopen=a,team evrecord=a evwait=a evhost=a,1000)" "open: OK
evopen team: OK
evrecord a: OK
evwait a: OK
evhost a: OK"
	# The registry grants access. Then the simulated driver fails, because it can't look into another user's
	# process.
	has "$(as "$MEMBER" api_app open evopen=a,team 2>&1)" "cuIpcOpenEventHandle answered CUDA_ERROR_OPERATING_SYSTEM"
	for user in "$MEMBER" "$OTHER"; do
		has "$(as "$user" api_app open evopen=a,secret)" "evopen secret: E_NOT_FOUND"
	done
	has "$(as "$OTHER" api_app open evopen=a,team)" "evopen team: E_NOT_FOUND"
	has "$(as "$OTHER" api_app open evopen=a,seen 2>&1)" "an event can't be opened for reading only"
	equal "$(as "$OTHER" gpushare events --json | jq -c '[.[] | [.name, .mode]]')" '[["seen","0664"]]'
	equal "$(as "$MEMBER" gpushare events --json | jq -r '.[].name' | paste -sd ' ')" "seen team"
	has "$(as "$OTHER" api_app open evmake=a,x,0,660,$TEAM 2>&1)" "is not in the group"
	has "$(as "$OWNER" api_app open evmake=a,x,0,777 2>&1)" "E_INVALID"
}

@test "what is saved is restored with its rights, or with others" {
	serve
	owner set make=a,s/team,2Mi,keep+mode:640+group:$TEAM make=b,s/own,2Mi,keep make=c,s/all,2Mi,keep+mode:666 fill=a,7
	rights() { as "$OWNER" gpushare ls --json 's/*' | jq -r '.[] | .name + " " + .mode + " " + (.owner_gid | tostring)'; }
	rights >"$WORK/before"
	mkdir -m 777 "$WORK/home/save"
	as "$OWNER" gpushare-attach 's/*' -o "$WORK/home/save/set"
	equal "$(jq -r '.buffers[] | .name + " " + .mode + " " + (.group // "-")' "$WORK/home/save/set/manifest.json" | sort)" \
		"s/all 0666 -
s/own 0600 -
s/team 0640 $TEAM"
	none() { for name in team own all; do gpushare rm s/$name || return; done; }
	touch "$WORK/home/go"
	until_true has_ended "$PID"
	none
	as "$OWNER" gpushare-attach --restore "$WORK/home/save/set"
	rights | cmp "$WORK/before" -
	none
	# A user outside the group gets an error, and nothing is restored in part.
	run -1 as "$OTHER" gpushare-attach --restore "$WORK/home/save/set"
	has "$output" "is not in the group '$TEAM'"
	equal "$(gpushare ls --json | jq length)" 0
	as "$OTHER" gpushare-attach --restore "$WORK/home/save/set" --mode 604 s/team
	equal "$(gpushare ls --json | jq -r '.[] | .mode + " " + (.owner_gid | tostring)')" "0604 $OTHER"
	has "$(as "$OWNER" api_app open attach=a,s/team,0,r)" "attach s/team: OK"
	gpushare rm s/team
	as "$OWNER" gpushare-attach --restore "$WORK/home/save/set/s%2Fown.bin" one --mode 660 --group "$TEAM"
	equal "$(gpushare ls --json | jq -r '.[] | .mode + " " + (.owner_gid | tostring)')" "0660 $TEAM"
	has "$(as "$MEMBER" api_app open attach=a,one)" "attach one: OK"
	misused '' "as $OWNER gpushare-attach" "--mode 640 one" "--group $TEAM one" "--restore x --mode 0" \
		"--restore x --mode 1777" "--restore x --mode rw"
	run -2 as "$OWNER" gpushare put "$WORK/before" one --mode 640
}

@test "users of a user's registry are that user alone, whatever the modes say" {
	export GPUSHARE_DIR=$WORK/r
	chown "$OWNER" "$GPUSHARE_DIR"
	start own "$WORK/as" "$OWNER" gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	await_file "$GPUSHARE_DIR/registry.sock"
	equal "$(stat -c %a "$GPUSHARE_DIR"/*.sock)" $'600\n600'
	run -1 as "$OTHER" gpushare ls
	has "$output" "Permission denied; use a directory of your own, such as GPUSHARE_DIR="
	run -1 as "$OTHER" gpushare doctor
	has "$output" "next: use a directory of your own"
	[[ $output != *chmod* ]]
	run -1 gpushare ls # nor root
	has "$output" "belongs to uid $OWNER"
	chmod 711 "$GPUSHARE_DIR"
	chmod 666 "$GPUSHARE_DIR"/*.sock
	run -1 as "$OTHER" gpushare ls
}

@test "a directory that another user could have put there is not trusted" {
	mkdir "$WORK/open"
	chmod 1777 "$WORK/open"
	as "$OWNER" mkdir "$WORK/open/fake"
	export GPUSHARE_DIR=$WORK/open/fake
	run -1 as "$OWNER" gpushare-registry --dir "$GPUSHARE_DIR" --system
	has "$output" "users other than root may write to the directory above it"
	as "$OWNER" chmod 1755 "$GPUSHARE_DIR"
	run -1 as "$OTHER" gpushare ls
	has "$output" "users other than root may write to the directory above it"
	as "$OWNER" ln -s "$WORK/sys" "$WORK/open/link"
	serve_at=$WORK/sys
	GPUSHARE_DIR=$serve_at serve
	GPUSHARE_DIR=$WORK/open/link run -1 as "$OTHER" gpushare ls
	has "$output" "symbolic link"
}

# is_told UID SUMS: `gpushare stat` shows UID these numbers of descriptors and connections
is_told() {
	[ "$(as "$1" gpushare stat --json | jq -c '[.descriptors, .connections]')" = "$2" ]
}

@test "a service user's registry is trusted where root has put its directory; what answers must be his" {
	mkdir "$WORK/sys"
	chown "$MEMBER" "$WORK/sys"
	start service "$WORK/as" "$MEMBER" gpushare-registry --dir "$GPUSHARE_DIR" --system --foreground
	service=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	until_true as "$OTHER" gpushare ls >/dev/null
	owner all make=a,w,2Mi,vmm+mode:666
	has "$(as "$OTHER" api_app open attach=a,w)" "attach w: OK"
	equal "$(as "$MEMBER" gpushare ls --json | jq length)" 1 # it is 0666
	# The registry's own user sees the sums of all users, but only the names that other users see too.
	until_true is_told "$MEMBER" "[1,2]" # the programs before are gone
	until_true is_told "$OTHER" "[0,1]"
	kill_now "$service"
	run -1 as "$OTHER" gpushare ls
	has "$output" "an administrator must start one"
}

@test "no ticket, handle or lease is in what the registry logs" {
	serve
	owner all make=a,w,2Mi,keep+mode:666 raw=r,2Mi share=s,i,r,0,4096,mode:666
	as "$OTHER" api_app open attach=a,w attach=b,i attach=c,none >/dev/null || true
	as "$OTHER" gpushare rm w || true
	touch "$WORK/home/go"
	until_true has_ended "$PID"
	as "$OWNER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_LOG="$WORK/home/shim.log" \
		GPUSHARE_NAME='v:vmm:nth=1,i:nth=2' GPUSHARE_ATTACH='none:nth=3' \
		drv_linked init alloc=a,2Mi alloc=b,2Mi alloc=c,2Mi >/dev/null
	[ "$(wc -l <"$WORK/registry.err")" -gt 5 ]
	[ "$(wc -l <"$WORK/home/shim.log")" -ge 2 ]
	run -1 grep -aiE '[0-9a-f]{16}|0x[0-9a-f]{6}' "$WORK/registry.err" "$WORK/home/shim.log"
}

@test "who watches hears of what he may see, and counts that alone" {
	serve
	start watch "$WORK/as" "$OTHER" gpushare watch --json
	watch=$PID
	until_true grep -qs watching "$WORK/watch.err"
	owner all make=a,secret,2Mi,vmm make=b,team,2Mi,vmm+mode:640+group:$TEAM make=c,open,2Mi,vmm+mode:604 make=d,wide,2Mi,vmm+mode:666
	until_true grep -q wide "$WORK/watch.out"
	kill "$watch"
	equal "$(jq -r '.kind + " " + .buffer.name' "$WORK/watch.out")" "share open
share wide"
	equal "$(jq -s '.[1].serial - .[0].serial' "$WORK/watch.out")" 1
}

@test "a folder that others could write to is refused" {
	refused() { # WORDS [FOLDER]
		run -1 "$WORK/bin/gpushare-registry" --dir "${2:-$GPUSHARE_DIR}" --system
		has "$output" "$1"
	}
	for mode in 775 757; do
		mkdir "$GPUSHARE_DIR"
		chmod "$mode" "$GPUSHARE_DIR"
		refused "has mode $mode"
		equal "$(stat -c %a "$GPUSHARE_DIR")" "$mode"
		rmdir "$GPUSHARE_DIR"
	done
	mkdir "$GPUSHARE_DIR"
	chown 12345 "$GPUSHARE_DIR"
	refused "belongs to uid 12345"
	ln -s sys "$WORK/link"
	refused "can't open $WORK/link to other users" "$WORK/link"
	refused "No such file or directory" "$WORK/none/none"
}

@test "gpushare node: others get what its user may read, and of the rest it is said that there is none" {
	serve
	owner mine make=a,secret,2Mi,vmm make=b,open,2Mi,vmm+mode:644 fill=b,7
	start node "$WORK/as" "$OTHER" gpushare node --listen tcp://127.0.0.1:0 --trusted-network lo
	until_true grep -qs 'listening on' "$WORK/node.err"
	node=$(sed -n 's/.*listening on //p' "$WORK/node.err")
	bytes=$(as "$OTHER" gpushare get open | sha256sum)
	mkdir -m 700 "$WORK/r2"
	export GPUSHARE_DIR=$WORK/r2 GPUSHARE_SAME_HOST=0 # on one host a puller also has its own rights
	gpushare pull "$node:open"
	equal "$(gpushare get open | sha256sum)" "$bytes"
	run -1 --separate-stderr gpushare pull "$node:secret"
	has "$stderr" "no buffer is named \"secret\""
	gpushare rm open
	gpushare pull "$node:*"
	equal "$(gpushare ls -q)" open
	gpushare registry stop --force
}
