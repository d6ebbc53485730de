"""Offsets of the elements of a buffer in shared memory, from the refinements of its load."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from fireiron.algebra.layout import Layout
from fireiron.base.errors import UsageError
from fireiron.kernel.lower.span import swizzle_of
from fireiron.kernel.lower.storage import demanded_span
from fireiron.kernel.lower.tree import tree
from fireiron.language.decompositions import Decomposition, Load
from fireiron.language.tensor import Order, RowMajor
from fireiron.show.steps import Step, static

Array = npt.NDArray[Any]


@attrs.frozen(eq=False)
class Placement:
    """Hold the offsets of the elements of one slot.

    Args:
        words: the load's refinements in words.
        offsets: (rows, columns) array of offsets in elements, after the swizzle.
        along_rows: whether elements of a row are contiguous.
    """

    words: str
    offsets: Array
    along_rows: bool = True

    def __str__(self) -> str:
        return self.words


def placement(step: Step, rest: tuple[Decomposition, ...] = ()) -> Placement:
    """Compute the offsets in the buffer of a load to SH; for a batch, of the first matrix.

    Args:
        step: the load.
        rest: the links after the load, for a Move that passes through the buffer.

    Raises:
        UsageError: `unknown-size` where an extent is a symbol.
    """
    link = step.link
    assert isinstance(link, Load)
    operand = step.after.operand(link.role)
    assert operand is not None
    shape = static(tuple(step.before.extents[dim] for dim in operand.dims[-2:]))
    if shape is None:
        raise UsageError("unknown-size", "the buffer's size is not known yet", fix="tile or split above its load")
    rows, cols = (1, *shape)[-2:]
    i, j = np.indices((rows, cols))
    ends = (tree(link.move).asked.done, tree(rest).asked.done)
    span = demanded_span(link, ends[0], "dst") or demanded_span(link, ends[1], "src")
    if span:
        return _panels(i, j, operand.dtype.nbytes, step.order or RowMajor, span, f"{rows}x{cols} {operand.dtype}")
    if isinstance(link.storage, Layout):
        layout = link.storage
        flat = np.asarray(layout(i.reshape(-1), j.reshape(-1)) if layout.rank == 2 else layout(j.reshape(-1)))
        offsets, order = np.broadcast_to(flat, (rows * cols,)).reshape(rows, cols), str(layout)
    else:
        order = link.storage or step.order or RowMajor
        pitch = link.pad + (cols if order is RowMajor else rows)
        offsets = i * pitch + j if order is RowMajor else i + j * pitch
    said = f"{rows}x{cols} {operand.dtype} {order}"
    if link.pad:
        said += f", pad {link.pad}"
    if link.swizzle is not None:
        offsets, said = link.swizzle(offsets), f"{said}, {link.swizzle}"
    return Placement(said, offsets)


def _panels(i: Array, j: Array, nbytes: int, order: Order, span: int, said: str) -> Placement:
    """Compute offsets in swizzled panels: each panel holds `span` bytes of every line, one line after another."""
    line, at = (i, j) if order is RowMajor else (j, i)
    width = span // nbytes
    offsets = at // width * (int(line.max()) + 1) * width + line * width + at % width
    swizzle = swizzle_of(span, nbytes)
    assert swizzle is not None
    return Placement(f"{said} {order}, in rows of {span} B, {swizzle}", swizzle(offsets), order is RowMajor)
