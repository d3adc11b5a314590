# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of gpushare, gpushare-attach and gpushare-registry for bash. The programs themselves print the candidates:
# see tools/cli/verb_complete.c.

# Set `words` to what the user typed, up to the cursor; its last word is the one to complete. bash splits words at the
# characters of COMP_WORDBREAKS, such as the ':' and '=' of a rule.
_gpushare_join() {
	local rest=$COMP_LINE word last='' i
	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((i)) && [[ $rest != [[:blank:]]* && $last$word == *[:=]* ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		rest=${rest#*"$word"} last=$word
	done
}

# bash replaces only what follows the last break, so cut what comes before it from the replies.
_gpushare_cut() {
	local before=${words[-1]%"${COMP_WORDS[COMP_CWORD]}"}
	[[ ${COMP_WORDS[COMP_CWORD]} != *[:=] ]] || before=${words[-1]}
	[[ -z $before ]] || COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

_gpushare_offer() {
	local word=$1 line
	shift
	while IFS= read -r line; do
		case $line in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
			;;
		:dirs)
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word")
			;;
		:commands)
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(
				compgen -c -- "$word"
				compgen -f -- "$word"
			)
			;;
		*)
			line=${line%%$'\t'*}
			[[ $line != "$word"* ]] || COMPREPLY+=("$line")
			;;
		esac
	done < <("$@" 2>/dev/null)
}

_gpushare() {
	local words
	COMPREPLY=()
	_gpushare_join
	[[ ${words[-1]} != --*=* ]] || words=("${words[@]::${#words[@]}-1}" "${words[-1]%%=*}" "${words[-1]#*=}")
	_gpushare_offer "${words[-1]}" "${words[0]}" --complete "${words[@]:1}"
	_gpushare_cut
}

_gpushare_registry() {
	local word=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=()
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--dir) _gpushare_offer "$word" echo :dirs ;;
	--config) _gpushare_offer "$word" echo :files ;;
	*) mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null | grep -o '^  --[a-z-]*')" -- "$word") ;;
	esac
}

complete -F _gpushare gpushare gpushare-attach
complete -F _gpushare_registry gpushare-registry
