# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/bench/registry.sh: turns the measurements into its part of RESULTS.md.
: "${here:?}" "${out:?}" "${scratch:?}" "${has_redis=}" "${has_plot=}" "${load=}" "${MANY[0]:?}" "${globs[0]:?}"
TRIP_TARGET=3.5 NNG_TARGET=1.25 RATE_TARGET=0.8 LOOKUP_TARGET=0.5 REDIS_TARGET=20 # ratios, us, ratio
FD_TARGET=2 BYTES_TARGET=400 LIST_TARGET=2000 IDLE_TARGET=0 # ratio, bytes, ms, a second

declare -A who=(
	[echo]="bare SOCK_SEQPACKET echo"
	[nng_echo]="echo by a bare nng server, plain client"
	[registry]="registry, over its socket"
	[nng]="registry, over its socket by an nng client"
	[redis]="Redis GET${has_redis:+ ($has_redis)}"
	[fd_echo]="bare SOCK_SEQPACKET server of descriptors, connected anew"
	[descriptor]="registry, a descriptor from \`fds.sock\`"
	[index]="registry, by its index (\`gpushare_stat()\`)"
)

# kinds FILE: the kinds that were measured, in order
kinds() {
	awk '!seen[$2]++ { print $2 }' "$1"
}

# trip KIND COLUMN: the spread over the rounds of the kind's medians (3) or 99th percentiles (4)
trip() {
	awk -v k="$1" -v c="$2" '$2 == k { print $c }' "$scratch/trips" >"$scratch/column"
	spread "$scratch/column" %.2f
}

# ratio KIND TO: the spread over the rounds of the ratio of the two kinds' medians
ratio() {
	awk -v k="$1" -v to="$2" '$2 == k { a[$1] = $3 } $2 == to { b[$1] = $3 } END { for (r in a) print a[r] / b[r] }' \
		"$scratch/trips" >"$scratch/column"
	spread "$scratch/column" %.2f
}

# rate KIND CLIENTS: the spread of thousands of look-ups per second
rate() {
	awk -v k="$1" -v n="$2" '$2 == k && $3 == n { print $4 / 1000 }' "$scratch/rates" >"$scratch/column"
	spread "$scratch/column" %.1f
}

# many COUNT WHO WHAT [GLOB]
many() {
	awk -F'\t' -v n="$1" -v w="$2" -v what="$3" -v g="${4:-}" '
		$1 == n && $2 == w && $3 == what && (g == "" || $4 == g) { print g == "" ? $4 : $6 }' "$scratch/many"
}

# rate_ratio KIND TO CLIENTS: the spread over the rounds of the ratio of the two kinds' rates
rate_ratio() {
	awk -v k="$1" -v to="$2" -v n="$3" '$3 != n { next } $2 == k { a[$1] = $4 } $2 == to { b[$1] = $4 } END { for (r in a) print a[r] / b[r] }' \
		"$scratch/rates" >"$scratch/column"
	spread "$scratch/column" %.2f
}

rows_targets() {
	local measured clients
	measured=$(ratio registry echo)
	row "round trip to the registry, against a bare echo" "$TRIP_TARGET times or less" "$measured" "$(verdict "${measured%% *}" $TRIP_TARGET)"
	measured=$(ratio nng_echo echo)
	row "of it nng's: the same of a server that is nng and nothing else" "" "$measured" ""
	measured=$(ratio registry nng_echo)
	row "and ours: a round trip to the registry, against that server" "$NNG_TARGET times or less" "$measured" "$(verdict "${measured%% *}" $NNG_TARGET)"
	clients=${CLIENTS##*,}
	measured=$(rate_ratio registry nng_echo "$clients")
	row "look-ups a second by $clients clients, against what that server echoes" "$RATE_TARGET or more" "$measured" "$(above "${measured%% *}" $RATE_TARGET)"
	measured=$(ratio descriptor fd_echo)
	row "fetch of a descriptor, against that of a bare server of them" "$FD_TARGET times or less" "$measured" "$(verdict "${measured%% *}" $FD_TARGET)"
	measured=$(many "${MANY[-1]}" registry bytes)
	row "bytes that each of ${MANY[-1]} names takes" "$BYTES_TARGET or less" "$measured" "$(verdict "$measured" $BYTES_TARGET)"
	measured=$(many "${MANY[-1]}" registry list '*')
	row "a list of all ${MANY[-1]} names" "$LIST_TARGET ms or less" "$measured ms" "$(verdict "${measured%% *}" $LIST_TARGET)"
	measured=$(<"$scratch/idle")
	row "an idle registry's threads wake, a second" "$IDLE_TARGET" "$measured" "$(verdict "$measured" $IDLE_TARGET)"
	measured=$(trip index 3)
	row "a look-up by the index" "$LOOKUP_TARGET us or less" "$measured us" "$(verdict "${measured%% *}" $LOOKUP_TARGET)"
	if [ -z "$has_redis" ]; then
		row "the same, ahead of Redis" "$REDIS_TARGET times or more" "no Redis here" "-"
		return
	fi
	measured=$(ratio redis index)
	row "the same, ahead of Redis" "$REDIS_TARGET times or more" "$measured times" "$(above "${measured%% *}" $REDIS_TARGET)"
}

table_trips() {
	local kind
	printf '\n## A round trip, us\n\n'
	[ -z "$has_plot" ] || printf '![round trips](trips.svg)\n\n'
	echo "| who answers | median | 99 of 100 | against the bare echo |"
	echo "|---|---|---|---|"
	for kind in $(kinds "$scratch/trips"); do
		echo "| ${who[$kind]} | $(trip "$kind" 3) | $(trip "$kind" 4) | $(ratio "$kind" echo) |"
	done
}

table_rates() {
	local kind clients counts
	mapfile -t counts < <(awk '!seen[$3]++ { print $3 }' "$scratch/rates")
	printf '\n## Look-ups, thousands a second\n\n'
	[ -z "$has_plot" ] || printf '![look-ups a second](rates.svg)\n\n'
	echo "| who answers |$(printf ' %s clients |' "${counts[@]}" | sed 's/ 1 clients/ 1 client/')"
	echo "|---|$(printf -- '---|%.0s' "${counts[@]}")"
	for kind in $(kinds "$scratch/rates"); do
		printf '| %s |' "${who[$kind]}"
		for clients in "${counts[@]}"; do printf ' %s |' "$(rate "$kind" "$clients")"; done
		echo
	done
}

# cells WHAT...: print table cells for each number of names: the registry's figure, and Redis's
cells() {
	local count
	for count in "${MANY[@]}"; do
		printf ' %s |' "$(many "$count" registry "$@")"
		[ -z "$has_redis" ] || printf ' %s |' "$(many "$count" redis "$@")"
	done
	echo
}

table_many() {
	local glob heads=()
	for count in "${MANY[@]}"; do
		heads+=("registry, $count names")
		[ -z "$has_redis" ] || heads+=("Redis, $count")
	done
	printf '\n## Many names\n\n'
	[ -z "$has_plot" ] || printf '![listing](many.svg)\n\n'
	echo "| |$(printf ' %s |' "${heads[@]}")"
	echo "|---|$(printf -- '---|%.0s' "${heads[@]}")"
	echo "| memory, bytes a name |$(cells bytes)"
	echo "| to enter one, us (4 clients; Redis 1) |$(cells share)"
	echo "| to look one up, us (\`gpushare_stat()\`; Redis GET) |$(cells look)"
	for glob in "${globs[@]}"; do
		echo "| list \`$glob\`, ms |$(cells list "$glob")"
	done
	echo
	awk -F'\t' -v last="${MANY[-1]}" '$1 == last && $2 == "registry" && $3 == "list" {
		printf "%s`%s` fits %d", n++ ? ", " : "Of " last " names ", $4, $5 } END { print "." }' "$scratch/many"
	echo "The index has room for 131,072 names: of more, the rest is asked for over the socket."
	echo "The registry lists whole records, a page of them a round trip, in order; Redis's KEYS the names alone, in one, while it answers nobody else."
}

report() {
	local results=$out/RESULTS.md
	rows_targets
	{
		echo "# The registry beside others"
		echo
		echo "Written by \`make bench\` on $(this_host "load $load at the start")"
		echo
		echo "| what | target | measured | |"
		echo "|---|---|---|---|"
		cat "$scratch/summary"
		echo
		echo "All of it in one run and in turns; medians, in brackets the least and most of $TRIP_ROUNDS rounds of $TRIPS (round trips) and" \
			"$RATE_ROUNDS of $RATE_MS ms (look-ups a second). Ratios are of the same round."
		table_trips
		table_rates
		table_many
	} >"$scratch/part"
	put_part "$scratch/part" "$results" || exit 1
	[ -z "$has_plot" ] || draw
	sed -n '/^| what/,/^$/p' "$scratch/part" | sed 's/\*\*//g' | column -t -s'|' -o'|' | grep -v -- '---'
	echo "all of it is in $results"
}

# plot NAME WIDTH: draw with the rest of a gnuplot program, which is read from standard input
plot() {
	{
		echo "set terminal svg size $2,360 font 'sans-serif,12' background rgb 'white'"
		echo "set output '$out/$1.svg'; set style fill solid 0.8; set grid ytics; set logscale y; set key outside top"
		echo "set style data histogram; set style histogram cluster gap 1; set boxwidth 0.9; set datafile separator '\t'"
		cat
	} >"$scratch/plot"
	gnuplot "$scratch/plot" 2>"$scratch/errors" && sed -i '1a <!-- SPDX-License-Identifier: MIT -->' "$out/$1.svg" ||
		fail "the drawing $1.svg"
}

draw() {
	local kind count clients
	for kind in $(kinds "$scratch/trips"); do
		printf '%s\t%s\n' "${kind/nng_echo/nng echo}" "$(trip "$kind" 3 | cut -d' ' -f1)"
	done >"$scratch/trips.tsv"
	plot trips 640 <<<"set ylabel 'us, median'; unset key; set yrange [0.1:*]; plot '$scratch/trips.tsv' using 2:xtic(1) lc rgb '#4878a8'"
	for clients in ${CLIENTS//,/ }; do
		printf '%s' "$clients"
		for kind in $(kinds "$scratch/rates"); do printf '\t%s' "$(rate "$kind" "$clients" | cut -d' ' -f1)"; done
		echo
	done >"$scratch/rates.tsv"
	{
		echo "set ylabel 'thousands a second'; set xlabel 'clients'; plot \\"
		count=1
		for kind in $(kinds "$scratch/rates"); do
			printf "%s'$scratch/rates.tsv' using %s:xtic(1) title '%s'" "$([ $count = 1 ] || echo ', ')" $((count += 1)) "${kind/nng_echo/nng echo}"
		done
		echo
	} | plot rates 800
	for glob in "${globs[@]}"; do
		printf '%s' "$glob"
		for count in "${MANY[@]}"; do
			printf '\t%s' "$(many "$count" registry list "$glob")"
			[ -z "$has_redis" ] || printf '\t%s' "$(many "$count" redis list "$glob")"
		done
		echo
	done >"$scratch/many.tsv"
	{
		echo "set ylabel 'ms to list'; set xtics noenhanced; plot \\"
		kind=1
		for count in "${MANY[@]}"; do
			printf "%s'$scratch/many.tsv' using %s:xtic(1) title 'registry, %s names'" "$([ $kind = 1 ] || echo ', ')" $((kind += 1)) "$count"
			[ -z "$has_redis" ] || printf ", '$scratch/many.tsv' using %s:xtic(1) title 'Redis, %s'" $((kind += 1)) "$count"
		done
		echo
	} | plot many 800
}
