"""Residual specs: what remains to be done after each link of a chain."""

from __future__ import annotations

from itertools import groupby
from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, as_expr, free, simplest
from fireiron.base.records import evolve
from fireiron.language.decompositions import (
    Chunks,
    Decomposition,
    Done,
    Each,
    EachStep,
    Epilog,
    Extent,
    Load,
    Own,
    Prolog,
    Results,
    Split,
    Tile,
    Widest,
)
from fireiron.language.levels import GL, SH, Kernel, Level, Memory
from fireiron.language.maps import box_extent, is_plain, maps_of, names_of, reads_apart
from fireiron.language.pointwise import Value
from fireiron.language.programs import BATCH, Layers, Products
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec, dims_of
from fireiron.language.steps import Program, Ref, Step
from fireiron.language.tensor import Tensor

Kind: TypeAlias = Literal["MatMul", "Move", "Init", "Pointwise", "Layers", "Program"]


@attrs.frozen(slots=False)
class Operand:
    """Say where one operand of a residual spec lies now.

    Args:
        role: `A`, `B`, `C`; `src`, `dst`; `out`.
        tensor: the spec's tensor that it is a tile of.
        memory: where it lies now.
        dtype: its element type there.
        dims: the dimensions that index it.
        ops: what is still to be made of its elements on the way to the atom, None for nothing.
    """

    role: str
    tensor: Tensor
    memory: Memory
    dtype: DType
    dims: tuple[str, ...]
    ops: Value | None = None

    @property
    def computed(self) -> DType:
        """Give the element type behind the ops that are still to come."""
        return self.dtype if self.ops is None else self.ops.dtype


@attrs.frozen(slots=False)
class Residual:
    """Describe the spec that a chain has left to decompose.

    Args:
        kind: MatMul, Move, Init, Pointwise, Layers or Program.
        level: the level whose unit executes it.
        sizes: extent of each dimension; None where a vector's width is still open.
        operands: in the spec's order.
        closed: whether an atom or a microkernel executes it.
        sums: of several products, the accumulators that stand for the outputs from epilog on.
        depths: of several products, the extents of K that one number does not say.
        weights: of layers, those of each.
        maps: index expressions of a program that are not one dim alone, by the name of their box's dim.
    """

    kind: Kind
    level: Level
    sizes: tuple[tuple[str, Index | None], ...]
    operands: tuple[Operand, ...]
    closed: bool = False
    sums: tuple[Operand, ...] = ()
    depths: tuple[Index, ...] = ()
    weights: tuple[Tensor, ...] = ()
    maps: tuple[tuple[str, Expr], ...] = ()

    @property
    def extents(self) -> dict[str, Index | None]:
        """Map each dimension to its extent; those of boxes follow from the dims that their indices read."""
        found = dict(self.sizes)
        return found | {name: box_extent(e, found) for name, e in self.maps} if self.maps else found

    def operand(self, role: str) -> Operand | None:
        """Find an operand by its role."""
        for operand in self.operands:
            if operand.role == role:
                return operand
        return None

    def playing(self, letter: str) -> tuple[Operand, ...]:
        """List the operands that play one part: several products have several (`A0`, `A1`)."""
        return tuple(o for o in self.operands if o.role == letter or (o.role[0] == letter and o.role[1:].isdigit()))

    @property
    def words(self) -> tuple[str, ...]:
        """Print the extents; of products that differ in depth, each one's K."""
        depths = "|".join(map(str, self.depths)) or "?"
        return tuple(
            [depths if dim == "K" and size is None else "?" if size is None else str(size) for dim, size in self.sizes]
        )

    @property
    def short(self) -> str:
        """Print kind and extents: `MatMul 128x128x8`."""
        return f"{self.kind} {'x'.join(self.words)}"

    def __str__(self) -> str:
        sizes = ", ".join(self.words)
        places = ", ".join(_runs([str(o.memory) for o in self.operands]))
        return f"{self.kind}({sizes})({places})({self.level})"


def _runs(words: list[str]) -> list[str]:
    """Write words that repeat once, with their number; those of three operands and fewer as they are."""
    if len(words) <= 3:
        return words
    return [word if n == 1 else f"{n} {word}" for word, n in ((w, len(list(same))) for w, same in groupby(words))]


def start(spec: Spec) -> Residual:
    """Give the residual of an empty chain: the whole spec, at the kernel."""

    def operand(role: str, tensor: Tensor) -> Operand:
        return Operand(role, tensor, tensor.memory, tensor.dtype, dims_of(spec, role))

    match spec:
        case MatMul(A, B, C):
            return Residual("MatMul", Kernel, spec.sizes, (operand("A", A), operand("B", B), operand("C", C)))
        case Move(src, dst):
            return Residual("Move", Kernel, _sizes(dst, spec), (operand("src", src), operand("dst", dst)))
        case Init(dst):
            return Residual("Init", Kernel, _sizes(dst, spec), (operand("dst", dst),))
        case Pointwise(_, _, out):
            return Residual("Pointwise", Kernel, _sizes(out, spec), (operand("out", out),))
        case Layers(x, layers, y):
            sizes, weights = (("M", x.shape[0]), ("K", x.shape[1])), tuple(layer.weights for layer in layers)
            return Residual("Layers", Kernel, sizes, (operand("A", x), operand("C", y)), weights=weights)
        case Program():
            sizes = tuple((d.name, simplest(as_expr(d.extent))) for d in spec.dims if d.extent is not None)
            maps = maps_of(spec)
            operands = tuple(
                Operand(role, ref.tensor, GL, ref.dtype, names_of(ref, maps))
                for role, ref in refs_by_role(spec).items()
            )
            return Residual("Program", Kernel, sizes, operands, maps=tuple(maps.items()))
        case Products():
            depths = tuple(dict.fromkeys(a.shape[-1] for a in spec.lefts))
            return Residual(
                "MatMul",
                Kernel,
                (*spec.sizes, ("K", depths[0] if len(depths) == 1 else None)),
                tuple(
                    operand(*x)
                    for part in (("A", spec.lefts), ("B", spec.rights), ("C", spec.outs))
                    for x in roles(*part)
                ),
                sums=tuple(operand(*x) for x in roles("C", spec.held)),
                depths=depths if len(depths) > 1 else (),
            )


def refs_by_role(program: Program) -> dict[str, Ref]:
    """Name each way in which a program reads or writes a caller's tensor: by the tensor, and the dims if several."""
    outside = {t.name for t in (*program.inputs, *program.outputs)}
    found: dict[str, Ref] = {}
    order = [ref for t in program.inputs for s in program.steps for ref in s.reads if ref.name == t.name]
    order += [ref for s in program.steps for ref in s.outs if ref.name in outside]
    for ref in order:
        role = next((r for r, known in found.items() if known == ref), None)
        if role is None:
            words = " ".join(d.name for d in ref.dims) if _plain(ref) else ", ".join(map(str, ref.index))
            found[ref.name if ref.name not in found else f"{ref.name} {words}"] = ref
    return found


def _plain(ref: Ref) -> bool:
    return all(is_plain(ref, i) for i in range(len(ref.index)))


def named_reads(program: Program, step: Step) -> tuple[str, ...]:
    """Give the role of each read of a step; results of other steps go by their own names."""
    roles = refs_by_role(program)
    return tuple(next((r for r, known in roles.items() if known == ref), ref.name) for ref in step.reads)


def layer_of(weights: Tensor, around: Residual) -> Residual:
    """Give the MatMul that one layer is inside a block: A on chip, where the load above put it, and C there too."""
    a = around.operand("A")
    assert a is not None
    *stack, depth, width = weights.shape
    one = tuple((BATCH, 1) for _ in stack)
    sizes = (*one, ("M", around.extents["M"]), ("N", width), ("K", depth))
    dims = ("K", "N") if not stack else (BATCH, "K", "N")
    b = Operand("B", weights, weights.memory, weights.dtype, dims)
    c = evolve(a, role="C", dims=("M", "N"))
    return Residual("MatMul", around.level, sizes, (a, b, c))


def result_of(around: Residual) -> Residual:
    """Give the Move that brings the last layer's result to Y."""
    a, y = around.operand("A"), around.operand("C")
    assert a is not None and y is not None
    sizes = (("M", around.extents["M"]), ("N", y.tensor.shape[-1]))
    src = evolve(a, role="src", dims=("M", "N"))
    return Residual("Move", around.level, sizes, (src, evolve(y, role="dst")))


def roles(letter: str, tensors: tuple[Tensor, ...]) -> tuple[tuple[str, Tensor], ...]:
    """Name the part of each tensor: by its letter where it is the only one, else numbered."""
    if len(tensors) == 1:
        return ((letter, tensors[0]),)
    return tuple((f"{letter}{i}", tensor) for i, tensor in enumerate(tensors))


def _sizes(tensor: Tensor, spec: Spec) -> tuple[tuple[str, Index], ...]:
    return tuple(zip(dims_of(spec, "dst"), tensor.shape, strict=True))


def dims_loaded(residual: Residual, operand: Operand, memory: Memory) -> tuple[str, ...]:
    """Name the dims of a buffer that an operand is loaded to: its own, of the box that a tile reads.

    Where a tile reads no box, shared memory has a place for each point that reads, and the dims are the points'.
    """
    if not residual.maps:
        return operand.dims
    maps, extents = dict(residual.maps), residual.extents
    if memory != SH or not any(dim in maps and reads_apart(maps[dim], extents) for dim in operand.dims):
        return operand.dims
    read = {leaf.name for dim in operand.dims for leaf in (free(maps[dim]) if dim in maps else ())
            if isinstance(leaf, Var)}  # fmt: skip
    return tuple(dim for dim, _ in residual.sizes if dim in read or dim in operand.dims)


def move_of(residual: Residual, role: str, memory: Memory, dtype: DType) -> Residual:
    """Give the Move that brings one operand of a residual to another memory."""
    operand = residual.operand(role)
    assert operand is not None
    dims, extents = dims_loaded(residual, operand, memory), residual.extents
    sizes = tuple([(dim, extents[dim]) for dim in dims])
    src = Operand("src", operand.tensor, operand.memory, operand.dtype, dims)
    dst = Operand("dst", operand.tensor, memory, dtype, dims)
    return Residual("Move", residual.level, sizes, (src, dst))


def store_of(residual: Residual, memory: Memory, dtype: DType, to: Tensor | None = None, number: int = 0) -> Residual:
    """Give the Move that stores what an epilog made of the accumulator, to C or to another tensor of its shape.

    Args:
        residual: before the epilog.
        memory: where the accumulator lies.
        dtype: of what is stored.
        to: the tensor, None for C.
        number: which output, of several products.
    """
    c = residual.playing("C")[number]
    sizes = tuple((dim, residual.extents[dim]) for dim in c.dims)
    dst = evolve(c, role="dst")
    if to is not None:
        dst = evolve(dst, tensor=to, memory=to.memory, dtype=to.dtype)
    return Residual("Move", residual.level, sizes, (evolve(dst, role="src", memory=memory, dtype=dtype), dst))


def apply(link: Decomposition, residual: Residual) -> Residual:
    """Give what remains after one more link."""
    match link:
        case Tile():
            level = link.level or residual.level
            return evolve(residual, level=level, sizes=_tiled(link, residual))
        case Split(size):
            cut = {link.dim: size, **dict(link.further)}
            sizes = tuple((dim, cut.get(dim, extent)) for dim, extent in residual.sizes)
            operands = residual.operands if link.promoted is None else promoted(residual.operands, link.promoted)
            level = link.level or residual.level
            return evolve(residual, level=level, sizes=sizes, depths=(), operands=operands)
        case Load(role, memory):
            return _moved(residual, role, memory, link.dtype, done=link.ops is not None)
        case Prolog(role, value):
            operands = tuple(evolve(o, ops=value) if o.role == role else o for o in residual.operands)
            return evolve(residual, operands=operands)
        case Epilog() if residual.sums:
            kept = tuple(o for o in residual.operands if o not in residual.playing("C"))
            sums = tuple(evolve(o, memory=link.memory, dtype=link.dtype) for o in residual.sums)
            return evolve(residual, operands=(*kept, *sums), sums=())
        case Epilog():
            return _moved(residual, "C", link.memory, link.dtype)
        case Results():
            return residual
        case Own(level):
            sizes = tuple((dim, None) for dim, _ in residual.sizes)
            return evolve(residual, level=level, sizes=sizes)
        case Done() | Each() | EachStep():
            return evolve(residual, closed=True)


def promoted(operands: tuple[Operand, ...], dtype: DType) -> tuple[Operand, ...]:
    """Let the products of a chunk be summed on their own: what prologs multiply by waits for their sums.

    Args:
        operands: of the residual.
        dtype: of a chunk's sums.
    """
    return tuple(evolve(o, dtype=dtype) if o.role[0] == "C" else evolve(o, ops=None) for o in operands)


def _tiled(link: Tile, residual: Residual) -> tuple[tuple[str, Index | None], ...]:
    if isinstance(link.sizes, Widest):
        return tuple((dim, None) for dim, _ in residual.sizes)
    new = dict(link.sizes)
    return tuple((dim, extent_in(new[dim], extent) if dim in new else extent) for dim, extent in residual.sizes)


def extent_in(size: Extent, extent: Index | None) -> Index | None:
    """Count the elements that a tile takes of a dimension."""
    if isinstance(size, Chunks):
        return None if not isinstance(extent, int) else size.chunk * -(-extent // size.stride)
    return size


def brought_along(residual: Residual, role: str, memory: Memory) -> tuple[str, ...]:
    """List reads of the same array that a load to shared memory serves too: of the same lines, fewer columns.

    Args:
        residual: above the load.
        role: what is loaded.
        memory: where to.
    """
    mine = residual.operand(role)
    if mine is None or residual.kind != "Program" or memory != SH:
        return ()
    maps, extents = dict(residual.maps), residual.extents

    def inside(dim: str, other: str, extent: Index) -> bool:
        if dim == other:
            return True
        index = maps.get(other)
        whole = extents.get(dim)
        return isinstance(index, Var) and dim not in maps and whole is not None and as_expr(whole) == as_expr(extent)

    others = (o for o in residual.operands if o.role != role and o.tensor == mine.tensor and o.memory == mine.memory)
    return tuple(o.role for o in others if all(map(inside, mine.dims, o.dims, mine.tensor.shape)))


def _moved(residual: Residual, role: str, memory: Memory, dtype: DType | None, done: bool = False) -> Residual:
    together = (role, *brought_along(residual, role, memory))
    operands = tuple(
        evolve(
            o, memory=memory, dtype=dtype or o.dtype, ops=None if done else o.ops,
            dims=dims_loaded(residual, o, memory),
        )
        if o.role in together
        else o
        for o in residual.operands
    )  # fmt: skip
    return evolve(residual, operands=operands)


def after(spec: Spec, links: tuple[Decomposition, ...]) -> Residual:
    """Give what remains after a whole chain."""
    residual = start(spec)
    for link in links:
        residual = apply(link, residual)
    return residual
