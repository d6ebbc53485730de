"""Products with epilogs as an operator of torch: torch.compile and torch.export trace it, and gradients go through it.

`fireiron::gemm` takes the epilog as text, so that a graph holds all of it. Its gradients are two more products; that of
an epilog is derived from its expression. Tensors on the CPU are simulated. This file is imported where torch is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from fireiron.algebra.derivative import derivative, is_zero
from fireiron.algebra.dtypes import DType, default_accumulator, default_result
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
    parts,
)
from fireiron.algebra.written import read, write
from fireiron.base.errors import CallError
from fireiron.front import best
from fireiron.front.epilog_text import NUMBER, function_of, operands_of, text_of
from fireiron.jit.kernel import as_tuple
from fireiron.language.storage_order import letters

torch: Any = import_module("torch")

_LACKS_NUMPY = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def gemm(
    a: Any,
    b: Any,
    /,
    *,
    epilog: Callable[..., Any] | None = None,
    layout: str = "NN",
    dtype: str | None = None,
    **operands: Any,
) -> Any:
    """Multiply tensors as `fireiron.gemm` does, by an operator that torch.compile traces and autograd knows.

    Args:
        a, b: tensors on one GPU, or on the CPU, where the product is simulated.
        epilog: as `fireiron.gemm` takes it. Under torch.compile it may read numbers from outside, but no tensors.
        layout: as `fireiron.gemm` takes it.
        dtype: the name of an element type, where the tensors do not say it: `"tf32"`.
        operands: what the epilog reads: tensors, and numbers.

    Raises:
        CallError: as `fireiron.gemm` does.
    """
    stored = letters(layout)
    a = a.mT if stored[1] == "T" else a
    b = b.mT if stored[0] == "T" else b
    tensors = {name: x for name, x in operands.items() if isinstance(x, torch.Tensor)}
    numbers = {name: x for name, x in operands.items() if name not in tensors}
    kind = dtype or str(a.dtype).removeprefix("torch.")
    text = "" if epilog is None else _text(epilog, tuple(tensors), tuple(numbers), kind)
    needs = torch.is_grad_enabled() and any(x.requires_grad for x in (a, b, *tensors.values()))
    keeps = needs and text != "" and _reads_product(text, len(tensors))
    made = torch.ops.fireiron.gemm(
        a, b, list(tensors.values()), [float(x) for x in numbers.values()], _keeping(text) if keeps else text, kind
    )
    results = tuple(made[:-1]) if keeps else tuple(made)
    return results[0] if len(results) == 1 else results


_text = torch.compiler.assume_constant_result(text_of)


@torch.compiler.assume_constant_result
def refuse(option: str) -> None:
    """Refuse an option: torch.compile runs this function, and cannot trace how an error is made.

    Raises:
        CallError: `traced-option`.
    """
    raise CallError(
        "traced-option",
        f"torch.compile traces gemm as an operator, which takes no {option}=",
        fix=f"drop {option}=, or call gemm outside the compiled function",
    )


@torch.compiler.assume_constant_result
def _reads_product(text: str, operands: int) -> bool:
    """Say whether gradients of an epilog are computed from the accumulator."""
    slopes = (derivative(tree, i) for tree in read(text) for i in range(operands + 1))
    return any(isinstance(part, Arg) and part.index == 0 for slope in slopes for part in parts(slope))


@torch.compiler.assume_constant_result
def _keeping(text: str) -> str:
    """Let an epilog also give the accumulator."""
    trees = read(text)
    acc = next(part.dtype for tree in trees for part in parts(tree) if isinstance(part, Arg) and part.index == 0)
    return write((*trees, Arg(0, acc)))


def _run(a: Any, b: Any, operands: Sequence[Any], numbers: Sequence[float], epilog: str, dtype: str) -> list[Any]:
    kind = None if dtype == str(a.dtype).removeprefix("torch.") else dtype
    function = function_of(epilog) if epilog else None
    if a.device.type == "cuda":
        made = best.gemm(a, b, epilog=function, dtype=kind, **operands_of(operands, numbers))
    else:
        given = operands_of([as_numpy(x) for x in operands], numbers)
        made = best.gemm(as_numpy(a), as_numpy(b), epilog=function, dtype=kind, **given)
        made = tuple(map(as_torch, as_tuple(made)))
    return list(as_tuple(made))


def _fake(a: Any, b: Any, operands: Sequence[Any], numbers: Sequence[float], epilog: str, dtype: str) -> list[Any]:
    kind = find_dtype(dtype)
    torch._check(a.dim() >= 2 and b.dim() >= 2 and a.shape[-1] == b.shape[-2])
    shape = (*a.shape[:-1], b.shape[-1])
    return [a.new_empty(shape, dtype=_torch_type(result)) for result in _results(epilog, kind)]


def _results(epilog: str, kind: DType) -> list[DType]:
    """List the outputs' element types, as `fireiron.gemm` chooses them."""
    usual, acc = default_result(kind), default_accumulator(kind)
    trees = read(epilog) if epilog else ()
    return [usual, *(tree.dtype if tree.dtype != acc else usual for tree in trees[1:])]


def _torch_type(kind: DType) -> Any:
    return getattr(torch, kind.numpy_name)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Any]) -> None:
    a, b, operands, numbers, epilog, dtype = inputs
    ctx.numbers, ctx.epilog, ctx.dtype = list(numbers), epilog, dtype
    trees = read(epilog) if epilog else ()
    kept = [output[-1]] if trees and isinstance(trees[-1], Arg) and trees[-1].index == 0 else []
    ctx.keeps, ctx.count = bool(kept), len(operands)
    ctx.save_for_backward(a, b, *operands, *kept)


def _backward(context: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    """Give the gradients of a product: of its epilog by derived expressions, of a and b by two more products."""
    a, b, *rest = context.saved_tensors
    operands = rest[: context.count]
    kind = find_dtype(context.dtype)
    if kind.kind == "int":
        raise CallError("requires-grad", "no gradient goes through integers", fix="detach() the tensors")
    acc = _torch_type(default_accumulator(kind))
    product = rest[-1].to(acc) if context.keeps else None
    arguments = [product, *(x.to(acc) for x in operands)]
    named = {f"{NUMBER}{i}": x for i, x in enumerate(context.numbers)}
    trees = read(context.epilog) if context.epilog else (Arg(0, default_accumulator(kind)),)
    by_product, by_operand = None, [None] * len(operands)
    for tree, gradient in zip(trees, gradients, strict=True):
        if gradient is None:
            continue
        for i in range(len(operands) + 1):
            if i and not context.needs_input_grad[2][i - 1]:
                continue
            slope = derivative(tree, i)
            if is_zero(slope):
                continue
            part = gradient.to(acc)
            part = part if slope == Constant(1.0, slope.dtype) else part * evaluate(slope, arguments, named, part)
            if i == 0:
                by_product = part if by_product is None else by_product + part
            else:
                part = part.sum_to_size(operands[i - 1].shape)
                by_operand[i - 1] = part if by_operand[i - 1] is None else by_operand[i - 1] + part
    back = [None if g is None else g.to(x.dtype) for g, x in zip(by_operand, operands, strict=True)]
    others: Any = (None if context.numbers else [], None, None)  # of numbers torch wants no list but an empty one
    if by_product is None:
        return None, None, back, *others
    g = by_product.to(a.dtype)
    by_a = _product(g, b.mT, context.dtype) if context.needs_input_grad[0] else None
    by_b = None
    if context.needs_input_grad[1]:
        one = b.dim() == 2
        left = a.reshape(-1, a.shape[-1]) if one else a
        by_b = _product(left.mT, g.reshape(-1, g.shape[-1]) if one else g, context.dtype)
    return by_a, by_b, back, *others


def _product(a: Any, b: Any, dtype: str) -> Any:
    return torch.ops.fireiron.gemm(a, b, [], [], "", dtype)[0]


def evaluate(tree: Scalar, arguments: Sequence[Any], numbers: Mapping[str, float], like: Any) -> Any:
    """Compute an expression of tensors by torch's own functions."""

    def value(x: Scalar) -> Any:
        return evaluate(x, arguments, numbers, like)

    match tree:
        case Arg(index):
            return arguments[index]
        case Constant(number):
            return torch.full((), number, dtype=_torch_type(tree.dtype), device=like.device)
        case Parameter(name):
            return torch.full((), numbers[name], dtype=_torch_type(tree.dtype), device=like.device)
        case Unary(op, x):
            return torch_function(op)(value(x))
        case Binary(op, x, y):
            found = getattr(torch, _BINARY.get(op, op))(value(x), value(y))
            return found.to(_torch_type(tree.dtype)) if op in ("lt", "le", "eq") else found
        case Select(condition, x, y):
            return torch.where(value(condition) != 0, value(x), value(y))
        case Cast(x, dtype):
            return value(x).to(_torch_type(dtype))
        case Debug(x=x):
            return value(x)
        case Custom() | Coordinate() | MultiplyAdd():
            raise AssertionError(tree)


def torch_function(op: str) -> Any:
    """Give torch's function of one value."""
    return torch.special.ndtr if op == "normcdf" else getattr(torch, op)


_BINARY = {"max": "maximum", "min": "minimum"}


def as_numpy(tensor: Any) -> Any:
    """View a tensor on the CPU as a NumPy array; bf16 and 8-bit floats become types of ml_dtypes."""
    name = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if name not in _LACKS_NUMPY:
        return tensor.numpy()
    return tensor.view(getattr(torch, _LACKS_NUMPY[name])).numpy().view(find_dtype(name).numpy)


def as_torch(array: Any) -> Any:
    """View a NumPy array as a tensor."""
    plain = _LACKS_NUMPY.get(array.dtype.name)
    if plain is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(plain)).view(getattr(torch, array.dtype.name))


_gemm = torch.library.custom_op(
    "fireiron::gemm",
    _run,
    mutates_args=(),
    schema="(Tensor a, Tensor b, Tensor[] operands, float[] numbers, str epilog, str dtype) -> Tensor[]",
)
_gemm.register_fake(_fake)
_gemm.register_autograd(_backward, setup_context=_setup)
