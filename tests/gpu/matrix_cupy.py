# SPDX-License-Identifier: MIT
"""Plain CuPy with the pool that the argument names: products, FFT, sorting, and memory that is freed and reused."""
import sys

from matrix_check import checksum, need

cupy = need("cupy")
kind = sys.argv[1]
pool = None
if kind == "async":
    pool = cupy.cuda.MemoryAsyncPool()
elif kind == "managed":
    pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)
if pool:
    cupy.cuda.set_allocator(pool.malloc)
print("version:", cupy.__version__)

a = (cupy.arange(1024 * 1024, dtype=cupy.int64) * 2654435761 % 1000).reshape(1024, 1024)
product = a.astype(cupy.float64) @ a.T.astype(cupy.float64)  # whole numbers: exact in any order
print("product:", checksum(cupy.asnumpy(product)))
print("FFT:", checksum(cupy.asnumpy(cupy.fft.fft(a.astype(cupy.float32)[:64]))))
print("sorted:", checksum(cupy.asnumpy(cupy.sort(a.ravel()))))
print("sum:", int(a.sum()))
wrong = 0
for turn in range(20):
    held = [cupy.full(size, turn, dtype=cupy.uint8) for size in (1000, 1 << 20, 5 << 20)]
    wrong += sum(int((array != turn).sum()) for array in held)
    del held
    if kind != "async":
        (pool or cupy.get_default_memory_pool()).free_all_blocks()
print("wrong bytes:", wrong)
cupy.cuda.Device().synchronize()
