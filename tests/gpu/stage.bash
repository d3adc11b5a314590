# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: processes that end with it, and what a stage reports.
# shellcheck source=tests/gpu/registry.bash
. "${root:?}/tests/gpu/registry.bash"
: "${results:?}" "${scratch:?}" "${shm:?}"
passed=0 failed=0 skipped=0
started=()

ok() {
	passed=$((passed + 1))
	echo "ok: $1"
	echo "- $1" >>"$results"
}

bad() {
	failed=$((failed + 1))
	echo "FAILED: $1"
	echo "- **FAILED**: $1" >>"$results"
	[ ! -s "$scratch/errors" ] || sed 's/^/    /' "$scratch/errors" | tail -n 20
}

skip() {
	skipped=$((skipped + 1))
	echo "skipped: $1"
	echo "- skipped: $1" >>"$results"
}

write() {
	printf '%s\n' "$@" | tee -a "$results"
}

# start COMMAND...: in the background; pid in $pid, its output in $scratch/said
start() {
	: >"$scratch/said"
	"$@" >"$scratch/said" 2>"$scratch/errors" </dev/null &
	pid=$!
	started+=("$pid")
}

# Wait for line $1 of what the started program says.
heard() {
	local tries=0
	until [ "$(wc -l <"$scratch/said")" -ge "$1" ]; do
		kill -0 "$pid" 2>/dev/null && [ $((tries += 1)) -le 1200 ] || return 1
		sleep 0.05
	done
	sed -n "$1p" "$scratch/said"
}

end() {
	kill -TERM "$pid" 2>/dev/null
	wait "$pid"
}

# Ours by pid, and the registry that started by itself: it was told our GPUSHARE_DIR.
finish() {
	mapfile -t -O ${#started[@]} started < <(registry_pids "$GPUSHARE_DIR")
	[ ${#started[@]} = 0 ] || kill -KILL "${started[@]}" 2>/dev/null
	rm -rf "$scratch" "$shm"
}

# median_of FILE COLUMN: "median (least - most)" of a column of numbers
median_of() {
	sort -g -k "$2,$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { printf "%.4f (%.4f - %.4f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

# within A B: A is at most B, and both are numbers: what was not measured is within nothing
within() {
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a ~ /[0-9]/ && b ~ /[0-9]/ && a + 0 <= b + 0) }'
}

# aim LIMIT VALUE WORDS: VALUE must be at most LIMIT. On the simulated driver the numbers mean nothing.
aim() {
	if [ "$GPUSHARE_TEST_GPU" = no ]; then
		write "- (simulated driver, no target) $3"
	elif within "$2" "$1"; then
		ok "$3"
	else
		bad "target missed: $3"
	fi
}
