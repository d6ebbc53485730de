"""Check and shape the arguments of torch's operators on rows: element types, dims, normalised shapes.

Only code that has torch imports this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from fireiron.base.errors import CallError
from fireiron.base.link import here

torch: Any = import_module("torch")


def check_floats(name: str, *tensors: Any) -> None:
    """Refuse tensors that hold no floats; None stands for a tensor that is left out.

    Raises:
        CallError: `wrong-dtype`.
    """
    for x in tensors:
        if x is not None and not x.dtype.is_floating_point:
            kind = str(x.dtype).removeprefix("torch.")
            raise CallError(
                "wrong-dtype",
                f"{name} takes tensors of floats, not of {kind}",
                fix="convert it: x.float()",
                link=here(),
            )


def place_of(input: Any, dim: int) -> int:
    """Return a dim counted from 0; a number has one dim, as in torch.

    Raises:
        CallError: `wrong-shape`.
    """
    rank = max(1, input.dim())
    if not -rank <= dim < rank:
        raise CallError(
            "wrong-shape",
            f"a tensor of the shape {list(input.shape)} has no dim {dim}",
            fix=f"give a dim from {-rank} to {rank - 1}",
            link=here(),
        )
    return dim % rank


def along(op: Callable[[Any], Any], input: Any, dim: int) -> Any:
    """Apply an operator on rows along a dim; a vector and a number are one row.

    Raises:
        CallError: `wrong-shape`.
    """
    place = place_of(input, dim)
    if input.dim() < 2:
        return op(input.reshape(1, -1)).reshape(input.shape)
    if place == input.dim() - 1:
        return op(input)
    return op(input.movedim(place, -1).contiguous()).movedim(-1, place)


def rows_of(x: Any) -> Any:
    """View a tensor as a dense matrix of rows, or copy it."""
    if x.dim() == 2 and x.is_contiguous():
        return x
    return x.reshape(x.shape[:-1].numel(), x.shape[-1]).contiguous()


def words_of(integers: Any) -> Any:
    """View integers as a vector of i32, with the stride 2 for i64; other types are converted."""
    flat = integers.reshape(-1).contiguous()
    if flat.dtype == torch.int64:
        return flat.view(torch.int32)[::2]  # the low words: GPUs and their hosts are little-endian
    return flat if flat.dtype == torch.int32 else flat.to(torch.int32)


def step_of(integers: Any) -> int:
    """Return the stride of `words_of`."""
    return 2 if integers.dtype == torch.int64 else 1


def wide(dtype: Any) -> Any:
    """Return the type in which sums of a type of floats are computed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def normalised(input: Any, normalized_shape: int | Sequence[int], *weights: Any) -> tuple[Any, list[Any]]:
    """Flatten the last dims of the input and of the weights to one dim; an input of these dims alone becomes a row.

    Raises:
        CallError: `wrong-shape`.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    wrong = tuple(input.shape[-len(shape) :]) != shape or any(
        w is not None and tuple(w.shape) != shape for w in weights
    )
    if not shape or wrong:
        shapes = ", ".join(str(tuple(x.shape)) for x in (input, *weights) if x is not None)
        raise CallError(
            "wrong-shape",
            f"normalized_shape={list(shape)} is not the shape of the tensors' last dims: {shapes}",
            fix=f"give normalized_shape={list(input.shape[-1:])}, and weights of that shape",
            link=here(),
        )
    input = input[None] if input.dim() == len(shape) else input
    if len(shape) == 1:
        return input, [*weights]
    return input.flatten(-len(shape)), [None if w is None else w.reshape(-1) for w in weights]


def check_residual(input: Any, residual: Any) -> None:
    """Refuse a residual of another shape than the input's.

    Raises:
        CallError: `wrong-shape`.
    """
    if residual.shape != input.shape:
        raise CallError(
            "wrong-shape",
            f"input has the shape {list(input.shape)}, and residual {list(residual.shape)}",
            fix="give them one shape: residual.expand_as(input)",
            link=here(),
        )
