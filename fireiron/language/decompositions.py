"""Decompositions: the links of a chain, as data.

Each turns a spec into a smaller one and says which code stands between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Index
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import exactly
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.contract import checked_fields
from fireiron.base.link import Link
from fireiron.language.atom import Atom
from fireiron.language.levels import Level, Memory
from fireiron.language.pointwise import Value
from fireiron.language.steps import Fold
from fireiron.language.tensor import ColMajor, Order, RowMajor, Tensor, TileOrder

if TYPE_CHECKING:
    from fireiron.language.residual import Residual

_link = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(field_transformer=checked_fields)
class Strided:
    """Size a tile as chunks at a stride: `Strided((4, 32), (4, 16))` takes 4 rows every 32 and 4 columns every 16."""

    rows: tuple[int, int]
    cols: tuple[int, int]


@attrs.frozen
class Chunks:
    """Size one dimension of a tile: `chunk` neighbours every `stride`."""

    chunk: int
    stride: int

    def __str__(self) -> str:
        return f"{self.chunk} every {self.stride}"


@attrs.frozen
class Widest:
    """Size a tile as the widest vector that both sides of a Move allow.

    Args:
        nbytes: the widest wanted.
        exact: whether a narrower one is an error.
    """

    nbytes: int = 16
    exact: bool = False

    def __str__(self) -> str:
        return f"{self.nbytes} B" if self.exact else f"up to {self.nbytes} B"


@attrs.frozen(field_transformer=checked_fields)
class StreamK:
    """Give persistent blocks, or clusters, equal shares of all tiles' chunks of K (stream-K).

    A tile that several have parts of is stored by the one that ends it; the sums of the others reach it through global
    memory, in an order that is the same in every run.

    Args:
        units: at most this many take part; None for as many as the machine has SMs.
    """

    units: int | None = None

    def __str__(self) -> str:
        return "stream-K over all SMs" if self.units is None else f"stream-K over {self.units}"


@attrs.frozen
class Drawn:
    """Let persistent blocks draw tiles: each takes the next one when it is done, by a counter in global memory.

    Blocks end together also where tiles take unequal times, as they do under a mask. Results do not depend on which
    block computes a tile, so that they have the same bits in every run.
    """

    def __str__(self) -> str:
        return "draws"


Extent: TypeAlias = int | Chunks


@attrs.frozen
class Tile:
    """Cut the output dimensions into tiles.

    Args:
        sizes: extent of a tile in each named dimension, or a vector width for Moves.
        level: whose units take the tiles; None loops over them.
        units: at most this many units take part.
        unrolled: whether loops are unrolled.
        order: how unit ids count tiles.
        resident: blocks of an SM that the compiler's register budget should allow, 0 where it is free.
        permute: a permutation of unit ids, applied first.
        persistent: whether as many units are launched as run at once, each looping over tiles.
        share: how persistent units share the work, None for whole tiles in turn.
        staggered: how many units take the persistent loop's trips in turn, each a whole tile; 1 where all share it.
        stages: ring slots of the buffers right below the loop over tiles.
        dependent: whether the kernel begins while the launch before it ends.
    """

    sizes: tuple[tuple[str, Extent], ...] | Widest
    level: Level | None = None
    units: int | None = None
    unrolled: bool = False
    order: TileOrder = RowMajor
    resident: int = 0
    persistent: bool = False
    share: StreamK | Drawn | None = None
    staggered: int = 1
    stages: int = 1
    permute: Callable[[Expr], Expr] | None = None
    dependent: bool = False
    link: Link | None = _link


@attrs.frozen(field_transformer=checked_fields)
class Specialised:
    """Give a split's loads to warps of their own.

    Args:
        producers: warpgroups that load.
        registers: budgets of a thread that loads and of one that computes, None where each keeps its launch's.
        prefetch: number of a block's first chunks that the warps that compute prefetch into the L2 cache.
    """

    producers: int = 1
    registers: tuple[int, int] | None = None
    prefetch: int = 0


@attrs.frozen(field_transformer=checked_fields)
class InOrder:
    """Add the sums of a parallel split's units in a fixed order: the same bits in every run.

    Args:
        nbytes: bytes of shared memory through which units of a block exchange sums; None for the size of the operands'
            buffers, which are no longer used then. If all sums do not fit, they are exchanged in panels.
        two_levels: whether blocks form groups, about as many as a group has blocks: the last block of each group
            combines the group's parts, and the last of those blocks what the groups have. Otherwise the last block
            combines all parts. For folds of programs whose states are large.
    """

    nbytes: int | None = None
    two_levels: bool = False

    def __str__(self) -> str:
        told = [] if self.nbytes is None else [f"through {self.nbytes} B"]
        return " ".join([*told, *(["in two levels"] if self.two_levels else [])])


@attrs.frozen
class ByAtomics:
    """Add the sums of a parallel split's blocks by atomics, in the order in which they arrive: last bits may differ."""

    def __str__(self) -> str:
        return "by atomics"


@attrs.frozen
class ByTma:
    """Add the sums of a parallel split's blocks to C itself, by bulk stores that add, in the order of their arrival.

    Each is rounded to C's element type before it is added. C is added to as it is: the product says beta=1. A program
    says `before + sum`, and that the output replaces `before`.
    """

    def __str__(self) -> str:
        return "by bulk additions to C"


@attrs.frozen(field_transformer=checked_fields)
class ByCluster:
    """Let the blocks of a parallel split be a cluster, which read each other's sums out of shared memory.

    Each finishes a share of the tile: it adds its own sum of that to those of the blocks behind it, the same bits in
    every run.

    Args:
        shares: how many blocks finish a share, at most; None for as many as the tile's columns can be dealt out to.
        at_once: whether the warps of all blocks meet at one barrier for each fold of a program; by default the warps of
            a block meet first, then the blocks.
    """

    shares: int | None = None
    at_once: bool = False

    def __str__(self) -> str:
        warps = ", all warps at once" if self.at_once else ""
        return f"in a cluster{warps}" if self.shares is None else f"in a cluster, in {self.shares} shares{warps}"


Reduction: TypeAlias = InOrder | ByAtomics | ByTma | ByCluster


@attrs.frozen
class Split:
    """Cut K into chunks: one loop visits them in order, or the units of a level take one each.

    Args:
        size: extent of a chunk.
        unrolled: whether the loop is unrolled.
        together: how many chunks stand together in a trip of the compiled loop.
        stages: ring slots of the loads below it; they run stages-1 chunks ahead, or stages where they have a role.
        inflight: groups of asynchronous instructions that may read a slot still when the next chunk's begin.
        specialised: whether the loads have warps of their own.
        drain: whether a pipeline inside another ends with each of its chunks, instead of flowing on into the next.
        ways: the number of chunks where the author gave it, and not their extent.
        level: whose units take the chunks, None for a loop; each then holds a partial sum of C.
        reduce: how the units' sums become one.
        promoted: the element type in which the products of each chunk are summed on their own, before they are added to
            the accumulators with all that prologs above multiply by; None where products add to the accumulators.
        dim: which dim is cut; K of products.
        further: dims that the same loop cuts too, with the extents of their chunks; the last one is fastest.
        skewed: the step whose product is issued a trip ahead, "" for none.
        order: steps of a program that stand first in a chunk, in this order, each behind what it reads.
        online: whether folds that need each other's results run in this one loop, and are rescaled as these move.
        slack: powers of 2 by which summands may outgrow what they are scaled by before sums are rescaled.
        speculative: whether the fold that others follow is left out of chunks that stay within the slack.
    """

    size: Index
    unrolled: bool = False
    stages: int = 1
    inflight: int = 0
    specialised: Specialised | None = None
    drain: bool = False
    together: int = 1
    ways: int | None = None
    level: Level | None = None
    reduce: Reduction = InOrder()
    promoted: DType | None = None
    dim: str = "K"
    online: bool = False
    slack: float = 0.0
    speculative: bool = False
    skewed: str = ""
    order: tuple[str, ...] = ()
    further: tuple[tuple[str, int], ...] = ()
    link: Link | None = _link

    @property
    def words(self) -> str:
        """Name the link in paths: by its chunk, or by their number, and by who takes them."""
        dim = "" if self.dim == "K" else f"{self.dim} "
        cut = f"split {dim}{self.size}" if self.ways is None else f"split {dim}{self.ways} ways"
        cut += "".join(f", {other} {size}" for other, size in self.further)
        return cut if self.level is None else f"{cut} to {self.level}"


@attrs.frozen
class Load:
    """Move one operand to another memory, by a finished chain of its own.

    Args:
        role: which operand of the residual.
        memory: where it goes.
        move: the links that execute the Move.
        pad: elements added to the buffer's leading stride.
        swizzle: applied to element offsets in the buffer.
        storage: the buffer's order or layout; None keeps the source's order.
        reuse: whether it may overlay buffers that are dead by then.
        no_sync: whether the author claims that no barrier is needed for this load alone.
        claimed: where the author claims it.
        dtype: element type in the buffer, None for the source's.
        ops: what is made of each element on the way, an expression of it; None for nothing.
    """

    role: str
    memory: Memory
    move: tuple[Decomposition, ...]
    pad: int = 0
    swizzle: Swizzle | None = None
    storage: Order | Layout | None = None
    reuse: bool = False
    no_sync: bool = False
    dtype: DType | None = None
    ops: Value | None = None
    claimed: Link | None = _link
    link: Link | None = _link

    @property
    def words(self) -> str:
        """Say what the link does: registers of a step's own result are filled by no Move."""
        if self.memory.registers and not self.move:
            return f"allocate {self.role} in {self.memory}"
        return f"load {self.role} to {self.memory}"


@attrs.frozen
class Prolog:
    """Compute pointwise with an operand's elements where the next load moves it through registers.

    Args:
        role: which operand of the residual.
        value: what is made of each element, an expression of it.
    """

    role: str
    value: Value
    link: Link | None = _link


@attrs.frozen
class Output:
    """Store an epilog's value to a tensor beside C; the ops behind it read that value.

    Args:
        value: an expression of the value of the output before it, or of the accumulator; for several products, of the
            sums.
        tensor: the tensor that is written.
        store: the links of the Move that stores.
        fold: folds each row of a tile to the one value that is stored; None where every element is stored.
        apart: whether the ops behind it read the value of the output before it instead of this one.
    """

    value: Value
    tensor: Tensor
    store: tuple[Decomposition, ...]
    fold: Fold | None = None
    apart: bool = False


@attrs.frozen
class Epilog:
    """Accumulate C in registers; then run pointwise ops, and store.

    Args:
        value: what is stored, an expression of the accumulator, or of what the last output left.
        memory: FR or RF.
        dtype: the accumulator's element type, None for the default of the inputs'.
        init: the accumulator's first value.
        store: the links of the Move that stores.
        outputs: what is stored on the way, first to last.
        early: which tensors that ops read come to registers all at once, not op by op: before the products.
        addends: whether the accumulator begins with what the ops add to it first.
    """

    value: Value
    memory: Memory
    dtype: DType
    init: float = attrs.field(eq=exactly)
    store: tuple[Decomposition, ...]
    outputs: tuple[Output, ...] = ()
    early: tuple[Tensor, ...] = ()
    addends: bool = False
    link: Link | None = _link

    @property
    def values(self) -> tuple[Value, ...]:
        """List the expressions; each reads the value of the one before it, the first the accumulator."""
        return (*(output.value for output in self.outputs), self.value)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """List the tensors that the ops read and those that they are stored to, beside C."""
        found = [t for output in self.outputs for t in (*output.value.tensors, output.tensor)]
        return tuple(dict.fromkeys((*found, *self.value.tensors)))


@attrs.frozen
class Results:
    """Keep a program's results in registers, and store its outputs from there.

    Args:
        memory: where folds keep their state, and where results wait for their store.
        stores: for each output, by its name, the links of the Move that stores it.
        early: names of inputs that threads load before the loops of products behind which they read them.
    """

    memory: Memory
    stores: tuple[tuple[str, tuple[Decomposition, ...]], ...]
    early: tuple[str, ...] = ()
    link: Link | None = _link

    def of(self, name: str) -> tuple[Decomposition, ...]:
        """Give the links that store an output."""
        return dict(self.stores)[name]


@attrs.frozen
class Own:
    """Descend a register Move to the elements that each unit of `level` holds."""

    level: Level
    link: Link | None = _link


@attrs.frozen(field_transformer=checked_fields)
class Microkernel:
    """Close a spec with CUDA source.

    Args:
        source: statements; operands are pointers by role with `A_row`, `A_col` strides, and `M`, `N`, `K` the
            residual's extents.
        numpy: its meaning, numpy(A, B, C) -> new C (numpy(src) -> dst for a Move); None refuses simulation.
        name: for comments and errors.
    """

    source: str
    numpy: Callable[..., Any] | None = attrs.field(default=None, eq=id)
    name: str = "microkernel"


@attrs.frozen
class Done:
    """Close the chain with an atom: the first match of the table (None), the given one, or a microkernel."""

    atom: Atom | Microkernel | str | None = None
    link: Link | None = _link


@attrs.frozen
class Each:
    """Close a spec of layers: a chain for each of them, whose result is the next one's A, and the last Move.

    Args:
        chains: the links of each layer, or of each stack of equal ones.
        store: the links of the Move that brings the last result to Y.
        hold: the load that brought X on chip: results of other widths are laid out as it says.
        prefetch: whether a persistent block prefetches its next rows of X into the L2 cache before it stores these.
    """

    chains: tuple[tuple[Decomposition, ...], ...]
    store: tuple[Decomposition, ...]
    hold: Load
    prefetch: bool = False
    link: Link | None = _link


@attrs.frozen
class StepLinks:
    """Hold the chain of one step of a program.

    Args:
        name: of the step.
        origin: the MatMul that the step is at this place.
        links: that lead from it to an atom.
    """

    name: str
    origin: Residual
    links: tuple[Decomposition, ...]


@attrs.frozen
class EachStep:
    """Close a program: the steps named here by chains of their own, the others by threads that hold what they read."""

    chains: tuple[StepLinks, ...]
    link: Link | None = _link

    def of(self, name: str) -> tuple[Decomposition, ...] | None:
        """Give the links of a step, None where it has no chain of its own."""
        return next((chain.links for chain in self.chains if chain.name == name), None)


Decomposition: TypeAlias = Tile | Split | Load | Prolog | Epilog | Results | Own | Each | EachStep | Done


def every(links: Iterable[Decomposition]) -> tuple[Decomposition, ...]:
    """List the links of a chain, and those of the chains of its layers and steps."""
    return tuple(x for link in links for x in (link, *(y for c in _inner(link) for y in c)))


def _inner(link: Decomposition) -> tuple[tuple[Decomposition, ...], ...]:
    match link:
        case Each(chains=chains):
            return chains
        case EachStep(chains=named):
            return tuple(chain.links for chain in named)
        case _:
            return ()


__all__ = [
    "ByAtomics",
    "ByCluster",
    "ByTma",
    "Chunks",
    "ColMajor",
    "Decomposition",
    "Done",
    "Each",
    "EachStep",
    "Epilog",
    "Extent",
    "InOrder",
    "Load",
    "Microkernel",
    "Output",
    "Own",
    "Prolog",
    "Reduction",
    "Results",
    "Specialised",
    "Split",
    "StepLinks",
    "StreamK",
    "Strided",
    "Tile",
    "Widest",
    "every",
]
