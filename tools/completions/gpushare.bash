# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of gpushare, gpushare-attach and gpushare-registry for bash. The programs themselves print the candidates:
# see tools/verb_complete.c.

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

# Print the options in gpushare-attach's --help.
_gpushare_attach_options() {
	"$1" --help 2>/dev/null | grep -o -- '\(^\|[ ,]\)--\{0,1\}[a-z][a-z0-9-]*' | tr -d ' ,'
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
		:attach)
			[[ $word != -* ]] ||
				mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$(_gpushare_attach_options gpushare-attach)" -- "$word")
			;;
		*)
			line=${line%%$'\t'*}
			[[ $line != "$word"* ]] || COMPREPLY+=("$line")
			;;
		esac
	done < <("$@" 2>/dev/null)
}

# _gpushare_values OPTION WORD: offer the values of one of gpushare-attach's options; false if OPTION has no list
_gpushare_values() {
	case $1 in
	--format | --dtype) mapfile -t COMPREPLY < <(compgen -W "$(gpushare-attach --complete "$1" 2>/dev/null)" -- "$2") ;;
	*) return 1 ;;
	esac
}

_gpushare() {
	local words
	COMPREPLY=()
	_gpushare_join
	[[ ${words[1]} != get ]] || ! _gpushare_values "${words[-2]}" "${words[-1]}" || return 0
	_gpushare_offer "${words[-1]}" "${words[0]}" --complete "${words[@]:1}"
	_gpushare_cut
}

_gpushare_attach() {
	local words option
	COMPREPLY=()
	_gpushare_join
	option=${words[-2]}
	[[ ${words[-1]} != --*=* ]] || option=${words[-1]%%=*} words[-1]=${words[-1]#*=}
	case $option in
	--format | --dtype) _gpushare_values "$option" "${words[-1]}" ;;
	-o | --output | --into | --in | --diff | --restore) _gpushare_offer "${words[-1]}" echo :files ;;
	--dir) _gpushare_offer "${words[-1]}" echo :dirs ;;
	*)
		if [[ ${words[-1]} == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_gpushare_attach_options "${words[0]}")" -- "${words[-1]}")
		else
			_gpushare_offer "${words[-1]}" gpushare --complete ls "${words[-1]}"
		fi
		;;
	esac
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

complete -F _gpushare gpushare
complete -F _gpushare_registry gpushare-registry
complete -F _gpushare_attach gpushare-attach
