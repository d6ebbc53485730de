"""The schedule of a program by its form: pointwise, rows, folds over any dims, convolutions and their gradients."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from inspect import signature
from math import prod
from typing import Any

from fireiron.algebra.arch import Arch
from fireiron.algebra.expr import as_expr, as_int, free
from fireiron.base.errors import CheckError, FireironError
from fireiron.base.records import evolve
from fireiron.front.program import ProgramChain
from fireiron.front.verbs import target
from fireiron.language.folds import Dim
from fireiron.language.maps import is_plain
from fireiron.language.programs import Products
from fireiron.language.specs import task_of
from fireiron.language.steps import Program, Ref, Step

MOST_CHOICES = 1024
FEW_FILTERS = 64
OF_PRODUCTS = "_programs"  # the schedules of several products


@lru_cache(MOST_CHOICES)
def best_program(spec: ProgramChain, arch: str | None = None, dependent: bool = False) -> Any:
    """Return a program's schedule: the fastest measured one (`tune`), else that of the preset for the program's form.

    Args:
        spec: the result of a function under `@program`.
        arch: the target; the program's own where None.
        dependent: whether the kernel may begin before the launch ahead of it has ended, where the preset has this
            option.

    Raises:
        CheckError: `nothing-legal` where no preset takes the program.
    """
    if arch is not None:
        spec = evolve(spec, program=task_of(spec.program.spec, arch))
    names = names_for(spec)
    refused: list[str] = []
    if not names:
        from fireiron.front import dag

        try:
            return _of_products(dag.chain_of(spec), arch)
        except dag.Misfit as error:
            refused.append(str(error))
    elif (measured := _recorded(spec, names)) is not None:
        return measured
    spec = _fused(spec)
    for name in names:
        file, function = name.split(".")
        made = getattr(import_module(f"fireiron.schedules.{file}"), function)
        early = {"dependent": True} if dependent and "dependent" in signature(made).parameters else {}
        try:
            schedule = made(spec, **early)
            return schedule if _fits(schedule, spec) else made(spec, **early, shared=False)
        except FireironError as error:
            refused.append(f"{name}: {error.message}")
    said = "; ".join(refused) or "it multiplies matrices"
    raise CheckError("nothing-legal", f"no preset takes {spec.computed.name}: {said}", fix="write a schedule for it")


def _fused(spec: ProgramChain) -> ProgramChain:
    """Count neighbouring dims as one, where every array has them together without gaps."""
    from fireiron.front.fuse import fuse
    from fireiron.language.fuse import neighbours

    for dims in neighbours(spec.computed):
        name = "".join(dims)
        while name in {d.name for d in spec.computed.dims}:
            name += "_"
        spec = fuse(spec, **{name: " ".join(dims)})
    return spec


def _fits(schedule: Any, spec: ProgramChain) -> bool:
    """Say whether blocks that wait for each other all run at once, on this machine's GPU or else on the target's."""
    from fireiron.language.decompositions import InOrder, Split
    from fireiron.tune.candidates import refuse_too_many

    splits = (link for link in schedule.links if isinstance(link, Split))
    if not any(isinstance(link.reduce, InOrder) and link.reduce.shared for link in splits):
        return True
    arch = target(spec)
    try:
        refuse_too_many(schedule.lowered(arch.name), arch)
    except CheckError:
        return False
    return True


def names_for(spec: ProgramChain) -> tuple[str, ...]:
    """Name the presets that may schedule a program on its target, the likeliest first; () for products."""
    windows = read_by_windows(spec.computed)
    return presets_for(spec.computed) if windows is None else presets_of_windows(windows, spec.computed, target(spec))


def _recorded(spec: ProgramChain, names: tuple[str, ...]) -> Any:
    """Return the fastest measured schedule, None without a measurement."""
    from fireiron.front.best import recorded

    return recorded(spec, names)


def _of_products(chain: Any, arch: str | None) -> Any:
    """Schedule a chain of products: one product as `best` does, several of one shape by the preset for them."""
    if isinstance(chain.program.spec, Products):
        return import_module(f"fireiron.schedules.{OF_PRODUCTS}").schedule(chain)
    from fireiron.front.best import best

    return best(chain, arch)


def presets_for(program: Program) -> tuple[str, ...]:
    """Name the presets for a program's form, the likeliest first."""
    products = [step for step in program.steps if step.is_product]
    if len(products) == 2 and {"b", "h", "i", "d", "j", "e"} <= {d.name for d in program.dims}:
        return (*_shares_keys(program), "attention.wgmma", "attention.mma", "attention.simt")
    if len(products) == 1 and any(step.over for step in program.steps if step not in products):
        return ("product_rows.wgmma", "product_rows.mma", "normed_products.mma")
    if products:
        return ()
    folded = {d.name for step in program.steps for d in step.over}
    if not folded:
        return ("pointwise.pointwise",)
    outputs = {t.name for t in program.outputs}
    kept = {d.name for step in program.steps for out in step.outs if out.name in outputs for d in out.dims}
    # Steps that read a fold's result at the dim that it folded need the whole row in one place.
    made: set[str] = set()
    again = False
    for step in program.steps:
        again |= any(ref.name in made for ref in step.reads) and any(d.name in folded for d in step.dims)
        if any(d.name in folded for d in step.over) or any(ref.name in made for ref in step.reads):
            made |= {out.name for out in step.outs}
    if folded & kept or again:
        return ("rows.row",)
    folds = [step.fold for step in program.steps if step.fold is not None]
    ranks = any(fold.ranking is not None or fold.several is not None for fold in folds)
    return ("rows.row", "reductions.reduction") if ranks else ("reductions.reduction", "rows.row")


def _shares_keys(program: Program) -> tuple[str, ...]:
    """Name the attention preset whose blocks share keys, for few queries and many keys, as in decoding with a cache."""
    from fireiron.front.attention import FEW_QUERIES, LONG

    extents = {d.name: as_int(d.extent) for d in program.dims if d.extent is not None}
    queries, keys = extents.get("i"), extents.get("j")
    few = queries is not None and queries <= FEW_QUERIES and keys is not None and keys >= LONG
    return ("attention.decode",) if few else ()


def read_by_windows(program: Program) -> Ref | None:
    """Return the array that a fold reads by windows along several sides; None without one."""
    for step in program.steps if any(s.fold is not None for s in program.steps) else ():
        for ref in step.reads if step.fold is not None else ():
            if any(not is_plain(ref, i) and len(dims_of(ref, i)) > 1 for i in range(len(ref.index))):
                return ref
    return None


def dims_of(ref: Ref, i: int) -> set[str]:
    """Name the dims in the index of one dimension of a read."""
    return {leaf.name for leaf in free(ref.index[i]) if isinstance(leaf, Dim)}


def presets_of_windows(windows: Ref, program: Program, arch: Arch) -> tuple[str, ...]:
    """Name the presets for a fold over windows (a convolution, its gradient, pooling), the fastest first.

    Args:
        windows: the read of the array by windows.
        program: the program.
        arch: the target.
    """
    step = next(step for step in program.steps if step.fold is not None and windows in step.reads)
    folded, last = {d.name for d in step.over}, dims_of(windows, len(windows.index) - 1)
    if not last & folded and all(last <= {d.name for d in ref.dims} for ref in step.reads):
        if "m" in folded and "n" not in {d.name for d in step.kept}:  # all images' boxes of pixels
            return ("depthwise_gradients.filters",)
        if {"n", "m", "v"} <= {d.name for d in step.dims}:  # the pixels between neighbouring windows
            return ("depthwise_gradients.images",)
        return ("conv.channelwise", "conv.simt")  # pooling, and depthwise convolutions
    if not step.is_product:
        return ("conv.simt",)
    newest = ("wgmma",) * (arch.name == "sm_90a") + ("mma",) * (arch.number >= 80) + ("simt",)
    # Where threads copy, few filters are faster by mma: on an H200 64 took 66 us for 75 by wgmma, 128 took 73 for 39.
    if _filters(windows, step) <= FEW_FILTERS and not all(_by_bulk(ref) for ref in step.reads[:2]):
        newest = tuple(dict.fromkeys(("mma",) * (arch.number >= 80) + newest))
    mixed = _mixes(windows, folded)  # columns and channels are one dim
    if mixed and dims_of(windows, 0) & folded:  # pixels are folded
        return ("conv_packed_gradients.filters_mma",) * (arch.number >= 80)
    if any(_mixes(ref, folded) for ref in step.reads if ref != windows):  # those of filters
        return ("conv_packed_gradients.images_mma",) * (arch.number >= 80)
    if mixed:
        return (*("conv.packed",) * (arch.number >= 80), "conv.simt")
    if last & folded:  # channels are folded, else pixels
        volta = ("akg.conv",) * (70 <= arch.number < 80)
        return (*volta, *(f"conv.{name}" for name in newest))
    return tuple(f"conv_gradients.filters_{name}" for name in newest)


def _filters(windows: Ref, step: Step) -> int:
    """Count the results of one window, one for each filter; dims of unknown extent count as 0."""
    dims = {d.name for d in windows.dims}
    return prod(as_int(as_expr(d.extent or 0)) or 0 for d in step.kept if d.name not in dims)


def _by_bulk(ref: Ref) -> bool:
    """Say whether bulk copies take an array: at most five dims, lines of its last one, at multiples of 16 bytes."""
    *lines, last = ref.strides
    lie = all(not isinstance(n, int) or n * ref.dtype.nbytes % 16 == 0 for n in lines)
    return last == 1 and lie and len(ref.shape) <= 5


def _mixes(ref: Ref, folded: set[str]) -> bool:
    """Say whether the index of a read's last dimension has both folded dims and kept dims."""
    last = dims_of(ref, len(ref.index) - 1)
    return bool(last & folded and last - folded)
