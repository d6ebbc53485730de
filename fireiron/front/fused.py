"""Products of arrays with an epilog in one kernel, without writing a schedule."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fireiron.algebra.dtypes import DType, default_accumulator, default_result, f32, f64
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import parameters
from fireiron.base.contract import asked, shown
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.base.names import fits
from fireiron.base.text import count
from fireiron.front.best import compiled
from fireiron.front.chain import MatMulChain
from fireiron.front.digest import digest
from fireiron.front.fingerprint import fingerprint
from fireiron.front.repeat import Call
from fireiron.front.spec import MatMul
from fireiron.front.state import kind_in
from fireiron.front.verbs import Schedule
from fireiron.jit.arrays import is_torch
from fireiron.jit.kernel import as_tuple
from fireiron.language import specs
from fireiron.language.ops import Known, save
from fireiron.language.pointwise import Value, accumulator, cast_to, parameter, read, simplified
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.front.host import HostKernel
    from fireiron.jit.arrays import ArrayFacts
    from fireiron.jit.kernel import CompiledKernel

MOST_KERNELS = 4096
MOST_OUTPUTS = 8
Epilogue = Callable[..., Any]
Scheduler = Callable[[MatMulChain], Schedule]

_kernels: dict[Any, CompiledKernel | HostKernel] = {}


def forget() -> None:
    """Forget all kernels."""
    _kernels.clear()


def prepared(
    a: Any,
    b: Any,
    epilog: Epilogue | None,
    out: Any,
    layout: str,
    dtype: object,
    schedule: Scheduler | None,
    operands: Mapping[str, Any],
) -> Call:
    """Prepare a product of arrays or views with its epilog, and find its kernel; see `fireiron.gemm`."""
    try:
        return _prepared(a, b, epilog, out, layout, dtype, schedule, operands)
    except FireironError as error:
        raise error.located(here()) from None


class _Matrices(NamedTuple):
    """Hold an array as a kernel takes it: a matrix or one batch of matrices, with its shape and strides."""

    array: Any
    tensor: Tensor


def _prepared(
    a: Any,
    b: Any,
    epilog: Epilogue | None,
    out: Any,
    layout: str,
    dtype: object,
    schedule: Scheduler | None,
    operands: Mapping[str, Any],
) -> Call:
    if layout[1] == "T":
        a = a.swapaxes(-1, -2)
    if layout[0] == "T":
        b = b.swapaxes(-1, -2)
    facts = {"a": described(a, "a"), "b": described(b, "b")}
    numbers = {name: x for name, x in operands.items() if isinstance(x, bool | int | float)}
    arrays = {name: _read(x) for name, x in operands.items() if name not in numbers}
    shape = _shape(facts["a"], facts["b"])
    beside = {name: described(x, name) for name, x in arrays.items()}
    arrays = {name: _trimmed(x, beside[name].shape, len(shape)) for name, x in arrays.items()}
    beside = {name: described(x, name) for name, x in arrays.items()}
    kind = find_dtype(facts["a"].dtype if dtype is None else dtype)
    if kind.packed:
        raise CallError(
            "bad-epilog",
            f"views and epilogues of {kind} are not supported by this call",
            fix="write the schedule: matmul(...)",
        )
    outs = as_tuple(out)
    into = [described(x, _out(i)) for i, x in enumerate(outs)]
    for i, x in enumerate(into):
        if x.shape != shape:
            raise CallError(
                "wrong-shape", f"{_out(i)} has the shape {x.shape}, the product {shape}", fix="give them one shape"
            )
    lead, one = shape[:-2], len(facts["b"].shape) == 2
    rows, columns, depth = shape[-2], shape[-1], facts["a"].shape[-1]
    # With one B for all batches their rows follow each other, unless something else has rows or batches of its own.
    whole = one and all(_folds(x, lead) for x in (facts["a"], *into))
    whole = whole and all(
        len(x.shape) < 2
        or (len(x.shape) == 2 and x.shape[0] == 1 and lead)
        or (lead and x.shape == shape and _folds(x, lead))
        for x in beside.values()
    )
    flat = not lead or whole
    batch = prod(lead)
    if flat:
        rows, batch = rows * batch, 1
    outer: tuple[int, ...] = () if flat else (batch,)
    left = _matrices(a, facts["a"], "a", (*outer, rows, depth), kind)
    right = _matrices(b, facts["b"], "b", (*outer, depth, columns), kind)
    written = [_matrices(x, into[i], _out(i), (*outer, rows, columns)) for i, x in enumerate(outs)]
    known = _names(operands)  # names of the operands in the kernel
    if whole:
        arrays = {n: x.reshape(rows, columns) if beside[n].shape == shape else x for n, x in arrays.items()}
        beside = {name: described(x, name) for name, x in arrays.items()}
    extra = {name: _operand(x, beside[name], known[name], lead, flat) for name, x in arrays.items()}
    acc = default_accumulator(kind)
    values = expressions_of(
        epilog, acc, {name: x.tensor for name, x in extra.items()}, {n: type(x) for n, x in numbers.items()}, known
    )
    read_ = {t.name for value in values for t in value.tensors} | {p for value in values for p in _scalars(value)}
    unread = [name for name in (*extra, *numbers) if known[name] not in read_]
    if unread:
        raise CallError(
            "bad-epilog", f"the epilog does not read {unread[0]}", fix=f"drop {unread[0]}=..., or compute with it"
        )
    if outs and len(outs) != max(1, len(values)):
        raise CallError(
            "wrong-count",
            f"out= holds {count(len(outs), 'array')}, and the epilog gives {count(max(1, len(values)), 'value')}",
            fix="give an array for each, in a tuple",
        )
    dense = (columns, 1) if flat else (rows * columns, columns, 1)
    made = [
        written[i].tensor if outs else Tensor(_out(i), (*outer, rows, columns), result_type(value, acc, kind), dense)
        for i, value in enumerate(values or (None,))
    ]
    spec = MatMul(left.tensor, right.tensor, made[0])
    kernel = _kernel(spec, values, tuple(made[1:]), schedule, sorted(known[name] for name in numbers))
    named = {"a": left.array, "b": right.array, **{known[name]: x.array for name, x in extra.items()}}
    names = [p.name for p in kernel.interface.inputs]
    order = tuple(list(named).index(name) for name in names)
    inputs = tuple(named[name] for name in names)
    written_to = tuple(x.array for x in written)
    stored = [p.name for p in kernel.interface.outputs]
    assert stored == [x.name for x in made]
    given = {known[name]: x for name, x in numbers.items()}
    several = isinstance(out, tuple | list) or len(values) > 1
    target = None if out is None else written_to if several else written_to[0]
    return Call(kernel, inputs, order, target, given, tuple(numbers), shape)


def _read(x: Any) -> Any:
    """View an operand as kernels read it: one number without dims is a vector, and booleans are bytes."""
    if getattr(x, "shape", None) == ():
        x = x.reshape(1)
    if str(getattr(x, "dtype", "")).removeprefix("torch.") != "bool":
        return x
    return x.view(import_module("torch").uint8 if is_torch(x) else "uint8")


def _out(number: int) -> str:
    """Name an output of the epilog, for the kernel and for messages."""
    return "out" if not number else f"out{number}"


def result_type(value: Value | None, acc: DType, kind: DType) -> DType:
    """Choose an output's type: the type that the epilog converts to, else a's type (i32 for integers)."""
    return default_result(kind) if value is None or value.dtype == acc else value.dtype


def _names(operands: Mapping[str, Any]) -> dict[str, str]:
    """Give each operand a name in the kernel: its own, unless the kernel uses that name for something else."""
    found: dict[str, str] = {}
    taken = {"a", "b", *map(_out, range(MOST_OUTPUTS)), *operands}
    for name in operands:
        mine = name
        if not fits(name, keyword=True) or name in ("a", "b") or name.startswith("out"):
            mine = next(new for n in itertools.count() if (new := f"operand{n or ''}_{len(found)}") not in taken)
        taken.add(mine)
        found[name] = mine
    return found


def _kernel(
    spec: MatMulChain,
    values: tuple[Value, ...],
    beside: tuple[Tensor, ...],
    schedule: Scheduler | None,
    numbers: Sequence[str],
) -> CompiledKernel | HostKernel:
    """Find or compile the kernel of a product. A schedule function without a fingerprint is called again each time."""
    from fireiron.atoms.table import rows

    does = None if schedule is None else fingerprint(schedule)
    made: Schedule | None = None
    key: tuple[Any, ...] = (spec.matmul, values, beside, does, rows(), *numbers)
    if schedule is not None and does is None:
        made = _scheduled(schedule, _followed(spec, values, beside))
        key = (*key, digest(made.program, made.links, made.name))
    found = _kernels.get(key)
    if found is None:
        if len(_kernels) >= MOST_KERNELS:
            _kernels.clear()
        found = _kernels[key] = _compiled(_followed(spec, values, beside), schedule, made)
    return found


def _compiled(spec: MatMulChain, schedule: Scheduler | None, made: Schedule | None) -> CompiledKernel | HostKernel:
    if made is None and schedule is not None:
        made = _scheduled(schedule, spec)
    return compiled(spec, made)


def _scheduled(schedule: Scheduler, spec: MatMulChain) -> Schedule:
    made = cast(object, asked(schedule, spec, said="schedule"))
    if not isinstance(made, Schedule) or kind_in(made).spec is not specs.MatMul:
        raise CallError(
            "bad-schedule", f"schedule= gives {shown(made)}", fix="return what the spec's chain gives: simt.sgemm"
        )
    return made


def _followed(spec: MatMulChain, values: tuple[Value, ...], beside: tuple[Tensor, ...]) -> MatMulChain:
    """Append an epilog's expressions to a product: the first is stored to C, the others to further outputs."""
    if not values:
        return spec
    acc = default_accumulator(spec.matmul.A.dtype)
    first, *others = (Known(value, acc) for value in values)
    return spec.then(*(save(tensor, of=op) for tensor, op in zip(beside, others, strict=True)), first)


def described(x: Any, name: str) -> ArrayFacts:
    """Describe an array.

    Raises:
        CallError: `requires-grad`, `not-an-array`, `wrong-device`.
    """
    from fireiron.jit.arrays import describe

    if is_torch(x) and x.requires_grad:
        import torch  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        if cast("Any", torch).is_grad_enabled():
            raise CallError(
                "requires-grad",
                f"{name} requires a gradient, and no gradient goes through this kernel",
                fix=f"pass {name}.detach(), or call under torch.no_grad()",
            )
    return describe(x, name)


def _shape(a: ArrayFacts, b: ArrayFacts) -> tuple[int, ...]:
    """Return the product's shape.

    Raises:
        CallError: `wrong-shape`.
    """
    rows, columns = a.shape[:-1], b.shape[-1:]
    fine = len(a.shape) >= 2 and len(b.shape) >= 2 and a.shape[-1] == b.shape[-2]
    if not fine or (len(b.shape) > 2 and b.shape[:-2] != a.shape[:-2]):
        raise CallError(
            "wrong-shape",
            f"a has the shape {a.shape} and b {b.shape}",
            fix="give (..., M, K) and (..., K, N) of the same leading dimensions, or b of none",
        )
    return (*rows, *columns)


def _folds(x: ArrayFacts, lead: tuple[int, ...]) -> bool:
    """Say whether one stride leads from each row to the next, through all batches."""
    extents, strides = x.shape[: len(lead) + 1], x.strides[: len(lead) + 1]
    return x.strides[-1] == 1 and all(
        n == 1 or outer == inner * extent
        for n, outer, inner, extent in zip(extents, strides, strides[1:], extents[1:], strict=False)
    )


def _matrices(x: Any, facts: ArrayFacts, name: str, shape: tuple[int, ...], dtype: DType | None = None) -> _Matrices:
    """View an array as a matrix, or as one batch of matrices.

    Raises:
        CallError: `wrong-stride` where this would need a copy.
    """
    strides, kind = facts.strides, dtype or find_dtype(facts.dtype)
    if len(facts.shape) != len(shape) or facts.shape != shape:
        if len(facts.shape) == 2:  # one matrix for all batches
            return _lying(_repeated(x, shape), name, shape, (0, *facts.strides), kind)
        step = _step(facts, len(facts.shape) - 2)
        if step is None:
            raise CallError(
                "wrong-stride",
                f"the leading dimensions of {name}, {facts.shape[:-2]} at strides {facts.strides[:-2]}, do not follow "
                "each other at one distance",
                fix="copy it first: contiguous()",
            )
        strides = (step, *facts.strides[-2:]) if len(shape) == 3 else facts.strides[-2:]
        x = x.reshape(shape)
    return _lying(x, name, shape, strides, kind)


def _step(facts: ArrayFacts, count: int) -> int | None:
    """Return the stride between neighbouring matrices of a batch; None where batch dimensions have no common stride."""
    extents, strides = facts.shape[:count], facts.strides[:count]
    for n, outer, inner, extent in zip(extents, strides, strides[1:], extents[1:], strict=False):
        if n != 1 and outer != inner * extent:
            return None
    return strides[count - 1] if count else 0


def _repeated(x: Any, shape: tuple[int, ...]) -> Any:
    """View one matrix as a batch that repeats it."""
    if is_torch(x):
        return x.expand(shape)
    if type(x).__module__.partition(".")[0] == "cupy":
        return import_module("cupy").broadcast_to(x, shape)
    import numpy as np

    return np.broadcast_to(x, shape)


def _lying(x: Any, name: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> _Matrices:
    """Describe a matrix with its strides; if its columns are contiguous, the kernel takes its transpose."""
    lines = tuple(s if n != 1 else 0 for n, s in zip(shape[-2:], strides[-2:], strict=True))
    if lines[1] not in (0, 1) and lines[0] not in (0, 1):
        raise CallError(
            "wrong-stride",
            f"neither rows nor columns of {name} are contiguous: strides {strides}",
            fix="copy it first: contiguous()",
        )
    tensor = Tensor(name, shape, dtype, strides)
    if tensor.storage == tuple(range(len(shape))):
        return _Matrices(x, tensor)
    return _Matrices(x.swapaxes(-1, -2), tensor)


def _trimmed(x: Any, shape: tuple[int, ...], rank: int) -> Any:
    """View an epilog's operand without leading dimensions of extent 1, and a number as a vector."""
    ones = next((i for i, n in enumerate(shape[:-2]) if n != 1), max(0, len(shape) - 2))
    if not shape or (ones and len(shape) <= rank):
        return x.reshape(shape[ones:] or (1,))
    return x


def _operand(x: Any, facts: ArrayFacts, name: str, lead: tuple[int, ...], flat: bool) -> _Matrices:
    """View an array that an epilog reads; it is broadcast over the product as in NumPy.

    An array that repeats along some of the leading dimensions is copied, because a kernel has one stride for all of
    them together.
    """
    own, behind = facts.shape[:-2], facts.shape[-2:]
    if own and not flat and broadcasts(own, lead):
        shape = (prod(lead), *behind)
        if own != lead or 0 in facts.strides[:-2]:
            x = _repeated(x, (*lead, *behind)).reshape(shape)
            facts = described(x, name)
        return _matrices(x, facts, name, shape)
    tensor = Tensor(name, facts.shape, find_dtype(facts.dtype), facts.strides)
    if len(facts.shape) < 2 or tensor.storage == tuple(range(len(facts.shape))):
        return _Matrices(x, tensor)
    return _Matrices(x.swapaxes(-1, -2), tensor)


def broadcasts(own: tuple[int, ...], lead: tuple[int, ...]) -> bool:
    """Say whether an array's leading dimensions are broadcast over those of the product."""
    last = lead[len(lead) - len(own) :]
    return len(own) <= len(lead) and all(n in (1, full) for n, full in zip(own, last, strict=True))


def expressions_of(
    epilog: Epilogue | None,
    acc: DType,
    tensors: Mapping[str, Tensor],
    numbers: Mapping[str, type],
    known: Mapping[str, str],
) -> tuple[Value, ...]:
    """Call the epilog on expressions; return one expression for each output, none without an epilog.

    Operands are converted to the accumulator's type, except floats with an accumulator of integers: these stay f64 or
    become f32.

    Raises:
        CallError: `bad-epilog`. SpecError: as the language does.
    """
    if epilog is None:
        return ()
    given = {name: cast_to(read(t), beside(acc, t.dtype)) for name, t in tensors.items()}
    given |= {
        name: parameter(known[name], beside(acc, f32 if issubclass(x, float) else acc)) for name, x in numbers.items()
    }
    try:
        made = cast(object, epilog(accumulator(acc), **given))
    except TypeError as error:
        inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        raise CallError(
            "bad-epilog",
            f"the epilog fails: {error}" if inside else f"the epilog does not take its operands: {error}",
            fix="correct the call inside the epilog" if inside else "write lambda acc, bias: ..., and pass bias=...",
        ) from (error if inside else None)
    values = cast("tuple[object, ...]", made) if isinstance(made, tuple | list) else (made,)
    wrong = [x for x in values if not isinstance(x, Value)]
    if wrong or not 0 < len(values) <= MOST_OUTPUTS:
        returned = shown(wrong[0]) if wrong else f"{len(values)} values"
        raise CallError(
            "bad-epilog",
            f"the epilog returned {returned}",
            fix=f"return an expression of the accumulator, or a tuple of up to {MOST_OUTPUTS}",
        )
    return tuple(simplified(cast("Value", value)) for value in values)


def beside(acc: DType, kind: DType) -> DType:
    """Return the type to which an operand of the epilog is converted."""
    return acc if acc.kind == "float" or kind.kind != "float" else f64 if kind == f64 else f32


def check_options(epilog: object, options: Sequence[str]) -> None:
    """Refuse an epilog with a parameter that has the name of one of the call's options.

    Raises:
        CallError: `bad-epilog`.
    """
    try:
        found = list(inspect.signature(cast("Epilogue", epilog)).parameters.values())[1:]
    except (TypeError, ValueError):  # a function without a signature
        return
    for one in found:
        if one.name in options and one.default is one.empty:
            raise CallError(
                "bad-epilog",
                f"the epilog's parameter {one.name} has the name of an option of gemm",
                fix=f"call it {one.name}_, and pass {one.name}_=...",
                link=here(),
            )


def _scalars(value: Value) -> tuple[str, ...]:
    return tuple(p.name for p in parameters(value.tree))
