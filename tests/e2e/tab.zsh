# SPDX-License-Identifier: MIT
# zsh tests/e2e/tab.zsh FOLDER LINE...: types each LINE and a TAB into an interactive zsh that has FOLDER in
# its fpath and nothing of the user's. Prints a line each: how much fits, and what stands there then.
zmodload zsh/zpty || exit 1
told=$(mktemp) end=$((SECONDS + 60))
trap 'rm -f $told' EXIT
setup='PS1= fpath=('${(q)1}' $fpath); autoload -Uz compinit && compinit -u -D
fit() { _main_complete; fits=$compstate[nmatches] }
answer() { print -r -- "$fits: $BUFFER" >>'${(q)told}'; BUFFER= }
zle -C fit complete-word fit; zle -N answer; bindkey "^I" fit "^X" answer
setopt no_beep; LISTMAX=1000
print >>'${(q)told}

# lines N: waits until there are that many
lines() {
	until (($(wc -l <$told) >= $1)); do
		((SECONDS < end)) || { zpty -r -t shell said; print -ru2 -- "no answer: ${(V)said}"; exit 1 }
		sleep 0.02
	done
}
file=$(mktemp) && print -r -- $setup >$file
zpty shell 'TERM=dumb zsh -f -i'
zpty -w shell ". $file"
lines 1
rm $file
count=1
for line in "${@:2}"; do
	zpty -w -n shell "$line"$'\t'$'\x18'
	lines $((count += 1))
done
tail -n +2 $told
zpty -d shell
