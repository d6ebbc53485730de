"""Rows and points in a partition: pointwise operations and folds whose dims agree are one part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from fireiron.graph.areas import MOST_OPS, Areas
from fireiron.graph.crossed import by_strides, crossed
from fireiron.graph.dims import dims_of, folded_by, points_of
from fireiron.graph.nodes import Graph
from fireiron.graph.operations import Shape
from fireiron.graph.views import View, base_of

MOST_OUTPUTS = 8
MOST_TOGETHER = 16  # outputs of pointwise operations that share a launch alone
MOST_FOLDS = 4  # of one array over its rows, in one kernel
MOST_BLOCKS = 132  # that share rows; each stores its sums, of SUM_NBYTES for each column
SUM_NBYTES, SHORT_NBYTES = 4, 2  # of a partial sum, and of an element of the rows
SMALL_NBYTES = 4 << 20  # that pointwise operations read and write in about 1 us on an H200; their launch takes 3


def rows(areas: Areas, only: Iterable[int] | None = None) -> None:
    """Merge pointwise operations and folds with the same dims, a producer with its consumer, the last ones first.

    Args:
        areas: the unfinished partition.
        only: nodes that may be merged; all where None.
    """
    allowed = set(areas.of if only is None else only)
    changed = True
    while changed:
        changed = False
        for number in sorted(allowed):
            for p in dict.fromkeys(areas.producers(number, direct=True)):
                one, other = areas.of[p], areas.of[number]
                if one != other and p in allowed and _fits(areas, one, other):
                    areas.merge(one, other, f"{areas.graph.nodes[p].op} at points that its reader has")
                    changed = True


def side_by_side(areas: Areas) -> None:
    """Merge small pointwise operations of one shape that do not depend on each other into one launch."""
    graph = areas.graph
    open_: dict[tuple[object, ...], int] = {}
    for area in sorted(areas.members, key=lambda a: min(areas.members[a])):
        inside, outputs = areas.members[area], areas.outputs(area)
        read = {i for n in inside for i in graph.nodes[n].inputs if i not in inside and i not in areas.free}
        small = sum(graph.nodes[i].nbytes for i in (*read, *outputs)) <= SMALL_NBYTES
        plain = all(graph.nodes[n].kind == "pointwise" and graph.nodes[n].op != "copy" for n in inside)
        shapes = {graph.nodes[n].shape for n in outputs}
        if not (small and plain and len(shapes) == 1):
            continue
        key = shapes.pop(), areas.kept(area)
        other = open_.get(key)
        if other is not None and _beside(areas, area, other):
            areas.merge(area, other, f"{graph.nodes[max(inside)].op} beside others of its shape")
        else:
            open_[key] = area


def before_scans(areas: Areas) -> None:
    """Merge a running sum with the pointwise operations of its shape that it alone reads."""
    graph = areas.graph
    for number in [n for n in areas.of if graph.nodes[n].kind == "scan"]:
        left = [number]
        while left:
            for p in areas.producers(left.pop(), direct=True):
                node, one, other = graph.nodes[p], areas.of[p], areas.of[number]
                points = node.kind == "pointwise" and node.op != "copy" and node.shape == graph.nodes[number].shape
                alone = p not in graph.returned and areas.members[other].issuperset(areas.consumers(p))
                mine = areas.members[one] | areas.members[other]
                fits = len(mine) <= MOST_OPS and not areas.reads_itself(mine) and not areas.makes_cycle(one, other)
                if one != other and points and alone and fits:
                    areas.merge(one, other, f"{node.op} at points that its reader has")
                    left.append(p)


def before_folds(areas: Areas, only: Iterable[int] | None = None) -> None:
    """Merge a fold with the pointwise operations in more than 16 bits that it alone reads.

    This is first: merged with the operations before them, they would be stored.

    Args:
        areas: the unfinished partition.
        only: nodes that may be merged; all where None.
    """
    graph, allowed = areas.graph, set(areas.of if only is None else only)
    for number, node in enumerate(graph.nodes):
        if node.kind != "fold" or number not in allowed:
            continue
        left = [number]
        while left:
            for p in areas.producers(left.pop(), direct=True):
                one, other, wide = areas.of[p], areas.of[number], graph.nodes[p].dtype.bits > 16
                alone = p in allowed and p not in graph.returned and areas.members[other].issuperset(areas.consumers(p))
                if one != other and wide and alone and graph.nodes[p].kind == "pointwise" and _fits(areas, one, other):
                    areas.merge(one, other, f"{graph.nodes[p].op} at points that its reader has")
                    left.append(p)


def sums_of_rows(graph: Graph, nodes: Iterable[int]) -> bool:
    """Say whether some folds of nodes are over all dims outside the last one, and others over the last."""
    return {over_rows(graph, n) for n in nodes if graph.nodes[n].kind == "fold"} == {False, True}


def over_several(graph: Graph, nodes: Iterable[int]) -> bool:
    """Say whether some fold of nodes is over several dims."""
    folds = (graph.nodes[n] for n in nodes if graph.nodes[n].kind == "fold")
    shapes = ((graph.nodes[fold.inputs[0]].shape, tuple(map(int, fold["axes"]))) for fold in folds)
    return any(len([axis for axis in axes if shape[axis] > 1]) > 1 for shape, axes in shapes)


def over_rows(graph: Graph, fold: int, views: Mapping[int, View] | None = None) -> bool:
    """Say whether a fold's dims are not the last ones: its rows do not follow each other, as those of batch norm.

    Args:
        graph: the graph of the fold.
        fold: number of the fold.
        views: where elements lie; the last dims are those of the smallest strides then.
    """
    (operand,), axes = graph.nodes[fold].inputs, graph.nodes[fold]["axes"]
    shape, strides = graph.nodes[operand].shape, views[operand].strides if views and operand in views else ()
    inner = sorted((a for a, n in enumerate(shape) if n > 1), key=lambda a: -strides[a] if strides else a)
    folded = [a in axes for a in inner]
    return folded != sorted(folded)


def folds_alike(areas: Areas) -> None:
    """Merge folds of different arrays of one shape where one reads what the other gives.

    Such are the sums over a group's channels in the gradient of group norm. Behind the other rules, since a fold of a
    product belongs to the product.
    """
    areas.alike = True
    areas.rows.clear()
    folding = {a for a, mine in areas.members.items() if any(areas.graph.nodes[n].kind == "fold" for n in mine)}
    rows(areas, [n for a in sorted(folding) for n in areas.members[a]])


def folds_of_one_array(areas: Areas, only: Iterable[int] | None = None) -> None:
    """Merge folds over the rows of one array, or of what is computed from it, so that one kernel reads the array.

    Such are the gradients of a norm's gain and bias.

    Args:
        areas: the unfinished partition.
        only: nodes that may be merged; all where None.
    """
    graph, found = areas.graph, dict[tuple[object, ...], list[int]]()
    allowed = set(areas.of if only is None else only)
    for area in sorted(areas.members, key=lambda a: min(areas.members[a])):
        numbers = [n for n in areas.members[area] if graph.nodes[n].kind == "fold" and n in allowed]
        folds = [graph.nodes[n] for n in numbers]
        sources = {(graph.nodes[f.inputs[0]].shape, tuple(f["axes"])) for f in folds}
        if len(sources) != 1 or not all(over_rows(graph, n, areas.lies if areas.strict else None) for n in numbers):
            continue
        ((shape, axes),) = sources
        for other in found.setdefault((shape, axes), []):
            if other not in areas.members or not _reads(areas, area, shape) & _reads(areas, other, shape):
                continue
            count = len(folds) + sum(graph.nodes[n].kind == "fold" for n in areas.members[other])
            if count <= MOST_FOLDS and not areas.parted(area, other) and _fits(areas, other, area):
                areas.merge(other, area, f"{folds[0].op} of an array that another fold reads")
        found[shape, axes].append(area)


def sums_beside_rows(areas: Areas) -> None:
    """Merge sums over all rows with the kernel that folds or gives these rows, so that the rows are read once.

    Such are the gradient of a norm, those of its gain and bias, and that of the bias of the layer before it. Each block
    then stores sums for all columns, so that few wide rows stay apart.
    """
    nodes = areas.graph.nodes
    sums = {a: shape for a in sorted(areas.members) if (shape := _lines_of(areas, a, over_rows=True)) is not None}
    for area in sorted(areas.members):
        shape = _lines_of(areas, area, over_rows=False) if area in areas.members else None
        for other in [a for a in sums if sums[a] == shape]:
            mine = {i for n in areas.members[area] for i in (n, *nodes[n].inputs)}
            if mine & _reads(areas, other, sums[other]) and _sums_fit(areas, area, other, sums[other]):
                areas.merge(other, area, "sums over the rows that it has")
                del sums[other]


def _lines_of(areas: Areas, area: int, over_rows: bool) -> Shape | None:
    """Return the shape of the array that an area folds, over all dims but the last, or over the last one.

    The result is None for an area with other folds, or with folds of several shapes.
    """
    nodes, mine = areas.graph.nodes, areas.members[area]
    folds = [nodes[n] for n in mine if nodes[n].kind == "fold"]
    shapes = {nodes[fold.inputs[0]].shape for fold in folds}
    if len(shapes) != 1 or any(nodes[n].kind not in ("pointwise", "fold") for n in mine):
        return None
    (shape,) = shapes
    *lines, column = range(len(shape))
    wanted = tuple(lines) if over_rows else (column,)
    return shape if lines and all(tuple(fold["axes"]) == wanted for fold in folds) else None


def _sums_fit(areas: Areas, area: int, other: int, shape: Shape) -> bool:
    """Say whether one program can fold the columns of an area's rows and the rows of another, which reads the first."""
    inside = areas.members[area] | areas.members[other]
    outputs = [n for n in inside if areas.live(n, inside)]
    folds = sum(areas.graph.nodes[n].kind == "fold" for n in areas.members[other])
    folds += sum(over_rows(areas.graph, n) for n in areas.members[area] if areas.graph.nodes[n].kind == "fold")
    if len(inside) > MOST_OPS or len(outputs) > MOST_OUTPUTS or folds > MOST_FOLDS or areas.reads_itself(inside):
        return False
    *lines, width = shape
    if folds * width * SUM_NBYTES * MOST_BLOCKS > max(SMALL_NBYTES, prod(lines) * width * SHORT_NBYTES):
        return False
    if area in areas.successors(other) or areas.makes_cycle(area, other) or areas.makes_cycle(other, area):
        return False
    return (
        areas.kept(area) == areas.kept(other) and dims_of(areas.graph, areas.with_views(inside), areas.free) is not None
    )


def _reads(areas: Areas, area: int, shape: Shape) -> set[int]:
    """List the arrays of a shape that an area reads."""
    inside = areas.members[area]
    read = {i for n in inside for i in areas.graph.nodes[n].inputs if i not in inside and i not in areas.free}
    return {i for i in read if areas.graph.nodes[i].shape == shape}


def _beside(areas: Areas, one: int, other: int) -> bool:
    """Say whether one program can compute two independent areas."""
    inside = areas.members[one] | areas.members[other]
    if len(inside) > MOST_OPS or len(areas.outputs(one)) + len(areas.outputs(other)) > MOST_TOGETHER:
        return False
    if areas.parted(one, other) or areas.parted(other, one):
        return False
    dims = dims_of(areas.graph, areas.with_views(inside), areas.free)
    outputs = [n for n in inside if areas.live(n, inside)]
    return dims is not None and one_row(areas, inside, dims.names, set(), outputs)


def _fits(areas: Areas, one: int, other: int) -> bool:
    inside = areas.members[one] | areas.members[other]
    if areas.kept(one) != areas.kept(other):
        return False
    key = frozenset(inside)
    if key not in areas.rows:
        areas.rows[key] = _are_rows(areas, inside)
    return areas.rows[key] and not _crosses(areas, one, other) and not areas.makes_cycle(one, other)


def _crosses(areas: Areas, one: int, other: int) -> bool:
    """Say whether two areas together read large arrays that are contiguous along different dims, and neither alone."""
    if not areas.lies:
        return False
    several = (areas.members[one] | areas.members[other], areas.members[one], areas.members[other])
    both, *each = (crossed(areas.graph, areas.with_views(x), areas.lies, areas.free) for x in several)
    return both and not any(each)


def _are_rows(areas: Areas, inside: set[int]) -> bool:
    """Say whether one program of rows or points computes a set of operations."""
    graph = areas.graph
    forms = {graph.nodes[n].kind for n in inside}
    if "fold" in forms and any(graph.nodes[n].op == "copy" for n in inside):
        return False  # what folds read in an order of its own
    if not forms <= {"pointwise", "fold"} and not forms <= {"pointwise", "gather", "scatter", "copy"}:
        return False
    if len(inside) > MOST_OPS or any(base_of(graph, i) in inside for n in inside for i in complete_before(graph, n)):
        return False
    if any(graph.nodes[n].kind == "scatter" and not inside.isdisjoint(areas.consumers(n)) for n in inside):
        return False  # what is written is complete behind the kernel
    if areas.reads_itself(inside):
        return False
    dims = dims_of(graph, areas.with_views(inside), areas.free, alike=areas.alike)
    if dims is None:
        return False
    outputs = [n for n in inside if areas.live(n, inside)]
    if len(outputs) > MOST_OUTPUTS:
        return False
    return one_row(areas, inside, dims.names, set(dims.folded), outputs)


def complete_before(graph: Graph, number: int) -> tuple[int, ...]:
    """List inputs that a node's own part must not compute: tables, arrays in place, all numbers of lines.

    Numbers that count from the end are computed where they are used, from those in the array.
    """
    node = graph.nodes[number]
    if node.kind not in ("gather", "scatter"):
        return ()
    ids, first = node.inputs[1], base_of(graph, node.inputs[1])
    told = graph.nodes[first]
    if told.op == "select" and graph.nodes[told.inputs[0]].op == "lt":
        below, moved = (graph.nodes[i] for i in told.inputs[:2])
        wraps = moved.op == "add" and below.inputs[0] == moved.inputs[0] == told.inputs[2]
        ids = told.inputs[2] if wraps else ids
        while wraps and graph.nodes[base_of(graph, ids)].op == "cast":
            (ids,) = graph.nodes[base_of(graph, ids)].inputs
    return (ids, *node.inputs[2:]) if node.kind == "scatter" else (node.inputs[0], ids)


def one_row(
    areas: Areas, inside: set[int], names: dict[int, tuple[str | None, ...]], folded: set[str], outputs: list[int]
) -> bool:
    """Say whether all folds are over the same dims, and each output has all of these dims or none."""
    folds = [n for n in inside if areas.graph.nodes[n].kind == "fold"]
    if any(set(folded_by(areas.graph, n, names)) != folded for n in folds):
        return False
    kept = [{d for d in points_of(areas.graph, n, names) if d is not None} for n in outputs]
    own = [{d for d in names[n] if d is not None} for n in folds]
    if any(k - folded != mine - folded for k in kept for mine in own):
        return False  # the fold would be computed again at each point along another dim
    if any(kept) and any(not any(names[n]) for n in folds):  # a step between others has a dim
        return False
    if not folded:  # one space of points
        return all(k == kept[0] for k in kept)
    alone = [n for n, mine in zip(outputs, kept, strict=True) if not mine & folded]
    if areas.strict and not all(_depends(areas.graph, n, set(folds)) for n in alone):
        return False
    if areas.strict and any(_waits(areas, n, set(folds)) for n in folds):
        return False
    lines = [k - folded for k in kept]
    again = any(folded <= k for k in kept)
    whole = all(not k & folded or folded <= k for k in kept)
    # Columns are the last dims of each array that has them, in one order, so that rows are contiguous.
    known = areas.lies if areas.strict else {}
    spoken = [by_strides(names[n], known[n].strides if n in known else ()) for n in outputs]
    columns = {tuple(dims[-len(folded) :]) for dims in spoken if folded <= set(dims)}
    last = len(columns) == 1 and all(set(found) == folded for found in columns)
    same = all(line == lines[0] for line in lines)
    return whole and same and (not again or (last and (areas.several or len(folded) == 1)))


def _waits(areas: Areas, fold: int, folds: set[int]) -> bool:
    """Say whether a fold of elements that lie apart reads what depends on another fold: it reads them once more."""
    operands = areas.graph.nodes[fold].inputs
    others = folds - {fold}
    apart = bool(others) and over_rows(areas.graph, fold, areas.lies)
    return apart and any(_depends(areas.graph, i, others) for i in operands)


def _depends(graph: Graph, number: int, folds: set[int]) -> bool:
    """Say whether a node is computed from some of the folds."""
    left, seen, first = [number], set[int](), min(folds)
    while left:
        n = left.pop()
        if n in folds:
            return True
        if n >= first and n not in seen:
            seen.add(n)
            left += graph.nodes[n].inputs
    return False
