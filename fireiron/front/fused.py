"""Products of arrays with what follows them in one kernel, for those who have arrays and no wish to schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fireiron.algebra.dtypes import DType, default_accumulator, default_result
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import parameters
from fireiron.base.contract import asked, shown
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.best import compiled
from fireiron.front.digest import digest
from fireiron.front.fingerprint import fingerprint
from fireiron.front.matmul import MatMulChain
from fireiron.front.repeat import Call
from fireiron.front.spec import MatMul
from fireiron.language.pointwise import Value, accumulator, cast_to, expression, parameter, read, simplified
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.jit.arrays import ArrayFacts
    from fireiron.jit.kernel import CompiledKernel

MOST_KERNELS = 4096
Epilogue = Callable[..., Any]
Scheduler = Callable[[MatMulChain], MatMulChain]

_kernels: dict[Any, CompiledKernel] = {}


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
    """Prepare the product of any views of arrays, and what is computed pointwise with it; see `fireiron.gemm`."""
    try:
        return _prepared(a, b, epilog, out, layout, dtype, schedule, operands)
    except FireironError as error:
        raise error.located(here()) from None


class _Matrices(NamedTuple):
    """Hold an array as a matrix or one batch of them, as a kernel takes it, and how it lies."""

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
    arrays = {name: x for name, x in operands.items() if name not in numbers}
    beside = {name: described(x, name) for name, x in arrays.items()}
    shape = _shape(facts["a"], facts["b"])
    kind = find_dtype(facts["a"].dtype if dtype is None else dtype)
    if kind.packed:
        raise CallError(
            "bad-epilog",
            f"views and epilogues of {kind} are not supported by this call",
            fix="write the schedule: matmul(...)",
        )
    result = default_result(kind)
    if out is not None:
        facts["out"] = described(out, "out")
        result = find_dtype(facts["out"].dtype)
        if facts["out"].shape != shape:
            raise CallError(
                "wrong-shape", f"out has the shape {facts['out'].shape}, the product {shape}", fix="give them one shape"
            )
    lead, one = shape[:-2], len(facts["b"].shape) == 2
    rows, columns, depth = shape[-2], shape[-1], facts["a"].shape[-1]
    # With one B for all batches their rows follow each other, unless something else has rows or batches of its own.
    whole = one and all(_folds(x, lead) for x in (facts["a"], *([facts["out"]] if out is not None else [])))
    whole = whole and all(len(x.shape) < 2 or (len(x.shape) == 2 and x.shape[0] == 1 and lead) for x in beside.values())
    flat = not lead or whole
    batch = 1
    for extent in lead:
        batch *= extent
    if flat:
        rows, batch = rows * batch, 1
    outer: tuple[int, ...] = () if flat else (batch,)
    left = _matrices(a, facts["a"], "a", (*outer, rows, depth), kind)
    right = _matrices(b, facts["b"], "b", (*outer, depth, columns), kind)
    into = None if out is None else _matrices(out, facts["out"], "out", (*outer, rows, columns))
    dense = (columns, 1) if flat else (rows * columns, columns, 1)
    c = into.tensor if into is not None else Tensor("out", (*outer, rows, columns), result, dense)
    extra = {name: _operand(x, beside[name], name, lead, flat) for name, x in arrays.items()}
    spec = MatMul(left.tensor, right.tensor, c)
    acc = default_accumulator(kind)
    value = _expression(epilog, acc, {name: x.tensor for name, x in extra.items()}, numbers)
    read_ = () if value is None else tuple(t.name for t in value.tensors)
    unread = [name for name in (*extra, *numbers) if value is None or name not in (*read_, *_scalars(value))]
    if unread:
        raise CallError(
            "bad-epilog", f"the epilog does not read {unread[0]}", fix=f"drop {unread[0]}=..., or compute with it"
        )
    kernel = _kernel(spec, value, schedule, sorted(numbers))
    named = {"a": left.array, "b": right.array, **{name: x.array for name, x in extra.items()}}
    names = [p.name for p in kernel.interface.inputs]
    order = tuple(list(named).index(name) for name in names)
    inputs = tuple(named[name] for name in names)
    return Call(kernel, inputs, order, None if into is None else into.array, numbers, shape)


def _kernel(
    spec: MatMulChain, value: Value | None, schedule: Scheduler | None, numbers: Sequence[str]
) -> CompiledKernel:
    """Find or compile the kernel of a product; a schedule of which nothing is certain is made again."""
    does = None if schedule is None else fingerprint(schedule)
    made: MatMulChain | None = None
    key: tuple[Any, ...] = (spec.matmul, value, does, *numbers)
    if schedule is not None and does is None:
        made = _scheduled(schedule, _followed(spec, value))
        key = (*key, digest(made.program, made.links, made.name))
    found = _kernels.get(key)
    if found is None:
        if len(_kernels) >= MOST_KERNELS:
            _kernels.clear()
        found = _kernels[key] = _compiled(spec, value, schedule, made)
    return found


def _compiled(
    spec: MatMulChain, value: Value | None, schedule: Scheduler | None, made: MatMulChain | None
) -> CompiledKernel:
    if made is not None:
        return made.compile()
    return (
        compiled(_followed(spec, value)) if schedule is None else _scheduled(schedule, _followed(spec, value)).compile()
    )


def _scheduled(schedule: Scheduler, spec: MatMulChain) -> MatMulChain:
    made = cast(object, asked(schedule, spec, said="schedule"))
    if not isinstance(made, MatMulChain):
        raise CallError(
            "bad-schedule", f"schedule= gives {shown(made)}", fix="return what the spec's chain gives: simt.sgemm"
        )
    return made


def _followed(spec: MatMulChain, value: Value | None) -> MatMulChain:
    return spec if value is None else spec.then(lambda _: value)


def described(x: Any, name: str) -> ArrayFacts:
    """Describe an array.

    Raises:
        CallError: `requires-grad`, `not-an-array`, `wrong-device`.
    """
    from fireiron.jit.arrays import describe, is_torch

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
    """Give the product's shape.

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
    """Say whether the rows of all batches follow each other at one distance."""
    extents, strides = x.shape[: len(lead) + 1], x.strides[: len(lead) + 1]
    return x.strides[-1] == 1 and all(
        n == 1 or outer == inner * extent
        for n, outer, inner, extent in zip(extents, strides, strides[1:], extents[1:], strict=False)
    )


def _matrices(x: Any, facts: ArrayFacts, name: str, shape: tuple[int, ...], dtype: DType | None = None) -> _Matrices:
    """View an array as a matrix, or as one batch of them.

    Raises:
        CallError: `wrong-stride` where that takes a copy.
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
    """Give the one distance between matrices whose leading dimensions follow each other, None where there is none."""
    extents, strides = facts.shape[:count], facts.strides[:count]
    for n, outer, inner, extent in zip(extents, strides, strides[1:], extents[1:], strict=False):
        if n != 1 and outer != inner * extent:
            return None
    return strides[count - 1] if count else 0


def _repeated(x: Any, shape: tuple[int, ...]) -> Any:
    """View one matrix as a batch of it."""
    from fireiron.jit.arrays import is_torch

    if is_torch(x):
        return x.expand(shape)
    if type(x).__module__.partition(".")[0] == "cupy":
        return import_module("cupy").broadcast_to(x, shape)
    import numpy as np

    return np.broadcast_to(x, shape)


def _lying(x: Any, name: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> _Matrices:
    """Name a matrix by how it lies; a kernel takes one whose columns are contiguous as its transpose."""
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


def _operand(x: Any, facts: ArrayFacts, name: str, lead: tuple[int, ...], flat: bool) -> _Matrices:
    """View what an epilog reads; it broadcasts over the product as NumPy's arrays do."""
    if len(facts.shape) > 2 and not flat and facts.shape[:-2] == lead:
        batch = 1
        for extent in lead:
            batch *= extent
        return _matrices(x, facts, name, (batch, *facts.shape[-2:]))
    tensor = Tensor(name, facts.shape, find_dtype(facts.dtype), facts.strides)
    if len(facts.shape) < 2 or tensor.storage == tuple(range(len(facts.shape))):
        return _Matrices(x, tensor)
    return _Matrices(x.swapaxes(-1, -2), tensor)


def _expression(
    epilog: Epilogue | None, acc: DType, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]
) -> Value | None:
    """Call the epilog on expressions.

    Raises:
        CallError: `bad-epilog`. SpecError: as the language does.
    """
    if epilog is None:
        return None
    given = {name: cast_to(read(t), acc) for name, t in tensors.items()}
    given |= {name: parameter(name, acc) for name in numbers}

    def op(value: Value) -> Value:
        try:
            return cast("Value", epilog(value, **given))
        except TypeError as error:
            raise CallError(
                "bad-epilog",
                f"the epilog does not take its operands: {error}",
                fix="write lambda acc, bias: ..., and pass bias=...",
            ) from None

    op.__name__ = getattr(epilog, "__name__", "epilog")
    return simplified(expression((op,), accumulator(acc)))


def _scalars(value: Value) -> tuple[str, ...]:
    return tuple(p.name for p in parameters(value.tree))
