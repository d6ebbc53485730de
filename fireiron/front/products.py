"""Several products in one kernel: sums of MatMuls of one shape, and pointwise functions of these sums."""
# pyright: reportPrivateUsage=false
# Functions of links are methods of chains, in a file of their own.

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import asked, checked
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.base.text import count
from fireiron.check import links as rules
from fireiron.front import links
from fireiron.front.chain import FoldChain, ProductsChain, Strategy
from fireiron.front.state import link_of
from fireiron.language import programs
from fireiron.language.decompositions import Epilog, Output
from fireiron.language.levels import RF, Memory
from fireiron.language.pointwise import Value, read
from fireiron.language.residual import start, store_of
from fireiron.language.specs import task_of
from fireiron.language.tensor import Tensor

Pair: TypeAlias = tuple[Tensor, Tensor]


@link_of
def epilog(chain: ProductsChain, *, memory: Memory = RF, store: Strategy | None = None) -> Epilog:
    """Accumulate all sums in registers; then compute the outputs from the sums, and store.

    Raises:
        DecompositionError: `second-epilog`, `epilog-memory`, `load-level`.
    """
    spec = chain.products
    chain._check(rules.epilog, chain.residual, memory, spec.accumulator)
    stores: list[Output] = []
    for i, (value, out) in enumerate(zip(spec.values, spec.outs, strict=True)):
        move = store_of(chain.residual, memory, value.dtype, number=i)
        stores.append(Output(value, out, links.stored(chain, move, store)))
    *outputs, last = stores
    return Epilog(last.value, memory, spec.accumulator, 0.0, last.store, tuple(outputs), link=here())


def done(chain: ProductsChain, atom: object) -> None:
    """Refuse to close products without an epilog.

    Raises:
        DecompositionError: `no-epilog`.
    """
    if chain.residual.sums:
        raise chain._wrong(
            "no-epilog",
            f"no link places the sums of {chain.residual.short}",
            "add .epilog(memory=FR) below the tile to Block",
        )


@checked
def products(
    out: Tensor | tuple[Tensor, ...],
    *sums: Pair | Sequence[Pair],
    op: Callable[..., Value | tuple[Value, ...]] | None = None,
    acc: object = None,
    arch: str | None = None,
) -> ProductsChain:
    """Start a schedule of several products of one shape: outputs are pointwise functions of their sums.

    Args:
        out: the output, or a tuple of outputs.
        sums: for each accumulator a pair (A, B), or a list of pairs whose products are added; their K may differ.
        op: a function from the sums' expressions to those of the outputs; the identity by default for one sum. The
            names of the function's parameters become the names of the sums in the kernel.
        acc: the accumulators' element type; f32 for floats of 16 and fewer bits, i32 for integers by default.
        arch: the architecture (`"sm_80"`) whose rules links must obey at once.

    Raises:
        SpecError: `shape-mismatch`, `same-name`, `bad-op`, `unknown-dtype`, `no-products`.

    Example:
        >>> from fireiron import Matrix
        >>> x, h, y = Matrix(64, 96, name="x"), Matrix(64, 32, name="h"), Matrix(64, 128, name="y")
        >>> w, u = Matrix(96, 128, name="w"), Matrix(32, 128, name="u")
        >>> print(products(y, [(x, w), (h, u)]))
        MatMul(64, 128, 96|32)(5 GL)(Kernel)
          acc_0[m, n] = add over k0 of x[m, k0] * w[k0, n]
          acc_1[m, n] = add over k1 of h[m, k1] * u[k1, n]
          acc[m, n]   = acc_0[m, n] + acc_1[m, n]
          y[m, n]     = acc[m, n]
    """
    try:
        outs = out if isinstance(out, tuple) else (out,)
        listed = [_pairs(one) for one in sums]
        if not listed or not outs or not all(listed):
            raise SpecError("no-products", "a sum adds at least one product", fix="give pairs (A, B)")
        if op is None and len(listed) > 1:
            raise SpecError(
                "bad-op",
                f"products() has {len(listed)} sums and no op that combines them",
                fix="op=lambda x, y: ..., or one list of pairs whose products are added",
            )
        names = _names(op, len(listed))
        kind = None if acc is None else find_dtype(acc)
        made = tuple(programs.Sum(name, pairs) for name, pairs in zip(names, listed, strict=True))
        spec = programs.Products(made, (), outs, kind)
        spec = attrs.evolve(spec, values=_values(op, spec))
        program = task_of(spec, arch)
    except FireironError as error:
        raise error.located(here()) from None
    return FoldChain(program, (), start(spec))


def _pairs(one: Pair | Sequence[Pair]) -> tuple[Pair, ...]:
    if len(one) == 2 and all(isinstance(x, Tensor) for x in one):
        return (cast(Pair, tuple(one)),)
    return tuple(cast("Sequence[Pair]", one))


def _names(op: Callable[..., Any] | None, count: int) -> tuple[str, ...]:
    """Name the accumulators after the op's parameters."""
    plain = ("acc",) if count == 1 else tuple(f"acc{i}" for i in range(count))
    if op is None:
        return plain
    given = [p.name for p in inspect.signature(op).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return tuple(given[:count]) if len(given) >= count else plain


def _values(op: Callable[..., Value | tuple[Value, ...]] | None, spec: programs.Products) -> tuple[Value, ...]:
    sums = tuple(read(tensor) for tensor in spec.held)
    # The op is a user's function: nothing but this check holds it to its type.
    result = cast(object, sums[0] if op is None else asked(op, *sums, said="op"))
    values = cast("tuple[object, ...]", result if isinstance(result, tuple) else (result,))
    if len(values) != len(spec.outs) or not all(isinstance(v, Value) for v in values):
        raise SpecError(
            "bad-op",
            f"the op returned {_returned(values)} for {len(spec.outs)} outputs",
            fix="return an expression of the sums for each output",
        )
    return tuple(_sound(v, spec.accumulator) for v in values if isinstance(v, Value))


def _returned(values: tuple[object, ...]) -> str:
    """Describe, for an error, what an op returned."""
    wrong = [v for v in values if not isinstance(v, Value)]
    return repr(wrong[0]) if wrong else count(len(values), "expression")


def _sound(value: Value, kind: DType) -> Value:
    if value.dtype != kind:
        raise SpecError(
            "dtype-mismatch",
            f"the op gives {value.dtype}, and sums are {kind}",
            fix="compute in the sums' type: the store converts",
        )
    return value
