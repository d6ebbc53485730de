"""The record of an instruction; everything the compiler knows of it is derived from this row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from fireiron.algebra.dtypes import DType, u8
from fireiron.algebra.expr import Var, simplest
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar
from fireiron.language.levels import Level, Memory
from fireiron.language.steps import Ref, Step, add_of, dense, max_of, min_of

if TYPE_CHECKING:
    import numpy as np

    from fireiron.algebra.arch import Arch

Meaning: TypeAlias = "Callable[..., np.ndarray[Any, Any]]"
# What a MatMul sums over K: products, or the bits of `a ^ b` or of `a & b`.
Product: TypeAlias = Literal["mul", "xor", "and"]


# Where a product's sum is rounded: once, behind the exact sum of all products, or at each product that is added, in C's
# type, there through f32 where the hardware has no such arithmetic; once for each of the three products of the parts of
# f32 elements; "" where `numpy` says it.
Rounding: TypeAlias = Literal["", "once", "each", "each, through f32", "once, of parts"]
# What a Reduce makes of the values of all lanes.
Fold: TypeAlias = Literal["add", "min", "max", "and", "or", "xor"]
# Bytes of the rows in which shared memory may be swizzled, 0 for plain rows.
F32_LANES = 128  # fp32 lanes of the SM that atoms' clocks are for
SPANS = (128, 64, 32, 0)
# What the L2 cache does with lines: they go before others, after others, in their turn, or in the turn that they had.
Policy: TypeAlias = Literal["evict_first", "evict_last", "evict_normal", "evict_unchanged"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
# What is in flight: copies that a thread starts and sees first itself; products that hold registers of their unit;
# boxes that a thread stores; boxes whose bytes an mbarrier counts as they land.
Flying: TypeAlias = Literal["copies", "products", "stores", "loads"]


def summand(product: Product, left: Scalar, right: Scalar) -> Scalar:
    """Give what a MatMul sums over K: a product, or of bits whether they differ."""
    if product != "xor":
        return Binary("mul", left, right)
    return Binary("sub", Constant(1, left.dtype), Binary("eq", left, right))


@attrs.frozen
class Flight:
    """Say how instructions are awaited that end later than they are issued.

    Args:
        name: of the group, in `Commit`, `Wait` and an atom's `completion`.
        kind: what is in flight.
        helpers: CUDA functions, by name: `<name>_commit`, `<name>_wait`, and a fence where one is needed.
    """

    name: str
    kind: Flying
    helpers: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Operand:
    """Say what an atom takes in one of its operand places.

    Args:
        role: `A`, `B`, `C` of a MatMul; `src`, `dst` of a Move, and of an Add.
        memory: where the operand must lie.
        dtype: its element type, or None where any type of the right size will do.
        shape: rows and columns of the operand (a Move's vector: (1, elements)).
        layout: thread-value layout ((thread), (register)) -> row + rows * column, threads of one unit first.
        access: read, write, or both: what a bulk copy updates it adds to.
        span: bytes of the rows in which shared memory must hold it, swizzled (128, 64, 32), or 0 where any place
            will do: then each thread addresses its own elements.
        descriptor: the CUDA function template that encodes the place of such rows, "" where none is needed.
        opaque: the name of a fragment whose layout the ISA leaves open, or "": such a one agrees with those of its own
            name alone, and `layout` merely stands in for the hardware's.
        align: bytes by which the tile's first element must be aligned, 0 where the vector's own size says it.
        pitch: bytes that the distance of the tile's rows (or columns) must be a multiple of, where the instruction
            takes that distance as `{pitch}` and the tile's first element as `{tile}`, an offset; else 0.
    """

    role: str
    memory: Memory
    dtype: DType | None
    shape: tuple[int, int]
    layout: Layout
    access: Literal["read", "write", "update"] = "read"
    span: int = 0
    opaque: str = ""
    align: int = 0
    pitch: int = 0
    descriptor: str = ""

    @property
    def registers(self) -> int:
        """Count the elements that one thread holds."""
        return self.layout[1].size


@attrs.frozen
class Atom:
    """Describe one instruction.

    Args:
        name: unique, the field's name of it (`fma.f32`, `copy.16B.GL.SH`).
        kind: the spec it executes; an Add adds registers to memory, indivisibly for each element; a Reduce gives
            each of a unit's threads what it makes of a value of all of them.
        shape: (m, n, k) of a MatMul; (elements,) of a Move or Add in elements, or (0,) where `nbytes` says it.
        unit: the level whose unit executes it.
        operands: in the order of the spec: A, B, C or src, dst.
        arch: smallest architecture as an integer (75 for sm_75).
        last: the last one that has it, 0 where all later ones do.
        source: where the row was read (PTX ISA section).
        cuda: one wrapper function's text in CUDA C++, or "" where the call is a plain expression.
        call: the statement that calls it, with named fields `{A}`, `{B}`, `{C}` or `{src}`, `{dst}`: an lvalue of each
            view's first element (`{A[1]}`: of its second; `{src.name}`: the buffer); `{lane}` of a Shuffle; `{tile}`
            and `{pitch}` of an operand that has a pitch.
        guarded_cuda: the wrapper of `guarded_call`.
        guarded_call: the statement of a Move that writes zeros where `{read}` is false, or "" where there is none.
        masked_cuda: the wrapper of `masked_call`.
        masked_call: the statement of a Move that does nothing where `{write}` is false by the instruction's own
            predicate, or "" where a branch must do.
        nbytes: bytes a Move carries (its dtype is then free and its operands' elements are bytes), else 0.
        completion: name of the `Flight` that is awaited before the result is there, "" where the result is there at
            once.
        before: kind of the `Fence` that must stand between the last access of its registers and it, or "".
        rank: dimensions of the box that it moves by a tensor map, 0 for other instructions.
        hint: what it asks of the L2 cache, or "".
        multicast: whether its box lands in several blocks of a cluster.
        windows: whether it copies a run of pixels at one offset, by a tensor map in im2col mode.
        adding: element types that it adds to what is there, () where it overwrites.
        peer: whether its source is the shared memory of another block of the cluster.
        lanes: which lanes of an SM issue it, where architectures have different numbers of them (`fp32`), or "".
        zeroes: whether a MatMul can take C for zero, by the Call's `accumulate`.
        kept: bits of the sum's mantissa that the hardware keeps in one instruction, 0 for all of the accumulator's.
        rounding: where the sum of a MatMul is rounded; what it computes follows from that and from its `step`.
        numpy: meaning of a MatMul whose sum no `rounding` describes: numpy(a, b, c) -> new c. An operand in registers
            is an array (units, threads, registers); one in shared memory is the tile itself, (units, rows, columns)
            as the operand's shape says, read through its view, whose layout lists the tile with the row fastest.
            Packed elements come as the bytes that hold them.
        clocks: issue clocks of one warp instruction on one SM sub-partition, for the cost model.
        emulated: the first architecture on which other instructions stand in for it, and its clocks there.
        converge: the level whose threads must all arrive, where that is more than the unit (None: the unit's own).
        product: what a MatMul sums.
        fold: what a Reduce makes of the values, "" for other kinds.
    """

    name: str
    kind: Literal["MatMul", "Move", "Shuffle", "Add", "Reduce"]
    shape: tuple[int, ...]
    unit: Level
    operands: tuple[Operand, ...]
    arch: int
    source: str
    cuda: str
    call: str
    guarded_cuda: str = ""
    guarded_call: str = ""
    masked_cuda: str = ""
    masked_call: str = ""
    nbytes: int = 0
    completion: str = ""
    before: Literal["", "registers"] = ""
    rank: int = 0
    hint: str = ""
    multicast: bool = False
    windows: bool = False
    adding: tuple[DType, ...] = ()
    peer: bool = False
    lanes: Literal["", "fp32"] = ""
    zeroes: bool = False
    kept: int = 0
    rounding: Rounding = ""
    numpy: Meaning | None = attrs.field(default=None, eq=False, repr=False)
    clocks: float = 1.0
    converge: Level | None = None
    product: Product = "mul"
    fold: Fold | Literal[""] = ""
    last: int = 0
    emulated: tuple[int, float] | None = None

    @property
    def step(self) -> Step | None:
        """Give what it computes, as a step over dims of its own; None for folds of bits, which no expression says.

        The dim `e` counts the elements of a Move (bytes where any type will do, any number of a box); `t` the threads
        of a unit.

        Example:
            >>> from fireiron.atoms.table import find
            >>> print(find("mma.m16n8k16.f32.f16").step, find("copy.16B.GL.SH").step, sep="; ")
            C[m, n] = add over k of A[m, k] * B[k, n]; dst[e] = src[e]
        """

        def ref(role: str, *dims: Var) -> Ref:
            o = self.operand(role)
            shape = tuple(1 if d.extent is None else simplest(d.extent) for d in dims)
            t = dense(role, shape, o.dtype or u8, o.memory)
            return Ref(t.name, t.shape, t.dtype, t.strides, o.memory, dims)

        if self.kind == "MatMul":
            m, n, k = (Var(name, size) for name, size in zip("mnk", self.shape, strict=True))
            a, b, c = ref("A", m, k), ref("B", k, n), ref("C", m, n)
            body = summand(self.product, Arg(0, a.dtype), Arg(1, b.dtype))
            return Step("C", (c,), (a, b), body, add_of(c.dtype), (k,))
        if self.kind == "Reduce":
            made = {"add": add_of, "min": min_of, "max": max_of}.get(self.fold)
            src, dst = ref("src", Var("other", self.unit.size)), ref("dst", Var("t", self.unit.size))
            folded = None if made is None else made(src.dtype)
            return folded and Step("dst", (dst,), (src,), Arg(0, src.dtype), folded, src.dims)
        if self.kind == "Shuffle":
            src, dst = ref("src", Var("lane", self.unit.size)), ref("dst", Var("t", self.unit.size))
            return Step("dst", (dst,), (src,), Arg(0, src.dtype))
        e = Var("e", self.nbytes or self.shape[0] or None)
        src, dst = ref("src", e), ref("dst", e)
        if self.kind == "Add":
            return Step("dst", (dst,), (dst, src), Binary("add", Arg(0, dst.dtype), Arg(1, src.dtype)))
        return Step("dst", (dst,), (src,), Arg(0, src.dtype))

    def clocks_on(self, arch: int) -> float:
        """Give its issue clocks on an architecture."""
        return self.emulated[1] if self.emulated is not None and arch >= self.emulated[0] else self.clocks

    def issue_clocks(self, arch: Arch) -> float:
        """Give its issue clocks on an architecture's GPU, which may have fewer lanes of fp32 in an SM."""
        narrow = F32_LANES / arch.gpu.fp32_lanes if self.lanes == "fp32" else 1.0
        return self.clocks_on(arch.number) * narrow

    def missing_on(self, arch: int) -> str:
        """Say why an architecture does not have this instruction, "" where it does."""
        if arch < self.arch:
            return f"needs sm_{self.arch}, not sm_{arch}"
        if not self.last or arch <= self.last:
            return ""
        return f"is for sm_{self.arch} {'alone' if self.last == self.arch else f'to sm_{self.last}'}, not sm_{arch}"

    @property
    def family(self) -> str:
        """Give the first word of its name."""
        return self.name.split(".")[0]

    def operand(self, role: str) -> Operand:
        """Find an operand by its role."""
        return next(o for o in self.operands if o.role == role)
