#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# registry.conf, as an administrator and the users meet it.
load helpers

# conf LINE...: a file of them, and a registry that has read it
conf() {
	printf '%s\n' "$@" >"$WORK/registry.conf"
	chmod 644 "$WORK/registry.conf"
}

serve() {
	no_registry_yet
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" "$@"
	await_file "$GPUSHARE_DIR/registry.sock"
}

kill_registry() {
	local pid
	for pid in $(registry_pids); do
		kill -KILL "$pid"
		until_true has_ended "$pid"
	done
}

# sample SERIES: its value
sample() {
	gpushare metrics | awk -v series="$1" '$1 == series { print $2; found = 1 } END { exit !found }'
}

@test "a limit of each user is refused with its key, told by metrics, and the rest goes on" {
	conf 'user_names = 2' 'user_tags = 1 # each'
	serve
	start owner "$BIN/api_app" open alloc=a,one,1Mi alloc=b,two,1Mi alloc=c,three,1Mi touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(grep -c E_LIMIT "$WORK/owner.out")" 1
	has "$(cat "$WORK/owner.err")" "2 names are shared, which is all that this registry takes of one user (user_names in registry.conf)"
	gpushare tag one k=v
	run -1 --separate-stderr gpushare tag two k=v
	has "$stderr" user_tags
	equal "$(sample 'gpushare_limits_reached_total{limit="user_names"}')" 1
	equal "$(sample 'gpushare_limits_reached_total{limit="user_tags"}')" 1
	equal "$(sample 'gpushare_limits_reached_total{limit="names"}')" 0
	equal "$(sample 'gpushare_drops_total{why="silent"}')" 0
	equal "$(sample 'gpushare_audit_lines_total{outcome="written"}')" 0
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

@test "one that takes over after a kill has read the same file, if that is there, and its own successor" {
	conf 'user_names = 1'
	cd "$WORK"
	no_registry_yet
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --config registry.conf # relative, as it may be
	await_file "$GPUSHARE_DIR/registry.sock"
	start owner "$BIN/api_app" open alloc=a,one,1Mi touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	for _ in first second; do
		kill_registry
		run api open alloc=b,two,1Mi
		has "$output" E_LIMIT
	done
	kill_registry
	rm "$WORK/registry.conf"
	has "$(api open alloc=b,two,1Mi)" "alloc two: OK"
}

@test "a file whose place can't be told to a successor: the reason is said" {
	chmod 755 "$WORK"
	mkdir -p "$WORK/above/below"
	cp "$(command -v gpushare-registry)" "$WORK/daemon"
	echo 'user_names = 1' >"$WORK/above/below/registry.conf"
	as=()
	if [ "$(id -u)" = 0 ]; then
		needs setpriv
		as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
		chown -R 65534:65534 "$WORK/above"
	fi
	cd "$WORK/above/below"
	chmod 0 "$WORK/above"
	run "${as[@]}" "$WORK/daemon" --check-config --foreground --config registry.conf </dev/null
	cd "$WORK"
	chmod 700 "$WORK/above"
	has "$output" "a successor can't be told where registry.conf is: Permission denied"
	equal "$status" 0
}

@test "faults: file, line and column, exit status 2, and no registry" {
	conf 'names = 5' '  nmaes = 5' 'names = 6' 'audit = nowhere'
	for more in "" --check-config; do
		# shellcheck disable=SC2086 # none is no word
		run -2 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" $more
		equal "$stderr" "$WORK/registry.conf:2:3: \"nmaes\" is no key; did you mean \"names\"?
$WORK/registry.conf:3:1: names comes twice; line 1 has it already
$WORK/registry.conf:4:9: audit wants off, journal, an absolute path, or a file's name that ends in .log: 'nowhere'"
		equal "$output" ""
	done
	no_registry_yet
	[ ! -e "$GPUSHARE_DIR/registry.sock" ]
	run -2 --separate-stderr gpushare-registry --check-config --config "$WORK/none"
	equal "$stderr" "gpushare-registry: can't use $WORK/none: No such file or directory"
	run -1 --separate-stderr sh -c 'gpushare-registry --check-config >/dev/full'
}
