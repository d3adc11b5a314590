# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: gpushare-attach on a large buffer, beside what else brings bytes to a
# file in the same run. GPUSHARE_GPU_BIG (8 GiB) is its size, GPUSHARE_GPU_DISK a folder on a disk.
: "${root:?}" "${bin:?}" "${scratch:?}" "${shm:?}" "${out:?}"
BIG=${GPUSHARE_GPU_BIG:-$([ "$GPUSHARE_TEST_GPU" = no ] && echo 67108864 || echo 8589934592)} DUMP_ROUNDS=3
DUMP_PINNED=$((BIG < 1073741824 ? BIG : 1073741824))

# dump_disk: a folder that is no tmpfs
dump_disk() {
	local folder
	for folder in ${GPUSHARE_GPU_DISK:+"$GPUSHARE_GPU_DISK"} "$out" /var/tmp /tmp; do
		[ -w "$folder" ] && [ "$(stat -f -c %T "$folder")" != tmpfs ] && echo "$folder" && return
	done
	return 1
}

# dump_target LEAST VALUE WORDS: VALUE must be at least LEAST
dump_target() {
	if [ "$GPUSHARE_TEST_GPU" = no ]; then
		write "- (simulated driver, no target) $3"
	elif within "$1" "$2"; then
		ok "$3"
	else
		bad "target missed: $3"
	fi
}

ratio_of() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", (b > 0) ? a / b : 0 }'
}

# dump_pinned: the host's rate, in $pinned
dump_pinned() {
	start "$BUILD/gpushare" run --name rate -- "$bin/app_hold" "$DUMP_PINNED"
	heard 1 >/dev/null || { bad "app_hold did not start"; return 1; }
	head -c "$DUMP_PINNED" /dev/zero >"$shm/dump"
	"$bin/api_rate" rate 5 "$shm/dump" >"$scratch/rates" 2>"$scratch/errors" || { bad "api_rate"; end; return 1; }
	rm -f "$shm/dump"
	end || { bad "app_hold: exit code $?"; return 1; }
	pinned=$(head -n 1 "$scratch/rates" | cut -f 2)
}

# dump_ours TARGET: adds "streaming whole" in GB/s to $scratch/dump_ours
dump_ours() {
	local began=$EPOCHREALTIME
	"$BUILD/gpushare-attach" big --rate -o "$1" 2>"$scratch/errors" || return
	awk -v a="$began" -v b="$EPOCHREALTIME" -v n="$big" '/ GB\/s$/ { printf "%s %.2f\n", $(NF - 1), n / (b - a) / 1e9 }' \
		"$scratch/errors" >>"$scratch/dump_ours"
}

# dump_dd TARGET: adds GB/s to $scratch/dump_dd; where there is no O_DIRECT, without
dump_dd() {
	local began count=$((big >> 23)) flag
	rm -f "$1"
	for flag in oflag=direct oflag=nofollow; do
		began=$EPOCHREALTIME
		dd if=/dev/zero of="$1" bs=8M count=$count $flag status=none 2>"$scratch/errors" || { rm -f "$1"; continue; }
		awk -v a="$began" -v b="$EPOCHREALTIME" -v n=$((count << 23)) 'BEGIN { printf "%.2f\n", n / (b - a) / 1e9 }' >>"$scratch/dump_dd"
		rm -f "$1"
		dd_flag=$flag
		return
	done
	return 1
}

# dump_framework NAME FILE: its row
dump_framework() {
	local code=0 rate
	rate=$(timeout 180 python3 "$root/tests/gpu/dump_frameworks.py" "$1" "$2" "$big" 2>"$scratch/errors") || code=$?
	rm -f "$2"
	case $code in
	0) write "| $3 | $rate | |" ;;
	77) write "| $3 | skipped: $rate | |" ;;
	*) write "| $3 | failed: exit code $code | |" ;;
	esac
}

# dump_file FOLDER WORDS: ours and dd by turns, then the frameworks
dump_file() {
	local file=$1/gpushare-dump.$$ i began=$SECONDS ours theirs dd_flag=
	rm -f "$scratch/dump_ours" "$scratch/dump_dd"
	for ((i = 0; i < DUMP_ROUNDS && SECONDS - began < 60; i++)); do
		rm -f "$file"
		dump_ours "$file" || { bad "gpushare-attach -o $file"; return; }
		if [ $i = 0 ]; then
			"$BUILD/gpushare-attach" big --diff "$file" >"$scratch/said" 2>"$scratch/errors" ||
				bad "what is in $2 is not the buffer: $(head -n 1 "$scratch/said")"
		fi
		dump_dd "$file" || { bad "dd to $2"; return; }
	done
	rm -f "$file"
	ours=$(median_of "$scratch/dump_ours" 1) theirs=$(median_of "$scratch/dump_dd" 1)
	write "| gpushare-attach, the copy | $ours | $(ratio_of "${ours%% *}" "$pinned") |" \
		"| gpushare-attach, whole command with CUDA start-up | $(median_of "$scratch/dump_ours" 2) | |" \
		"| dd bs=8M $dd_flag | $theirs | |"
	dump_framework torch "$file" "torch.save, PyTorch's own tensor"
	dump_framework cupy "$file" "cupy.asnumpy().tofile, CuPy's own array"
	write ""
	dump_target 0.9 "$(ratio_of "${ours%% *}" "${theirs%% *}")" \
		"$2: $(ratio_of "${ours%% *}" "${theirs%% *}") of dd in the same run (target: 0.9 or more)"
}

# dump_room FOLDER: bytes that may be written there, whole 8 MiB, BIG at most
dump_room() {
	df -B1 --output=avail "$1" | awk -v big="$BIG" 'NR == 2 { room = $1 * 0.8; printf "%.0f", int((room < big ? room : big) / 8388608) * 8388608 }'
}

# dump_into FOLDER WORDS: as much as there is room for, of a buffer of that size
dump_into() {
	big=$(dump_room "$1")
	[ "$big" -ge 67108864 ] || { skip "$2: no room for 64 MiB"; return; }
	write "" "### $2, $((big >> 20)) MiB, $(stat -f -c %T "$1")" "" "| way | GB/s, median (least - most) | of the pinned copy |" "|---|---|---|"
	start "$BUILD/gpushare" run --name big -- "$bin/app_hold" "$big" 900
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	dump_file "$1" "$2"
	end || bad "app_hold: exit code $?"
}

dump_null() {
	local i ours
	big=$BIG
	write "" "### to /dev/null, $((big >> 20)) MiB" "" "| way | GB/s, median (least - most) | of the pinned copy |" "|---|---|---|"
	start "$BUILD/gpushare" run --name big -- "$bin/app_hold" "$big" 900
	heard 1 >/dev/null || { bad "app_hold did not start"; return; }
	rm -f "$scratch/dump_ours"
	for ((i = 0; i < 5; i++)); do
		dump_ours /dev/null || { bad "gpushare-attach -o /dev/null"; end; return; }
	done
	ours=$(median_of "$scratch/dump_ours" 1)
	write "| cuMemcpyDtoH into pinned memory, $((DUMP_PINNED >> 20)) MiB | $pinned | 1.000 |" \
		"| gpushare-attach, the copy | $ours | $(ratio_of "${ours%% *}" "$pinned") |" \
		"| gpushare-attach, whole command with CUDA start-up | $(median_of "$scratch/dump_ours" 2) | |"
	rm -f "$scratch/dump_ours"
	for ((i = 0; i < 2; i++)); do
		"$BUILD/gpushare-attach" big --rate --sha256 2>"$scratch/errors" >"$scratch/said" || bad "gpushare-attach --sha256"
		"$BUILD/gpushare-attach" big --rate --stats --dtype f16 2>>"$scratch/errors" >"$scratch/said" || bad "gpushare-attach --stats"
		write "$(awk '/ GB\/s$/ { printf "| gpushare-attach %s | %s | |\n", n++ ? "--stats --dtype f16" : "--sha256", $(NF - 1) }' "$scratch/errors")"
	done
	write ""
	dump_target 0.95 "$(ratio_of "${ours%% *}" "$pinned")" \
		"to /dev/null: $(ratio_of "${ours%% *}" "$pinned") of the pinned copy of the same run (target: 0.95 or more)"
	end || bad "app_hold: exit code $?"
}

write "" "## gpushare-attach on a large buffer of another process"
if dump_pinned; then
	dump_null
	dump_into "$shm" "to a tmpfs"
	if disk=$(dump_disk); then
		dump_into "$disk" "to a disk"
	else
		skip "to a disk: no folder that is no tmpfs; GPUSHARE_GPU_DISK may name one"
	fi
fi
