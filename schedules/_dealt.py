"""Inputs whose elements a warp's lanes take in one order."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron import ProgramChain, Tensor


def dealt_alike(chain: ProgramChain, tensors: Sequence[Tensor], order: Sequence[str]) -> list[Tensor]:
    """Return the tensors whose part of a tile lies in one order of dims: lanes take elements in the order of memory.

    Where a warp's tile has several dims, lanes would get other points of a tensor with another order: such a tensor is
    read at the points of the others.

    Args:
        chain: the chain, with a warp's tile.
        tensors: inputs of the program that have all dims.
        order: dims in the order of the others.
    """
    tile, dims = chain.residual.extents, {o.tensor.name: o.dims for o in chain.residual.operands}

    def lies(t: Tensor) -> list[str]:
        return [dims[t.name][i] for i in t.by_strides if tile[dims[t.name][i]] != 1]

    wanted = [d for d in order if tile[d] != 1]
    return [t for t in tensors if lies(t) == wanted]
