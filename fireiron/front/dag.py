"""Read programs of products and pointwise steps as chains of products: the DAGs that the Volta generator takes.

A program may have one product, pointwise steps on its operands, and pointwise steps after it; or several products of
one output shape, whose K may differ, and pointwise steps that combine them. Operands that steps compute are rounded to
the operand's type.

Source: the Volta generator's idioms.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Coordinate,
    Scalar,
    as_type,
    children,
    parts,
    renumbered,
    with_children,
)
from fireiron.front.chain import MatMulChain, ProductsChain
from fireiron.front.products import products as several
from fireiron.front.program import ProgramChain
from fireiron.front.spec import MatMul
from fireiron.language.folds import Dim
from fireiron.language.ops import Known
from fireiron.language.pointwise import Value, cast_to
from fireiron.language.steps import Ref, Step, number_in
from fireiron.language.tensor import Tensor


class Misfit(Exception):
    """Report why a program cannot be read as a chain of products."""


@attrs.frozen
class Operand:
    """Hold one operand of a product.

    Args:
        tensor: the operand as A[M, K] or B[K, N].
        stored: the caller's tensor.
        op: function that is applied to elements before they are multiplied, None without one.
        beside: the other tensors that the op reads.
    """

    tensor: Tensor
    stored: Tensor
    op: Known | None
    beside: tuple[Tensor, ...]


def chain_of(spec: ProgramChain) -> MatMulChain | ProductsChain:
    """Read a program as a chain of one product, or of several products of one shape.

    Args:
        spec: the result of a function under `@program`, without links.

    Raises:
        Misfit: for other programs, and for those whose arrays have another order than a chain's.
    """
    program = spec.computed
    made = {out.name: step for step in program.steps for out in step.outs}
    found = [step for step in program.steps if step.is_product]
    last = made.get(program.outputs[0].name)
    if len(program.outputs) != 1 or last is None or program.loops or program.inplace:
        raise Misfit("a chain of products has one output")
    dims = last.outs[0].dims
    if len(dims) != 2 or not found or any(step not in found and step.fold is not None for step in program.steps):
        raise Misfit("a chain of products has rows and columns, and folds nothing but their depths")
    pairs = [_operands(step, dims, made) for step in found]
    out = program.outputs[0]
    sums = {step.outs[0].name: step.outs[0] for step in found}
    out_ref = last.outs[0]
    tree, reads = (Arg(0, out_ref.dtype), [out_ref]) if last.is_product else _composed(last, made, sums)
    if isinstance(tree, Cast):
        tree = tree.x  # the store converts
    others = [ref for ref in reads if ref.name not in sums]
    if any(ref.dims not in (dims, dims[1:], ()) for ref in others):
        raise Misfit("an epilog reads what lies as the output does, or one value a column")
    given = [t.name for pair in pairs for one in pair for t in (one.stored, *one.beside)]
    if [t.name for t in program.inputs] != list(dict.fromkeys([*given, *(ref.name for ref in others)])):
        raise Misfit("arrays come in another order: operands of each product first, then those of the ops")
    if len(found) == 1:
        return _one(spec, pairs[0], out, tree, reads, sums)
    if any(one.op is not None for pair in pairs for one in pair):
        raise Misfit("several products take operands as they are")
    numbers = {i: list(sums).index(ref.name) for i, ref in enumerate(reads) if ref.name in sums}

    def op(*accumulators: Value) -> Value:
        held = {i: accumulators[n] for i, n in numbers.items()}
        return _value(tree, reads, held)

    return several((out,), *((a.tensor, b.tensor) for a, b in pairs), op=op, arch=spec.program.arch)


def _one(
    spec: ProgramChain,
    pair: tuple[Operand, Operand],
    out: Tensor,
    tree: Scalar,
    reads: list[Ref],
    sums: Mapping[str, Ref],
) -> MatMulChain:
    chain = MatMul(pair[0].tensor, pair[1].tensor, out, arch=spec.program.arch)
    for operand in pair:
        chain = chain if operand.op is None else chain.prolog(operand.tensor, operand.op)
    (acc,) = (ref.dtype for ref in sums.values())
    if isinstance(tree, Arg):
        return chain
    numbers, tensors = dict[int, int](), list[Tensor]()
    for i, ref in enumerate(reads):
        numbers[i] = 0 if ref.name in sums else len(tensors) + 1
        tensors += [] if ref.name in sums else [ref.tensor]
    return chain.then(Known(Value(renumbered(tree, numbers), tuple(tensors)), acc))


def _value(tree: Scalar, reads: list[Ref], held: Mapping[int, Value]) -> Value:
    """Replace the reads in an expression by the expressions of sums and by tensors."""
    tensors = tuple(dict.fromkeys(t for value in held.values() for t in value.tensors))
    tensors += tuple(ref.tensor for i, ref in enumerate(reads) if i not in held)

    def put(part: Scalar) -> Scalar:
        if not isinstance(part, Arg):
            return with_children(part, tuple(put(x) for x in children(part)))
        mine = held.get(part.index)
        if mine is None:
            return Arg(tensors.index(reads[part.index].tensor) + 1, part.dtype)
        numbers = {i + 1: tensors.index(t) + 1 for i, t in enumerate(mine.tensors)}
        return renumbered(mine.tree, numbers)

    return Value(put(tree), tensors)


def _composed(step: Step, made: Mapping[str, Step], sums: Mapping[str, Ref]) -> tuple[Scalar, list[Ref]]:
    """Merge a step with the pointwise steps that it reads; return one expression and its reads."""
    reads: list[Ref] = []

    def expression(one: Step) -> Scalar:
        inner: list[Scalar] = []
        for ref in one.reads:
            before = made.get(ref.name)
            if before is None or ref.name in sums:
                inner.append(Arg(number_in(reads, ref), ref.dtype))
            elif before.outs[0].index != ref.index or len(before.outs) > 1 or before.fold is not None:
                raise Misfit("steps read each other at other points")
            else:
                tree = expression(before)
                inner.append(as_type(tree, ref.dtype))

        def put(part: Scalar) -> Scalar:
            if isinstance(part, Arg):
                return inner[part.index]
            return with_children(part, tuple(put(x) for x in children(part)))

        return put(one.body)

    tree = expression(step)
    if any(isinstance(part, Coordinate) for part in parts(tree)):
        raise Misfit("steps read coordinates")
    return tree, reads


def _operands(step: Step, dims: tuple[Dim, ...], made: Mapping[str, Step]) -> tuple[Operand, Operand]:
    """Return the two operands of a product, A[M, K] and B[K, N]."""
    (row, column), body = dims, step.body
    if step.outs[0].dims != dims or len(step.over) != 1 or step.where is not None or not isinstance(body, Binary):
        raise Misfit("each product has the output's rows and columns, and one depth")
    tree, reads = _composed(step, made, {})
    assert isinstance(tree, Binary)
    (depth,) = step.over
    sides = [_operand(side, reads, (row, depth)) or _operand(side, reads, (depth, column)) for side in (tree.x, tree.y)]
    left, right = (
        next((s for s in sides if s is not None and s[1] == d), None) for d in ((row, depth), (depth, column))
    )
    if left is None or right is None:
        raise Misfit("a product multiplies rows by depth and depth by columns")
    return left[0], right[0]


def _operand(tree: Scalar, reads: list[Ref], dims: tuple[Dim, Dim]) -> tuple[Operand, tuple[Dim, Dim]] | None:
    used = [reads[i] for i in dict.fromkeys(x.index for x in parts(tree) if isinstance(x, Arg))]
    if any(not set(ref.dims) <= set(dims) for ref in used):
        return None
    wide = [ref for ref in used if set(ref.dims) == set(dims)]
    if len(wide) != 1:
        return None
    main, (others) = wide[0], [ref for ref in used if ref is not wide[0]]
    if others or any(len(e_dims) != 1 for e_dims in (main.dims[:1], main.dims[1:])) or len(main.shape) != 2:
        return None  # an operand's op reads its elements alone
    tensor = main.tensor if main.dims == dims else main.tensor.transposed
    number = reads.index(main)
    plain = Cast(Arg(number, main.dtype), tree.dtype)
    if tree in (plain, plain.x):
        return Operand(tensor, main.tensor, None, ()), dims
    value = Value(renumbered(tree, {number: 0}))
    return Operand(tensor, main.tensor, Known(cast_to(value, main.dtype), main.dtype), ()), dims
