"""The partition: the operations that become one kernel.

Parts grow by rules from single operations: scores, their folds and the product with the values (attention); products
with what follows them pointwise; pointwise operations and folds that share their dims. Views are not operations:
kernels read through them.

Source: the partition of MindSpore's graph-kernel fusion for GPUs; the rules about products follow the Volta generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import attrs

from fireiron.graph.dims import dims_of, folded_by, free_nodes, transparent
from fireiron.graph.nodes import Graph
from fireiron.graph.pack import settled_nodes

PartKind: TypeAlias = Literal[
    "attention", "product", "products", "product rows", "rows", "reduction", "pointwise", "foreign"
]

MOST_OPS = 200
MOST_OUTPUTS = 8
MOST_SUMS = 4  # accumulators side by side in a block's registers
MOST_TOGETHER = 16  # outputs of pointwise operations that share a launch alone
SMALL_NBYTES = 4 << 20  # that pointwise operations read and write in about 1 us on an H200; their launch takes 3
MOST_OF_A_FOLD = 1 << 20  # most elements that one row's folds read


@attrs.frozen
class Part:
    """Hold the operations of one kernel.

    Args:
        kind: its form.
        nodes: in order, with the transparent views between them.
        inputs: what it reads: arrays of the call, other parts' results, views of either.
        outputs: its nodes that other parts read.
        why: the reasons for its fusion, in words.
    """

    kind: PartKind
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    why: tuple[str, ...] = ()


class Areas:
    """Hold a partition while it grows: each operation belongs to an area.

    Args:
        graph: the graph that is divided.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.free = free_nodes(graph)
        self.settled = settled_nodes(graph)
        self.of: dict[int, int] = {}
        self.members: dict[int, set[int]] = {}
        self.why: dict[int, list[str]] = {}
        for number, node in enumerate(graph.nodes):
            if node.kind not in ("source", "view") and number not in self.free:
                self.of[number] = number
                self.members[number] = {number}
                self.why[number] = []

    def producers(self, number: int, direct: bool = False) -> Iterator[int]:
        """List the operations whose results a node reads, through views; through transparent ones alone if direct."""
        for i in self.graph.nodes[number].inputs:
            node = self.graph.nodes[i]
            if node.kind == "view":
                if not direct or transparent(self.graph, i):
                    yield from self.producers(i, direct)
            elif i in self.of:
                yield i

    def consumers(self, number: int) -> Iterator[int]:
        """List the operations that read a node, through views."""
        for u in self.graph.users[number]:
            if self.graph.nodes[u].kind == "view":
                yield from self.consumers(u)
            elif u in self.of:
                yield u

    def successors(self, area: int) -> set[int]:
        """List the areas that read an area's results."""
        return {self.of[c] for n in self.members[area] for c in self.consumers(n)} - {area}

    def makes_cycle(self, one: int, other: int) -> bool:
        """Say whether a path from one area to the other leads through a third area."""
        latest = max(self.members[other])
        seen: set[int] = set()
        left = [a for a in self.successors(one) if a != other]
        while left:
            area = left.pop()
            if area in seen or min(self.members[area]) > latest:
                continue
            seen.add(area)
            found = self.successors(area)
            if other in found or one in found:
                return True
            left += found
        return False

    def kept(self, area: int) -> bool:
        """Say whether an area is computed once, and its results are no larger than what it reads."""
        mine, nodes = self.members[area], self.graph.nodes
        if not self.settled.issuperset(mine):
            return False
        read = {i for n in mine for i in nodes[n].inputs if i not in mine}
        return sum(nodes[n].nbytes for n in self.outputs(area)) <= sum(nodes[i].nbytes for i in read)

    def merge(self, one: int, other: int, why: str) -> None:
        """Merge one area into another."""
        self.members[other] |= self.members.pop(one)
        self.why[other] = [*self.why.pop(one), *self.why[other], why]
        for number in self.members[other]:
            self.of[number] = other

    def outputs(self, area: int) -> tuple[int, ...]:
        """List the nodes of an area that others read."""
        mine = self.members[area]
        return tuple(n for n in sorted(mine) if self.live(n, mine))

    def live(self, number: int, inside: Iterable[int]) -> bool:
        """Say whether a node is an output of the graph, or is read outside a set, or through a view that moves axes."""
        graph, mine = self.graph, set(inside)
        if number in graph.outputs:
            return True
        for u in graph.users[number]:
            if graph.nodes[u].kind != "view":
                if u not in mine:
                    return True
            elif not transparent(graph, u) or self.live(u, mine):
                return True
        return False

    def with_views(self, inside: set[int]) -> list[int]:
        """Add the transparent views between nodes of a set."""
        found = set(inside)
        for number in sorted(inside):
            left = list(self.graph.nodes[number].inputs)
            chain: list[int] = []
            while left:
                i = left.pop()
                between = self.graph.nodes[i].kind == "view" and transparent(self.graph, i)
                if between and any(p in inside for p in self.producers(i, direct=True)):
                    chain.append(i)
                    left += self.graph.nodes[i].inputs
            found.update(chain)
        return sorted(found)


def partition(graph: Graph) -> tuple[Part, ...]:
    """Divide a graph into parts, each computed by one kernel, in an order in which each follows its inputs.

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
    areas = Areas(graph)
    attention(areas)
    epilogs(areas)
    joined_products(areas)
    products_of_one_array(areas)
    rows(areas)
    rows_of_products(areas)
    prologs(areas)
    side_by_side(areas)
    return ordered(areas)


def attention(areas: Areas) -> None:
    """Join a product, folds of its rows and the product with other values: scores never reach memory.

    What is computed of the folds alone may be a second result: the logarithm of each row's sum.
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
    """Find the operations between a product's left operand and one other product, where nothing else reads them."""
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
    found |= _of_folds(areas, found)
    kept = [n for n in found if areas.live(n, {*found, last})]
    if any(graph.nodes[n].shape[-1] != 1 for n in kept) or len(kept) > 1:
        return None
    return found if dims_of(graph, areas.with_views({*found, last}), areas.free) is not None else None


def _of_folds(areas: Areas, inside: set[int]) -> set[int]:
    """Find what is computed point by point of the rows' folds alone, as the logarithm of a sum is."""
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


def epilogs(areas: Areas, only: Iterable[int] | None = None) -> None:
    """Fuse pointwise operations of a product's shape into its epilog, up to the point with the fewest stored bytes.

    Args:
        areas: the partition.
        only: the nodes that may join; all where None.
    """
    graph = areas.graph
    allowed = set(areas.of if only is None else only)
    for number, node in enumerate(graph.nodes):
        if number not in allowed or node.op != "matmul" or areas.of[number] != number or len(areas.members[number]) > 1:
            continue
        inside, chosen = {number}, {number}
        least = _stored(areas, inside)
        for other in range(number + 1, len(graph.nodes)):
            if other not in allowed or other not in areas.of or len(areas.members.get(areas.of[other], ())) != 1:
                continue
            if not _follows(areas, other, inside):
                continue
            inside = {*inside, other}
            now = _stored(areas, inside)
            if now <= least:
                least, chosen = now, inside
        for other in sorted(chosen - {number}):
            areas.merge(other, number, f"{graph.nodes[other].op} in the product's registers")
        for other in sorted(_beside_product(areas, chosen, allowed)):
            areas.merge(other, number, f"{graph.nodes[other].op} of other arrays, in the product's registers")


def _beside_product(areas: Areas, inside: set[int], allowed: set[int]) -> set[int]:
    """Find what an epilog reads that is computed point by point of other arrays, for it alone.

    The epilog computes it where its arrays are no more bytes than the values, which would be stored and read again.
    """
    graph, found = areas.graph, set[int]()
    shape, operands = graph.nodes[min(inside)].shape, set(areas.producers(min(inside)))
    for number in sorted(inside, reverse=True):
        for first in graph.nodes[number].inputs:
            cone, left = set[int](), [first]
            while left:
                n = left.pop()
                node = graph.nodes[n]
                if n in inside or n not in areas.of or node.kind != "pointwise" or node.shape != shape:
                    continue
                cone.add(n)
                left += [i for i in node.inputs if i not in cone]
            alone = all(
                n in allowed and areas.members.get(areas.of[n]) == {n} and not areas.kept(areas.of[n])
                and not areas.live(n, inside | cone | found)
                for n in cone
            )  # fmt: skip
            read = {i for n in cone for i in graph.nodes[n].inputs if i not in cone and i not in areas.free}
            first_bytes = 2 * graph.nodes[first].nbytes
            if cone and alone and operands.isdisjoint(cone) and sum(graph.nodes[i].nbytes for i in read) <= first_bytes:
                found |= cone
    return found


def prologs(areas: Areas) -> None:
    """Fuse pointwise operations on an operand that nothing else reads into a product's prolog."""
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
    """Join products of one shape that meet in a pointwise operation: A B + C D, and gates (silu(X W) * (X U))."""
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
    """Join products of one shape that multiply one array by several matrices: a block then loads its rows once."""
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
                if one == other or _parted(areas, one, other) or _parted(areas, other, one):
                    continue
                areas.merge(one, other, "matmul of an array that another one multiplies")


def rows_of_products(areas: Areas) -> None:
    """Join a product of matrices with folds of its rows, as norms: what stands between is stored for others alone."""
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
    """Say whether an area's folds are over a product's columns, and all that it computes has the product's rows."""
    graph, one = areas.graph, areas.of[product]
    inside = areas.members[one] | areas.members[other]
    kinds = {graph.nodes[n].kind for n in areas.members[other]}
    if "fold" not in kinds or not kinds <= {"pointwise", "fold"} or len(inside) > MOST_OPS:
        return False
    if not computable(areas, inside) or areas.makes_cycle(one, other):
        return False
    dims = dims_of(graph, areas.with_views(inside), areas.free)
    if dims is None or dims.folded != (dims.names[product][-1],):
        return False
    lines = {d for d in dims.names[product][:-1] if d is not None}
    outputs = [n for n in inside if areas.live(n, inside)]
    whole = all({d for d in dims.names[n] if d is not None} >= lines for n in outputs)
    return bool(lines) and whole and one_row(areas, inside, dims.names, set(dims.folded), outputs)


def _is_product(areas: Areas, area: int) -> bool:
    """Say whether an area is one product with what is computed with it point by point."""
    return _products(areas, area) == 1 and not any(areas.graph.nodes[n].kind == "fold" for n in areas.members[area])


def _parted(areas: Areas, one: int, other: int) -> bool:
    """Say whether an area reads the other's results, directly or through others."""
    return other in areas.successors(one) or areas.makes_cycle(one, other)


def _products(areas: Areas, area: int) -> int:
    return sum(areas.graph.nodes[n].op == "matmul" for n in areas.members[area])


def _follows(areas: Areas, number: int, inside: set[int]) -> bool:
    """Say whether a node is computed from a product's result point by point, and from values that exist before it."""
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
    """Say whether a node depends, directly or not, on a set's nodes."""
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
    """Count the bytes that a part of these nodes stores, and those that other parts would have to read again."""
    return sum(areas.graph.nodes[n].nbytes for n in inside if areas.live(n, inside))


def rows(areas: Areas, only: Iterable[int] | None = None) -> None:
    """Join pointwise operations and folds whose dims agree: a producer with a consumer, the last ones first.

    Args:
        areas: the partition.
        only: the nodes that may join; all where None.
    """
    allowed = sorted(areas.of if only is None else only)
    changed = True
    while changed:
        changed = False
        for number in allowed:
            for p in dict.fromkeys(areas.producers(number, direct=True)):
                one, other = areas.of[p], areas.of[number]
                if one != other and p in allowed and _fits(areas, one, other):
                    areas.merge(one, other, f"{areas.graph.nodes[p].op} at points that its reader has")
                    changed = True


def side_by_side(areas: Areas) -> None:
    """Join small pointwise operations of one shape that do not depend on each other: one launch computes them."""
    graph = areas.graph
    open_: dict[tuple[object, ...], int] = {}
    for area in sorted(areas.members, key=lambda a: min(areas.members[a])):
        inside, outputs = areas.members[area], areas.outputs(area)
        read = {i for n in inside for i in graph.nodes[n].inputs if i not in inside and i not in areas.free}
        small = sum(graph.nodes[i].nbytes for i in (*read, *outputs)) <= SMALL_NBYTES
        plain = all(graph.nodes[n].kind == "pointwise" and graph.nodes[n].op != "copy" for n in inside)
        shapes = {graph.nodes[n].shape for n in outputs}
        if not (small and plain and len(shapes) == 1 and computable(areas, inside)):
            continue
        key = shapes.pop(), areas.kept(area)
        other = open_.get(key)
        if other is not None and _beside(areas, area, other):
            areas.merge(area, other, f"{graph.nodes[max(inside)].op} beside others of its shape")
        else:
            open_[key] = area


def _beside(areas: Areas, one: int, other: int) -> bool:
    """Say whether one program computes two areas that do not depend on each other."""
    inside = areas.members[one] | areas.members[other]
    if len(inside) > MOST_OPS or len(areas.outputs(one)) + len(areas.outputs(other)) > MOST_TOGETHER:
        return False
    if _parted(areas, one, other) or _parted(areas, other, one):
        return False
    dims = dims_of(areas.graph, areas.with_views(inside), areas.free)
    outputs = [n for n in inside if areas.live(n, inside)]
    return dims is not None and one_row(areas, inside, dims.names, set(), outputs)


def _fits(areas: Areas, one: int, other: int) -> bool:
    graph = areas.graph
    inside = areas.members[one] | areas.members[other]
    forms = {graph.nodes[n].kind for n in inside}
    if not forms <= {"pointwise", "fold"} and not forms <= {"pointwise", "gather", "copy"}:
        return False
    if areas.kept(one) != areas.kept(other):
        return False
    if len(inside) > MOST_OPS or any(
        i in inside for n in inside if graph.nodes[n].op == "gather" for i in ids_of(graph, n)
    ):
        return False
    if not computable(areas, inside):
        return False
    if areas.makes_cycle(one, other):
        return False
    dims = dims_of(graph, areas.with_views(inside), areas.free)
    if dims is None:
        return False
    outputs = [n for n in inside if areas.live(n, inside)]
    if len(outputs) > MOST_OUTPUTS:
        return False
    return one_row(areas, inside, dims.names, set(dims.folded), outputs)


def ids_of(graph: Graph, number: int) -> tuple[int, ...]:
    """List a gather's inputs, which no node of its part may compute: the table and the row numbers."""
    return graph.nodes[number].inputs


def computable(areas: Areas, inside: Iterable[int]) -> bool:
    """Say whether kernels support the types of nodes and of their inputs."""
    nodes = areas.graph.nodes
    read = ((n, *(nodes[n].inputs[:1] if nodes[n].op == "gather" else nodes[n].inputs)) for n in inside)
    return all(nodes[i].dtype.name != "i64" for each in read for i in each)


def one_row(
    areas: Areas, inside: set[int], names: dict[int, tuple[str | None, ...]], folded: set[str], outputs: list[int]
) -> bool:
    """Say whether all folds fold one row, and outputs have all of the row's dims, or none of them."""
    folds = [n for n in inside if areas.graph.nodes[n].kind == "fold"]
    if any(set(folded_by(areas.graph, n, names)) != folded for n in folds):
        return False
    kept = [{d for d in names[n] if d is not None} for n in outputs]
    if any(kept) and any(not any(names[n]) for n in folds):  # a step between others has a dim
        return False
    if not folded:  # one space of points
        return all(k == kept[0] for k in kept)
    lines = [k - folded for k in kept]
    again = any(folded <= k for k in kept)
    whole = all(not k & folded or folded <= k for k in kept)
    # Columns are the last dim of each array that has them, so that rows are contiguous.
    last = all(names[n][-1] in folded for n in outputs if folded <= {d for d in names[n] if d})
    same = all(line == lines[0] for line in lines)
    return whole and same and (last if again else True) and (len(folded) == 1 or not again)


def ordered(areas: Areas) -> tuple[Part, ...]:
    """Sort areas so that each follows its inputs."""
    waits = {a: {areas.of[p] for n in m for p in areas.producers(n)} - {a} for a, m in areas.members.items()}
    made: list[Part] = []
    done: set[int] = set()
    left = sorted(areas.members, key=lambda a: min(areas.members[a]))
    while left:
        area = next(a for a in left if waits[a] <= done)
        left.remove(area)
        done.add(area)
        made.append(part_of(areas, area))
    return casts_at_readers(areas, made)


def casts_at_readers(areas: Areas, parts: list[Part]) -> tuple[Part, ...]:
    """Move conversions to wider floats to the readers, so that the shorter floats are stored."""
    graph = areas.graph
    sets = [set(part.nodes) for part in parts]
    outputs = [set(part.outputs) for part in parts]
    for place, part in enumerate(parts):
        for c in part.outputs:
            node, readers = graph.nodes[c], [r for r in range(len(parts)) if r != place and c in parts[r].inputs]
            if node.op != "cast" or not _widens(graph, c) or c in graph.outputs or not readers:
                continue
            (source,) = node.inputs
            if source not in sets[place] or graph.nodes[source].kind == "view":
                continue
            if any(graph.nodes[u].kind not in ("pointwise", "fold") for u in graph.users[c]):
                continue
            outputs[place] = {*outputs[place], source} - {c}
            if not any(c in graph.nodes[n].inputs for n in sets[place]):
                sets[place].discard(c)
            for r in readers:
                sets[r].add(c)
    made: list[Part] = []
    for part, inside, given in zip(parts, sets, outputs, strict=True):
        nodes = tuple(sorted(inside))
        read = dict.fromkeys(i for n in nodes for i in graph.nodes[n].inputs if i not in inside and i not in areas.free)
        made.append(attrs.evolve(part, nodes=nodes, inputs=tuple(read), outputs=tuple(sorted(given))))
    return tuple(made)


def _widens(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    before = graph.nodes[node.inputs[0]].dtype
    return before.kind == node.dtype.kind == "float" and before.bits < node.dtype.bits


def part_of(areas: Areas, area: int) -> Part:
    """Describe an area."""
    graph, inside = areas.graph, areas.members[area]
    nodes = areas.with_views(inside)
    read = dict.fromkeys(i for n in nodes for i in graph.nodes[n].inputs if i not in nodes and i not in areas.free)
    return Part(kind_of(areas, inside), tuple(nodes), tuple(read), areas.outputs(area), tuple(areas.why[area]))


def kind_of(areas: Areas, inside: set[int]) -> PartKind:
    """Name the form of an area."""
    nodes = areas.graph.nodes
    products = sum(nodes[n].op == "matmul" for n in inside)
    folds = any(nodes[n].kind == "fold" for n in inside)
    if products == 1:
        return "product rows" if folds else "product"
    if products:
        return "attention" if folds else "products"
    if any(nodes[n].kind not in ("pointwise", "fold", "gather", "copy") for n in inside) or not computable(
        areas, inside
    ):
        return "foreign"
    dims = dims_of(areas.graph, areas.with_views(inside), areas.free)
    if dims is None:
        return "foreign"
    if not dims.folded:
        return "pointwise"
    kept = {d for n in inside if areas.live(n, inside) for d in dims.names[n]}
    return "rows" if kept & set(dims.folded) else "reduction"


def apart(graph: Graph, part: Part) -> tuple[Part, ...]:
    """Divide a part again, at the operation that most likely had no kernel.

    Into products with their epilogs, products and folds of their rows, products and pointwise parts, concatenations and
    what is computed around them, or single operations.
    """
    areas = Areas(graph)
    inside = {n for n in part.nodes if graph.nodes[n].kind != "view"}
    if len(inside) < 2:
        return (part,)
    products = sorted(n for n in inside if graph.nodes[n].op == "matmul")
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
    return _giving(graph, made, part)


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


def _giving(graph: Graph, made: list[Part], whole: Part) -> tuple[Part, ...]:
    """Let parts of a part give what the whole part gives, and what they read of each other.

    Others may read another result than the graph says: the short float, which they convert where they read it.
    """
    read = [{_base(graph, i) for i in part.inputs} for part in made]
    found: list[Part] = []
    for place, part in enumerate(made):
        others = set(whole.outputs).union(*(each for other, each in enumerate(read) if other != place))
        outputs = tuple(n for n in part.nodes if n in others)
        found += [attrs.evolve(part, outputs=outputs)] if outputs else []
    return tuple(found)


def _base(graph: Graph, number: int) -> int:
    """Give the node whose elements a view shows."""
    while graph.nodes[number].kind == "view":
        number = graph.nodes[number].inputs[0]
    return number
