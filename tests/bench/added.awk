# SPDX-License-Identifier: MIT
# Lines CASE WAY ROUND CALL THREADS PHASE CPU WALL BATCHES to one line for each case but the bare:
#   CASE WAY CALL THREADS PHASE BARE_CPU CPU LEAST MOST BARE_WALL WALL LEAST MOST WORSE
# BARE_* are a call's median; CPU and WALL what the case adds to the bare run of the same round,
# median, least and most; WORSE the larger of the two medians for one call (a pair has two).
function sort(list, n, i, k, moved) {
	for (i = 2; i <= n; i++) {
		moved = list[i]
		for (k = i - 1; k >= 1 && list[k] > moved; k--)
			list[k + 1] = list[k]
		list[k + 1] = moved
	}
}

# Of the numbers of `kind`, less those of the bare runs where `less`: found[1..3]
function spread(value, kind, key, less, found, round, n, list) {
	n = 0
	for (round = 0; round < rounds; round++)
		if ((kind, key, round) in value)
			list[++n] = value[kind, key, round] - (less ? value["bare", key, round] : 0)
	sort(list, n)
	found[1] = list[int((n + 1) / 2)]
	found[2] = list[1]
	found[3] = list[n]
	return n
}

{
	key = $2 " " $4 " " $5 " " $6
	if (!(key in seen))
		keys[++key_count] = key
	if (!($1 in kinds) && $1 != "bare")
		kind_names[++kind_count] = $1
	seen[key] = kinds[$1] = 1
	cpu[$1, key, $3] = $7
	wall[$1, key, $3] = $8
	if ($3 >= rounds)
		rounds = $3 + 1
}

END {
	for (c = 1; c <= kind_count; c++) {
		for (k = 1; k <= key_count; k++) {
			key = keys[k]
			if (spread(cpu, kind_names[c], key, 1, c_added) != rounds || \
			    spread(cpu, "bare", key, 0, c_bare) != rounds)
				bad = 1
			spread(wall, kind_names[c], key, 1, w_added)
			spread(wall, "bare", key, 0, w_bare)
			worse = c_added[1] > w_added[1] ? c_added[1] : w_added[1]
			if (key ~ /pair$/)
				worse /= 2
			printf "%s %s %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f\n", kind_names[c], key, \
				c_bare[1], c_added[1], c_added[2], c_added[3], \
				w_bare[1], w_added[1], w_added[2], w_added[3], worse
		}
	}
	exit bad || !key_count || !kind_count
}
