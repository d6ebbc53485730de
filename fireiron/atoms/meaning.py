"""The computation of an instruction on NumPy arrays, from its step and the hardware's rounding.

`Atom.step` is the sum or fold of an instruction; its layouts say which element each register holds, and its `rounding`
where the sum is rounded. Only an instruction that no rounding here describes needs its own `numpy` function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fireiron.algebra.dtypes import DType, bf16, f16, f32, f64
from fireiron.algebra.elements import read
from fireiron.atoms.rounding import fma_bf16, fma_bf16_through_f32, fma_f16, fma_f32, fma_f64
from fireiron.language.atom import Atom, Meaning, Operand

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_FUSED = {f64: fma_f64, f32: fma_f32, f16: fma_f16, bf16: fma_bf16}
_FOLDS = {
    "add": "add", "min": "minimum", "max": "maximum", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip


def meaning_of(atom: Atom) -> Meaning | None:
    """Return the NumPy function of a product or a reduction; None where its row does not state a rounding.

    Operands in registers are arrays (units, threads, registers), operands in shared memory (units, rows, columns).

    Example:
        >>> import numpy as np
        >>> from fireiron.atoms.table import find
        >>> dot = find("dp4a.i8")
        >>> a, b = np.array([[[1, 2, 3, 4]]], np.int8), np.array([[[5, 6, 7, 8]]], np.int8)
        >>> print(dot.step, meaning_of(dot)(a, b, np.array([[[100]]], np.int32)).item(), sep="; ")
        C[m, n] = add over k of A[m, k] * B[k, n]; 170
    """
    if atom.numpy is not None:
        return atom.numpy
    if atom.kind == "Reduce" and atom.fold:
        return _reduction(_FOLDS[atom.fold])
    if atom.kind != "MatMul" or not atom.rounding:
        return None
    acc = atom.operand("C").dtype
    assert acc is not None
    if atom.rounding == "once":
        return _summed_once(atom, acc)
    if atom.rounding == "once, of parts":
        return _summed_of_parts(atom)
    return _summed_in_turn(atom, acc, fma_bf16_through_f32 if atom.rounding == "each, through f32" else _FUSED.get(acc))


def _summed_once(atom: Atom, acc: DType) -> Meaning:
    """Sum exact products in f64, which is exact for sums of integers, and round once to C's type; integers wrap."""
    tiles = [_Tile(operand) for operand in atom.operands]

    def numpy(a: Array, b: Array, c: Array) -> Array:
        import numpy as np

        left, right, old = (tile.of(x, np.float64) for tile, x in zip(tiles, (a, b, c), strict=True))
        total = left @ right
        if atom.product == "xor":  # bits that differ: those of both, without the common ones on either side
            total = left.sum(2, keepdims=True) + right.sum(1, keepdims=True) - 2 * total
        result = tiles[2].registers(total + old)
        return (result.astype(np.int64) if acc.kind == "int" else result).astype(c.dtype)

    return numpy


def _summed_of_parts(atom: Atom) -> Meaning:
    """Sum the products of f32 elements' tf32 parts, the smaller products first; each of the three sums is rounded."""
    tiles = [_Tile(operand) for operand in atom.operands]

    def numpy(a: Array, b: Array, c: Array) -> Array:
        import numpy as np

        left, right, total = (tile.of(x) for tile, x in zip(tiles, (a, b, c), strict=True))
        with np.errstate(all="ignore"):
            (high, low), (other_high, other_low) = map(_parts, (left, right))
            for x, y in ((low, other_high), (high, other_low), (high, other_high)):
                total = (x.astype(np.float64) @ y.astype(np.float64) + total).astype(np.float32)
        return tiles[2].registers(total).reshape(c.shape)

    return numpy


_TF32_ROUND, _TF32_MASK = 0x1000, 0xFFFFE000


def _parts(x: Array) -> tuple[Array, Array]:
    """Split f32 into the value rounded to tf32, and the remainder, truncated to tf32."""
    import numpy as np

    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    high = ((bits + np.uint32(_TF32_ROUND)) & np.uint32(_TF32_MASK)).view(np.float32)
    low = np.ascontiguousarray(x - high, np.float32).view(np.uint32) & np.uint32(_TF32_MASK)
    return high, low.view(np.float32)


def _summed_in_turn(atom: Atom, acc: DType, fused: Callable[[Array, Array, Array], Array] | None) -> Meaning:
    """Add one product after another, each rounded to C's type; integers wrap."""
    tiles = [_Tile(operand) for operand in atom.operands]

    def numpy(a: Array, b: Array, c: Array) -> Array:
        import numpy as np

        left, right, total = (tile.of(x) for tile, x in zip(tiles, (a, b, c), strict=True))
        for k in range(left.shape[2]):
            x, y = left[:, :, k, None], right[:, k, None, :]
            total = np.multiply(x, y, dtype=total.dtype) + total if fused is None else fused(x, y, total)
        return tiles[2].registers(total).reshape(c.shape)

    return numpy


def _reduction(name: str) -> Meaning:
    """Fold over the lanes of (units, lanes, 1); sums wrap."""

    def numpy(x: Array) -> Array:
        import numpy as np

        all_lanes = getattr(np, name).reduce(x, axis=1, keepdims=True)
        return np.broadcast_to(all_lanes.astype(x.dtype), x.shape)

    return numpy


class _Tile:
    """Convert an operand between registers of many units and matrices."""

    def __init__(self, operand: Operand) -> None:
        self.operand = operand
        self.rows, self.columns = operand.shape
        self._found: tuple[Array, Array] | None = None

    def places(self) -> tuple[Array, Array]:
        """Return the row and the column of each thread's registers."""
        import numpy as np

        if self._found is None:
            layout = self.operand.layout
            threads, registers = layout[0].size, layout[1].size
            assert isinstance(threads, int) and isinstance(registers, int)
            flat = layout[0](np.arange(threads))[:, None] + np.asarray(layout[1](np.arange(registers)))[None, :]
            self._found = flat % self.rows, flat // self.rows
        return self._found

    def of(self, x: Array, kind: Any = None) -> Array:
        """Return an operand as an array (units, rows, columns) of a NumPy type; None: the operand's own type."""
        import numpy as np

        dtype = self.operand.dtype
        values = x if dtype is None else read(x, dtype)
        kind = values.dtype if kind is None else kind
        if not self.operand.memory.registers:
            return values.astype(kind)
        if self._alone:
            return values.reshape(-1, self.columns, self.rows).transpose(0, 2, 1).astype(kind, copy=False)
        matrix = np.empty((len(x), self.rows, self.columns), kind)
        row, column = self.places()
        matrix[:, row, column] = values
        return matrix

    def registers(self, matrix: Array) -> Array:
        """Return the registers of each thread, from an array (units, rows, columns)."""
        if self._alone:
            return matrix.transpose(0, 2, 1).reshape(len(matrix), 1, -1)
        row, column = self.places()
        return matrix[:, row, column]

    @property
    def _alone(self) -> bool:
        """Say whether one thread holds all elements in order, the row fastest."""
        return self.operand.layout[0].size == 1
