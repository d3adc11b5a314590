# SPDX-License-Identifier: MIT
"""A Triton kernel, compiled anew, over PyTorch's memory."""
from matrix_check import checksum, need, skip

torch, triton, tl = need("torch", "triton", "triton.language")
if not torch.cuda.is_available():
    skip("PyTorch sees no GPU")
print("version:", triton.__version__)


@triton.jit
def mix(to, left, right, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    a = tl.load(left + at, mask=inside)
    b = tl.load(right + at, mask=inside)
    tl.store(to + at, a * 3 + (b ^ a), mask=inside)


for size in (1000, 1 << 20, 10_000_001):
    left = torch.arange(size, dtype=torch.int32, device="cuda")
    right = left * 7 + 1
    to = torch.empty_like(left)
    mix[(triton.cdiv(size, 1024),)](to, left, right, size, BLOCK=1024)
    torch.cuda.synchronize()
    print(size, checksum(to.cpu().numpy()), bool((to == left * 3 + (right ^ left)).all()))
