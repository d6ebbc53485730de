"""Calls with JAX arrays as foreign functions of XLA: `jax.jit` traces them; they run on XLA's buffers and stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

jax: Any = import_module("jax")

_registered: dict[str, Mapping[str, Any]] = {}  # XLA holds the addresses of handlers for as long as the process runs


def foreign(
    target: str, handlers: Mapping[str, Any], results: Sequence[tuple[Sequence[int], Any]], *arrays: Any,
    told: Mapping[str, str],
) -> tuple[Any, ...]:  # fmt: skip
    """Call a foreign function; under `jax.vmap`, calls run one after another.

    Args:
        target: the name under which the function is registered with XLA.
        handlers: results of `xla.handler`, by XLA's name of the platform.
        results: the shape and the element type of each result.
        arrays: the JAX arrays that the function reads.
        told: the function's other arguments, as attributes.
    """
    if target not in _registered:
        for platform, one in handlers.items():
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(one), platform=platform)
        _registered[target] = handlers
    shapes = tuple(jax.ShapeDtypeStruct(tuple(shape), kind) for shape, kind in results)
    return tuple(jax.ffi.ffi_call(target, shapes, vmap_method="sequential")(*arrays, **told))
