#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `gpushare watch` and gpushare_watch(): notices about buffers for subscribers.
load helpers

# watching TAG ARGUMENT...: start gpushare watch; its notices are in $WORK/TAG.out, PID is its pid
watching() {
	start "$1" gpushare watch "${@:2}"
	until_true grep -qs "watching" "$WORK/$1.err"
}

# told TAG: "KIND NAME" of each notice, one a line
told() {
	awk '{ print $2, $3 }' "$WORK/$1.out"
}

tells() {
	[ "$(told "$1")" = "$2" ]
}

# await_told TAG LINES: wait until the notices are exactly LINES
await_told() {
	until_true tells "$1" "$2" || equal "$(told "$1")" "$2"
}

has_told() {
	grep -q "$2" "$WORK/$1.out"
}

# act NAME WORD...: start api_app with these words; it then waits for $WORK/end
act() {
	begin "$1" "$BIN/api_app" open "${@:2}" touch="$WORK/$1.up" await="$WORK/end"
}

# No client is connected. /proc/net/unix shows the connections that the registry has accepted.
nobody_connected() {
	[ "$(awk -v "path=$GPUSHARE_DIR/registry.sock" '$6 == "03" && $8 == path' /proc/net/unix | wc -l)" = 0 ]
}

@test "an ipc buffer's life, in order: share, attach, detach, withdraw, deferred, remove" {
	watching w
	begin_named app x "$BIN/rt_app_static" init alloc=a,4Mi touch="$WORK/up" await="$WORK/go" free=a \
		touch="$WORK/freed" await="$WORK/end"
	app=$PID
	api open attach=a,x detach=a >/dev/null
	begin holder "$BIN/api_app" open attach=a,x touch="$WORK/held" await="$WORK/leave" detach=a
	holder=$PID
	resume go freed
	touch "$WORK/leave"
	finish "$holder"
	down "$app"
	await_told w "share x
attach x
detach x
attach x
deferred x
detach x
remove x"
	equal "$(awk '$2 == "share" || $2 == "deferred"' "$WORK/w.out" | grep -c "  pid=$app  size=4194304  owner=rt_app_static\[$app\]")" 2
	has "$(awk '$2 == "deferred"' "$WORK/w.out")" "attachments=1"
	has "$(awk '$2 == "attach"' "$WORK/w.out" | tail -n 1)" "  pid=$holder  "
}

@test "a free that nobody minds, and an end: withdraw, owner-gone" {
	watching w
	api open alloc=a,one,1Mi free=a >/dev/null
	act app alloc=a,two,1Mi
	kill -KILL "$PID"
	await_told w "share one
withdraw one
share two
owner-gone two"
	equal "$(grep -c "pid=$PID " "$WORK/w.out")" 2
}

@test "what is kept: owner-gone, adopted, replaced, its time over, unlinked" {
	watching w
	api open make=a,k,2Mi,keep free=a >/dev/null
	await_told w "share k
owner-gone k"
	has "$(tail -n 1 "$WORK/w.out")" "kept,owner-gone"
	api open make=a,k,2Mi,keep+adopt free=a | grep adopted
	api open make=a,k,4Mi,keep free=a >/dev/null
	gpushare rm k
	api open make=a,t,2Mi,keep+ttl:1 free=a >/dev/null
	await_told w "share k
owner-gone k
share k
owner-gone k
remove k
share k
owner-gone k
unlink k
share t
owner-gone t
expire t"
	equal "$(awk '$3 == "k" { print $4 }' "$WORK/w.out" | uniq | wc -l)" 2
}

has_published() {
	[ "$(awk '$2 == "publish"' "$WORK/w.out" | wc -l)" -ge "$1" ]
}

@test "publish: once a second at most, how far it is and how fast, and no more when it stands" {
	watching w ring
	start producer "$BIN/api_order" produce ring 2 100000000 host
	producer=$PID
	until_true has_published 4
	halt "$producer"
	told_last() { has_told w " published=$(gpushare stat ring | sed -n 's/^published: *\([0-9]*\).*/\1/p') "; }
	until_true told_last # what was published in the last second is told once more
	seen=$(wc -l <"$WORK/w.out")
	says_no_more() { [ "$(wc -l <"$WORK/w.out")" = "$seen" ]; }
	stays 2500 says_no_more
	kill -KILL "$producer"
	until_true has_told w "owner-gone  *ring "
	equal "$(told w | uniq)" "share ring
publish ring
owner-gone ring"
	# Each rate must match what was published since the previous line, within the errors of clocks and rounding.
	awk '$2 == "publish" {
		split($1, t, ":"); now = t[1] * 3600 + t[2] * 60 + t[3]
		split($0, p, "published="); at = p[2] + 0; split($0, r, "rate="); rate = r[2] + 0
		if (now < before) now += 86400 # midnight
		if (lines++ && (now < before + 0.9 || at <= last || rate * (now - before) < (at - last) / 2 ||
			rate * (now - before) > 2 * (at - last))) bad = $0
		before = now; last = at
	} END { if (bad) print bad; exit bad != "" }' "$WORK/w.out"
}

@test "an unlink says who did it; a GLOB leaves out the rest" {
	watching w 'kv/*'
	act app alloc=a,kv/1,1Mi alloc=b,other,1Mi
	start rm gpushare rm kv/1
	rm=$PID
	finish "$rm"
	gpushare rm other
	await_told w "share kv/1
unlink kv/1"
	has "$(tail -n 1 "$WORK/w.out")" "  pid=$rm  "
	equal "$(cat "$WORK/w.err")" "gpushare: watching kv/*"
}

@test "--json: an object a line, as it happens" {
	watching w --json
	act app alloc=a,x,1Mi
	until_true has_told w share
	equal "$(jq -r '"\(.kind) \(.pid) \(.lost) \(.buffer.name) \(.buffer.size) \(.buffer.owner_pid) \(.buffer.backing)"' \
		"$WORK/w.out")" "share $PID 0 x 1048576 $PID ipc"
	began=$(jq .unix_ns "$WORK/w.out")
	[ $(($(date +%s) - began / 1000000000)) -le $((20 + SLACK_MS / 1000)) ]
	gpushare rm x
	until_true has_told w unlink
	equal "$(jq -s 'map(.serial) | .[1] - .[0]' "$WORK/w.out")" 1
}

@test "it ends by --count, SIGINT and SIGTERM with 0, and when its reader goes" {
	api open >/dev/null
	watching counted --count 3
	counted=$PID
	watching first
	first=$PID
	watching second
	second=$PID
	start piped bash -c "gpushare watch 2>'$WORK/piped.watch' | head -n 1"
	until_true grep -qs watching "$WORK/piped.watch"
	api open alloc=a,x,1Mi free=a alloc=a,y,1Mi free=a >/dev/null
	finish "$counted"
	equal "$(told counted)" "share x
withdraw x
share y"
	finish piped
	kill -INT "$first"
	finish "$first"
	kill -TERM "$second"
	finish "$second"
	equal "$(lines "$(told first)")" 4
	equal "$(told second)" "$(told first)"
	until_true nobody_connected
}

@test "what it does not understand, and where there is no registry" {
	no_registry_yet
	run -2 --separate-stderr gpushare watch --count 0
	has "$stderr" "--count wants a number of 1 or more"
	run -2 --separate-stderr gpushare watch a b
	run -2 --separate-stderr gpushare watch --deferred
	GPUSHARE_AUTOSTART=0 run -1 --separate-stderr gpushare watch
	has "$stderr" "autostart is off"
	run -0 gpushare watch --help
	has "$output" "usage: gpushare watch [--count N]"
	equal "$(registry_pids)" ""
}

@test "one that is stopped delays nobody, loses the oldest, and is told how many" {
	watching slow
	slow=$PID
	watching quick
	halt "$slow"
	# Each batch is smaller than the queue of a quick subscriber. All batches together exceed a socket's buffer and
	# the queue. One process sends them all, to be quick: the registry disconnects a subscriber that does not read
	# for a minute.
	local words=() all=() i
	for ((i = 0; i < 240; i++)); do words+=(alloc="a,x,64Ki" free=a); done
	for ((i = 0; i < 10; i++)); do
		all+=("${words[@]}" alloc="a,p$i,64Ki" free=a await="$WORK/go.$i")
	done
	start app "$BIN/api_app" open "${all[@]}" alloc=a,last,64Ki free=a
	local app=$PID
	for ((i = 0; i < 10; i++)); do
		until_true has_told quick "withdraw  *p$i "
		touch "$WORK/go.$i"
	done
	finish "$app"
	until_true has_told quick "withdraw  *last "
	kill -CONT "$slow"
	until_true has_told slow "withdraw  *last "
	equal "$(awk '$2 == "lost"' "$WORK/quick.out")" ""
	equal "$(awk '$2 == "lost" { n++; lost += $3 } END { print n, (lost > 0) }' "$WORK/slow.out")" "1 1"
	# The slow subscriber's lost and received notices add up to those of the quick one, and both end the same.
	equal "$(awk '$2 == "lost" { n += $3 } $2 != "lost" { n++ } END { print n }' "$WORK/slow.out")" \
		"$(wc -l <"$WORK/quick.out")"
	equal "$(tail -n 500 "$WORK/slow.out")" "$(tail -n 500 "$WORK/quick.out")"
}

@test "a hundred watchers hear the same; none is left behind" {
	local pids=() i
	for ((i = 0; i < 100; i++)); do
		start "w$i" gpushare watch --count 40
		pids+=("$PID")
	done
	for ((i = 0; i < 100; i++)); do until_true grep -qs watching "$WORK/w$i.err"; done
	local words=()
	for ((i = 0; i < 20; i++)); do words+=(alloc="a,x$i,64Ki" free=a); done
	took_ms api open "${words[@]}" >/dev/null
	echo "20 buffers, 100 watchers: $TOOK_MS ms"
	for i in "${pids[@]}"; do finish "$i"; done
	for ((i = 1; i < 100; i++)); do cmp "$WORK/w0.out" "$WORK/w$i.out"; done
	equal "$(lines "$(told w0)")" 40
	until_true nobody_connected
}

@test "watchers that are killed leave nothing behind" {
	api open >/dev/null
	local i
	for ((i = 0; i < 5; i++)); do
		watching w
		kill -KILL "$PID"
		rm "$WORK/w.err"
	done
	until_true nobody_connected
	watching w
	api open alloc=a,x,1Mi free=a >/dev/null
	await_told w "share x
withdraw x"
}

@test "the registry is killed: the watch goes on with the next one, and says so" {
	watching w
	watch=$PID
	act app alloc=a,x,1Mi
	await_told w "share x"
	files=$(find "/proc/$watch/fd" | wc -l)
	kill -KILL "$(registry_pids)"
	until_true nobody_connected
	stays 300 runs "$watch" # without a registry: what it takes of the CPU is looked at below
	api open >/dev/null
	until_true has_told w restart
	api open alloc=a,y,1Mi free=a >/dev/null
	await_told w "share x
restart 
share y
withdraw y"
	touch "$WORK/end"
	until_true has_told w "owner-gone  x"
	[ "$(find "/proc/$watch/fd" | wc -l)" -le "$files" ]
	# The watch must not poll for a registry in a busy loop: ten seconds of that would show in its CPU time.
	read -ra stat <"/proc/$watch/stat"
	[ $((stat[13] + stat[14])) -le 50 ]
}

@test "the registry is replaced: nothing is missed afterwards" {
	no_registry_yet
	start old gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	until_true grep -qs serving "$WORK/old.err"
	watching w
	act app alloc=a,x,1Mi
	await_told w "share x" # the old registry does not wait for its watchers
	start new gpushare-registry --dir "$GPUSHARE_DIR" --replace --foreground
	finish old
	until_true has_told w restart
	api open alloc=a,y,1Mi free=a >/dev/null
	await_told w "share x
restart 
share y
withdraw y"
	touch "$WORK/end"
}

@test "one that leaves when idle stays for its watchers, and goes after them" {
	no_registry_yet
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --foreground
	registry=$PID
	until_true grep -qs serving "$WORK/registry.err"
	watching w
	watch=$PID
	api open make=a,k,2Mi,keep >/dev/null
	kill -KILL "$registry"
	until_true has_ended "$registry" # it has the lock until then
	# The kept buffer keeps the successor running until the watch has found it.
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --foreground --idle-exit 1
	registry=$PID
	until_true has_told w restart # its lease is not made again: it has nothing to be told of
	gpushare rm k
	stays 3000 runs "$registry"
	kill -INT "$watch"
	finish "$watch"
	finish "$registry"
	[ ! -e "$GPUSHARE_DIR/registry.sock" ]
}

@test "no file descriptor, no room: said in a line" {
	[ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] || skip "instruments say lines of their own then"
	api open >/dev/null
	for limit in 4 5 6 7; do
		run -1 --separate-stderr bash -c "for fd in {3..63}; do eval \"exec \$fd>&-\"; done
			ulimit -n $limit; exec gpushare watch"
		equal "$(lines "$stderr")" 1
	done
	until_true nobody_connected
}
