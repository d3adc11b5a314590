# SPDX-License-Identifier: MIT
# Reads Prometheus' text format (0.0.4) and prints "name{labels} value" of each sample; on the first line that
# is none, or comes where it mustn't, says so and ends with 1. `gpushare metrics` is held against it.
function bad(why) { print FILENAME ": line " NR ": " why ": " $0 > "/dev/stderr"; failed = 1; exit 1 }
function unescaped(text) { gsub(/\\\\|\\"|\\n/, "", text); return text }

BEGIN {
	name = "[a-zA-Z_:][a-zA-Z0-9_:]*"
	label = "[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\]|\\\\[\\\\\"n])*\""
	labels = "(\\{(" label "(," label ")*,?)?\\})?"
	number = "([-+]?[0-9]+(\\.[0-9]*)?([eE][-+]?[0-9]+)?|NaN|[-+]Inf)"
}
/^# HELP / {
	if ($3 !~ "^" name "$" || NF < 4) bad("no HELP")
	if (($3) in help) bad("HELP again")
	help[$3] = 1; family = $3
	next
}
/^# TYPE / {
	if ($3 != family || NF != 4) bad("no TYPE of what HELP told of")
	if ($4 !~ /^(counter|gauge|histogram|summary|untyped)$/) bad("no such type")
	if ($4 == "counter" && $3 !~ /_total$/) bad("a counter is called _total")
	if ($4 != "counter" && $3 ~ /_total$/) bad("no counter, but called _total")
	type[$3] = $4
	next
}
/^#/ || /^$/ { next }
{
	if ($0 !~ "^" name labels " " number "$") bad("no sample")
	match($0, "^" name)
	sample = substr($0, 1, RLENGTH)
	if (sample != family || !(sample in type)) bad("not below its HELP and TYPE")
	series = $0; sub(/ [^ ]*$/, "", series)
	if (series in seen) bad("again")
	seen[series] = 1
	if (type[sample] == "counter" && $NF ~ /^-/) bad("a counter below nothing")
	print series, $NF
}
END { exit failed }
