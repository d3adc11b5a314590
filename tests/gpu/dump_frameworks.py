# SPDX-License-Identifier: MIT
"""How fast frameworks write their own array to a file: torch|cupy FILE BYTES. Prints GB/s."""
import sys
import time

from matrix_check import need, skip

SIZE = int(sys.argv[3])


def torch_save(path):
    torch = need("torch")
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    x = torch.full((SIZE,), 90, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    torch.save(x, path)
    return began


def cupy_tofile(path):
    cupy = need("cupy")
    x = cupy.full((SIZE,), 90, dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    cupy.asnumpy(x).tofile(path)
    return began


began = {"torch": torch_save, "cupy": cupy_tofile}[sys.argv[1]](sys.argv[2])
print(f"{SIZE / (time.perf_counter() - began) / 1e9:.3f}")
