"""Chains of MatMuls."""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.scalar import Arg, Cast
from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.check import links as rules
from fireiron.check.parallel import chunk_of
from fireiron.front.chain import Chain, LoadRefinements, SplitRefinements, Strategy, TileRefinements, describe
from fireiron.front.moves import MoveChain, conform
from fireiron.front.roles import Role
from fireiron.front.verbs import Verbs
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Epilog, Microkernel, Split, Strided
from fireiron.language.levels import RF, Memory
from fireiron.language.pointwise import Op, Value, accumulator, cast_to, expression, parameter, read
from fireiron.language.residual import start, store_of
from fireiron.language.specs import BATCH, Coefficient, MatMul
from fireiron.language.tensor import Tensor


class MatMulChain(Verbs, Chain):
    """Decompose a MatMul."""

    def tile(self, *sizes: int | Strided, batch: int | None = None) -> TiledMatMul:
        """Cut C into tiles, and with it the rows of A and the columns of B.

        Args:
            sizes: rows and columns of a tile, or one `Strided((chunk, stride), (chunk, stride))`.
            batch: matrices of a tile, where the MatMul has a batch or groups; of groups it is 1.

        Shapes:
            (M, N, K) -> (m, n, K)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `tile-gaps`, `no-such-dimension`,
                `chain-closed`.
        """
        return self._as(TiledMatMul, self._tile_link(self._sizes(sizes, batch, ("M", "N"))))

    def split(self, k: int | None = None, *, ways: int | None = None, multiple_of: int = 1) -> SplitMatMul:
        """Cut K into chunks that one loop visits, or units take by `parallel`; the residual accumulates into C.

        Args:
            k: extent of a chunk.
            ways: the number of chunks instead, for a K that is not known or that they need not divide.
            multiple_of: with ways, what a chunk's extent is a multiple of: the chunk of the split below.

        Shapes:
            (M, N, K) -> (M, N, k)

        Raises:
            DecompositionError: `split-extent`, `split-arguments`, `chain-closed`.
        """
        self._check(rules.still_open, self.residual, "split")
        size = self._check(chunk_of, self.residual, k, ways, multiple_of)
        if k is not None:
            self._check(rules.split_size, self.residual, k)
        return self._as(SplitMatMul, Split(size, ways=ways, link=here()))

    def load(
        self, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None = None, dtype: object = None
    ) -> LoadedMatMul:
        """Move an operand to another memory by a chain of its own.

        Args:
            operand: `A` or `B`, a tensor, or a name.
            memory: SH, FR or RF.
            strategy: how, a function from a Move to a finished Move; vector() or conform() by default.
            dtype: element type there, the source's by default; converting takes a register hop.

        Raises:
            DecompositionError: `unknown-operand`, `already-there`, `load-memory`, `load-output`, `load-level`,
                `unfinished-move`.
        """
        return self._as(LoadedMatMul, self._load_link(operand, memory, strategy, dtype))

    def epilog(
        self,
        *ops: Op,
        memory: Memory = RF,
        dtype: object = None,
        init: float = 0.0,
        store: Strategy | None = None,
    ) -> MatMulChain:
        """Accumulate C in registers; at the end run pointwise ops, and store.

        Args:
            ops: functions from the accumulator's expression to a new one, first to last (`relu`, `add(bias)`).
            memory: FR or RF.
            dtype: the accumulator's element type; f32 for 16-bit floats, i32 for integers by default.
            init: the accumulator's first value.
            store: how the result goes to C, conform() by default.

        Raises:
            DecompositionError: `second-epilog`, `epilog-memory`, `accumulator-dtype`, `load-level`, `bad-op`.
        """
        self._check(rules.still_open, self.residual, "epilog")
        spec = self.matmul
        kind = spec.accumulator if dtype is None else self._check(find_dtype, dtype)
        self._check(rules.epilog, self.residual, memory, kind)
        move = MoveChain(self.program, (), store_of(self.residual, memory, kind), (), f"{self.where} > store")
        stored = self._finished(store or conform(), move)
        value = self._check(self._value, ops, kind)
        return self._as(MatMulChain, Epilog(value, memory, kind, init, stored.links, link=here()))

    def swap(self) -> MatMulChain:
        """Compute the transpose of C as the product of the transposes of B and A: nothing moves, roles change names.

        Widths of tiles that one dimension takes in finer steps than the other then run along M.

        Shapes:
            (M, N, K) -> (N, M, K)

        Raises:
            DecompositionError: `swap-first` behind another link.
        """
        if self.links:
            raise DecompositionError(
                "swap-first",
                f"swap() renames the operands of the whole product, and {describe(self.links[-1])} stands before it",
                fix="write it first: spec.swap().tile(...)",
                link=here(),
                path=self.where,
            )
        (step,) = self.program.steps
        spec = self.matmul
        swapped = attrs.evolve(
            spec, A=spec.B.transposed, B=spec.A.transposed, C=spec.C.transposed, swapped=not spec.swapped
        )
        program = attrs.evolve(self.program, steps=(attrs.evolve(step, spec=swapped),))
        return MatMulChain(program, (), start(swapped), ())

    @property
    def matmul(self) -> MatMul:
        """Give the spec that the chain decomposes."""
        (step,) = self.program.steps
        assert isinstance(step.spec, MatMul)
        return step.spec

    @property
    def batch(self) -> int | None:
        """Size a tile of one matrix, for `tile(m, n, batch=spec.batch)`: 1 with a batch or groups, None without."""
        return 1 if BATCH in dict(self.matmul.sizes) else None

    def _value(self, ops: tuple[Op, ...], kind: DType) -> Value:
        spec = self.matmul
        value = accumulator(kind)
        if not spec.alpha.is_one:
            value = value * _coefficient(spec.alpha, kind)
        if not spec.beta.is_zero:
            # Tensors of an epilog are named as the caller has them, C among them.
            old = read(spec.C.transposed if spec.swapped else spec.C)
            old = old if old.dtype == kind else Value(Cast(Arg(1, old.dtype), kind), old.tensors)
            value = value + (old if spec.beta.is_one else old * _coefficient(spec.beta, kind))
        # The accumulator's registers hold the result until it is stored.
        return cast_to(expression(ops, value), kind)

    def done(self, atom: Atom | Microkernel | str | None = None) -> MatMulChain:
        """Close the chain: the first atom of the table that executes the residual spec, a chosen one, or a microkernel.

        The whole schedule is elaborated here: ownership, thread counts, vector widths, barriers.

        Raises:
            FireironError: located at the link that is wrong; `no-atom` where no instruction executes the residual spec.
        """
        if not self._scales():
            raise DecompositionError(
                "scale-without-epilog",
                "alpha and beta are applied by an epilog, and this chain has none",
                fix="add .epilog(...) below the tile to Block",
                link=here(),
                path=self.where,
            )
        closed = self._as(MatMulChain, self._done_link(atom))
        closed.lowered()
        return closed

    def _scales(self) -> bool:
        """Say whether alpha and beta have an epilog to be applied in, or are 1 and 0."""
        spec = self.matmul
        return (spec.alpha.is_one and spec.beta.is_zero) or any(isinstance(x, Epilog) for x in self.links)


def _coefficient(c: Coefficient, kind: DType) -> Value | float:
    return parameter(c.name, kind) if c.name else c.value


class TiledMatMul(TileRefinements, MatMulChain):
    """A MatMul whose last link is a tile."""


class SplitMatMul(SplitRefinements, MatMulChain):
    """A MatMul whose last link is a split."""


class LoadedMatMul(LoadRefinements, MatMulChain):
    """A MatMul whose last link is a load."""
