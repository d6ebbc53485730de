"""Bounds of attention's loops as an operator of torch, which torch.compile and torch.export trace.

Only code that has torch imports this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.front.attention import single
from fireiron.front.attention_bounds import Bounded, Calls, Named, bounded, fits, found, shapes
from fireiron.front.torch_ops import as_numpy, as_torch, dispatched
from fireiron.front.torch_repeated import launched, unrepeatable
from fireiron.jit.kernel import as_tuple

torch: Any = import_module("torch")


def with_bounds(
    text: str, causal: bool, named: Named, q: Any, k: Any, held: dict[str, Any], gradients: bool
) -> tuple[str, dict[str, Any]]:
    """Bound the loops of attention under a mask that reads arrays along queries or keys.

    Args:
        text: mask and score function as text.
        causal: whether query i sees keys 0 to i only.
        named: name, number of dims and element type of the arrays that the functions read.
        q, k: queries and keys, of four dims.
        held: by name, inputs of the programs beside queries, keys and values.
        gradients: whether gradients of keys and values are computed too.

    Returns:
        The text and the arrays, with bounds where the mask gives them.
    """
    plan = _bounded(text, causal, named, gradients)
    if plan is None or not fits(plan, held, q.shape[2], k.shape[2]):
        return text, held
    unrepeatable()  # the arrays' groups are copied
    read = [held[name] for name in plan.reads]
    call = torch.ops.fireiron.attention_bounds if dispatched(*read) else _run_bounds
    sizes = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    made = call(read, ",".join(plan.reads), text, *sizes, causal, gradients)
    return plan.text, {**held, **dict(zip(plan.names, made, strict=True))}


@torch.compiler.assume_constant_result
def _bounded(text: str, causal: bool, named: Named, gradients: bool) -> Bounded | None:
    """Call `bounded`, whose cache torch.compile would look behind."""
    return bounded(text, causal, named, gradients)


def kind_of(x: Any) -> str:
    """Name a tensor's element type; booleans count as bytes."""
    return "u8" if x.dtype == torch.bool else find_dtype(str(x.dtype).removeprefix("torch.")).name


def called(kernel: Any, host: bool, *tensors: Any, out: tuple[Any, ...]) -> None:
    """Run a kernel that writes to given tensors."""
    if host:
        for mine, array in zip(out, as_tuple(kernel(*map(as_numpy, tensors))), strict=True):
            mine.copy_(as_torch(array))
    else:
        launched(kernel, *tensors, out=single(out))


def _filled(x: Any, dim: int, length: int) -> Any:
    """Lengthen a tensor along a dim by its last elements."""
    over = length - x.shape[dim]
    return torch.cat([x, x.narrow(dim, x.shape[dim] - 1, 1).expand(*_over(x, dim, over))], dim) if over else x


def _over(x: Any, dim: int, n: int) -> tuple[int, ...]:
    return (*x.shape[:dim], n, *x.shape[dim + 1 :])


def _run_bounds(
    arrays: Sequence[Any], names: str, functions: str, batch: int, heads: int, queries: int, keys: int,
    is_causal: bool, gradients: bool,
) -> list[Any]:  # fmt: skip
    host = arrays[0].device.type != "cuda"

    def run(kernel: Any, given: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
        out = tuple(torch.empty(shape, dtype=torch.int32, device=arrays[0].device) for shape in shapes)
        called(kernel, host, *given, out=out)
        return out

    dense = {name: x.contiguous() for name, x in zip(names.split(","), arrays, strict=True)}
    sizes = {"b": batch, "h": heads, "i": queries, "j": keys}
    return list(found(functions, is_causal, dense, sizes, gradients, host, Calls(_filled, kind_of, run)))


def _fake_bounds(
    arrays: Sequence[Any], names: str, functions: str, batch: int, heads: int, queries: int, keys: int,
    is_causal: bool, gradients: bool,
) -> list[Any]:  # fmt: skip
    sizes = {"b": batch, "h": heads, "i": queries, "j": keys}
    read = dict(zip(names.split(","), arrays, strict=True))
    made = shapes(functions, is_causal, read, sizes, gradients, kind_of)
    return [arrays[0].new_empty(shape, dtype=torch.int32) for shape in made]


torch.library.custom_op(
    "fireiron::attention_bounds",
    _run_bounds,
    mutates_args=(),
    schema="(Tensor[] arrays, str names, str functions, SymInt batch, SymInt heads, SymInt queries, SymInt keys, "
    "bool is_causal, bool gradients) -> Tensor[]",
).register_fake(_fake_bounds)
