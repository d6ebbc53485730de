"""Descriptors: tiles in shared memory that an instruction addresses as a whole, by their first element."""

from __future__ import annotations

from fireiron.algebra.expr import as_int
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.kernel.ir.statements import View
from fireiron.kernel.lower.context import buffer_of
from fireiron.kernel.lower.span import swizzle_of
from fireiron.kernel.lower.window import Window
from fireiron.language.atom import Operand

SPANS = (128, 64, 32)


def descriptor_view(operand: Operand, window: Window, user: str) -> View:
    """View a whole tile whose rows of K (for 16-bit elements also of M or N) lie in swizzled spans.

    Raises:
        DecompositionError: `descriptor-layout` where the buffer has another layout.
    """
    storage = window.storage
    nbytes = storage.dtype.nbytes
    span = next((s for s in SPANS if storage.swizzle == swizzle_of(s, nbytes)), None)
    # Columns may end within the last panel: the instruction reads no other ones, and the view has them all.
    steps = [window.steps_along(i, cut=axis.dim == "N") for i, axis in enumerate(window.axes)][-2:]
    strides = [None if s is None else as_int(s.leaves[0][1]) for s in steps]
    k = 1 if operand.role == "A" else 0
    fix = "load by tma(128), tma(64) or tma(32), which lay the buffer out for it"
    if span is None or None in strides or any(axis.bounds for axis in window.axes):
        fact = "not swizzled so" if span is None else "laid out in jumps" if None in strides else "cut by a bound"
        raise DecompositionError(
            "descriptor-layout",
            f"{user} takes {operand.role} in swizzled rows of 128, 64 or 32 bytes, and {storage.name} is {fact}",
            fix=fix,
        )
    pitch = span // nbytes
    along_k = strides[k] == 1
    if strides[k if not along_k else 1 - k] != pitch or (not along_k and nbytes != 2):
        raise DecompositionError(
            "descriptor-layout",
            f"{user} takes {operand.role} in rows of {span} bytes {'' if nbytes == 2 else 'of K '}"
            f"one after another, and {storage.name} has strides {strides[0]} and {strides[1]}",
            fix=fix if nbytes == 2 else "store the operand with K contiguous: other orders need 16-bit elements",
        )
    lines = [s for s in steps if s is not None]
    layout = Layout(tuple(s.shape for s in lines), tuple(s.stride for s in lines))
    return View(
        buffer_of(storage), window.base() + window.linear(), layout, window.slot, window.origin,
        swizzle=storage.swizzle,
    )  # fmt: skip
