# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Loaded after helpers by the tests of look-ups and loading. BEFORE and BEHIND name other libraries to preload, before
# and behind the shim. Runs without the shim load both too, in the same order.
BEFORE=
BEHIND=

# preloads WITH-SHIM: the value of LD_PRELOAD; an empty argument leaves the shim out
preloads() {
	local all="${GPUSHARE_TEST_ASAN_PRELOAD:-} $BEFORE ${1:+$SHIM} $BEHIND"
	echo $all # one space between them
}

# as_usual PROGRAM...: run PROGRAM without the shim
as_usual() {
	env LD_PRELOAD="$(preloads)" "$@" </dev/null
}

# three_ways PROGRAM...: run PROGRAM without the shim, with the shim but no rules, and with rules that name every
# allocation. Stdout, stderr and exit code must be the same. $plain is the stdout.
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
		# If dlsym misses a name that the shim exports, its message ends in an extra space: see shim_lookup.c.
		diff <(echo "$plain") <(sed 's/\(undefined symbol: [A-Za-z0-9_]*\) $/\1/' <<<"$out") || { echo "with rules '$rules'" && return 1; }
		diff "$WORK/plain.err" "$WORK/with.err" || { echo "stderr, rules '$rules'" && return 1; }
		equal "$code" "$plain_code"
	done
}

# recorded NAMES PROGRAM...: three_ways, then a run where every allocation is named. That run waits at its end, and
# the registry then has exactly NAMES ("w0 1048576" a line). PROGRAM must take script words.
recorded() {
	local expected=$1
	shift
	three_ways "$@"
	rm -f "$WORK/up" "$WORK/end"
	begin app env LD_PRELOAD="$(preloads yes)" GPUSHARE_NAME='w%i' "$@" touch="$WORK/up" await="$WORK/end"
	equal "$(names | sort)" "$expected"
	down
}
