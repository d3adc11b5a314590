# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by run.sh and registry.sh: writes rows of the table of targets, and a part of RESULTS.md.
: "${scratch:?}" "${BUILD:?}"

# verdict MEASURED TARGET: passes at most the target; under MEASURED TARGET: less; above MEASURED TARGET: at least
verdict() {
	awk -v a="$1" -v b="$2" 'BEGIN { print a <= b ? "PASS" : "**missed**" }'
}
under() {
	awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? "PASS" : "**missed**" }'
}
above() {
	verdict "$2" "$1"
}

# row WHAT TARGET MEASURED VERDICT: add a row to the table of targets
row() {
	echo "| $1 | $2 | $3 | $4 |" >>"$scratch/summary"
}

# spread FILE FORMAT: print "median (least - most)" of the file's numbers, one per line
spread() {
	sort -g "$1" | awk -v f="$2" '{ v[NR] = $1 } END { printf f " (" f " - " f ")", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

# this_host MORE: print the date, the host and the versions
this_host() {
	echo "$(date -u '+%Y-%m-%d %H:%M UTC'): $(nproc) CPUs ($(sed -n \
		's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), Linux $(uname -r | grep -o '^[0-9]*\.[0-9]*')," \
		"glibc $(getconf GNU_LIBC_VERSION | cut -d' ' -f2), gpushare $("$BUILD/gpushare" --version | awk '{ print $NF }'), $1."
}

# put_part PART RESULTS: put the file PART, which begins with a heading ("# ..."), into the file RESULTS. It replaces
# the part with the same heading, or is added at the end.
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
