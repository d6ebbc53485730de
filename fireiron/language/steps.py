"""The model of every computation: a program is a list of steps, and a step folds an expression over some dims.

For every point of its outputs' dims, a step computes `fold over dims of body(reads)`. Example: C[m, n] = add over k of
A[m, k] * B[k, n]. A step without a fold is pointwise. A read or an output is a tensor with one index expression for
each of the tensor's dimensions (`Ref`).

Source: Fireiron and Graphene have one spec for each kind of computation; here a MatMul, a Move, a reduction and a
pointwise operation are all a `Step`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import (
    Compare,
    Element,
    Expr,
    Index,
    Logic,
    Var,
    as_expr,
    evaluate,
    free,
    operands,
    simplest,
    terms_of,
)
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Scalar,
    Unary,
    children,
    exactly,
    parts,
    renumbered,
)
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.errors import SpecError
from fireiron.language.folds import Dim, Fold
from fireiron.language.levels import Memory
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.language.programs import Layer


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

    @classmethod
    def of(cls, tensor: Tensor, index: tuple[Expr, ...], made: Step | None = None, outside: float = 0.0) -> Ref:
        """Name one element of a tensor, by its index."""
        facts = tensor.name, tensor.shape, tensor.dtype, tensor.strides, tensor.memory
        return cls(*facts, index, made, outside, start=tensor.start)

    @property
    def tensor(self) -> Tensor:
        """Return the tensor without the index."""
        return Tensor(self.name, self.shape, self.dtype, self.strides, self.memory, start=self.start)

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """List the dims that the index reads, each once, in the order of the tensor's dimensions."""
        return tuple(dict.fromkeys(d for e in self.index for d in _dims_in(e)))

    def dims_along(self, i: int) -> tuple[Dim, ...]:
        """List the dims that the index of one of the tensor's dimensions reads."""
        return tuple(_dims_in(self.index[i]))

    @cached_property
    def shifts(self) -> tuple[tuple[str, int], ...] | None:
        """Return each index as a dim and a constant, whose sum it is: x[n, k - 8] has ("n", 0), ("k", -8).

        None if an index is no such sum, or if two have the same dim.
        """
        found: list[tuple[str, int]] = []
        for e in self.index:
            terms, constant = terms_of(e)
            dim = terms[0] if len(terms) == 1 else (None, 0)
            if not isinstance(dim[0], Var) or dim[1] != 1:
                return None
            found.append((dim[0].name, constant))
        return tuple(found) if len({dim for dim, _ in found}) == len(found) else None

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
        into: name of the input that the output replaces, where the step writes elements that the output's index names;
            "" for other steps. Example: made[ids[e], n] = x[e, n].
        adds: whether the value is added to the input's element, which points may share: total[ids[e], n] += x[e, n].
    """

    name: str
    outs: tuple[Ref, ...]
    reads: tuple[Ref, ...]
    body: Scalar
    fold: Fold | None = None
    over: tuple[Dim, ...] = ()
    where: Scalar | None = None
    running: bool = False
    into: str = ""
    adds: bool = False

    @cached_property
    def kept(self) -> tuple[Dim, ...]:
        """List the dims of the outputs."""
        return tuple(dict.fromkeys(d for out in self.outs for d in out.dims))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """List all dims: those of the outputs, then those that are folded."""
        return (*self.kept, *(d for d in self.over if not self.running))

    @property
    def functions(self) -> frozenset[str]:
        """List the names of the inexact functions of one value in the body, such as "exp" and "log"."""
        found = (tree.op for tree in parts(self.body) if isinstance(tree, Unary))
        return frozenset(name for name in found if not FUNCTIONS[name].exact)

    def holds(self, places: Mapping[str, Any]) -> Any:
        """Evaluate the condition at indices of dims: not 0 where it holds; None without one, or if it reads elements.

        Args:
            places: the index along each dim, by name: an integer, or an array of integers. Other dims have index 0.

        Example:
            >>> from fireiron import tensor
            >>> from fireiron.schedules.attention import attention
            >>> q, k, v = (tensor(1, 1, 64, 64, dtype="f16", name=name) for name in "qkv")
            >>> causal = next(s for s in attention(q, k, v, causal=True).computed.steps if s.where is not None)
            >>> [causal.holds({"i": 3, "j": j}) for j in range(6)]
            [1, 1, 1, 1, 0, 0]
        """
        if not isinstance(self.where, Coordinate):
            return None
        dims = [leaf.name for leaf in free(self.where.value) if isinstance(leaf, Var)]
        try:
            return evaluate(self.where.value, {name: places.get(name, 0) for name in dims})
        except KeyError:  # an element, or a size that is not known
            return None

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

    @cached_property
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
