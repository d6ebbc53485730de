"""Products for JAX: `fireiron.jax.gemm` under `jax.jit`, by a callback."""

from fireiron.front.jax_ops import gemm

__all__ = ["gemm"]
