"""Chains of several products in one kernel: sums of MatMuls of one shape, and pointwise functions of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import asked, checked
from fireiron.base.errors import DecompositionError, FireironError, SpecError
from fireiron.base.link import here
from fireiron.base.text import count
from fireiron.check import limits
from fireiron.check import links as rules
from fireiron.front.chain import Chain, LoadRefinements, SplitRefinements, Strategy, TileRefinements
from fireiron.front.moves import MoveChain, conform
from fireiron.front.roles import Role
from fireiron.front.verbs import Verbs
from fireiron.language import programs
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Epilog, Load, Microkernel, Output, Split, Strided, Tile
from fireiron.language.levels import RF, Level, Memory
from fireiron.language.pointwise import Value, read
from fireiron.language.residual import start, store_of
from fireiron.language.specs import task_of
from fireiron.language.tensor import Tensor

Pair: TypeAlias = tuple[Tensor, Tensor]


class ProductsChain(Verbs, Chain):
    """Decompose several products of one shape: tiles cut what they share, loads name their tensors."""

    def tile(self, *sizes: int | Strided, batch: int | None = None) -> TiledProducts:
        """Cut the outputs into tiles, and with them the rows and columns of all operands.

        Args:
            sizes: rows and columns of a tile, or one `Strided((chunk, stride), (chunk, stride))`.
            batch: matrices of a tile, where the products have a batch.

        Shapes:
            (M, N, K) -> (m, n, K)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `tile-gaps`, `no-such-dimension`,
                `chain-closed`.
        """
        return self._as(TiledProducts, self._tile_link(self._sizes(sizes, batch, ("M", "N"))))

    def split(self, k: int) -> SplitProducts:
        """Cut K into chunks: products that share an operand go through one loop, the others' loops follow each other.

        Args:
            k: extent of a chunk.

        Shapes:
            (M, N, K0|K1) -> (M, N, k)

        Raises:
            DecompositionError: `split-extent`, `split-above-epilog`, `chain-closed`.
        """
        self._check(rules.still_open, self.residual, "split")
        self._check(rules.split_of_sums, self.residual)
        self._check(rules.split_size, self.residual, k, self.links)
        return self._as(SplitProducts, Split(k, link=here()))

    def load(
        self, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None = None, dtype: object = None
    ) -> LoadedProducts:
        """Move an operand to another memory by a chain of its own.

        Args:
            operand: a tensor, or its name; `A` or `B` where all products have the same.
            memory: SH, FR or RF.
            strategy: how, a function from a Move to a finished Move; vector() or conform() by default.
            dtype: element type there, the source's by default; converting takes a register hop.

        Raises:
            DecompositionError: `ambiguous-operand`, `unknown-operand`, `already-there`, `load-memory`, `load-output`,
                `load-level`, `load-above-epilog`, `load-above-split`, `unfinished-move`.
        """
        return self._as(LoadedProducts, self._load_link(operand, memory, strategy, dtype))

    def epilog(self, *, memory: Memory = RF, store: Strategy | None = None) -> ProductsChain:
        """Accumulate every sum in registers; at the end compute the outputs from them, and store.

        Args:
            memory: FR or RF.
            store: how the results go to the outputs, conform() by default.

        Raises:
            DecompositionError: `second-epilog`, `epilog-memory`, `load-level`.
        """
        self._check(rules.still_open, self.residual, "epilog")
        spec = self.products
        kind = spec.accumulator
        self._check(rules.epilog, self.residual, memory, kind)
        stores: list[Output] = []
        for i, (value, out) in enumerate(zip(spec.values, spec.outs, strict=True)):
            moved = store_of(self.residual, memory, value.dtype, number=i)
            move = MoveChain(self.program, (), moved, (), f"{self.where} > store")
            stores.append(Output(value, out, self._finished(store or conform(), move).links))
        *outputs, last = stores
        link = Epilog(last.value, memory, kind, 0.0, last.store, tuple(outputs), link=here())
        return self._as(ProductsChain, link)

    def done(self, atom: Atom | Microkernel | str | None = None) -> ProductsChain:
        """Close the chain: the first atom of the table that executes each product's residual, or a chosen one.

        Raises:
            FireironError: located at the link that is wrong; `no-epilog` where nothing holds the sums.
        """
        if self.residual.sums:
            raise DecompositionError(
                "no-epilog",
                f"no link places the sums of {self.residual.short}",
                fix="add .epilog(memory=FR) below the tile to Block",
                link=here(),
                path=self.where,
            )
        closed = self._as(ProductsChain, self._done_link(atom))
        closed.lowered()
        return closed

    @property
    def products(self) -> programs.Products:
        """Give the spec that the chain decomposes."""
        spec = self.program.spec
        assert isinstance(spec, programs.Products)
        return spec

    @property
    def batch(self) -> int | None:
        """Size a tile of one matrix, for `tile(m, n, batch=spec.batch)`: 1 with a batch, None without."""
        return 1 if len(self.products.outs[0].shape) == 3 else None

    def _within_limits(self) -> Self:
        """Apply the limits to one loop over K at a time: their buffers lie over each other."""
        link = self.links[-1]
        if isinstance(link, Tile) or self.program.arch is None:
            return super()._within_limits()
        pairs = list(zip(self.links, (self.origin, *self.trail[:-1]), strict=True))
        for phase in self.products.phases:
            names = {t.name for a, b, _ in phase for t in (a, b)}
            kept = [(x, r) for x, r in pairs if not isinstance(x, Load) or _loads(x, r) in names]
            self._check(limits.shared_fits, [x for x, _ in kept], [r for _, r in kept], self.program.arch)
        return self


def _loads(link: Load, before: Any) -> str:
    return before.operand(link.role).tensor.name


class TiledProducts(TileRefinements, ProductsChain):
    """Products whose last link is a tile."""


class SplitProducts(SplitRefinements, ProductsChain):
    """Products whose last link is a split."""

    def parallel(self, level: Level, reduce: object = None) -> NoReturn:
        """Refuse to share out K: the units of each product would hold sums of their own.

        Raises:
            DecompositionError: `parallel-products`.
        """
        raise DecompositionError(
            "parallel-products",
            f"units of {level} cannot share K of {self.residual.short}: products differ in their chunks",
            fix="drop parallel(), or schedule one MatMul",
            link=here(),
            path=self.where,
        )


class LoadedProducts(LoadRefinements, ProductsChain):
    """Products whose last link is a load."""


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
        out: the output, or several.
        sums: accumulators, each a pair (A, B) or a list of pairs whose products it adds; their depths may differ.
        op: a function of the sums' expressions that gives each output's; the sum itself where there is one. What it
            calls its parameters is what the kernel calls the sums.
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
    return ProductsChain(program, (), start(spec))


def _pairs(one: Pair | Sequence[Pair]) -> tuple[Pair, ...]:
    if len(one) == 2 and all(isinstance(x, Tensor) for x in one):
        return (cast(Pair, tuple(one)),)
    return tuple(cast("Sequence[Pair]", one))


def _names(op: Callable[..., Any] | None, count: int) -> tuple[str, ...]:
    """Name the accumulators as the op's parameters are."""
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
    """Say what an op returned."""
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
