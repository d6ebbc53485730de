"""Stores of results on Hopper: through panels in shared memory, by bulk stores."""

from __future__ import annotations

from fireiron import ColMajor, Strategy, Tensor, Warpgroup, conform, stmatrix, through_shared, tma
from fireiron.schedules._plan import SPAN, Plan


def into_panel(stored: Tensor) -> Strategy:
    """Choose how fragments are written to a panel: by stmatrix for 16-bit elements.

    A panel of a single row or column has contiguous rows, whichever of the two the tensor was declared with.
    """
    return stmatrix(trans=stored.strides[-1] != 1) if stored.dtype.nbytes == 2 else conform()


def bulk(plan: Plan, stored: Tensor) -> Strategy:
    """Store a tensor's tiles by bulk stores of panels, which are swizzled if their rows are whole spans.

    Args:
        plan: the plan, which gives the size of panels and a warpgroup's slots for them.
        stored: the tensor to store.
    """
    nbytes = stored.dtype.nbytes
    rows, width = plan.panel(nbytes)
    contiguous = (rows if stored.order is ColMajor else width) * nbytes
    span = contiguous if contiguous in (SPAN // 4, SPAN // 2) else SPAN if contiguous % SPAN == 0 else 0
    return through_shared(into_panel(stored), tma(span), (rows, width), at=Warpgroup, ring=plan.ring(nbytes))
