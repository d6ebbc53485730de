"""Online folds: folds that depend on each other share one loop; a sum is rescaled when a fold that it needs changes.

Let R1 fold a dim to m, and let R2 fold f(x, m) over the same dim. Where f(x, m) = g(x) * h(m), a sum that was computed
with the old m is multiplied by h(m') / h(m), which gives the sum for the new value m'. For a max or min, f = g(x) +
h(m), and the difference h(m') - h(m) is added. The factors are found on expression trees: exp(a - m) = exp(a) *
exp(-m), products and quotients of such, and sums whose terms share one factor. Before the first point the factor is 0.

A factor of a sum that needs a finished fold, and no point of the dim, is applied after the loop. Example: attention
divides its product with the values by the sum of exponentials once, after the loop.

Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; here, the corrections are derived from
    the expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Scalar,
    Select,
    Unary,
    as_type,
    parts,
    renumbered,
    substituted,
)
from fireiron.algebra.simplify import simplify
from fireiron.base.errors import DecompositionError
from fireiron.language.decompositions import Decomposition, Split
from fireiron.language.levels import RF
from fireiron.language.steps import Program, Ref, Step, dense, dims_in, number_in, used
from fireiron.language.words import scalar_in_words

EXPONENTIALS = ("exp", "exp2")


@attrs.frozen
class Factor:
    """Describe the correction of a state when the value of another fold changes.

    Args:
        tree: an expression of the old value, `Arg(0)`, and the new one, `Arg(1)`.
        adds: whether the correction is added (to a max or min); else the state is multiplied by it.
    """

    tree: Scalar
    adds: bool = False


@attrs.frozen
class Law:
    """Hold how the folds of one loop depend on each other.

    Args:
        dim: the dim that the loop cuts.
        factors: for each fold whose value other folds need in the loop, the corrections of their states.
        corrected: for each fold that needs values of other folds, the corrections of the fold's state: pairs of the
            fold that causes the correction and the correction's index in that fold's `factors`.
        slack: sums are corrected once a factor falls below 2^-slack; 0: whenever the value changes.
        speculative: whether the fold that causes corrections is computed only for chunks whose sums exceed the slack.
    """

    dim: str
    factors: Mapping[str, tuple[Factor, ...]]
    corrected: Mapping[str, tuple[tuple[str, int], ...]]
    slack: float = 0.0
    speculative: bool = False


def online(program: Program, dim: str) -> tuple[Program, Law]:
    """Prepare a program for one loop over a dim: move factors out of its sums, and find how its folds depend.

    Raises:
        DecompositionError: `online-law` where a fold's expression f(x, m) does not split into g(x) * h(m).
    """
    scan = next((s for s in program.steps if s.running and _folds(s, dim)), None)
    if scan is not None:
        raise DecompositionError(
            "online-law",
            f"step {scan.name} keeps running results along {dim}, which no later value corrects",
            fix=f"leave .online() out: a plain loop over {dim} carries running results",
        )
    program = _factored(program, dim)
    folds = [s for s in program.steps if _folds(s, dim)]
    makers = {out.name: s for s in program.steps for out in s.outs}
    factors: dict[str, tuple[Factor, ...]] = {}
    corrected: dict[str, tuple[tuple[str, int], ...]] = {}
    for step in folds:
        tree, reads = spelled(step, makers)
        for number, ref in enumerate(reads):
            lead = makers.get(ref.name)
            if lead is None or lead not in folds:
                continue
            found = _correction(step, lead, number, tree, reads, dim)
            known = factors.get(lead.name, ())
            if found not in known:
                known = (*known, found)
            factors[lead.name] = known
            corrected[step.name] = (*corrected.get(step.name, ()), (lead.name, known.index(found)))
    return program, Law(dim, factors, corrected)


def as_lowered(program: Program, links: Sequence[Decomposition]) -> Program:
    """Return the program that a chain's kernel computes: online loops have factors moved out of their sums."""
    for link in links:
        if isinstance(link, Split) and link.online:
            program = online(program, link.dim)[0]
    return program


def _folds(step: Step, dim: str) -> bool:
    return any(d.name == dim for d in step.over)


def spelled(step: Step, makers: Mapping[str, Step]) -> tuple[Scalar, tuple[Ref, ...]]:
    """Write a step's expression in terms of inputs and results of folds; pointwise steps are substituted."""
    reads: list[Ref] = []

    def put_in(body: Scalar, refs: Sequence[Ref]) -> Scalar:
        trees: list[Scalar] = []
        for ref in refs:
            maker = makers.get(ref.name)
            if maker is not None and maker.fold is None and maker.outs[0].index == ref.index:
                trees.append(put_in(maker.body, maker.reads))
            else:
                trees.append(Arg(number_in(reads, ref), ref.dtype))
        return substituted(body, trees)

    return put_in(step.body, step.reads), tuple(reads)


def _correction(step: Step, lead: Step, number: int, tree: Scalar, reads: tuple[Ref, ...], dim: str) -> Factor:
    """Find the factor that corrects a fold's state when the value of the fold `lead` changes."""
    assert step.fold is not None and lead.fold is not None
    names = [str(ref) for ref in reads]

    def refused(part: Scalar, why: str) -> DecompositionError:
        return DecompositionError(
            "online-law",
            f"step {step.name} needs {lead.name} in one loop, and {scalar_in_words(part, names)} {why}",
            fix=f"split({dim}=...) without online(): {lead.name} is then finished before {step.name} begins",
        )

    if lead.fold.plain is None:
        raise refused(Arg(number, reads[number].dtype), f"is no plain value: {lead.fold.name} has a state of several")
    if step.fold.name not in ("add", "max", "min"):
        raise refused(Arg(number, reads[number].dtype), f"cannot be taken out of {step.fold.name}")
    law = _Factoring(number, refused)
    adds = step.fold.name != "add"
    moving = law.sum_of(tree)[1] if adds else law.product_of(tree)[1]
    old, new = Arg(0, lead.outs[0].dtype), Arg(1, lead.outs[0].dtype)
    if adds:
        return Factor(simplify(_difference(moving, number, old, new)), adds=True)
    return Factor(simplify(_quotient(moving, number, old, new, refused)))


Refused: TypeAlias = Callable[[Scalar, str], DecompositionError]


@attrs.frozen
class _Factoring:
    """Split expressions f(x, m) into g(x) and h(m), for one argument m.

    Args:
        number: the number of the argument m.
        refused: a function that makes the error for an expression that does not split.
    """

    number: int
    refused: Refused

    def _lacks(self, tree: Scalar) -> bool:
        return not any(isinstance(x, Arg) and x.index == self.number for x in parts(tree))

    def _alone(self, tree: Scalar) -> bool:
        return all(x.index == self.number if isinstance(x, Arg) else not isinstance(x, Coordinate) for x in parts(tree))

    def product_of(self, tree: Scalar) -> tuple[Scalar, Scalar]:
        """Write an expression as g * h, where h reads only the argument.

        Raises:
            DecompositionError: `online-law`.
        """
        one = Constant(1.0, tree.dtype)
        if self._lacks(tree):
            return tree, one
        match tree:
            case Binary("mul" | "div" as op, x, y):
                (gx, hx), (gy, hy) = self.product_of(x), self.product_of(y)
                return simplify(Binary(op, gx, gy)), simplify(Binary(op, *_widened(hx, hy)))
            case Unary("neg", x):
                g, h = self.product_of(x)
                return Unary("neg", g), h
            case Unary(op, x) if op in EXPONENTIALS:
                g, h = self.sum_of(x)
                return Unary(op, g), Unary(op, h)
            case Cast(x, dtype) if dtype.kind == "float" and x.dtype.kind == "float":
                g, h = self.product_of(x)  # floats round g * h with the same relative error
                return Cast(g, dtype), h
            case _ if self._alone(tree):
                return one, tree
            case Binary("add" | "sub" as op, x, y):
                (gx, hx), (gy, hy) = self.product_of(x), self.product_of(y)
                if hx != hy:
                    raise self.refused(tree, "has terms of different factors")
                return Binary(op, gx, gy), hx
            case Select(condition, x, y) if self._lacks(condition):
                zero = next((z for z in (x, y) if isinstance(z, Constant) and z.value == 0), None)
                (gx, hx), (gy, hy) = self.product_of(x), self.product_of(y)
                if zero is not None:
                    return Select(condition, gx, gy), hy if zero is x else hx
                if hx != hy:
                    raise self.refused(tree, "has alternatives of different factors")
                return Select(condition, gx, gy), hx
            case _:
                raise self.refused(tree, "has no factor of it")

    def sum_of(self, tree: Scalar) -> tuple[Scalar, Scalar]:
        """Write an expression as g + h, where h reads only the argument.

        Raises:
            DecompositionError: `online-law`.
        """
        zero = Constant(0.0, tree.dtype)
        if self._lacks(tree):
            return tree, zero
        match tree:
            case Binary("add" | "sub" as op, x, y):
                (gx, hx), (gy, hy) = self.sum_of(x), self.sum_of(y)
                return _summed(op, gx, gy), _summed(op, hx, hy)
            case Unary("neg", x):
                g, h = self.sum_of(x)
                return Unary("neg", g), Unary("neg", h)
            case Binary("mul" | "div" as op, x, y) if self._lacks(y) and self._alone(y):
                g, h = self.sum_of(x)
                return Binary(op, g, y), Binary(op, h, y)
            case Binary("mul", x, y) if self._lacks(x) and self._alone(x):
                g, h = self.sum_of(y)
                return Binary("mul", x, g), Binary("mul", x, h)
            case _ if self._alone(tree):
                return zero, tree
            case Unary("log", x):
                g, h = self.product_of(x)
                return Unary("log", g), Unary("log", h)
            case Cast(x, dtype) if dtype.kind == "float" and x.dtype.kind == "float" and dtype.bits >= x.dtype.bits:
                g, h = self.sum_of(x)
                return Cast(g, dtype), Cast(h, dtype)
            case Select(condition, x, y) if self._lacks(condition):
                (gx, hx), (gy, hy) = self.sum_of(x), self.sum_of(y)
                if hx != hy:
                    raise self.refused(tree, "has alternatives of different terms")
                return Select(condition, gx, gy), hx
            case _:
                raise self.refused(tree, "has no term of it")


def _widened(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Convert two expressions to the wider of their types."""
    if x.dtype.bits < y.dtype.bits:
        return Cast(x, y.dtype), y
    return x, as_type(y, x.dtype)


def _summed(op: str, x: Scalar, y: Scalar) -> Scalar:
    """Add or subtract two terms; a constant 0 is left out."""
    if isinstance(y, Constant) and y.value == 0:
        return x
    if isinstance(x, Constant) and x.value == 0:
        return y if op == "add" else Unary("neg", y)
    return Binary("add" if op == "add" else "sub", x, y)


def _at(tree: Scalar, number: int, value: Scalar) -> Scalar:
    most = max((x.index for x in parts(tree) if isinstance(x, Arg)), default=number)
    return substituted(tree, [value] * (most + 1))


def _difference(tree: Scalar, number: int, old: Scalar, new: Scalar) -> Scalar:
    """Write tree(new) - tree(old) with few operations. Example: (new - old) * 2 for m * 2."""
    match tree:
        case Arg():
            return Binary("sub", new, old)
        case Unary("neg", x):
            return _difference(x, number, new, old)
        case Cast(x, dtype):
            return Cast(_difference(x, number, old, new), dtype)
        case Binary("add" | "sub", x, Constant()):
            return _difference(x, number, old, new)
        case Binary("add", Constant(), y):
            return _difference(y, number, old, new)
        case Binary("sub", Constant(), y):
            return _difference(y, number, new, old)
        case Binary("mul" | "div" as op, x, Constant() as y):
            return Binary(op, _difference(x, number, old, new), y)
        case Binary("mul", Constant() as x, y):
            return Binary("mul", x, _difference(y, number, old, new))
        case _:
            return Binary("sub", _at(tree, number, new), _at(tree, number, old))


def _quotient(tree: Scalar, number: int, old: Scalar, new: Scalar, refused: Refused) -> Scalar:
    """Write tree(new) / tree(old). The tree must be a product of exponentials, which are never 0.

    A sum that was computed with a factor 0 has lost its terms, so no factor could correct it.

    Raises:
        DecompositionError: `online-law`.
    """
    match tree:
        case Unary(op, x) if op in EXPONENTIALS:
            return Unary(op, _difference(x, number, old, new))
        case Cast(x, dtype):
            return Cast(_quotient(x, number, old, new, refused), dtype)
        case Unary("neg", x):
            return _quotient(x, number, old, new, refused)
        case Binary("mul", x, y):
            return _times(_quotient(x, number, old, new, refused), _quotient(y, number, old, new, refused))
        case Binary("div", x, y):
            return _times(_quotient(x, number, old, new, refused), _quotient(y, number, new, old, refused))
        case Constant(dtype=dtype):
            return Constant(1.0, dtype)
        case _:
            raise refused(tree, "may be 0")


def _times(x: Scalar, y: Scalar) -> Scalar:
    return simplify(Binary("mul", *_widened(x, y)))


def _factored(program: Program, dim: str) -> Program:
    """Move factors that need a finished fold over a dim, and no point of that dim, out of the sums over the dim."""
    steps: list[Step] = []
    makers = {out.name: s for s in program.steps for out in s.outs}
    late, outputs = _late(program, dim), {t.name for t in program.outputs}
    names = {t.name for t in (*program.inputs, *program.outputs)} | {*makers} | {s.name for s in program.steps}
    for step in program.steps:
        if not _folds(step, dim) or step.fold is None or step.fold.name != "add":
            steps.append(step)
            continue
        readers = {ref.name: sum(ref.name in {r.name for r in s.reads} for s in program.steps) for ref in step.reads}
        mine = {name for name, count in readers.items() if count == 1 and name not in outputs}
        plain, reads, remade = _with_products(step, makers, late, mine)
        when = step.where
        if when is not None:  # the condition's reads follow the sum's
            when = renumbered(when, {i: len(reads) + i for i in range(len(step.reads))})
            reads = (*reads, *step.reads)

        def free(tree: Scalar, reads: tuple[Ref, ...] = reads, over: tuple[str, ...] = tuple(
            d.name for d in step.over)) -> bool:  # fmt: skip
            read = [reads[x.index] for x in parts(tree) if isinstance(x, Arg)]
            return any(ref.name in late for ref in read) and not any(d.name in over for d in dims_in(tree, reads))

        rest, taken = _taken(plain, free)
        if taken is None:
            steps.append(step)
            continue
        steps = [remade.get(s.name, s) for s in steps]
        (out,) = step.outs
        name = _fresh(f"{step.name}_sum", names)
        temp = dense(name, out.shape, step.fold.dtypes[0], RF)
        held = Ref(temp.name, temp.shape, temp.dtype, temp.strides, RF, out.index)
        stays = Constant(1.0, step.body.dtype) if rest is None else simplify(rest)
        (inner, *condition), kept = used((stays, *(() if when is None else (when,))), reads)
        when = condition[0] if condition else None
        steps.append(attrs.evolve(step, outs=(held,), body=inner, reads=kept, where=when))
        (body,), wanted = used((taken,), reads, first=held)
        value = Binary("mul", Arg(0, held.dtype), as_type(body, held.dtype))
        value = simplify(value)
        value = as_type(value, out.dtype)
        steps.append(Step(_fresh(f"{step.name}_scaled", names), (out,), wanted, value))
    return attrs.evolve(program, steps=tuple(steps))


def _fresh(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _late(program: Program, dim: str) -> set[str]:
    """Return the names of the results that need a finished fold over a dim."""
    found: set[str] = set()
    for step in program.steps:
        if _folds(step, dim) or any(ref.name in found for ref in step.reads):
            found |= {out.name for out in step.outs}
    return found


def _with_products(
    step: Step, makers: Mapping[str, Step], late: set[str], mine: set[str]
) -> tuple[Scalar, tuple[Ref, ...], dict[str, Step]]:
    """Substitute pointwise steps into a sum that reads them, where they have factors that need a finished fold.

    A step that only the sum reads keeps its name and loses the factor; other steps' expressions are substituted.

    Args:
        step: the sum.
        makers: the step of each result.
        late: results that need a finished fold.
        mine: results that only this sum reads.

    Returns:
        The sum's expression, what it reads, and the steps that lose a factor.
    """
    reads: list[Ref] = []
    remade: dict[str, Step] = {}

    def spelled(body: Scalar, refs: Sequence[Ref]) -> Scalar:
        trees: list[Scalar] = []
        for ref in refs:
            plain = Arg(number_in(reads, ref), ref.dtype)
            maker = makers.get(ref.name)
            if (
                maker is None or maker.fold is not None or maker.outs[0].index != ref.index
                or not _multiplies(maker.body)
                or not any(r.name in late and not set(r.dims) >= set(maker.kept) for r in maker.reads)
            ):  # fmt: skip
                trees.append(plain)
            elif ref.name not in mine:
                trees.append(spelled(maker.body, maker.reads))
            else:
                trees.append(without(plain, maker))
        return substituted(body, trees)

    def without(plain: Arg, maker: Step) -> Scalar:
        over = {d.name for d in step.over}

        def free(tree: Scalar) -> bool:
            named = {maker.reads[x.index].name for x in parts(tree) if isinstance(x, Arg)}
            return bool(named & late) and not over & {d.name for d in dims_in(tree, maker.reads)}

        rest, taken = _taken(maker.body, free)
        if rest is None or taken is None:
            return plain
        (body,), kept = used((simplify(rest),), maker.reads)
        remade[maker.name] = attrs.evolve(maker, body=body, reads=kept)
        factor = substituted(taken, [Arg(number_in(reads, ref), ref.dtype) for ref in maker.reads])
        product = Binary("mul", *_widened(plain, factor))
        return as_type(product, plain.dtype)

    return spelled(step.body, step.reads), tuple(reads), remade


def _multiplies(tree: Scalar) -> bool:
    while isinstance(tree, Cast):
        tree = tree.x
    return isinstance(tree, Binary) and tree.op in ("mul", "div")


def _taken(tree: Scalar, free: Callable[[Scalar], bool]) -> tuple[Scalar | None, Scalar | None]:
    """Split an expression into the factor that stays in a sum and the factor that leaves the sum; None for 1."""
    if free(tree):
        return None, tree
    match tree:
        case Binary("mul", x, y):
            (rx, tx), (ry, ty) = _taken(x, free), _taken(y, free)
            return _product(rx, ry), _product(tx, ty)
        case Binary("div", x, y):
            rx, tx = _taken(x, free)
            ry, ty = _taken(y, free)
            one = Constant(1.0, tree.dtype)
            rest = rx if ry is None else Binary("div", one if rx is None else rx, ry)
            return rest, tx if ty is None else Binary("div", one if tx is None else tx, ty)
        case Unary("neg", x):
            rest, taken = _taken(x, free)
            return Unary("neg", Constant(1.0, tree.dtype) if rest is None else rest), taken
        case Cast(x, dtype) if dtype.kind == "float" and x.dtype.kind == "float":
            rest, taken = _taken(x, free)
            if taken is None:
                return tree, None
            wide = taken if taken.dtype.bits >= dtype.bits else Cast(taken, dtype)
            return None if rest is None else Cast(rest, dtype), wide
        case _:
            return tree, None


def _product(x: Scalar | None, y: Scalar | None) -> Scalar | None:
    if x is None or y is None:
        return x if y is None else y
    return Binary("mul", *_widened(x, y))
