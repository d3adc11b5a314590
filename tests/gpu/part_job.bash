# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: the main job on a GPU, with kernels and with frameworks.
: "${root:?}" "${bin:?}" "${scratch:?}" "${pid:=}"
# kernels of two processes on one buffer
write "" "## Kernels of two processes on one buffer" ""
kernels() {
	local kind=$1 peer
	start "$BUILD/gpushare" run --name kernel -- "$bin/kernel_app_$kind" "$scratch/saved"
	heard 1 >/dev/null || { bad "kernel_app_$kind did not start"; return; }
	peer=$("$bin/kernel_peer_$kind" kernel 2>"$scratch/errors") ||
		{ bad "kernel_peer_$kind: $peer"; end; return; }
	heard 3 >/dev/null || { bad "kernel_app_$kind did not answer"; end; return; }
	if ! "$BUILD/gpushare-attach" kernel -o "$scratch/dump" 2>"$scratch/errors" ||
		! cmp "$scratch/saved" "$scratch/dump"; then
		bad "kernel_app_$kind: the dump differs"
		end
		return
	fi
	end || { bad "kernel_app_$kind: exit code $?"; return; }
	ok "nvcc, $kind cudart: named, attached by a second process; $(tr '\n' ';' <<<"$peer") $(sed -n 2p "$scratch/said"); dump of $(wc -c <"$scratch/dump") bytes equal"
}
for kind in static shared; do
	if [ ! -x "$bin/kernel_app_$kind" ]; then
		skip "kernel_app_$kind: not built (needs nvcc)"
	elif [ "$GPUSHARE_TEST_GPU" = no ]; then
		skip "kernel_app_$kind: needs a GPU"
	else
		kernels "$kind"
	fi
done

# frameworks, unmodified
write "" "## Unmodified frameworks" ""
framework() {
	local module=$1 label version data base size bytes name found=
	if ! python3 -c "import $module; $2" >/dev/null 2>&1; then
		skip "$module: no usable python3 module of that name"
		return
	fi
	start "$BUILD/gpushare" run --name 'seg%i' -- python3 "$root/tests/gpu/${module}_app.py" "$scratch/saved"
	heard 1 >/dev/null || { bad "$module: the program did not start"; return; }
	read -r label version data base size bytes <"$scratch/said"
	for name in $("$BUILD/gpushare" ls --json | jq -r --argjson size "$size" \
		'.[] | select(.size == $size) | .name'); do
		"$BUILD/gpushare-attach" "$name" --offset $((data - base)) --length "$bytes" -o "$scratch/dump" \
			2>"$scratch/errors" || continue
		cmp -s "$scratch/saved" "$scratch/dump" && found=$name && break
	done
	[ -n "$found" ] || { bad "$label $version: the tensor's bytes were in no named segment"; end; return; }
	printf '\377\377\377\377' >"$scratch/minus_one"
	"$BUILD/gpushare-attach" "$found" --offset $((data - base)) --length 4 --into "$scratch/minus_one" \
		2>"$scratch/errors" || { bad "$label $version: writing into $found"; end; return; }
	[ "$(heard 2)" = "first element -1" ] || { bad "$label $version: the change was not seen"; end; return; }
	end
	ok "$label $version: tensor of $bytes bytes found at offset $((data - base)) of $found ($size bytes); a change from outside was seen by the tensor"
}
framework torch "assert torch.cuda.is_available()"
framework cupy "cupy.cuda.Device(0).compute_capability"
