"""Additions to memory by atomics: of the sums of all blocks to one place, and of values to elements with numbers."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, as_expr, as_int
from fireiron.algebra.scalar import Arg, Binary, number
from fireiron.atoms.table import every, matching
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import Call, Compute, View
from fireiron.kernel.lower.context import Body, Context, buffer_of
from fireiron.kernel.lower.folds.state import Open
from fireiron.kernel.lower.folds.workspace import Place
from fireiron.kernel.lower.registers import loop, move, temporary, vector
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Decomposition, Done, Own, Tile, Widest
from fireiron.language.levels import GL, RF, Thread


def added(name: str, dtype: DType, context: Context, link: Link | None) -> tuple[Decomposition, ...]:
    """Return the links of a Move that adds each thread's values to elements of memory, by the widest instruction.

    Raises:
        DecompositionError: `added-type` where no instruction adds elements of this type.
    """
    width = 0
    while matching("Add", (max(1, 2 * width),), (dtype, dtype), (RF, GL), Thread, context.arch):
        width = max(1, 2 * width)
    if not width:
        adding = (atom for atom in every() if atom.kind == "Add" and not atom.missing_on(context.arch))
        types = dict.fromkeys(str(atom.operands[1].dtype) for atom in adding)
        raise DecompositionError(
            "added-type",
            f"no instruction of sm_{context.arch} adds {dtype} to memory atomically",
            fix=f"let {name} be an array of one of {', '.join(types)}",
            link=link,
        )
    return Own(Thread), Tile(Widest(width * dtype.nbytes), unrolled=True), Done(None)


def adder(opened: Open, context: Context, link: Link | None) -> Atom:
    """Find the widest instruction that adds registers of a fold's state to global memory.

    Raises:
        DecompositionError: `parallel-atomics` where none does.
    """
    (storage, *_), fold = opened.storages, opened.fold
    if fold.combine == (Binary("add", Arg(0, storage.dtype), Arg(1, storage.dtype)),):
        for count in (4, 2, 1):
            found = matching("Add", (count,), (storage.dtype, storage.dtype), (RF, GL), Thread, context.arch)
            if found and (as_int(storage.size) or 1) % count == 0:
                return found[0]
    raise DecompositionError(
        "parallel-atomics",
        f"{opened.step.name} folds by {fold.name} in {storage.dtype}, and no atomic does that",
        fix="drop reduce=by_atomics()",
        link=link,
    )


def handed_in(place: Place, context: Context) -> Body:
    """Add this block's state to the workspace."""
    (storage, *_), wide = place.opened.storages, place.width
    atom = adder(place.opened, context, place.opened.link)

    def one(v: Expr) -> Body:
        views = (vector(buffer_of(storage), v * wide, wide), vector(place.sums[0], place.at(place.way, v), wide))
        return (Call(atom, views, link=place.opened.link),)

    return place.written(place.each_vector(context, one))


def took(place: Place, context: Context) -> Body:
    """Read the sum of all blocks, and write zeros for the next launch."""
    (storage, *_), wide, link = place.opened.storages, place.width, place.opened.link
    zeros = temporary("zeros", storage.dtype, wide, context)

    def there(v: Expr) -> View:
        return vector(place.sums[0], place.at(place.way, v), wide)

    def get(v: Expr) -> Body:
        return (
            Call(move(GL, RF, storage.dtype, wide), (there(v), vector(buffer_of(storage), v * wide, wide)), link=link),
        )

    def clear(v: Expr) -> Body:
        return (Call(move(RF, GL, storage.dtype, wide), (vector(zeros, as_expr(0), wide), there(v)), link=link),)

    cleared = loop(context, "e", wide, lambda e: (Compute(View(zeros, e), number(0, storage.dtype)),))
    return (*place.each_vector(context, get), *cleared, *place.written(place.each_vector(context, clear)))
