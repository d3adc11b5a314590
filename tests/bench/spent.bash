# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/bench/registry.sh: where each microsecond of share, attach, detach and free goes, by
# perf's samples of both sides and of the registry.
: "${here:?}" "${out:?}" "${scratch:?}" "${bench:?}" "${BUILD:?}" "${SPENT_MS:?}"
SPENT_HZ=1999 # of each CPU's time

measure_spent() {
	local pids perf verb
	renew
	start_registry
	mkfifo "$scratch/go"
	LD_LIBRARY_PATH=$BUILD/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$bench/spend" "$SPENT_MS" <"$scratch/go" \
		>"$scratch/phases" 2>"$scratch/errors" &
	started+=($!)
	exec 7>"$scratch/go"
	until [ -s "$scratch/phases" ]; do
		kill -0 "${started[-1]}" 2>/dev/null || fail "spending"
		sleep 0.05
	done
	read -r pids <"$scratch/phases"
	mkfifo "$scratch/control" "$scratch/ack"
	exec 5<>"$scratch/control" 6<>"$scratch/ack"
	# shellcheck disable=SC2154 # registry.sh's
	perf record -q -k CLOCK_MONOTONIC -e cpu-clock -F $SPENT_HZ --call-graph dwarf,8192 -m 1024 -o "$scratch/perf" \
		-D -1 --control "fd:5,6" -p "${pids/ /,},$registry" >/dev/null 2>"$scratch/errors" &
	perf=$!
	echo enable >&5
	read -r -t 20 <&6 || fail "perf record"
	echo >&7
	wait "${started[-1]}" || fail "spending"
	kill -INT "$perf"
	wait "$perf"
	exec 5>&- 6>&-
	perf script -i "$scratch/perf" --ns -F comm,tid,time,ip,sym,dso 2>/dev/null |
		awk -v hz=$SPENT_HZ -v phases="$scratch/phases" -v stacks="$scratch/stacks" -f "$here/fold.awk" \
			>"$scratch/spent" || fail "perf's samples"
	for verb in share attach detach free; do
		awk -F'\t' -v v=$verb '$1 == v { print $2 "\t" $3 }' "$scratch/stacks" | LC_ALL=C sort |
			awk -F'\t' -v title="gpushare_$verb()" -f "$here/flame.awk" >"$out/flame_$verb.svg" || fail "the flame graph of $verb"
	done
}

# spent VERB WHAT
spent() {
	awk -F'\t' -v v="$1" -v w="$2" '$1 == v && $2 == w { print $3; found = 1 } END { if (!found) print "0.0" }' "$scratch/spent"
}

table_spent() {
	local verb what
	printf '\n## Where the time goes, us a call\n\n'
	echo "On $([ -e "$BUILD/sim/libcuda.so.1" ] && echo "the simulated driver" || echo "this host's driver"), by perf's samples of the CPU ($SPENT_HZ a second); flame graphs: [share](flame_share.svg)," \
		"[attach](flame_attach.svg), [detach](flame_detach.svg), [free](flame_free.svg)."
	echo
	echo "| | share | attach | detach | free |"
	echo "|---|---|---|---|---|"
	while read -r what; do
		printf '| %s |' "$what"
		for verb in share attach detach free; do printf ' %s |' "$(spent $verb "$what")"; done
		echo
	done < <(awk -F'\t' '!seen[$2]++ { print $2 }' "$scratch/spent")
}
