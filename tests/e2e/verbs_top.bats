#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare top: as text, as JSON, and on a terminal (tool_pty).
load helpers

shared() {
	begin api "$BIN/api_app" open alloc=a,weights,3Mi alloc=b,_odd..//name-,1Mi make=k,kept,2Mi,keep \
		touch="$WORK/up" await="$WORK/more" free=a alloc=n,newcomer,8Mi touch="$WORK/freed" await="$WORK/end"
	OWNER=$PID
	begin holder "$BIN/api_app" open attach=w,weights touch="$WORK/has" await="$WORK/end"
	HOLDER=$PID
}

# order [WORD...]: the names in the order in which top shows them
order() {
	gpushare top -n 1 "$@" | sed '1,/^NAME/d' | awk '{ print $1 }' | tr '\n' ' '
}

# on_terminal STEP...: run top on a terminal with 24 lines of 100 columns
on_terminal() {
	"$BIN/tool_pty" 24x100 "$@"
}

@test "a look as text: who owns, who holds, how much, for a pipe" {
	shared
	run -0 --separate-stderr gpushare top
	equal "$stderr" ""
	[[ $output != *$'\033'* ]]
	has "${lines[0]}" "registry $(gpushare --version | cut -d ' ' -f 2), pid $(registry_pids)"
	has "${lines[1]}" "Names: 3, attachments: 1"
	has "${lines[2]}" "6 MiB ipc, 2 MiB vmm"
	grep -Eq "^weights +4 MiB +GPU-[0-9a-f]{8} +api_app\[$OWNER\] +1 +[0-9]+s +api_app\[$HOLDER\]$" <<<"$output"
	grep -Eq "^kept .* kept" <<<"$output"
	equal "$(gpushare top -n 3 -d 0.05 | grep -c '^gpushare top')" 3
	gpushare top -n 2 -d 0.05 | grep -q 'requests: [0-9]* ([0-9.]*/s)'
	touch "$WORK/more"
	await_file "$WORK/freed"
	gpushare top | grep -Eq "^weights .* deferred +api_app\[$HOLDER\]$"
}

@test "sorted by each key, and only what a pattern matches" {
	shared
	equal "$(order)" "weights _odd..//name- kept "
	equal "$(order --sort size)" "weights _odd..//name- kept "
	equal "$(order --sort name)" "_odd..//name- kept weights "
	equal "$(order --sort attached)" "weights _odd..//name- kept "
	equal "$(order --sort age)" "weights _odd..//name- kept "
	equal "$(order --sort rate)" "_odd..//name- kept weights "
	equal "$(order '*e*t*')" "weights kept "
	equal "$(order 'nobody*')" ""
	equal "$(order -- '_odd*')" "_odd..//name- "
}

@test "top --json is one look with everything" {
	needs jq
	shared
	gpushare top --json >"$WORK/json"
	equal "$(jq -c '[.buffers[] | [.name, .held, (.holders | map(.pid))]]' "$WORK/json")" \
		"[[\"weights\",4194304,[$HOLDER]],[\"_odd..//name-\",2097152,[]],[\"kept\",2097152,[]]]"
	equal "$(jq -c '[.registry.names, .registry.attachments]' "$WORK/json")" "[3,1]"
	equal "$(gpushare top --json 'k*' | jq -r '.buffers[].name')" kept
}

@test "bad words are exit code 2; no registry is exit code 1, and none is started" {
	for words in "a b" "-n" "-n 0" "-n x" "-n 1K" "-d" "-d 0" "-d soon" "--sort" "--sort colour" "--nonsense"; do
		# shellcheck disable=SC2086 # words
		run -2 --separate-stderr gpushare top $words
		equal "$output" ""
		[ -n "$stderr" ]
	done
	no_registry_yet
	for words in "" "-n 3" "--json"; do
		# shellcheck disable=SC2086 # words
		run -1 --separate-stderr gpushare top $words
		equal "$output" ""
		equal "$(lines "$stderr")" 1
		has "$stderr" "$GPUSHARE_DIR"
	done
	equal "$(registry_pids)" ""
	start_registry
	run -1 --separate-stderr sh -c 'gpushare top >/dev/full'
	has "$stderr" "standard output"
}

@test "on a terminal: the screen, q, and the terminal as it was" {
	shared
	on_terminal see=$'\e[?1049h' see='gpushare top - ' see=weights see="api_app[$HOLDER]" raw \
		send=q see=$'\e[?25h\e[?1049l' cooked end=0 -- gpushare top -d 30
}

@test "on a terminal: sorting, filtering, the interval, help, a key that is none" {
	shared
	on_terminal see='3 shown by size' send=N see='3 shown by name' send=R see='by name, reversed' see=weights \
		see=kept send='>' see='3 shown by size' send='<' see='3 shown by name' send=R see='3 shown by name' \
		send=/ see='Only names with (nothing: all): _' send=wax send='\x7f' see='all): wa_' send=r send='\e' \
		see='3 shown by name' send=o send='ep\r' see='1 shown by name, only ep' see=kept unseen=weights \
		send== see='3 shown by name' send=d see='Seconds between' send='soon\r' see="'soon' is no number" \
		send=d send='0.05\r' see='gpushare top' see='gpushare top' send=h see='Keys of gpushare top' see='Any key' \
		send=x see='3 shown by name' send=x see='No such key' send=q end=0 -- gpushare top -d 30
}

@test "on a terminal: what comes, goes and is freed meanwhile" {
	shared
	"$BIN/tool_pty" 24x150 see='3 shown' see=weights see="api_app[$HOLDER]" send=' ' see='3 shown' touch="$WORK/more" see='4 shown' \
		see=newcomer see="  deferred  api_app[$HOLDER]" send=l see='without deferred' see=newcomer \
		see='gpushare top' see='without deferred' unseen="  deferred  api_app" send=q end=0 \
		-- gpushare top -d 0.1
}

@test "on a terminal: it is drawn for its size, and again for another" {
	start api "$BIN/api_app" open many=list,n,60 touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up" || true
	on_terminal see='shown by' size=10x40 see='shown by' send='\e[6~' see='shown by' send='\e[A' see='shown by' \
		size=50x200 see='shown by' send=q end=0 -- gpushare top -d 30 --sort name >"$WORK/screen"
	[ -s "$WORK/screen" ]
}

@test "SIGINT, SIGTERM, SIGHUP and SIGQUIT end it as they should, and the terminal is as it was" {
	shared
	on_terminal see='shown by' raw send='\x03' see=$'\e[?25h\e[?1049l' cooked end=-2 -- gpushare top -d 30
	for number in 1 2 3 15; do
		on_terminal see='shown by' raw kill=$number see=$'\e[?25h\e[?1049l' cooked end=-$number -- gpushare top -d 30
	done
}

@test "stopped and continued: the terminal is the shell's meanwhile" {
	shared
	# shellcheck disable=SC2016 # the inner shell's
	on_terminal see='shown by' raw send='\x1a' see=$'\e[?25h\e[?1049l' see='Stopped' cooked see='between' \
		touch="$WORK/cooked" see=$'\e[?1049h' see='shown by' raw send=q see=$'\e[?1049l' see='ended 0' cooked end=0 -- \
		bash --norc -c 'set -m; gpushare top -d 30; jobs; echo between; until [ -e "$0" ]; do sleep 0.01; done; fg >/dev/null; echo "ended $?"' \
		"$WORK/cooked"
}

@test "the registry ends meanwhile: said, and shown again when there is one" {
	shared
	registry=$(registry_pids)
	on_terminal see='shown by' touch="$WORK/go" see='no registry listens' touch="$WORK/missed" see='3 shown by size' \
		send=q end=0 -- gpushare top -d 0.1 >"$WORK/screen" 2>"$WORK/screen.err" &
	pty=$!
	STARTED+=("$pty")
	await_file "$WORK/go"
	kill -KILL "$registry"
	await_file "$WORK/missed"
	gpushare stat weights >/dev/null # which starts another
	wait "$pty" || { cat "$WORK/screen.err"; false; }
}

@test "on a terminal without a registry: it waits for one" {
	no_registry_yet
	start later sh -c "until [ -e '$WORK/missed' ]; do sleep 0.01; done; exec $BIN/api_app open"
	on_terminal see='no registry listens' raw touch="$WORK/missed" see='0 shown by' send=q end=0 -- gpushare top -d 0.1
}

@test "NO_COLOR, TERM=dumb: no colour, bold or red; else bold titles" {
	shared
	has "$(on_terminal see='shown by' send=q end=0 -- env TERM=xterm gpushare top -d 30)" $'\e[1mNAME'
	for variable in NO_COLOR=1 TERM=dumb; do
		screen=$(on_terminal see='shown by' send=q end=0 -- env TERM=xterm $variable gpushare top -d 30)
		has "$screen" NAME
		[[ $screen != *$'\e[1m'* && $screen != *$'\e[3'* ]]
		screen=$(on_terminal see=weights end=0 -- env TERM=xterm $variable gpushare ls)
		[[ $screen != *$'\e'* ]]
	done
	has "$(on_terminal see=weights end=0 -- env TERM=xterm NO_COLOR= gpushare ls)" $'\e[1mNAME'
	has "$(on_terminal see=works end=0 -- env TERM=xterm gpushare doctor)" $'\e[32mok'
}

@test "what others call themselves moves no cursor" {
	cp "$BIN/rt_app_static" "$WORK/$(printf 'a\033[2Jb')"
	up_named odd weights "$WORK/$(printf 'a\033[2Jb')" init alloc=a,1Mi
	gpushare top | grep -q '^weights .* a?\[2Jb\['
	screen=$(on_terminal see=weights send=q end=0 -- gpushare top -d 30)
	has "$screen" 'a?[2Jb['
}
