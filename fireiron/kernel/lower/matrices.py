"""Windows as matrices: several dims of a tensor become the rows or columns of a matrix, the last dim fastest.

A buffer in shared memory stays as it is; the matrix addresses it by strides, or by a layout where the dims do not nest.
For a register tensor, the atom defines the ownership of the matrix, which is then rewritten for the tensor's own dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import attrs

from fireiron.algebra.expr import Expr, Index, as_expr, as_int
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.base.records import evolve
from fireiron.kernel.analysis.ownership import Access, Ownership
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.language.steps import Step


def as_matrix(
    window: Window, axes: Sequence[str], order: Sequence[str], named: Mapping[str, str], step: Step
) -> Window:
    """Rename a window's axes to the MatMul's dimensions, rows and columns last; axes of one letter are merged.

    Args:
        window: a window without index maps.
        axes: the dim of each axis of the window.
        order: the same dims, in the order of the MatMul.
        named: the letter (M, N or K) of each dim of rows or columns.
        step: the step that uses the window.

    Raises:
        DecompositionError: `each-order` where a register tensor has them in another order; `each-merge` where the
            dims of one letter are no run of rows.
    """
    places = [list(axes).index(dim) for dim in order]
    storage = window.storage
    if places != sorted(places):
        several = [i for i in places if storage.shape[i] != 1]
        if storage.memory.registers and several != sorted(several):
            raise DecompositionError(
                "each-order",
                f"step {step.name} takes {storage.name} as {' x '.join(order[-2:])}, and its registers hold "
                f"it as {' x '.join(axes[-2:])}",
                fix=f"write the sum the other way round, so that {storage.name} is not transposed, or leave it to "
                "threads",
            )
        storage = _permuted(storage, places)
    found = [evolve(window.axes[i], dim=dim) for i, dim in zip(places, order, strict=True)]
    runs = [(name, list(part)) for name, part in groupby(range(len(found)), lambda i: named.get(order[i], order[i]))]
    if all(len(part) == 1 for _, part in runs):
        named_axes = tuple(evolve(found[part[0]], dim=name) for name, part in runs)
        return evolve(window, axes=named_axes, storage=storage)
    merged = tuple(_merged(name, [found[i] for i in part], [storage.shape[i] for i in part], step)
                   for name, part in runs)  # fmt: skip
    shape = tuple(_product([storage.shape[i] for i in part]) for _, part in runs)
    strides = () if storage.memory.registers else _strides([_mode(storage, part) for _, part in runs])
    return evolve(window, axes=merged, storage=attrs.evolve(storage, shape=shape, strides=strides))


def _permuted(storage: Storage, places: Sequence[int]) -> Storage:
    strides = storage.strides
    if storage.memory.registers:
        return attrs.evolve(storage, shape=tuple(storage.shape[i] for i in places))
    if isinstance(strides, Layout):
        strides = _layout([strides.modes[i] for i in places])
    else:
        strides = tuple(strides[i] for i in places)
    return attrs.evolve(storage, shape=tuple(storage.shape[i] for i in places), strides=strides)


def _layout(modes: Sequence[Layout]) -> Layout:
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _product(extents: Sequence[Index]) -> Index:
    found = as_expr(1)
    for extent in extents:
        found = found * extent
    size = as_int(found)
    assert size is not None, "buffers have known extents"
    return size


def _merged(name: str, axes: Sequence[Axis], shape: Sequence[Index], step: Step) -> Axis:
    """Merge several axes into one; the last axis is fastest in the merged index.

    Raises:
        DecompositionError: `each-merge`.
    """
    if len(axes) == 1:
        return evolve(axes[0], dim=name)
    offset, weight = as_expr(0), 1
    leaves: list[tuple[int, int]] = []
    for axis, extent in reversed(list(zip(axes, shape, strict=True))):
        size = axis.size
        if axis.bounds or not isinstance(size, int) or not isinstance(extent, int):
            raise DecompositionError(
                "each-merge",
                f"{' and '.join(a.dim for a in axes)} of step {step.name} together are {name} of its product, and "
                + (
                    f"the tiles of {axis.dim} do not divide its extent"
                    if axis.bounds
                    else f"the extent of {axis.dim} is not known"
                ),
                fix=f"tile {axis.dim} by a number that divides what is above it",
            )
        offset = offset + axis.offset * weight
        for n, stride in axis.layout.leaves:
            count, along = int(n), int(stride) * weight  # pyright: ignore[reportArgumentType]
            if count == 1:
                continue
            if leaves and leaves[-1][0] * leaves[-1][1] == along:
                leaves[-1] = (leaves[-1][0] * count, leaves[-1][1])
            else:
                leaves.append((count, along))
        weight *= extent
    if not leaves:
        return Axis(name, 1, offset)
    if len(leaves) == 1:
        ((count, along),) = leaves
        return Axis(name, count, offset, None if along == 1 else Layout(count, along))
    steps = Layout(tuple(n for n, _ in leaves), tuple(s for _, s in leaves))
    return Axis(name, steps.size, offset, steps)


def _mode(storage: Storage, dims: Sequence[int]) -> Layout:
    """Return a layout: index over several dims, the last one fastest -> address."""
    modes = storage.strides.modes if isinstance(storage.strides, Layout) else None
    leaves: list[tuple[Index, Index]] = []
    for d in reversed(dims):
        if modes is None:
            assert not isinstance(storage.strides, Layout)
            mine: list[tuple[Index, Index]] = [(storage.shape[d], storage.strides[d])]
        else:
            mine = [(n, s) for n, s in modes[d].leaves]
        for n, s in mine:
            if n == 1 and len(dims) > 1:
                continue
            if leaves and as_int(as_expr(leaves[-1][0]) * leaves[-1][1] - s) == 0:
                leaves[-1] = (_product([leaves[-1][0], n]), leaves[-1][1])
            else:
                leaves.append((n, s))
    if len(leaves) < 2:
        return Layout(*leaves[0]) if leaves else Layout(1, 0)
    return Layout(tuple(n for n, _ in leaves), tuple(s for _, s in leaves))


def _strides(modes: Sequence[Layout]) -> tuple[Index, ...] | Layout:
    flat: list[Index] = []
    for mode in modes:
        (first, *rest) = mode.leaves
        if rest:
            return _layout(modes)
        flat.append(first[1])
    return tuple(flat)


def unmerge(
    matrix: Storage, tensor: Storage, axes: Sequence[str], order: Sequence[str], named: Mapping[str, str]
) -> None:
    """Convert the ownership that an atom gave a matrix to the dims of the tensor that the matrix stands for.

    Args:
        matrix: the result of `as_matrix`.
        tensor: the window of the registers, in the tensor's dims.
        axes, order, named: the arguments of `as_matrix`.

    Raises:
        DecompositionError: `each-merge` where a tile below ends inside the dims that are rows or columns together.
    """
    made = matrix.ownership
    if matrix is tensor or made is None or tensor.ownership is not None:
        return
    places = [list(axes).index(dim) for dim in order]
    runs = [list(part) for _, part in groupby(places, lambda i: named.get(axes[i], axes[i]))]
    for limit in made.access.limits:
        dims = [axes[d] for d in runs[limit.axis]]
        if len(dims) > 1:
            raise DecompositionError(
                "each-merge",
                f"{' and '.join(dims)} together are {named.get(dims[0], dims[0])} of a product, and the tiles in its "
                f"chain do not divide their {matrix.shape[limit.axis]} elements",
                fix="choose tiles of these dims, above each(...), that hold a multiple of the atom's elements",
            )
    access = _parted(made.access, runs, tensor)
    written = _parted(made.written, runs, tensor)
    tensor.ownership = Ownership(access, written, made.threads, made.owner, made.opaque, made.link)
    tensor.size = matrix.size


def _parted(access: Access, runs: Sequence[Sequence[int]], tensor: Storage) -> Access:
    coordinates: dict[int, Expr] = {}
    elements: dict[int, Layout] = {}
    for i, part in enumerate(runs):
        along = access.coordinates[i]
        assert len(part) == 1 or access.elements[i].size == 1, "an atom's registers are visited one by one"
        weight = _product([tensor.shape[d] for d in part])
        rest = along
        for d in part:
            extent = tensor.shape[d]
            assert isinstance(weight, int) and isinstance(extent, int)
            weight //= extent
            coordinates[d] = rest // weight
            rest = rest % weight
            elements[d] = access.elements[i] if len(part) == 1 else Layout(1, 0)
    first = [next(iter(part)) for part in runs]
    limits = tuple(evolve(x, axis=first[x.axis]) for x in access.limits)
    at, layouts = (tuple(found[d] for d in sorted(found)) for found in (coordinates, elements))
    return evolve(access, coordinates=at, elements=layouts, limits=limits)
