#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The audit: its lines in a file and in the journal, and what the registry does if it can't write them.
load helpers

# serve OPTION... -- LINE...: start a registry with these lines in its registry.conf
serve() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	printf '%s\n' "$@" >"$WORK/registry.conf"
	chmod 644 "$WORK/registry.conf"
	no_registry_yet
	start registry gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" "${options[@]}"
	await_file "$GPUSHARE_DIR/registry.sock"
}

# sample OUTCOME: the number of audit lines with that outcome, from the metrics
sample() {
	gpushare metrics | awk -v series="gpushare_audit_lines_total{outcome=\"$1\"}" '$1 == series { print $2; found = 1 } END { exit !found }'
}

# The audit lines without times; pids and generations are replaced by N.
plain() {
	sed -E 's/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z //; s/(pid|generation)=[0-9]+/\1=N/g' "$@"
}

# refused_to_start LINE SENTENCE: with LINE in registry.conf, the registry exits with SENTENCE on stderr
refused_to_start() {
	echo "$1" >"$WORK/registry.conf"
	run -1 --separate-stderr gpushare-registry --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf"
	has "$stderr" "$2"
	[ ! -e "$GPUSHARE_DIR/registry.sock" ]
}

@test "a line for each share, attach, refusal and removal; a renamed file is closed on SIGHUP" {
	serve --foreground -- 'audit = audit.log'
	up owner "$BIN/api_app" open alloc=a,weights,1Mi
	begin other "$BIN/api_app" open attach=w,weights touch="$WORK/has" await="$WORK/end"
	until_true grep -q '^[^ ]* attach ' "$GPUSHARE_DIR/audit.log"
	equal "$(stat -c %a "$GPUSHARE_DIR/audit.log")" 600
	mv "$GPUSHARE_DIR/audit.log" "$WORK/before.log"
	kill -HUP "$(registry_pids)"
	await_file "$GPUSHARE_DIR/audit.log"
	api open alloc=x,weights,1Mi attach=n,none alloc=b,brief,2Mi >/dev/null 2>&1
	gpushare rm weights
	until_true grep -q ' outcome=unlinked' "$GPUSHARE_DIR/audit.log"
	equal "$(plain "$WORK/before.log" "$GPUSHARE_DIR/audit.log" | sed 's/ why=.*/ why/')" \
		"share uid=$UID pid=N command=\"api_app\" name=\"weights\" generation=N size=1048576 outcome=ok
attach uid=$UID pid=N command=\"api_app\" name=\"weights\" generation=N size=1048576 outcome=ok
share uid=$UID pid=N command=\"api_app\" name=\"weights\" size=1048576 outcome=E_EXISTS why
share uid=$UID pid=N command=\"api_app\" name=\"brief\" generation=N size=2097152 outcome=ok
remove uid=$UID pid=N command=\"api_app\" name=\"brief\" generation=N size=2097152 outcome=owner_gone
remove uid=$UID pid=N command=\"gpushare\" name=\"weights\" generation=N size=1048576 outcome=unlinked"
	grep -q 'E_EXISTS why="\\x22weights\\x22 is taken by pid [0-9]* (api_app)' "$GPUSHARE_DIR/audit.log"
	equal "$(sample written)" 6
	equal "$(sample lost)" 0
	mv "$GPUSHARE_DIR/audit.log" "$WORK/after.log"
	mkdir "$GPUSHARE_DIR/audit.log"
	kill -HUP "$(registry_pids)"
	until_true grep -q "can't open $GPUSHARE_DIR/audit.log again: Is a directory; the audit continues" "$WORK/registry.err"
	api open alloc=y,later,1Mi >/dev/null
	until_true grep -q 'name="later"' "$WORK/after.log"
}

@test "what a program calls itself ends no quotes" {
	serve -- 'audit = audit.log'
	cp "$BIN/api_app" "$WORK/a\" \\b"
	LD_LIBRARY_PATH=$BUILD:$LD_LIBRARY_PATH "$WORK/a\" \\b" open alloc=a,w,1Mi </dev/null >/dev/null
	until_true grep -q owner_gone "$GPUSHARE_DIR/audit.log"
	grep -qF ' command="a\x22 \x5cb" name="w" ' "$GPUSHARE_DIR/audit.log"
}

@test "lines beyond a user's rate are left out, and a line says how many" {
	serve -- 'audit = audit.log' 'audit_rate = 10'
	up owner "$BIN/api_app" open alloc=a,w,1Mi
	words=()
	for ((i = 0; i < 100; i++)); do words+=(alloc=x,w,1Mi); done
	api open "${words[@]}" >/dev/null 2>&1
	accounted() {
		[ "$(awk '/ left_out / { sub(/.*count=/, ""); n += $1; next } / E_EXISTS |=E_EXISTS/ { n++ } END { print n }' "$GPUSHARE_DIR/audit.log")" = 100 ]
	}
	until_true accounted # nothing else happens: the registry says it by itself
	grep -qE " left_out uid=$UID count=[0-9]+$" "$GPUSHARE_DIR/audit.log"
	written=$(grep -c E_EXISTS "$GPUSHARE_DIR/audit.log")
	[ "$written" -ge 5 ]
	[ "$written" -le 50 ]
	equal "$(sample left_out)" $((100 - written))
}

@test "a user beyond its rate costs the registry no time" {
	serve -- 'audit = audit.log' 'audit_rate = 1'
	spent() { awk '{ print $14 + $15 }' "/proc/$(registry_pids)/stat"; } # in 1/100 s
	api open alloc=a,w,1Mi alloc=b,w,1Mi alloc=c,w,1Mi >/dev/null 2>&1
	before=$(spent)
	until_true grep -q left_out "$GPUSHARE_DIR/audit.log"
	[ $(($(spent) - before)) -lt 20 ]
}

@test "a full disk fails nobody, and is reported" {
	serve --foreground -- 'audit = /dev/full'
	equal "$(api open alloc=a,x,1Mi attach=w,x)" "open: OK
alloc x: OK
attach x: OK"
	gpushare ls >/dev/null
	until_true grep -q "the audit can't be written: No space left on device; lines are lost" "$WORK/registry.err"
	[ "$(sample lost)" -ge 2 ]
	equal "$(sample written)" 0
}

@test "a disk that is full for a while: later lines are whole" {
	[ "$(id -u)" = 0 ] || skip "a file system of its own needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	# shellcheck disable=SC2016 # the inner shell's
	BIN=$BIN WORK=$WORK unshare -m bash -c '
		mkdir "$WORK/disk" && mount -t tmpfs -o size=16k none "$WORK/disk" || exit 77
		echo "audit = $WORK/disk/audit.log" >"$WORK/registry.conf"
		head -c 15000 /dev/zero >"$WORK/disk/fill"
		gpushare-registry --foreground --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf" </dev/null 2>"$WORK/registry.err" 3>&- 8>&- &
		for ((i = 0; i < 500; i++)); do [ ! -S "$GPUSHARE_DIR/registry.sock" ] || break; sleep 0.02; done
		for ((i = 0; i < 20; i++)); do "$BIN/api_app" open alloc=a,w,1Mi; done
		rm "$WORK/disk/fill"
		"$BIN/api_app" open alloc=a,last,1Mi
		for ((i = 0; i < 500; i++)); do ! grep -q "name=.last.*owner_gone" "$WORK/disk/audit.log" || break; sleep 0.02; done
		cp "$WORK/disk/audit.log" "$WORK/copy.log"
		kill %1' </dev/null >/dev/null || { [ $? = 77 ] && skip "no file system of its own"; false; }
	grep -q "No space left on device" "$WORK/registry.err"
	grep -qE '^[0-9T:.-]+Z share .* name="last" .* outcome=ok$' "$WORK/copy.log"
}

@test "an audit that can't be opened: the registry doesn't start" {
	no_registry_yet
	ln -s "$WORK/target" "$GPUSHARE_DIR/audit.log"
	refused_to_start 'audit = audit.log' "it is a symbolic link"
	[ ! -e "$WORK/target" ]
	rm "$GPUSHARE_DIR/audit.log"
	refused_to_start 'audit = /nowhere/at/all.log' "can't write the audit to /nowhere/at/all.log: No such file"
	refused_to_start "audit = $WORK" "Is a directory"
	: >"$WORK/one"
	chmod 600 "$WORK/one"
	ln "$WORK/one" "$WORK/two"
	refused_to_start "audit = $WORK/two" "without a hard link"
	rm "$WORK/one"
	chmod 620 "$WORK/two"
	refused_to_start "audit = $WORK/two" "not writable by others"
	mkfifo "$WORK/fifo"
	refused_to_start "audit = $WORK/fifo" "No such device" # nobody reads it
}

@test "the journal has a line and its fields" {
	"$BIN/app_journal" 2>/dev/null || skip "root puts a journal of its own before the daemon"
	echo 'audit = journal' >"$WORK/registry.conf"
	start registry "$BIN/app_journal" "$WORK/journal" "$(command -v gpushare-registry)" --dir "$GPUSHARE_DIR" --config "$WORK/registry.conf"
	await_file "$GPUSHARE_DIR/registry.sock"
	api open alloc=a,w,1Mi >/dev/null
	until_true grep -q owner_gone "$WORK/journal"
	equal "$(sed -E 's/(pid|generation|GPUSHARE_PID)=[0-9]+/\1=N/' "$WORK/journal" | sed 's/generation=[0-9]*/generation=N/' | head -9)" \
		"MESSAGE=share uid=$UID pid=N command=\"api_app\" name=\"w\" generation=N size=1048576 outcome=ok
PRIORITY=5
SYSLOG_IDENTIFIER=gpushare-registry
GPUSHARE_VERB=share
GPUSHARE_UID=$UID
GPUSHARE_PID=N
GPUSHARE_NAME=w
GPUSHARE_OUTCOME=ok"
}

@test "no journal: the registry doesn't start" {
	needs unshare
	unshare -rm mount -t tmpfs none /run 2>/dev/null || skip "no mount namespaces here"
	echo 'audit = journal' >"$WORK/registry.conf"
	run -1 unshare -rm sh -c "mount -t tmpfs none /run && exec gpushare-registry --dir $GPUSHARE_DIR --config $WORK/registry.conf"
	has "$output" "can't write the audit to /run/systemd/journal/socket: No such file or directory"
}
