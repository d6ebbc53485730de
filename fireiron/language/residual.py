"""Residual specs: the smaller spec that remains after each link of a chain."""

from __future__ import annotations

from itertools import groupby
from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index, Var, as_expr, free, simplest
from fireiron.algebra.layout import Layout
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
    """Describe one operand of a residual spec: its tensor, and where its tile lies at this place of the chain.

    Args:
        role: `A`, `B`, `C` of a MatMul; `src`, `dst` of a Move; `out` of an Init or Pointwise.
        tensor: the tensor of the whole spec that the operand is a tile of.
        memory: the memory that holds the tile.
        dtype: element type of the tile in that memory.
        dims: the dimensions that index the operand.
        ops: pending ops: an expression of an element that a later load, or the product's atom, must still apply; None
            for none.
    """

    role: str
    tensor: Tensor
    memory: Memory
    dtype: DType
    dims: tuple[str, ...]
    ops: Value | None = None

    @property
    def computed(self) -> DType:
        """Return the element type after the pending ops."""
        return self.dtype if self.ops is None else self.ops.dtype


@attrs.frozen(slots=False)
class Residual:
    """Describe the spec that a chain has left to decompose.

    Args:
        kind: MatMul, Move, Init, Pointwise, Layers or Program.
        level: the level whose unit executes the spec.
        sizes: extent of each dimension; None where a vector's width is still open.
        operands: the operands, in the spec's order.
        closed: whether an atom or a microkernel executes the spec.
        sums: for several products, the accumulators, which replace the outputs below the epilog.
        depths: for several products, the extents of K where these differ between products.
        weights: for layers, the weights of each layer.
        maps: index expressions of a program that are not a single dim, by the name of their box's dim. Example:
            (("p_r", 2 * p + r - 1),).
        adds: whether a Move adds to the elements of its destination.
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
    adds: bool = False

    @property
    def extents(self) -> dict[str, Index | None]:
        """Map each dimension to its extent; a box's extents follow from the dims in its index expressions."""
        found = dict(self.sizes)
        return found | {name: box_extent(e, found) for name, e in self.maps} if self.maps else found

    def operand(self, role: str) -> Operand | None:
        """Find an operand by its role."""
        for operand in self.operands:
            if operand.role == role:
                return operand
        return None

    def playing(self, letter: str) -> tuple[Operand, ...]:
        """List the operands of one role: several products have several (`A0`, `A1`)."""
        return tuple(o for o in self.operands if o.role == letter or (o.role[0] == letter and o.role[1:].isdigit()))

    @property
    def words(self) -> tuple[str, ...]:
        """Print the extents, such as 128x128x8; where products have different K, print each one's."""
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
    """Write equal words in a row once, with their number; up to three words are written as they are."""
    if len(words) <= 3:
        return words
    return [word if n == 1 else f"{n} {word}" for word, n in ((w, len(list(same))) for w, same in groupby(words))]


def start(spec: Spec) -> Residual:
    """Return the residual of an empty chain: the whole spec, at the level of the kernel."""

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
    """Map roles to the distinct reads and writes of the caller's tensors.

    The first read of `x` has role `x`; a read of `x` at other dims has role `x i j`, the tensor and the dims.
    """
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
    """Return the role of each read of a step; for a result of another step this is the result's name."""
    roles = refs_by_role(program)
    return tuple(next((r for r, known in roles.items() if known == ref), ref.name) for ref in step.reads)


def layer_of(weights: Tensor, around: Residual) -> Residual:
    """Return the MatMul of one layer inside a block: A and C lie in the memory to which X was loaded."""
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
    """Return the Move that stores the last layer's result to Y."""
    a, y = around.operand("A"), around.operand("C")
    assert a is not None and y is not None
    sizes = (("M", around.extents["M"]), ("N", y.tensor.shape[-1]))
    src = evolve(a, role="src", dims=("M", "N"))
    return Residual("Move", around.level, sizes, (src, evolve(y, role="dst")))


def roles(letter: str, tensors: tuple[Tensor, ...]) -> tuple[tuple[str, Tensor], ...]:
    """Pair tensors with their roles: the letter alone for a single tensor, else numbered (`A0`, `A1`)."""
    if len(tensors) == 1:
        return ((letter, tensors[0]),)
    return tuple((f"{letter}{i}", tensor) for i, tensor in enumerate(tensors))


def _sizes(tensor: Tensor, spec: Spec) -> tuple[tuple[str, Index], ...]:
    return tuple(zip(dims_of(spec, "dst"), tensor.shape, strict=True))


def dims_loaded(residual: Residual, operand: Operand, memory: Memory) -> tuple[str, ...]:
    """Return the dims of the buffer that an operand is loaded to: those of the box that a tile reads.

    Where the elements that a tile reads form no box, a shared buffer has one place for each reading point, with the
    points' dims.
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
    """Return the Move that copies one operand of a residual to another memory."""
    operand = residual.operand(role)
    assert operand is not None
    dims, extents = dims_loaded(residual, operand, memory), residual.extents
    sizes = tuple([(dim, extents[dim]) for dim in dims])
    src = Operand("src", operand.tensor, operand.memory, operand.dtype, dims)
    dst = Operand("dst", operand.tensor, memory, dtype, dims)
    return Residual("Move", residual.level, sizes, (src, dst))


def store_of(residual: Residual, memory: Memory, dtype: DType, to: Tensor | None = None, number: int = 0) -> Residual:
    """Return the Move that stores an epilog's result from registers to C or to another tensor of its shape.

    Args:
        residual: the residual above the epilog.
        memory: the memory of the accumulator.
        dtype: element type of the stored values.
        to: the tensor to store to, None for C.
        number: index of the output, for several products.
    """
    c = residual.playing("C")[number]
    sizes = tuple((dim, residual.extents[dim]) for dim in c.dims)
    dst = evolve(c, role="dst")
    if to is not None:
        dst = evolve(dst, tensor=to, memory=to.memory, dtype=to.dtype)
    return Residual("Move", residual.level, sizes, (evolve(dst, role="src", memory=memory, dtype=dtype), dst))


def beside(residual: Residual, tensor: Tensor, role: str) -> Residual:
    """Add a tensor of an epilog's ops as the first operand; it has the shape of C, or of each product of a batch.

    Args:
        residual: the residual of one product.
        tensor: the tensor with C's orientation: transposed where the product is swapped.
        role: the operand's role.
    """
    (c,) = residual.playing("C")
    dims = c.dims[-len(tensor.shape) :]
    return evolve(residual, operands=(Operand(role, tensor, GL, tensor.dtype, dims), *residual.operands))


def apply(link: Decomposition, residual: Residual) -> Residual:
    """Return the residual after one more link."""
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
    """Return operands for chunks whose products are summed separately; prologs then apply to the chunks' sums.

    Args:
        operands: the operands of the residual.
        dtype: element type of a chunk's sums.
    """
    return tuple(evolve(o, dtype=dtype) if o.role[0] == "C" else evolve(o, ops=None) for o in operands)


def _tiled(link: Tile, residual: Residual) -> tuple[tuple[str, Index | None], ...]:
    if isinstance(link.sizes, Widest):
        return tuple((dim, None) for dim, _ in residual.sizes)
    new = dict(link.sizes)
    return tuple((dim, extent_in(new[dim], extent) if dim in new else extent) for dim, extent in residual.sizes)


def extent_in(size: Extent, extent: Index | None) -> Index | None:
    """Return how many elements of a dimension a tile has: its extent, or the total of its chunks at a stride."""
    if isinstance(size, Chunks):
        return None if not isinstance(extent, int) else size.chunk * -(-extent // size.stride)
    if isinstance(size, Layout):
        return size.size
    return size


def brought_along(residual: Residual, role: str, memory: Memory) -> tuple[str, ...]:
    """List other reads of the same array that a load to shared memory also serves: the tile holds their elements.

    Args:
        residual: the residual above the load.
        role: the operand that is loaded.
        memory: the memory that the operand is loaded to.
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
    """Return the residual after a whole chain."""
    residual = start(spec)
    for link in links:
        residual = apply(link, residual)
    return residual
