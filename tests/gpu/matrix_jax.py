# SPDX-License-Identifier: MIT
"""Plain JAX, with its memory allocated at once or as it grows: training, and arithmetic of whole numbers."""
import os
import sys

kind = sys.argv[1]
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "true" if kind == "preallocate" else "false"
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".03"
os.environ["JAX_PLATFORMS"] = "cuda"

from matrix_check import checksum, need

jax, numpy = need("jax", "numpy")
print("version:", jax.__version__)
jnp = jax.numpy
jax.config.update("jax_default_matmul_precision", "highest")
keys = jax.random.split(jax.random.key(1), 4)
weights = [jax.random.normal(keys[0], (64, 128)) / 8, jax.random.normal(keys[1], (128, 10)) / 11]
inputs = jax.random.normal(keys[2], (256, 64))
wanted = jax.random.normal(keys[3], (256, 10))


def loss(w):
    return jnp.mean((jnp.tanh(inputs @ w[0]) @ w[1] - wanted) ** 2)


@jax.jit
def step(w):
    return [old - 0.1 * slope for old, slope in zip(w, jax.grad(loss)(w))]


for _ in range(20):
    weights = step(weights)
for array in weights:
    # XLA chooses a kernel by a timing, so the last bits may differ between runs.
    print("weights:", f"{float(jnp.abs(array).mean()):.3f}")
whole = jnp.arange(1 << 20, dtype=jnp.int32)
print("whole numbers:", checksum(numpy.asarray(jnp.cumsum(whole * 7 + 3) ^ whole)))
big = [jnp.full(size, 5, dtype=jnp.uint8) for size in (1000, 1 << 20, 64 << 20)]
print("sums:", [int(jnp.sum(array, dtype=jnp.int32)) for array in big])
