"""Links, expressions and tensors in words, for trees, differences and explanations."""

from __future__ import annotations

from typing import assert_never

import attrs

from fireiron.algebra.expr import Index, as_expr, simplest
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
)
from fireiron.base.text import nbytes
from fireiron.language.atom import Atom
from fireiron.language.decompositions import (
    ByAtomics,
    ByCluster,
    ByTma,
    Decomposition,
    Done,
    Each,
    EachStep,
    Epilog,
    Extent,
    Load,
    Microkernel,
    Own,
    Prolog,
    Results,
    Split,
    Tile,
    Widest,
)
from fireiron.language.levels import Block, Warp
from fireiron.language.pointwise import Value
from fireiron.language.specs import BATCH, Coefficient
from fireiron.language.tensor import RowMajor, Tensor
from fireiron.show.steps import product

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "=="}
_BINDS = {"lt": 1, "le": 1, "eq": 1, "add": 2, "sub": 2, "mul": 3, "div": 3}
_TIGHTEST = 5


def words(link: Decomposition) -> str:
    """Write a link with all its refinements.

    Example:
        >>> from fireiron.language.levels import Block
        >>> words(Tile((("M", 128), ("N", 64)), Block)), words(Split(8, stages=2))
        ('tile 128x64 to Block', 'split 8 pipeline 2')
    """
    return " ".join(said for said in ((head(link), *refinements(link).values())) if said)


def head(link: Decomposition) -> str:
    """Write a link's decomposition, without refinements."""
    match link:
        case Tile(sizes):
            return _tile(sizes)
        case Split():
            return attrs.evolve(link, level=None).words
        case Load():
            return link.words
        case Prolog(role):
            return f"prolog {role}"
        case Epilog() | Results():
            return "epilog"
        case Own(level):
            return f"own {level}"
        case Each(chains):
            return "each layer" if len(chains) == 1 else f"each of {len(chains)} layers"
        case EachStep(chains):
            return f"each {', '.join(chain.name for chain in chains)}"
        case Done(atom):
            return _done(atom)


def _tile(sizes: tuple[tuple[str, Extent], ...] | Widest) -> str:
    if isinstance(sizes, Widest):
        return f"vectors {'of' if sizes.exact else 'up to'} {sizes.nbytes} B"
    named = [str(size) for dim, size in sizes if dim != BATCH]
    batch = [f" batch {size}" for dim, size in sizes if dim == BATCH]
    return f"tile {('x' if all(n.isdigit() for n in named) else ' x ').join(named)}{''.join(batch)}"


def _done(atom: Atom | Microkernel | str | None) -> str:
    match atom:
        case None:
            return "done"
        case Microkernel(name="microkernel"):
            return "done by a microkernel"
        case Microkernel(name=name):
            return f"done by microkernel {name}"
        case str():
            return f"done by {atom}"
        case Atom(name=name):
            return f"done by {name}"


def refinements(link: Decomposition) -> dict[str, str]:
    """Return the refinements of a link in words, by name; those with default values are left out."""
    said: dict[str, str] = {}
    match link:
        case Tile():
            said["to"] = f"to {link.level}" if link.level else ""
            said["units"] = f"units {link.units}" if link.units is not None else ""
            said["resident"] = f"resident {link.resident}" if link.resident else ""
            said["wanted"] = f"at most {link.wanted} resident" if link.wanted else ""
            said["persistent"] = "persistent" if link.persistent else ""
            said["dependent"] = "dependent" if link.dependent else ""
            said["share"] = "" if link.share is None else f"shared by {link.share}"
            said["layout"] = "" if link.order is RowMajor else f"layout {link.order}"
            said["permute"] = "" if link.permute is None else f"permute {function(link.permute)}".rstrip()
            said["staggered"] = f"staggered {link.staggered}" if link.staggered > 1 else ""
            said["unroll"] = "unroll" if link.unrolled else ""
            said["stages"] = f"pipeline {link.stages}" if link.stages else ""
        case Split():
            said["parallel"] = f"parallel {link.level}" if link.level else ""
            said["reduce"] = str(link.reduce) if link.level else ""
            said["unroll"] = "unroll" if link.unrolled else f"unroll {link.together}" if link.together > 1 else ""
            said["stages"] = f"pipeline {link.stages}" if link.stages > 1 else ""
            said["promote"] = f"promote from {link.promoted}" if link.promoted else ""
            said["online"] = "online" if link.online else ""
            said["slack"] = f"slack {link.slack:g}" if link.slack else ""
            said["speculative"] = "speculate" if link.speculative else ""
            said["skew"] = f"skew {link.skewed}" if link.skewed else ""
            said["before"] = f"before {link.skewed_before}" if link.skewed_before else ""
            said["order"] = f"order {', '.join(link.order)}" if link.order else ""
            said["drain"] = "drain" if link.drain else ""
            said["inflight"] = f"inflight {link.inflight}" if link.inflight else ""
            said["specialize"] = _specialised(link)
        case Load():
            said["dtype"] = f"as {link.dtype}" if link.dtype else ""
            said["pad"] = f"pad {link.pad}" if link.pad else ""
            said["swizzle"] = f"swizzle {str(link.swizzle).removeprefix('Swizzle')}" if link.swizzle else ""
            said["storage"] = f"storage {link.storage}" if link.storage else ""
            said["reuse"] = "reuse_buffer" if link.reuse else ""
            said["sync"] = "no_sync" if link.no_sync else ""
            said["ops"] = "by the prolog" if link.ops is not None else ""
        case Epilog():
            said["memory"] = f"in {link.memory}"
            said["dtype"] = str(link.dtype)
            said["init"] = "" if link.init == 0 else f"init {link.init:g}"
            said["addends"] = "sums begin with what ops add" if link.addends else ""
            said["early"] = f"early {', '.join(t.name for t in link.early)}" if link.early else ""
            said["loads"] = f"loads {', '.join(load.role for load in link.loads)} to SH" if link.loads else ""
            said["slots"] = f"{link.slots} slots" if link.slots > 1 else ""
            said["behind"] = "ops behind the exchange" if link.behind else ""
        case Results(memory=memory, early=early):
            said["memory"] = f"in {memory}"
            said["early"] = f"early {', '.join(early)}" if early else ""
        case Prolog():
            said["ops"] = computed(link.value, link.role)
        case Each():
            said["prefetch"] = "prefetch" if link.prefetch else ""
        case Own() | Done() | EachStep():
            pass
        case _ as never:
            assert_never(never)
    return said


def _specialised(link: Split) -> str:
    if link.specialised is None:
        return ""
    warpgroups = link.specialised.producers
    said = "specialize" + (f" {warpgroups} producers" if warpgroups > 1 else "")
    budgets = link.specialised.registers
    said = said if budgets is None else f"{said} registers {budgets[0]}/{budgets[1]}"
    return f"{said} prefetch {link.specialised.prefetch}" if link.specialised.prefetch else said


def summed(link: Split) -> str:
    """Write how the sums of a parallel split's units are combined."""
    if isinstance(link.reduce, ByAtomics):
        return "their sums meet in the workspace by atomics, in the order of arrival; the last block finishes the tile"
    if isinstance(link.reduce, ByTma):
        return "each block adds its sum to C itself, by bulk stores, in the order of arrival"
    if isinstance(link.reduce, ByCluster):
        return "they are a cluster, and read each other's sums out of SH; each ends with a share of the tile"
    if link.reduce.two_levels:
        return "their sums meet in the workspace, those of a group of blocks first; the last block finishes the tile"
    if link.reduce.shared:
        return "their sums meet in the workspace; all blocks of a tile run at once, and each adds a share in order"
    if link.level == Block:
        return "their sums meet in the workspace; the last block adds them in order, and finishes the tile"
    if link.level is not None and (link.level.size or 0) < (Warp.size or 0):
        return "shuffles add their sums where they are one warp, else SH; each ends with a share of the tile"
    return "their sums meet in SH, and are added in order; each ends with a share of the tile"


def function(f: object) -> str:
    """Return a function's name, "" for a lambda."""
    name = getattr(f, "__name__", "")
    return "" if name == "<lambda>" else str(name)


def infix(tree: Scalar, tensors: tuple[Tensor, ...] = (), accumulator: str = "acc") -> str:
    """Write a scalar expression with infix operators.

    Args:
        tree: the expression; `Arg(0)` is the accumulator and `Arg(i)` reads `tensors[i - 1]`.
        tensors: the tensors that the other arguments read.
        accumulator: name for `Arg(0)`.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.language.functions import relu
        >>> from fireiron.language.pointwise import accumulator
        >>> infix(relu(accumulator(f32) * 2 + 1).tree)
        'max(acc * 2 + 1, 0)'
    """
    names = (accumulator, *(tensor.name for tensor in tensors))
    return _infix(tree, names, 0)


def computed(value: Value, element: str) -> str:
    """Write the expression that a prolog or an epilog computes from an element."""
    return infix(value.tree, value.tensors, element)


def _infix(tree: Scalar, names: tuple[str, ...], binds: int) -> str:
    match tree:
        case Arg(index):
            return names[index] if index < len(names) else f"arg{index}"
        case Constant(value):
            return f"{value:g}"
        case Coordinate(value):
            return str(value) if binds == 0 else f"({value})"
        case Parameter(name):
            return name
        case Unary("neg", x):
            return f"-{_infix(x, names, _TIGHTEST)}"
        case Unary(op, x):
            return f"{op}({_infix(x, names, 0)})"
        case Binary("max" | "min" | "pow" as op, x, y):
            return f"{op}({_infix(x, names, 0)}, {_infix(y, names, 0)})"
        case Binary(op, x, y):
            mine = _BINDS[op]
            # The right side of a - b and a / b keeps its parentheses: it does not associate.
            text = f"{_infix(x, names, mine)} {_SIGNS[op]} {_infix(y, names, mine + 1)}"
            return f"({text})" if mine < binds else text
        case MultiplyAdd(x, y, z):
            return _infix(Binary("add", Binary("mul", x, y), z), names, binds)
        case Select(condition, x, y):
            return f"select({', '.join(_infix(part, names, 0) for part in (condition, x, y))})"
        case Cast(x, dtype):
            return f"{'wrap_' if tree.wraps else ''}{dtype}({_infix(x, names, 0)})"
        case Debug(name, x=x):
            return f"debug({name}: {_infix(x, names, 0)})"
        case Custom(name, args=args):
            return f"{name}({', '.join(_infix(x, names, 0) for x in args)})"
    assert_never(tree)


def by(sizes: tuple[Index | None, ...]) -> str:
    """Write extents: `64x32`.

    Example:
        >>> by((128, 8)), by((None, 8))
        ('128x8', '?x8')
    """
    said = ["?" if size is None else str(size) for size in sizes]
    return ("x" if all(s.isdigit() or s == "?" for s in said) else " x ").join(said)


def tensor(t: Tensor) -> str:
    """Describe an operand in memory: extents, element type, order if it matters, bytes if known."""
    order = "" if len(t.shape) < 2 else f" {t.order}"
    total = amount(simplest(as_expr(product(t.shape)) * t.dtype.bits // 8))
    return f"{t.name}: {by(t.shape)} {t.dtype}{order} in {t.memory}, {total}"


def amount(size: Index) -> str:
    """Write a number of bytes exactly, or its formula.

    Example:
        >>> from fireiron.algebra.expr import symbol
        >>> amount(4096), amount(8448), amount(symbol("M") * 4)
        ('4 KiB', '8448 B', 'M * 4 B')
    """
    if not isinstance(size, int):
        return f"{size} B"
    rounded = nbytes(size)
    return f"{size} B" if "." in rounded else rounded


def coefficient(c: Coefficient) -> str:
    """Write alpha or beta."""
    return c.name or f"{c.value:g}"
