"""The pass that computes on a matrix instead of its transpose, where folds or transposes back stand at the ends.

Losses that take classes along both dims of one matrix compute on it and on its transpose, and add both gradients.
"""

from __future__ import annotations

from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.views import read_by_columns, swapped

SWAPPED = (1, 0)
MOST_STEPS = 8  # operations on rows and columns that are computed again in the other order


def turn(graph: Graph) -> Graph:
    """Move transposes of matrices behind pointwise operations to folds, or to transposes back, which both remove them.

    Vectors that repeat along a dim repeat along the other one instead. What is computed of these alone, such as a
    comparison of each column's number with the class of its row, is computed anew.

    Example:
        >>> import numpy as np
        >>> from fireiron.graph.trace import trace_graph
        >>> graph = trace_graph(lambda x: (x + np.exp(x.T - x.T.max(1, keepdims=True)).T), (4, 8), name="both")
        >>> print(graph.optimised())
        both(x[4, 8].f32)
          %1 = max(x, axes=(0,), keepdims=True)  [1, 8].f32
          %2 = x - %1                            [4, 8].f32
          %3 = exp(%2)                           [4, 8].f32
          %4 = %3 + x                            [4, 8].f32
          return %4
    """
    known = set[int]()
    for number in range(len(graph.nodes)):
        if number not in known and _swaps(graph, number):
            cone = _cone(graph, number)
            known |= cone if _vanishes(graph, cone) else set()
    return _rebuilt(graph, known) if known else graph


def by_rows(graph: Graph) -> Graph:
    """Compute the transpose of a product where all points that read the product read its columns side by side.

    Example:
        >>> import numpy as np
        >>> from fireiron.graph.trace import trace_graph
        >>> print(by_rows(trace_graph(lambda x, y, z: np.exp((x @ y).T) + z, (4, 8), (8, 6), (6, 4), name="columns")))
        columns(x[4, 8].f32, y[8, 6].f32, z[6, 4].f32)
          %1 = transpose(y, axes=(1, 0))   [6, 8].f32
          %2 = transpose(x, axes=(1, 0))   [8, 4].f32
          %3 = %1 @ %2                     [6, 4].f32
          %4 = transpose(%3, axes=(1, 0))  [4, 6].f32
          %5 = transpose(%4, axes=(1, 0))  [6, 4].f32
          %6 = exp(%5)                     [6, 4].f32
          %7 = %6 + z                      [6, 4].f32
          return %7
    """
    places = {n for n, node in enumerate(graph.nodes) if node.op == "matmul" and read_by_columns(graph, n)}
    if not places:
        return graph
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        if number not in places:
            new[number] = b.copy(node, inputs)
            continue
        right, left = (b.add("transpose", i, axes=swapped(len(b.nodes[i].shape))) for i in reversed(inputs))
        new[number] = b.add("transpose", b.add("matmul", right, left), axes=swapped(len(node.shape)))
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _swaps(graph: Graph, number: int) -> bool:
    """Say whether a node is the transpose of a matrix."""
    node = graph.nodes[number]
    return node.op == "transpose" and node["axes"] == SWAPPED and 1 not in node.shape


def _cone(graph: Graph, first: int) -> set[int]:
    """Find the transposes and pointwise operations behind a transpose whose matrices are all transposed."""
    nodes, found = graph.nodes, {first}
    shape = nodes[first].shape
    for number in range(first + 1, len(nodes)):
        node = nodes[number]
        matrices = [i for i in node.inputs if nodes[i].shape == shape]
        fits = node.kind == "pointwise" and node.op != "copy" and node.shape == shape
        if not fits or found.isdisjoint(matrices):
            continue
        others = [i for i in matrices if i not in found]
        if all(_swaps(graph, i) or _of_vectors(graph, i) for i in others):
            found |= {number, *(i for i in others if _swaps(graph, i))}
    return found


def _of_vectors(graph: Graph, number: int, steps: int = MOST_STEPS) -> bool:
    """Say whether a matrix is computed of rows, columns and numbers alone, in a few operations."""
    node = graph.nodes[number]
    if len(node.shape) < 2 or 1 in node.shape or node.op == "iota":
        return True
    points = node.kind == "pointwise" and node.op != "copy" and steps > 0
    return points and all(_of_vectors(graph, i, steps - 1) for i in node.inputs)


def _vanishes(graph: Graph, cone: set[int]) -> bool:
    """Say whether all that reads a cone are folds, transposes back and products, and there are folds or transposes."""
    nodes = graph.nodes
    readers = {u for n in cone for u in graph.users[n]} - cone
    ends = {u for u in readers if nodes[u].kind == "fold" or _swaps(graph, u)}
    alone = all(nodes[u].op == "matmul" for u in readers - ends)
    return bool(ends) and alone and graph.returned.isdisjoint(cone)


def _rebuilt(graph: Graph, cone: set[int]) -> Graph:
    b, new, turned = Builder(), dict[int, int](), dict[int, int]()
    nodes = graph.nodes

    def there(number: int) -> int:
        """Return the transpose of what a node is over the points of a matrix."""
        node = nodes[number]
        if number in turned:
            return turned[number]
        if all(n == 1 for n in node.shape):
            return new[number]
        rows, columns = (1, *node.shape)[-2:]
        if node.op == "iota":
            axis = int(node["axis"]) + 2 - len(node.shape)
            turned[number] = b.add("iota", shape=(columns, rows), axis=1 - axis)
        elif 1 in (rows, columns):
            turned[number] = b.add("reshape", new[number], shape=(columns, rows))
        else:
            turned[number] = b.add(node.op, *map(there, node.inputs), **dict(node.attributes))
        return turned[number]

    for number, node in enumerate(nodes):
        if number in cone:
            turned[number] = new[node.inputs[0]] if _swaps(graph, number) else there(number)
            if any(nodes[u].op == "matmul" for u in graph.users[number]):
                new[number] = b.add("transpose", turned[number], axes=SWAPPED)
        elif node.kind == "fold" and node.inputs[0] in cone:
            axes = tuple(sorted(1 - int(a) for a in node["axes"]))
            made = b.add(node.op, turned[node.inputs[0]], axes=axes, keepdims=node["keepdims"])
            new[number] = made if b.nodes[made].shape == node.shape else b.add("reshape", made, shape=node.shape)
        elif _swaps(graph, number) and node.inputs[0] in cone:
            new[number] = turned[node.inputs[0]]
        else:
            new[number] = b.copy(node, tuple(new[i] for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])
