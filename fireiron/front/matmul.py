"""Links of MatMuls: prolog, epilog, then, swap."""
# pyright: reportPrivateUsage=false
# Functions of links are methods of chains, in a file of their own.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from fireiron.algebra.dtypes import DType, default_accumulator
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.link import here
from fireiron.check import links as rules
from fireiron.check.promote import promotable
from fireiron.front import links
from fireiron.front.chain import FoldChain, MatMulChain, SplitFold, Strategy
from fireiron.front.describe import describe
from fireiron.front.outputs import (
    ahead,
    begins_with,
    behind_exchange,
    check_operands,
    check_rows,
    copied,
    given,
    prologue,
    whole,
)
from fireiron.front.roles import Role
from fireiron.front.state import State, link_of
from fireiron.language.decompositions import Decomposition, Epilog, Load, Output, Prolog, Split
from fireiron.language.levels import RF, SH, Memory
from fireiron.language.ops import Beside, Rows, Save, apart, scaled, settled, stages
from fireiron.language.pointwise import Op, Value
from fireiron.language.residual import beside, move_of, start, store_of
from fireiron.language.specs import MatMul
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.language.meaning import Meaning, Stored


@link_of
def prolog(chain: MatMulChain, operand: Role | Tensor | str, *ops: Op) -> Prolog:
    """Apply pointwise ops to the elements of an operand when a load moves them through registers."""
    found = chain._operand(operand)
    chain._check(rules.readable, found)
    value = chain._check(prologue, ops, found, chain.matmul)
    chain._check(rules.prolog, chain.residual, found, value.dtype)
    return Prolog(found.role, value, link=here())


@link_of
def epilog(
    chain: MatMulChain,
    *ops: Op | Beside,
    memory: Memory = RF,
    dtype: object = None,
    init: float = 0.0,
    store: Strategy | None = None,
    early: Tensor | Sequence[Tensor] = (),
    addends: bool = False,
    load: Mapping[Tensor, Strategy] = MappingProxyType({}),
    slots: int = 1,
    behind: bool = False,
) -> Epilog:
    """Accumulate C in registers; then apply pointwise ops, and store."""
    spec = chain.matmul
    usual = accumulated(chain)
    kind = usual if dtype is None else chain._check(find_dtype, dtype)
    chain._check(rules.epilog, chain.residual, memory, kind)
    chain._check(rules.first_value, init, kind)
    saved, value = chain._check(stages, (*spec.ops, *ops), chain._check(scaled, spec, kind))
    chain._check(check_operands, spec, saved, value)
    outputs = tuple(_beside(chain, part, op, memory, store) for part, op in saved)
    stored = _stored(chain, memory, kind if behind else value.dtype, store, None)
    if behind:
        chain._check(behind_exchange, stored, kind, bool(saved), bool(early), bool(load))
    first = chain._check(ahead, early, whole(spec, saved, value))
    if addends:
        chain._check(begins_with, value, outputs, init)
    chain._check(copied, load, slots, first, whole(spec, saved, value))
    loads = tuple(_loaded(chain, tensor, strategy) for tensor, strategy in load.items())
    return Epilog(value, memory, kind, init, stored, outputs, first, addends, loads, slots, behind, link=here())


def _loaded(chain: MatMulChain, tensor: Tensor, strategy: Strategy) -> Load:
    """Run the strategy of a load of a tensor that ops read."""
    around = beside(chain.residual, given(tensor, chain.matmul), tensor.name)
    move = move_of(around, tensor.name, SH, tensor.dtype)
    return Load(tensor.name, SH, links.moved(chain, move, strategy, f"load {tensor.name}"), link=here())


def _beside(chain: MatMulChain, value: Value, op: Beside, memory: Memory, store: Strategy | None) -> Output:
    if isinstance(op, Rows):
        chain._check(check_rows, op, chain.residual, chain.matmul)
        return Output(value, op.tensor, (), op.fold(value.dtype))
    to = given(op.tensor, chain.matmul)
    return Output(value, to, _stored(chain, memory, value.dtype, store, op), apart=apart(op))


def _stored(
    chain: MatMulChain, memory: Memory, dtype: DType, store: Strategy | None, save: Save | None
) -> tuple[Decomposition, ...]:
    """Run the strategy of one store of an epilog."""
    c = chain.matmul.C
    to = c if save is None else given(save.tensor, chain.matmul)
    strategy = store
    if save is not None:
        strategy = save.store or (store if (to.dtype, to.order) == (c.dtype, c.order) else None)
    words = "store" if save is None else f"store {to.name}"
    return links.stored(chain, store_of(chain.residual, memory, dtype, to), strategy, words)


def then(chain: MatMulChain, *ops: Op | Beside) -> MatMulChain:
    """Append pointwise ops to the product."""
    if any(isinstance(link, Epilog) for link in chain.links):
        raise chain._wrong(
            "then-first",
            "then() stands after the epilog that would apply its ops",
            "write it first: spec.then(...).tile(...), or give the ops to epilog(...)",
        )
    spec = attrs.evolve(chain.matmul, ops=(*chain.matmul.ops, *ops))
    saved, value = chain._check(applied, chain, spec)
    chain._check(check_operands, spec, saved, value)
    return attrs.evolve(chain, program=attrs.evolve(chain.program, spec=spec))


def swap(chain: MatMulChain) -> MatMulChain:
    """Compute the transpose of C as the product of the transposes of B and A."""
    others = [link for link in chain.links if not isinstance(link, Prolog)]
    if others:
        raise chain._wrong(
            "swap-first",
            f"swap() renames the operands of the whole product, and {describe(others[-1])} stands before it",
            "write it first: spec.swap().tile(...)",
        )
    spec = chain.matmul
    swapped = attrs.evolve(
        spec, A=spec.B.transposed, B=spec.A.transposed, C=spec.C.transposed, swapped=not spec.swapped
    )
    made: MatMulChain = FoldChain(attrs.evolve(chain.program, spec=swapped), (), start(swapped), ())
    for link in chain.links:  # prologs follow their tensors
        assert isinstance(link, Prolog)
        made = made._as(FoldChain, attrs.evolve(link, role="A" if link.role == "B" else "B"))
    return made


def done(chain: MatMulChain, atom: object) -> None:
    """Refuse to close a product whose alpha, beta, ops or prologs no link applies.

    Raises:
        DecompositionError: `scale-without-epilog`, `prolog-left`.
    """
    spec = chain.matmul
    changed = spec.ops or not spec.alpha.is_one or not spec.beta.is_zero
    if changed and not any(isinstance(x, Epilog) for x in chain.links):
        raise chain._wrong(
            "scale-without-epilog",
            "alpha, beta and ops are applied by an epilog, and this chain has none",
            "add .epilog(...) below the tile to Block",
        )
    chain._check(rules.prologs_applied, chain.residual)


def promoted(chain: SplitFold[MatMul], split: Split) -> DType:
    """Return the type of the partial sums of a promoted split.

    Raises:
        DecompositionError: `promote-accumulator`, `promote-prolog`, `promote-scales`, `accumulator-dtype`,
            `parallel-promote`.
    """
    a = chain._before.operand("A")
    assert a is not None
    kind = default_accumulator(a.dtype)
    chain._check(promotable, chain._before, split, kind, chain.matmul.swapped)
    return kind


def accumulated(chain: State) -> DType:
    """Return the type of the sums."""
    spec, a = chain.matmul, chain.residual.operand("A")
    assert a is not None
    return spec.acc or default_accumulator(a.computed)


def applied(chain: State, spec: MatMul) -> tuple[tuple[tuple[Value, Beside], ...], Value]:
    """Apply the ops of `then` to the scaled accumulator."""
    return stages(spec.ops, scaled(spec, accumulated(chain)))


def whole_operands(chain: State) -> tuple[Tensor, ...]:
    """List the tensors of C's shape that ops of `then` read, and C itself if beta is not 0."""
    saved, value = applied(chain, chain.matmul)
    return whole(chain.matmul, saved, value)


def meaning(chain: State) -> Meaning:
    """Return what a product's chain computes."""
    from fireiron.language.meaning import Meaning

    spec = chain.matmul
    if not spec.ops:
        return Meaning(spec, chain.links)
    saved, value = chain._check(applied, chain, spec)
    stored = tuple(_kept(part, op) for part, op in saved)
    return Meaning(attrs.evolve(spec, ops=()), chain.links, value, stored)


def _kept(value: Value, op: Beside) -> Stored:
    from fireiron.front.fingerprint import fingerprint
    from fireiron.language.meaning import Stored

    if isinstance(op, Rows):
        return Stored(value, op.tensor, op.op, None)
    store = None if op.store is None else fingerprint(op.store) or op.store
    return Stored(value, op.tensor, None, store, apart(op))


def portable(chain: FoldChain[MatMul]) -> tuple[MatMulChain, ...]:
    """List chains that can be sent to another process in place of this one."""
    spec = chain.matmul
    ops = settled(spec.ops, accumulated(chain)) if spec.ops else ()
    bare = attrs.evolve(spec, ops=())
    same = attrs.evolve(chain, program=attrs.evolve(chain.program, spec=attrs.evolve(spec, ops=ops)))
    return same, FoldChain(attrs.evolve(chain.program, spec=bare), (), start(bare))
