"""Programs as Python functions: a function of arrays is called once with expressions, which record its steps.

An array of the function is an expression that reads a tensor at the dims that the decorator names. Operators and the
functions of the pointwise language build larger expressions; folds (`sum`, `max`, `einsum`, ...) make steps. Pointwise
expressions between two folds are part of the step that reads them, unless `named(...)` makes them a step.

16-bit and 8-bit floats are computed with in f32, 8-bit integers in i32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import attrs

from fireiron.algebra.dtypes import DType, default_result
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import (
    Expr,
    Index,
    as_expr,
    simplest,
)
from fireiron.algebra.scalar import Arg
from fireiron.base.contract import shown
from fireiron.base.errors import SpecError
from fireiron.base.text import count
from fireiron.language.elements import check_elements
from fireiron.language.levels import GL
from fireiron.language.pointwise import (
    Value,
    cast_to,
    simplified,
)
from fireiron.language.steps import Program, Ref, Step, check_program, dense
from fireiron.language.tensor import Tensor
from fireiron.language.trace import Trace, bare, declared, dims_of_value, of_reads, refs_of, tracing


@attrs.frozen
class Inplace:
    """Describe an output that overwrites an input.

    Args:
        name: name of the input.
    """

    name: str


def inplace(name: str) -> Inplace:
    """Make an output of a program overwrite an input: `softmax(x, out=inplace("x"))`.

    The kernel then has one array for both, which a call passes as `out=`. Each element must be read before it is
    written; the schedule's last link checks it (`inplace-order`).

    Args:
        name: name of the input; the output has the input's shape, element type and strides.

    Example:
        >>> import numpy as np
        >>> import fireiron as fi
        >>> from fireiron.schedules import rows
        >>> over = rows.row(rows.softmax(fi.Matrix(64, 512), out=fi.inplace("x")))
        >>> x = np.zeros((64, 512), np.float32)
        >>> print(over.simulate(out=x).out[0, 0] == 1 / 512)
        True
    """
    return Inplace(name)


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
        function: the function to trace.
        dims: the dims of each array, by parameter: names with spaces between. Example: {"x": "m n"}.
        tensors: the arrays, by parameter.
        others: further arguments, by parameter; their values become constants of the program.
        name: name of the program.
        out: the outputs' element type, or the output's tensor (for strides), or `inplace(...)`; a tuple for several
            outputs. None: the result type for the element type of the first array that is not used as a subscript.

    Raises:
        SpecError: `program-rank`, `program-outputs`, `dim-extents`, `bad-op`, `unknown-dtype`, `inplace-input`,
            and those of `check_program`.
    """
    with tracing() as trace:
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
    kinds = tuple(_into(result) or kind for kind, result in zip(kinds, results, strict=True))
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


def _into(result: object) -> Inplace | None:
    """Return the input that a result replaces because its step writes elements of it; None for other results."""
    ref = bare(result) if isinstance(result, Value) else None
    return Inplace(ref.made.into) if ref is not None and ref.made is not None and ref.made.into else None


def _replaced(wanted: str, name: str, tensors: Mapping[str, Tensor], all_wanted: tuple[str, ...]) -> Tensor:
    """Find the input that an output overwrites.

    Raises:
        SpecError: `inplace-input` where no input has the name, or two outputs overwrite it.
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
        index.append(declared(dim, extent, trace))
    return _reading(tensor, tuple(index))


def _reading(tensor: Tensor, index: tuple[Expr, ...], made: Step | None = None) -> Value:
    ref = Ref.of(tensor, index, made)
    return Value(Arg(1, tensor.dtype), (ref,))


def _laid_out(title: str, shape: tuple[Index, ...], kind: DType, as_given: Tensor | None) -> Tensor:
    """Describe an output: the tensor in `out=`, else a contiguous one.

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
    """Collect the steps that results need, give them different names, and make the last ones write the outputs."""
    names = ["y"] if len(results) == 1 else [f"y{i}" for i in range(len(results))]
    given = {t.name for t in inputs}
    while given & set(names):  # an array of the function may have the same name
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
        while any(title == t.name for t in outputs):
            title = _next(title)
        target = _laid_out(title, shape, kind, as_given)
        outputs.append(target)
        out = Ref.of(target, tuple(dims))
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
        finals.append((whole, Step(title, (out,), refs_of(whole), of_reads(whole.tree))))
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
                outs.append(Ref.of(target, old.index))
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
    check_elements(program)
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
    """Replace the name of the tensor that a read names by its final name."""
    if ref.made is None:
        return ref
    out = fresh[id(ref.made)][ref.name]
    return attrs.evolve(out, index=ref.index, made=None)
