"""Declarations of a kernel's parameters and buffers, and the text of one element."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import assert_never

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, as_expr, as_int, free, terms
from fireiron.algebra.index.printing import fits_int32, to_c
from fireiron.base.errors import CheckError
from fireiron.cuda.types import c_type
from fireiron.kernel.ir.statements import (
    Buffer,
    Call,
    Compute,
    Kernel,
    Micro,
    Number,
    Parameter,
    Pointer,
    Size,
    TensorMap,
    View,
    Workspace,
    walk,
)
from fireiron.language.levels import GL, SH

VECTOR_NBYTES = 16


class Numbers:
    """Print index expressions, in `long long` where they might not fit an int; each text is made once for a kernel."""

    def __init__(self) -> None:
        self._printed: dict[Expr, str] = {}

    def __call__(self, value: Expr) -> str:
        """Print an expression."""
        text = self._printed.get(value)
        if text is None:
            text = self._printed[value] = to_c(value, wide=True)
        return text


def integer_type(value: Expr) -> str:
    """Name the C type that holds an index expression."""
    return "int" if fits_int32(value) else "long long"


@attrs.frozen
class Element:
    """Print a view's first element as an lvalue; indexing prints its other elements, in the view's order.

    Args:
        view: the elements.
        number: prints index expressions.
        k_first: whether K is the first dimension of a tile (B[k, n]) instead of its last (A[m, k]).
        constants: variables whose values the compiler knows.
        encode: name of the CUDA function that makes a descriptor of a tile.
    """

    view: View
    number: Numbers
    k_first: bool = False
    constants: Collection[str] = ()
    encode: str = ""

    @property
    def name(self) -> str:
        """Name the buffer."""
        return self.view.buffer.name

    def __str__(self) -> str:
        return f"{self.view.buffer.name}[{self.number(self.view.offset)}]"

    def __getitem__(self, place: int) -> str:
        return f"{self.view.buffer.name}[{self.number(self.view.offset + self.view.layout(place))}]"

    @property
    def major(self) -> int:
        """Return 0 for a tile whose K is contiguous, else 1."""
        return 0 if self._lines()[0 if self.k_first else 1][0][1] == 1 else 1

    @property
    def descriptor(self) -> str:
        """Print the descriptor of a swizzled tile in shared memory, an operand of wgmma.

        The part of the tile's offset that the compiler knows is an argument of its own: it can be added to a
        descriptor.
        """
        nbytes = self.view.buffer.dtype.nbytes
        swizzle = self.view.swizzle
        assert swizzle is not None
        span = 16 << swizzle.bits
        along_k, across = self._lines()[:: 1 if self.k_first else -1]
        lead = 16
        if self.major:
            along_k, across = across, along_k
            lead = along_k[1][1] * nbytes if len(along_k) > 1 else 16
        known, rest = as_expr(0), as_expr(0)
        for term in terms(self.view.offset):
            if all(leaf.name in self.constants for leaf in free(term)):
                known = known + term
            else:
                rest = rest + term
        mode = {3: 1, 2: 2, 1: 3}[swizzle.bits]
        return (
            f"{self.encode}<{mode}, {lead}, {8 * span}>"
            f"(&{self.view.buffer.name}[{self.number(rest)}], {self.number(known * nbytes)})"
        )

    def _lines(self) -> list[list[tuple[int, int]]]:
        """List pairs of extent and stride, along a tile's rows and along its columns."""
        return [[(int(n), int(s)) for n, s in mode.leaves] for mode in self.view.layout.modes]  # pyright: ignore[reportArgumentType]


def parameter(p: Parameter, alone: bool = True) -> str:
    """Declare a kernel parameter; what the kernel only reads may go through the read-only cache.

    Args:
        p: the parameter.
        alone: whether no other kernel writes the memory while this one runs. If one may, no load may move ahead of the
            wait for that kernel, so the memory is not declared read-only.
    """
    match p:
        case Pointer(buffer=buffer):
            const = "" if buffer.written else "const "
            return f"{const}{c_type(buffer.dtype)}* {'__restrict__ ' if alone else ''}{buffer.name}"
        case Size(symbol=symbol):
            return f"int {symbol.name}"
        case Number(name=name, dtype=dtype):
            return f"{c_type(dtype)} {name}"
        case TensorMap(name=name):
            return f"const __grid_constant__ TensorMap {name}"
        case Workspace(buffer=buffer):
            return f"{c_type(buffer.dtype)}* {buffer.name}"  # other blocks write it too
        case _ as never:
            assert_never(never)


def buffers(kernel: Kernel) -> Iterator[str]:
    """Declare the buffers in shared memory and in registers, those of shared memory first.

    Raises:
        CheckError: `register-size` where the size of a register array is not a number.
    """
    shared = [buffer for buffer in kernel.buffers if buffer.memory == SH]
    if shared or kernel.barriers:
        yield "extern __shared__ __align__(1024) unsigned char shared[];"
    for buffer in shared:
        place = f"shared + {buffer.offset}" if buffer.offset else "shared"
        yield f"{c_type(buffer.dtype)}* {buffer.name} = reinterpret_cast<{c_type(buffer.dtype)}*>({place});"
    for barrier in kernel.barriers:
        place = f"shared + {barrier.offset}"
        yield f"unsigned long long* {barrier.name} = reinterpret_cast<unsigned long long*>({place});"
    vectors = _vector_names(kernel)
    for buffer in kernel.buffers:
        if buffer.memory not in (GL, SH):
            align = f"alignas({VECTOR_NBYTES}) " if buffer.name in vectors else ""
            yield f"{align}{c_type(buffer.dtype)} {buffer.name}[{_registers(buffer)}];"


def dtypes(kernel: Kernel) -> set[DType]:
    """Collect the element types that declarations name."""
    found = {buffer.dtype for buffer in kernel.buffers}
    for p in kernel.parameters:
        match p:
            case Pointer(buffer=buffer) | Workspace(buffer=buffer):
                found.add(buffer.dtype)
            case Number(dtype=dtype):
                found.add(dtype)
            case Size() | TensorMap():
                pass
            case _ as never:
                assert_never(never)
    return found


def views(kernel: Kernel) -> Iterator[tuple[View, int]]:
    """List each view of the kernel with the bytes that one access to it touches."""
    for statement in walk(kernel.body):
        match statement:
            case Call(atom=atom, views=operands):
                for operand, view in zip(atom.operands, operands, strict=True):
                    yield view, atom.nbytes or view.buffer.dtype.nbytes_of(operand.registers)
            case Compute(dst=dst, inputs=inputs):
                yield from ((view, view.buffer.dtype.nbytes) for view in (dst, *inputs))
            case Micro(views=operands):
                yield from ((view, view.buffer.dtype.nbytes) for view in operands)
            case _:
                pass


def _vector_names(kernel: Kernel) -> set[str]:
    """Name the buffers with vector accesses, whose arrays must be aligned."""
    return {view.buffer.name for view, nbytes in views(kernel) if nbytes > view.buffer.dtype.nbytes}


def _registers(buffer: Buffer) -> int:
    size = as_int(buffer.size)
    if size is None:
        raise CheckError(
            "register-size",
            f"the register array {buffer.name} has {buffer.size} elements, which is known only at launch",
            fix="give it a tile of constant size",
        )
    return size * buffer.slots
