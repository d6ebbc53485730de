"""The pass that packs products: products of one array with several settled matrices become one product and slices.

A settled node depends on numbers and `fixed` inputs alone, so it is the same in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fireiron.graph.nodes import Builder, Graph


def settled_nodes(graph: Graph) -> frozenset[int]:
    """List the settled nodes; a pure call of a library's operator with settled inputs is one too.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> graph = trace_graph(lambda x, w: x @ (w * 2), (8, 16), (16, 4), fixed=("w",))
        >>> [graph.nodes[i].op for i in sorted(settled_nodes(graph))]
        ['input', 'constant', 'mul']
    """
    found: set[int] = set()
    for number, node in enumerate(graph.nodes):
        known = dict(node.attributes)
        if node.op == "input":
            settled = bool(known.get("fixed"))
        else:
            settled = (node.kind != "foreign" or bool(known.get("pure"))) and all(i in found for i in node.inputs)
        if settled:
            found.add(number)
    return frozenset(found)


def pack(graph: Graph) -> Graph:
    """Merge the products of one array with several settled matrices, and the settled vectors added to the products.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> def two(x, w, u):
        ...     return x @ w, x @ u
        >>> print(pack(trace_graph(two, (8, 16), (16, 4), (16, 2), fixed=("w", "u"))))
        two(x[8, 16].f32, w[16, 4].f32, u[16, 2].f32)
          %1 = concatenate(w, u, axis=1)                             [16, 6].f32
          %2 = x @ %1                                                [8, 6].f32
          %3 = slice(%2, starts=(0, 0), steps=(1, 1), stops=(8, 4))  [8, 4].f32
          %4 = slice(%2, starts=(0, 4), steps=(1, 1), stops=(8, 6))  [8, 2].f32
          return %3, %4
    """
    groups = _groups(graph)
    if not groups:
        return graph
    b, new = Builder(), dict[int, int]()

    def made(number: int) -> int:
        if number not in new:
            node = graph.nodes[number]
            new[number] = b.copy(node, tuple(made(i) for i in node.inputs))
        return new[number]

    for number in graph.inputs:
        made(number)
    first = {group[0]: group for group in groups}
    for number in range(len(graph.nodes)):
        if number in new:
            continue
        group = first.get(number)
        if group is None:
            made(number)
            continue
        rights = [graph.nodes[i].inputs[1] for i in group]
        left = made(graph.nodes[number].inputs[0])
        packed = b.add("matmul", left, _beside(b, graph, rights, made))
        ends = [_bias(graph, i, settled_nodes(graph)) for i in group]
        results = list(group)
        if all(end is not None for end in ends):
            vectors = [made(end[1]) for end in ends if end is not None]
            packed = b.add("add", packed, b.add("concatenate", *vectors, axis=0))
            results = [end[0] for end in ends if end is not None]
        at = 0
        *lead, _ = b.nodes[packed].shape
        for result in results:
            width = graph.nodes[result].shape[-1]
            new[result] = b.add(
                "slice",
                packed,
                starts=(*(0 for _ in lead), at),
                stops=(*lead, at + width),
                steps=(1,) * (len(lead) + 1),
            )
            at += width
        if results != list(group):
            new |= {i: -1 for i in group}  # without other readers
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _groups(graph: Graph) -> list[list[int]]:
    settled = settled_nodes(graph)
    found: dict[tuple[object, ...], list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if node.op != "matmul" or node.inputs[0] in settled or node.inputs[1] not in settled:
            continue
        right = graph.nodes[node.inputs[1]]
        if len(right.shape) == 2:
            found.setdefault((node.inputs[0], right.dtype, node.dtype), []).append(number)
    apart = [[i for i in group if not _meets(graph, i, group)] for group in found.values()]
    return [group for group in apart if len(group) > 1]


def _meets(graph: Graph, product: int, group: Sequence[int]) -> bool:
    """Say whether a pointwise operation reads two products of a group, as in gates; these become one kernel anyway."""
    mine = _behind(graph, product)
    return any(other != product and mine & _behind(graph, other) for other in group)


def _behind(graph: Graph, product: int) -> set[int]:
    """List the pointwise operations of a product's shape that depend on the product."""
    found, left = set[int](), [product]
    while left:
        for u in graph.users[left.pop()]:
            node = graph.nodes[u]
            if u not in found and node.kind == "pointwise" and node.shape == graph.nodes[product].shape:
                found.add(u)
                left.append(u)
    return found


def _bias(graph: Graph, product: int, settled: frozenset[int]) -> tuple[int, int] | None:
    """Return the sum of a product and a settled vector, and the vector, where only the sum reads the product."""
    users = graph.users[product]
    if len(users) != 1 or product in graph.returned:
        return None
    node, width = graph.nodes[users[0]], graph.nodes[product].shape[-1]
    others = [i for i in node.inputs if i != product]
    fits = node.op == "add" and node.shape == graph.nodes[product].shape and node.dtype == graph.nodes[product].dtype
    if not fits or len(others) != 1 or others[0] not in settled or graph.nodes[others[0]].shape != (width,):
        return None
    return users[0], others[0]


def _beside(b: Builder, graph: Graph, rights: Sequence[int], made: Callable[[int], int]) -> int:
    """Concatenate matrices along columns; for transposes, concatenate their sources along rows, then transpose."""
    nodes = [graph.nodes[i] for i in rights]
    if all(n.op == "transpose" for n in nodes):
        sources = [made(n.inputs[0]) for n in nodes]
        return b.add("transpose", b.add("concatenate", *sources, axis=0), axes=(1, 0))
    return b.add("concatenate", *(made(i) for i in rights), axis=1)
