"""Rules of chains on programs: dims that may be cut, units that may take them, and tensors that may be loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fireiron.algebra.arch import WIDEST_CLUSTER
from fireiron.algebra.expr import Index, as_expr, ceil_div, simplest
from fireiron.base.errors import DecompositionError
from fireiron.language.added import parts_added
from fireiron.language.decompositions import (
    ByCluster,
    ByTma,
    Decomposition,
    InOrder,
    Load,
    Reduction,
    Results,
    Split,
    Tile,
)
from fireiron.language.levels import GL, RF, SH, Block, Kernel, Level, Memory
from fireiron.language.maps import box_of_tile, reads_apart
from fireiron.language.residual import Residual
from fireiron.language.steps import Program, Step
from fireiron.language.tensor import Tensor


def tile(program: Program, sizes: Mapping[str, int]) -> None:
    """Raise an error for tiles of dims that a step folds, and for tiles without sizes.

    Raises:
        DecompositionError: `tile-arguments`, `tile-folded`.
    """
    if not sizes:
        raise DecompositionError("tile-arguments", "tile() names no dim", fix="tile(i=128)")
    for dim, size in sizes.items():
        folders = [step.name for step in program.steps if any(d.name == dim for d in step.over)]
        whole = any(d.name == dim and d.extent == as_expr(size) for d in program.dims)  # the tile covers the whole dim
        if folders and not whole:
            raise DecompositionError(
                "tile-folded",
                f"step {folders[0]} folds {dim}, and with a tile of {dim} each unit would have only a part of its "
                "result",
                fix=f'split({dim}={size}) for a loop, or split("{dim}", ways=n).parallel(level)',
            )


def split(
    program: Program,
    residual: Residual,
    dim: str | None,
    ways: int | None,
    sizes: Mapping[str, int],
    multiple_of: int = 1,
) -> tuple[str, Index, int | None]:
    """Return the first dim that a split cuts, the extent of a chunk, and the number of chunks if it was given.

    Raises:
        DecompositionError: `split-arguments`, `no-such-dimension`, `split-extent`, `split-together`.
    """
    named = [*sizes, *([] if dim is None else [dim])]
    if not named or (ways is None) == (not sizes) or (dim is not None and sizes):
        raise DecompositionError(
            "split-arguments",
            f"split is given {'both chunks and their number' if sizes else 'no chunks and no number of them'}",
            fix='write split(j=128), or split("j", ways=8)',
        )
    for name in named:
        if residual.extents.get(name) is None:
            raise DecompositionError(
                "no-such-dimension",
                f"{residual.short} has no dimension {name} to split",
                fix="dimensions: " + ", ".join(residual.extents),
            )
    for name, value in (*sizes.items(), (named[0], ways), (named[0], multiple_of)):
        if value is not None and value < 1:
            raise DecompositionError(
                "split-extent", f"a chunk of {value} elements along {name} is empty", fix="use 1 or more"
            )
    _folded_alike(program, named)
    name, *_ = named
    if ways is None:
        return name, sizes[name], None
    extent = residual.extents[name]
    assert extent is not None
    return name, simplest(ceil_div(extent, ways * multiple_of) * multiple_of), ways


def _folded_alike(program: Program, dims: Sequence[str]) -> None:
    """Raise an error for one loop over several dims unless every step that folds one of them folds all.

    Raises:
        DecompositionError: `split-together`.
    """
    for step in program.steps if len(dims) > 1 else ():
        has, folds = ({d.name for d in some} & set(dims) for some in (step.dims, step.over))
        if has and folds != set(dims):
            odd = next(d for d in dims if d not in folds)
            raise DecompositionError(
                "split-together",
                f"one loop over {' and '.join(dims)} visits their chunks together, and step {step.name} does not "
                f"fold {odd}",
                fix="write a split for each dim: split(i=...).split(j=...)",
            )


def stored(outputs: Sequence[str], named: Sequence[str]) -> None:
    """Raise an error for store strategies of unknown outputs.

    Raises:
        DecompositionError: `epilog-store`.
    """
    wrong = next((name for name in named if name not in outputs), None)
    if wrong is not None:
        raise DecompositionError(
            "epilog-store", f"store= names {wrong!r}, which is no output", fix="outputs: " + ", ".join(outputs)
        )


def pipeline(link: Tile) -> None:
    """Raise an error for stages of tiles without a loop.

    Raises:
        DecompositionError: `pipeline-loop`.
    """
    if link.level is not None and not link.persistent:
        raise DecompositionError(
            "pipeline-loop",
            f"each {link.level} takes one tile: there is no later one whose loads could run ahead",
            fix="refine the tile by persistent() first, or pipeline a tile without a level, below it",
        )


def online(program: Program, split: Split, slack: float, speculate: bool, above: Sequence[Decomposition] = ()) -> None:
    """Raise an error for online folds without correction factors, for chunks that units share, and for invalid slack.

    Raises:
        DecompositionError: `online-law`, `online-parallel`, `online-above`, `split-together`, `online-slack`,
            `online-speculate`.
    """
    from fireiron.language.lazy import lazy
    from fireiron.language.online import online as as_one_loop

    _one_dim(split, "online()")
    if split.level is not None:
        raise DecompositionError(
            "online-parallel",
            f"online() needs a loop over {split.dim}, and units of {split.level} take its chunks at once",
            fix=f"split({split.dim}=...).online() above, and split again below it for the units",
        )
    changed, law = as_one_loop(program, split.dim)
    loops = [x for x in above if isinstance(x, Split) and x.level is None and not x.online and law.factors]
    around = [x for x in loops if split.dim in (x.dim, *(dim for dim, _ in x.further))]
    if around:
        raise DecompositionError(
            "online-above",
            f"online() makes one loop of folds over {split.dim}, which the loop above takes one after another",
            fix=f"refine the first split of {split.dim} by online(), and drop this one",
            other=around[0].link,
        )
    lazy(changed, law, slack, speculate)


def skew(program: Program, split: Split, name: str, before: str = "") -> None:
    """Raise an error for a skew of an unknown step, or of a loop without roles.

    Raises:
        DecompositionError: `each-step`, `skew-roles`, `split-together`.
    """
    _one_dim(split, "skew()")
    for one in (name, before) if before else (name,):
        step(program, one)
    if split.specialised is None:
        raise DecompositionError(
            "skew-roles",
            f"skew({name!r}) needs warps that only load, and here each warp loads and computes in turn",
            fix=f'split({split.dim}=...).pipeline(2).specialize().skew("{name}")',
        )


def order(program: Program, split: Split, names: Sequence[str]) -> None:
    """Raise an error for an order with unknown or repeated steps, or for chunks that units take in parallel.

    Raises:
        DecompositionError: `each-step`, `order-steps`.
    """
    for name in names:
        step(program, name)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if not names:
        what, fix = "order() names no step", 'name the steps that stand first: order("s", "dp")'
    elif twice is not None:
        what, fix = f"order() names step {twice} twice", "name each step once"
    elif split.level is not None:
        what = f"order() is about a loop over {split.dim}, and units of {split.level} take its chunks at once"
        fix = "order the steps of the loop below"
    else:
        return
    raise DecompositionError("order-steps", what, fix=fix)


def _one_dim(split: Split, what: str) -> None:
    """Raise an error for a refinement that is only defined for chunks of a single dim.

    Raises:
        DecompositionError: `split-together`.
    """
    if split.further:
        raise DecompositionError(
            "split-together",
            f"{what} takes chunks of one dim, and this split cuts {split.dim} and "
            f"{' and '.join(dim for dim, _ in split.further)}",
            fix=f'split one dim alone for it: split("{split.dim}", ways=n)',
        )


def step(program: Program, name: str) -> Step:
    """Find the step of a chain in `each`.

    Raises:
        DecompositionError: `each-step`.
    """
    found = program.step(name)
    if found is None:
        raise DecompositionError(
            "each-step",
            f"{program.name} has no step {name}",
            fix="steps: " + ", ".join(s.name for s in program.steps),
        )
    return found


def placed(residual: Residual, links: Sequence[Decomposition], step: Step, memory: Memory) -> None:
    """Raise an error for placing a step's result in a memory that cannot hold it, and for placing a fold's result.

    Raises:
        DecompositionError: `load-memory`, `already-there`, `load-step`, `load-level`.
    """
    (out,) = step.outs[:1]
    if memory.registers:
        raise DecompositionError(
            "already-there", f"{out.name} lies in registers already: threads compute it there", fix="drop this load"
        )
    if memory != SH:
        raise DecompositionError("load-memory", f"{out.name} cannot be kept in {memory}", fix="load to SH")
    if step.fold is not None:
        raise DecompositionError(
            "load-step",
            f"step {step.name} folds {', '.join(d.name for d in step.over)}, and its value lies in registers",
            fix='name what is computed of it, (...).named("p"), and load that',
        )
    if residual.level.name == Kernel.name:
        raise DecompositionError(
            "load-level", f"no block owns a buffer for {out.name} at level Kernel", fix="tile to Block above this link"
        )
    if any(isinstance(link, Load) and link.role == out.name for link in links):
        raise DecompositionError("already-there", f"{out.name} lies in SH already", fix="drop this load")


def temporary(program: Program, links: Sequence[Decomposition], name: str, step: Step | None, memory: Memory) -> None:
    """Raise an error for allocating a tensor that is no temporary, or a temporary that stays in registers anyway.

    Raises:
        DecompositionError: `allocate-step`, `already-there`.
    """
    if step is None or any(out.memory == GL for out in step.outs):
        names = [t.name for t in program.temps]
        what = "lies in the memory of the call" if name in {t.name for t in (*program.inputs, *program.outputs)} else ""
        raise DecompositionError(
            "allocate-step",
            f"{name} {what or f'is no step of {program.name}'}: allocate() takes results between steps",
            fix=f"name one of {', '.join(names)}" if names else 'name the step of a value: (...).named("p")',
        )
    taken = any(isinstance(link, Load) and link.role == name for link in links)
    if memory == RF and (step.fold is not None or taken):
        raise DecompositionError(
            "already-there",
            f"{name} has memory of its own: {'a link above says so' if taken else 'the state of a fold'}",
            fix="drop this link",
        )


def readable(program: Program, residual: Residual, operand: Tensor | str, memory: Memory = SH) -> None:
    """Raise an error for a load of a tensor that the program writes, or a load to registers of elements in no box.

    Raises:
        DecompositionError: `load-output`, `map-box`.
    """
    name = operand if isinstance(operand, str) else operand.name
    if name in {t.name for t in program.outputs}:
        raise DecompositionError(
            "load-output", f"{name} is written, not read: it has no load", fix="store it by epilog(store=...)"
        )
    maps, sizes = dict(residual.maps), dict(residual.sizes)
    for o in residual.operands:
        for dim in o.dims if o.tensor.name == name or o.role == name else ():
            if dim in maps and not (memory == SH and reads_apart(maps[dim], sizes)):
                box_of_tile(maps[dim], sizes)


def epilog(residual: Residual, links: Sequence[Decomposition], memory: Memory) -> None:
    """Raise an error for a second epilog, results outside registers, or an epilog above the tile to blocks.

    Raises:
        DecompositionError: `second-epilog`, `epilog-memory`, `load-level`.
    """
    if any(isinstance(link, Results) for link in links):
        raise DecompositionError("second-epilog", "an epilog stands above already", fix="write one epilog(...)")
    if not memory.registers:
        raise DecompositionError("epilog-memory", f"results cannot be kept in {memory}", fix="use memory=RF")
    if residual.level.name == Kernel.name:
        raise DecompositionError(
            "load-level", "no block owns results at level Kernel", fix="tile to Block above epilog"
        )


def read_early(program: Program, names: Sequence[str]) -> None:
    """Raise an error for an early load of a tensor that no step reads after the folds, or that folds read.

    Raises:
        DecompositionError: `epilog-early`.
    """
    folded = {ref.name for step in program.steps if step.fold is not None for ref in step.reads}
    read = {ref.name for step in program.steps if step.fold is None for ref in step.reads}
    beside = [t.name for t in program.inputs if t.name in read - folded]
    for name in names:
        if name not in beside:
            raise DecompositionError(
                "epilog-early",
                f"{name} is no input that only steps behind the folds of {program.name} read",
                fix=f"early=({', '.join(map(repr, beside))},)" if beside else "drop early=",
            )


def parallel(
    program: Program,
    above: Sequence[Decomposition],
    before: Residual,
    split: Split,
    level: Level,
    reduce: Reduction,
) -> None:
    """Raise an error for units that cannot take chunks, and for loop refinements of a split without a loop.

    Raises:
        DecompositionError: `parallel-level`, `parallel-pipeline`, `parallel-reduce`, `parallel-cluster`,
            `parallel-order`, `split-together`.
    """
    _one_dim(split, f"parallel({level})")
    if level == Block:
        _blocks(program, before, split, reduce, above)
        return
    if (
        level.size is None
        or not level.is_inside(before.level)
        or not (before.level == Block or before.level.is_inside(Block))
    ):
        raise DecompositionError(
            "parallel-level",
            f"units of {level} cannot take chunks of {split.dim} at level {before.level}",
            fix="tile to Block first, then give chunks to Warpgroup, Warp or Thread",
        )
    refined = split.stages > 1 or split.unrolled or split.together > 1 or split.online or split.order
    if refined or split.specialised is not None:
        raise DecompositionError(
            "parallel-pipeline",
            f"a refinement of the loop over {split.dim} stands above, and {level}s take its chunks at once",
            fix="split again below, and refine that loop",
        )
    if not isinstance(reduce, InOrder) or reduce.two_levels or reduce.shared:
        how = "in order" if not isinstance(reduce, InOrder) else "in one level" if reduce.two_levels else "whole"
        raise DecompositionError(
            "parallel-reduce", f"{level}s of a block combine folds {how}, not {reduce}", fix="drop reduce="
        )


def _blocks(
    program: Program, before: Residual, split: Split, reduce: Reduction, above: Sequence[Decomposition]
) -> None:
    """Raise an error for blocks that cannot share a dim, as a cluster or through global memory."""
    if before.level != Block or any(isinstance(link, Split) for link in above):
        raise DecompositionError(
            "parallel-order",
            f"blocks take chunks of the whole {split.dim}, and a split stands above",
            fix="make this the first split below the tile to Block",
        )
    if isinstance(reduce, ByTma):
        parts_added(program, split.dim)
    if not isinstance(reduce, ByCluster):
        return
    if split.ways is None or split.ways > WIDEST_CLUSTER:
        raise DecompositionError(
            "parallel-cluster",
            f"{split.ways or 'a number of'} chunks of {split.dim} are no cluster: that has 1 to {WIDEST_CLUSTER} "
            "blocks",
            fix=f'split("{split.dim}", ways={WIDEST_CLUSTER}).parallel(Block, reduce=by_cluster())',
        )
