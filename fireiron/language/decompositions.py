"""Decompositions: the links of a chain, as data.

Each link turns a spec into a smaller one, and says which code stands around the smaller one (a loop, a copy, ...).
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
from fireiron.language.folds import Fold
from fireiron.language.levels import Level, Memory
from fireiron.language.pointwise import Value
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
        nbytes: the widest vector to use, in bytes.
        exact: whether it is an error that only a narrower vector fits.
    """

    nbytes: int = 16
    exact: bool = False

    def __str__(self) -> str:
        return f"{self.nbytes} B" if self.exact else f"up to {self.nbytes} B"


@attrs.frozen(field_transformer=checked_fields)
class StreamK:
    """Give persistent blocks, or clusters, equal shares of all tiles' chunks of K (stream-K).

    Where several blocks compute parts of one tile, the block with the tile's last chunk stores it; the other blocks
    pass their sums through global memory. The order of additions is the same in every run.

    Args:
        units: the most blocks (or clusters) that take part; None for as many as the machine has SMs, times
            the number of blocks that an SM should hold (`resident`).
    """

    units: int | None = None

    def __str__(self) -> str:
        return "stream-K over all SMs" if self.units is None else f"stream-K over {self.units}"


@attrs.frozen
class Drawn:
    """Let persistent blocks draw tiles: a block that has finished a tile draws the next one from a counter in GL.

    Blocks end at about the same time even where tiles take unequal times, as under a mask. Results do not depend on
    which block computes a tile, so they have the same bits in every run.
    """

    def __str__(self) -> str:
        return "draws"


Extent: TypeAlias = int | Chunks | Layout


@attrs.frozen
class Tile:
    """Cut the output dimensions into tiles.

    Args:
        sizes: extent of a tile in each named dimension, or for Moves a vector width. Example: (("M", 128), ("N", 128)).
            A layout is the positions of the tile's elements: (("M", Layout((2, 2), (1, 4))), ("N", 8)).
        level: the level whose units take one tile each; None for a loop over the tiles.
        units: the most units that take part; None for no limit.
        unrolled: whether loops are unrolled.
        order: the order in which unit ids count tiles. Example: RowMajor: unit 1 takes the tile to the right of unit
            0's.
        resident: number of blocks that an SM should hold at once; it limits the registers of a thread. 0: no limit.
        wanted: a larger number, which an SM should hold if registers then do not spill; 0 for none.
        permute: a permutation of unit ids, applied before ids are mapped to tiles.
        persistent: whether only as many units are launched as run at once, each looping over tiles.
        share: how persistent units share the work, None for whole tiles in turn.
        staggered: number of units inside a persistent block that take tiles in turn, one whole tile each (2: unit 0
            takes the 1st and 3rd tile, unit 1 the 2nd and 4th). 1: all units work on the same tile.
        stages: ring slots of the buffers that are loaded directly inside the loop over tiles; 0 where loads do not run
            ahead.
        dependent: whether the kernel may start before the previous kernel of the stream has ended (programmatic
            dependent launch).
    """

    sizes: tuple[tuple[str, Extent], ...] | Widest
    level: Level | None = None
    units: int | None = None
    unrolled: bool = False
    order: TileOrder = RowMajor
    resident: int = 0
    wanted: int = 0
    persistent: bool = False
    share: StreamK | Drawn | None = None
    staggered: int = 1
    stages: int = 0
    permute: Callable[[Expr], Expr] | None = None
    dependent: bool = False
    link: Link | None = _link


@attrs.frozen(field_transformer=checked_fields)
class Specialised:
    """Give a split's loads to dedicated warps.

    Args:
        producers: warpgroups that load.
        registers: registers per thread of the warps that load and of those that compute. Example: (40, 232). None: both
            keep the number that the kernel is launched with.
        prefetch: number of a block's first chunks that the computing warps prefetch into the L2 cache.
    """

    producers: int = 1
    registers: tuple[int, int] | None = None
    prefetch: int = 0


@attrs.frozen(field_transformer=checked_fields)
class InOrder:
    """Add the sums of a parallel split's units in a fixed order: the same bits in every run.

    Args:
        nbytes: bytes of shared memory through which units of a block exchange sums; None for the size of the operands'
            buffers, which are free by then. Sums that do not fit are exchanged in several rounds.
        two_levels: False: the last of n blocks combines all n partial sums. True: blocks form about sqrt(n) groups; the
            last block of each group combines the group's sums, and the last of these blocks combines the groups' sums.
            For folds of programs with large states.
        shared: False: the last block finishes the tile alone. True: all blocks of the launch run at once (a cooperative
            launch); the blocks of a tile wait for each other, and each adds and finishes a share of the tile. For
            products.
    """

    nbytes: int | None = None
    two_levels: bool = False
    shared: bool = False

    def __str__(self) -> str:
        told = [] if self.nbytes is None else [f"through {self.nbytes} B"]
        told += ["in two levels"] if self.two_levels else []
        return " ".join([*told, *(["in shares"] if self.shared else [])])


@attrs.frozen
class ByAtomics:
    """Add the sums of a parallel split's blocks by atomics, in no fixed order: last bits may differ between runs."""

    def __str__(self) -> str:
        return "by atomics"


@attrs.frozen
class ByTma:
    """Add the sums of a parallel split's blocks to C itself by bulk stores that add, in no fixed order.

    Each sum is rounded to C's element type before it is added. The old C stays part of the result, so a product must
    have beta=1, and a program must compute `before + sum` into the memory of `before`.
    """

    def __str__(self) -> str:
        return "by bulk additions to C"


@attrs.frozen(field_transformer=checked_fields)
class ByCluster:
    """Let the blocks of a parallel split form a cluster, and read each other's sums from shared memory.

    Each of these blocks finishes a share of the tile: it adds all blocks' sums of the share, in a fixed order, so
    results have the same bits in every run.

    Args:
        shares: the most blocks that each finish a share of the tile; None for as many as the tile's columns divide
            among.
        at_once: whether each warp sends its state of a program's fold to all blocks. False: the warps of each block
            combine their states at a barrier, and one of them sends the block's state.
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
        together: number of chunks in one trip of the compiled loop.
        stages: number of ring slots of the buffers that are loaded inside the loop. Loads run stages-1 chunks ahead, or
            stages chunks where dedicated warps load.
        inflight: number of groups of asynchronous products that may still run when the products of the next chunk
            begin.
        specialised: the dedicated warps that load, None where the computing warps load.
        drain: for a pipelined loop inside another loop: whether the pipeline empties at the end of each inner loop.
            False: loads for the next outer trip start before the inner loop ends.
        ways: the number of chunks, where the author gave it instead of their extent; else None.
        level: the level whose units take one chunk each and hold partial sums of C; None for a loop over the chunks.
        reduce: how the units' partial sums are added.
        promoted: the element type in which each chunk's products are summed separately. The chunk's sum is multiplied
            by the factors of the prologs above, and then added to the accumulators. None: products are added directly.
        dim: the dim that is cut; `K` for products.
        further: further dims that the same loop cuts, with the extents of their chunks; the last one is fastest.
            Example: (("r", 1), ("s", 1)).
        skewed: the step whose product is issued one trip ahead of the other steps, "" for none.
        skewed_before: the step of the earlier trip that follows it; "" for the first product behind the skewed step.
        order: steps of a program to execute first in each chunk, in this order; each one after the steps whose results
            it reads.
        online: whether folds that need each other's results share this loop; earlier sums are rescaled when a result
            that they depend on changes (online softmax).
        slack: for online loops: the power of 2 by which a term may exceed the current scale before sums are rescaled.
            0: they are rescaled whenever the scale changes.
        speculative: for online loops: whether a chunk skips the fold that gives the scale (the maximum) while its terms
            stay within the slack.
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
    skewed_before: str = ""
    order: tuple[str, ...] = ()
    further: tuple[tuple[str, int], ...] = ()
    link: Link | None = _link

    @property
    def words(self) -> str:
        """Describe the link in paths: by the chunk's extent or the number of chunks, and the units that take them."""
        dim = "" if self.dim == "K" else f"{self.dim} "
        cut = f"split {dim}{self.size}" if self.ways is None else f"split {dim}{self.ways} ways"
        cut += "".join(f", {other} {size}" for other, size in self.further)
        return cut if self.level is None else f"{cut} to {self.level}"


@attrs.frozen
class Load:
    """Move one operand to another memory. The Move has a complete chain of its own.

    Args:
        role: which operand of the residual.
        memory: the memory that the operand is moved to.
        move: the links that execute the Move.
        pad: elements added to the buffer's leading stride, against bank conflicts.
        swizzle: the permutation of element offsets in the buffer, None for none.
        storage: the buffer's order or layout; None keeps the source's order.
        reuse: whether the buffer may lie in the memory of buffers that are no longer needed.
        no_sync: whether the author states that this load needs no barrier.
        claimed: where `no_sync` was stated: the place in the author's source.
        dtype: element type in the buffer, None for the source's.
        ops: an expression applied to each element while it is moved; None for none.
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
        """Describe the link: a load, or for the result of a step its registers, which the step fills without a Move."""
        if self.memory.registers and not self.move:
            return f"allocate {self.role} in {self.memory}"
        return f"load {self.role} to {self.memory}"


@attrs.frozen
class Prolog:
    """Apply an expression to each element of an operand, where the next load moves it through registers.

    Args:
        role: which operand of the residual.
        value: the expression that replaces the element.
    """

    role: str
    value: Value
    link: Link | None = _link


@attrs.frozen
class Output:
    """Store an epilog's value to a tensor beside C; the ops behind it read that value.

    Args:
        value: an expression of the output before it, or of the accumulator for the first output; for several products,
            of their sums.
        tensor: the tensor that is written.
        store: the links of the Move that stores.
        fold: the fold of each row of a tile to one value, which is stored; None where every element is stored.
        apart: whether later ops ignore this value and read the value of the output before it.
    """

    value: Value
    tensor: Tensor
    store: tuple[Decomposition, ...]
    fold: Fold | None = None
    apart: bool = False


@attrs.frozen
class Epilog:
    """Accumulate C in registers; then apply pointwise ops and store the result.

    Args:
        value: the expression that is stored, of the accumulator, or of the last output's value.
        memory: FR or RF.
        dtype: the accumulator's element type, None for the default of the inputs'.
        init: the accumulator's value before the first product.
        store: the links of the Move that stores.
        outputs: the values stored between the ops, first to last.
        early: names of tensors that are loaded to registers before the products begin, not where an op reads them.
        addends: whether the accumulator starts with the tensors that the ops would add to it first (a bias).
        loads: loads of tensors that ops read, to shared memory, by the warps of the loading role. `Load.role` is the
            tensor's name.
        slots: where a block loops over tiles, the number of tiles of each such tensor that shared memory holds.
        behind: whether ops are computed where the store reads the sums back from shared memory, not where the sums are.
    """

    value: Value
    memory: Memory
    dtype: DType
    init: float = attrs.field(eq=exactly)
    store: tuple[Decomposition, ...]
    outputs: tuple[Output, ...] = ()
    early: tuple[Tensor, ...] = ()
    addends: bool = False
    loads: tuple[Load, ...] = ()
    slots: int = 1
    behind: bool = False
    link: Link | None = _link

    @property
    def moved(self) -> DType:
        """Give the element type of what the store's Move reads: the ops' value, or the sums where ops run behind it."""
        return self.dtype if self.behind else self.value.dtype

    @property
    def values(self) -> tuple[Value, ...]:
        """List the expressions. The first one reads the accumulator, each later one the value of the one before it."""
        return (*(output.value for output in self.outputs), self.value)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """List the tensors that the ops read, and those other than C that results are stored to."""
        found = [t for output in self.outputs for t in (*output.value.tensors, output.tensor)]
        return tuple(dict.fromkeys((*found, *self.value.tensors)))


@attrs.frozen
class Results:
    """Keep a program's results in registers, and store its outputs from these registers.

    Args:
        memory: the memory (RF or FR) of the folds' states, and of results before they are stored.
        stores: by output, the links of the Move that stores the output.
        early: names of inputs that threads load before the loops of products, though they are read after these loops.
    """

    memory: Memory
    stores: tuple[tuple[str, tuple[Decomposition, ...]], ...]
    early: tuple[str, ...] = ()
    link: Link | None = _link

    def of(self, name: str) -> tuple[Decomposition, ...]:
        """Return the links that store an output."""
        return dict(self.stores)[name]


@attrs.frozen
class Own:
    """Narrow a Move from or to registers to the elements that each unit of `level` holds."""

    level: Level
    link: Link | None = _link


@attrs.frozen(field_transformer=checked_fields)
class Microkernel:
    """Close a spec with CUDA source.

    Args:
        source: C++ statements. `A`, `B`, `C` (`src`, `dst`) are pointers, `A_row` and `A_col` strides in elements, `M`,
            `N` and `K` the residual's extents.
        numpy: the same computation, numpy(A, B, C) -> new C (numpy(src) -> dst for a Move); None: the simulator refuses
            it.
        name: the name in comments and errors.
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
    """Close a spec of layers with a chain for each layer, and a Move that stores the last result to Y.

    Args:
        chains: the links of each layer, or of each stack of equal ones.
        store: the links of the Move that stores the last result to Y.
        hold: the load of X to shared memory; the buffers of the layers' results take its layout.
        prefetch: whether a persistent block prefetches its next tile of X into the L2 cache before it stores the
            present one.
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
        name: name of the step.
        origin: the residual MatMul of the step at this place of the chain.
        links: the links from `origin` to an atom.
    """

    name: str
    origin: Residual
    links: tuple[Decomposition, ...]


@attrs.frozen
class EachStep:
    """Close a program whose named steps have chains of their own.

    Each other step is computed by the threads that hold its operands.
    """

    chains: tuple[StepLinks, ...]
    link: Link | None = _link

    def of(self, name: str) -> tuple[Decomposition, ...] | None:
        """Return the links of a step, None where it has no chain of its own."""
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
