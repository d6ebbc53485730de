"""The record of one hardware instruction (an atom). The compiler has no other source of facts about instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from fireiron.algebra.dtypes import DType, u8
from fireiron.algebra.expr import Var, simplest
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Binary, Constant, Scalar
from fireiron.language.folds import add_of, max_of, min_of
from fireiron.language.levels import Level, Memory
from fireiron.language.steps import Ref, Step, dense

if TYPE_CHECKING:
    import numpy as np

    from fireiron.algebra.arch import Arch

Meaning: TypeAlias = "Callable[..., np.ndarray[Any, Any]]"
# The term that a MatMul sums over K: a product, or the bits of `a ^ b` or of `a & b`.
Product: TypeAlias = Literal["mul", "xor", "and"]


# Where the sum of a MatMul is rounded to C's type. Of the values below: once, after the exact sum of all products;
# after each product that is added (by way of f32 where the hardware has no such arithmetic); once after each of the
# three sums of tf32x3; "" where `numpy` computes the result.
Rounding: TypeAlias = Literal["", "once", "each", "each, through f32", "once, of parts"]
# The operation of a Reduce on the values of all lanes.
Fold: TypeAlias = Literal["add", "min", "max", "and", "or", "xor"]
F32_LANES = 128  # fp32 lanes of an SM: `Atom.clocks` are those of an SM with so many
# Width in bytes of the swizzled rows of shared memory, 0 for rows without a swizzle.
SPANS = (128, 64, 32, 0)
# L2 cache policies: lines are evicted before others, after others, in normal order, or keep the order that they had.
Policy: TypeAlias = Literal["evict_first", "evict_last", "evict_normal", "evict_unchanged"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
# L1 cache policies of loads: as above, or the lines are not kept at all.
LoadPolicy: TypeAlias = Literal["evict_first", "evict_last", "evict_unchanged", "no_allocate"]
LOAD_POLICIES: tuple[LoadPolicy, ...] = get_args(LoadPolicy)
# Kinds of asynchronous instructions: copies (cp.async: visible first to the thread that started them); products (wgmma:
# they hold registers of their unit); stores of boxes (TMA); loads of boxes (TMA: an mbarrier counts their bytes); sends
# of registers to shared memory of the cluster (st.async: the receiving block's mbarrier counts their bytes).
Flying: TypeAlias = Literal["copies", "products", "stores", "loads", "sends"]


def summand(product: Product, left: Scalar, right: Scalar) -> Scalar:
    """Return the term that a MatMul sums over K: the product (of bits: and), or for `xor` 1 where two bits differ."""
    if product != "xor":
        return Binary("mul", left, right)
    return Binary("sub", Constant(1, left.dtype), Binary("eq", left, right))


@attrs.frozen
class Flight:
    """Describe one group of asynchronous instructions: what is in flight, and the CUDA that waits for it.

    Args:
        name: name of the group, as `Commit`, `Wait` and an atom's `completion` name it. Example: `cp.async`.
        kind: the kind of instructions: copies, products, stores, loads or sends.
        helpers: CUDA functions, by name: `<name>_commit`, `<name>_wait`, and a fence where one is needed.
    """

    name: str
    kind: Flying
    helpers: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Operand:
    """Describe one operand of an atom.

    Args:
        role: `A`, `B`, `C` of a MatMul; `src`, `dst` of a Move, and of an Add.
        memory: the memory of the operand.
        dtype: element type of the operand, or None where the instruction copies bytes of any type.
        shape: rows and columns of the operand (a Move's vector: (1, elements)).
        layout: thread-value layout ((thread), (register)) -> row + rows * column, threads of one unit first.
        access: read, write, or update (both, as a product's C in registers).
        span: width in bytes (128, 64 or 32) of the swizzled rows in which shared memory must hold the operand; 0 where
            any layout is allowed, because each thread addresses its own elements.
        descriptor: name of the CUDA function template that encodes the address of swizzled rows, "" where none is
            needed.
        opaque: the name of a fragment whose layout the ISA does not state, or "". Such a fragment matches only
            fragments of the same name; its `layout` is a stand-in for the simulator.
        align: alignment in bytes of the tile's first element; 0: the size of the vector.
        pitch: the distance between the tile's rows (or columns) must be a multiple of this number of bytes, for an
            instruction that takes the distance as `{pitch}` and the first element's offset as `{tile}`. 0: the
            instruction takes no distance.
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
        name: a unique name. Example: `fma.f32`, `copy.16B.GL.SH`.
        kind: the kind of spec that the atom executes. An Add adds registers to memory, each element atomically. A
            Reduce folds one value of each thread of a unit, and returns the result to all of them.
        shape: (m, n, k) of a MatMul; (elements,) of a Move or Add, or (0,) where `nbytes` gives the size.
        unit: the level whose unit executes the atom, such as Thread or Warp.
        operands: the operands in the order of the spec: A, B, C or src, dst.
        arch: smallest architecture as an integer (75 for sm_75).
        last: the largest architecture with the atom, 0 where all later architectures have it too.
        source: the text that describes the instruction, such as a section of the PTX ISA.
        cuda: one wrapper function's text in CUDA C++, or "" where the call is a plain expression.
        call: the statement that calls the wrapper. Its fields `{A}`, `{B}`, `{C}` or `{src}`, `{dst}` become lvalues of
            each operand's first element (`{A[1]}`: the second element; `{src.name}`: the buffer). A Shuffle also has
            `{lane}`; an operand with a pitch has `{tile}` and `{pitch}`.
        guarded_cuda: the wrapper of `guarded_call`.
        guarded_call: the statement of a Move that writes zeros where `{read}` is false, or "" where there is none.
        masked_cuda: the wrapper of `masked_call`.
        masked_call: the statement of a Move with a predicate: it does nothing where `{write}` is false. "" where the
            instruction has no predicate, so that a branch must stand around the call.
        nbytes: bytes that a Move copies, whatever their element type (its operands' elements are then bytes); else 0.
        completion: name of the `Flight` to wait for before the result may be read, "" where the instruction is
            synchronous.
        before: kind of the `Fence` needed between the last access to the operands' registers and the instruction, or
            "".
        rank: for copies by a tensor map, the number of dimensions of the copied box; 0 for other instructions.
        hint: the L2 cache policy of the copy, such as `evict_first`, or "".
        multicast: whether the copied box is written to several blocks of a cluster.
        windows: whether the atom copies a run of pixels at one offset, by a tensor map in im2col mode.
        adding: element types of a copy that adds to the destination, () where it overwrites.
        peer: whether an operand is the shared memory of another block of the cluster.
        lanes: the kind of SM lanes that issue the atom (`fp32`), if the number of such lanes differs between
            architectures; else "".
        zeroes: whether a MatMul can treat C as zero (the Call's `accumulate` then says whether it does).
        kept: bits of the sum's mantissa that the hardware keeps inside one instruction; 0: as many as the accumulator.
        rounding: where the sum of a MatMul is rounded; the simulator derives the result from it and from `step`.
        numpy: numpy(a, b, c) -> new c, for a MatMul that no `rounding` describes. An operand in registers is an array
            (units, threads, registers); an operand in shared memory is an array (units, rows, columns). Packed elements
            are given as bytes.
        clocks: issue clocks of one warp instruction on one SM sub-partition, for the cost model.
        emulated: the first architecture that emulates the atom by other instructions, and the issue clocks there.
        converge: the level whose threads must all execute the atom together, if this level is larger than the unit;
            else None.
        product: the term that a MatMul sums: `mul`, or for bits `xor` or `and`.
        fold: the operation of a Reduce (`add`, `max`, ...), "" for other kinds.
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
        """Return what the atom computes, as a step over its own dims; None for folds of bits, which have no expression.

        Dim `e` counts the elements of a Move (bytes where it copies any type; for a box its extent is unknown). Dim `t`
        counts the threads of a unit.

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
        """Return the issue clocks on an architecture, without regard to the number of lanes."""
        return self.emulated[1] if self.emulated is not None and arch >= self.emulated[0] else self.clocks

    def issue_clocks(self, arch: Arch) -> float:
        """Return the issue clocks on the architecture's GPU; an SM with fewer fp32 lanes needs more clocks."""
        narrow = F32_LANES / arch.gpu.fp32_lanes if self.lanes == "fp32" else 1.0
        return self.clocks_on(arch.number) * narrow

    def missing_on(self, arch: int) -> str:
        """Return why an architecture does not have this instruction, "" where it has it."""
        if arch < self.arch:
            return f"needs sm_{self.arch}, not sm_{arch}"
        if not self.last or arch <= self.last:
            return ""
        return f"is for sm_{self.arch} {'alone' if self.last == self.arch else f'to sm_{self.last}'}, not sm_{arch}"

    @property
    def family(self) -> str:
        """Return the first word of the atom's name."""
        return self.name.split(".")[0]

    def operand(self, role: str) -> Operand:
        """Return the operand of a role."""
        return next(o for o in self.operands if o.role == role)
