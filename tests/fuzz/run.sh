#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs every fuzzer, each on a copy of its corpus: tests/fuzz/run.sh SECONDS [FUZZER]
# SECONDS: the time of each fuzzer. "share": all of them, one per core, take a minute together. "build": only build.
# Inputs that fail are left in build-fuzz/found. Put them into tests/fuzz/corpus/<fuzzer>; `make check` then tests them.
# FUZZ_KEEP=1: add the new inputs to the corpus, and reduce it to the fewest inputs with the same coverage.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=$1
read -ra fuzzers <<<"${2:-$(basename -as .c tests/fuzz/fuzz_*.c | sed 's/^fuzz_//' | tr '\n' ' ')}"
build=${FUZZ_BUILD:-build-fuzz}
clang=${FUZZ_CC:-clang}
passed=0 failed=0

skip() {
	printf 'skipped: fuzz: %s: '"$1"'\n' "${fuzzers[@]}"
	echo "0 passed, 0 failed, ${#fuzzers[@]} skipped"
	exit 0
}
command -v "$clang" >/dev/null || skip "$clang is not installed"
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }' >"$probe/p.c"
"$clang" -fsanitize=fuzzer,address,undefined "$probe/p.c" -o "$probe/p" 2>/dev/null || skip "$clang has no libFuzzer"

make -s --no-print-directory "-j$(nproc)" fuzzers BUILD="$build" CC="$clang" CFLAGS='-O1 -g' \
	SANITIZE=fuzzer-no-link,address,undefined CUDA= || {
	echo "FAILED: fuzz: the fuzzers can't be built"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}
[ "$seconds" != build ] || exit 0
jobs=$(nproc)
[ "$seconds" != share ] || seconds=$((60 * jobs / ${#fuzzers[@]}))
mkdir -p "$build/found"

# fuzz NAME: run that fuzzer; its output is in $probe/NAME.log, its exit code in $probe/NAME.rc
fuzz() {
	local corpus=tests/fuzz/corpus/$1 more=()
	mkdir -p "$probe/$1" "$corpus"
	[ ! -e "tests/fuzz/$1.dict" ] || more=("-dict=tests/fuzz/$1.dict")
	ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 "$build/fuzz/$1" "$probe/$1" "$corpus" \
		"${more[@]}" "-max_total_time=$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
		"-artifact_prefix=$build/found/$1-" >"$probe/$1.log" 2>&1 </dev/null
	echo $? >"$probe/$1.rc"
}

tell() {
	local rc
	rc=$(cat "$probe/$1.rc")
	if [ "$rc" = 0 ]; then
		passed=$((passed + 1))
		echo "fuzz: $1: $(sed -n 's/^Done \([0-9]*\) runs.*/\1 runs/p' "$probe/$1.log")," \
			"$(grep -o 'cov: [0-9]*' "$probe/$1.log" | tail -n 1)"
	else
		failed=$((failed + 1))
		echo "FAILED: fuzz: $1: exit code $rc"
		grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|RELOAD)' "$probe/$1.log" | tail -n 60 | sed 's/^/    /'
	fi
}

# Replace the corpus by the fewest inputs that have the coverage of all.
keep() {
	local corpus=tests/fuzz/corpus/$1
	mkdir -p "$probe/$1.least"
	"$build/fuzz/$1" -merge=1 "$probe/$1.least" "$corpus" "$probe/$1" >/dev/null 2>&1 || return
	rm -rf "$corpus" && cp -r "$probe/$1.least" "$corpus"
}

running=0
for each in "${fuzzers[@]}"; do
	fuzz "$each" &
	running=$((running + 1))
	[ $running -lt "$jobs" ] || { wait -n && running=$((running - 1)); }
done
wait
for each in "${fuzzers[@]}"; do
	tell "$each"
	[ -z "${FUZZ_KEEP:-}" ] || keep "$each"
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
