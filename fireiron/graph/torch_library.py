"""The library of torch tensors, for plans: memory, views, and operations without a kernel."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from fireiron.algebra.dtypes import DType
from fireiron.front.torch_ops import as_numpy, as_torch, torch_function
from fireiron.graph.nodes import BUNDLE, Node
from fireiron.graph.run import span
from fireiron.graph.views import Order, View, held
from fireiron.graph.windows import Pads, counted
from fireiron.jit.streams import torch_current_stream

torch: Any = import_module("torch")

ALIGNMENT = 16  # bytes of the widest loads
_CALLED = {
    "div": "true_divide", "sub": "subtract", "mul": "multiply", "lt": "lt", "le": "le", "eq": "eq",
    "matmul": "matmul", "neg": "neg", "exp2": "exp2",
}  # fmt: skip
_OTHERS: Mapping[str, Callable[..., Any]] = {
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast": lambda x, shape: x.broadcast_to(shape),
    "select": lambda c, x, y: torch.where(c != 0, x, y),
    "copy": lambda x: x,
    "cast": lambda x, dtype: x,
    "sum": lambda x, axes, keepdims: x.sum(axes, keepdim=keepdims),
    "max": lambda x, axes, keepdims: x.amax(axes, keepdim=keepdims),
    "min": lambda x, axes, keepdims: x.amin(axes, keepdim=keepdims),
    "argmax": lambda x, axes, keepdims: x.argmax(axes[0], keepdim=keepdims).int(),
    "argmin": lambda x, axes, keepdims: x.argmin(axes[0], keepdim=keepdims).int(),
    "cumsum": lambda x, axis: x.cumsum(axis),
    "gather": lambda table, ids: table[ids.long()],
    "take_along_axis": lambda x, ids, axis: _take_along(x, ids, axis),
    "scatter_add": lambda values, ids, **at: _scatter_add(values, ids, **at),
    "scatter_set": lambda values, ids, **at: _scatter_set(values, ids, **at),
    "scatter": lambda values, ids, x, **at: _update(values, ids, x, **at),
    "concatenate": lambda *x, axis: torch.cat(x, axis),
    "conv": lambda *x, **windows: _convolved(*x, **windows),
    "max_pool": lambda x, **windows: _largest(x, **windows),
    "avg_pool": lambda x, **windows: _mean(x, **windows),
}


def _take_along(x: Any, ids: Any, axis: int) -> Any:
    """Read, at each place, the element whose coordinate along an axis is the number there."""
    one = list(x.shape)
    one[axis] = 1
    shape = list(torch.broadcast_shapes(one, ids.shape))
    along = [n if a != axis else x.shape[axis] for a, n in enumerate(shape)]
    return x.expand(along).gather(axis, ids.long().expand(shape))


def _scatter_add(values: Any, ids: Any, axis: int, count: int, size: int) -> Any:
    """Add each value to zeros at its place, where the number in `ids` takes the place of some of its coordinates."""
    lead, tail = values.shape[:axis], values.shape[axis + count :]
    numbers = ids.long().expand(values.shape).reshape(*lead, -1, *tail)
    total = torch.zeros((*lead, size, *tail), dtype=values.dtype, device=values.device)
    return total.scatter_add_(axis, numbers, values.reshape(*lead, -1, *tail))


def _scatter_set(values: Any, ids: Any, axis: int, count: int, size: int) -> Any:
    """Put each value in its place in zeros, where the number in `ids` takes the place of some of its coordinates."""
    shape = (*values.shape[:axis], size, *values.shape[axis + count :])
    return _update(values, ids, torch.zeros(shape, dtype=values.dtype, device=values.device), axis, count)


def _update(values: Any, ids: Any, x: Any, axis: int, count: int) -> Any:
    """Put each value in its place in an array, where the number in `ids` takes the place of some of its coordinates."""
    lead, tail = values.shape[:axis], values.shape[axis + count :]
    numbers = ids.long().expand(values.shape).reshape(*lead, -1, *tail)
    return x.scatter(axis, numbers, values.to(x.dtype).reshape(*lead, -1, *tail))


def _around(x: Any, pads: Pads, value: float = 0.0) -> Any:
    """Pad images."""
    return torch.nn.functional.pad(x, [n for pad in reversed(pads) for n in pad], value=value)


def _convolved(x: Any, f: Any, stride: Any, pads: Pads, dilation: Any, groups: int) -> Any:
    by = getattr(torch.nn.functional, f"conv{len(stride)}d")
    return by(_around(x, pads), f, None, stride, 0, dilation, groups)


def _largest(x: Any, window: Any, stride: Any, pads: Pads, dilation: Any) -> Any:
    by = getattr(torch.nn.functional, f"max_pool{len(window)}d")
    return by(_around(x, pads, -float("inf")), window, stride, 0, dilation)


def _mean(x: Any, window: Any, stride: Any, pads: Pads, count_pad: bool) -> Any:
    by = getattr(torch.nn.functional, f"avg_pool{len(window)}d")
    inner = counted(pads) if count_pad else ((0, 0),) * len(pads)
    rest = [(b - a, d - c) for (a, c), (b, d) in zip(inner, pads, strict=True)]
    ones = torch.ones((1, 1, *x.shape[2:]), dtype=torch.float32, device=x.device)
    share = by(_around(_around(ones, inner, 1.0), rest), window, stride)
    return by(_around(x, pads), window, stride) / share


def torch_type(kind: DType) -> Any:
    """Return torch's element type."""
    return getattr(torch, kind.numpy_name)  # a cache by the record would hash all its fields


class Torch:
    """The library of torch tensors.

    Args:
        on_host: whether tensors lie on the CPU.
    """

    patience_s = 0.1

    def __init__(self, on_host: bool) -> None:
        self.on_host = on_host
        self._queue: tuple[int, int] | None = None

    def queue(self, like: Any) -> tuple[int, int] | None:
        """Return the tensors' device and its current stream; None on the CPU."""
        if self._queue is None and not self.on_host and like is not None:
            device = like.get_device()
            self._queue = device, torch_current_stream()(device)
        return self._queue

    def given(self, array: Any) -> Any:
        """Convert a tensor to the form that kernels take."""
        return as_numpy(array) if self.on_host else array

    def form(self, array: Any) -> object:
        """Return shape, strides and type of a tensor."""
        return array.shape, array.stride(), array.dtype

    def empty(self, nbytes: int, like: Any) -> Any:
        """Allocate a block of bytes."""
        device = None if like is None else like.device
        return torch.empty(max(1, nbytes), dtype=torch.uint8, device=device)

    def typed(self, block: Any, offset: int, size: int, dtype: DType) -> Any:
        """View some bytes of a block as a line (a one-dimensional tensor) of elements."""
        return block[offset : offset + dtype.nbytes_of(size)].view(torch_type(dtype))

    def clear(self, line: Any) -> None:
        """Fill a line with zeros."""
        line.zero_()

    def address(self, line: Any) -> int:
        """Return the address of a line's first element."""
        return line.data_ptr()

    def elements(self, size: int, dtype: DType, like: Any) -> Any:
        """Allocate a one-dimensional tensor of elements."""
        return torch.empty(size, dtype=torch_type(dtype), device=None if like is None else like.device)

    def strided(self, line: Any, view: View) -> Any:
        """View elements of a line by strides."""
        return torch.as_strided(line, view.shape, view.strides, line.storage_offset() + view.offset)

    def line(self, array: Any, order: Order | None = None) -> Any:
        """View a dense tensor, with its axes in some order in memory, as a line; copy a tensor with gaps."""
        found = array.detach()
        if order is None and found.is_contiguous():
            return found  # views by strides take it as it is
        return (found if order is None else found.permute(order)).contiguous().view(-1)

    def spread(self, array: Any, strides: Sequence[int], padded: bool) -> Any:
        """View a tensor of these strides as a line, first element to last; copy a tensor of other strides.

        Args:
            array: the tensor.
            strides: strides in elements.
            padded: whether the line has the padding of the last element's line too.
        """
        found, shape = array.detach(), tuple(array.shape)
        size = held(View(0, 0, shape, tuple(strides))) if padded else span(shape, strides)
        there = all(n == 1 or s == t for n, s, t in zip(shape, found.stride(), strides, strict=True))
        whole = (found.storage_offset() + size) * found.element_size() <= found.untyped_storage().nbytes()
        if not there or not whole or found.data_ptr() % ALIGNMENT:
            line = torch.empty(size, dtype=found.dtype, device=found.device)
            torch.as_strided(line, shape, strides).copy_(found)
            return line
        return found.as_strided((size,), (1,))

    def converted(self, array: Any, dtype: DType) -> Any:
        """Convert to another element type; return the tensor itself if it has this type."""
        kind = torch_type(dtype)
        if array.dtype == kind:
            return array
        if array.dtype == torch.bool and dtype.name == "u8":
            return array.view(torch.uint8)
        return array.to(kind)

    def constant(self, array: Any, like: Any) -> Any:
        """Copy a NumPy array to the device of `like`."""
        made = as_torch(array.copy())
        return made if like is None else made.to(like.device)

    def state(self, array: Any) -> object:
        """Return a tensor's address and its version, which each operator that writes to it increments."""
        return None if array.is_inference() else (array.data_ptr(), array._version)

    def settle(self, array: Any) -> bool:
        """Wait for the stream, so that other streams may read kept results; return False during a capture."""
        if self.on_host or array is None:
            return True
        if torch.cuda.is_current_stream_capturing():
            return False
        torch.cuda.current_stream(array.device).synchronize()
        return True

    def compute(self, node: Node, inputs: Sequence[Any]) -> Any:
        """Compute one operation; a call that returns several tensors returns them without conversion.

        A result of torch's operator that shares memory with an input is copied.
        """
        if node.op == "foreign":
            made, bundle = node["call"](*inputs), BUNDLE in dict(node.attributes)
            given = {x.untyped_storage().data_ptr() for x in inputs if isinstance(x, torch.Tensor)}
            several = [
                x.clone() if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() in given else x
                for x in (made if bundle else (made,))
            ]
            return several if bundle else several[0].to(torch_type(node.dtype))
        call = _OTHERS.get(node.op) or torch_function(_CALLED.get(node.op, node.op))
        return call(*inputs, **dict(node.attributes)).to(torch_type(node.dtype))
