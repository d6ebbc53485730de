"""The operator `fireiron::gemm` of torch: a product with an epilog, which torch.compile and torch.export trace.

The operator takes the epilog as text, so that a graph holds the whole call. The gradients of a product are two more
products; the gradient of an epilog is derived from its expression. Tensors on the CPU are simulated. Only code that has
torch imports this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from numbers import Real
from typing import Any, cast

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.base.link import here
from fireiron.front import multiply
from fireiron.front.epilog_gradients import gradients as gradients_of
from fireiron.front.epilog_gradients import keeping, keeps, reads_product, results
from fireiron.front.epilog_text import NUMBER, function_of, operands_of, text_of
from fireiron.jit.kernel import as_tuple

torch: Any = import_module("torch")

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_levels: Any = import_module("torch.autograd.forward_ad")
_LACKS_NUMPY = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def dispatched(*tensors: Any) -> bool:
    """Say whether torch's dispatcher must make a call of these tensors (or None), or the operator's function may.

    It must where torch traces the call, transforms it (`torch.func`), watches it (dispatch modes) or differentiates it,
    for subclasses of tensors, and on the CPU, where the call is simulated. It takes some 10 us of each call.
    """
    return _watched(tensors) or _learns(tensors)


def _watched(tensors: Sequence[Any]) -> bool:
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or _levels._current_level >= 0:
        return True
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    return any(x is not None and (type(x) not in _PLAIN or not x.is_cuda) for x in tensors)


def _learns(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def routed(name: str, run: Callable[..., Any], *tensors: Any) -> Callable[..., Any]:
    """Return torch's operator of a name where the dispatcher must make a call of these tensors, else its function.

    Of operators in `LEARNED`, a call that torch only differentiates is a plain function of autograd, which costs the
    host less than an operator.
    """
    if _watched(tensors):
        return getattr(torch.ops.fireiron, name)
    return (LEARNED.get(name) or getattr(torch.ops.fireiron, name)) if _learns(tensors) else run


LEARNED: dict[str, Callable[..., Any]] = {}


def learned(name: str, run: Callable[..., Any], keep: Callable[..., None], gradient: Callable[..., Any]) -> None:
    """Make the function of autograd of an operator whose gradient has no gradient.

    Args:
        name: the operator's name.
        run: its function.
        keep: saves what the gradient needs in a context, given the inputs and the output.
        gradient: computes the gradients of the inputs, given the context and the output's gradients.
    """

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = run(*inputs)
        keep(ctx, inputs, output)
        return output

    once = torch.autograd.function.once_differentiable(gradient)
    made = type(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(once)})
    LEARNED[name] = made.apply


def gemm(
    a: Any,
    b: Any,
    /,
    *,
    epilog: Callable[..., Any] | None = None,
    layout: str = "NN",
    dtype: object = None,
    **operands: Any,
) -> Any:
    """Multiply tensors as `fireiron.gemm` does, by an operator that torch.compile traces and that has gradients.

    Args:
        a, b: tensors on one GPU, or on the CPU, where the product is simulated.
        epilog: as `fireiron.gemm` takes it. Under torch.compile the epilog may read numbers from outside, but no
            tensors.
        layout: as `fireiron.gemm` takes it.
        dtype: element type of a and b, where the tensors' type does not tell it: `"tf32"` for tensors of f32.
        operands: the tensors and numbers that the epilog reads, by name.

    Raises:
        CallError: as `fireiron.gemm` does.
    """
    stored = multiply.stored_letters(layout)
    tensors = {name: x for name, x in operands.items() if isinstance(x, torch.Tensor)}
    numbers = cast("dict[str, float]", {name: x for name, x in operands.items() if name not in tensors})
    check_tensors(a=a, b=b, **{name: x for name, x in numbers.items() if not isinstance(x, Real)})
    a = a.mT if stored[1] == "T" else a
    b = b.mT if stored[0] == "T" else b
    kind = (
        (dtype if isinstance(dtype, str) else _named(dtype))
        if dtype is not None
        else str(a.dtype).removeprefix("torch.")
    )
    kinds = tuple((name, str(x.dtype).removeprefix("torch.")) for name, x in tensors.items())
    text = "" if epilog is None else _text(epilog, kinds, tuple((name, type(x)) for name, x in numbers.items()), kind)
    needs = torch.is_grad_enabled() and any(x.requires_grad for x in (a, b, *tensors.values()))
    keep = needs and text != "" and _reads_product(text, len(tensors))
    made = routed("gemm", _run, a, b, *tensors.values())(
        a, b, list(tensors.values()), [float(x) for x in numbers.values()], _keeping(text) if keep else text, kind
    )
    given = tuple(made[:-1]) if keep else tuple(made)
    return given[0] if len(given) == 1 else given


def is_tensor(x: object) -> bool:
    """Say whether a value is a tensor of torch."""
    return isinstance(x, torch.Tensor)


def check_tensors(**given: object) -> None:
    """Refuse values that are no tensors.

    Raises:
        CallError: `not-an-array`.
    """
    for name, x in given.items():
        if not is_tensor(x):
            raise CallError(
                "not-an-array",
                f"{name} is a {type(x).__name__}, and a call with tensors of torch takes tensors",
                fix=f"give a tensor: torch.as_tensor({name})",
                link=here(),
            )


@torch.compiler.assume_constant_result
def _named(dtype: object) -> str:
    """Return an element type's name."""
    return find_dtype(dtype).name


_text = torch.compiler.assume_constant_result(text_of)


@torch.compiler.assume_constant_result
def refuse(option: str) -> None:
    """Refuse an option while torch.compile traces; torch runs this function instead of tracing it.

    Raises:
        CallError: `traced-option`.
    """
    raise CallError(
        "traced-option",
        f"torch.compile traces gemm as an operator, which takes no {option}=",
        fix=f"drop {option}=, or call gemm outside the compiled function",
    )


_reads_product = torch.compiler.assume_constant_result(reads_product)
_keeping = torch.compiler.assume_constant_result(keeping)


def _run(a: Any, b: Any, operands: Sequence[Any], numbers: Sequence[float], epilog: str, dtype: str) -> list[Any]:
    kind = None if dtype == str(a.dtype).removeprefix("torch.") else dtype
    function = function_of(epilog) if epilog else None
    if a.device.type == "cuda":
        made = multiply.gemm(a, b, epilog=function, dtype=kind, **operands_of(epilog, operands, numbers))
    else:
        given = operands_of(epilog, [as_numpy(x) for x in operands], numbers)
        made = multiply.gemm(as_numpy(a), as_numpy(b), epilog=function, dtype=kind, **given)
        made = tuple(map(as_torch, as_tuple(made)))
    return list(as_tuple(made))


def _fake(a: Any, b: Any, operands: Sequence[Any], numbers: Sequence[float], epilog: str, dtype: str) -> list[Any]:
    kind = find_dtype(dtype)
    torch._check(a.dim() >= 2 and b.dim() >= 2 and a.shape[-1] == b.shape[-2])
    shape = (*a.shape[:-1], b.shape[-1])
    return [a.new_empty(shape, dtype=_torch_type(result)) for result in results(epilog, kind)]


def _torch_type(kind: DType) -> Any:
    return getattr(torch, kind.numpy_name)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Any]) -> None:
    a, b, operands, numbers, epilog, dtype = inputs
    ctx.numbers, ctx.epilog, ctx.dtype = list(numbers), epilog, dtype
    kept = [output[-1]] if keeps(epilog) else []
    ctx.keeps, ctx.count = bool(kept), len(operands)
    ctx.save_for_backward(a, b, *operands, *kept)


def _backward(context: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of a product: of the epilog by derivatives of its expression, of a and b by two products."""
    a, b, *rest = context.saved_tensors
    operands = rest[: context.count]
    kind = find_dtype(context.dtype)
    if kind.kind == "int":
        raise CallError("requires-grad", "products of integers have no gradient", fix="call detach() on the tensors")
    product = rest[-1] if context.keeps else None
    named = {f"{NUMBER}{i}": x for i, x in enumerate(context.numbers)}
    by_product, by_operand = gradients_of(
        context.epilog, kind, _Torch(), product, operands, named, gradients, context.needs_input_grad[2]
    )
    back = [None if g is None else g.to(x.dtype) for g, x in zip(by_operand, operands, strict=True)]
    # torch takes None, or an empty list, for the gradients of a list of numbers.
    others: Any = (None if context.numbers else [], None, None)
    if by_product is None:
        return None, None, back, *others
    g = by_product.to(a.dtype)
    by_a = _product(g, b.mT, context.dtype) if context.needs_input_grad[0] else None
    by_b = None
    if context.needs_input_grad[1]:
        one = b.dim() == 2
        rows = prod(a.shape[:-1])  # not -1: torch cannot tell the rows of an array without elements
        left = a.reshape(rows, a.shape[-1]) if one else a
        by_b = _product(left.mT, g.reshape(rows, g.shape[-1]) if one else g, context.dtype)
    return by_a, by_b, back, *others


def _product(a: Any, b: Any, dtype: str) -> Any:
    return torch.ops.fireiron.gemm(a, b, [], [], "", dtype)[0]


class _Torch:
    """The functions of torch that gradients of epilogs need."""

    def function(self, op: str) -> Callable[..., Any]:
        """Return torch's function for the name of an operation."""
        return torch_function({"max": "maximum", "min": "minimum"}.get(op, op))

    def constant(self, value: float, dtype: DType, like: Any) -> Any:
        """Make a number a tensor."""
        return torch.full((), value, dtype=_torch_type(dtype), device=like.device)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Choose elements of x where a condition holds, else of y."""
        return torch.where(condition, x, y)

    def cast(self, x: Any, dtype: DType) -> Any:
        """Convert a tensor."""
        return x.to(_torch_type(dtype))

    def summed(self, x: Any, shape: Sequence[int]) -> Any:
        """Sum over the dims along which a tensor of this shape was broadcast."""
        return x.sum_to_size(shape)


def torch_function(op: str) -> Any:
    """Return torch's function of one value for the name of an operation."""
    return torch.special.ndtr if op == "normcdf" else getattr(torch, op)


def as_numpy(tensor: Any) -> Any:
    """View a tensor on the CPU as a NumPy array; bf16 and 8-bit floats become types of ml_dtypes."""
    if tensor.layout != torch.strided:
        said = f"a tensor is {str(tensor.layout).removeprefix('torch.')}, and kernels read dense tensors"
        raise CallError("wrong-stride", said, fix="convert it: x.to_dense()", link=here())
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
