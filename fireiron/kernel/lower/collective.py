"""Collective Moves: a whole warp moves a tile between memory and a fragment, or between fragments, at once."""

from __future__ import annotations

from math import prod

import attrs

from fireiron.algebra.expr import Expr, as_expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Cast
from fireiron.atoms.table import chosen_from
from fireiron.base.errors import DecompositionError, FireironError
from fireiron.kernel.ir.statements import Binding, Buffer, Call, Compute, For, Statement, View
from fireiron.kernel.lower.choose import require_converged
from fireiron.kernel.lower.context import Context, State, memory_view
from fireiron.kernel.lower.fragment import along_axes, at, digits_of, fragment_view, leaves_of, parts_of
from fireiron.kernel.lower.prolog import transform
from fireiron.kernel.lower.window import Window
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import RF, Thread

ROLES = ("src", "dst")
VECTOR_NBYTES = 16
DISAGREE = ("ownership-conflict", "fragment-order")
MOST_REASONS = 4


def lower_collective(chosen: Atom | str | None, state: State, context: Context) -> tuple[Statement, ...]:
    """Lower a warp's Move by the first atom that matches both sides: memory on one, registers on the other.

    Raises:
        DecompositionError: `no-atom`, with the nearest candidates and the facts that differ; `fragment-agreement` where
            only the fragment differs from the one that a later atom needs; `opaque-fragment`.
    """
    # Reasons, by the number of facts that the atom matched.
    why: list[tuple[int, str]] = []
    disagreement: FireironError | None = None
    for atom in _candidates(chosen, state):
        unfit = _unfit(atom, state, context)
        if unfit is not None:
            why.append(unfit)
            continue
        views: dict[str, View] = {}
        bindings: tuple[Binding, ...] = ()
        window = state.windows["dst"]
        try:
            for role in sorted(ROLES, key=lambda r: _asked(state.windows[r])):
                operand, window = atom.operand(role), state.windows[role]
                if operand.memory.registers:
                    views[role] = fragment_view(operand, window, state, context, atom.name)
                else:
                    views[role], bindings = _rows(operand, window, state)
        except FireironError as error:
            why.append((4, f"{atom.name}: {error.message}"))
            if error.code in DISAGREE and disagreement is None:
                disagreement = _disagreement(atom, window, error)
            continue
        require_converged(atom, state, context)
        body, views["src"] = _converted(views["src"], state, context)
        call = Call(atom, (views["src"], views["dst"]), link=state.link, bindings=bindings)
        return (*body, call, *_computed(atom.operand("dst"), views["dst"], state, context))
    if disagreement is not None:
        raise disagreement
    most = max((stage for stage, _ in why), default=0)
    reasons = list(dict.fromkeys(text for stage, text in why if stage == most))[:MOST_REASONS]
    raise DecompositionError(
        "no-atom",
        f"no atom of a {state.level} executes {state.residual}: "
        f"{'; '.join(reasons) or 'none moves between these memories'}",
        fix="tile to the atom's shape, or load by conform(), which moves each thread's own elements",
    )


def _computed(operand: Operand, target: View, state: State, context: Context) -> tuple[Statement, ...]:
    """Apply a prolog's ops to a fragment in place."""
    if state.ops is None:
        return ()
    storage = state.windows["dst"].storage
    assert state.position is not None and storage.ownership is not None
    storage.ownership.agree("", storage.name, "a prolog")
    rows = operand.shape[0]
    lanes = parts_of(operand.layout[0], rows, digits_of(operand.layout[0], state.position))
    axes = state.windows["dst"].axes

    def local(register: Expr) -> tuple[Expr, ...]:
        held = parts_of(operand.layout[1], rows, digits_of(operand.layout[1], register))
        row, column = (lane + one for lane, one in zip(lanes, held, strict=True))
        places = dict(along_axes(axes, row, column))
        return tuple(places.get(i, as_expr(0)) for i in range(len(axes)))

    def element(register: Expr) -> View:
        return attrs.evolve(target, offset=target.offset + register, layout=Layout(1, 0))

    return transform(operand.registers, element, element, local, state, context)


def _candidates(chosen: Atom | str | None, state: State) -> list[Atom]:
    """List the Move atoms of a unit; for an opaque fragment only opaque atoms, for a known fragment only the others.

    Raises:
        DecompositionError: `opaque-fragment` where none is of that kind.
    """
    found = [atom for atom in chosen_from(chosen) if atom.kind == "Move" and atom.unit == state.level]
    for role in ROLES:
        ownership = state.windows[role].storage.ownership
        if ownership is None or not found:
            continue
        sides = [(atom, atom.operand(role)) for atom in found if atom.operand(role).memory.registers]
        alike = [atom for atom, side in sides if bool(side.opaque) == bool(ownership.opaque)]
        if sides and not alike:
            atom, side = sides[0]
            ownership.agree(side.opaque, state.windows[role].storage.name, atom.name)
        found = alike
    return found


def _asked(window: Window) -> int:
    """Return a sort key of a Move's side: a side without ownership is checked last, since the atom may define it."""
    return 2 * (window.storage.memory.registers and window.storage.ownership is None) + window.storage.memory.registers


def _unfit(atom: Atom, state: State, context: Context) -> tuple[int, str] | None:
    """Return the first fact of an atom that differs from the Move, and the number of facts that match before it."""
    *rows, columns = (size for _, size in state.residual.sizes)
    shape = (prod(n if isinstance(n, int) else 0 for n in rows), columns)
    sides = [(atom.operand(role), state.windows[role].storage) for role in ROLES]
    if any(
        o.memory.registers != s.memory.registers or not (o.memory.registers or o.memory == s.memory) for o, s in sides
    ):
        return 0, f"{atom.name} moves {sides[0][0].memory} to {sides[1][0].memory}"
    operand = next((o for o, _ in sides if not o.memory.registers), sides[0][0])
    bits = atom.nbytes * 8 // operand.registers
    # A fragment on its way to memory is converted in registers, unless it is opaque.
    converted = sides[0][0].memory.registers and not sides[1][0].memory.registers and not sides[0][0].opaque
    for _, storage in sides[converted:]:
        if storage.dtype.bits != bits:
            family, have = atom.name.split(".")[0], storage.dtype.bits
            return 1, f"{family} moves elements of {bits} bits, and those of {storage.name} have {have}"
    if operand.shape != shape:
        return 2, f"{atom.name} moves {operand.shape[0]}x{operand.shape[1]} elements of {bits} bits"
    kinds = {storage.dtype for _, storage in sides[converted:]}
    if len(kinds) > 1 or any(o.dtype not in (None, s.dtype) for o, s in sides):
        return 2, f"{atom.name} moves {operand.dtype or 'elements of one type'} and converts nothing"
    if missing := atom.missing_on(context.arch):
        return 3, f"{atom.name} {missing}"
    return None


def _converted(source: View, state: State, context: Context) -> tuple[tuple[Statement, ...], View]:
    """Convert a thread's part of a fragment to the destination's element type, in registers."""
    have, kind = state.windows["src"].storage.dtype, state.windows["dst"].storage.dtype
    count = source.layout.size
    if have == kind:
        return (), source
    assert isinstance(count, int)
    name = context.name(f"{state.windows['dst'].storage.name}_packed")
    buffer = Buffer(name, RF, kind, as_expr(count), unit=Thread)
    context.temporaries.append(buffer)
    e = context.variable("e", count)
    one = attrs.evolve(source, offset=source.offset + source.layout(e), layout=Layout(1, 0))
    cast = Compute(View(buffer, e), Cast(Arg(0, have), kind), (one,), link=state.link)
    return (For(e, as_expr(count), (cast,), unroll=True),), View(buffer, as_expr(0), Layout(count, 1))


def _disagreement(atom: Atom, window: Window, error: FireironError) -> DecompositionError:
    """Name the two atoms of a fragment that distribute its elements differently."""
    storage = window.storage
    assert storage.ownership is not None
    return DecompositionError(
        "fragment-agreement",
        f"{atom.name} and {storage.ownership.owner} do not agree about {storage.name}: {error.message}",
        fix="load by conform(), which always agrees; by the .trans form; or through movmatrix()",
        other=storage.ownership.link,
    )


def _rows(operand: Operand, window: Window, state: State) -> tuple[View, tuple[Binding, ...]]:
    """Return the view of the row in memory whose address each lane gives, and bindings for atoms with a pitch.

    Raises:
        DecompositionError: `row-order`, `vector-alignment`, `irregular-steps`.
    """
    assert state.position is not None
    storage, rows, count = window.storage, operand.shape[0], operand.registers
    local = parts_of(operand.layout[0], rows, digits_of(operand.layout[0], state.position))
    ((_, stride),) = leaves_of(operand.layout[1])
    axes = list(window.axes)
    run = len(axes) - (2 if stride < rows else 1)
    together = [axis.dim for axis in axes[:-1] if axis.size != 1]
    if len(together) > 1 and (operand.pitch or run < len(axes) - 1):
        raise DecompositionError("row-order", f"its rows are {' and '.join(together)} together", fix="")
    for i, shift in along_axes(axes, *local):
        steps = window.steps_along(i)
        if i == run and (steps is None or steps.leaves[0][1] != 1 or axes[i].steps is not None):
            raise DecompositionError(
                "row-order", f"its rows run along {axes[i].dim}, along which {storage.name} is not contiguous", fix=""
            )
        if axes[i].bounds:
            raise DecompositionError("row-order", f"a bound cuts its rows along {axes[i].dim}", fix="")
        axes[i] = at(axes[i], shift)
    axes[run] = attrs.evolve(axes[run], size=count)
    place = attrs.evolve(window, axes=tuple(axes))
    vector = min(count, storage.dtype.count_in(VECTOR_NBYTES))
    for e in (place.linear(), place.base()):
        _aligned(e, vector, storage.name, storage.dtype.nbytes_of(vector))
    bindings = _pitched(operand, window, len(axes) - 2 if run == len(axes) - 1 else len(axes) - 1)
    return attrs.evolve(memory_view(place), layout=Layout(count, 1)), bindings


def _pitched(operand: Operand, window: Window, across: int) -> tuple[Binding, ...]:
    """Return a tile's first element and the distance of its rows, for instructions that take these two."""
    if not operand.pitch:
        return ()
    storage, kind = window.storage, window.storage.dtype
    steps = window.steps_along(across)
    if storage.swizzle is not None:
        raise DecompositionError("row-order", f"{storage.swizzle} breaks up the tile's rows in {storage.name}", fix="")
    if steps is None or len(steps.leaves) != 1 or window.axes[across].steps is not None:
        raise DecompositionError(
            "row-order", f"its rows have no constant distance along {window.axes[across].dim} of {storage.name}", fix=""
        )
    tile, pitch = window.base() + window.linear(), as_expr(steps.leaves[0][1])
    _aligned(tile, kind.count_in(operand.align), storage.name, operand.align)
    _aligned(pitch, kind.count_in(operand.pitch), storage.name, operand.pitch)
    return Binding("tile", tile // kind.pack), Binding("pitch", pitch)  # an address in bytes of packed elements


def _aligned(e: Expr, count: int, name: str, nbytes: int) -> None:
    if count and e.divisor % count:
        raise DecompositionError(
            "vector-alignment", f"rows of {name} do not start at multiples of {nbytes} bytes", fix=""
        )
