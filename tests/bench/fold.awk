# SPDX-License-Identifier: MIT
# perf script's samples to what they say: lines VERB WHAT US (of one call), the time on the wall first.
# -v phases: what spend printed; -v stacks: where the folded stacks go, VERB STACK COUNT; -v hz.
BEGIN {
	FS = "\t"
	OFS = "\t"
	while ((getline line <phases) > 0) {
		if (split(line, field, "\t") != 4)
			continue
		verb[n] = field[1]
		from[n] = field[2] + 0
		to[n++] = field[3] + 0
		calls[field[1]] += field[4]
		wall[field[1]] += field[3] - field[2]
	}
	kinds = split("on the wall|client: library|client: kernel|client: driver (simulated)|registry: ours|registry: journal|" \
		"registry: nng|registry: kernel, waking and switching|registry: kernel, the rest", kind, "|")
}

# A sample begins: "COMM TID SECONDS: "; its comm may hold blanks.
/^[^\t ]/ {
	frames = 0
	time = $0
	sub(/: *$/, "", time)
	side = time ~ /^spend/ ? "client" : "registry"
	sub(/.* /, "", time)
	next
}

/^[ \t]+[0-9a-f]+ / {
	line = $0
	sub(/^[ \t]+[0-9a-f]+ /, "", line)
	dso = line
	sub(/.*\(/, "", dso)
	sub(/ \([^(]*$/, "", line)
	sub(/\+0x[0-9a-f]*$/, "", line)
	frame[++frames] = line (dso ~ /kernel|vdso/ ? "_[k]" : "")
	object[frames] = dso
	next
}

/^$/ { sample(time + 0) }
END {
	sample(time + 0)
	for (v in wall)
		print v, kind[1], sprintf("%.1f", wall[v] * 1e6 / calls[v])
	for (k = 2; k <= kinds; k++)
		for (v in wall)
			if ((v, kind[k]) in count)
				print v, kind[k], sprintf("%.1f", count[v, kind[k]] * 1e6 / hz / calls[v])
	for (what in folded)
		print what, folded[what] >stacks
}

function what_is(ours, journal, switching, i) {
	for (i = 1; i <= frames; i++) {
		if (frame[i] ~ /^(on_done|on_connect|handle_|answer_request|work_|put_answer)/)
			ours = 1
		if (frame[i] ~ /^(journal_write|note_flush)/)
			journal = 1
		if (frame[i] ~ /(futex|schedule|try_to_wake_up|finish_task_switch|epoll_wait)/)
			switching = 1
	}
	if (side == "client")
		return object[1] ~ /libcuda/ ? kind[4] : frame[1] ~ /_\[k\]$/ ? kind[3] : kind[2]
	if (journal)
		return kind[6]
	if (frame[1] ~ /_\[k\]$/)
		return switching ? kind[8] : kind[9]
	return ours && frame[1] !~ /^(nni_|nng_|ipc_|rep0_)/ ? kind[5] : kind[7]
}

# Samples come in the order of their time, and so do the phases.
function sample(at, i, stack) {
	if (!frames)
		return
	while (now < n && to[now] < at)
		now++
	if (now < n && from[now] <= at) {
		count[verb[now], what_is()]++
		stack = side
		for (i = frames; i >= 1; i--)
			stack = stack ";" frame[i]
		folded[verb[now] "\t" stack]++
	}
	frames = 0
}
