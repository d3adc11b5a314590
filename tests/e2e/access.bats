#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registry for all users, and users: what each may do with whose buffers. Needs root, who becomes them.
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

# as UID COMMAND...: OWNER and MEMBER are in the group TEAM. A program, so that it is what it starts.
as() {
	"$WORK/as" "$@" </dev/null
}

# serve [OPTION...]: the daemon, by root
serve() {
	start registry "$WORK/bin/gpushare-registry" --dir "$GPUSHARE_DIR" --system --foreground "$@"
	REGISTRY=$PID
	await_file "$GPUSHARE_DIR/registry.sock"
	until_true [ "$(stat -c %a "$GPUSHARE_DIR/registry.sock")" != 600 ]
}

# owner TAG WORDS...: OWNER's api_app in the background, until it has touched up
owner() {
	rm -f "$WORK/home/up" "$WORK/home/go"
	start "$1" "$WORK/as" "$OWNER" api_app open "${@:2}" touch="$WORK/home/up" await="$WORK/home/go"
	await_file "$WORK/home/up"
}

@test "the directory and the sockets are open to all, and to nobody who would write there" {
	serve
	equal "$(stat -c '%a %u' "$GPUSHARE_DIR")" "1755 0"
	for socket in registry fds events; do
		until_true equal "$(stat -c %a "$GPUSHARE_DIR/$socket.sock")" 666 >/dev/null
	done
	for file in registry.lock generation; do
		equal "$(stat -c %a "$GPUSHARE_DIR/$file")" 600
	done
	equal "$(as "$OTHER" gpushare ls | wc -l)" 1
}

@test "a group's registry: its members and nobody else" {
	serve --group "$TEAM"
	equal "$(stat -c '%a %g' "$GPUSHARE_DIR")" "1750 $TEAM"
	equal "$(stat -c '%a %g' "$GPUSHARE_DIR/registry.sock")" "660 $TEAM"
	as "$MEMBER" gpushare ls
	run -1 as "$OTHER" gpushare ls
	has "$output" "Permission denied"
	run -1 "$WORK/bin/gpushare-registry" --dir "$WORK/t" --system --group no-such-group
	has "$output" "no group 'no-such-group'"
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
		"belongs to uid $OWNER, its mode is 0640, and uid $MEMBER may read it alone; attach it read-only"
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
	has "$output" "belongs to uid $OWNER, who alone, or root, may unlink it"
	gpushare rm w
}

@test "who may write writes; a handle is not given to who may but read" {
	serve
	owner all make=a,w,2Mi,vmm+mode:666 fill=a,7 raw=r,2Mi share=s,i,r,0,4096,mode:644
	has "$(as "$OTHER" api_app open attach=a,w put=a,0,5 byte=a,0)" "attach w: OK"
	has "$(as "$OTHER" api_app open attach=a,i,0,r)" "attach i: E_DENIED"
	has "$(as "$OTHER" api_app open attach=a,i,0,r 2>&1)" "cudaMalloc memory"
}

@test "rules say so too: mode, group, and readonly of who attaches" {
	serve
	start owner "$WORK/as" "$OWNER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_NAME="w:vmm:mode=640:group=$TEAM" \
		drv_linked init alloc=a,2Mi fill=a,7 touch="$WORK/home/up" await="$WORK/home/go"
	await_file "$WORK/home/up"
	equal "$(gpushare ls --json | jq -r '.[] | .mode + " " + (.owner_gid | tostring)')" "0640 $TEAM"
	run -0 --separate-stderr as "$MEMBER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_ATTACH=w \
		drv_linked init alloc=a,2Mi
	has "$stderr" "may read it alone"
	run -0 --separate-stderr as "$MEMBER" env LD_PRELOAD="$WORK/bin/libgpushare_shim.so" GPUSHARE_ATTACH=w:readonly \
		drv_linked init alloc=a,2Mi byte=a,9
	equal "$stderr" ""
	equal "$(as "$OWNER" env GPUSHARE_NAME=x LD_PRELOAD="$WORK/bin/libgpushare_shim.so" drv_linked init alloc=a,2Mi)" \
		"$(as "$OWNER" drv_linked init alloc=a,2Mi)"
}

@test "a restart keeps whose it is" {
	serve
	owner team make=a,w,2Mi,keep+mode:640+group:$TEAM fill=a,7
	kill -KILL "$REGISTRY"
	until_true has_ended "$REGISTRY"
	serve
	equal "$(gpushare ls --json | jq -r '.[] | .mode + " " + (.owner_gid | tostring) + " " + (.owner_uid | tostring)')" \
		"0640 $TEAM $OWNER"
	has "$(as "$MEMBER" api_app open attach=a,w,0,r)" "attach w: OK"
	has "$(as "$OTHER" api_app open attach=a,w,0,r)" "attach w: E_NOT_FOUND"
}

@test "who waits for a name is not woken by another one's" {
	serve
	start waits "$WORK/as" "$OTHER" api_app open attach=a,w,1500
	sleep 0.3
	owner mine make=a,w,2Mi,vmm
	finish "$PID" || true
	wait "${STARTED[1]}" || true
	has "$(cat "$WORK/waits.out")" "attach w: E_TIMED_OUT"
}

@test "users of a user's registry are that user alone, whatever the modes say" {
	export GPUSHARE_DIR=$WORK/r
	chown "$OWNER" "$GPUSHARE_DIR"
	start own "$WORK/as" "$OWNER" gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	await_file "$GPUSHARE_DIR/registry.sock"
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
	has "$output" "others than root may write to the directory above it"
	as "$OWNER" chmod 1755 "$GPUSHARE_DIR"
	run -1 as "$OTHER" gpushare ls
	has "$output" "others than root may write to the directory above it"
	as "$OWNER" ln -s "$WORK/sys" "$WORK/open/link"
	serve_at=$WORK/sys
	GPUSHARE_DIR=$serve_at serve
	GPUSHARE_DIR=$WORK/open/link run -1 as "$OTHER" gpushare ls
	has "$output" "symbolic link"
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
	kill -KILL "$service"
	until_true has_ended "$service"
	run -1 as "$OTHER" gpushare ls
	has "$output" "its administrator starts it"
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
	until_true grep -q "watch: uid $OTHER" "$WORK/registry.err"
	owner all make=a,secret,2Mi,vmm make=b,team,2Mi,vmm+mode:640+group:$TEAM make=c,open,2Mi,vmm+mode:604 make=d,wide,2Mi,vmm+mode:666
	until_true grep -q wide "$WORK/watch.out"
	kill "$watch"
	equal "$(jq -r '.kind + " " + .buffer.name' "$WORK/watch.out")" "share open
share wide"
	equal "$(jq -s '.[1].serial - .[0].serial' "$WORK/watch.out")" 1
}

@test "a set-uid program looks at nothing of its caller's environment" {
	program=$WORK/suid/a/b/gpushare # where no ../bin is
	install -d -m 755 "${program%/*}"
	install -m 4755 -o "$MEMBER" "$BUILD/gpushare" "$program"
	! findmnt -no OPTIONS -T "$WORK/suid" | grep -q nosuid || skip "no set-uid programs on this file system"
	printf '#!/bin/sh\ntouch %s/started\n' "$WORK/home" >"$WORK/bin/evil"
	chmod 755 "$WORK/bin/evil"
	serve
	run -1 as "$OTHER" env GPUSHARE_REGISTRY="$WORK/bin/evil" XDG_RUNTIME_DIR="$WORK/home" \
		GPUSHARE_DIR="$GPUSHARE_DIR" "$program" ls
	rmdir "/tmp/gpushare-$MEMBER" 2>/dev/null || true
	has "$output" "/tmp/gpushare-$MEMBER"
	has "$output" "gpushare-registry was not found"
	[ ! -e "$WORK/home/started" ] && [ ! -e "$WORK/home/gpushare" ]
	as "$OTHER" env "$WORK/bin/gpushare" ls # which is none
}
