# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: the Python package under frameworks.
: "${root:?}" "${scratch:?}"
export GPUSHARE_LIBRARY=$BUILD/libgpushare.so.0 PYTHONDONTWRITEBYTECODE=1
PATH=$BUILD:$PATH # a session may have to start the registry

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
