"""Attention for JAX: foreign functions of XLA, with gradients by `jax.custom_vjp`. On the CPU they are simulated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.attention_call import check_shapes
from fireiron.front.jax_calls import foreign
from fireiron.front.score_text import text_of
from fireiron.front.xla_attention import BACKWARD, FORWARD, HANDLERS, Told

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")


def attention(
    q: Any,
    k: Any,
    v: Any,
    /,
    *,
    mask: Callable[..., Any] | None = None,
    score: Callable[..., Any] | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    lse: bool = False,
    **arrays: Any,
) -> Any:
    """Attend as `fireiron.attention` does, also under `jax.jit`, `jax.grad` and `jax.vmap`.

    Args:
        q: queries (B, H, I, D).
        k, v: keys (B, H, J, D) and values (B, H, J, E).
        mask: as `fireiron.attention` takes it.
        score: as `fireiron.attention` takes it.
        scale: a number; 1 / sqrt(D) by default.
        is_causal: whether query i sees keys 0 to i alone.
        enable_gqa: whether several heads of queries may share one of keys and values.
        lse: whether the logarithm of each row's sum of exponentials is a second result, in f32.
        arrays: what the functions read, by subscripts. No gradient goes to them.

    Raises:
        CallError: `wrong-shape`, `attention-heads`, `attention-function`; `requires-grad` for `arrays`. What a kernel
            refuses is an error of JAX, whose text has the code.
    """
    try:
        check_shapes(q.shape, k.shape, v.shape, enable_gqa)
        beside = {name: x.astype(jnp.uint8) if x.dtype == bool else x for name, x in arrays.items()}
        named = tuple((name, x.ndim, find_dtype(x.dtype.name).name) for name, x in beside.items())
        factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
        told = Told(text_of(mask, score, named), tuple(beside), factor, is_causal)
        made = _attention(told, q, k, v, tuple(beside.values()))
    except FireironError as error:
        raise error.located(here()) from None
    return made if lse else made[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(told: Told, q: Any, k: Any, v: Any, beside: tuple[Any, ...]) -> tuple[Any, Any]:
    """Give the result, and the logarithm of each row's sum."""
    results = ((*q.shape[:-1], v.shape[-1]), q.dtype), (q.shape[:-1], jnp.float32)
    if 0 in (*q.shape, *k.shape, *v.shape):
        empty = -jnp.inf if k.shape[2] == 0 else 0.0
        return jnp.zeros(*results[0]), jnp.full(results[1][0], empty, jnp.float32)
    made, sums = foreign(FORWARD, HANDLERS[FORWARD], results, q, k, v, *beside, told=told.attributes())
    return made, sums


def _keep(told: Told, q: Any, k: Any, v: Any, beside: tuple[Any, ...]) -> Any:
    """Attend where gradients are asked for.

    Raises:
        CallError: `requires-grad`.
    """
    for name, x in zip(told.names, beside, strict=True):
        if x.perturbed:
            raise CallError(
                "requires-grad", f"no gradient goes to {name}", fix=f"give {name}=jax.lax.stop_gradient({name})"
            )
    given = q.value, k.value, v.value, tuple(x.value for x in beside)
    made = _attention(told, *given)
    return made, (*given, *made)


def _gradients(told: Told, kept: tuple[Any, ...], cotangents: tuple[Any, Any]) -> tuple[Any, ...]:
    """Give the gradients of queries, keys and values."""
    q, k, v, beside, made, sums = kept
    dy, by_sums = (None if isinstance(x, jax.custom_derivatives.SymbolicZero) else x for x in cotangents)
    dy = jnp.zeros_like(made) if dy is None else dy.astype(q.dtype)
    results = tuple((x.shape, x.dtype) for x in (q, k, v))
    if 0 in (*q.shape, *k.shape, *v.shape):
        return *(jnp.zeros(*result) for result in results), None
    gains = (made.astype(jnp.float32) * dy.astype(jnp.float32)).sum(-1)
    gains = gains if by_sums is None else gains - by_sums
    given = (q, k, v, dy, sums, gains, *beside)
    return *foreign(BACKWARD, HANDLERS[BACKWARD], results, *given, told=told.attributes()), None


_attention.defvjp(_keep, _gradients, symbolic_zeros=True)
