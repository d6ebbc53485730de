"""Products in a partition: what is computed with a product in its kernel, and products that share one.

What follows a convolution is computed in its kernel by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from fireiron.graph.areas import MOST_OPS, Areas
from fireiron.graph.dims import dims_of
from fireiron.graph.nodes import Graph
from fireiron.graph.row_parts import one_row

SUMS = ("matmul", "conv")  # operations whose kernels take an epilog
MOST_SUMS = 4  # accumulators side by side in a block's registers


def epilogs(areas: Areas, only: Iterable[int] | None = None) -> None:
    """Fuse pointwise operations into the epilog of a product or convolution, up to the result with the fewest bytes.

    Args:
        areas: the unfinished partition.
        only: nodes that may be merged; all where None.
    """
    graph = areas.graph
    allowed = set(areas.of if only is None else only)
    for number, node in enumerate(graph.nodes):
        if number not in allowed or node.op not in SUMS or areas.of[number] != number or len(areas.members[number]) > 1:
            continue
        inside, chosen = {number}, {number}
        least = _stored(areas, inside)
        left, seen = sorted(graph.users[number]), set[int]()  # readers of the nodes in `inside`, in order
        while left:
            other = heappop(left)
            if other in seen:
                continue
            seen.add(other)
            if other not in allowed or other not in areas.of or len(areas.members.get(areas.of[other], ())) != 1:
                continue
            if not _follows(areas, other, inside):
                continue
            inside = {*inside, other}
            for reader in graph.users[other]:
                heappush(left, reader)
            now = _stored(areas, inside)
            if now <= least:
                least, chosen = now, inside
        for other in sorted(chosen - {number}):
            areas.merge(other, number, f"{graph.nodes[other].op} in the {_said(node.op)}'s registers")
        for other in sorted(_beside_product(areas, chosen, allowed)):
            areas.merge(other, number, f"{graph.nodes[other].op} of other arrays, in the {_said(node.op)}'s registers")


def _said(op: str) -> str:
    return "product" if op == "matmul" else "convolution"


def _beside_product(areas: Areas, inside: set[int], allowed: set[int]) -> set[int]:
    """Find pointwise operations on other arrays whose results only this epilog reads.

    The epilog computes them itself if their inputs have no more bytes than their results.
    """
    graph, cones = areas.graph, dict[int, set[int]]()
    shape, operands = graph.nodes[min(inside)].shape, set(areas.producers(min(inside)))
    for first in dict.fromkeys(i for n in sorted(inside) for i in graph.nodes[n].inputs):
        cone, left = set[int](), [first]
        while left:
            n = left.pop()
            node = graph.nodes[n]
            if n in inside or n not in areas.of or node.kind != "pointwise" or node.shape != shape:
                continue
            cone.add(n)
            left += [i for i in node.inputs if i not in cone]
        own = any(graph.nodes[i].op in SUMS for n in cone for i in graph.nodes[n].inputs)  # that product's epilog
        free = all(n in allowed and areas.members.get(areas.of[n]) == {n} and not areas.kept(areas.of[n]) for n in cone)
        read = {i for n in cone for i in graph.nodes[n].inputs if i not in cone and i not in areas.free}
        nbytes = sum(graph.nodes[i].nbytes for i in read)
        if cone and free and not own and operands.isdisjoint(cone) and nbytes <= 2 * graph.nodes[first].nbytes:
            cones[first] = cone
    while True:
        found = set[int]().union(*cones.values())
        alone = {i: cone for i, cone in cones.items() if not any(areas.live(n, inside | found) for n in cone)}
        if len(alone) == len(cones):
            return found
        cones = alone


def prologs(areas: Areas) -> None:
    """Fuse pointwise operations into a product's prolog, if only the product reads them."""
    graph = areas.graph
    for number, node in enumerate(graph.nodes):
        if node.op != "matmul" or number not in areas.of or not _is_product(areas, areas.of[number]):
            continue
        for operand in dict.fromkeys(node.inputs):
            if operand not in areas.of:
                continue
            one, other = areas.of[operand], areas.of[number]
            inside = areas.members[one]
            plain = all(graph.nodes[n].kind == "pointwise" and graph.nodes[n].op != "copy" for n in inside)
            shape = graph.nodes[operand].shape
            whole = [
                i for n in inside for i in graph.nodes[n].inputs if i not in inside and graph.nodes[i].shape == shape
            ]
            alone = areas.outputs(one) == (operand,) and not areas.live(operand, {*inside, number})
            same = all(graph.nodes[n].shape == shape for n in inside)
            if (
                plain
                and alone
                and same
                and not areas.kept(one)
                and len(set(whole)) == 1
                and node.inputs.count(operand) == 1
            ):
                areas.merge(one, other, f"{graph.nodes[operand].op} on an operand's way to the product")


def joined_products(areas: Areas) -> None:
    """Merge products of one shape that a pointwise operation combines: A B + C D, and gates (silu(X W) * (X U))."""
    graph = areas.graph
    for number, node in enumerate(graph.nodes):
        if node.op != "matmul" or number not in areas.of or len(node.shape) - len(graph.nodes[node.inputs[0]].shape):
            continue
        one = areas.of[number]
        outputs = areas.outputs(one)
        if len(outputs) != 1 or _products(areas, one) != 1:
            continue
        others = {areas.of[u] for u in areas.consumers(outputs[0])} - {one}
        if len(others) != 1:
            continue
        (other,) = others
        match = [n for n in areas.members[other] if graph.nodes[n].op == "matmul"]
        read = [n for n in areas.members[other] if outputs[0] in graph.nodes[n].inputs]
        fits = 0 < len(match) < MOST_SUMS and graph.nodes[match[0]].shape == node.shape
        fits = fits and all(graph.nodes[n].kind == "pointwise" and graph.nodes[n].shape == node.shape for n in read)
        same = {graph.nodes[i].dtype for n in (number, *match) for i in graph.nodes[n].inputs}
        flat = all(len(graph.nodes[graph.nodes[n].inputs[1]].shape) == 2 for n in (number, *match))
        if read and fits and flat and len(same) == 1 and not areas.makes_cycle(one, other):
            areas.merge(one, other, "matmul beside another of its shape")


def products_of_one_array(areas: Areas) -> None:
    """Merge products of one array with several matrices of one shape, so that a block loads the array's rows once."""
    graph = areas.graph
    found: dict[tuple[object, ...], list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if node.op != "matmul" or number not in areas.of or _products(areas, areas.of[number]) != 1:
            continue
        left, right = node.inputs
        matrix = graph.nodes[right]
        if len(matrix.shape) == 2 and areas.of[number] not in map(areas.of.get, (left, right)):
            found.setdefault((left, matrix.dtype, node.shape, node.dtype), []).append(number)
    for group in found.values():
        for start in range(0, len(group), MOST_SUMS):
            first, *others = group[start : start + MOST_SUMS]
            for number in others:
                one, other = areas.of[number], areas.of[first]
                if one == other or areas.parted(one, other) or areas.parted(other, one):
                    continue
                areas.merge(one, other, "matmul of an array that another one multiplies")


def rows_of_products(areas: Areas) -> None:
    """Merge a product with folds of its rows, as in norms; values between them are stored only if others read them."""
    graph = areas.graph
    for number, node in enumerate(graph.nodes):
        if node.op != "matmul" or number not in areas.of or not _is_product(areas, areas.of[number]):
            continue
        sides = [graph.nodes[i] for i in node.inputs]
        short = {(side.dtype.kind, side.dtype.bits) for side in sides} == {("float", 16)}
        if len(sides[1].shape) != 2 or not short or len({side.dtype for side in sides}) > 1:
            continue
        for other in sorted(areas.successors(areas.of[number])):
            if _folds_rows_of(areas, number, other):
                areas.merge(areas.of[number], other, "matmul whose rows are folded on chip")
                break


def _folds_rows_of(areas: Areas, product: int, other: int) -> bool:
    """Say whether an area folds a product's columns, and all its results have the product's rows."""
    graph, one = areas.graph, areas.of[product]
    inside = areas.members[one] | areas.members[other]
    kinds = {graph.nodes[n].kind for n in areas.members[other]}
    if "fold" not in kinds or not kinds <= {"pointwise", "fold"} or len(inside) > MOST_OPS:
        return False
    if areas.reads_itself(inside) or areas.makes_cycle(one, other):
        return False
    dims = dims_of(graph, areas.with_views(inside), areas.free)
    if dims is None or dims.folded != (dims.names[product][-1],):
        return False
    lines = {d for d in dims.names[product][:-1] if d is not None}
    outputs = [n for n in inside if areas.live(n, inside)]
    whole = all({d for d in dims.names[n] if d is not None} >= lines for n in outputs)
    return bool(lines) and whole and one_row(areas, inside, dims.names, set(dims.folded), outputs)


def _is_product(areas: Areas, area: int) -> bool:
    """Say whether an area is one product with pointwise operations."""
    return _products(areas, area) == 1 and not any(areas.graph.nodes[n].kind == "fold" for n in areas.members[area])


def _products(areas: Areas, area: int) -> int:
    return sum(areas.graph.nodes[n].op == "matmul" for n in areas.members[area])


def _follows(areas: Areas, number: int, inside: set[int]) -> bool:
    """Say whether a node is a pointwise function of a product and of values that do not depend on the product."""
    graph = areas.graph
    node, product = graph.nodes[number], graph.nodes[min(inside)]
    if node.kind != "pointwise" or node.shape != product.shape or node.op == "copy":
        return False
    reads = [graph.nodes[i] for i in node.inputs if i in inside]
    if not reads or any(n.shape != node.shape for n in reads):
        return False
    return not any(
        i not in inside and any(_depends(areas, p, inside) for p in _direct_or_self(areas, i)) for i in node.inputs
    )


def _direct_or_self(areas: Areas, number: int) -> list[int]:
    node = areas.graph.nodes[number]
    if node.kind == "source" or number in areas.free:
        return []
    return list(areas.producers(number)) if node.kind == "view" else [number]


def _depends(areas: Areas, number: int, inside: set[int]) -> bool:
    """Say whether a node depends on a set's nodes, directly or not."""
    left, seen, first = [number], set[int](), min(inside)
    while left:
        n = left.pop()
        if n in inside:
            return True
        for p in areas.producers(n):
            if p >= first and p not in seen:
                seen.add(p)
                left.append(p)
    return False


def _stored(areas: Areas, inside: set[int]) -> int:
    """Return the bytes that a part of these nodes stores only because the operations behind it are elsewhere.

    A result that the caller reads, or a product, is stored by whichever kernel computes it.
    """
    return sum(areas.graph.nodes[n].nbytes for n in inside if areas.live(n, inside) and not _always_stored(areas, n))


def _always_stored(areas: Areas, number: int) -> bool:
    graph = areas.graph
    return number in graph.returned or any(
        _always_stored(areas, u) if graph.nodes[u].kind == "view" else graph.nodes[u].kind not in ("pointwise", "fold")
        for u in graph.users[number]
    )


def operands_of(graph: Graph, product: int, inside: set[int]) -> set[int]:
    """List the operations of a set that compute a product's operands."""
    found, left = set[int](), list(graph.nodes[product].inputs)
    while left:
        n = left.pop()
        if n in inside and n not in found:
            found.add(n)
        if n in inside or graph.nodes[n].kind == "view":
            left += graph.nodes[n].inputs
    return found
