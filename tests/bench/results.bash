# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by run.sh and registry.sh: rows of the table of targets, and a part of RESULTS.md.
: "${scratch:?}" "${BUILD:?}"

# verdict MEASURED TARGET: it may be as much; under MEASURED TARGET: it must be less; above: at least
verdict() {
	awk -v a="$1" -v b="$2" 'BEGIN { print a <= b ? "PASS" : "**missed**" }'
}
under() {
	awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? "PASS" : "**missed**" }'
}
above() {
	verdict "$2" "$1"
}

# row WHAT TARGET MEASURED VERDICT
row() {
	echo "| $1 | $2 | $3 | $4 |" >>"$scratch/summary"
}

# spread FILE FORMAT: of its numbers, a line each: median (least - most)
spread() {
	sort -g "$1" | awk -v f="$2" '{ v[NR] = $1 } END { printf f " (" f " - " f ")", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

# this_host MORE: when, and on what
this_host() {
	echo "$(date -u '+%Y-%m-%d %H:%M UTC'): $(nproc) CPUs ($(sed -n \
		's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), Linux $(uname -r | grep -o '^[0-9]*\.[0-9]*')," \
		"glibc $(getconf GNU_LIBC_VERSION | cut -d' ' -f2), gpushare $("$BUILD/gpushare" --version | awk '{ print $NF }'), $1."
}

# put_part PART RESULTS: the file PART, which begins with a heading of its own ("# ..."), takes the
# place of the part of RESULTS that begins so, or comes behind all others.
put_part() {
	[ -e "$2" ] || : >"$2"
	awk -v part="$1" '
		function put(line) { while ((getline line <part) > 0) print line; done = 1 }
		BEGIN { getline head <part; close(part) }
		/^# / { within = $0 == head; if (within && !done) { put(); separate = 1; next } }
		within { next }
		{ if (separate) { print ""; separate = 0 } print; any = 1 }
		END { if (!done) { if (any) print ""; put() } }' "$2" >"$scratch/whole" && cp "$scratch/whole" "$2"
}
