# SPDX-License-Identifier: MIT
"""A Numba kernel over Numba's own device arrays."""
from matrix_check import checksum, need, skip

# numba-cuda 0.68 asks NumPy for a function that NumPy 2.4 no longer has.
numpy = need("numpy")
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
numba, cuda = need("numba", "numba.cuda")
if not cuda.is_available():
    skip("Numba sees no GPU")
print("version:", numba.__version__)


@cuda.jit
def mix(to, left, right):
    at = cuda.grid(1)
    if at < to.size:
        to[at] = left[at] * 3 + (right[at] ^ left[at])


for size in (1000, 1 << 20, 10_000_001):
    left = numpy.arange(size, dtype=numpy.int32)
    right = left * 7 + 1
    on_device = [cuda.to_device(left), cuda.to_device(right)]
    to = cuda.device_array(size, dtype=numpy.int32)
    mix[(size + 255) // 256, 256](to, *on_device)
    cuda.synchronize()
    got = to.copy_to_host()
    print(size, checksum(got), bool((got == left * 3 + (right ^ left)).all()))
