# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by part_host.bash: copies of mapped buffers by each way, and a mirror's round trip.
: "${root:?}" "${bin:?}" "${scratch:?}" "${pid:=}"
COPIES_SIZE=$((64 << 20)) MIRROR_SIZE=${GPUSHARE_GPU_DUMP:-1073741824} MIRROR_REPEATS=7

# copies_figure TEXT: the number behind it
copies_figure() {
	awk -F'\t' -v what="$1" '$1 == what { print $2 }' "$scratch/copies"
}

# table_of FILE: its lines of more than two columns
table_of() {
	write "$(awk -F'\t' 'NR == 1 { head = "|"; rule = "|"; for (i = 1; i <= NF; i++) { head = head " " $i " |"; rule = rule "---|" }; print head; print rule; next }
		NF > 2 { row = "|"; for (i = 1; i <= NF; i++) row = row " " $i " |"; print row }' "$1")"
}

copies() {
	write "" "## gpushare_copy_to and gpushare_copy_from of another process's buffer, us" ""
	start "$BUILD/gpushare" run --name copied:map -- "$bin/app_hold" $COPIES_SIZE
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	if ! "$bin/host_copies" copied >"$scratch/copies" 2>"$scratch/errors"; then
		bad "host_copies: $(tail -n 1 "$scratch/errors")"
		end
		return
	fi
	end || bad "app_hold: exit code $?"
	write "GPU: before the process has mapped it; CPU: streaming stores and loads through a map; chosen: what a process that has mapped it gets. Pageable host memory, median of 7; 0: not tried." ""
	table_of "$scratch/copies"
	write "" "$(awk -F'\t' 'NF == 2 { print "- " $1 ": " $2 }' "$scratch/copies")"
	if [ "$(copies_figure "bytes that CPU and CUDA see differently")" = 0 ]; then
		ok "at odd places and lengths, CPU, CUDA and mirrors see the same bytes"
	else
		bad "CPU and CUDA see different bytes"
	fi
}

copies_aims() {
	write "" "Streams are judged at once, of 16 MiB in and 1 MiB out, where the host's own memory has a part; and over and over the same 128 KiB, as gdrcopy_copybw has them." ""
	host_aim least 17.5 "$(copies_figure "16 MiB to, by the CPU, GB/s")" "stream to the mapping, 16 MiB at once, GB/s"
	host_aim least 17.5 "$(copies_figure "128 KiB to, by the CPU, GB/s")" "stream to the mapping, 128 KiB over and over, GB/s" 17.3 22.4
	host_aim least 800 "$(copies_figure "1 MiB from, by the CPU, MB/s")" "stream from the mapping, 1 MiB at once, MB/s"
	host_aim least 800 "$(copies_figure "128 KiB from, by the CPU, MB/s")" "stream from the mapping, 128 KiB over and over, MB/s" 665 891
}
copies
copies_aims

# mirror_rate LINE: of what host_mirror printed
mirror_rate() {
	sed -n "$1p" "$scratch/mirror" | cut -f 2
}

mirror() {
	write "" "## A mirror of $((MIRROR_SIZE >> 20)) MiB of another process, GB/s" ""
	start "$BUILD/gpushare" run --name mirrored -- "$bin/app_hold" "$MIRROR_SIZE"
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	if ! "$bin/host_mirror" mirrored $MIRROR_REPEATS >"$scratch/mirror" 2>"$scratch/errors"; then
		bad "host_mirror: $(tail -n 1 "$scratch/errors")"
		end
		return
	fi
	end || bad "app_hold: exit code $?"
	write "| way | median | least | most |" "|---|---|---|---|"
	write "$(awk -F'\t' '$1 != "first" { printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }' "$scratch/mirror")"
	write "" "- the first opening pins the memory: $(awk -F'\t' '$1 == "first" { print $2 }' "$scratch/mirror") ms; the session keeps it for the next"
}

mirror_aims() {
	host_aim least 0.9 "$(awk -v a="$(mirror_rate 3)" -v b="$(mirror_rate 1)" 'BEGIN { if (b > 0) printf "%.3f", a / b }')" "a mirror's opening, of the pinned copy beside it"
	host_aim least 0.9 "$(awk -v a="$(mirror_rate 4)" -v b="$(mirror_rate 2)" 'BEGIN { if (b > 0) printf "%.3f", a / b }')" "a mirror's write-back, of the pinned copy beside it"
}
mirror
mirror_aims
