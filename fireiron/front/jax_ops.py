"""Products with epilogs for JAX: jit traces them as a foreign function of XLA, which runs on XLA's buffers and stream.

On the CPU it simulates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron.algebra.dtypes import default_accumulator
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.front.epilog_text import text_of
from fireiron.front.fused import expressions_of, result_type
from fireiron.front.jax_calls import foreign
from fireiron.front.xla_gemm import HANDLERS, TARGET, attributes
from fireiron.language.storage_order import letters
from fireiron.language.tensor import Tensor


def gemm(
    a: Any,
    b: Any,
    /,
    *,
    epilog: Callable[..., Any] | None = None,
    layout: str = "NN",
    dtype: str | None = None,
    **operands: Any,
) -> Any:
    """Multiply arrays of JAX as `fireiron.gemm` does, also under `jax.jit` and `jax.vmap`. It has no gradient.

    Args:
        a, b: arrays.
        epilog: as `fireiron.gemm` takes it.
        layout: as `fireiron.gemm` takes it.
        dtype: the name of an element type, where the arrays do not say it: `"tf32"`.
        operands: what the epilog reads: arrays, and numbers.

    Raises:
        CallError: `wrong-shape`, `bad-epilog`.
    """
    stored, left, right = letters(layout), a, b
    a = a.swapaxes(-1, -2) if stored[1] == "T" else a
    b = b.swapaxes(-1, -2) if stored[0] == "T" else b
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2]:
        raise CallError("wrong-shape", f"a has the shape {a.shape} and b {b.shape}", fix="give them one K")
    arrays = {name: x.reshape(x.shape or (1,)) for name, x in operands.items() if hasattr(x, "shape")}
    numbers = {name: x for name, x in operands.items() if name not in arrays}
    kind = find_dtype(a.dtype.name if dtype is None else dtype)
    acc = default_accumulator(kind)
    places = {name: Tensor(name, (1,), acc, (0,)) for name in arrays}
    values = expressions_of(epilog, acc, places, numbers, {name: name for name in numbers})
    shape = (*a.shape[:-1], b.shape[-1])
    kinds = [result_type(i, value, acc, kind).numpy for i, value in enumerate(values or (None,))]

    text = "" if epilog is None else text_of(epilog, tuple(arrays), tuple(numbers), kind.name)
    told = attributes(text, stored, dtype, tuple(numbers.values()))
    results = [(shape, one) for one in kinds]
    made = foreign(TARGET, HANDLERS, results, left, right, *arrays.values(), told=told)
    return made[0] if len(made) == 1 else made
