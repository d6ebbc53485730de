"""The partition of a graph into parts; each part becomes one kernel.

Parts start as single operations, and rules merge them: attention (scores, folds of their rows, and the product with the
values); products and convolutions with pointwise operations after them; pointwise operations and folds with the same
dims. Views belong to no part: kernels read them by strides.

Source: the partition of MindSpore's graph-kernel fusion for GPUs; the rules about products follow the Volta generator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from fireiron.algebra.unary import FUNCTIONS
from fireiron.graph.areas import MOST_OPS, Areas, Part, PartKind
from fireiron.graph.attention_parts import attention
from fireiron.graph.crossed import following
from fireiron.graph.dims import dims_of, free_nodes
from fireiron.graph.motion import widens
from fireiron.graph.nodes import Graph
from fireiron.graph.operations import Shape
from fireiron.graph.product_parts import (
    SUMS,
    epilogs,
    joined_products,
    operands_of,
    products_of_one_array,
    prologs,
    rows_of_products,
)
from fireiron.graph.recompute import MOST_AGAIN
from fireiron.graph.row_parts import (
    before_folds,
    before_scans,
    folds_alike,
    folds_of_one_array,
    one_row,
    over_rows,
    over_several,
    rows,
    side_by_side,
    sums_beside_rows,
    sums_of_rows,
)
from fireiron.graph.views import View, base_of


def partition(graph: Graph, views: Mapping[int, View] | None = None) -> tuple[Part, ...]:
    """Divide a graph into parts, each for one kernel, in an order in which a part comes after its inputs.

    Args:
        graph: the graph.
        views: where elements lie; None where the order of axes in memory does not count.

    Example:
        >>> import numpy as np
        >>> from fireiron import nn
        >>> from fireiron.graph.trace import trace_graph
        >>> def layer(x, w, b):
        ...     return nn.softmax(np.maximum(x @ w + b, 0))
        >>> for part in partition(trace_graph(layer, (64, 32), (32, 16), (16,)).optimised()):
        ...     print(part.kind, len(part.nodes))
        product 3
        rows 6
    """
    areas = Areas(graph, lies=following(graph, views or {}, free_nodes(graph)))
    attention(areas)
    epilogs(areas)
    joined_products(areas)
    products_of_one_array(areas)
    before_folds(areas)
    before_scans(areas)
    rows(areas)
    sums_beside_rows(areas)
    rows_of_products(areas)
    prologs(areas)
    side_by_side(areas)
    folds_of_one_array(areas)
    folds_alike(areas)
    return ordered(areas)


def ordered(areas: Areas) -> tuple[Part, ...]:
    """Return the areas as parts, in an order in which each comes after its inputs."""
    waits = {a: {areas.of[p] for n in m for p in areas.producers(n)} - {a} for a, m in areas.members.items()}
    made: list[Part] = []
    done: set[int] = set()
    left = sorted(areas.members, key=lambda a: min(areas.members[a]))
    while left:
        area = next(a for a in left if waits[a] <= done)
        left.remove(area)
        done.add(area)
        made.append(part_of(areas, area))
    return again_at_readers(areas, made)


def again_at_readers(areas: Areas, parts: list[Part], kept: Collection[int] = ()) -> tuple[Part, ...]:
    """Compute wide floats again in the parts that read them, where this saves memory traffic.

    The pass `recompute` does so ahead of the partition, for folds that can share a kernel only then.
    The narrower floats from which they are computed are then stored, or read, instead: for a conversion its source. So
    are values of any type that one operation computes of rows and columns, such as masks.

    Args:
        areas: the partition.
        parts: its parts, in order.
        kept: results that are stored whoever reads them.
    """
    graph, nodes = areas.graph, areas.graph.nodes
    sets = [set(part.nodes) for part in parts]
    outputs = [set(part.outputs) for part in parts]
    for place, part in enumerate(parts):
        for c in sorted(part.outputs, reverse=True):
            readers = [r for r in range(len(parts)) if r != place and _reads_of(areas, sets[r], c)]
            if c in graph.returned or c in kept or (nodes[c].dtype.bits <= 16 and not _spread(areas, c)):
                continue
            if any(nodes[u].kind not in ("pointwise", "fold") for u in graph.users[c]):
                continue
            if not readers:  # all have computed it for another value
                outputs[place].discard(c)
                sets[place] = _needed(graph, sets[place], outputs[place])
                continue
            cone = {c} if widens(nodes, c) or _spread(areas, c) else _cone(areas, c)
            leaves = {i for n in cone for i in nodes[n].inputs if i not in cone and i not in areas.free}
            mine = {base for i in leaves if (base := base_of(graph, i)) in sets[place]}
            if not cone:
                continue
            fresh = mine - outputs[place]
            saved = (1 + len(readers)) * nodes[c].nbytes - sum(nodes[i].nbytes for i in fresh)
            saved -= sum(nodes[i].nbytes for r in readers for i in leaves - _inputs(areas, sets[r]))
            given = {*outputs[place], *mine} - {c}
            left = _needed(graph, sets[place], given)
            alone = widens(nodes, c) or (
                all(_takes(areas, parts[r], sets[r] | cone, outputs[r]) for r in readers)
                and (not left or _takes(areas, part, left, given))
            )
            if saved <= 0 or not alone:
                continue
            outputs[place], sets[place] = given, left
            for r in readers:
                sets[r] |= cone
    made: list[Part] = []
    for part, inside, given in zip(parts, sets, outputs, strict=True):
        if part.outputs and not given:  # its readers compute all of it
            continue
        read = dict.fromkeys(
            i for n in sorted(inside) for i in nodes[n].inputs if i not in inside and i not in areas.free
        )
        made.append(attrs.evolve(part, nodes=tuple(sorted(inside)), inputs=tuple(read), outputs=tuple(sorted(given))))
    return tuple(made)


def _spread(areas: Areas, number: int) -> bool:
    """Say whether one operation gives a value of arrays that have fewer elements, such as rows and columns."""
    node, nodes = areas.graph.nodes[number], areas.graph.nodes
    points = node.kind == "pointwise" and node.op not in ("copy", *FUNCTIONS)
    return points and all(i in areas.free or nodes[base_of(areas.graph, i)].size < node.size for i in node.inputs)


def _inputs(areas: Areas, inside: set[int]) -> set[int]:
    return {i for n in inside for i in areas.graph.nodes[n].inputs if i not in inside and i not in areas.free}


def _reads_of(areas: Areas, inside: set[int], number: int) -> bool:
    return number not in inside and any(u in inside for u in areas.graph.users[number])


def _cone(areas: Areas, number: int) -> set[int]:
    """Find the pointwise operations on wide floats that give a value, without those at other points; empty if many."""
    graph, found, left = areas.graph, set[int](), [number]
    while left:
        n = left.pop()
        node = graph.nodes[n]
        wide = node.kind == "pointwise" and node.op != "copy" and node.dtype.bits > 16
        if n in areas.of and wide and node.shape == graph.nodes[number].shape and n not in found:
            found.add(n)
            left += node.inputs
    return found if len(found) <= MOST_AGAIN else set()


def _takes(areas: Areas, part: Part, inside: set[int], outputs: set[int]) -> bool:
    """Say whether a part of rows or points is still one program with these operations and outputs."""
    if part.kind not in ("pointwise", "rows", "reduction") or len(inside) > MOST_OPS:
        return False
    if areas.reads_itself(inside):
        return False
    dims = dims_of(areas.graph, areas.with_views(inside), areas.free, alike=True)
    return dims is not None and one_row(areas, inside, dims.names, set(dims.folded), sorted(outputs))


def _needed(graph: Graph, inside: set[int], outputs: set[int]) -> set[int]:
    """Return the nodes of a set that its outputs are computed from."""
    found, left = set[int](), list(outputs)
    while left:
        n = left.pop()
        if n in inside and n not in found:
            found.add(n)
            left += graph.nodes[n].inputs
    return found


def part_of(areas: Areas, area: int) -> Part:
    """Return an area as a part."""
    graph, inside = areas.graph, areas.members[area]
    nodes = areas.with_views(inside)
    read = dict.fromkeys(i for n in nodes for i in graph.nodes[n].inputs if i not in nodes and i not in areas.free)
    return Part(kind_of(areas, inside), tuple(nodes), tuple(read), areas.outputs(area), tuple(areas.why[area]))


def kind_of(areas: Areas, inside: set[int]) -> PartKind:
    """Return the form of an area's kernel."""
    nodes = areas.graph.nodes
    windows = [nodes[n].op for n in inside if nodes[n].kind == "windows"]
    if windows:
        return "convolution" if "conv" in windows else "pooling"
    products = sum(nodes[n].op == "matmul" for n in inside)
    folds = any(nodes[n].kind == "fold" for n in inside)
    if products == 1:
        return "product rows" if folds else "product"
    if products:
        return "attention" if folds else "products"
    if any(nodes[n].kind == "scan" for n in inside):
        return "rows"
    known = ("pointwise", "fold", "gather", "scatter", "copy")
    if any(nodes[n].kind not in known for n in inside):
        return "foreign"
    dims = dims_of(areas.graph, areas.with_views(inside), areas.free, alike=True)
    if dims is None:
        return "foreign"
    if not dims.folded:
        return "pointwise"
    kept = {d for n in inside if areas.live(n, inside) for d in dims.names[n]}
    return "rows" if kept & set(dims.folded) else "reduction"


def apart(graph: Graph, part: Part, views: Mapping[int, View]) -> tuple[Part, ...]:
    """Divide a part that has no kernel, at the operation that is the most likely cause.

    The new parts are products or convolutions with epilogs; products and folds of their rows; folds of rows and sums
    over rows; folds and points by how their elements lie; folds one by one; products and pointwise parts;
    concatenations and the operations around them; or single operations.

    Args:
        graph: the graph of the part.
        part: the part.
        views: where elements lie.
    """
    inside = {n for n in part.nodes if graph.nodes[n].kind != "view"}
    if len(inside) < 2:
        return (part,)
    areas = Areas(graph, several=False)
    products = sorted(n for n in inside if graph.nodes[n].op in SUMS)
    before = sorted(operands_of(graph, products[0], inside)) if products else []
    if part.kind == "product rows":
        epilogs(areas, inside)
        rows(areas, inside - areas.members[areas.of[products[0]]])
    elif part.kind == "products" or (before and len(products) == 1):
        epilogs(areas, inside)
        for number in before[:-1]:
            areas.merge(number, before[-1], f"{graph.nodes[number].op} at points that its reader has")
    elif len(products) == 1:  # the operations after a product are one pointwise part
        others = sorted(inside - set(products))
        for number in others[:-1]:
            areas.merge(number, others[-1], f"{graph.nodes[number].op} behind a product that takes no epilog")
    elif part.kind in ("rows", "reduction"):
        # Sums over all rows leave rows as they are, however these lie: of rows over one dim, kernels take all orders.
        lines = [n for n in inside if graph.nodes[n].kind == "fold" and not over_rows(graph, n)]
        beside = sums_of_rows(graph, inside) and not over_several(graph, lines)
        lies = None if beside else following(graph, views, areas.free)
        found = Areas(graph, several=False, lies=lies, strict=not beside)
        before_folds(found, inside)
        rows(found, inside)
        folds_of_one_array(found, inside)
        if len({found.of[n] for n in inside}) == 1 and (each := fold_by_fold(areas, part)):
            return each
        areas = found if len({found.of[n] for n in inside}) > 1 else areas
    elif any(graph.nodes[n].kind == "copy" for n in inside):  # concatenations, and the operations around them
        rows(areas, {n for n in inside if graph.nodes[n].kind != "copy"})
    mine = sorted({areas.of[n] for n in inside}, key=lambda a: min(areas.members[a]))
    waits = {a: {areas.of[p] for n in areas.members[a] for p in areas.producers(n)} & set(mine) - {a} for a in mine}
    made: list[Part] = []
    done: set[int] = set()
    while mine:
        area = next(a for a in mine if waits[a] <= done)
        mine.remove(area)
        done.add(area)
        made.append(part_of(areas, area))
    given = _giving(graph, made, part)
    return again_at_readers(areas, given, part.outputs)


def fold_by_fold(areas: Areas, part: Part) -> tuple[Part, ...]:
    """Divide rows into a part for each fold and for results of each shape, which compute again what they share.

    Returns:
        The parts; () where there would be one, or much would be computed again.
    """
    nodes, inside = areas.graph.nodes, set(part.nodes)
    points: dict[Shape, list[int]] = {}
    for n in part.outputs:
        if nodes[n].kind != "fold":
            points.setdefault(nodes[n].shape, []).append(n)
    folds: list[list[int]] = [[n] for n in sorted(inside) if nodes[n].kind == "fold"]
    made: list[Part] = []
    for outputs in (*folds, *points.values()):
        found, left = set[int](), list(outputs)
        while left:
            n = left.pop()
            if n in inside and n not in found and (n in outputs or nodes[n].kind != "fold"):
                found.add(n)
                left += nodes[n].inputs
        if len(found) > MOST_OPS:
            return ()
        read = dict.fromkeys(
            i for n in sorted(found) for i in nodes[n].inputs if i not in found and i not in areas.free
        )
        kind: PartKind = "reduction" if outputs in folds else "pointwise"
        why = (f"{nodes[n].op} again for each fold" for n in sorted(found) if nodes[n].kind == "pointwise")
        made.append(Part(kind, tuple(sorted(found)), tuple(read), tuple(outputs), tuple(dict.fromkeys(why))))
    return tuple(made) if len(made) > 1 else ()


def _giving(graph: Graph, made: list[Part], whole: Part) -> list[Part]:
    """Give the parts of a divided part their outputs: those of the whole, and results that they read of each other.

    Readers may use another node than the graph says: the narrower float, which they convert themselves.
    """
    read = [{base_of(graph, i) for i in part.inputs} for part in made]
    found: list[Part] = []
    for place, part in enumerate(made):
        others = set(whole.outputs).union(*(each for other, each in enumerate(read) if other != place))
        outputs = tuple(n for n in part.nodes if n in others)
        found += [attrs.evolve(part, outputs=outputs)] if outputs else []
    return found
