#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare top: as text, as JSON, and on a terminal (terminal.py).
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
	terminal 24x100 "$@"
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
	resume more freed
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

@test "the memory of each GPU: names, others, free; without NVML: names" {
	needs jq
	shared
	if [ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ]; then
		gpushare top | grep -Eq '^GPU-[0-9a-f]{8} \[#+=* *\] names 8 MiB, others [0-9.]+ .iB, free [0-9.]+ GiB$'
		skip "the rest is of the simulated GPU's memory"
	fi
	GPUSHARE_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=1 begin second "$BIN/api_app" open alloc=d,second,2Mi make=u,both,64Mi,unified \
		touch="$WORK/there" await="$WORK/end"
	export GPUSHARE_SIM_DEVICES=2 GPUSHARE_SIM_MEMORY=1G GPUSHARE_SIM_USED=256Mi
	for glob in '*' weights 'nobody*'; do
		equal "$(gpushare top "$glob" | grep ^GPU)" \
			"GPU-516d751a [#====               ] names 8 MiB, others 248 MiB, free 768 MiB
GPU-766d751a [#====               ] names 2 MiB, others 254 MiB, free 768 MiB"
	done
	equal "$(gpushare top --json | jq -c '[.gpus[] | [.gpu[:12], .names, .total, .free]]')" \
		'[["GPU-516d751a",8388608,1073741824,805306368],["GPU-766d751a",2097152,1073741824,805306368]]'
	equal "$(GPUSHARE_SIM_USED=1G gpushare top | grep -c '#===================\] .*, free 0 B$')" 2
	on_terminal see='[#====               ] names 8 MiB' see='names 2 MiB, others' look='green #===' look='brown ====  ' send=q end=0 \
		-- gpushare top -d 30
	terminal 9x100 see='names 8 MiB, others' unseen='names 2 MiB, others' see=NAME send=q end=0 -- gpushare top -d 30
	mkdir "$WORK/lib"
	: >"$WORK/lib/libnvidia-ml.so.1"
	export LD_LIBRARY_PATH=$WORK/lib:$LD_LIBRARY_PATH
	equal "$(gpushare top 2>&1 | grep ^GPU)" $'GPU-516d751a names 8 MiB\nGPU-766d751a names 2 MiB'
	equal "$(gpushare top --json | jq -c '[.gpus[] | has("total") or has("free")]')" "[false,false]"
	# a GPU that NVML doesn't know
	GPUSHARE_SIM_DEVICES=1 LD_LIBRARY_PATH=$BUILD/sim gpushare top | grep -qx 'GPU-766d751a names 2 MiB'
}

@test "bad words are exit code 2; no registry is exit code 1, and none is started" {
	misused '' "gpushare top" "a b" "-n" "-n 0" "-n x" "-n 1K" "-d" "-d 0" "-d soon" "--sort" "--sort colour" "--nonsense"
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
	on_terminal printed='\e[?1049h' printed='\e[?25l' see='gpushare top - ' see=weights see="api_app[$HOLDER]" raw \
		send=q printed='\e[?25h' printed='\e[?1049l' cooked end=0 -- env TERM=xterm gpushare top -d 30
	# keys come from the terminal, also if standard input is another file
	on_terminal see='3 shown by' send=q end=0 -- sh -c 'gpushare top -d 30 </dev/null'
	# a terminal that terminfo doesn't know
	for term in TERM= TERM=nobody-knows "-u TERM"; do
		# shellcheck disable=SC2086 # words
		on_terminal see='3 shown by' raw send=q cooked end=0 -- env $term gpushare top -d 30
	done
}

@test "on a terminal: sorting, filtering, the interval, help, a key that is none" {
	shared
	on_terminal see='3 shown by size' send=N see='3 shown by name' send=T see='3 shown by age' send=A \
		see='3 shown by attached' send=P see='3 shown by rate' send=M see='3 shown by size' send=N see='3 shown by name' \
		send=R see='by name, reversed' see=weights \
		see=kept send='>' see='3 shown by size' send='<' see='3 shown by name' send=R see='3 shown by name' \
		send=/ see='Only names with (empty: all): _' send=wax send='\x7f' see='all): wa_' send=r send='\e' \
		unseen='Only names' see='3 shown by name' send=o send='ep\r' see='1 shown by name, only ep' see=kept unseen=weights \
		send== see='3 shown by name' send=s see='Seconds between' send='soon\r' see="'soon' is not a number" \
		send=d send='0.05\r' unseen='Seconds between' changed changed changed changed send=h see='Keys of gpushare top' see='any key' \
		send=q see='3 shown by name' send=x see='No such key' send='\e[1;5A' unseen='No such key' see='3 shown by name' \
		send=/ "send=$(printf 'n%.0s' {1..300})\\r" see='0 shown by name, only nnn' send=q end=0 -- gpushare top -d 30
}

@test "on a terminal: what comes, goes and is freed meanwhile" {
	shared
	terminal 24x150 see='3 shown' see=weights see="api_app[$HOLDER]" send=' ' see='3 shown' touch="$WORK/more" see='4 shown' \
		see=newcomer see="  deferred  api_app[$HOLDER]" send=l see='without deferred' see=newcomer \
		see='gpushare top' see='without deferred' unseen="  deferred  api_app" send=q end=0 \
		-- gpushare top -d 0.1
}

@test "on a terminal: it is drawn for its size, and again for another" {
	local words=() i
	for i in {10..49}; do words+=("alloc=a$i,n$i,1Mi"); done
	up api "$BIN/api_app" open "${words[@]}"
	export LINES=5 COLUMNS=5 # a shell's, of another terminal
	on_terminal see=n10 see=n26 unseen=n27 see="api_app[$PID]" size=10x40 unseen=n13 see=n12 shown="$WORK/small" \
		send='\e[6~' see=n13 see=n15 unseen=n12 send='\e[A' see=n12 unseen=n15 send='\e[B' see=n15 send='\e[5~' see=n12 \
		send='\e[6~' send='\e[6~' see=n16 send='\e[1~' see=n10 size=3x20 unseen=n1 see='gpushare top' size=1x1 unseen=gpu see=g \
		size=50x200 see=n10 see=n49 see="api_app[$PID]" send=q end=0 -- gpushare top -d 30 --sort name
	# the two sequences that terminals send for an arrow
	terminal 10x40 see=n10 send='\e[B' unseen=n10 send='\e[A' see=n10 send='\eOB' unseen=n10 send='\eOA' see=n10 send='\e[B' unseen=n10 \
		send='\e[H' see=n10 send=q end=0 -- env TERM=xterm gpushare top -d 30 --sort name
	equal "$(sed -n 's/^\(n[0-9]*\) .*/\1/p' "$WORK/small" | tr '\n' ' ')" "n10 n11 n12 "
	equal "$(lines "$(<"$WORK/small")")" 10
}

@test "SIGINT, SIGTERM, SIGHUP and SIGQUIT end it as they should, and the terminal is as it was" {
	shared
	on_terminal see='shown by' raw send='\x03' printed='\e[?25h' printed='\e[?1049l' cooked end=-2 -- env TERM=xterm gpushare top -d 30
	for number in 1 2 3 15; do
		on_terminal see='shown by' raw kill=$number printed='\e[?25h' printed='\e[?1049l' cooked end=-$number \
			-- env TERM=xterm gpushare top -d 30
	done
}

@test "stopped and continued: the terminal is the shell's meanwhile" {
	shared
	# shellcheck disable=SC2016 # the inner shell's
	inner='set -m; gpushare top -d 30; jobs; echo between; until [ -e "$0" ]; do sleep 0.01; done; fg >/dev/null; echo "ended $?"'
	on_terminal see='shown by' raw send='\x1a' printed='\e[?25h' printed='\e[?1049l' printed=Stopped cooked printed=between \
		touch="$WORK/cooked" printed='\e[?1049h' printed='shown by' raw send=q printed='\e[?1049l' printed='ended 0' cooked end=0 \
		-- env TERM=xterm bash --norc -c "$inner" "$WORK/cooked"
	# SIGSTOP, which top can't see; the shell sets its own modes
	rm "$WORK/cooked"
	inner=${inner/echo between/stty sane; echo between}
	start killer sh -c "until [ -e '$WORK/stop' ]; do sleep 0.01; done; kill -STOP \$(cat '$WORK/pid')"
	top="sh -c 'echo \$\$ >$WORK/pid; exec gpushare top -d 30'"
	on_terminal see='shown by' raw touch="$WORK/stop" printed=between cooked \
		touch="$WORK/cooked" printed='\e[?1049h' printed='shown by' raw send=q printed='ended 0' cooked end=0 \
		-- env TERM=xterm bash --norc -c "${inner/gpushare top -d 30/$top}" "$WORK/cooked"
}

@test "the registry ends meanwhile: said, and shown again when there is one" {
	shared
	registry=$(registry_pids)
	on_terminal see='shown by' touch="$WORK/go" see='no registry listens' unseen=weights touch="$WORK/missed" see='3 shown by size' \
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
	for term in linux xterm; do
		on_terminal look='bold NAME' send=q end=0 -- env TERM=$term gpushare top -d 30
	done
	for variable in NO_COLOR=1 TERM=dumb; do
		screen=$(on_terminal look='plain NAME' send=q end=0 -- env TERM=xterm $variable gpushare top -d 30)
		[[ ! $screen =~ $'\e'\[([0-9]*\;)*(1|3[0-7])(\;[0-9]*)*m ]]
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
