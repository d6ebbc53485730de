"""Products with epilogs for JAX: foreign functions of XLA, with gradients by `jax.custom_vjp`; simulated on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.epilog_gradients import gradients, keeping, keeps, reads_product, results
from fireiron.front.epilog_text import NUMBER, text_of
from fireiron.front.fused import broadcasts
from fireiron.front.jax_calls import foreign
from fireiron.front.xla_gemm import HANDLERS, TARGET, attributes
from fireiron.language.storage_order import letters

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")


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
    """Multiply arrays of JAX as `fireiron.gemm` does, also under `jax.jit`, `jax.grad` and `jax.vmap`.

    Args:
        a, b: arrays.
        epilog: as `fireiron.gemm` takes it.
        layout: as `fireiron.gemm` takes it.
        dtype: name of the element type, where the arrays' type does not tell it: `"tf32"`.
        operands: arrays and numbers that the epilog reads.

    Raises:
        CallError: `wrong-shape`, `bad-epilog`; `requires-grad` for integers. SpecError: `no-derivative`. Errors of a
            kernel's call become errors of JAX, with the code in their text.
    """
    try:
        stored = letters(layout)
        left, right = _turned(a, stored[1] == "T"), _turned(b, stored[0] == "T")
        if min(a.ndim, b.ndim) < 2 or left[-1] != right[-2]:
            raise CallError("wrong-shape", f"a has the shape {left} and b {right}", fix="give them one K")
        arrays: dict[str, Any] = {name: _spread(x, left[:-2]) for name, x in operands.items() if hasattr(x, "shape")}
        numbers: dict[str, float] = {name: x for name, x in operands.items() if name not in arrays}
        kind = find_dtype(a.dtype.name if dtype is None else dtype)
        text = "" if epilog is None else text_of(
            epilog, tuple((name, x.dtype.name) for name, x in arrays.items()),
            tuple((name, type(x)) for name, x in numbers.items()), kind.name,
        )  # fmt: skip
        made = _gemm(
            _Told(text, stored, dtype, tuple(map(float, numbers.values())), kind), a, b, tuple(arrays.values())
        )
    except FireironError as error:
        raise error.located(here()) from None
    return made[0] if len(made) == 1 else made


def _spread(x: Any, lead: tuple[int, ...]) -> Any:
    """Repeat an operand that has some of the product's leading dimensions along the others, by JAX."""
    own = x.shape[:-2]
    if any(n != 1 for n in own) and own != lead and broadcasts(own, lead):
        return jnp.broadcast_to(x, (*lead, *x.shape[-2:]))
    return x.reshape(x.shape or (1,))


@attrs.frozen
class _Told:
    """Hold a call's arguments that are no arrays.

    Args:
        epilog: as `text_of` writes it; empty where there is none.
        layout: two letters, of b and of a.
        dtype: name of the element type, where the arrays' type does not tell it.
        numbers: numbers that the epilog reads.
        kind: the element type of a and b.
    """

    epilog: str
    layout: str
    dtype: str | None
    numbers: tuple[float, ...]
    kind: DType


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gemm(told: _Told, a: Any, b: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Multiply, and return all outputs of the epilog."""
    left, right = _turned(a, told.layout[1] == "T"), _turned(b, told.layout[0] == "T")
    kinds = results(told.epilog, told.kind)
    given = attributes(told.epilog, told.layout, told.dtype, told.numbers)
    shape = (*left[:-1], right[-1])
    return foreign(TARGET, HANDLERS, [(shape, one.numpy) for one in kinds], a, b, *operands, told=given)


def _keep(told: _Told, a: Any, b: Any, operands: tuple[Any, ...]) -> Any:
    """Multiply and keep what gradients read: if they read the product, it becomes one more output.

    Raises:
        CallError: `requires-grad`. SpecError: `no-derivative`.
    """
    if told.kind.kind == "int":
        raise CallError("requires-grad", "products of integers have no gradient", fix="use jax.lax.stop_gradient")
    more = told.epilog != "" and not keeps(told.epilog) and reads_product(told.epilog, len(operands))
    given = a.value, b.value, tuple(x.value for x in operands)
    made = _gemm(attrs.evolve(told, epilog=keeping(told.epilog)) if more else told, *given)
    product = made[-1] if more or keeps(told.epilog) else None
    # () and None have no values, so they say while the call is traced whose gradient is needed.
    needed = tuple(() if x.perturbed else None for x in (a, b, *operands))
    return made[:-1] if more else made, (*given, product, needed)


def _gradients(told: _Told, kept: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the gradients of a, b and the epilog's arrays; those of a and b are two more products."""
    a, b, operands, product, needed = kept
    of_a, of_b, *wanted = (one is not None for one in needed)
    given = [None if isinstance(x, jax.custom_derivatives.SymbolicZero) else x for x in cotangents]
    named = {f"{NUMBER}{i}": x for i, x in enumerate(told.numbers)}
    slope, by = gradients(told.epilog, told.kind, _Jax(), product, operands, named, given, wanted)
    by_operand = tuple(None if g is None else g.astype(x.dtype) for g, x in zip(by, operands, strict=True))
    if slope is None:
        return None, None, by_operand
    g = slope.astype(a.dtype)
    return _of_a(told, g, a, b) if of_a else None, _of_b(told, g, a, b) if of_b else None, by_operand


def _of_a(told: _Told, g: Any, a: Any, b: Any) -> Any:
    """Return a's gradient, as a is stored: the product's gradient times b transposed."""
    turned_a, turned_b = told.layout[1] == "T", told.layout[0] == "T"
    if turned_a and b.ndim == a.ndim:
        return _product(told, b, turned_b, g, True)
    made = _product(told, g, False, b, not turned_b)
    return made.swapaxes(-1, -2) if turned_a else made


def _of_b(told: _Told, g: Any, a: Any, b: Any) -> Any:
    """Return b's gradient, as b is stored: a transposed times the product's gradient."""
    turned_a, turned_b = told.layout[1] == "T", told.layout[0] == "T"
    if b.ndim < a.ndim:  # b serves all batches, so that its gradient is one product of the rows of all batches
        a = a.swapaxes(-1, -2) if turned_a else a
        a, g, turned_a = a.reshape(-1, a.shape[-1]), g.reshape(-1, g.shape[-1]), False
    return _product(told, g, True, a, turned_a) if turned_b else _product(told, a, not turned_a, g, False)


def _product(told: _Told, x: Any, turn_x: bool, y: Any, turn_y: bool) -> Any:
    """Multiply two arrays, each as it is stored or transposed."""
    layout = ("T" if turn_y else "N") + ("T" if turn_x else "N")
    return _gemm(_Told("", layout, told.dtype, (), told.kind), x, y, ())[0]


def _turned(x: Any, turn: bool) -> tuple[int, ...]:
    """Return a shape, with its last two dims exchanged if `turn`."""
    return (*x.shape[:-2], x.shape[-1], x.shape[-2]) if turn and x.ndim >= 2 else tuple(x.shape)


class _Jax:
    """The functions of JAX that gradients of epilogs need."""

    def function(self, op: str) -> Callable[..., Any]:
        """Return JAX's function for the name of an operation."""
        names = {
            "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum", "min": "minimum",
            "lt": "less", "le": "less_equal", "eq": "equal", "pow": "power", "neg": "negative",
        }  # fmt: skip
        others = {"rsqrt": jax.lax.rsqrt, "erf": jax.lax.erf, "normcdf": jax.scipy.special.ndtr}
        return others[op] if op in others else getattr(jnp, names.get(op, op))

    def constant(self, value: float, dtype: DType, like: Any) -> Any:
        """Make a number an array."""
        return jnp.asarray(value, dtype.numpy)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Choose elements of x where a condition holds, else of y."""
        return jnp.where(condition, x, y)

    def cast(self, x: Any, dtype: DType) -> Any:
        """Convert an array."""
        return x.astype(dtype.numpy)

    def summed(self, x: Any, shape: Sequence[int]) -> Any:
        """Sum over the dims along which an array of this shape was broadcast."""
        x = x.sum(tuple(range(x.ndim - len(shape))))
        return x.sum(tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1), keepdims=True)


_gemm.defvjp(_keep, _gradients, symbolic_zeros=True)
