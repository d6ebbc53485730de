"""Products for JAX: `fireiron.jax.gemm` under `jax.jit` and `jax.vmap`, as a foreign function of XLA."""

from fireiron.front.jax_ops import gemm

__all__ = ["gemm"]
