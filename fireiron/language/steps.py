"""The model of every computation: a program is a list of steps, and a step folds an expression over some dims.

For every point of its outputs' dims, a step computes `fold over dims of body(reads)`. Example: C[m, n] = add over k of
A[m, k] * B[k, n]. A step without a fold is pointwise. A read or an output is a tensor with one index expression for
each of the tensor's dimensions (`Ref`).

Source: Fireiron and Graphene have one spec for each kind of computation; here a MatMul, a Move, a reduction and a
pointwise operation are all a `Step`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Compare, Element, Expr, Index, Logic, Var, as_expr, free, operands, simplest
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    BinaryOp,
    Cast,
    Constant,
    Coordinate,
    Scalar,
    Select,
    Unary,
    children,
    exactly,
    parts,
    renumbered,
)
from fireiron.base.errors import SpecError
from fireiron.language.levels import Memory
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.language.programs import Layer

COMPENSATED = "compensated add"  # the fold that `compensated_add_of` gives

# A dim of a program: a name, and an extent that is an int or a symbol.
Dim: TypeAlias = Var


class Stated:
    """Give every spec the properties that only some kinds of specs have, so that rules do not test the kind.

    Args:
        product: the term that is summed over K: `mul`, or for bits `xor` or `and`.
        swapped: whether A and B are the caller's second and first operand, transposed.
        groups: the tensor with the end row of each group of a grouped product, None without groups.
        layers: the layers, each of which reads the result of the one before; () for other specs.
        inplace: outputs that lie in the memory of an input.
        given: the caller's arrays, in their original shapes, whose dimensions were fused in the steps.
    """

    __slots__ = ()
    product: Literal["mul", "xor", "and"] = "mul"
    swapped: bool = False
    groups: Tensor | None = None
    layers: tuple[Layer, ...] = ()
    inplace: tuple[tuple[str, str], ...] = ()
    given: tuple[Tensor, ...] = ()

    @property
    def ragged(self) -> str | None:
        """Return the name of the dimension whose extent differs from group to group."""
        return None if self.groups is None else "N" if self.swapped else "M"

    @property
    def accumulator(self) -> DType | None:
        """Return the element type in which products are summed; None without products, or where steps state it."""
        return None

    @property
    def phases(self) -> tuple[tuple[tuple[Tensor, Tensor, str], ...], ...]:
        """Group several products by the loops over K that compute them; a product is a triple of A, B, accumulator."""
        return ()


@attrs.frozen(eq=False, repr=False)
class Ragged(Var):
    """A dim that is cut into groups of different sizes, such as the rows of a grouped product.

    Points ends[g-1] to ends[g] - 1 belong to group g (ends[-1] is 0 here). A group whose end is not above its start has
    no points; steps skip points after the last end.

    Args:
        of: the dim of groups. At a point of group g, a step reads at g along this dim.
        ends: a vector of integers, one for each group.
    """

    of: Var = attrs.field(kw_only=True)
    ends: Tensor = attrs.field(kw_only=True)

    def _key(self) -> Hashable:
        return (self.name, self.extent, self.of.name, self.ends.name)


@attrs.frozen(repr=False)
class Ref(Tensor):
    """Name one element of a tensor at a point of the dims. Example: x[n, 2 * p + r - 1].

    Args:
        index: one expression over dims for each dimension of the tensor.
        made: the step that computes the tensor, while a program is traced: it distinguishes two results of one name.
            None for a tensor of the caller, and in a finished program, where names are unique.
        outside: the value of a read whose index lies outside the tensor. Example: -inf for a maximum over windows.
    """

    index: tuple[Expr, ...] = ()
    made: Step | None = attrs.field(default=None, eq=id, repr=False)
    outside: float = attrs.field(default=0.0, eq=exactly)

    @property
    def tensor(self) -> Tensor:
        """Return the tensor without the index."""
        return Tensor(self.name, self.shape, self.dtype, self.strides, self.memory)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """List the dims that the index reads, each once, in the order of the tensor's dimensions."""
        return tuple(dict.fromkeys(d for e in self.index for d in _dims_in(e)))

    def __str__(self) -> str:
        from fireiron.algebra.index.python import to_python

        else_ = f" else {self.outside:g}" if self.outside else ""
        return f"{self.name}[{', '.join(map(to_python, self.index))}{else_}]"


def _dims_in(e: Expr) -> list[Dim]:
    return sorted((leaf for leaf in free(e) if isinstance(leaf, Var)), key=lambda d: d.name)


def used(
    trees: Sequence[Scalar], reads: tuple[Ref, ...], first: Ref | None = None
) -> tuple[tuple[Scalar, ...], tuple[Ref, ...]]:
    """Keep only the reads that expressions use, and put `first` before them; renumber the arguments."""
    kept: list[Ref] = [] if first is None else [first]
    numbers: dict[int, int] = {}
    for x in (x for tree in trees for x in parts(tree)):
        if isinstance(x, Arg) and x.index not in numbers:
            if reads[x.index] not in kept:
                kept.append(reads[x.index])
            numbers[x.index] = kept.index(reads[x.index])
    return tuple(renumbered(tree, numbers) for tree in trees), tuple(kept)


def number_in(reads: list[Ref], ref: Ref) -> int:
    """Return the number of a read in a list; a new read is appended."""
    if ref not in reads:
        reads.append(ref)
    return reads.index(ref)


def dims_in(tree: Scalar, reads: Sequence[Ref]) -> tuple[Dim, ...]:
    """List the dims that an expression of reads depends on, each once."""
    found: dict[Dim, None] = {}
    for part in parts(tree):
        if isinstance(part, Arg):
            found |= dict.fromkeys(reads[part.index].dims)
        elif isinstance(part, Coordinate):
            found |= dict.fromkeys(_dims_in(part.value))
    return tuple(found)


@attrs.frozen
class Ranking:
    """Say which points a fold keeps (topk): the `count` that rank first, by their values and their places.

    A point's value is the step's body, its place is its index along the one folded dim. The state's scalars are the
    kept points' values, the first in rank first, followed by their places. A state without points has the lowest value
    and the highest i32 as place.

    Args:
        count: how many points the fold keeps, a power of two.
        before: an expression that is not 0 where a point ranks before another: of the first point's value and place,
            followed by the other's. No two points of different places rank alike.
    """

    count: int
    before: Scalar


@attrs.frozen
class Several:
    """Say how a fold takes several points at once: it sorts them into a state, which `combine` adds to the fold's.

    A point's scalars, which are not constants in `lift`, take the places of the state's scalars i, count + i, ...

    Args:
        count: the number of points.
        stages: expressions of the points' scalars, applied in sequence; each stage gives all scalars.
    """

    count: int
    stages: tuple[tuple[Scalar, ...], ...]


@attrs.frozen
class Fold:
    """Describe a fold as a monoid: the state of a few scalars, and the expressions that update it.

    Args:
        name: `add`, `max`, ...
        dtypes: the state's element types.
        identity: the state without points.
        lift: the state of one point: expressions of the step's body (`Arg(0)`).
        combine: one state of two: expressions of the first state's scalars (`Arg(0)` ...), followed by the second
            state's.
        finish: the step's outputs, expressions of the state's scalars.
        insert: the state after one more point, expressions of the state's scalars followed by the step's body, where
            this is cheaper than lift and combine; else empty.
        settle: expressions of the whole state that follow each combine, applied in sequence; each gives all scalars.
        ranking: the points that the fold may skip; None where the fold needs all points.
        several: how it takes several points at once, where this is cheaper than one after another; else None.
    """

    name: str
    dtypes: tuple[DType, ...]
    identity: tuple[float, ...]
    lift: tuple[Scalar, ...]
    combine: tuple[Scalar, ...]
    finish: tuple[Scalar, ...]
    insert: tuple[Scalar, ...] = ()
    settle: tuple[tuple[Scalar, ...], ...] = ()
    ranking: Ranking | None = None
    several: Several | None = None

    @property
    def plain(self) -> BinaryOp | None:
        """Return the operation (`add`) of a fold that combines one scalar by one operation; None for other folds."""
        match self.lift, self.combine, self.finish:
            case (Arg(0),), (Binary(op, Arg(0), Arg(1)),), (Arg(0),):
                return op
            case _:
                return None


def simple_fold(name: str, op: BinaryOp, dtype: DType, identity: float) -> Fold:
    """Make the fold whose state is one scalar, combined by one operation.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> simple_fold("add", "add", f32, 0.0).plain
        'add'
    """
    x, y = Arg(0, dtype), Arg(1, dtype)
    return Fold(name, (dtype,), (identity,), (x,), (Binary(op, x, y),), (x,))


def add_of(dtype: DType) -> Fold:
    """Return the fold that sums."""
    return simple_fold("add", "add", dtype, 0.0)


def compensated_add_of(dtype: DType) -> Fold:
    """Return the fold that sums, and sums the rounding errors beside the sum.

    Source: Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B; Neumaier, 1974.
    """
    first, lost, second, lost2 = (Arg(i, dtype) for i in range(4))
    total = Binary("add", first, second)
    taken = Binary("sub", total, first)  # the part of the second that the sum holds
    rest = Binary("add", Binary("sub", first, Binary("sub", total, taken)), Binary("sub", second, taken))
    both = Binary("add", Binary("add", lost, lost2), rest)
    nothing = Constant(0.0, dtype)
    end = Binary("add", first, lost)
    return Fold(COMPENSATED, (dtype, dtype), (0.0, 0.0), (Arg(0, dtype), nothing), (total, both), (end,))


def max_of(dtype: DType) -> Fold:
    """Return the fold that takes the largest value; without values, -inf or the type's lowest integer."""
    return simple_fold("max", "max", dtype, -float("inf") if dtype.kind == "float" else dtype.limits[0])


def min_of(dtype: DType) -> Fold:
    """Return the fold that takes the smallest value; without values, inf or the type's highest integer."""
    return simple_fold("min", "min", dtype, float("inf") if dtype.kind == "float" else dtype.limits[1])


def mul_of(dtype: DType) -> Fold:
    """Return the fold that multiplies."""
    return simple_fold("mul", "mul", dtype, 1.0)


def arg_of(dtype: DType, dim: Dim, op: BinaryOp) -> Fold:
    """Return the fold that finds the index of the largest (`max`) or smallest value along a dim; ties go to the first.

    The state is the value and the value's index; without points the index is the highest i32. A NaN wins over all
    numbers.
    """
    start = (max_of if op == "max" else min_of)(dtype).identity[0]
    mine, theirs = (Arg(0, dtype), Arg(1, i32)), (Arg(2, dtype), Arg(3, i32))
    better = _before(theirs, mine, op, ordered=True)
    return Fold(
        f"arg{op}",
        (dtype, i32),
        (start, float(i32.limits[1])),
        (Arg(0, dtype), Coordinate(dim)),
        tuple(Select(better, other, own) for own, other in zip(mine, theirs, strict=True)),
        (mine[1],),
    )


def top_of(dtype: DType, dim: Dim, k: int) -> Fold:
    """Return the fold that finds the k largest values along a dim and their indices, largest first.

    The state is the values, then their indices. Equal values keep their order; a NaN counts as the largest. With fewer
    points than k, the remaining results are the type's lowest value with the highest i32 as index.

    Args:
        dtype: element type of the values.
        dim: the dim to search along.
        k: a power of two.
    """
    nothing = max_of(dtype).identity[0], float(i32.limits[1])
    mine = [(Arg(i, dtype), Arg(k + i, i32)) for i in range(k)]
    theirs = [(Arg(2 * k + i, dtype), Arg(3 * k + i, i32)) for i in range(k)]
    # A bitonic merge: the larger of one's i-th and the other's i-th from the end are the k largest, falling, then
    # rising.
    merged = [larger(x, y) for x, y in zip(mine, reversed(theirs), strict=True)]
    stages: list[tuple[Scalar, ...]] = []
    step = k // 2
    while step:
        sorted_ = [larger(mine[i & ~step], mine[i | step], smaller=bool(i & step)) for i in range(k)]
        stages.append(tuple(x for x, _ in sorted_) + tuple(i for _, i in sorted_))
        step //= 2
    point: tuple[Scalar, Scalar] = Arg(2 * k, dtype), Coordinate(dim)
    behind = [_before(point, x) for x in mine]
    inserted = [
        tuple(
            Select(behind[i], p if i == 0 else Select(behind[i - 1], mine[i - 1][part], p), mine[i][part])
            for part, p in enumerate(point)
        )
        for i in range(k)
    ]
    ends = tuple(x for x, _ in mine) + tuple(i for _, i in mine)
    return Fold(
        "top",
        (dtype,) * k + (i32,) * k,
        (nothing[0],) * k + (nothing[1],) * k,
        (Arg(0, dtype), *(Constant(nothing[0], dtype) for _ in range(k - 1)), Coordinate(dim),
         *(Constant(int(nothing[1]), i32) for _ in range(k - 1))),
        tuple(x for x, _ in merged) + tuple(i for _, i in merged),
        ends,
        tuple(x for x, _ in inserted) + tuple(i for _, i in inserted),
        tuple(stages),
        Ranking(k, _before((Arg(0, dtype), Arg(1, i32)), (Arg(2, dtype), Arg(3, i32)), ordered=True)),
    )  # fmt: skip


def _before(x: tuple[Scalar, Scalar], y: tuple[Scalar, Scalar], op: BinaryOp = "max", ordered: bool = False) -> Scalar:
    """Say whether a value with its index ranks before another: larger (`min`: smaller), or equal with a lower index.

    A NaN ranks before all numbers, as in torch and NumPy.

    Args:
        x, y: values with their indices.
        op: `max` or `min`.
        ordered: whether of two NaNs the one with the lower index ranks before the other; False: neither does.
    """
    dtype = x[0].dtype
    ahead = Binary("lt", x[1], y[1])
    tie = Cast(ahead, dtype) if ahead.dtype != dtype else ahead
    high, low = (x[0], y[0]) if op == "max" else (y[0], x[0])
    same = Binary("eq", x[0], y[0])
    if dtype.kind == "int":
        return _either(Binary("lt", low, high), _both(same, tie))
    missing = _both(_not(Binary("eq", x[0], x[0])), _not(Binary("eq", y[0], y[0])))
    beyond = _both(_not(Binary("le", high, low)), Binary("eq", y[0], y[0]))
    return _either(beyond, _both(_either(same, missing) if ordered else same, tie))


def _both(a: Scalar, b: Scalar) -> Scalar:
    return Select(a, b, Constant(0, a.dtype))


def _either(a: Scalar, b: Scalar) -> Scalar:
    return Select(a, Constant(1, a.dtype), b)


def _not(a: Scalar) -> Scalar:
    return Binary("eq", a, Constant(0, a.dtype))


def larger(x: tuple[Scalar, Scalar], y: tuple[Scalar, Scalar], smaller: bool = False) -> tuple[Scalar, Scalar]:
    """Return one of two values with their indices: the one that ranks first, or the other one (`smaller`)."""
    first, (one, other) = _before(y, x), (x, y) if smaller else (y, x)
    return Select(first, one[0], other[0]), Select(first, one[1], other[1])


def _compares_elements(tree: Scalar) -> bool:
    """Say whether an index of a dim is on one side of `<` or `<=`, and elements are on the other."""
    places = (isinstance(x, Coordinate) and bool(free(x.value)) for x in children(tree))
    return isinstance(tree, Binary) and tree.op in ("lt", "le") and any(places)


@attrs.frozen
class Step:
    """Compute, for every point of the outputs' dims, `fold over dims of body(reads)`.

    Args:
        name: the name in chains.
        outs: the elements that the step writes, one for each of the fold's results.
        reads: the elements that the step reads; `Arg(i)` of the body is `reads[i]`.
        body: an expression of the reads.
        fold: None for a pointwise step.
        over: the dims that are folded.
        where: a condition, an expression of the reads: points where it is 0 are not folded. None: all points are
            folded.
        running: whether the output keeps the one folded dim: at each point, the output is the fold of all points up to
            this point (a cumulative sum).
    """

    name: str
    outs: tuple[Ref, ...]
    reads: tuple[Ref, ...]
    body: Scalar
    fold: Fold | None = None
    over: tuple[Dim, ...] = ()
    where: Scalar | None = None
    running: bool = False

    @property
    def kept(self) -> tuple[Dim, ...]:
        """List the dims of the outputs."""
        return tuple(dict.fromkeys(d for out in self.outs for d in out.dims))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """List all dims: those of the outputs, then those that are folded."""
        return (*self.kept, *(d for d in self.over if not self.running))

    @property
    def functions(self) -> frozenset[str]:
        """List the names of the functions of one value in the body, such as "exp" and "log"."""
        return frozenset(tree.op for tree in parts(self.body) if isinstance(tree, Unary))

    @property
    def comparisons(self) -> int:
        """Count the comparisons of indices in the condition."""
        trees = () if self.where is None else parts(self.where)
        compared, pending = 0, [tree.value for tree in trees if isinstance(tree, Coordinate)]
        while pending:
            e = pending.pop()
            compared += isinstance(e, Compare)
            pending.extend(operands(e))
        return compared

    @property
    def compares_indices(self) -> bool:
        """Say whether the condition or the body compares indices, with each other or with elements."""
        places = (x.value for x in self._parts() if isinstance(x, Coordinate))
        return self.compares_elements or any(isinstance(e, Compare | Logic) for e in places)

    @property
    def compares_elements(self) -> bool:
        """Say whether an index of a dim is on one side of a `<` or `<=`, and elements are on the other."""
        return any(_compares_elements(x) for x in self._parts())

    def _parts(self) -> Iterator[Scalar]:
        for tree in (self.body,) if self.where is None else (self.body, self.where):
            yield from parts(tree)

    @property
    def is_product(self) -> bool:
        """Say whether the step sums products of two reads that each lack a dim of the other: a matrix product."""
        return self.factors is not None

    @property
    def computes_factor(self) -> bool:
        """Say whether the first factor of a product is computed, and not simply an element that is read."""
        factor = None if self.factors is None else self.factors[0]
        while isinstance(factor, Cast):
            factor = factor.x
        return factor is not None and not isinstance(factor, Arg)

    @property
    def factors(self) -> tuple[Scalar, Scalar] | None:
        """Split the summed product into two factors that each lack a dim of the other (of bits: the sides of `xor`)."""
        if self.fold is None or self.fold.name != "add" or self.where is not None or self.running:
            return None
        match self.body:
            case Binary("mul", x, y) | Binary("sub", Constant(1), Binary("eq", x, y)):
                left, right = (set(dims_in(side, self.reads)) for side in (x, y))
                return None if left <= right or right <= left else (x, y)
            case _:
                return None

    def __str__(self) -> str:
        from fireiron.language.words import step_in_words

        return step_in_words(self)


@attrs.frozen
class For:
    """Repeat consecutive steps once for each point of a dim, in order (a recurrence).

    Args:
        dim: the dim that counts the trips; a tensor with this dim is read at the trip's number.
        steps: names of the repeated steps.
        carried: for each tensor that a trip passes to the next trip: its name, and the tensor that the first trip reads
            instead. Example: (("h", "x"),).
    """

    dim: Dim
    steps: tuple[str, ...]
    carried: tuple[tuple[str, str], ...]


@attrs.frozen
class Program(Stated):
    """Compute outputs from inputs by steps, one after another.

    Args:
        name: the name in kernels and trees.
        inputs: the caller's tensors, in the order of the call.
        steps: the steps, in execution order.
        outputs: the tensors that a call returns.
        loops: the steps that are repeated.
        inplace: outputs that lie in the memory of an input: the output's name and the input's. Example: (("y", "x"),).
        given: the caller's arrays, in their original shapes, whose dimensions were fused in the steps.
    """

    name: str
    inputs: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Tensor, ...]
    loops: tuple[For, ...] = ()
    inplace: tuple[tuple[str, str], ...] = ()
    given: tuple[Tensor, ...] = ()

    def memory_of(self, tensor: Tensor) -> Tensor:
        """Return the tensor whose memory holds a tensor: the input that an output replaces, else the tensor itself."""
        replaced = dict(self.inplace).get(tensor.name)
        return next((t for t in self.inputs if t.name == replaced), tensor)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """List the dims of all steps, in the order of their first use; dims that no step keeps come last."""
        order = dict.fromkeys(all_dims(self))
        kept = dict.fromkeys(d for step in self.steps for out in step.outs for d in out.dims)
        folded = dict.fromkeys(d for step in self.steps for d in step.over)
        last = [d for d in order if d in folded and not any(d in s.kept for s in self.steps)]
        return (*(d for d in order if d in kept and d not in last), *last)

    @property
    def temps(self) -> tuple[Tensor, ...]:
        """List the temporaries: tensors that steps make and that are no outputs."""
        written = dict.fromkeys(out.tensor for step in self.steps for out in step.outs)
        return tuple(t for t in written if t not in self.outputs)

    @property
    def gathers(self) -> dict[str, tuple[Element, ...]]:
        """Map each integer array that is used as an index to its elements in index expressions."""
        found: dict[str, tuple[Element, ...]] = {}
        refs = [ref for step in self.steps for ref in (*step.reads, *step.outs)]
        pending = [e for ref in refs for e in ref.index]
        while pending:
            e = pending.pop()
            if isinstance(e, Element) and e not in found.get(e.array, ()):
                found[e.array] = (*found.get(e.array, ()), e)
            pending.extend(operands(e))
        return found

    @property
    def gathered(self) -> tuple[Dim, ...]:
        """List the dims whose points look up their index in an integer array. Example: m in table[ids[m], n]."""
        return tuple(dict.fromkeys(d for some in self.gathers.values() for e in some for d in _dims_in(e)))

    def step(self, name: str) -> Step | None:
        """Find a step by its name."""
        return next((s for s in self.steps if s.name == name), None)

    def __str__(self) -> str:
        from fireiron.language.words import program_in_words

        return program_in_words(self)


def dense(name: str, shape: tuple[Index, ...], dtype: DType, memory: Memory) -> Tensor:
    """Describe a tensor whose last dimension is contiguous and whose lines follow each other."""
    strides: list[Index] = []
    step: Index = 1
    for extent in reversed(shape):
        strides.append(simplest(as_expr(step)))
        step = simplest(as_expr(step) * extent)
    return Tensor(name, shape, dtype, tuple(reversed(strides)), memory)


def identity_of(fold: Fold) -> tuple[Constant, ...]:
    """Return a fold's state without points, as constants."""
    return tuple(Constant(value, dtype) for value, dtype in zip(fold.identity, fold.dtypes, strict=True))


def refs_dims(program: Program, name: str) -> tuple[Dim, ...]:
    """Return the dims at which the first step that uses a tensor reads or writes it."""
    for step in program.steps:
        for ref in (*step.reads, *step.outs):
            if ref.name == name:
                return ref.dims
    raise KeyError(name)


def readers(program: Program, step: Step) -> tuple[Step, ...]:
    """List the steps that read a step's results."""
    names = {out.name for out in step.outs}
    return tuple(s for s in program.steps if any(r.name in names for r in s.reads))


def check_program(program: Program, updated: frozenset[str] = frozenset()) -> None:
    """Raise an error where steps do not form a program.

    Args:
        program: the program to check.
        updated: inputs that a step may write, as a product writes the C that it adds to.

    Raises:
        SpecError: `same-step` where two steps have one name; `same-name` where two tensors have one name; `step-order`
            where a step reads a tensor that is no input and no result of an earlier step; `fold-over` where a fold has
            no dims, or folds a dim that its output keeps; `dim-extents` where one dim has two extents.
    """
    seen: set[str] = set()
    for step in program.steps:
        if step.name in seen:
            raise SpecError(
                "same-step", f"two steps of {program.name} are named {step.name}", fix='name each: .named("...")'
            )
        seen.add(step.name)
    made = {t.name for t in program.inputs}
    if len(made) < len(program.inputs):
        twice = next(t.name for i, t in enumerate(program.inputs) if t.name in {x.name for x in program.inputs[:i]})
        raise SpecError("same-name", f"two inputs are named {twice}", fix="name each differently")
    for step in program.steps:
        carried = {name for loop in program.loops if step.name in loop.steps for name, _ in loop.carried}
        for ref in step.reads:
            if ref.name not in made | carried:
                raise SpecError(
                    "step-order",
                    f"step {step.name} reads {ref.name}, which no step before it makes",
                    fix=f"put the step that makes {ref.name} before {step.name}",
                )
        _check_fold(step)
        for out in step.outs:
            if out.name in made - updated:
                raise SpecError(
                    "same-name",
                    f"step {step.name} writes {out.name}, which another array is called already",
                    fix="rename one of them",
                )
            made.add(out.name)
    extents: dict[str, Expr | None] = {}
    for dim in all_dims(program):
        if dim.name in extents and extents[dim.name] != dim.extent:
            raise SpecError(
                "dim-extents",
                f"dim {dim.name} has the extents {extents[dim.name]} and {dim.extent}",
                fix="give both the same extent, or name the dims differently",
            )
        extents[dim.name] = dim.extent


def all_dims(program: Program) -> Iterator[Dim]:
    """Visit the dims of every step; a dim that several steps use is visited several times."""
    for step in program.steps:
        for ref in (*step.reads, *step.outs):
            yield from ref.dims
        yield from step.over
        for tree in (step.body, *(() if step.where is None else (step.where,))):
            yield from dims_in(tree, step.reads)


def _check_fold(step: Step) -> None:
    if step.fold is None and not step.over:
        return
    if step.fold is None or not step.over:
        raise SpecError(
            "fold-over",
            f"step {step.name} folds over nothing" if step.fold else f"step {step.name} has dims to fold and no fold",
            fix="give a fold, and the dims that it folds",
        )
    kept = [d.name for d in step.over if d in step.kept]
    if step.running and (len(step.over) > 1 or not kept):
        raise SpecError(
            "fold-over",
            f"step {step.name} keeps running results over {', '.join(d.name for d in step.over)}",
            fix="fold over one dim, which the output keeps",
        )
    if kept and not step.running:
        raise SpecError(
            "fold-over",
            f"step {step.name} folds {kept[0]}, which its output keeps",
            fix=f"leave {kept[0]} out of the output, or out of `over`",
        )
