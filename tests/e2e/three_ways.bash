# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Loaded after helpers by the tests of look-ups and loading. BEFORE and BEHIND name other preloaded
# libraries; without the preload both are still loaded, in the same order.
BEFORE=
BEHIND=

# preloads WITH-US: what LD_PRELOAD says
preloads() {
	local all="${GPUSHARE_TEST_ASAN_PRELOAD:-} $BEFORE ${1:+$SHIM} $BEHIND"
	echo $all # one space between them
}

# as_usual PROGRAM...: without the preload
as_usual() {
	env LD_PRELOAD="$(preloads)" "$@" </dev/null
}

# three_ways PROGRAM...: as usual, preloaded without rules and with rules that take everything:
# the same output, words on stderr, and exit code. $plain is the output.
three_ways() {
	local plain_code=0 rules out code
	plain=$(as_usual "$@" 2>"$WORK/plain.err") || plain_code=$?
	if [ -z "$plain" ]; then # nothing was tested
		echo "no output from: $*, LD_PRELOAD=$(preloads), exit code $plain_code, on stderr:"
		cat "$WORK/plain.err"
		return 1
	fi
	for rules in "" 'w%i'; do
		code=0
		out=$(env LD_PRELOAD="$(preloads yes)" GPUSHARE_NAME="$rules" "$@" </dev/null \
			2>"$WORK/with.err") || code=$?
		# A message for a miss of a name that we export ends in a space more: shim_lookup.c.
		diff <(echo "$plain") <(sed 's/\(undefined symbol: [A-Za-z0-9_]*\) $/\1/' <<<"$out") || { echo "with rules '$rules'" && return 1; }
		diff "$WORK/plain.err" "$WORK/with.err" || { echo "stderr, rules '$rules'" && return 1; }
		equal "$code" "$plain_code"
	done
}

# recorded NAMES PROGRAM...: three_ways, and a run that is stopped at its end and has exactly these
# NAMES ("w0 1048576" a line), where every allocation gets one. The program takes script words.
recorded() {
	local expected=$1
	shift
	three_ways "$@"
	rm -f "$WORK/up" "$WORK/end"
	start app env LD_PRELOAD="$(preloads yes)" GPUSHARE_NAME='w%i' "$@" touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(names | sort)" "$expected"
	touch "$WORK/end"
	finish "$PID"
}
