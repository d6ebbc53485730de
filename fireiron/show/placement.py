"""Placements: the offset of every element of a shared buffer, as its load's refinements say."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from fireiron.algebra.layout import Layout
from fireiron.base.errors import UsageError
from fireiron.language.decompositions import Load
from fireiron.language.tensor import RowMajor
from fireiron.show.steps import Step, static

Array = npt.NDArray[Any]


@attrs.frozen(eq=False)
class Placement:
    """Hold where each element of one slot lies.

    Args:
        words: what the load says of it.
        offsets: (rows, columns) in elements, swizzled.
    """

    words: str
    offsets: Array

    def __str__(self) -> str:
        return self.words


def placement(step: Step) -> Placement:
    """Place the elements of the buffer that a load to SH makes; of a batch, those of the first matrix.

    Raises:
        UsageError: `unknown-size` where an extent is a symbol.
    """
    link = step.link
    assert isinstance(link, Load)
    operand = step.after.operand(link.role)
    assert operand is not None
    shape = static(tuple(step.before.extents[dim] for dim in operand.dims))
    if shape is None:
        raise UsageError("unknown-size", "the buffer's size is not known yet", fix="tile or split above its load")
    rows, cols = (1, *shape)[-2:]
    i, j = np.indices((rows, cols))
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
