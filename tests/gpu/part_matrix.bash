# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: every program bare, preloaded, with all its allocations named, and with them mapped.
# GPUSHARE_MATRIX_WAYS: which of "bare shim named vmm"; GPUSHARE_MATRIX_SECONDS: for all of it
: "${root:?}" "${bin:?}" "${out:?}" "${scratch:?}"
rows=$scratch/rows
mkdir "$rows"
: >"$scratch/matrix"
export GPUSHARE_MATRIX_UNTIL=$((EPOCHSECONDS + ${GPUSHARE_MATRIX_SECONDS:-540}))

# program ROW SECONDS RECORDS RULES LABEL COMMAND...: one of those that run side by side below.
# The first word of COMMAND is looked for in the folder of test programs, or in this one.
program() {
	local row=$1 label=$5 file=$bin/$6 why=
	local command=("${@:7}")
	[[ $6 != *.py ]] || file=$root/tests/gpu/$6
	[[ $6 != /* ]] || file=$6
	echo "$row" >>"$scratch/matrix.rows"
	if [ "$GPUSHARE_TEST_GPU" = no ] && [[ $6 != rt_* ]]; then
		why="needs a GPU"
	elif [ ! -e "$file" ]; then
		why="${6##*/} is not here"
	elif [[ $6 != *.py ]] && ldd "$file" 2>/dev/null | grep -q 'libcudart.*not found'; then
		why="no such libcudart is here; tests/gpu/runtimes.sh brings it"
	fi
	if [ -n "$why" ]; then
		echo "| $label | skipped: $why | | | | | |" >"$rows/$row.row"
		return
	fi
	[[ $6 != *.py ]] || command=(python3 "$file" "${command[@]}")
	[[ $6 == *.py ]] || command=("$file" "${command[@]}")
	printf '%q ' env "GPUSHARE_MATRIX_LABEL=$label" "$root/tests/gpu/matrix.sh" "$rows" "$row" "$2" "$3" "$4" \
		"${command[@]}" >>"$scratch/matrix"
	printf '\n' >>"$scratch/matrix"
}

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
# The slow ones first.
program jax_grow 150 1 'm%i' "JAX, grows" matrix_jax.py grow
program jax_preallocate 150 1 'm%i' "JAX, preallocates" matrix_jax.py preallocate
program nccl 150 1 'm%p.%i' "NCCL all-reduce, 2 GPUs" matrix_nccl.py
program torch 120 1 'm%i' "PyTorch, default" matrix_torch.py default
program torch_expandable 120 1 'm%i' "PyTorch, expandable segments" matrix_torch.py expandable
program torch_async 120 1 'm%i' "PyTorch, cudaMallocAsync" matrix_torch.py async
program torch_graph 120 1 'm%i' "PyTorch, torch.cuda.graph" matrix_torch.py graph
program torch_share 120 1 'm%p.%i' "PyTorch, its own sharing of CUDA tensors" matrix_share.py
program torch_from 120 1 't%i:from=libc10_cuda.so*' "PyTorch, from=libc10_cuda.so*" matrix_torch.py default
program sanitizer 120 9 'm%i' "compute-sanitizer, memcheck, leaks" "$sanitizer" --tool memcheck --leak-check full \
	--error-exitcode 9 "$bin/kernel_matrix_static"
program triton 120 1 'm%i' "Triton" matrix_triton.py
program numba 120 1 'm%i' "Numba" matrix_numba.py
program cupy 120 1 'm%i' "CuPy, default pool" matrix_cupy.py default
program cupy_async 120 1 'm%i' "CuPy, MemoryAsyncPool" matrix_cupy.py async
program cupy_managed 120 0 'm%i' "CuPy, managed pool" matrix_cupy.py managed
program kernel_static 60 all 'm%i' "nvcc, cudart 13, static" kernel_matrix_static
program kernel_shared 60 all 'm%i' "nvcc, cudart 13, shared" kernel_matrix_shared
program kernel_per_thread 60 all 'm%i' "nvcc, cudart 13, per-thread streams" kernel_matrix_per_thread
program graph_static 60 all 'm%i' "CUDA graph, static cudart" kernel_graph_static
program graph_shared 60 all 'm%i' "CUDA graph, shared cudart" kernel_graph_shared
program rt_static 60 all 'm%i' "C, cudart 13, static" rt_matrix_static
program rt_shared 60 all 'm%i' "C, cudart 13, shared" rt_matrix_shared
program rt_from 60 all 'm%i:from=rt_matrix_shared' "C, from= the program" rt_matrix_shared
program rt_not_from 60 none 'm%i:from=libnothing.so*' "C, from= something else" rt_matrix_shared
program rt_12 60 all 'm%i' "C, cudart 12, shared" rt_matrix_12
program rt_11 60 all 'm%i' "C, cudart 11, shared" rt_matrix_11
program stress_static 90 all 'm%i' "16 threads, static cudart" rt_stress_static
program stress_shared 90 all 'm%i' "16 threads, shared cudart" rt_stress_shared
program stress_12 90 all 'm%i' "16 threads, cudart 12" rt_stress_12
program stress_11 90 all 'm%i' "16 threads, cudart 11" rt_stress_11
program ipc_static 60 all 'm%p.%i' "a program's own cudaIpc, static cudart" rt_ipc_static
program ipc_shared 60 all 'm%p.%i' "a program's own cudaIpc, shared cudart" rt_ipc_shared
program ipc_12 60 all 'm%p.%i' "a program's own cudaIpc, cudart 12" rt_ipc_12
program ipc_11 60 all 'm%p.%i' "a program's own cudaIpc, cudart 11" rt_ipc_11

write "" "## Programs bare, preloaded, with all their allocations named, and with all of them mapped" ""
write "Output and exit code are compared with the bare run's. Mapped: named by a rule with \`vmm\`. Records: how often the registry was told of an allocation, of how many the program says it made, named and mapped; all were gone when it had ended. Several ran side by side, so their seconds say little.${GPUSHARE_MATRIX_WAYS:+ Only these ways were run: $GPUSHARE_MATRIX_WAYS.}" ""
at_once=$(($(nproc) / 2))
export OMP_NUM_THREADS=2 PYTHONDONTWRITEBYTECODE=1
tr '\n' '\0' <"$scratch/matrix" | xargs -0 -P $((at_once < 1 ? 1 : at_once > 6 ? 6 : at_once)) -I COMMAND bash -c COMMAND
write "| program | exit code | preloaded | named | mapped | records | seconds: bare, preloaded, named, mapped |" "|---|---|---|---|---|---|---|"
for row in $(cat "$scratch/matrix.rows"); do
	[ -e "$rows/$row.row" ] || echo "| $row | **FAILED**: ended without a word | | | | | |" >"$rows/$row.row"
	write "$(cat "$rows/$row.row")"
	case $(cat "$rows/$row.row") in
	*FAILED*) failed=$((failed + 1)) ;;
	*"| skipped: "*) skipped=$((skipped + 1)) ;;
	*) passed=$((passed + 1)) ;;
	esac
done
cat "$rows"/*.log >"$out/matrix.log" 2>/dev/null
write ""
