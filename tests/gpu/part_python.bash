# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: the Python package under frameworks, and one state dict for N processes.
# GPUSHARE_GPU_STATE (bytes, 8 GiB), GPUSHARE_GPU_STATE_PROCESSES (4).
: "${root:?}" "${scratch:?}" "${shm:?}"
export GPUSHARE_LIBRARY=$BUILD/libgpushare.so.0 PYTHONDONTWRITEBYTECODE=1
PATH=$BUILD:$PATH # a session may have to start the registry
STATE=${GPUSHARE_GPU_STATE:-8589934592} STATE_PROCESSES=${GPUSHARE_GPU_STATE_PROCESSES:-4}

write "" "## The Python package, with a process that has no framework" ""
python_frameworks() {
	local name how code said
	for name in torch cupy jax numba numpy; do
		case $name in
		torch) how="torch.from_dlpack, torch.as_tensor, gpushare.torch.tensor" ;;
		cupy) how="cupy.asarray, cupy.from_dlpack" ;;
		jax) how="jax.dlpack.from_dlpack" ;;
		numba) how="numba.cuda.as_cuda_array" ;;
		numpy) how="numpy.asarray, numpy.from_dlpack, of unified memory" ;;
		esac
		code=0
		said=$(timeout 300 python3 "$root/tests/gpu/py_frameworks.py" "$name" 2>"$scratch/errors") || code=$?
		said=$(tail -n 1 <<<"$said")
		case $code in
		0) ok "$name $said: $how; stores seen both ways, shared, and detached with the last array" ;;
		77) skip "$name: $said" ;;
		*) bad "$name: exit code $code $said" ;;
		esac
	done
}
python_frameworks

python_replace() {
	local code=0 attached seen
	timeout 300 python3 "$root/tests/gpu/py_state.py" replace 100 >"$scratch/replace" 2>"$scratch/errors" || code=$?
	read -r attached seen < <(tail -n 1 "$scratch/replace")
	case $code in
	0) ok "a kept state dict was replaced in place 100 times: another process attached it $attached times, whole and unmixed, and saw $seen of them" ;;
	77) skip "replacing a kept state dict: $(tail -n 1 "$scratch/replace")" ;;
	*) bad "py_state.py replace: exit code $code" ;;
	esac
}
python_replace

# mib BYTES
mib() {
	echo $((($1 + 524288) / 1048576))
}

write "" "## $STATE_PROCESSES processes on one state dict of $((STATE >> 20)) MiB, beside each loading its own" ""
python_state() {
	local code=0 way bytes context weights forward last own_bytes=0 shared_bytes=0 own=0 shared=0 sharing sums
	timeout 500 python3 "$root/tests/gpu/py_state.py" measure "$STATE_PROCESSES" "$STATE" "$shm/state.pt" \
		>"$scratch/state" 2>"$scratch/errors" || code=$?
	rm -f "$shm/state.pt"
	if [ $code = 77 ]; then
		skip "state dict: $(tail -n 1 "$scratch/state")"
		return
	elif [ $code != 0 ]; then
		bad "py_state.py: exit code $code"
		return
	fi
	write "| each of $STATE_PROCESSES processes | GPU memory of all, MiB | until CUDA is there, ms | until the weights are | until the first forward pass is done | of the last process |" "|---|---|---|---|---|---|"
	while read -r way bytes context weights forward last; do
		case $way in
		own) own_bytes=$bytes own=$last ;;
		shared) shared_bytes=$bytes shared=$last ;;
		sharing) sharing=$context sums=$weights && continue ;;
		esac
		write "| $([ "$way" = own ] && echo "torch.load of a file in a tmpfs" || echo "attach_state_dict, the shared copy included") | $(mib "$bytes") | $context | $weights | $forward | $last |"
	done <"$scratch/state"
	write "" "share_state_dict took ${sharing:-?} ms, once."
	if [ "${sums:-0}" != 1 ]; then
		bad "the forward passes differ: ${sums:-?} sums"
	elif within "$shared_bytes" "$own_bytes" && within "$shared" "$own"; then
		ok "$(mib "$shared_bytes") MiB and $shared ms with one copy, $(mib "$own_bytes") MiB and $own ms with $STATE_PROCESSES; the same sum in all of them"
	else
		bad "one copy takes $(mib "$shared_bytes") MiB and $shared ms, $STATE_PROCESSES take $(mib "$own_bytes") MiB and $own ms"
	fi
}
python_state
