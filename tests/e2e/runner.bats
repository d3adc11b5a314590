#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tests/run itself: what it counts, and how it reports tests that are skipped, late or silent, and what they leave
# behind. And CI, which adds such reports up.
load helpers

setup_more() {
	needs_sim
	[ -z "${EMULATOR:-}" ] || skip "it needs no second machine"
	mkdir "$WORK/made"
	ARGUMENTS=()
}

# made NAME: write a .bats file from stdin. TEST stands for @test, which bats would take for a test of this file.
made() {
	sed 's/^TEST/@test/' >"$WORK/made/$1.bats"
	# Append this at the end: the line numbers of the tests must stay.
	printf '. "%s"\ntype setup >/dev/null 2>&1 || setup() { countdown_stands; }\n' "$BATS_TEST_DIRNAME/countdown.bash" >>"$WORK/made/$1.bats"
}

# clean COMMAND...: run COMMAND without bats' own variables and without the settings of this test run. Once a bats in here
# left its countdown running after a test that failed at once; so the limit is short.
clean() {
	local unset
	mapfile -t unset < <({ compgen -e BATS_ && printf '%s\n' LD_LIBRARY_PATH GPUSHARE_TEST_{SLOWEST,EACH,LIMIT,JOBS}; } | sed 's/^/--unset=/')
	env "${unset[@]}" GPUSHARE_TEST_GPU=no GPUSHARE_TEST_LIMIT=30 GPUSHARE_TEST_E2E="$WORK/made" "$@"
}

# ran CODE SETTING...: run tests/run on the files that made() wrote; it must exit with CODE; the output is in $output
ran() {
	local code=$1
	shift
	run "-$code" clean "$@" "$ROOT/tests/run" "${ARGUMENTS[@]:-$WORK/made}" </dev/null
}

@test "run: passed, failed and skipped are counted, what is skipped is named with its reason" {
	made good <<<'TEST "one" { true; }
TEST "two" { true; }
TEST "three" { skip "not today"; }'
	ran 0
	equal "$output" "GPUSHARE_TEST_GPU=no: running on the simulated driver
good.bats: 2 passed, 0 failed, 1 skipped
skipped: good.bats: three: not today
2 passed, 0 failed, 1 skipped"
	made bad <<<'TEST "four" { echo why it failed; false; }'
	ran 1
	has "$output" "bad.bats: 0 passed, 1 failed, 0 skipped"
	has "$output" "why it failed"
	has "$output" "FAILED: bad.bats: four: (in test file "
	has "$output" ", line 1): \`@test \"four\" { echo why it failed; false; }' failed"
	equal "${lines[-1]}" "2 passed, 1 failed, 1 skipped"
}

@test "run: a test that fails once has failed, although it would pass the next time" {
	made flaky <<<"TEST \"once\" { [ -e $WORK/ran ] || ! touch $WORK/ran; }"
	ran 1
	has "$output" "FAILED: flaky.bats: once: "
	equal "${lines[-1]}" "0 passed, 1 failed, 0 skipped"
	ran 0 # it would pass
}

@test "run: several files at a time, each told whole and counted once" {
	for file in 1 2 3 4 5 6 7; do
		made "many$file" <<<"TEST \"here\" { true; }
TEST \"not here\" { sleep 0.$file; skip \"as $file says\"; }"
	done
	ran 0 GPUSHARE_TEST_JOBS=3
	equal "${lines[-1]}" "7 passed, 0 failed, 7 skipped"
	equal "$(grep -A 1 '^many.*: 1 passed, 0 failed, 1 skipped$' <<<"$output" | grep -c '^skipped: many')" 7
	equal "$(sed -n 's/^many\(.\)\.bats.*/\1/p' <<<"$output" | sort | tr -d '\n')" 1234567
	has "$output" "many3.bats: 1 passed, 0 failed, 1 skipped
skipped: many3.bats: not here: as 3 says"
}

@test "run: each test by itself where that is wanted, whatever it is called, and files by several filters" {
	made first <<<'TEST "a (b) [c] {d}: e.f* + g? ^h | $i" { true; }
TEST "a" { sleep 1.1; }'
	made second <<<'TEST "a b" { skip "not today"; }
TEST "b" { true; }'
	made third <<<'TEST "c" { false; }'
	ARGUMENTS=(made/first made/second)
	ran 0 GPUSHARE_TEST_EACH=1 GPUSHARE_TEST_JOBS=1
	[[ ${lines[1]} =~ ^first\.bats\ 1:\ 1\ passed,\ 0\ failed,\ 0\ skipped,\ [0-9]+\ s$ ]]
	[[ ${lines[2]} =~ ^first\.bats\ 2:\ 1\ passed,\ 0\ failed,\ 0\ skipped,\ [1-9][0-9]*\ s$ ]]
	[[ ${lines[3]} =~ ^second\.bats\ 1:\ 0\ passed,\ 0\ failed,\ 1\ skipped,\ [0-9]+\ s$ ]]
	equal "${lines[4]}" "skipped: second.bats 1: a b: not today"
	[[ ${lines[5]} =~ ^second\.bats\ 2:\ 1\ passed,\ 0\ failed,\ 0\ skipped,\ [0-9]+\ s$ ]]
	equal "${lines[6]}" "3 passed, 0 failed, 1 skipped"
	ARGUMENTS=()
	ran 1 GPUSHARE_TEST_EACH=1
	has "$output" "third.bats 1: 0 passed, 1 failed, 0 skipped"
	equal "${lines[-1]}" "3 passed, 1 failed, 1 skipped"
}

# gpu_tests: run the part "tests" of a GPU's run on the made files, with $WORK/root/tests/run
gpu_tests() {
	# shellcheck disable=SC2016 # the inner shell's
	clean root="$WORK/root" out="$WORK" scratch="$WORK/scratch" results="$WORK/results" BUILD="$WORK" bash -c 'FILTERS=()
		write() { printf "%s\n" "$@" | tee -a "$results"; }
		ok() { echo "ok: $*"; }
		bad() { echo "bad: $*"; }
		. "$0"' "$ROOT/tests/gpu/part_tests.bash" </dev/null
}

@test "run: on a GPU the parts are added up, and one that was ended is a failure, whatever the others say" {
	mkdir -p "$WORK/root/tests" "$WORK/scratch" "$WORK/tests"
	ln -s "$WORK/made" "$WORK/root/tests/e2e"
	made some <<<'TEST "one" { true; }
TEST "two" { skip "not today"; }'
	made chaos <<<'TEST "three" { true; }'
	printf '#!/usr/bin/env bash\nexec "%s" "$@"\n' "$ROOT/tests/run" >"$WORK/root/tests/run"
	chmod +x "$WORK/root/tests/run"
	run -0 gpu_tests
	equal "${lines[-1]}" "ok: contract, end-to-end: 2 passed, 0 failed, 1 skipped"
	has "$output" "| some.bats | 1 | 0 | 1 |"
	made bad <<<'TEST "four" { echo "some.bats 1: 7 passed, 0 failed"; false; }'
	run -0 gpu_tests
	equal "${lines[-1]}" "bad: contract, end-to-end: 2 passed, 1 failed, 1 skipped"
	has "$output" "| some.bats | 1 | 0 | 1 |"
	equal "$(grep -c '^| [a-z]*.bats' <<<"$output") $(grep -c '^| ' <<<"$output")" "3 4"
	rm "$WORK/made/bad.bats"
	printf '#!/usr/bin/env bash\ncase $* in *some*) kill -KILL $$ ;; esac\nexec "%s" "$@"\n' "$ROOT/tests/run" >"$WORK/root/tests/run"
	run -0 gpu_tests
	equal "${lines[-1]}" "bad: contract, end-to-end: 1 passed, 1 failed, 0 skipped"
}

@test "run: a test that takes longer than it may has failed" {
	made slow <<<'TEST "stays" { sleep 20; }'
	ran 1 GPUSHARE_TEST_LIMIT=1
	has "$output" "timeout after 1s"
}

@test "run: what instruments see nothing of is left out under them, all but what has threads under thread" {
	made order <<<'TEST "one" { true; }'
	made manual <<<'TEST "two" { false; }'
	made life <<<'TEST "three" { true; }'
	ran 0 SANITIZE=address,undefined
	equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
	ran 0 SANITIZE=thread
	equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
}

# cmocka_says CODE: make a test program that prints stdin and exits with CODE
cmocka_says() {
	mkdir -p "$WORK/made/build/tests"
	cat >"$WORK/cmocka"
	printf '#!/bin/sh\ncat "%s"\nexit %s\n' "$WORK/cmocka" "$1" >"$WORK/made/build/tests/unit_fake"
	chmod +x "$WORK/made/build/tests/unit_fake"
}

@test "run: a cmocka test whose setup or teardown fails is counted as failed" {
	cmocka_says 3 <<'END'
[==========] Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
Could not run test: Test setup failed
[  ERROR   ] two
[ RUN      ] three
[  ERROR   ] --- [   LINE   ] --- x.c:6: error: Failure!
[  FAILED  ] three
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] three

 2 FAILED TEST(S)
END
	ran 1 BUILD="$WORK/made/build"
	has "$output" "unit_fake: 1 passed, 2 failed, 0 skipped
FAILED: unit_fake: two
FAILED: unit_fake: three: x.c:6"
	equal "${lines[-1]}" "1 passed, 2 failed, 0 skipped"
}

@test "run: a test that is in the plan and not in the report is a failure, of cmocka and of bats" {
	printf '[==========] Running %s test(s).\n[  PASSED  ] %s test(s).\n' 2 2 3 2 | cmocka_says 0
	ran 1 BUILD="$WORK/made/build"
	has "$output" "FAILED: unit_fake: reported 4 of its 5 tests"
	equal "${lines[-1]}" "4 passed, 1 failed, 0 skipped"
	rm -r "$WORK/made/build"
	mkdir "$WORK/bin"
	printf '#!/bin/sh\nprintf "1..%%s\\nok 1 one\\nok 2 two\\n" "$PLAN"\n' >"$WORK/bin/bats"
	chmod +x "$WORK/bin/bats"
	made counted </dev/null
	for plan in 1 3; do
		ran 1 PATH="$WORK/bin:$PATH" PLAN="$plan"
		has "$output" "FAILED: counted.bats: reported 2 of its $plan tests"
	done
	ran 0 PATH="$WORK/bin:$PATH" PLAN=2
}

@test "run: what reports nothing is a failure, and so is no test at all" {
	made none <<<'exit 0'
	ran 1
	has "$output" "FAILED: none.bats: "
	ran 1 GPUSHARE_TEST_EACH=1
	has "$output" "FAILED: none.bats: "
	rm "$WORK"/made/*
	ran 1
	has "$output" "FAILED: no test was found"
}

@test "run: a process that is left behind is a failure, and is ended" {
	made leaves <<<"TEST \"leaves\" { sleep 300 </dev/null >/dev/null 2>&1 3>&- & echo \$! >$WORK/pid; }"
	ran 1
	has "$output" "FAILED: a process was left behind by the tests: $(cat "$WORK/pid"), sleep 300"
	until_true has_ended "$(cat "$WORK/pid")"
	equal "${lines[-1]}" "1 passed, 1 failed, 0 skipped"
}

@test "run: ended itself, it ends what it started" {
	made long <<<"TEST \"sleeps\" { echo \$\$ >$WORK/pid; sleep 300; }"
	start run env --unset=GPUSHARE_TEST_EACH GPUSHARE_TEST_GPU=no GPUSHARE_TEST_E2E="$WORK/made" "$ROOT/tests/run" "$WORK/made"
	runner=$PID
	await_file "$WORK/pid"
	kill "$runner"
	until_true has_ended "$runner"
	until_true has_ended "$(cat "$WORK/pid")"
}

@test "run: with must, no GPU is a failure and the simulated driver is none" {
	made good <<<'TEST "one" { true; }'
	ran 1 GPUSHARE_TEST_GPU=must
	equal "${lines[-1]}" "0 passed, 1 failed, 0 skipped"
	ran 1 GPUSHARE_TEST_GPU=must LD_LIBRARY_PATH="$BUILD/sim"
	equal "${lines[-1]}" "0 passed, 1 failed, 0 skipped"
	has "$output" "the simulated driver"
}

@test "run: with must and a GPU, skips count as failures, those of the simulated driver's faults don't" {
	mkdir -p "$WORK/build/tests/bin"
	printf '#!/bin/sh\necho a GPU\n' >"$WORK/build/tests/bin/probe"
	chmod +x "$WORK/build/tests/bin/probe"
	made skips <<<'TEST "one" { true; }
TEST "two" { skip "not today"; }
TEST "three" { skip "faults need the simulated driver"; }'
	ran 1 GPUSHARE_TEST_GPU=must BUILD="$WORK/build"
	has "$output" "running on a GPU"
	equal "${lines[-1]}" "1 passed, 1 failed, 1 skipped"
}

# In a tree whose make reports one passed test for each goal, and a skipped one for the lint. Nothing here makes a user:
# $WORK/as_user has what CI runs as one.
@test "CI: make check as root and as an ordinary user; a lint that is skipped is a failure" {
	[ -e "$ROOT/.ci/run" ] || skip "no source tree here"
	mkdir -p "$WORK/tree/.ci" "$WORK/tree/tests" "$WORK/path"
	cp "$ROOT/.ci/run" "$WORK/tree/.ci"
	printf '#!/bin/sh\n' | tee "$WORK/tree/tests/deps.sh" "$WORK/path"/{useradd,userdel,chown,git,pkill} >/dev/null
	printf '#!/bin/sh\nexit 1\n' >"$WORK/path/pgrep"
	printf '#!/bin/sh\necho 0\n' >"$WORK/path/id"
	cat >"$WORK/path/make" <<-'END'
		#!/bin/sh
		skipped=0
		case $* in *lint) skipped=1 ;; esac
		printf 'unit_x: %s\n%s\n' "1 passed, 0 failed, 0 skipped" "1 passed, 0 failed, $skipped skipped"
	END
	printf '#!/bin/sh\necho "$*" >>"%s"\nexec make\n' "$WORK/as_user" >"$WORK/path/setpriv"
	chmod +x "$WORK"/tree/tests/deps.sh "$WORK"/path/*
	run -1 clean PATH="$WORK/path:$PATH" "$WORK/tree/.ci/run"
	has "$output" "== check: make check"
	grep -Eq '^--reuid gpushare-ci-[0-9]+ .* make -C /tmp/gpushare-ci\.[^/]*/gpushare check$' "$WORK/as_user"
	equal "${lines[-3]}" "FAILED: lint: 1 skipped: a tool is missing"
	[[ ${lines[-1]} =~ ^[0-9]+\ passed,\ 1\ failed,\ 1\ skipped$ ]]
}

# linted NAME: run the lint of tests on stdin, where TEST stands for @test. $output has the lines that the lint reports,
# $expected the lines that are marked as lost.
linted() {
	sed 's/^TEST/@test/' >"$WORK/$1"
	# shellcheck disable=SC2034 # for the caller
	expected=$(grep -n '# lost$' "$WORK/$1" | cut -d : -f 1)
	output=$(python3 "$ROOT/tests/lint_bats.py" "$WORK/$1") || true
	output=$(sed "s|^$WORK/$1:\([0-9]*\): its failure is lost: .*|\1|" <<<"$output")
}

@test "the lint of tests finds each kind of check whose failure bash ignores" {
	linted bad.bats <<-'END'
		TEST "a negated command" {
			! grep -q x file # lost
			true
		}
		TEST "the first of a list" {
			[ -e a ] && [[ b == *c* ]] # lost
			true
		}
		asked() {
			equal a b # lost
			[ -e a ]
		}
		TEST "a check of a function in a condition" {
			if asked; then true; fi
		}
		polled() {
			[ -e a ] # lost
			refute true
		}
		TEST "a check of a function that is polled" {
			until_true 5 polled
		}
		alone() {
			has a b # lost
			true
		}
		TEST "a check of a function before an or" {
			alone || true
		}
		leaves() {
			command -v jq || skip "no jq" # lost
			true
		}
		TEST "a skip in a function that is run" {
			run -0 leaves
		}
		TEST "loops over what a command prints" {
			for name in $(names); do # lost
				[ "$name" = a ]
			done
			while read -r name; do
				[ "$name" = a ]
			done < <(names) # lost
		}
	END
	equal "$output" "$expected"
	equal "$(wc -l <<<"$expected")" 8
}
