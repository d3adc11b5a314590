#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The table of verbs: help with examples, and shell completion, which use only this table.
load helpers

# The verbs that the program lists.
verbs() {
	local all
	all=$(gpushare --complete '' | cut -f 1 | grep -v '^--')
	[ "$(lines "$all")" -ge 10 ] || return 1
	echo "$all"
}

@test "each verb tells what it does by example, in its own --help and as 'help VERB'" {
	verbs=$(verbs)
	for verb in $verbs; do
		run -0 --separate-stderr gpushare "$verb" --help
		has "$output" "usage: gpushare $verb"
		has "$output" "For example"
		grep -q "^  .*gpushare $verb" <<<"$output" || { echo "$verb has no example"; false; }
		equal "$stderr" ""
		equal "$(gpushare help "$verb")" "$output"
		has "$(gpushare --help)" "  $verb "
	done
	run -2 --separate-stderr gpushare help fly
	has "$stderr" "fly"
	equal "$(registry_pids)" ""
}

@test "every option that a usage tells of is told of below it, and understood" {
	told=0
	verbs=$(verbs)
	for verb in $verbs; do
		help=$(gpushare "$verb" --help)
		usage=$(sed '/^[^ u]/,$d' <<<"$help" | tr -s '\n ' ' ') # in several lines if it is long
		options=$(<<<"$usage" grep -o '\[-[^]]*\]' | tr -d '[]' | grep -v '^-KEY\|^KEY\|^--$\|^-$' || true)
		while read -r option argument; do
			[ -n "$option" ] || continue
			told=$((told + 1))
			grep -q "^  $option" <<<"$help" || { echo "$verb $option is not told of"; false; }
			value=
			case $argument in
			"") ;;
			KEY) value=size ;;
			FORMAT) value=raw ;;
			TYPE) value=f32 ;;
			OCTAL) value=640 ;;
			KEY=VALUE) value=key=value ;;
			*) value=1 ;;
			esac
			# shellcheck disable=SC2086 # nothing where there is no argument
			run -0 --separate-stderr gpushare "$verb" "$option" $value --help
			has "$output" "usage: gpushare $verb"
		done <<<"$options"
	done
	[ "$told" -ge 60 ]
}

@test "no option that a verb does not have is understood, and none is asked for twice" {
	verbs=$(verbs)
	for verb in $verbs; do
		[ "$verb" != run ] || continue
		misused '' "gpushare $verb" --nonsense
	done
	run -2 gpushare rm --json x
	run -2 gpushare metrics --deferred
	equal "$(registry_pids)" ""
}

@test "a bad option is said as it was typed, with where its help is; -h is help" {
	verbs=$(verbs)
	for verb in $verbs; do
		run -0 --separate-stderr gpushare "$verb" -h
		has "$output" "usage: gpushare $verb"
	done
	has "$(gpushare -h)" "usage: gpushare VERB"
	has "$(gpushare-attach -h)" "usage: gpushare-attach"
	run -2 --separate-stderr gpushare ls --jsno
	has "$stderr" "gpushare ls: unrecognized option '--jsno'"
	has "$stderr" "try 'gpushare ls --help'"
	run -2 --separate-stderr gpushare rm
	has "$stderr" "try 'gpushare rm --help'"
	run -2 --separate-stderr gpushare-attach w1 --heads 5
	has "$stderr" "gpushare-attach: unrecognized option '--heads'"
	has "$stderr" "try 'gpushare-attach --help'"
	run -2 --separate-stderr gpushare get w1 --heads 5
	has "$stderr" "gpushare get: unrecognized option '--heads'"
	run -1 --separate-stderr gpushare put /dev/null nobody
	equal "${stderr%% *}" gpushare:
}

@test "--dir '' and --name '' are refused: they would be as good as none" {
	for verb in ls stat events watch top rm metrics tag run doctor get put save restore diff follow; do
		run -2 --separate-stderr gpushare "$verb" --dir '' x
		has "$stderr" "--dir wants a directory, not ''"
		equal "$output" ""
	done
	run -2 --separate-stderr gpushare-registry --dir ''
	has "$stderr" "--dir"
	run -2 --separate-stderr gpushare run --name '' -- true
	has "$stderr" "--name wants rules, such as 'weights,kv', not ''"
}

@test "variables that make no sense are ignored, and tools say so" {
	start_registry
	GPUSHARE_TIMEOUT_MS=abc GPUSHARE_DEFERRED_FREE=abc run -0 --separate-stderr gpushare ls
	has "$stderr" "GPUSHARE_TIMEOUT_MS is 'abc', which is ignored: it takes milliseconds"
	has "$stderr" "GPUSHARE_DEFERRED_FREE is 'abc', which is ignored: it takes bytes, such as 512Mi"
	if [ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ]; then # which every program then needs first
		GPUSHARE_PUBLISH=often GPUSHARE_AUTOSTART=maybe run -0 --separate-stderr gpushare run true
	else
		GPUSHARE_PUBLISH=often GPUSHARE_AUTOSTART=maybe run -0 --separate-stderr gpushare ls
	fi
	has "$stderr" "GPUSHARE_PUBLISH is 'often'"
	has "$stderr" "GPUSHARE_AUTOSTART is 'maybe'"
	GPUSHARE_DEFERRED_FREE=2G GPUSHARE_PUBLISH=sync,exit run -0 --separate-stderr gpushare ls
	equal "$stderr" ""
	GPUSHARE_DEFERRED_FREE=abc run -0 gpushare doctor
	has "$output" "GPUSHARE_DEFERRED_FREE is 'abc'"
}

@test "a word that is no verb leads to the one that is meant" {
	for pair in "lst ls" "gte get" "tpo top" "dif diff" "dump get" "cat get" "cp get" "attach get" "start registry" "status registry" "remove rm" "delete rm" "info stat"; do
		run -2 --separate-stderr gpushare "${pair% *}" weights
		equal "$stderr" "gpushare: there is no verb '${pair% *}'; did you mean '${pair#* }'?; try 'gpushare ${pair#* } --help'"
		equal "$output" ""
	done
	for pair in "hlep help" "hepl help" "hlp help" "verion version" "vverson version"; do
		run -2 --separate-stderr gpushare "${pair% *}"
		equal "$stderr" "gpushare: there is no verb '${pair% *}'; did you mean '${pair#* }'?; try 'gpushare --help'"
	done
	equal "$(gpushare version)" "$(gpushare --version)"
	equal "$(gpushare list --help)" "$(gpushare ls --help)"
	equal "$(registry_pids)" ""
}

complete_words() {
	gpushare --complete "$@" | cut -f 1 | tr '\n' ' '
}

named_buffers() {
	up api "$BIN/api_app" open alloc=a,weights,1Mi alloc=b,_odd..//name-,1Mi
}

@test "completion: verbs, options, names, and what the shell knows itself" {
	named_buffers
	equal "$(complete_words ls '')" "_odd..//name- weights "
	equal "$(complete_words stat '')" "_odd..//name- weights "
	equal "$(complete_words rm weights '')" "_odd..//name- weights "
	equal "$(complete_words top --sort '')" "size age attached rate name "
	equal "$(complete_words ls --deferred -)" \
		"-l -q -o --sort --bytes --no-headers --deferred --events --nodes --tls --json --dir --help "
	equal "$(complete_words ls --sort '')" \
		"NODE NAME SIZE HELD GPU OWNER ATTACHMENTS AGE RIGHTS STATE TAGS BACKING GENERATION "
	equal "$(complete_words ls -o '')" "$(complete_words ls --sort '')"
	equal "$(complete_words ls --dir '')" ":dirs "
	equal "$(complete_words ls --dir /nonexistent '')" ""
	equal "$(complete_words run '')" ":commands "
	equal "$(complete_words run --name w '')" ":commands "
	equal "$(complete_words run app '')" ":files "
	equal "$(complete_words run app -)" ":files "
	equal "$(complete_words put '')" ":files "
	equal "$(complete_words put file '')" "_odd..//name- weights "
	equal "$(complete_words get '')" "_odd..//name- weights "
	equal "$(complete_words save '')" ":dirs "
	equal "$(complete_words save saved/ '')" "_odd..//name- weights "
	equal "$(complete_words diff '')" ":files "
	equal "$(complete_words diff w.npy '')" "_odd..//name- weights "
	equal "$(complete_words put file --format '')" "raw hex npy text png "
	equal "$(complete_words restore --mode 640 -)" "--device --mode --group --dir --help "
	equal "$(complete_words doctor '')" ":commands "
	equal "$(complete_words fly '')" ""
	run -2 gpushare --complete
}

@test "completion starts no registry, and says nothing where there is none" {
	no_registry_yet
	run -0 --separate-stderr gpushare --complete ls ''
	equal "$output$stderr" ""
	GPUSHARE_DIR=relative/nowhere run -0 --separate-stderr gpushare --complete stat ''
	equal "$output$stderr" ""
	equal "$(registry_pids)" ""
}

# completed WORD...: what bash offers for the last WORD
completed() {
	bash -c '. "$1"; shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE=${LINE:-$*}
		case $1 in *registry) _gpushare_registry ;; *) _gpushare ;; esac
		((!${#COMPREPLY[@]})) || printf "%s\n" "${COMPREPLY[@]}"' bash "$ROOT/tools/completions/gpushare.bash" "$@" | LC_ALL=C sort | tr '\n' ' '
}

@test "bash completes gpushare by that" {
	named_buffers
	mkdir "$WORK/d"
	touch "$WORK/d/some file" "$WORK/d/other"
	equal "$(completed gpushare st)" "stat "
	equal "$(completed gpushare t)" "tag top "
	equal "$(completed gpushare stat we)" "weights "
	equal "$(completed gpushare stat --j)" "--json "
	equal "$(completed gpushare put "$WORK/d/s")" "$WORK/d/some file "
	equal "$(completed gpushare ls --dir "$WORK/d")" "$WORK/d "
	has "$(completed gpushare run bas)" "bash "
	equal "$(completed gpushare fly '')" ""
	has "$(completed gpushare get weights --)" "--offset "
	equal "$(completed gpushare top --sort '')" "age attached name rate size "
	equal "$(completed gpushare get w --format np)" "npy "
	bash -c '. "$1"; complete -p gpushare gpushare-attach gpushare-registry' bash "$ROOT/tools/completions/gpushare.bash"
}

@test "bash: what it splits at ':' and '=' is one word to us" {
	named_buffers
	cd "$WORK"
	mkdir d
	touch d/some d/a:b=c
	cd d
	equal "$(LINE="gpushare run --name weights:" completed gpushare run --name weights : '')" ""
	equal "$(LINE="gpushare run --name weights:s" completed gpushare run --name weights : s)" ""
	equal "$(LINE="gpushare run --name w:size=s" completed gpushare run --name w : size = s)" ""
	LINE="gpushare run --name w:nth=1 -- echo s" \
		equal "$(completed gpushare run --name w : nth = 1 -- echo s)" "some "
	equal "$(LINE="gpushare run echo a:b" completed gpushare run echo a : b)" "b=c "
	has "$(LINE="gpushare run --name w: s" completed gpushare run --name w : s)" "some "
}

@test "bash: what it splits is one word to gpushare-attach, too" {
	named_buffers
	cd "$WORK"
	mkdir d
	touch d/some d/a:b=c d/weights
	cd d
	equal "$(LINE="gpushare-attach weights:" completed gpushare-attach weights : '')" ""
	equal "$(LINE="gpushare-attach a:we" completed gpushare-attach a : we)" ""
	equal "$(LINE="gpushare-attach a=--in" completed gpushare-attach a = --in)" ""
	equal "$(LINE="gpushare-attach weights -o a:b" completed gpushare-attach weights -o a : b)" "b=c "
	equal "$(LINE="gpushare-attach weights -o a:" completed gpushare-attach weights -o a : '')" "b=c "
	equal "$(LINE="gpushare-attach weights --output=a:b" completed gpushare-attach weights --output = a : b)" "b=c "
	equal "$(LINE="gpushare-attach weights --dtype=bf" completed gpushare-attach weights --dtype = bf)" "bf16 bfloat16 "
	equal "$(LINE="gpushare-attach weights --dtype=" completed gpushare-attach weights --dtype = | grep -o bf16)" bf16
	equal "$(LINE="gpushare-attach a: we" completed gpushare-attach a : we)" "weights "
}

@test "bash completes gpushare-attach by its own --help" {
	named_buffers
	has "$(completed gpushare-attach --)" "--into "
	has "$(completed gpushare-attach --)" "--offset "
	has "$(completed gpushare-attach -)" "-o "
	equal "$(completed gpushare-attach w)" "weights "
	equal "$(completed gpushare-attach --format r)" "raw "
	equal "$(completed gpushare-attach --format np)" "npy "
	equal "$(completed gpushare-attach --dtype bf)" "bf16 bfloat16 "
	equal "$(completed gpushare-attach weights --dtype flo)" "float16 float32 float64 "
	equal "$(completed gpushare-attach weights --dir "$WORK/r")" "$WORK/r "
}

@test "each command has a file of its name where bash looks, which completes it" {
	for command in gpushare gpushare-attach gpushare-registry; do
		bash -c '. "$1"; complete -p "$2"' bash "$ROOT/tools/completions/$command.bash" "$command"
	done
}

@test "bash completes gpushare-registry by its own --help" {
	equal "$(completed gpushare-registry --k)" "--keep-limit --keeper "
	equal "$(completed gpushare-registry --dir "$WORK/r")" "$WORK/r "
}

# tabbed LINE...: after a TAB at the end of LINE, the number of matches and the completed line
tabbed() {
	HOME=$WORK zsh -f "$BATS_TEST_DIRNAME/tab.zsh" "$ROOT/tools/completions" "$@" | sed 's/ *$//'
}

@test "zsh completes gpushare and gpushare-attach at a TAB" {
	needs zsh
	export GPUSHARE_DIR="$WORK/a registry"
	mkdir -m 700 "$GPUSHARE_DIR"
	named_buffers
	mkdir "$WORK/d" "$WORK/d/a folder"
	touch "$WORK/d/some file"
	cd "$WORK/d"
	equal "$(tabbed 'gpushare t' 'gpushare sta' 'gpushare stat w' 'gpushare ls --j' 'gpushare fly ' \
		'gpushare put s' 'gpushare ls --dir ' 'gpushare run basena' 'gpushare get weights --offs' 'gpushare-attach --offs' \
		'gpushare-attach w' 'gpushare-attach --in s' 'gpushare-attach --dir ')" \
		"2: gpushare t
1: gpushare stat
1: gpushare stat weights
1: gpushare ls --json
0: gpushare fly
1: gpushare put some\\ file
1: gpushare ls --dir a\\ folder/
1: gpushare run basename
1: gpushare get weights --offset
1: gpushare-attach --offset
1: gpushare-attach weights
1: gpushare-attach --in some\\ file
1: gpushare-attach --dir a\\ folder/"
	equal "$(tabbed 'gpushare-attach w --format np' 'gpushare-attach --dtype bf' 'gpushare get w --format r' \
		'gpushare get w --dtype float1' 'gpushare top --sort na' 'gpushare top --sort ' 'gpushare stat --format n')" \
		"1: gpushare-attach w --format npy
2: gpushare-attach --dtype bf
1: gpushare get w --format raw
1: gpushare get w --dtype float16
1: gpushare top --sort name
5: gpushare top --sort
0: gpushare stat --format n"
	# zsh completes from the registry in the typed --dir, with its quotes removed.
	equal "$(GPUSHARE_DIR=/nonexistent tabbed 'gpushare stat w' "gpushare stat --dir '$WORK/a registry' w" \
		"gpushare stat --dir $WORK/a\\ registry w")" \
		"0: gpushare stat w
1: gpushare stat --dir '$WORK/a registry' weights
1: gpushare stat --dir $WORK/a\\ registry weights"
}
