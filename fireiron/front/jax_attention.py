"""Attention for JAX: foreign functions of XLA, with gradients by `jax.custom_vjp`. On the CPU they are simulated."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.attention import check_learns, entry, places_of, region
from fireiron.front.attention_call import (
    OF_PROGRAMS,
    PAGES,
    SCALES,
    SINKS,
    Lengths,
    Library,
    Options,
    check_given,
    prepared,
    result_kind,
)
from fireiron.front.jax_calls import foreign
from fireiron.front.score_text import text_of
from fireiron.front.xla_attention import ARRAY, BACKWARD, FORWARD, HANDLERS, Told

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")


def _attend(q: Any, k: Any, v: Any, options: Options) -> Any:
    """Compute attention of JAX arrays, traced or not."""
    said, noise, mask, score, scale, is_causal, enable_gqa, lse, arrays, scales = options
    edges, of_keys, counts, table = (
        None if x is None else jnp.asarray(x) for x in (said.offsets, said.key_offsets, said.lengths, said.pages)
    )
    how = Lengths(edges, of_keys, counts, table, said.debug)
    try:
        check_given(q, k, v, options._replace(how=how), _is_array)
        beside = {name: x.astype(jnp.uint8) if x.dtype == bool else x for name, x in arrays.items()}
        given = prepared(q, k, v, mask, is_causal, enable_gqa, how, beside, noise, LIBRARY, scales)
        named = tuple(
            (name, x.ndim, find_dtype(x.dtype.name).name) for name, x in given.arrays.items() if name not in OF_PROGRAMS
        )
        text = text_of(given.masks, score, named, given.by_keys, noise.dropout)
        factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
        told = Told(text, tuple(given.arrays), factor, given.causal)
        made, sums = _attention(told, given.q, given.k, given.v, tuple(given.arrays.values()))
    except FireironError as error:
        raise error.located(here()) from None
    if said.offsets is not None:
        made, sums = made[0].swapaxes(0, 1), sums[0].swapaxes(0, 1)
    return (made, sums) if lse else made


attention = entry(
    _attend,
    """Attend as `fireiron.attention` does, also under `jax.jit`, `jax.grad` and `jax.vmap`.

    Args:
        q: queries (B, H, I, D).
        k, v: keys (B, H, J, D) and values (B, H, J, E).
        mask: as `fireiron.attention` takes it.
        score: as `fireiron.attention` takes it.
        scale: a number; 1 / sqrt(D) by default.
        is_causal: as `fireiron.attention` takes it.
        enable_gqa: whether several heads of queries may share one of keys and values.
        lengths, offsets, key_offsets, pages, sinks, dropout_p, scales: as `fireiron.attention` takes them. Sinks have
            gradients; with pages there are none.
        seed: of dropout, as `fireiron.attention` takes it. JAX has no state to draw one from:
            `jax.random.bits(key, 3).view("int32")` draws an array of three.
        lse: whether the logarithm of each row's sum of exponentials is a second result, in f32.
        debug: as `fireiron.attention` takes it. What `jax.jit` traces is not looked at.
        arrays: what the functions read, by subscripts. Those that the score function reads by indices alone have
            gradients.

    Raises:
        CallError: as `fireiron.attention` does; `requires-grad` for other `arrays`, and for queries, keys and values
            with pages. What a kernel refuses is an error of JAX, whose text has the code.
    """,
)


def _is_array(x: object) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _listed(x: Any, debug: bool) -> Any:
    """Return the integers that an array holds, or None where the call is traced or would wait for the GPU."""
    plain = not isinstance(x, jax.core.Tracer)
    host = plain and {d.platform for d in x.devices()} == {"cpu"}
    return np.asarray(x).tolist() if plain and (debug or host) else None


def _places(n: int, _: Any) -> Any:
    return jnp.arange(n, dtype=jnp.int32)


def _find(edges: Any, at: Any) -> Any:
    return jnp.searchsorted(edges, at, side="right")


def _integers(x: Any) -> Any:
    return jnp.asarray(x, jnp.int32)


def _kind(x: Any) -> str:
    return x.dtype.name


def _drawn(_: Any) -> Any:
    """Refuse to draw a seed: JAX users give one.

    Raises:
        CallError: `attention-dropout`.
    """
    raise CallError(
        "attention-dropout",
        "dropout without a seed",
        fix='give seed=jax.random.bits(key, 3).view("int32"), or a number',
    )


def _seed(words: Sequence[int], _: Any) -> Any:
    return jnp.array(words, jnp.int32)


LIBRARY = Library(_listed, _places, _find, _integers, _kind, _drawn, _seed)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(told: Told, q: Any, k: Any, v: Any, beside: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return attention's result, and the logarithm of each row's sum."""
    results = ((*q.shape[:-1], v.shape[-1]), jnp.dtype(result_kind(q.dtype.name))), (q.shape[:-1], jnp.float32)
    if 0 in (*q.shape, *k.shape, *v.shape):
        empty = -jnp.inf if k.shape[2] == 0 else 0.0
        return jnp.zeros(*results[0]), jnp.full(results[1][0], empty, jnp.float32)
    made, sums = foreign(FORWARD, HANDLERS[FORWARD], results, q, k, v, *beside, told=told.attributes())
    return made, sums


def _keep(told: Told, q: Any, k: Any, v: Any, beside: tuple[Any, ...]) -> Any:
    """Compute attention and keep what its gradients read.

    Raises:
        CallError: `requires-grad`.
    """
    learns = [name for name, x in zip(told.names, beside, strict=True) if x.perturbed and name != SINKS]
    check_learns(told.functions, learns, "jax.lax.stop_gradient({})")
    if SCALES[0] in told.names and any(x.perturbed for x in (q, k, v)):
        raise CallError(
            "requires-grad", "floats of 8 bits have no gradient", fix="pass them through jax.lax.stop_gradient"
        )
    if PAGES in told.names and any(x.perturbed for x in (q, k, v)):
        raise CallError(
            "requires-grad",
            "keys and values in pages, and their queries, have no gradient",
            fix="pass them through jax.lax.stop_gradient, or give keys and values without pages",
        )
    given = q.value, k.value, v.value, tuple(x.value for x in beside)
    made = _attention(told, *given)
    return made, (*given, *made, dict.fromkeys(learns))


def _gradients(told: Told, kept: tuple[Any, ...], cotangents: tuple[Any, Any]) -> tuple[Any, ...]:
    """Return the gradients of queries, keys, values, sinks, and of arrays that the score function reads."""
    q, k, v, beside, made, sums, learns = kept
    dy, by_sums = (None if isinstance(x, jax.custom_derivatives.SymbolicZero) else x for x in cotangents)
    dy = jnp.zeros_like(made) if dy is None else dy.astype(q.dtype)
    results = tuple((x.shape, x.dtype) for x in (q, k, v))
    if 0 in (*q.shape, *k.shape, *v.shape):
        return *(jnp.zeros(*result) for result in results), tuple(
            jnp.zeros_like(x) if name == SINKS or name in learns else None
            for name, x in zip(told.names, beside, strict=True)
        )
    gains = (made.astype(jnp.float32) * dy.astype(jnp.float32)).sum(-1)
    gains = gains if by_sums is None else gains - by_sums
    given = (q, k, v, dy, sums, gains, *beside)

    def by(name: str, x: Any) -> Any:
        if name == SINKS:
            return _by_sinks(x, sums, gains)
        return _by_array(name, x, told, given) if name in learns else None

    by_beside = tuple(by(name, x) for name, x in zip(told.names, beside, strict=True))
    return *foreign(BACKWARD, HANDLERS[BACKWARD], results, *given, told=told.attributes()), by_beside


def _by_array(name: str, x: Any, told: Told, given: Sequence[Any]) -> Any:
    """Return the gradient of an array that the score function reads: the sum over the places of its reads."""
    total = jnp.zeros(x.shape, jnp.float32)
    for n, at in enumerate(places_of(told.functions, name) or ()):
        shape, order, where = region(at, given[0].shape, given[1].shape)
        beside = {"array": name, "place": str(n)}
        (made,) = foreign(ARRAY, HANDLERS[ARRAY], [(shape, jnp.float32)], *given, told=told.attributes() | beside)
        total = total.at[where].add(made.transpose(order))
    return total.astype(x.dtype)


def _by_sinks(sinks: Any, sums: Any, gains: Any) -> Any:
    """Return the gradients of sinks, from the weight that a sink has in each row."""
    each = jnp.exp(sinks[:, None] - sums) * gains
    return -jnp.where(jnp.isnan(each), 0, each).sum((0, 2))


_attention.defvjp(_keep, _gradients, symbolic_zeros=True)
