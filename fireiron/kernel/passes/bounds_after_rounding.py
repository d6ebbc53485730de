"""Moving bounds (max, min) of an epilog after the rounding, where one instruction bounds two 16-bit floats.

Rounding keeps the order of numbers: round(max(x, y)) = max(round(x), round(y)). So relu, and every other max or min
with a constant, gives the same bits before and after the rounding.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import bf16, f16
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Buffer, Call, Compute, Micro, Region, Statement, Sync, walk
from fireiron.kernel.lower.context import Body
from fireiron.kernel.passes.pairs import FIRST_ARCH

PAIRED = (f16, bf16)  # types that instructions bound in pairs


def round_first(ops: Body, store: Region, held: Buffer, arch: int) -> tuple[Body, Region]:
    """Move the last bounds of ops after the store's rounding.

    Nothing changes where an element is computed or read in several places, or where the store does not round to a
    16-bit float in registers.

    Args:
        ops: statements that compute elements of a register tensor.
        store: the only statements that read these elements.
        held: the register tensor.
        arch: the architecture's number.
    """
    if arch < FIRST_ARCH:
        return ops, store
    computed = [s for s in walk(ops) if _touches(s, held, "write")]
    readers = [s for s in walk(store.body) if _touches(s, held, "read")]
    if len(computed) != 1 or any(s is not computed[0] for s in walk(ops) if _touches(s, held, "read")):
        return ops, store
    (one,) = computed
    if not isinstance(one, Compute) or not readers or not all(map(_rounds, readers)):
        return ops, store
    inner, bounds = _unbounded(one.expr)
    if not bounds:
        return ops, store

    def bounded(s: Compute) -> Compute:
        tree = s.expr
        for bound in reversed(bounds):
            tree = Binary(bound.op, tree, Constant(_value(bound.y), tree.dtype))
        return attrs.evolve(s, expr=tree)

    changed = rewrite(store.body, lambda s: bounded(s) if isinstance(s, Compute) and s in readers else s)
    left = () if isinstance(inner, Arg) else rewrite(ops, lambda s: attrs.evolve(one, expr=inner) if s is one else s)
    return left, attrs.evolve(store, body=changed)


def _touches(statement: Statement, held: Buffer, way: str) -> bool:
    if not isinstance(statement, Call | Compute | Micro | Sync):
        return False
    return any(w == way and view.buffer.name == held.name for view, w in reads_and_writes(statement))


def _rounds(statement: Statement) -> bool:
    """Say whether a statement only rounds one element to a 16-bit float in registers."""
    return (
        isinstance(statement, Compute)
        and isinstance(statement.expr, Cast)
        and isinstance(statement.expr.x, Arg)
        and statement.expr.x.dtype.kind == "float"
        and statement.expr.dtype in PAIRED
        and statement.dst.buffer.memory.registers
    )


def _unbounded(tree: Scalar) -> tuple[Scalar, list[Binary]]:
    """Remove the outermost bounds of an expression; return them, the last one first."""
    bounds: list[Binary] = []
    while isinstance(tree, Binary) and tree.op in ("max", "min") and isinstance(tree.y, Constant):
        bounds.append(tree)
        tree = tree.x
    return tree, bounds


def _value(tree: Scalar) -> float | int:
    assert isinstance(tree, Constant)
    return tree.value
