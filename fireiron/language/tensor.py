"""Tensors: a name, a shape, an element type, a memory and the strides between elements."""

from __future__ import annotations

from numbers import Integral
from typing import TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, f32
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import Expr, Index, as_expr, simplest
from fireiron.algebra.layout import Layout
from fireiron.base.contract import checked_fields, checks, shown, whole
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.base.names import named
from fireiron.language.levels import GL, Memory


@attrs.frozen
class Order:
    """The order of a matrix's elements in memory, or of the units that take tiles: row by row or column by column."""

    name: str

    def __str__(self) -> str:
        return self.name


RowMajor = Order("RowMajor")
ColMajor = Order("ColMajor")


@attrs.frozen(field_transformer=checked_fields)
class Grouped:
    """Number tiles column by column in bands of `rows` tile rows, so that blocks that run together share operands.

    Triton: "grouped ordering for L2 reuse".
    """

    rows: int

    def __str__(self) -> str:
        return f"Grouped({self.rows})"


@attrs.frozen(field_transformer=checked_fields)
class Hilbert:
    """Number tiles along Hilbert curves, so that blocks that run together have neighbouring tiles in both dimensions.

    Each curve fills a square of `side` x `side` tiles, a power of two; the squares are numbered row by row. Tiles
    outside of whole squares are numbered column by column.
    """

    side: int = 16

    def __str__(self) -> str:
        return f"Hilbert({self.side})"


@attrs.frozen(field_transformer=checked_fields)
class Serpentine:
    """Number tiles along rows, every second row backwards, so that each tile shares a row or a column with the next.

    Multiply-adds in this order have two operands in common with their neighbours: the register file is read less often,
    and from different banks.

    Args:
        along: ColMajor numbers along columns, every second column backwards.

    Source: CUTLASS visits the products of a warp in this order.
    """

    along: Order = RowMajor

    def __str__(self) -> str:
        return "Serpentine()" if self.along is RowMajor else "Serpentine(ColMajor)"


TileOrder: TypeAlias = Order | Grouped | Hilbert | Serpentine | Layout


MOST_DIMS = 6
MOST = 2**31 - 1  # largest extent: kernels take sizes as 32-bit integers
MOST_STRIDE = 2**40  # elements


@attrs.frozen(repr=False, field_transformer=checked_fields)
class Tensor:
    """Describe an operand. Shape and strides are in elements, in mathematical order (batch, rows, columns).

    Args:
        name: the name in links, trees and the emitted CUDA.
        shape: extents, ints or symbols.
        dtype: element type.
        memory: the memory that holds the tensor.
        strides: elements between neighbours along each dimension (0 for a broadcast dimension).
        start: elements between the multiple of 16 bytes before the first element and this element, as in a slice;
            0 for what starts at such a multiple.
    """

    name: str = attrs.field(validator=named("a tensor", empty=True))
    shape: tuple[Index, ...]
    dtype: DType
    strides: tuple[Index, ...]
    memory: Memory = GL
    start: int = attrs.field(default=0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Raise an error for extents below 1, negative strides, or numbers of extents and strides that differ."""
        if not 1 <= len(self.shape) <= MOST_DIMS or len(self.strides) != len(self.shape):
            raise SpecError(
                "tensor-rank",
                f"{self.name or 'a tensor'} has {len(self.shape)} extents and {len(self.strides)} strides",
                fix=f"give 1 to {MOST_DIMS} extents, and a stride for each",
                link=here(),
            )
        for what, numbers, least, most in (
            ("extent", self.shape, 1, MOST),
            ("stride", self.strides, 0, MOST_STRIDE),
            ("start", (self.start,), 0, MOST),
        ):
            wrong = [n for n in numbers if isinstance(n, int) and not least <= n <= most]
            if wrong:
                raise SpecError(
                    "bad-extent",
                    f"{self.name or 'a tensor'} has the {what} {wrong[0]}",
                    fix=f"give {what}s from {least} to {most}",
                    link=here(),
                )

    @property
    def order(self) -> Order:
        """Return which of the last two dimensions is contiguous: RowMajor or ColMajor.

        Example:
            >>> print(Matrix(1, 4, order=ColMajor).order, Matrix(4, 1).order, Matrix(1, 4).order)
            ColMajor RowMajor RowMajor
        """
        if len(self.shape) < 2 or self.strides[-2] != 1:
            return RowMajor
        return ColMajor if self.strides[-1] != 1 or (self.shape[-2] == 1 and self.shape[-1] != 1) else RowMajor

    def aligned(self, elements: int) -> bool:
        """Say whether the starts and the lengths of lines are multiples of `elements` elements.

        Example:
            >>> Matrix(64, 30).aligned(2), Matrix(64, 30).aligned(4)
            (True, False)
        """
        line = self.shape[-2] if self.order is ColMajor else self.shape[-1]
        others = tuple(s for s in self.strides if s != 1)
        return all(as_expr(x).divisor % elements == 0 for x in (line, *others, *self._starts))

    def starts_lines_at(self, nbytes: int) -> bool:
        """Say whether the starts of lines are multiples of `nbytes` bytes, whatever the lines' length.

        Example:
            >>> Matrix(64, 30, "f16").starts_lines_at(16), Matrix(64, 30, "f16", ld=32).starts_lines_at(16)
            (False, True)
            >>> Matrix(64, 1, "f16").starts_lines_at(16)  # a line of one element is 2 bytes behind the other
            False
        """
        line = len(self.shape) - (2 if self.order is ColMajor else 1)
        steps = (as_expr(s).divisor for dim, s in enumerate(self.strides) if dim != line or s != 1)
        return all(step * self.dtype.bits % (8 * nbytes) == 0 for step in (*steps, *self._starts))

    @property
    def _starts(self) -> tuple[int, ...]:
        return (self.start,) if self.start else ()

    @property
    def transposed(self) -> Tensor:
        """Return the transpose: the same memory with rows and columns exchanged."""
        *batch, rows, cols = self.shape
        *steps, down, across = self.strides
        return attrs.evolve(self, shape=(*batch, cols, rows), strides=(*steps, across, down))

    @property
    def storage(self) -> tuple[int, ...]:
        """List the numbers of the dimensions outermost first, as the user's array has them.

        A ColMajor matrix is a row-major array of its transpose.
        """
        dims = tuple(range(len(self.shape)))
        return (*dims[:-2], dims[-1], dims[-2]) if self.order is ColMajor else dims

    @property
    def by_strides(self) -> tuple[int, ...]:
        """List the numbers of the dimensions as memory has them, those with the largest strides first.

        Dimensions along which elements repeat (stride 0) are first. A dimension of one point stays where `storage` has
        it. If a stride is a symbol, the result is `storage`.

        Example:
            >>> from fireiron import tensor
            >>> tensor(64, 8, 128, strides=(1, 8192, 64)).by_strides
            (1, 2, 0)
        """
        moving = [i for i in self.storage if self.shape[i] != 1]
        strides = {i: stride for i in moving if isinstance(stride := self.strides[i], int)}
        if len(strides) < len(moving):
            return self.storage
        placed = iter(sorted(moving, key=lambda i: (strides[i] != 0, -strides[i])))
        return tuple(next(placed) if i in strides else i for i in self.storage)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.shape))}].{self.dtype}.{self.memory}"


@checks("rows", "cols", "batch", "order")
def Matrix(
    rows: Index,
    cols: Index,
    dtype: object = f32,
    order: Order = RowMajor,
    *,
    name: str = "",
    ld: Index | None = None,
    batch: Index | None = None,
    batch_stride: Index | None = None,
) -> Tensor:
    """Describe a matrix in global memory, or a batch of them.

    Args:
        rows, cols: extents, ints or symbols.
        dtype: element type.
        order: RowMajor or ColMajor.
        name: the name; by default the matrix's role (`A`, `B`, `C`).
        ld: elements from one row (RowMajor) or column (ColMajor) to the next; by default there are no gaps.
        batch: number of matrices, stored one after another.
        batch_stride: elements from one matrix of a batch to the next; by default there are no gaps.

    Raises:
        SpecError: `unknown-dtype`, `bad-layout`, `bad-extent`; `batch-stride` where matrices of a batch would overlap,
            or there is no batch; `packed-extent` where elements below 8 bits do not fill whole bytes of a line.

    Example:
        >>> str(Matrix(1024, 512, "f16", name="X"))
        'X[1024, 512].f16.GL'
    """
    if not isinstance(order, Order) or order not in (RowMajor, ColMajor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SpecError(
            "bad-layout", f"unknown layout {shown(order)} of a matrix", fix="use RowMajor or ColMajor", link=here()
        )
    for extent in (rows, cols, *(() if batch is None else (batch,))):
        if not isinstance(extent, Expr | Integral):
            raise SpecError(
                "bad-extent",
                f"an extent is {extent!r}, which is no whole number",
                fix=f'give a whole number, or a size of the call: symbol("{extent}")'
                if isinstance(extent, str) and extent.isidentifier()
                else "give a whole number, or a symbol",
                link=here(),
            )
        if isinstance(extent, int) and extent < 1:
            raise SpecError(
                "bad-extent", f"a matrix of {rows}x{cols} has no elements", fix="extents start at 1", link=here()
            )
    inner = cols if order is RowMajor else rows
    outer = rows if order is RowMajor else cols
    pitch = inner if ld is None else ld
    if isinstance(pitch, int) and isinstance(inner, int) and pitch < inner:
        raise SpecError(
            "bad-extent",
            f"ld={pitch} is shorter than the {inner} elements of a line",
            fix=f"give ld={inner} or more",
            link=here(),
        )
    kind = _found(dtype)
    step = simplest(outer * pitch) if batch_stride is None else batch_stride
    if batch_stride is not None:
        _check_batch_stride(batch, batch_stride, outer, inner, pitch)
    for what, extent in (("line", inner), ("ld", pitch), ("batch_stride", step)):
        if as_expr(extent).divisor % kind.pack:
            raise SpecError(
                "packed-extent",
                f"a {what} of {extent} elements of {kind} does not fill its bytes, which hold {kind.pack} each",
                fix=f"use a multiple of {kind.pack}; of a size, symbol(name, multiple_of={kind.pack})",
                link=here(),
            )
    strides: tuple[Index, ...] = (pitch, 1) if order is RowMajor else (1, pitch)
    shape: tuple[Index, ...] = (rows, cols)
    if batch is not None:
        shape, strides = (batch, *shape), (step, *strides)
    return Tensor(name, shape, kind, strides)


@checks("shape")
def tensor(*shape: Index, dtype: object = f32, name: str = "", strides: tuple[Index, ...] | None = None) -> Tensor:
    """Describe an array of any rank in global memory.

    Args:
        shape: extents, ints or symbols, outermost first.
        dtype: element type.
        name: the name; by default that of the parameter to which the array is passed.
        strides: elements between neighbours along each dimension; by default the array is row-major without gaps.

    Raises:
        SpecError: `unknown-dtype`, `bad-extent`.

    Example:
        >>> print(tensor(2, 3, 64, dtype="f16", name="x"))
        x[2, 3, 64].f16.GL
    """
    sizes: list[Index] = []
    for extent in shape:
        size = extent if isinstance(extent, Expr) else whole(extent)
        if size is None or (isinstance(size, int) and size < 1):
            raise SpecError(
                "bad-extent",
                f"an extent is {extent if size is None else size}",
                fix="give whole numbers of 1 and more, or symbols",
                link=here(),
            )
        sizes.append(size)
    if strides is not None and len(strides) != len(shape):
        raise SpecError(
            "bad-extent",
            f"{len(strides)} strides for {len(shape)} dimensions",
            fix="give one stride for each dimension",
            link=here(),
        )
    steps: list[Index] = []
    step: Index = 1
    for extent in reversed(sizes):
        steps.append(step)
        step = simplest(as_expr(step) * extent)
    return Tensor(name, tuple(sizes), _found(dtype), tuple(reversed(steps)) if strides is None else strides)


def _check_batch_stride(batch: Index | None, stride: Index, outer: Index, inner: Index, pitch: Index) -> None:
    least = simplest((outer - 1) * pitch + inner)
    if batch is None:
        raise SpecError(
            "batch-stride",
            f"batch_stride={stride} steps through a batch, and there is none",
            fix="give batch=",
            link=here(),
        )
    if isinstance(stride, int) and isinstance(least, int) and stride < least:
        raise SpecError(
            "batch-stride",
            f"batch_stride={stride} is shorter than the {least} elements of a matrix",
            fix=f"give batch_stride={least} or more",
            link=here(),
        )


def _found(dtype: object) -> DType:
    try:
        return find_dtype(dtype)
    except SpecError as error:
        raise error.located(here()) from None


@checks("extent")
def Vector(extent: Index, dtype: object = f32, *, name: str, along: Order = RowMajor) -> Tensor:
    """Describe a vector that broadcasts over a matrix.

    Args:
        extent: number of elements.
        dtype: element type.
        name: the name in errors and kernels.
        along: RowMajor for one value for each column (a bias), ColMajor for one value for each row.

    Example:
        >>> Vector(512, "f32", name="bias").shape
        (512,)
    """
    d = _found(dtype)
    if along is RowMajor:
        return Tensor(name, (extent,), d, (1,))
    return Tensor(name, (extent, 1), d, (1, 0))
