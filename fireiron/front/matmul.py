"""Chains of MatMuls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from fireiron.algebra.dtypes import default_accumulator
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.check import links as rules
from fireiron.check.parallel import chunk_of
from fireiron.check.promote import promotable, served_along_k
from fireiron.front.chain import Chain, LoadRefinements, SplitRefinements, Strategy, TileRefinements
from fireiron.front.describe import describe
from fireiron.front.moves import MoveChain, conform
from fireiron.front.outputs import (
    ahead,
    check_operands,
    check_rows,
    given,
    prologue,
    whole,
)
from fireiron.front.roles import Role, role_name
from fireiron.front.verbs import Verbs
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Decomposition, Epilog, Microkernel, Output, Prolog, Split, Strided
from fireiron.language.levels import RF, Memory
from fireiron.language.ops import Beside, Rows, Save, apart, scaled, settled, stages
from fireiron.language.pointwise import Op, Value
from fireiron.language.residual import start, store_of
from fireiron.language.specs import BATCH, MatMul
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.language.meaning import Meaning, Stored


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
        if k is not None:
            self._check(rules.split_size, self.residual, k, self.links)
        size = self._check(chunk_of, self.residual, k, ways, multiple_of)
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

    def prolog(self, operand: Role | Tensor | str, *ops: Op) -> MatMulChain:
        """Compute pointwise with the elements of an operand where a load moves them through registers.

        The next load that does so applies the ops: vector(), conform() and staged() do, ldmatrix() where they keep the
        element type; cp_async() and tma() hand the elements on as they are. Ops that change the element type stand
        before epilog.

        Args:
            operand: `A` or `B`, a tensor, or a name.
            ops: functions of an element's expression, first to last (`relu`, `scale(s)`, `dequantise("f16", s)`). Their
                tensors repeat over the operand; one value may serve a group of neighbours, along K or across.

        Raises:
            DecompositionError: `unknown-operand`, `load-output`, `prolog-shape`, `accumulator-dtype`. SpecError: `bad-
                op`, `same-name`, `dtype-mismatch`.
        """
        self._check(rules.still_open, self.residual, "prolog")
        found = self._check(
            rules.operand, self.residual, role_name(operand), operand if isinstance(operand, Tensor) else None
        )
        self._check(rules.readable, found)
        value = self._check(prologue, ops, found, self.matmul)
        self._check(rules.prolog, self.residual, found, value.dtype)
        return self._as(MatMulChain, Prolog(found.role, value, link=here()))

    def epilog(
        self,
        *ops: Op | Beside,
        memory: Memory = RF,
        dtype: object = None,
        init: float = 0.0,
        store: Strategy | None = None,
        early: Tensor | Sequence[Tensor] = (),
    ) -> MatMulChain:
        """Accumulate C in registers; at the end run pointwise ops, and store.

        Args:
            ops: functions from the accumulator's expression to a new one, first to last (`relu`, `add(bias)`), and
                `save(tensor)` where what they made so far is stored too.
            memory: FR or RF.
            dtype: the accumulator's element type; f32 for 16-bit floats, i32 for integers by default.
            init: the accumulator's first value.
            store: how the result goes to C, conform() by default.
            early: of the tensors that ops read, those of C's shape that each thread loads to registers of its own
                before the products, under which they arrive; `whole_operands` lists them.

        Raises:
            DecompositionError: `second-epilog`, `epilog-memory`, `accumulator-dtype`, `accumulator-init`, `load-level`,
                `epilog-early`. SpecError: `bad-op`, `shape-mismatch`, `same-name`, `epilog-overlap`, `dtype-mismatch`.
        """
        self._check(rules.still_open, self.residual, "epilog")
        spec = self.matmul
        a = self.residual.operand("A")
        assert a is not None
        usual = spec.acc or default_accumulator(a.computed)
        kind = usual if dtype is None else self._check(find_dtype, dtype)
        self._check(rules.epilog, self.residual, memory, kind)
        self._check(rules.first_value, init, kind)
        saved, value = self._check(stages, (*spec.ops, *ops), self._check(scaled, spec, kind))
        self._check(check_operands, spec, saved, value)
        outputs = tuple(self._beside(part, op, memory, store) for part, op in saved)
        links = self._stored(memory, value, store, None)
        first = self._check(ahead, early, whole(spec, saved, value))
        return self._as(MatMulChain, Epilog(value, memory, kind, init, links, outputs, first, link=here()))

    def _beside(self, value: Value, op: Beside, memory: Memory, store: Strategy | None) -> Output:
        if isinstance(op, Rows):
            self._check(check_rows, op, self.residual, self.matmul)
            return Output(value, op.tensor, (), op.op)
        to = given(op.tensor, self.matmul)
        return Output(value, to, self._stored(memory, value, store, op), apart=apart(op))

    def _stored(
        self, memory: Memory, value: Value, store: Strategy | None, save: Save | None
    ) -> tuple[Decomposition, ...]:
        """Run the strategy of one of an epilog's stores."""
        c = self.matmul.C
        to = c if save is None else given(save.tensor, self.matmul)
        strategy = store
        if save is not None:
            strategy = save.store or (store if (to.dtype, to.order) == (c.dtype, c.order) else None)
        words = "store" if save is None else f"store {to.name}"
        move = MoveChain(
            self.program, (), store_of(self.residual, memory, value.dtype, to), (), f"{self.where} > {words}"
        )
        return self._finished(strategy or conform(), move).links

    def then(self, *ops: Op | Beside) -> MatMulChain:
        """Let the product be followed by pointwise ops: every schedule's epilog applies them, before its own.

        So any preset becomes one of the fused product: `ampere.gemm(spec.then(add(bias), relu))`.

        Args:
            ops: as `epilog` takes them.

        Raises:
            DecompositionError: `then-first` behind an epilog. SpecError: as `epilog` does.

        Example:
            >>> from fireiron import matmul, relu
            >>> from fireiron.schedules import simt
            >>> "fmaxf_nan" in simt.listing2(matmul(128, 128, 64).then(relu)).cuda()
            True
        """
        if any(isinstance(link, Epilog) for link in self.links):
            raise DecompositionError(
                "then-first",
                "then() stands after the epilog that would apply its ops",
                fix="write it first: spec.then(...).tile(...), or give the ops to epilog(...)",
                link=here(),
                path=self.where,
            )
        spec = attrs.evolve(self.matmul, ops=(*self.matmul.ops, *ops))
        saved, value = self._check(self._applied, spec)
        self._check(check_operands, spec, saved, value)
        program = attrs.evolve(self.program, spec=spec)
        return attrs.evolve(self, program=program)

    def swap(self) -> MatMulChain:
        """Compute the transpose of C as the product of the transposes of B and A: nothing moves, roles change names.

        Widths of tiles that one dimension takes in finer steps than the other then run along M.

        Shapes:
            (M, N, K) -> (N, M, K)

        Raises:
            DecompositionError: `swap-first` behind another link.
        """
        others = [link for link in self.links if not isinstance(link, Prolog)]
        if others:
            raise DecompositionError(
                "swap-first",
                f"swap() renames the operands of the whole product, and {describe(others[-1])} stands before it",
                fix="write it first: spec.swap().tile(...)",
                link=here(),
                path=self.where,
            )
        spec = self.matmul
        swapped = attrs.evolve(
            spec, A=spec.B.transposed, B=spec.A.transposed, C=spec.C.transposed, swapped=not spec.swapped
        )
        program = attrs.evolve(self.program, spec=swapped)
        chain = MatMulChain(program, (), start(swapped), ())
        for link in self.links:  # prologs follow their tensors
            assert isinstance(link, Prolog)
            chain = chain._as(MatMulChain, attrs.evolve(link, role="A" if link.role == "B" else "B"))
        return chain

    @property
    def matmul(self) -> MatMul:
        """Give the spec that the chain decomposes."""
        spec = self.program.spec
        assert isinstance(spec, MatMul)
        return spec

    @cached_property
    def left(self) -> Tensor:
        """Describe A as the atoms meet it: of the element type that its prolog leaves."""
        return self._met("A")

    @cached_property
    def right(self) -> Tensor:
        """Describe B as the atoms meet it."""
        return self._met("B")

    def _met(self, role: str) -> Tensor:
        found = self.residual.operand(role)
        assert found is not None
        return attrs.evolve(found.tensor, dtype=found.computed)

    @property
    def whole_operands(self) -> tuple[Tensor, ...]:
        """List the tensors of C's shape that `then`'s ops read, and C where it is accumulated: `epilog(early=...)`.

        Example:
            >>> from fireiron import Matrix, Vector, add, matmul
            >>> spec = matmul(64, 32, 16).then(add(Vector(32, name="bias")), add(Matrix(64, 32, name="residual")))
            >>> [tensor.name for tensor in spec.whole_operands]
            ['residual']
        """
        saved, value = self._applied(self.matmul)
        return whole(self.matmul, saved, value)

    @property
    def meaning(self) -> Meaning:
        """Give what the chain computes: its ops are called, since functions may do something else each time.

        Example:
            >>> from fireiron import A, matmul, relu
            >>> spec = matmul(64, 64, 32)
            >>> spec.meaning == matmul(64, 64, 32).meaning, spec.meaning == spec.prolog(A, relu).meaning
            (True, False)
        """
        from fireiron.language.meaning import Meaning

        spec = self.matmul
        if not spec.ops:
            return Meaning(spec, self.links)
        saved, value = self._check(self._applied, spec)
        stored = tuple(_stored(part, op) for part, op in saved)
        return Meaning(attrs.evolve(spec, ops=()), self.links, value, stored)

    @property
    def portable(self) -> tuple[MatMulChain, ...]:
        """List chains to send to another process instead: one whose ops are what they make, and the bare product."""
        spec = self.matmul
        a = self.residual.operand("A")
        assert a is not None
        ops = settled(spec.ops, spec.acc or default_accumulator(a.computed)) if spec.ops else ()
        bare = attrs.evolve(spec, ops=())
        same = attrs.evolve(self, program=attrs.evolve(self.program, spec=attrs.evolve(spec, ops=ops)))
        return same, MatMulChain(attrs.evolve(self.program, spec=bare), (), start(bare))

    def _applied(self, spec: MatMul) -> tuple[tuple[tuple[Value, Beside], ...], Value]:
        """Apply a spec's ops, which `then` gave, to the scaled accumulator."""
        a = self.residual.operand("A")
        assert a is not None
        return stages(spec.ops, scaled(spec, spec.acc or default_accumulator(a.computed)))

    @property
    def batch(self) -> int | None:
        """Size a tile of one matrix, for `tile(m, n, batch=spec.batch)`: 1 with a batch or groups, None without."""
        return 1 if BATCH in dict(self.matmul.sizes) else None

    @property
    def served_along_k(self) -> int | None:
        """Count the neighbours along K that prologs multiply by one value: `split` by a divisor takes `promote`.

        0 where values hold for all of K, None where there is no prolog, or one does more than to multiply.

        Example:
            >>> from fireiron import A, Matrix, dequantise, matmul
            >>> scales = Matrix(64, 4, name="scales")
            >>> matmul(64, 64, 512, "e4m3", layout="TN").prolog(A, dequantise("f32", scales)).served_along_k
            128
        """
        return served_along_k(self.residual, self.matmul.swapped)

    def done(self, atom: Atom | Microkernel | str | None = None) -> MatMulChain:
        """Close the chain: the first atom of the table that executes the residual spec, a chosen one, or a microkernel.

        The whole schedule is elaborated here: ownership, thread counts, vector widths, barriers.

        Raises:
            FireironError: located at the link that is wrong; `no-atom` where no instruction executes the residual spec.
        """
        if not self._scales():
            raise DecompositionError(
                "scale-without-epilog",
                "alpha, beta and ops are applied by an epilog, and this chain has none",
                fix="add .epilog(...) below the tile to Block",
                link=here(),
                path=self.where,
            )
        self._check(rules.prologs_applied, self.residual)
        closed = self._as(MatMulChain, self._done_link(atom))
        closed.lowered()
        return closed

    def _scales(self) -> bool:
        """Say whether alpha, beta and ops have an epilog to be applied in, or change nothing."""
        spec = self.matmul
        return (not spec.ops and spec.alpha.is_one and spec.beta.is_zero) or any(
            isinstance(x, Epilog) for x in self.links
        )


def _stored(value: Value, op: Beside) -> Stored:
    from fireiron.front.fingerprint import fingerprint
    from fireiron.language.meaning import Stored

    if isinstance(op, Rows):
        return Stored(value, op.tensor, op.op, None)
    store = None if op.store is None else fingerprint(op.store) or op.store
    return Stored(value, op.tensor, None, store, apart(op))


class TiledMatMul(TileRefinements, MatMulChain):
    """A MatMul whose last link is a tile."""


class SplitMatMul(SplitRefinements, MatMulChain):
    """A MatMul whose last link is a split."""

    def promote(self) -> SplitMatMul:
        """Sum the products of each chunk in registers of their own, and add each sum to the accumulators.

        So 8-bit floats, whose sums tensor cores keep to fewer bits than f32 has, lose bits only within a chunk. What
        prologs above multiply A and B by is multiplied with the sums: nothing is computed with the operands, and any
        load takes them as they are. What both are multiplied by is multiplied first, in the accumulators' type. Threads
        hold two sets of accumulators, and wait for the products of each chunk.

        Raises:
            DecompositionError: `promote-accumulator` where C does not accumulate in registers; `promote-prolog` where a
                prolog does more than to multiply; `promote-scales` where it multiplies by what changes inside a chunk;
                `accumulator-dtype`; `parallel-promote` where units take the chunks.

        Example:
            >>> from fireiron import A, ColMajor, Matrix, dequantise, matmul
            >>> from fireiron.schedules import hopper
            >>> scales = Matrix(128, 2, "f32", name="scales")  # of each row, and of each 128 of K
            >>> spec = matmul(128, 128, 256, "e4m3", layout="TN", out="bf16").prolog(A, dequantise("f32", scales))
            >>> "scales" in hopper.scaled_gemm(spec).cuda()
            True
        """
        link = self.links[-1]
        assert isinstance(link, Split)
        before = self._before
        a = before.operand("A")
        assert a is not None
        kind = default_accumulator(a.dtype)
        self._check(promotable, before, link, kind, self.matmul.swapped)
        return self._loops(promoted=kind, link=here())


class LoadedMatMul(LoadRefinements, MatMulChain):
    """A MatMul whose last link is a load."""
