#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks session.pml with spin. Then leaves out one part after another (BREAK_*); the claim for that part must fail.
# MODEL_SECONDS (80): the longest search of the whole model, in seconds; MODEL_MB (1500): its memory.
# MODEL_FLAGS: the flags of a larger model, e.g. "-DCRASHES=2 -DCUTS=1 -DLAST=4".
set -u
cd "$(dirname "$0")" || exit 1
passed=0 failed=0
if ! command -v spin >/dev/null; then
	echo "skipped: model: spin is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
model=$PWD/session.pml
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp" || exit 1

# build FLAGS...: build ./pan. -DBFS, -DCOLLAPSE and -O are flags for the compiler, the others for the model.
build() {
	local -a mine=() theirs=()
	for word in "$@"; do
		[[ $word == -D?* && $word != -DBFS && $word != -DCOLLAPSE ]] && mine+=("$word") || theirs+=("$word")
	done
	spin "${mine[@]}" -a "$model" >spin.log 2>&1 || { cat spin.log; return 1; }
	"${CC:-gcc}" -w -DSAFETY -DVECTORSZ=512 "-DMEMLIM=${MODEL_MB:-1500}" "${theirs[@]}" -o pan pan.c
}

whole() {
	local states
	read -ra flags <<<"${MODEL_FLAGS:--DCRASHES=1 -DCUTS=0 -DLAST=2}"
	# All states of the default model need 400 MB. It is not compressed, because that makes it half as fast again.
	[ -z "${MODEL_FLAGS:-}" ] || flags+=(-DCOLLAPSE)
	build "${flags[@]}" -O2 || return
	# -E: a client with nothing to do is no fault; -m: the search depth
	timeout -s INT -k 10 "${MODEL_SECONDS:-80}" ./pan -E -m200000 -w22 >pan.log 2>&1
	states=$(sed -n 's/^ *\([0-9][0-9]*\) states, stored.*/\1/p; s/^Depth=.*States= *\([0-9.e+]*\) .*/\1/p' pan.log | tail -n 1)
	if grep -q '^pan:.*\(assertion violated\|invalid\)' pan.log; then
		failed=$((failed + 1))
		echo "FAILED: model: $(grep '^pan:' pan.log | head -n 1)"
		./pan -r -E 2>/dev/null | tail -n 40 | sed 's/^/    /'
	elif grep -q 'errors: 0' pan.log && ! grep -q 'not completed' pan.log; then
		passed=$((passed + 1))
		echo "model: ${flags[*]}: holds in all $states states"
	elif [ -n "$states" ]; then
		passed=$((passed + 1))
		echo "model: ${flags[*]}: holds in the $states states that ${MODEL_SECONDS:-80} s were enough for"
	else
		failed=$((failed + 1))
		echo "FAILED: model: $(cat pan.log)"
	fi
}

# broken PART CUTS LAST CLAIM: without that part, the assertion that holds CLAIM must fail. The search is breadth-first
# and finds the failure within seconds, so pan is built without optimization, which would take longer.
broken() {
	build -DCRASHES=1 "-DCUTS=$2" "-DLAST=$3" "-DBREAK_$1" -DBFS -DCOLLAPSE -O0 || return
	timeout -s INT -k 10 $((3 * ${MODEL_SECONDS:-80} / 2)) ./pan -E -w22 >pan.log 2>&1
	if grep -q "^pan:.*assertion violated.*$4" pan.log; then
		passed=$((passed + 1))
		echo "model: without $1: caught"
	else
		failed=$((failed + 1))
		echo "FAILED: model: without $1 nothing is found: $(grep '^pan:' pan.log | head -n 1)"
	fi
}

whole || failed=$((failed + 1))
while read -r part cuts last claim; do
	broken "$part" "$cuts" "$last" "$claim" || failed=$((failed + 1))
done <<'END'
CLOCK 0 2 !.*twice
KEEP 1 3 promised
RECORD_BEFORE_ANSWER 1 3 promised
SETTLE 1 3 keeper_died
MOVE 1 3 session
WATCH 1 3 nameless
END
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
