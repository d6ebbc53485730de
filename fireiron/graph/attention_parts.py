"""Attention in a partition: scores, folds of their rows and the product with other values are one part."""

from __future__ import annotations

from collections.abc import Iterator

from fireiron.graph.areas import Areas
from fireiron.graph.dims import dims_of, transparent


def attention(areas: Areas) -> None:
    """Merge a product, folds of its rows and a second product (attention), so that scores are not stored to memory.

    Values computed from the folds alone, such as the logarithm of each row's sum, may be a second result.
    """
    graph = areas.graph
    for last, node in enumerate(graph.nodes):
        if node.op != "matmul" or len(node.shape) < 3:
            continue
        cone = _cone(areas, last)
        if cone is not None:
            for number in sorted(cone):
                areas.merge(number, last, f"{graph.nodes[number].op} on chip between two products")


def _cone(areas: Areas, last: int) -> set[int] | None:
    """Find the operations from another product to this product's left operand, if no other operation reads them."""
    graph = areas.graph
    found: set[int] = set()
    products: set[int] = set()
    left = list(_direct(areas, graph.nodes[last].inputs[0]))
    while left:
        number = left.pop()
        node = graph.nodes[number]
        if number in found:
            continue
        if node.op == "matmul":
            products.add(number)
        elif node.kind not in ("pointwise", "fold") or node.shape[:-1] != graph.nodes[last].shape[:-1]:
            continue  # a mask, which the kernel reads
        else:
            left += _direct_all(areas, number)
        found.add(number)
    if len(products) != 1:
        return None
    (scores,) = products
    if any(len(graph.nodes[graph.nodes[n].inputs[1]].shape) < 3 for n in (scores, last)):
        return None  # matrices that all rows share are weights: a norm between two linear layers is no attention
    # Operations that do not depend on the scores are computed before.
    found = {n for n in found if n == scores or _reaches(areas, n, scores, found)}
    folds = [graph.nodes[n] for n in found if graph.nodes[n].kind == "fold"]
    rank = len(graph.nodes[last].shape)
    if not folds or any(tuple(f["axes"]) != (rank - 1,) for f in folds):
        return None
    if graph.nodes[scores].shape[:-1] != graph.nodes[last].shape[:-1]:
        return None
    if not found.isdisjoint(_direct(areas, graph.nodes[last].inputs[1])):
        return None  # values that are computed from the scores
    found |= _of_folds(areas, found)
    kept = [n for n in found if areas.live(n, {*found, last})]
    if any(graph.nodes[n].shape[-1] != 1 for n in kept) or len(kept) > 1:
        return None
    return found if dims_of(graph, areas.with_views({*found, last}), areas.free, twice=True) is not None else None


def _of_folds(areas: Areas, inside: set[int]) -> set[int]:
    """Find pointwise operations on the rows' folds alone, such as the logarithm of a sum."""
    graph, found = areas.graph, set[int]()
    folded = {graph.nodes[n].shape for n in inside if graph.nodes[n].kind == "fold"}
    for number in range(min(inside), len(graph.nodes)):
        node = graph.nodes[number]
        if number not in inside and number in areas.of and node.kind == "pointwise" and node.shape in folded:
            read = [i for i in node.inputs if i not in areas.free]
            if read and all(i in found or (i in inside and graph.nodes[i].shape in folded) for i in read):
                found.add(number)
    return found


def _direct(areas: Areas, number: int) -> Iterator[int]:
    node = areas.graph.nodes[number]
    if node.kind == "view":
        if transparent(areas.graph, number):
            yield from areas.producers(number, direct=True)
    elif number in areas.of:
        yield number


def _direct_all(areas: Areas, number: int) -> list[int]:
    return list(areas.producers(number, direct=True))


def _reaches(areas: Areas, number: int, goal: int, inside: set[int]) -> bool:
    left, seen = [number], set[int]()
    while left:
        n = left.pop()
        if n == goal:
            return True
        for p in areas.producers(n, direct=True):
            if p in inside and p not in seen:
                seen.add(p)
                left.append(p)
    return False
