"""Programs as Python functions: a function of arrays is called once with expressions, and leaves its steps.

An array of the function is an expression that reads a tensor at the dims that the decorator names. Operators and the
functions of the pointwise language build larger expressions; folds (`sum`, `max`, `einsum`, ...) make steps. Pointwise
expressions between two folds are part of the step that reads them, unless `named(...)` makes them a step.

16-bit and 8-bit floats are computed with in f32, 8-bit integers in i32.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, cast

import attrs

from fireiron.algebra.dtypes import DType, default_accumulator, default_result
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import (
    Element,
    Expr,
    Index,
    Product,
    Var,
    and_,
    as_expr,
    as_int,
    ceil_div,
    free,
    ge,
    lt,
    operands,
    proves,
    simplest,
    substitute,
    terms_of,
)
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Coordinate, Scalar, Select, parts, placed, renumbered
from fireiron.algebra.simplify import peeled, simplify
from fireiron.base.contract import asked, checks, shown
from fireiron.base.errors import SpecError
from fireiron.base.link import Link, here
from fireiron.base.text import count
from fireiron.language.levels import GL, RF
from fireiron.language.pointwise import (
    Operand,
    Value,
    cast_to,
    check_whole,
    integer,
    lifted,
    simplified,
    simplified_together,
)
from fireiron.language.pointwise import binary as apply
from fireiron.language.pointwise import where as choose
from fireiron.language.steps import (
    Dim,
    Fold,
    Program,
    Ref,
    Step,
    add_of,
    arg_of,
    check_program,
    compensated_add_of,
    dense,
    dims_in,
    max_of,
    min_of,
    mul_of,
    top_of,
)
from fireiron.language.tensor import Tensor

Over = str | Sequence[str]
PRODUCT = "product"  # what einsum calls a step that the function does not name
MOST_OF_TOP = 8


@attrs.define
class Trace:
    """Collect the dims, subscripts and named steps of a function while it is traced.

    Args:
        dims: by name.
        indices: arrays whose elements are subscripts.
        named: by the identity of a step that the function names: the step, and where it does so.
    """

    dims: dict[str, Dim] = attrs.field(factory=dict[str, Dim])
    indices: set[str] = attrs.field(factory=set[str])
    named: dict[int, tuple[Step, Link | None]] = attrs.field(factory=dict[int, tuple[Step, Link | None]])

    def given(self, order: Sequence[Step]) -> dict[str, Step]:
        """Map the names that the function gives to their steps.

        Raises:
            SpecError: `same-step` where it gives one name to two steps.
        """
        found: dict[str, Step] = {}
        for step, place in (self.named[id(s)] for s in order if id(s) in self.named):
            if step.name in found:
                raise SpecError(
                    "same-step",
                    f"two steps are named {step.name}",
                    fix="give each a name of its own: chains find steps by name",
                    link=place,
                )
            found[step.name] = step
        return found


_current: ContextVar[Trace | None] = ContextVar("fireiron_trace", default=None)


def _trace() -> Trace:
    found = _current.get()
    if found is None:
        raise SpecError(
            "outside-program",
            "dims have names only inside a program",
            fix="call this in a function under @fireiron.program(...)",
        )
    return found


@attrs.frozen
class Inplace:
    """Say that an output lies in the memory of an input, whose elements it replaces.

    Args:
        name: of the input.
    """

    name: str


def inplace(name: str) -> Inplace:
    """Say that an output of a program lies in the memory of an input: `softmax(x, out=inplace("x"))`.

    The kernel then has one array for both, which a call passes as `out=`. Each element is read before it is written,
    which the schedule's last link proves or refuses (`inplace-order`).

    Args:
        name: of the input: its shape, element type and strides are the output's.

    Example:
        >>> import fireiron as fi
        >>> from fireiron.schedules import rows
        >>> over = rows.row(rows.softmax(fi.Matrix(64, 512), out=fi.inplace("x")))
        >>> x = np.zeros((64, 512), np.float32)
        >>> print(over.simulate(out=x).out[0, 0] == 1 / 512)
        True
    """
    return Inplace(name)


@contextmanager
def _tracing() -> Generator[Trace]:
    trace = Trace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def traced(
    function: Callable[..., object],
    dims: Mapping[str, str],
    tensors: Mapping[str, Tensor],
    others: Mapping[str, object],
    name: str,
    out: object = None,
) -> Program:
    """Call a function with expressions for its arrays, and collect the steps that its results need.

    Args:
        function: what is traced.
        dims: the dims of each array, by parameter: names parted by spaces.
        tensors: the arrays, by parameter.
        others: further arguments, by parameter; they are baked in.
        name: of the program.
        out: the outputs' element type, or a description with strides of its own, or the input that it replaces, or one
            for each; None for what the type of the first array gives that is no subscript.

    Raises:
        SpecError: `program-rank`, `program-outputs`, `dim-extents`, `bad-op`, `unknown-dtype`, `inplace-input`,
            and those of `check_program`.
    """
    with _tracing() as trace:
        values: dict[str, Value] = {}
        for key, tensor in tensors.items():
            values[key] = _argument(key, tensor, dims[key].split(), trace)
        result = function(**values, **others)
    results = cast("tuple[object, ...]", result if isinstance(result, tuple) else (result,))
    if not results or any(not isinstance(r, Value) for r in results):
        raise SpecError(
            "bad-op",
            f"{name} returned {shown(cast(object, result))}",
            fix="return an expression of its arrays, or a tuple of expressions",
        )
    first = next((t for t in tensors.values() if t.name not in trace.indices), next(iter(tensors.values()), None))
    kinds = cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,) * len(results)
    if len(kinds) != len(results):
        raise SpecError(
            "program-outputs",
            f"out= gives {count(len(kinds), 'type')} for {count(len(results), 'output')}",
            fix="give one type, or one for each output",
        )
    replaced = tuple(kind.name if isinstance(kind, Inplace) else "" for kind in kinds)
    kinds = tuple(
        _replaced(kind.name, name, tensors, replaced) if isinstance(kind, Inplace) else kind for kind in kinds
    )
    program = _finished(
        name,
        tuple(tensors.values()),
        [r for r in results if isinstance(r, Value)],
        [_output_dtype(kind, r, first) for kind, r in zip(kinds, results, strict=True)],
        [kind if isinstance(kind, Tensor) else None for kind in kinds],
        trace,
    )
    pairs = tuple((t.name, old) for t, old in zip(program.outputs, replaced, strict=True) if old)
    return attrs.evolve(program, inplace=pairs) if pairs else program


def _replaced(wanted: str, name: str, tensors: Mapping[str, Tensor], all_wanted: tuple[str, ...]) -> Tensor:
    """Find the input that an output replaces.

    Raises:
        SpecError: `inplace-input` where there is none of the name, or two outputs replace it.
    """
    found = next((t for key, t in tensors.items() if wanted in (key, t.name)), None)
    if found is None or all_wanted.count(wanted) > 1:
        why = f"has no input {wanted}" if found is None else f"has one input {wanted}, and two outputs replace it"
        known = ", ".join(t.name for t in tensors.values())
        raise SpecError("inplace-input", f"{name} {why}", fix=f"name one input for each output: {known}")
    return found


def _output_dtype(kind: object, value: object, first: Tensor | None) -> DType:
    assert isinstance(value, Value)
    if isinstance(kind, Tensor):
        return kind.dtype
    if kind is not None:
        return find_dtype(kind)
    if first is None or first.dtype.kind != value.dtype.kind:
        return value.dtype
    return default_result(first.dtype)


def _argument(name: str, tensor: Tensor, dims: Sequence[str], trace: Trace) -> Value:
    if len(dims) != len(tensor.shape):
        raise SpecError(
            "program-rank",
            f"{name} is {tensor}, and the program gives it the dims {' '.join(dims)}",
            fix=f"give an array of {count(len(dims), 'dimension')}",
        )
    index: list[Expr] = []
    for dim, extent in zip(dims, tensor.shape, strict=True):
        index.append(_declared(dim, extent, trace))
    return _reading(tensor, tuple(index))


def _declared(name: str, extent: Index, trace: Trace) -> Dim:
    if not name.isidentifier():
        raise SpecError("dim-name", f"{name!r} is no name of a dim", fix="use letters, digits and underscores")
    known = trace.dims.get(name)
    if known is None:
        trace.dims[name] = known = Var(name, extent)
    elif known.extent != as_expr(extent):
        raise SpecError(
            "dim-extents",
            f"dim {name} has the extents {known.extent} and {extent}",
            fix="give both arrays the same extent, or name the dims differently",
        )
    return known


def _reading(tensor: Tensor, index: tuple[Expr, ...], made: Step | None = None) -> Value:
    ref = Ref(tensor.name, tensor.shape, tensor.dtype, tensor.strides, tensor.memory, index, made)
    return Value(Arg(1, tensor.dtype), (ref,))


def refs_of(value: Value) -> tuple[Ref, ...]:
    """List what an expression of a traced function reads."""
    return tuple(t for t in value.tensors if isinstance(t, Ref))


def dims_of_value(value: Value) -> tuple[Dim, ...]:
    """List the dims of an expression: in the order of a read that has all of them, else as the program names them.

    Raises:
        SpecError: `bad-operand` where it reads what is no array of the function that is traced.
    """
    refs = refs_of(value)
    if len(refs) < len(value.tensors):
        other = next(t for t in value.tensors if not isinstance(t, Ref))
        raise SpecError(
            "bad-operand",
            f"{other} is no array of the program's function",
            fix="make it a parameter of the function, and name its dims in program(...)",
        )
    found = dict.fromkeys((*(d for ref in refs for d in ref.dims), *dims_in(_of_reads(value.tree), refs)))
    whole = next((ref.dims for ref in refs if len(ref.dims) == len(found)), None)
    if whole is not None:
        return whole
    trace = _current.get()
    known = list(trace.dims.values()) if trace is not None else []
    return tuple(sorted(found, key=lambda d: known.index(d) if d in known else len(known)))


@checks(locate=True)
def extent(dim: str) -> int | Value:
    """Give the extent of a dim: a number, or an index expression of symbols.

    Raises:
        SpecError: `unknown-dim`, `outside-program`.
    """
    found = _known(dim).extent
    assert found is not None
    known = as_int(found)
    return Value(Coordinate(found)) if known is None else known


@checks(locate=True)
def index(dim: str) -> Value:
    """Give the coordinate of the present point along a dim, an i32.

    Indices, whole numbers and `//` and `%` by a number make further ones. They stand in comparisons, in arithmetic, and
    in subscripts.

    Raises:
        SpecError: `unknown-dim`, `outside-program`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.language.statistics import softmax
        >>> def causal(x): return softmax(x, "j", where=index("j") <= index("i"))
        >>> print(traced(causal, {"x": "i j"}, {"x": Matrix(64, 64, name="x")}, {}, "causal").steps[0])
        top[i] = max over j where j <= i of x[i, j]
    """
    return Value(Coordinate(_known(dim)))


@checks(locate=True)
def dim(name: str, size: Index | Value) -> Value:
    """Name a further dim, of an extent of its own, and give its index.

    Raises:
        SpecError: `dim-extents`, `dim-name`, `bad-extent`, `outside-program`.
    """
    trace = _trace()
    extent: object = size
    if isinstance(size, Value) and isinstance(size.tree, Coordinate) and not dims_of_value(size):
        extent = simplest(size.tree.value)
    if isinstance(extent, bool) or not isinstance(extent, int | Expr) or not _positive(extent):
        raise SpecError(
            "bad-extent", f"dim {name} has the extent {shown(size)}", fix="give a whole number of 1 or more, or symbols"
        )
    return Value(Coordinate(_declared(name, extent, trace)))


def _positive(extent: Index) -> bool:
    _, high = as_expr(extent).range
    return high is None or high >= 1


@checks(locate=True)
def subscripted(value: Value, subscripts: object) -> Value:
    """Read an expression at other places: `x[..., 2 * p + r - 1, :]`.

    Args:
        value: an array, or an expression of arrays, whose dims come in its order.
        subscripts: one for each dimension; `:` keeps it, `...` keeps all that are not given. A number (from the end if
            negative), or an index: affine in dims, with `//` and `%` by numbers. What lies outside reads as 0, or as
            `outside` says. An array of integers of the call is an index too (a gather); its elements lie inside the
            dimension: the simulator and debug builds check that.

    Raises:
        SpecError: `subscript-rank`, `affine-subscript`, `gather-step`, `outside-program`.

    Example:
        >>> from fireiron.language.tensor import Matrix, Vector
        >>> arrays = {"ids": Vector(64, "i32", name="ids"), "table": Matrix(1000, 32, name="table")}
        >>> def embedding(ids, table): return table[ids, :]
        >>> print(traced(embedding, {"ids": "m", "table": "v n"}, arrays, {}, "embedding").steps[0])
        y[m, n] = table[ids[m], n]
    """
    ref = bare(value)
    dims = dims_of_value(value)
    index = ref.index if ref is not None else tuple(dims)
    shape = ref.shape if ref is not None else tuple(cast(Expr, d.extent) for d in dims)
    given = cast("tuple[object, ...]", subscripts if isinstance(subscripts, tuple) else (subscripts,))
    gaps = [i for i, x in enumerate(given) if x is Ellipsis]
    if len(gaps) > 1 or len(given) - len(gaps) > len(index):
        raise SpecError(
            "subscript-rank",
            f"{count(len(given) - len(gaps), 'subscript')} for {count(len(index), 'dimension')}"
            if len(gaps) < 2
            else "two ... in a subscript",
            fix="give one subscript for each dimension; one ... stands for those that are kept",
        )
    whole: list[object] = [slice(None)] * (len(index) - len(given) + len(gaps))
    at = gaps[0] if gaps else len(given)
    places = [
        _place(x, old, n) for x, old, n in zip((*given[:at], *whole, *given[at + 1 :]), index, shape, strict=True)
    ]
    if ref is not None:
        read = attrs.evolve(ref, index=tuple(places))
        return Value(value.tree, tuple(read if t == ref else t for t in value.tensors))
    return _moved(value, dict(zip(dims, places, strict=True)))


def _place(subscript: object, old: Expr, extent: Index) -> Expr:
    """Give the index expression that a subscript says."""
    if _is_all(subscript):
        return old
    if isinstance(subscript, int) and not isinstance(subscript, bool):
        return as_expr(extent) + subscript if subscript < 0 else as_expr(subscript)
    place = _index_of(subscript.tree, subscript.tensors) if isinstance(subscript, Value) else None
    if place is None or not _is_affine(place):
        said = shown(subscript) if not isinstance(subscript, Value) else _in_words(subscript)
        raise SpecError(
            "affine-subscript",
            f"the subscript {said} is not affine in dims",
            fix='use sums of index("i") times a number, with // and % by numbers; `:` keeps a dimension',
        )
    return _bounded(place, extent)


def _is_all(subscript: object) -> bool:
    """Say whether a subscript is `:`; what arrays make of `==` is no answer."""
    return isinstance(subscript, slice) and subscript == slice(None)


def _index_of(tree: Scalar, tensors: Sequence[Tensor]) -> Expr | None:
    """Give the index expression that a subscript is: of indices, numbers and elements of arrays of integers.

    Raises:
        SpecError: `gather-step` for integers that a step computes.
    """
    match tree:
        case Cast(x=x, dtype=dtype) if dtype.kind == "int" and x.dtype.kind == "int":
            return _index_of(x, tensors)
        case Arg(index=number, dtype=dtype) if dtype.kind == "int" and not dtype.packed and number > 0:
            ref = tensors[number - 1]
            if not isinstance(ref, Ref):
                return None
            if ref.made is not None:
                raise SpecError(
                    "gather-step",
                    f"the subscript {ref} is computed by step {ref.made.name}",
                    fix="gather by an array of the call: compute the indices by a kernel of their own",
                )
            _trace().indices.add(ref.name)
            return Element(ref.name, ref.index, ref.shape)
        case Binary(op=op, x=x, y=y) if op in ("add", "sub", "mul"):
            left, right = _index_of(x, tensors), _index_of(y, tensors)
            if left is None or right is None:
                return None
            return left + right if op == "add" else left - right if op == "sub" else left * right
        case _:
            return integer(tree)


def _bounded(place: Expr, extent: Index) -> Expr:
    """Say below what the elements in an index stay that lies in an array."""
    found: dict[Expr, Expr] = {}
    for term, factor in terms_of(place)[0]:
        if isinstance(term, Element) and factor > 0:
            found[term] = attrs.evolve(term, extent=simplest(ceil_div(as_expr(extent), factor)))
    return substitute(place, found) if found else place


def _in_words(value: Value) -> str:
    from fireiron.language.words import scalar_in_words

    return scalar_in_words(value.tree, ["", *map(str, value.tensors)])


def _is_affine(e: Expr) -> bool:
    factors = e.factors if isinstance(e, Product) else ()
    return builtins.sum(bool([x for x in free(f) if isinstance(x, Var)]) for f in factors) < 2 and builtins.all(
        map(_is_affine, operands(e))
    )


def _moved(value: Value, places: Mapping[Dim, Expr]) -> Value:
    """Put index expressions in the place of dims; what then lies outside their extents is 0."""
    values: dict[Expr, Expr] = {dim: place for dim, place in places.items() if place != dim}
    tensors = tuple(
        attrs.evolve(t, index=tuple(substitute(e, values) for e in t.index)) if isinstance(t, Ref) else t
        for t in value.tensors
    )
    moved = Value(placed(value.tree, values), tensors)
    inside = and_(*(and_(ge(e, 0), lt(e, cast(Expr, d.extent))) for d, e in places.items() if d in values))
    return moved if proves(inside) else choose(Value(Coordinate(inside)), moved, 0)


@checks(locate=True)
def outside(value: Value, number: float) -> Value:
    """Say what reads of an array give whose subscripts lie outside it: 0 unless said.

    Args:
        value: an array of the function.
        number: of the array's type: `-inf` for the largest value of a window.

    Raises:
        SpecError: `outside-computed` for an expression; `fraction-of-integer`, `constant-range`.
    """
    ref = bare(value)
    if ref is None:
        raise SpecError(
            "outside-computed",
            "outside() takes an array, and this is an expression",
            fix="use where(condition, expression, number)",
        )
    if ref.dtype.kind == "int":
        check_whole(number, ref.dtype)
    read = attrs.evolve(ref, outside=float(number))
    return Value(value.tree, tuple(read if t == ref else t for t in value.tensors))


def _known(name: str) -> Dim:
    trace = _trace()
    if name not in trace.dims:
        raise SpecError(
            "unknown-dim", f"no dim is called {name}", fix="dims: " + (", ".join(trace.dims) or "none is there")
        )
    return trace.dims[name]


@checks(locate=True)
def named(value: Operand, name: str) -> Value:
    """Give a value a name: of a fold's result that is the step's name; of an expression it makes a step.

    Args:
        value: an expression of arrays.
        name: what chains call the step.

    Raises:
        SpecError: `bad-operand`, `dim-name`; `same-step` where the program has another step that the function so names.
    """
    return _kept(step_named(value, name))


def _kept(value: Value) -> Value:
    """Note that the function that is traced names the step of a value."""
    trace, ref = _current.get(), bare(value)
    if trace is not None and ref is not None and ref.made is not None:
        trace.named[id(ref.made)] = ref.made, here()
    return value


def step_named(value: Operand, name: str) -> Value:
    """Name the step of a value as `named` does, for functions of the language: the user's own names come first."""
    (value,) = lifted(value)
    if not name.isidentifier():
        raise SpecError("dim-name", f"{name!r} is no name of a step", fix="use letters, digits and underscores")
    ref = bare(value)
    if ref is not None and ref.made is not None and len(ref.made.outs) == 1:
        (out,) = ref.made.outs
        step = attrs.evolve(ref.made, name=name, outs=(attrs.evolve(out, name=name),))
        return Value(Arg(1, ref.dtype), (attrs.evolve(ref, name=name, made=step),))
    value = simplified(value)
    refs, tree = refs_of(value), peeled(value.tree)  # what was rounded to 16 bits is kept in 16
    return _result(name, refs, _of_reads(tree), None, (), dims_of_value(value), (tree.dtype,))[0]


def bare(value: Value) -> Ref | None:
    """Give the read that an expression is, where it is nothing else; conversions to a wider type do not count."""
    tree = value.tree
    while (
        isinstance(tree, Cast) and tree.dtype.mantissa >= tree.x.dtype.mantissa and tree.dtype.kind == tree.x.dtype.kind
    ):
        tree = tree.x
    if not isinstance(tree, Arg) or tree.index == 0:
        return None
    ref = value.tensors[tree.index - 1]
    return ref if isinstance(ref, Ref) else None


def _of_reads(tree: Scalar) -> Scalar:
    """Count the reads of a step from 0, where expressions of values count them from 1."""
    numbers = {x.index: x.index - 1 for x in parts(tree) if isinstance(x, Arg)}
    return renumbered(tree, numbers)


def _result(
    name: str,
    reads: Sequence[Ref],
    body: Scalar,
    fold: Fold | None,
    over: Sequence[Dim],
    kept: Sequence[Dim],
    dtypes: Sequence[DType],
    where: Scalar | None = None,
    running: bool = False,
) -> tuple[Value, ...]:
    """Make a step, and the expressions that read its results."""
    if not kept:
        raise SpecError(
            "fold-over",
            f"{name} folds every dim of the expression, and its result has none",
            fix="give the array one more dim, of extent 1, and keep it",
        )
    shape = tuple(simplest(cast(Expr, d.extent)) for d in kept)
    names = [name] if len(dtypes) == 1 else [f"{name}{i}" for i in range(len(dtypes))]
    outs = tuple(
        Ref(t.name, t.shape, t.dtype, t.strides, t.memory, tuple(kept))
        for t in (dense(n, shape, dtype, RF) for n, dtype in zip(names, dtypes, strict=True))
    )
    step = Step(name, outs, tuple(reads), simplify(body), fold, tuple(over), where, running)
    return tuple(Value(Arg(1, out.dtype), (attrs.evolve(out, made=step),)) for out in outs)


def dims_over(value: Value, over: Over, what: str) -> tuple[Dim, ...]:
    """Find the dims of an expression that a fold names.

    Args:
        value: the expression.
        over: names of dims.
        what: the fold, for errors.

    Raises:
        SpecError: `fold-over`.
    """
    names = over.split() if isinstance(over, str) else list(over)
    mine = {d.name: d for d in dims_of_value(value)}
    missing = [n for n in names if n not in mine]
    if missing or not names:
        raise SpecError(
            "fold-over",
            f"{what} cannot fold over {missing[0]}: the expression has the dims {', '.join(mine) or '(none)'}"
            if missing
            else f"{what} folds over nothing",
            fix=f'write over="{next(iter(mine), "n")}", or other dims of the expression',
        )
    return tuple(mine[n] for n in dict.fromkeys(names))


@checks(locate=True)
def fold(
    value: Operand,
    over: Over,
    make: Callable[[DType], Fold],
    name: str,
    where: Operand | None = None,
    running: bool = False,
) -> tuple[Value, ...]:
    """Fold an expression over dims.

    Args:
        value: of arrays.
        over: names of dims: parted by spaces, or a sequence.
        make: gives the fold for the expression's element type.
        name: of the step.
        where: a condition: points where it is 0 are not folded.
        running: whether each point of the one dim has a result of its own: the fold of all points up to it.

    Raises:
        SpecError: `fold-over`, `bad-operand`.
    """
    (value,) = lifted(value)
    given = (value,) if where is None else (value, condition_of(where))
    trees, tensors = simplified_together(given)
    body, kept_where = _of_reads(trees[0]), _of_reads(trees[1]) if where is not None else None
    if isinstance(kept_where, Constant) and kept_where.value:
        kept_where = None
    # The dims of the condition count too: a mask of another array may have more of them.
    whole = Value(trees[0] if kept_where is None else Select(trees[1], trees[0], trees[0]), tensors)
    dims = dims_over(whole, over, name)
    if running and len(dims) > 1:
        names = " and ".join(d.name for d in dims)
        raise SpecError("fold-over", f"running results over {names} have no one order", fix="fold over one dim")
    kept = [d for d in dims_of_value(whole) if running or d not in dims]
    made = make(value.dtype)
    kinds = tuple(x.dtype for x in made.finish)
    return _result(name, refs_of(whole), body, made, dims, kept, kinds, kept_where, running)


def condition_of(where: Operand) -> Value:
    """Make an expression of a condition on points."""
    return where if isinstance(where, Value) else lifted(where)[0]


@checks(locate=True)
def sum(value: Operand, over: Over, where: Operand | None = None, compensated: bool = False) -> Value:
    """Add up over dims.

    Args:
        value: of arrays.
        over: names of dims.
        where: a condition on points.
        compensated: whether what roundings lose is kept beside the sum and added at the end: the result is as good as
            if twice as many digits were summed. Each point takes six additions more; sums of infinities are NaN.

    Raises:
        SpecError: `fold-over`, `bad-operand`; `bad-op` for compensated integers, which lose nothing.
    """
    if not compensated:
        return fold(value, over, add_of, "sum", where)[0]
    (value,) = lifted(value)
    if value.dtype.kind == "int":
        raise SpecError("bad-op", f"a sum of {value.dtype} loses nothing", fix="leave compensated out")
    return fold(value, over, compensated_add_of, "sum", where)[0]


@checks(locate=True)
def max(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Take the largest value over dims, of the points where a condition holds; of none -inf, or the lowest integer."""
    return fold(value, over, max_of, "largest", where)[0]


@checks(locate=True)
def min(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Take the smallest value over dims, of the points where a condition holds; of none inf, or the highest integer."""
    return fold(value, over, min_of, "smallest", where)[0]


@checks(locate=True)
def prod(value: Operand, over: Over, where: Operand | None = None) -> Value:
    """Multiply over dims; `where` says which points."""
    return fold(value, over, mul_of, "prod", where)[0]


@checks(locate=True)
def cumsum(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Add up along a dim, and keep what every point finds: the sum of all values up to it, as NumPy's `cumsum`.

    Args:
        value: of arrays.
        over: one dim.
        where: a condition on points: the others add nothing.

    Raises:
        SpecError: `fold-over`, `bad-operand`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> def sums(x): return cumsum(x, "n")
        >>> print(traced(sums, {"x": "m n"}, {"x": Matrix(64, 32, name="x")}, {}, "sums").steps[0])
        y[m, n] = running add over n of x[m, n]
    """
    return fold(value, over, add_of, "cumsum", where, running=True)[0]


@checks(locate=True)
def cumprod(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Multiply along a dim, and keep what every point finds, as `cumsum` does."""
    return fold(value, over, mul_of, "cumprod", where, running=True)[0]


@checks(locate=True)
def argmax(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Find where along a dim the largest value lies, as an i32; of equal ones the first; NaN before all numbers.

    Args:
        value: of arrays.
        over: one dim.
        where: a condition on points; of no points the result is the highest i32.

    Raises:
        SpecError: `fold-over`, `bad-operand`.
    """
    return _where_along(value, over, "max", where)


@checks(locate=True)
def argmin(value: Operand, over: str, where: Operand | None = None) -> Value:
    """Find where along a dim the smallest value lies, as `argmax` does."""
    return _where_along(value, over, "min", where)


def _where_along(value: Operand, over: str, op: Literal["max", "min"], where: Operand | None) -> Value:
    (value,) = lifted(value)
    dims = dims_over(value, over, f"arg{op}")
    if len(dims) != 1:
        raise SpecError(
            "fold-over",
            f"arg{op} finds an index along one dim, not {' and '.join(d.name for d in dims)}",
            fix="fold over one dim",
        )
    return fold(value, over, lambda dtype: arg_of(dtype, dims[0], op), f"arg{op}", where)[0]


@checks(locate=True)
def topk(value: Operand, over: Over, k: int, into: str = "k") -> tuple[Value, Value]:
    """Find the k largest values over a dim and where they lie (i32), in falling order, along a dim of their own.

    Of equal values the first come first; NaN comes before all numbers, as in torch. Of fewer points than k the rest are
    -inf (or the lowest integer), at the highest i32.

    Args:
        value: of arrays.
        over: the name of a dim.
        k: 2 to 8; `argmax` and `max` find one.
        into: names the dim of the results.

    Raises:
        SpecError: `topk-size`; `fold-over` over several dims, `dim-extents`, `dim-name`, `bad-operand`.
    """
    (value,) = lifted(value)
    dims = dims_over(value, over, "topk")
    if not 2 <= k <= MOST_OF_TOP:
        raise SpecError(
            "topk-size", f"topk keeps {k} values in registers", fix=f"take 2 to {MOST_OF_TOP}; argmax and max find one"
        )
    if len(dims) != 1:
        names = " and ".join(d.name for d in dims)
        raise SpecError("fold-over", f"topk finds indices along one dim, not {names}", fix="fold over one dim")
    size = 1 << (k - 1).bit_length()
    found = fold(value, over, lambda dtype: top_of(dtype, dims[0], size), "top")
    place = dim(into, k)
    return _along(found[:k], place), _along(found[size : size + k], place)


def _along(values: Sequence[Value], place: Value) -> Value:
    """Put values side by side along a dim."""
    made = values[-1]
    for i, x in reversed(list(enumerate(values[:-1]))):
        made = choose(apply("eq", place, i), x, made)
    return made


@checks(locate=True)
def fold_by(
    value: Operand,
    over: Over,
    identity: float | tuple[float, ...],
    combine: Callable[..., object],
    lift: Callable[..., object] | None = None,
    finish: Callable[..., object] | None = None,
    name: str = "fold",
    where: Operand | None = None,
    running: bool = False,
) -> Value | tuple[Value, ...]:
    """Fold an expression over dims by a monoid of the caller's: any grouping of points gives the same.

    Args:
        value: of arrays.
        over: names of dims.
        identity: the state of no points: a number, or several.
        combine: makes one state of two: a function of the first's scalars and the second's, one or a tuple.
        lift: makes a state of a point's value; by default the value itself, for each scalar.
        finish: makes results of the state; by default all of it.
        name: of the step.
        where: a condition on points.
        running: whether each point of the one dim has a result of its own, as `cumsum`'s have. Order counts then.

    Raises:
        SpecError: `fold-state` where a function gives another number of scalars; `fold-over`, `bad-operand`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.language.pointwise import unary
        >>> def norm(x): return fold_by(abs(x), "n", 0.0, lambda a, b: a + b, finish=lambda s: unary("sqrt", s))
        >>> print(traced(norm, {"x": "m n"}, {"x": Matrix(64, 32, name="x")}, {}, "norm").steps[0])
        y[m] = fold over n of abs(x[m, n])
    """
    (value,) = lifted(value)
    states = identity if isinstance(identity, tuple) else (identity,)

    def make(dtype: DType) -> Fold:
        count_ = len(states)
        point, first, second = (_slots(dtype, i, n) for i, n in ((0, 1), (0, count_), (count_, count_)))
        lifts = (Arg(0, dtype),) * count_ if lift is None else _state(lift, point, count_, "lift")
        ends = tuple(Arg(i, dtype) for i in range(count_)) if finish is None else _state(finish, first, None, "finish")
        return Fold(name, (dtype,) * count_, states, lifts, _state(combine, (*first, *second), count_, "combine"), ends)

    made = fold(value, over, make, name, where, running)
    return made[0] if len(made) == 1 else made


def _slots(dtype: DType, first: int, number: int) -> tuple[Value, ...]:
    """Make expressions of a fold's scalars, which go by their numbers."""
    refs = [Ref(f"state_{i}", (1,), dtype, (1,), RF) for i in range(first + number)]
    return tuple(Value(Arg(i + 1, dtype), tuple(refs)) for i in range(first, first + number))


def _state(
    function: Callable[..., object], given: tuple[Value, ...], wanted: int | None, what: str
) -> tuple[Scalar, ...]:
    """Call a function of a fold's scalars, and give the trees of what it returns."""
    result = asked(function, *given, said=f"{what} of fold_by")
    found = cast("tuple[object, ...]", result if isinstance(result, tuple) else (result,))
    if (wanted is not None and len(found) != wanted) or any(not isinstance(x, Value | int | float) for x in found):
        raise SpecError(
            "fold-state",
            f"{what} gives {len(found)} of the state's {count(wanted, 'scalar')}"
            if wanted is not None and len(found) != wanted
            else f"{what} gave {shown(cast(object, result))}",
            fix=f"return {'expressions' if wanted is None else count(wanted, 'expression')} of its arguments",
        )
    trees: list[Scalar] = []
    for x in found:
        one = cast_to(x if isinstance(x, Value) else lifted(cast(float, x), given[0])[0], given[0].dtype)
        numbers = {i: int(t.name.removeprefix("state_")) for i, t in enumerate(one.tensors, start=1)}
        trees.append(renumbered(one.tree, numbers))
    return tuple(trees)


@checks(locate=True)
def einsum(subscripts: str, *operands: Operand, name: str = PRODUCT) -> Value:
    """Multiply expressions, and add up over the dims that the result does not name, in f32 (integers in i32).

    Args:
        subscripts: einsum's: `"mk,kn->mn"`, or with spaces for dims of several letters: `"row k, k col -> row col"`.
            For an array that is read plainly the letters name its dimensions in order; for a computed expression they
            are its dims.
        operands: one for each group of letters.
        name: of the step.

    Raises:
        SpecError: `einsum-subscripts`, `dim-extents`, `bad-operand`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> def gram(x): return einsum("ik,jk->ij", x, x)
        >>> print(traced(gram, {"x": "i k"}, {"x": Matrix(64, 32, name="x")}, {}, "gram"))
        gram(x[64, 32].f32.GL) over i 64, j 64, k 32
          y[i, j] = add over k of x[i, k] * x[j, k]
    """
    left, arrow, right = subscripts.partition("->")
    groups = [_letters(part) for part in left.split(",")]
    if not arrow or len(groups) != len(operands):
        raise SpecError(
            "einsum-subscripts",
            f"{subscripts!r} does not say the dims of {count(len(operands), 'operand')} and a result",
            fix='write "mk,kn->mn": a group of letters for each operand, then those of the result',
        )
    trace = _trace()
    values = [_subscripted(v, g, subscripts, trace) for v, g in zip(lifted_each(operands), groups, strict=True)]
    known = {letter for group in groups for letter in group}
    kept = _letters(right)
    missing = [x for x in kept if x not in known]
    if missing or len(set(kept)) < len(kept):
        raise SpecError(
            "einsum-subscripts",
            f"the result of {subscripts!r} names {missing[0] if missing else kept[0]}, "
            + ("which no operand has" if missing else "twice"),
            fix="name dims of the operands, each once",
        )
    total = values[0]
    for value in values[1:]:
        total = total * value
    total = simplified(cast_to(total, default_accumulator(total.dtype)))
    over = [trace.dims[x] for x in known_in_order(groups) if x not in kept]
    dims = [trace.dims[x] for x in kept]
    made = add_of(total.dtype) if over else None
    result = _result(name, refs_of(total), _of_reads(total.tree), made, over, dims, (total.dtype,))[0]
    return result if name == PRODUCT else _kept(result)


def known_in_order(groups: Sequence[Sequence[str]]) -> list[str]:
    """List the letters of all operands, each once."""
    return list(dict.fromkeys(x for group in groups for x in group))


def lifted_each(operands: Sequence[Operand]) -> list[Value]:
    """Let each operand be an expression."""
    return [lifted(x)[0] for x in operands]


def _letters(text: str) -> list[str]:
    words = text.split()
    return words if len(words) > 1 or (words and text.strip() in _names()) else list(text.replace(" ", ""))


def _names() -> set[str]:
    trace = _current.get()
    return set(trace.dims) if trace is not None else set()


def _subscripted(value: Value, letters: Sequence[str], subscripts: str, trace: Trace) -> Value:
    """Read an operand at the dims that its letters name."""
    ref = bare(value)
    if ref is not None and len(ref.index) == len(letters) and builtins.all(isinstance(e, Var) for e in ref.index):
        index = tuple(_declared(letter, size, trace) for letter, size in zip(letters, ref.shape, strict=True))
        read = attrs.evolve(ref, index=index)
        return Value(value.tree, tuple(read if t == ref else t for t in value.tensors))
    mine = {d.name for d in dims_of_value(value)}
    # A dim of one point does not show in an index expression.
    mine |= {x for x in letters if x in trace.dims and trace.dims[x].extent == as_expr(1)}
    if mine != set(letters) or len(set(letters)) < len(letters):
        raise SpecError(
            "einsum-subscripts",
            f"{''.join(letters) if builtins.all(len(x) == 1 for x in letters) else ' '.join(letters)!r} of "
            f"{subscripts!r} names other dims than its expression has, {', '.join(sorted(mine)) or '(none)'}",
            fix="name just these dims",
        )
    return value


def _laid_out(title: str, shape: tuple[Index, ...], kind: DType, as_given: Tensor | None) -> Tensor:
    """Describe an output: as out= gives it, else contiguous.

    Raises:
        SpecError: `program-outputs` where out= gives another shape.
    """
    if as_given is None:
        return dense(title, shape, kind, GL)
    if tuple(map(as_expr, as_given.shape)) != tuple(map(as_expr, shape)):
        raise SpecError(
            "program-outputs",
            f"out= gives {as_given}, and {title} is {' x '.join(map(str, shape))}",
            fix="describe the output with its extents",
        )
    return Tensor(title, shape, kind, as_given.strides, GL)


def _finished(
    name: str,
    inputs: tuple[Tensor, ...],
    results: list[Value],
    kinds: list[DType],
    layouts: list[Tensor | None],
    trace: Trace,
) -> Program:
    """Collect the steps that results need, name them apart, and let the last ones write the outputs."""
    names = ["y"] if len(results) == 1 else [f"y{i}" for i in range(len(results))]
    given = {t.name for t in inputs}
    while given & set(names):  # an array of the function may have the name itself
        names = [f"out_{name}" for name in names]
    finals: list[tuple[Value, Step]] = []
    outputs: list[Tensor] = []
    renamed: dict[int, tuple[str, Tensor]] = {}
    for result, wanted, kind, as_given in zip(results, names, kinds, layouts, strict=True):
        ref = bare(result)
        whole = simplified(cast_to(result, kind))
        dims = dims_of_value(whole)
        shape = tuple(simplest(cast(Expr, d.extent)) for d in dims)
        made = ref.made if ref is not None else None
        title = made.name if made is not None and made.fold is None else wanted
        target = _laid_out(title, shape, kind, as_given)
        outputs.append(target)
        out = Ref(target.name, target.shape, target.dtype, target.strides, GL, tuple(dims))
        if (
            made is not None
            and ref is not None
            and ref.dtype == kind
            and id(made) not in renamed
            and len(made.outs) == 1
        ):
            renamed[id(made)] = (wanted, target)  # the step itself writes the output
            finals.append((result, made))
            continue
        finals.append((whole, Step(title, (out,), refs_of(whole), _of_reads(whole.tree))))
    order: list[Step] = []
    for _, last in finals:
        _collect(last, order)
    given_steps = trace.given(order)
    taken = {t.name for t in (*inputs, *outputs)}
    final: dict[int, Step] = {}
    fresh: dict[int, dict[str, Ref]] = {}
    used: set[str] = set()
    for step in order:
        reads = tuple(_settled(ref, fresh) for ref in step.reads)
        outs: list[Ref] = []
        title, mine = step.name, given_steps.get(step.name) is step
        while title in used or (title in given_steps and not mine):
            title = _next(title)
        for old in step.outs:
            if id(step) in renamed:
                target = renamed[id(step)][1]
                outs.append(Ref(target.name, target.shape, target.dtype, target.strides, GL, old.index))
                continue
            label = old.name
            if old.memory != GL:
                while label in taken or (label in given_steps and not mine):
                    label = _next(label)
                taken.add(label)
            outs.append(attrs.evolve(old, name=label))
        used.add(title)
        fresh[id(step)] = {old.name: new for old, new in zip(step.outs, outs, strict=True)}
        final[id(step)] = attrs.evolve(step, name=title, outs=tuple(outs), reads=reads)
    program = Program(name, inputs, tuple(final[id(s)] for s in order), tuple(outputs))
    check_program(program)
    return program


def _next(name: str) -> str:
    base = name.rstrip("0123456789")
    digits = name[len(base) :]
    return f"{base}{int(digits or 1) + 1}"


def _collect(step: Step, order: list[Step]) -> None:
    if any(step is s for s in order):
        return
    for ref in step.reads:
        if ref.made is not None:
            _collect(ref.made, order)
    order.append(step)


def _settled(ref: Ref, fresh: Mapping[int, Mapping[str, Ref]]) -> Ref:
    """Give a read the final name of what it reads."""
    if ref.made is None:
        return ref
    out = fresh[id(ref.made)][ref.name]
    return attrs.evolve(out, index=ref.index, made=None)
