"""Rules of layers that follow each other on chip; each raises a coded error with numbers and a fix."""

from __future__ import annotations

from collections.abc import Sequence

from fireiron.algebra.arch import arch as find_arch
from fireiron.base.errors import DecompositionError
from fireiron.base.text import nbytes as human
from fireiron.language.decompositions import Decomposition, Epilog, Tile
from fireiron.language.levels import Memory
from fireiron.language.residual import Residual
from fireiron.language.specs import Spec

LARGEST = "sm_90"  # no architecture has more shared memory per block, or more registers


def wide(spec: Spec, residual: Residual, memory: Memory, arch: str | None) -> None:
    """Raise an error for activations or accumulators that are too wide for a block.

    Raises:
        DecompositionError: `layers-too-wide`.
    """
    rows = residual.extents["M"]
    if not isinstance(rows, int):
        return
    limits = find_arch(arch or LARGEST)
    registers = limits.registers_per_sm * 4
    widest = max(max(layer.depth, layer.width) for layer in spec.layers)
    held = spec.inputs[0].dtype.nbytes_of(rows * widest)
    assert spec.accumulator is not None
    sums = spec.accumulator.nbytes_of(rows * max(layer.width for layer in spec.layers))
    room = registers if memory.registers else limits.shared_per_block
    inside = held + sums if memory.registers else held
    if inside > room or sums > registers:
        what, need, have = (
            (f"activations in {memory}", inside, room) if inside > room else ("accumulators in FR", sums, registers)
        )
        raise DecompositionError(
            "layers-too-wide",
            f"{rows} rows of {widest} columns take {human(need)} for {what}: a block has {human(have)}",
            fix="tile fewer rows, or compute the layers in kernels of their own",
        )


def on_chip(residual: Residual) -> None:
    """Raise an error for layers whose activations lie in global memory.

    Raises:
        DecompositionError: `layers-on-chip`.
    """
    a = residual.operand("A")
    assert a is not None
    if a.memory.name == "GL":
        raise DecompositionError(
            "layers-on-chip",
            f"each layer of {residual.short} would read data that other blocks write",
            fix="tile(m).to(Block), then load(A, SH) or load(A, FR) above each(...)",
        )


def has_next(links: Sequence[Decomposition], prefetch: bool) -> None:
    """Raise an error for a prefetch of the next tile where each block computes a single tile.

    Raises:
        DecompositionError: `layers-prefetch`.
    """
    if prefetch and not any(isinstance(x, Tile) and x.persistent for x in links):
        raise DecompositionError(
            "layers-prefetch",
            "prefetch=True: each block computes one tile, so there is no next tile to prefetch",
            fix="use tile(m).to(Block).persistent(), or drop prefetch=",
        )


def one_epilog(residual: Residual, links: Sequence[Decomposition]) -> None:
    """Raise an error for a second epilog.

    Raises:
        DecompositionError: `second-epilog`.
    """
    if any(isinstance(x, Epilog) for x in links):
        raise DecompositionError(
            "second-epilog", f"the sums of {residual.short} lie in registers already", fix="drop this epilog"
        )


def has_epilog(residual: Residual, links: Sequence[Decomposition]) -> None:
    """Raise an error for a layer without an epilog, whose sums then have no place.

    Raises:
        DecompositionError: `no-epilog`.
    """
    if not any(isinstance(x, Epilog) for x in links):
        raise DecompositionError(
            "no-epilog", f"no link places the sums of {residual.short}", fix="add .epilog() first in the layer's chain"
        )
