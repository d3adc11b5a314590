#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# registry.conf, as administrators and users see it.
load helpers

# conf LINE...: write these lines to registry.conf
conf() {
	printf '%s\n' "$@" >"$WORK/registry.conf"
	chmod 644 "$WORK/registry.conf"
}

serve() {
	no_registry_yet
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" "$@"
	await_file "$GPUSHARE_DIR/registry.sock"
}

# sample SERIES: the value of SERIES in the metrics
sample() {
	gpushare metrics | awk -v series="$1" '$1 == series { print $2; found = 1 } END { exit !found }'
}

@test "a limit of each user is refused with its key, told by metrics, and the rest goes on" {
	conf 'user_names = 2' 'user_tags = 1 # each'
	serve
	up owner "$BIN/api_app" open alloc=a,one,1Mi alloc=b,two,1Mi alloc=c,three,1Mi
	equal "$(grep -c E_LIMIT "$WORK/owner.out")" 1
	has "$(cat "$WORK/owner.err")" "2 names are shared, which is the limit for one user (user_names in registry.conf)"
	gpushare tag one k=v
	run -1 --separate-stderr gpushare tag two k=v
	has "$stderr" user_tags
	equal "$(sample 'gpushare_limits_reached_total{limit="user_names"}')" 1
	equal "$(sample 'gpushare_limits_reached_total{limit="user_tags"}')" 1
	equal "$(sample 'gpushare_limits_reached_total{limit="names"}')" 0
	equal "$(sample 'gpushare_drops_total{why="silent"}')" 0
	equal "$(sample 'gpushare_audit_lines_total{outcome="written"}')" 0
}

@test "a watcher too many is refused, and audited" {
	conf 'user_watchers = 1' 'audit = audit.log'
	serve
	start watch gpushare watch
	until_true grep -qs watching "$WORK/watch.err"
	run -1 --separate-stderr gpushare watch
	has "$stderr" "user_watchers in registry.conf"
	until_true grep -qE "subscribe uid=$(id -u) pid=[0-9]+ command=\"gpushare\" outcome=E_LIMIT" "$GPUSHARE_DIR/audit.log"
	equal "$(sample 'gpushare_limits_reached_total{limit="user_watchers"}')" 1
}

# turned_away COUNT: have more than COUNT waits for a name been refused?
turned_away() {
	[ "$(sample 'gpushare_limits_reached_total{limit="user_waiters"}')" -gt "$1" ]
}

@test "a wait for a name that the registry has no room for goes on, and gets the name" {
	[ "${SANITIZE:-}" != thread ] || skip "the thread sanitizer is in no program that is preloaded"
	local api app before
	conf 'user_waiters = 1'
	serve
	start waiter "$BIN/api_app" open attach=a,nobody,60000
	until_true waiters 1
	start api "$BIN/api_app" open attach=a,one,60000
	until_true turned_away 0
	up owner "$BIN/api_app" open alloc=a,one,1Mi
	finish api
	has "$(cat "$WORK/api.out")" "attach one: OK"
	down
	before=$(sample 'gpushare_limits_reached_total{limit="user_waiters"}')
	start app env LD_PRELOAD="$PRELOAD" GPUSHARE_ATTACH=two:wait=60:must "$BIN/drv_linked" init alloc=a,1Mi
	until_true turned_away "$before"
	up owner "$BIN/api_app" open alloc=a,two,1Mi
	finish app
	has "$(cat "$WORK/app.out")" "alloc a: 0"
}

@test "a limit that is lowered over a restart: what is there stays, and may become less" {
	conf 'user_tags = 4'
	serve
	api open make=a,k,1Mi,keep alloc=b,w,1Mi
	gpushare tag k a=1 b=2 c=3 d=4
	kill_registry
	conf 'user_tags = 1' 'user_kept_bytes = 1Mi'
	# After a second without a registry, the keeper has started one, which reads another file.
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" --replace
	until_true serves "$PID"
	has "$(api open make=a,more,1Mi,keep 2>&1)" "user_kept_bytes in registry.conf" # k counts
	equal "$(gpushare tag k | wc -l)" 4
	gpushare tag k a=5 -b
	equal "$(gpushare tag k | tr '\n' ' ')" "a=5 c=3 d=4 "
	run -1 --separate-stderr gpushare tag k e=5
	has "$stderr" "user_tags in registry.conf"
}

@test "what the command line says goes before what the file says" {
	conf 'kept_bytes = 1Gi' 'idle_exit_s = 100'
	run -0 gpushare-registry --check-config --config "$WORK/registry.conf" --keep-limit 4096
	has "$output" "kept_bytes = 4096"
	has "$output" "idle_exit_s = 100"
	run -0 gpushare-registry --idle-exit 7 --check-config --config "$WORK/registry.conf"
	has "$output" "kept_bytes = 1073741824"
	has "$output" "idle_exit_s = 7"
}

@test "faults: file, line and column, exit status 2, and no registry" {
	conf 'names = 5' '  nmaes = 5' 'names = 6' 'audit = nowhere'
	for more in "" --check-config; do
		# shellcheck disable=SC2086 # none is no word
		run -2 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" $more
		equal "$stderr" "$WORK/registry.conf:2:3: \"nmaes\" is not a key; did you mean \"names\"?
$WORK/registry.conf:3:1: names is already set in line 1
$WORK/registry.conf:4:9: audit wants off, journal, an absolute path, or a file's name that ends in .log: 'nowhere'"
		equal "$output" ""
	done
	no_registry_yet
	[ ! -e "$GPUSHARE_DIR/registry.sock" ]
	run -2 --separate-stderr gpushare-registry --check-config --config "$WORK/none"
	equal "$stderr" "gpushare-registry: can't use $WORK/none: No such file or directory"
	run -1 --separate-stderr sh -c 'gpushare-registry --check-config >/dev/full'
}

# faults TEXT: check a file with exactly these bytes (printf escapes) by --check-config; $stderr has its complaints
faults() {
	# shellcheck disable=SC2059 # it is a format, so that it can have any byte
	printf "$1" >"$WORK/f"
	chmod 644 "$WORK/f"
	run -2 --separate-stderr gpushare-registry --check-config --config "$WORK/f"
	equal "$output" ""
	stderr=${stderr//$WORK\/f/f}
}

# settings TEXT: the settings in effect with such a file, in $output
settings() {
	# shellcheck disable=SC2059
	printf "$1" >"$WORK/f"
	chmod 644 "$WORK/f"
	run -0 --separate-stderr gpushare-registry --check-config --config "$WORK/f"
	equal "$stderr" ""
}

@test "values, comments and units" {
	settings ''
	defaults=$output
	has "$defaults" "user_connections = 10000"
	has "$defaults" "audit = off"
	settings '\n\n# names = \303\244\n   \t\n #names = 3'
	equal "$output" "$defaults"
	settings 'names=7\n\tuser_names =\t 64Ki # so many\nkept_bytes = 2T\nuser_tags = 1M\nidle_exit_s = 0\naudit = /a b#c.log  # there'
	for line in "names = 7" "user_names = 65536" "kept_bytes = 2000000000000" "user_tags = 1000000" "audit = /a b#c.log"; do
		grep -qxF "$line" <<<"$output"
	done
	all=$output
	settings "$all\n" # what is printed is a file that says the same
	equal "$output" "$all"
	for line in 'audit = registry.log' 'audit = journal' 'names = 9007199254740992' 'names = 8Ti' 'user_kept_bytes = 0'; do
		settings "$line"
	done
}

@test "each fault says where it is" {
	while IFS='|' read -r text sentence; do
		faults "$text"
		[[ $stderr == "$sentence"* && $stderr != *$'\n'* ]] || { echo "$text: $stderr"; false; }
	done <<-'END'
		nmaes = 1|f:1:1: "nmaes" is not a key; did you mean "names"?
		\n  zzzzzzzz = 1|f:2:3: "zzzzzzzz" is not a key; registry.conf(5)
		names = 1\nx\nuser_names = 1|f:2:2: '=' is missing
		names = 1\n\nnames = 1|f:3:1: names is already set in line 1
		names = 0|f:1:9: names wants a number from 1 to
		names =   -1|f:1:11: names wants
		names =|f:1:8: names wants
		names = 1 2|f:1:9: names wants
		names = 1k|f:1:9: names wants
		names = 1Kib|f:1:9: names wants
		names = 9007199254740993|f:1:9: names wants
		names = 99999999999999999999999999|f:1:9: names wants
		names = 16777217Ti|f:1:9: names wants
		silent_s = 3601|f:1:12: silent_s wants a number from 1 to 3600
		message_bytes = 1Ki|f:1:17: message_bytes wants a number from 8192
		= 1|f:1:1: "" is not a key
		names = 1\r\n|f:1:10: byte 0x0d is not plain text
		names = \033[2J|f:1:9: byte 0x1b is not plain text
		n\303\244mes = 1|f:1:2: byte 0xc3 is not plain text
		names = 1\0|f:1:10: byte 0x00 is not plain text
		audit =#.log|f:1:8: audit wants off, journal, an absolute path
		audit=/%01016d|f:1:7: audit wants at most 1016 bytes
		audit =|f:1:8: audit wants off, journal, an absolute path
		audit = registry.state|f:1:9: audit wants off
		audit = a/b.log|f:1:9: audit wants off
		audit = .log|f:1:9: audit wants off
		audit = Journal|f:1:9: audit wants off
	END
	faults 'a = 1\nb = 2\nnames = x'
	equal "$(lines "$stderr")" 3
	faults "$(printf 'x\\n%.0s' {1..30})"
	equal "$(lines "$stderr")" 20
}

@test "a line has at most 1024 bytes" {
	long=$(printf 'x%.0s' {1..1015})
	settings "audit = /$long"
	has "$output" "audit = /$long"
	faults "audit = /${long}x\n"
	equal "$stderr" "f:1:1025: the line is longer than 1024 bytes"
}

@test "no link, no fifo, no folder; for root, no file that others can write to" {
	use() { run -2 gpushare-registry --check-config --config "$WORK/$1"; }
	conf 'names = 5'
	ln -s registry.conf "$WORK/link"
	use link
	has "$output" "it is a symbolic link"
	use r
	has "$output" "not a regular file"
	mkfifo "$WORK/fifo"
	use fifo
	has "$output" "not a regular file"
	[ "$(id -u)" = 0 ] || return 0
	chmod 664 "$WORK/registry.conf"
	use registry.conf
	has "$output" "users other than root may write"
	chmod 602 "$WORK/registry.conf"
	use registry.conf
	chmod 644 "$WORK/registry.conf"
	chown 4711 "$WORK/registry.conf"
	use registry.conf
	has "$output" "it does not belong to root"
}
