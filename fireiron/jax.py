"""Products and attention for JAX, as foreign functions of XLA: under `jax.jit`, `jax.vmap` and `jax.grad`."""

from fireiron.front.jax_attention import attention
from fireiron.front.jax_ops import gemm

__all__ = ["attention", "gemm"]
