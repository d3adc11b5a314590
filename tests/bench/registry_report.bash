# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/bench/registry.sh: turns the measurements into its part of RESULTS.md.
: "${here:?}" "${out:?}" "${scratch:?}" "${load=}" "${MANY[0]:?}" "${globs[0]:?}"
TRIP_TARGET=3.5 NNG_TARGET=1.25 RATE_TARGET=0.8 LOOKUP_TARGET=0.5 # ratios, us
FD_TARGET=2 BYTES_TARGET=400 LIST_TARGET=2000 IDLE_TARGET=0 # ratio, bytes, ms, a second

declare -A who=(
	[echo]="bare SOCK_SEQPACKET echo"
	[nng_echo]="echo by a bare nng server, plain client"
	[registry]="registry, over its socket"
	[nng]="registry, over its socket by an nng client"
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

# many COUNT WHAT [GLOB]
many() {
	awk -F'\t' -v n="$1" -v what="$2" -v g="${3:-}" '
		$1 == n && $2 == what && (g == "" || $3 == g) { print g == "" ? $3 : $5 }' "$scratch/many"
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
	measured=$(many "${MANY[-1]}" bytes)
	row "bytes that each of ${MANY[-1]} names takes" "$BYTES_TARGET or less" "$measured" "$(verdict "$measured" $BYTES_TARGET)"
	measured=$(many "${MANY[-1]}" list '*')
	row "a list of all ${MANY[-1]} names" "$LIST_TARGET ms or less" "$measured ms" "$(verdict "${measured%% *}" $LIST_TARGET)"
	measured=$(<"$scratch/idle")
	row "an idle registry's threads wake, a second" "$IDLE_TARGET" "$measured" "$(verdict "$measured" $IDLE_TARGET)"
	measured=$(trip index 3)
	row "a look-up by the index" "$LOOKUP_TARGET us or less" "$measured us" "$(verdict "${measured%% *}" $LOOKUP_TARGET)"
}

table_trips() {
	local kind
	printf '\n## A round trip, us\n\n'
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
	echo "| who answers |$(printf ' %s clients |' "${counts[@]}" | sed 's/ 1 clients/ 1 client/')"
	echo "|---|$(printf -- '---|%.0s' "${counts[@]}")"
	for kind in $(kinds "$scratch/rates"); do
		printf '| %s |' "${who[$kind]}"
		for clients in "${counts[@]}"; do printf ' %s |' "$(rate "$kind" "$clients")"; done
		echo
	done
}

# cells WHAT...: print table cells for each number of names: the figure
cells() {
	local count
	for count in "${MANY[@]}"; do
		printf ' %s |' "$(many "$count" "$@")"
	done
	echo
}

table_many() {
	local glob heads=()
	for count in "${MANY[@]}"; do
		heads+=("$count names")
	done
	printf '\n## Many names\n\n'
	echo "| |$(printf ' %s |' "${heads[@]}")"
	echo "|---|$(printf -- '---|%.0s' "${heads[@]}")"
	echo "| memory, bytes a name |$(cells bytes)"
	echo "| to enter one, us (4 clients) |$(cells share)"
	echo "| to look one up, us (\`gpushare_stat()\`) |$(cells look)"
	for glob in "${globs[@]}"; do
		echo "| list \`$glob\`, ms |$(cells list "$glob")"
	done
	echo
	awk -F'\t' -v last="${MANY[-1]}" '$1 == last && $2 == "list" {
		printf "%s`%s` fits %d", n++ ? ", " : "Of " last " names ", $3, $4 } END { print "." }' "$scratch/many"
	echo "The index has room for 131,072 names: of more, the rest is asked for over the socket."
	echo "A list has whole records, a page of them a round trip, in order."
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
	sed -n '/^| what/,/^$/p' "$scratch/part" | sed 's/\*\*//g' | column -t -s'|' -o'|' | grep -v -- '---'
	echo "all of it is in $results"
}
