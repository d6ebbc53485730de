"""Multiply arrays by the best schedule known: check the call, and find its kernel among those of earlier calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from fireiron.base.contract import refused
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.best import compiled, up_to_date
from fireiron.front.chain import MatMulChain
from fireiron.front.repeat import NUMBERS, Call, launches
from fireiron.front.verbs import Schedule
from fireiron.jit.arrays import is_torch
from fireiron.jit.kernel import as_tuple
from fireiron.language.storage_order import FIX, letters

if TYPE_CHECKING:
    from fireiron.algebra.dtypes import DType
    from fireiron.algebra.expr import Symbol
    from fireiron.front.repeat import Callee

MOST_KERNELS = 1024  # number of kernels that are kept
MOST_KEPT = 4096  # calls whose kernel is found by the arrays' shapes
PADDED = 16  # of a product without elements: what elements that share a byte fill


def forget() -> None:
    """Forget the kernels of earlier calls."""
    _kernel.cache_clear()
    _kernels.clear()
    launches.clear()


def gemm(
    a: Any,
    b: Any,
    /,
    *,
    epilog: Callable[..., Any] | None = None,
    out: Any = None,
    layout: str = "NN",
    dtype: object = None,
    stream: Any = None,
    schedule: Callable[[MatMulChain], Schedule] | None = None,
    dynamic: Literal["M"] | None = None,
    **operands: Any,
) -> Any:
    """Multiply two arrays with the best schedule known, and apply an epilog to the product before it is stored.

    The next call with torch tensors of the same shapes and strides, and functions that do the same, takes microseconds.
    Functions are compared by their code and the values that the code reads from outside. A function that reads values
    which can change without notice (lists, most objects) is called again each time.

    Args:
        a, b: arrays as the layout stores them, of torch, CuPy or NumPy, or views of them whose rows or columns are
            contiguous. Leading dimensions are batches; without leading dimensions, `b` serves all batches.
        epilog: a function from the accumulator's expression and `operands`, by name, to an expression, or to a tuple of
            expressions for as many outputs of the same kernel.
        out: array to write, or a tuple of arrays; allocated where None. An allocated array has the type that the epilog
            converts to, else a's type (i32 for integers).
        layout: how a and b are stored, as `matmul` takes it: "row,col" or "TN" for a[M, K] and b[N, K].
        dtype: element type of a and b, where the arrays' type does not tell it: `tf32` in f32; `i4`, `u4` and `b1` in
            bytes.
        stream: as a kernel takes it.
        schedule: a function from the spec to a schedule; the best schedule known where None.
        dynamic: "M" lets one kernel serve a bucket of numbers of rows (1 to 16, 17 to 32, 33 to 64, ...), so that
            another number of the bucket compiles nothing. The kernel is chosen for the largest. For two dense matrices
            without epilog.
        operands: what the epilog reads, by name: arrays that broadcast over the product, and numbers. Operands are
            converted to the accumulator's type, except floats with sums of integers. An array that has some of the
            leading dimensions, and repeats along others, is copied at each call. Names of this function's options (out,
            layout, ...) cannot be used.

    Raises:
        CallError: `requires-grad`, `wrong-shape`, `wrong-stride`, `bad-epilog`, `dynamic-call`, and as a kernel's call
            does.
        CheckError: `nothing-legal`.

    Example:
        >>> import numpy as np
        >>> from fireiron import relu
        >>> a, b, bias = np.ones((32, 16), np.float32), np.ones((16, 64), np.float32), np.full(64, -15, np.float32)
        >>> gemm(a, b)[0, 0].item()
        16.0
        >>> gemm(a, b, epilog=lambda acc, bias: relu(acc + bias), bias=bias)[0, 0].item()
        1.0
        >>> made, raw = gemm(a, b, epilog=lambda acc, bias: (relu(acc + bias), acc), bias=bias)
        >>> made[0, 0].item(), raw[0, 0].item()
        (1.0, 16.0)
    """
    if _traced():
        by_torch = _by_torch(a, b, out, stream, schedule, dynamic)
        return by_torch(a, b, epilog=epilog, layout=layout, dtype=dtype, **operands)
    arrays = (a, b, *[x for x in operands.values() if type(x) not in NUMBERS]) if operands else (a, b)
    up_to_date()
    said = layout if dynamic is None else f"{layout} for any {dynamic}"
    key = launches.key(arrays, out, said, dtype, (epilog, schedule), operands)
    if key is not None:
        launch = launches.find(key)
        if launch is not None:
            result = launch(arrays, out, stream, operands)
            if result is not None:
                return result
    layout = stored_letters(layout)
    if key is None:
        if out is stream is schedule is dynamic is None and any(map(_for_torch, arrays)):
            by_torch = _by_torch(a, b, out, stream, schedule, dynamic)
            return by_torch(a, b, epilog=epilog, layout=layout, dtype=dtype, **operands)
        _check_call(a, b, out, dtype, epilog, schedule)
        if 0 in (*a.shape, *b.shape):
            return _empty(a, b, out, layout, dtype, epilog, stream, schedule, operands)
    plain = epilog is None and schedule is None and not operands and not _is_view(a, b, out, dtype)
    if dynamic is not None:
        from fireiron.front.dynamic import check_dynamic

        check_dynamic(dynamic, plain)
    if not plain:
        from fireiron.front import fused

        call = fused.prepared(a, b, epilog, out, layout, dtype, schedule, operands)
    else:
        wanted = None if out is None else out.dtype
        kernel = _kernels.get((layout, dtype, a.dtype, a.shape, b.shape, wanted, dynamic))
        call = Call(kernel or _prepared(a, b, out, layout, dtype, dynamic), (a, b), (0, 1), out, {})
    made = call.kernel(*call.inputs, out=call.out, stream=stream, **call.numbers)
    result = call.shaped(made) if out is None else out
    if key is not None:
        launches.keep(key, arrays, call, made, result)
    return result


def _traced() -> bool:
    """Say whether torch.compile or torch.export is tracing the call, so that arrays have no contents."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return compiler is not None and compiler.is_compiling()


def _for_torch(array: Any) -> bool:
    """Say whether a tensor needs torch's dispatcher: it needs a gradient, lies on the CPU, or has no contents."""
    if not is_torch(array):
        return False
    torch = sys.modules["torch"]
    return not array.is_cuda or (array.requires_grad and torch.is_grad_enabled()) or hasattr(array, "fake_mode")


def _by_torch(a: Any, b: Any, out: Any, stream: Any, schedule: Any, dynamic: Any) -> Callable[..., Any]:
    """Return the operator of torch that multiplies; refuse options that it does not have.

    Raises:
        CallError: `traced-option`.
    """
    from fireiron.front.torch_ops import gemm as by_torch
    from fireiron.front.torch_ops import refuse

    given = [
        name
        for name, x in (("out", out), ("stream", stream), ("schedule", schedule), ("dynamic", dynamic))
        if x is not None
    ]
    if given:
        refuse(given[0])
    return by_torch


OPTIONS = (
    "epilog",
    "out",
    "layout",
    "dtype",
    "stream",
    "schedule",
    "dynamic",
)  # options of gemm; other keywords are operands


def stored_letters(layout: object) -> str:
    """Read a layout as two letters, of b and of a.

    Raises:
        CallError: `argument-kind`, `bad-layout`.
    """
    if not isinstance(layout, str):
        raise refused("layout=", ("a text", "one of NN, NT, TN, TT in quotes"), layout, CallError)
    try:
        return letters(layout)
    except ValueError as error:
        raise CallError("bad-layout", str(error), fix=FIX, link=here()) from None


def _check_call(a: Any, b: Any, out: Any, dtype: object, *functions: object) -> None:
    """Refuse arguments that should be arrays, element types or functions, and are not.

    Raises:
        CallError: `requires-grad`, `not-an-array`, `argument-kind`. SpecError: `unknown-dtype`.
    """
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.front.fused import check_options, described

    if callable(functions[0]):
        check_options(functions[0], OPTIONS)
    outs = () if out is None else (out,)  # an empty list is no array either
    try:
        for x, name in ((a, "a"), (b, "b"), *((x, "out") for x in as_tuple(out) or outs)):
            facts = described(x, name)
            if any(step < 0 for step in facts.strides):
                raise CallError(
                    "wrong-stride",
                    f"{name} has element strides {facts.strides}: kernels take no negative strides",
                    fix=f"pass {name}.copy()",
                )
        if dtype is not None:
            find_dtype(dtype)
    except FireironError as error:
        raise error.located(here()) from None
    for name, function in zip(("epilog=", "schedule="), functions, strict=True):
        if function is not None and not callable(function):
            raise refused(name, ("a function", "a function"), function, CallError)


def _empty(
    a: Any,
    b: Any,
    out: Any,
    layout: str,
    dtype: object,
    epilog: Callable[..., Any] | None,
    stream: Any,
    schedule: Callable[[MatMulChain], Schedule] | None,
    operands: Mapping[str, Any],
) -> Any:
    """Multiply arrays without elements: each sum over no K is 0, and a product without rows or columns is empty."""
    from fireiron.algebra.dtypes import default_result
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.jit.arrays import describe

    rows, depth = (-1, -2) if layout[1:] == "T" else (-2, -1)
    above, columns = (-1, -2) if layout[:1] == "T" else (-2, -1)
    shapes = tuple(a.shape), tuple(b.shape)
    if min(map(len, shapes)) < 2 or shapes[0][depth] != shapes[1][above]:
        raise CallError(
            "wrong-shape", f"a has the shape {shapes[0]} and b {shapes[1]}", fix="give them one K", link=here()
        )
    shape = (*shapes[0][:-2], shapes[0][rows], shapes[1][columns])
    for one in as_tuple(out):
        if tuple(one.shape) != shape:
            raise CallError(
                "wrong-shape",
                f"out has the shape {tuple(one.shape)}, the product {shape}",
                fix="give them one shape",
                link=here(),
            )
    if 0 in shape and out is not None:
        return out
    if 0 not in shape or epilog is not None:  # computed on zeros, of which no element is returned

        def zeros(x: Any) -> Any:
            return x if 0 not in getattr(x, "shape", ()) else _zeros(x, tuple(n or PADDED for n in x.shape))

        made = gemm(
            zeros(a), zeros(b), epilog=epilog, out=out, layout=layout, dtype=dtype, stream=stream,
            schedule=schedule, **{name: zeros(x) for name, x in operands.items()},
        )  # fmt: skip
        kept = tuple(slice(n) for n in shape)
        if 0 not in shape:
            return made
        cut = tuple(x[kept] for x in as_tuple(made))
        return cut if isinstance(made, tuple) else cut[0]
    kind = default_result(find_dtype(describe(a, "a").dtype if dtype is None else dtype))
    return _zeros(a, shape, kind)


def _zeros(like: Any, shape: tuple[int, ...], dtype: DType | None = None) -> Any:
    """Make an array of zeros with the library and on the device of another array."""
    if is_torch(like):
        kind = like.dtype if dtype is None else getattr(import_module("torch"), dtype.numpy_name)
        return like.new_zeros(shape, dtype=kind)
    space = like.__array_namespace__() if hasattr(like, "__array_namespace__") else import_module("numpy")
    return space.zeros(shape, dtype=like.dtype if dtype is None else dtype.numpy)


def _is_view(a: Any, b: Any, out: Any, dtype: object) -> bool:
    """Say whether an array is no dense row-major matrix or batch of matrices, so that views must be described."""
    from fireiron.algebra.dtypes import dtype as find_dtype

    if dtype is not None and find_dtype(dtype).packed:
        return False
    for x in (a, b) if out is None else (a, b, out):
        contiguous = getattr(x, "is_contiguous", None)
        flags = getattr(x, "flags", None)
        dense = contiguous() if contiguous is not None else flags is None or bool(flags.c_contiguous)
        if not dense or getattr(x, "requires_grad", False):
            return True
    rank = len(getattr(a, "shape", ()))
    return rank > 3 or rank != len(getattr(b, "shape", ()))


_kernels: dict[Any, Callee] = {}


def _prepared(a: Any, b: Any, out: Any, layout: str, dtype: object, dynamic: str | None) -> Callee:
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.base.errors import CallError
    from fireiron.jit.arrays import describe

    facts = describe(a, "a"), describe(b, "b")
    ranks = {len(x.shape) for x in facts}
    if ranks not in ({2}, {3}):
        raise CallError(
            "wrong-shape",
            f"a has the shape {facts[0].shape} and b {facts[1].shape}",
            fix="give two matrices, or two batches of them",
        ).located(here())
    try:
        kind = find_dtype(facts[0].dtype if dtype is None else dtype)
    except FireironError as error:
        raise error.located(here()) from None
    # Several elements share a byte along the last axis.
    first, second = ((*x.shape[:-1], x.shape[-1] * kind.pack) for x in facts)
    m, k = first[-2:] if layout[1:] != "T" else first[:-3:-1]
    n = second[-1] if layout[:1] != "T" else second[-2]
    batch = facts[0].shape[0] if ranks == {3} else None
    wanted = None if out is None else describe(out, "out").dtype
    kernel = _kernel(_rows_of(m, dynamic), n, k, kind.name, wanted, layout, batch)
    if len(_kernels) >= MOST_KEPT:
        _kernels.clear()
    _kernels[layout, dtype, a.dtype, a.shape, b.shape, None if out is None else out.dtype, dynamic] = kernel
    return kernel


def _rows_of(m: int, dynamic: str | None) -> int | Symbol:
    if dynamic is None:
        return m
    from fireiron.front.dynamic import bucket

    return bucket(m)


@lru_cache(maxsize=MOST_KERNELS)
def _kernel(m: int | Symbol, n: int, k: int, dtype: str, out: str | None, layout: str, batch: int | None) -> Callee:
    from fireiron.front.several import compiled_for
    from fireiron.front.spec import matmul

    spec = matmul(m, n, k, dtype, out=out, layout=layout, batch=batch)
    return compiled_for(spec) or compiled(spec)
