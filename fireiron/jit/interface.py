"""The interface of a kernel: the data for launches. Cached kernels are launched from it; exports keep it as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never, cast

import attrs

if TYPE_CHECKING:
    from fireiron.algebra.expr import Expr
    from fireiron.kernel.ir.statements import Kernel

Role = Literal["input", "output", "update"]


@attrs.frozen
class PointerParameter:
    """Pass the address of an array.

    Args:
        name: the tensor's name.
        dtype: short name of the element type (`f16`).
        shape: extents as expressions of sizes, in the order that the user's array has them.
        strides: element strides in the same order.
        role: input, output (written only), or update (read and written).
        align: bytes by which the address must be aligned.
        shares: for an array of offsets (the row before which each group ends), the number of rows; else empty.
        below: for an array of indices, an upper bound: every index is smaller. Else empty.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    role: Role
    align: int = 16
    shares: str = ""
    below: str = ""


@attrs.frozen
class SizeParameter:
    """Pass a size as a 32-bit integer."""

    name: str


@attrs.frozen
class NumberParameter:
    """Pass a scalar of a dtype, with the default where it has one."""

    name: str
    dtype: str
    default: float | int | None = None


def _product(factors: Sequence[str]) -> str:
    """Multiply expressions; those that are numbers become one number."""
    number = prod(int(text) for text in factors if text.isdecimal())
    named = [text for text in factors if not text.isdecimal()]
    return " * ".join([*named, str(number)] if number != 1 or not named else named)


@attrs.frozen
class MapParameter:
    """Pass a tensor map: how bulk copies cut an array into boxes, encoded at the call as CUtensorMap of 128 bytes.

    Args:
        name: the parameter's name.
        pointer: name of the array parameter that the map describes.
        axes: the axes of the array's shape that the map has, innermost first; the first has stride 1.
        box: elements of the array that a box spans along these axes.
        swizzle: bytes of the swizzle's span in shared memory: 0, 32, 64 or 128.
        dtype: how the elements are encoded: short name of a dtype, or `tf32` for f32 that copies round to tf32.
        steps: for each axis, the distance between the elements that a box takes; () where a box takes all elements.
            Example: (1, 2) for every second pixel.
        lower, upper: corners of the pixels that copies in im2col mode visit, along each axis but the first and the
            last, counted from the axis's first and last element; () for boxes. `box` is then channels and pixels.
        merged: for each axis, the number of axes of the array's shape that the map has as one: this axis, and those
            right before it, without gaps in memory between them; () for one each.
    """

    name: str
    pointer: str
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    dtype: str
    steps: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    merged: tuple[int, ...] = ()

    @property
    def runs(self) -> tuple[range, ...]:
        """Return, for each of `axes`, the axes of the array's shape that it stands for.

        Example:
            >>> MapParameter("y_map", "y", (3, 2), (64, 128), 128, "f16", merged=(1, 3)).runs
            (range(3, 4), range(0, 3))
        """
        counts = self.merged or (1,) * len(self.axes)
        return tuple(range(axis + 1 - n, axis + 1) for axis, n in zip(self.axes, counts, strict=True))

    def extents(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        """Return the extents of the map, as expressions of sizes like those of the array's shape.

        Example:
            >>> tensor_map = MapParameter("y_map", "y", (3, 2), (64, 128), 128, "f16", merged=(1, 3))
            >>> tensor_map.extents(("N", "28", "30", "64"))
            ('64', 'N * 840')
        """
        return tuple(_product([shape[axis] for axis in run]) for run in self.runs)


@attrs.frozen
class WorkspaceParameter:
    """Pass the address of a workspace: memory that is zeroed before the first launch, and used by one launch at a time.

    Args:
        name: the workspace's name in the kernel.
        dtype: short name of the element type.
        count: elements, an expression of sizes.
    """

    name: str
    dtype: str
    count: str


InterfaceParameter: TypeAlias = PointerParameter | SizeParameter | NumberParameter | MapParameter | WorkspaceParameter

MAP_ALIGN = 16  # bytes by which the address in a tensor map must be aligned (CUDA driver API, cuTensorMapEncodeTiled)


@attrs.frozen
class SizeSymbol:
    """Say which values a size may have."""

    name: str
    multiple_of: int = 1
    minimum: int = 1
    maximum: int = 2**31 - 1


@attrs.frozen
class Demand:
    """Hold a condition on the sizes of a call, with the message and the fix of the error where it fails."""

    condition: str
    message: str
    fix: str = ""


@attrs.frozen
class Interface:
    """Describe how a kernel is launched.

    Args:
        entry: name of the `extern "C"` function.
        grid: number of blocks, an expression of sizes.
        threads: threads of a block.
        shared_nbytes: dynamic shared memory of a block.
        parameters: in launch order.
        symbols: all sizes that expressions of this record name.
        preconditions: conditions on the sizes.
        cluster: blocks of a cluster; the grid is a multiple of it.
        persistent: whether a launch has at most as many blocks as the GPU runs at once.
        dependent: whether the kernel is launched while the launch before it may still run.
        cooperative: whether all blocks must run at once.
    """

    entry: str
    grid: str
    threads: int
    shared_nbytes: int
    parameters: tuple[InterfaceParameter, ...]
    symbols: tuple[SizeSymbol, ...] = ()
    preconditions: tuple[Demand, ...] = ()
    cluster: int = 1
    persistent: bool = False
    dependent: bool = False
    cooperative: bool = False

    @property
    def pointers(self) -> tuple[PointerParameter, ...]:
        """List the array parameters in launch order."""
        return tuple(p for p in self.parameters if isinstance(p, PointerParameter))

    @property
    def inputs(self) -> tuple[PointerParameter, ...]:
        """List the arrays that a call takes by position."""
        return tuple(p for p in self.pointers if p.role == "input")

    @property
    def outputs(self) -> tuple[PointerParameter, ...]:
        """List the arrays that `out=` stands for."""
        return tuple(p for p in self.pointers if p.role != "input")

    @property
    def numbers(self) -> tuple[NumberParameter, ...]:
        """List the scalars that a call takes by keyword."""
        return tuple(p for p in self.parameters if isinstance(p, NumberParameter))

    @property
    def maps(self) -> tuple[MapParameter, ...]:
        """List the tensor maps in launch order."""
        return tuple(p for p in self.parameters if isinstance(p, MapParameter))

    @property
    def workspaces(self) -> tuple[WorkspaceParameter, ...]:
        """List the workspaces in launch order."""
        return tuple(p for p in self.parameters if isinstance(p, WorkspaceParameter))

    @property
    def signature(self) -> str:
        """Write the call as Python.

        Example:
            >>> a = PointerParameter("A", "f32", ("M",), ("1",), "input")
            >>> Interface("k", "1", 32, 0, (a, NumberParameter("alpha", "f32", 1.0))).signature
            'kernel(A, *, out=None, stream=None, alpha=1.0)'
        """
        numbers = [n.name if n.default is None else f"{n.name}={n.default}" for n in self.numbers]
        out = "out" if any(p.role == "update" for p in self.outputs) else "out=None"
        return f"kernel({', '.join([*(p.name for p in self.inputs), '*', out, 'stream=None', *numbers])})"

    def to_json(self) -> dict[str, Any]:
        """Give the record as JSON data; parameters name their kind."""
        data = attrs.asdict(self)
        data["parameters"] = [{"kind": _KIND_OF[type(p)], **attrs.asdict(p)} for p in self.parameters]
        # Launch facts that every kernel of this interface shares, for readers that launch from another language.
        return data | {"block": [self.threads, 1, 1], "tensor_maps": [self._encoding(m) for m in self.maps]}

    def _encoding(self, tensor_map: MapParameter) -> dict[str, Any]:
        """Return the arguments of cuTensorMapEncodeTiled for a map; extents and strides are expressions of elements."""
        pointer = next(p for p in self.pointers if p.name == tensor_map.pointer)
        return attrs.asdict(tensor_map) | {
            "extents": list(tensor_map.extents(pointer.shape)),
            "strides": [pointer.strides[axis] for axis in tensor_map.axes],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Interface:
        """Read the record back.

        Raises:
            KeyError, TypeError, ValueError: where the data is not such a record.
        """
        return Interface(
            entry=str(data["entry"]),
            grid=str(data["grid"]),
            threads=int(data["threads"]),
            shared_nbytes=int(data["shared_nbytes"]),
            parameters=tuple(_parameter(p) for p in data["parameters"]),
            symbols=tuple(SizeSymbol(**s) for s in data["symbols"]),
            preconditions=tuple(Demand(**p) for p in data["preconditions"]),
            cluster=int(data["cluster"]),
            persistent=bool(data["persistent"]),
            dependent=bool(data["dependent"]),
            cooperative=bool(data["cooperative"]),
        )

    @staticmethod
    def of(kernel: Kernel) -> Interface:
        """Derive the record from a lowered kernel."""
        from fireiron.algebra.expr import Symbol
        from fireiron.jit.expression import text_of
        from fireiron.kernel.ir import statements as ir

        mapped = {p.buffer.name for p in kernel.parameters if isinstance(p, ir.TensorMap)}
        parameters: list[InterfaceParameter] = []
        for parameter in kernel.parameters:
            match parameter:
                case ir.Pointer(buffer=buffer, shape=shape, strides=strides, role=role):
                    texts = tuple(map(text_of, shape)), tuple(map(text_of, strides))
                    facts = ("" if e is None else text_of(e) for e in (parameter.shares, parameter.below))
                    align = max(buffer.align, MAP_ALIGN if buffer.name in mapped else 1)
                    parameters.append(PointerParameter(buffer.name, buffer.dtype.name, *texts, role, align, *facts))
                case ir.Size(symbol=symbol):
                    parameters.append(SizeParameter(symbol.name))
                case ir.Number(name=name, dtype=dtype, default=default):
                    parameters.append(NumberParameter(name, dtype.name, default))
                case ir.TensorMap(name=name, buffer=buffer, axes=axes, box=box, swizzle=swizzle, steps=steps):
                    others = parameter.lower, parameter.upper, parameter.merged
                    if steps and not parameter.lower:
                        box = tuple((n - 1) * step + 1 for n, step in zip(box, steps, strict=True))
                    parameters.append(
                        MapParameter(name, buffer.name, axes, box, swizzle, buffer.dtype.name, steps, *others)
                    )
                case ir.Workspace(buffer=buffer):
                    parameters.append(WorkspaceParameter(buffer.name, buffer.dtype.name, text_of(buffer.size)))
                case _ as never:
                    assert_never(never)
        symbols: dict[str, SizeSymbol] = {}
        for e in _expressions(kernel):
            for leaf in _leaves(e):
                if isinstance(leaf, Symbol):
                    symbols[leaf.name] = SizeSymbol(leaf.name, leaf.multiple_of, leaf.minimum, leaf.maximum)
        return Interface(
            entry=kernel.name,
            grid=text_of(kernel.grid),
            threads=kernel.threads,
            shared_nbytes=kernel.shared_nbytes,
            parameters=tuple(parameters),
            symbols=tuple(symbols.values()),
            preconditions=tuple(Demand(text_of(p.condition), p.message, p.fix) for p in kernel.preconditions),
            cluster=kernel.cluster,
            persistent=kernel.persistent,
            dependent=kernel.dependent,
            cooperative=kernel.cooperative,
        )


_KINDS: dict[str, type[InterfaceParameter]] = {
    "pointer": PointerParameter,
    "size": SizeParameter,
    "number": NumberParameter,
    "map": MapParameter,
    "workspace": WorkspaceParameter,
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}


def _parameter(data: dict[str, Any]) -> InterfaceParameter:
    fields: dict[str, Any] = {
        k: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for k, v in data.items() if k != "kind"
    }
    return _KINDS[data["kind"]](**fields)


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    from fireiron.kernel.ir import statements as ir

    for parameter in kernel.parameters:
        match parameter:
            case ir.Pointer(shape=shape, strides=strides):
                yield from (*shape, *strides)
            case ir.Size(symbol=symbol):
                yield symbol
            case ir.Workspace(buffer=buffer):
                yield buffer.size
            case ir.Number() | ir.TensorMap():
                pass
            case _ as never:
                assert_never(never)
    yield kernel.grid
    yield from (p.condition for p in kernel.preconditions)


def _leaves(e: Expr) -> Iterator[Expr]:
    from fireiron.algebra.index.nodes import operands

    below = operands(e)
    if not below:
        yield e
    for operand in below:
        yield from _leaves(operand)
