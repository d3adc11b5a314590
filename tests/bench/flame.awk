# SPDX-License-Identifier: MIT
# Sorted lines STACK COUNT, frames from the outermost on with ";" between, to a flame graph as SVG.
# What is narrower than a 400th is left out. -v title
BEGIN {
	FS = "\t"
	width = 1200
	height = 17
}

{
	depth = split($1, frame, ";")
	for (same = 1; same <= depth && same <= open && frame[same] == was[same]; same++)
		;
	close_from(same)
	for (i = same; i <= depth; i++) {
		was[i] = frame[i]
		begun[i] = total
	}
	open = depth
	total += $2
}

function close_from(first, i) {
	for (i = open; i >= first; i--) {
		boxes++
		name[boxes] = was[i]
		left[boxes] = begun[i]
		samples[boxes] = total - begun[i]
		level[boxes] = i
	}
}

function escaped(text) {
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	gsub(/>/, "\\&gt;", text)
	return text
}

function colour(text) {
	if (text ~ /_\[k\]$/)
		return "#d9a05b"
	if (text ~ /^(nni_|nng_|ipc_|rep0_|nni)/)
		return "#9a8fc4"
	if (text ~ /^(gpushare_|client|session|handle_|registry|store|note|journal|on_done|work_|put_answer|codec|pb_|index|changes)/)
		return "#6fa86f"
	return "#b8b8b8"
}

END {
	close_from(1)
	for (i = 1; i <= boxes; i++) {
		if (samples[i] * 400 < total)
			continue
		if (level[i] > deepest)
			deepest = level[i]
	}
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" font-size=\"11\">\n", width, (deepest + 2) * height
	print "<!-- SPDX-License-Identifier: MIT -->"
	printf "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"4\" y=\"13\">%s: %d samples; ours green, nng violet, kernel orange</text>\n", escaped(title), total
	for (i = 1; i <= boxes; i++) {
		w = samples[i] * width / total
		if (samples[i] * 400 < total)
			continue
		x = left[i] * width / total
		y = (deepest + 1 - level[i] + 1) * height
		printf "<g><title>%s: %.1f %%</title><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" stroke=\"white\" stroke-width=\"0.5\"/>", \
			escaped(name[i]), samples[i] * 100 / total, x, y, w, height - 1, colour(name[i])
		letters = int(w / 6.7)
		if (letters >= 3)
			printf "<text x=\"%.1f\" y=\"%d\">%s</text>", x + 2, y + 12, escaped(substr(name[i], 1, letters))
		print "</g>"
	}
	print "</svg>"
	exit total == 0
}
