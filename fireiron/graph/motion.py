"""The pass that moves views and casts: reshapes move behind pointwise operations, folds and products.

Views that remain are read by strides: the split into heads, transposes of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fireiron.graph.nodes import Builder, Graph, Node, rewritten
from fireiron.graph.operations import PLACES, Shape


def move(graph: Graph) -> Graph:
    """Remove views and casts without effect, merge consecutive ones, and move reshapes towards the outputs.

    Example:
        >>> from fireiron.graph.trace import trace_graph
        >>> def layer(x, w, b):
        ...     return (x.reshape(-1, 32) @ w + b).reshape(4, 8, -1)
        >>> print(move(move(move(trace_graph(layer, (4, 8, 32), (32, 16), (16,))))))
        layer(x[4, 8, 32].f32, w[32, 16].f32, b[16].f32)
          %1 = x @ w   [4, 8, 16].f32
          %2 = %1 + b  [4, 8, 16].f32
          return %2
    """
    return rewritten(graph, _moved)


def _moved(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
    given = [b.nodes[i] for i in inputs]
    if (found := _of_numbers(b, node, inputs)) is not None:
        return found
    if node.op == "cast" and (found := _cast(b, node, inputs[0])) is not None:
        return found
    if node.kind == "view":
        return _joined(b, node, inputs[0])
    if node.kind == "pointwise":
        return _behind_pointwise(b, node, inputs)
    if node.op == "matmul" and given[0].op == "reshape" and len(given[1].shape) == 2:
        source = given[0].inputs[0]
        shape = b.nodes[source].shape
        if len(shape) > 1 and shape[-1] == given[0].shape[-1]:
            return b.add("reshape", b.add("matmul", source, inputs[1]), shape=node.shape)
        lead = leading_axes(shape, given[0].shape[:-1])
        if lead > len(given[0].shape) - 1:  # the axes that form the rows are restored after the product
            rows = b.add("reshape", source, shape=(*shape[:lead], given[0].shape[-1]))
            return b.add("reshape", b.add("matmul", rows, inputs[1]), shape=node.shape)
    if node.op == "matmul" and all(g.op == "reshape" for g in given):
        return _behind_products(b, node, given)
    if node.kind == "fold" and given[0].op == "reshape":
        return _behind_fold(b, node, given[0])
    return None


def _of_numbers(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
    """Replace a repeated number by the number where it is read; a view of it becomes a repeat over another shape."""
    numbers = [_number(b, i) for i in inputs]
    if node.kind == "view" and numbers[0] is not None and (node.op, numbers[0]) != ("broadcast", inputs[0]):
        return b.add("broadcast", numbers[0], shape=node.shape)
    if node.kind != "pointwise" or all(n in (None, i) for n, i in zip(numbers, inputs, strict=True)):
        return None
    made = b.add(
        node.op, *(i if n is None else n for n, i in zip(numbers, inputs, strict=True)), **dict(node.attributes)
    )
    return made if b.nodes[made].shape == node.shape else b.add("broadcast", made, shape=node.shape)


def _number(b: Builder, number: int) -> int | None:
    """Return the number that a node repeats over a shape; None for other nodes."""
    node = b.nodes[number]
    if node.op == "constant":
        return number
    return node.inputs[0] if node.op == "broadcast" and b.nodes[node.inputs[0]].op == "constant" else None


def _cast(b: Builder, node: Node, source: int) -> int | None:
    inner = b.nodes[source]
    if inner.dtype == node.dtype:
        return source
    if inner.op != "cast":
        return None
    first = b.nodes[inner.inputs[0]].dtype
    exact = (
        first.kind == inner.dtype.kind
        and first.mantissa <= inner.dtype.mantissa
        and first.exponent <= inner.dtype.exponent
    )
    if not exact or first.kind != "float":
        return None
    return inner.inputs[0] if first == node.dtype else b.add("cast", inner.inputs[0], dtype=node.dtype)


def _joined(b: Builder, node: Node, source: int) -> int | None:
    """Merge a view of a view; remove a view without effect."""
    inner = b.nodes[source]
    if node.op == "transpose":
        if node["axes"] == tuple(range(len(node.shape))):
            return source
        if inner.op == "transpose":
            return b.add("transpose", inner.inputs[0], axes=tuple(inner["axes"][a] for a in node["axes"]))
        merged = merged_axes(b.nodes[inner.inputs[0]].shape, inner.shape) if inner.op == "reshape" else None
        if merged is not None:  # axes that a reshape joins are transposed one by one
            axes = tuple(x for a in tuple[int, ...](node["axes"]) for x in merged[a])
            return b.add("reshape", b.add("transpose", inner.inputs[0], axes=axes), shape=node.shape)
        return None
    if inner.shape == node.shape and node.op in ("reshape", "broadcast", "slice"):
        return source
    if node.op == inner.op and node.op in ("reshape", "broadcast"):
        return b.add(node.op, inner.inputs[0], shape=node.shape)
    return None


def stack(graph: Graph) -> Graph:
    """Concatenate along an axis of its own what is concatenated, then split into the parts, as `stack` does.

    The axes that the split leaves can then be transposed as the concatenation is written.

    Example:
        >>> import numpy as np
        >>> from fireiron.graph.trace import trace_graph
        >>> def stacked(x, y):
        ...     return np.concatenate([x, y], 0).reshape(2, 4, 8).transpose(1, 0, 2)
        >>> print(stack(trace_graph(stacked, (4, 8), (4, 8))))
        stacked(x[4, 8].f32, y[4, 8].f32)
          %1 = reshape(x, shape=(1, 4, 8))       [1, 4, 8].f32
          %2 = reshape(y, shape=(1, 4, 8))       [1, 4, 8].f32
          %3 = concatenate(%1, %2, axis=0)       [2, 4, 8].f32
          %4 = transpose(%3, axes=(1, 0, 2))     [4, 2, 8].f32
          return %4
    """
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        parts = graph.nodes[node.inputs[0]] if node.op == "reshape" else node
        if parts.op == "concatenate" and node.op == "reshape" and graph.users[node.inputs[0]] == (number,):
            axis: int = parts["axis"]
            one = (*parts.shape[:axis], 1, parts.shape[axis] // len(parts.inputs), *parts.shape[axis + 1 :])
            alike = {graph.nodes[i].shape for i in parts.inputs} == {one[:axis] + one[axis + 1 :]}
            if alike and node.shape == (*one[:axis], len(parts.inputs), *one[axis + 1 :]):
                each = [b.add("reshape", new[i], shape=one) for i in parts.inputs]
                new[number] = b.add("concatenate", *each, axis=axis)
                continue
        new[number] = b.copy(node, inputs)
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def raise_reshapes(graph: Graph) -> Graph:
    """Where a value computed from inputs alone is reshaped for a pointwise operation, reshape the inputs instead.

    The operations on the inputs can then join the part of the pointwise operation. Likewise before a fold: what is
    computed in more than 16 bits for the fold and for values of its shape, as in norms of single heads, is computed in
    that shape, and not stored. This must run last, because `move` would undo it.

    Example:
        >>> import numpy as np
        >>> from fireiron.graph.trace import trace_graph
        >>> def scaled(x, y):
        ...     return x.sum(2, keepdims=True) * np.exp(y).reshape(x.shape)
        >>> print(raise_reshapes(trace_graph(scaled, (4, 8, 32), (32, 32))))
        scaled(x[4, 8, 32].f32, y[32, 32].f32)
          %1 = sum(x, axes=(2,), keepdims=True)  [4, 8, 1].f32
          %2 = reshape(y, shape=(4, 8, 32))      [4, 8, 32].f32
          %3 = exp(%2)                           [4, 8, 32].f32
          %4 = %1 * %3                           [4, 8, 32].f32
          return %4
    """
    # By reshape, the operations before it that are computed in its shape.
    wanted = _alone(graph, {n: cone for n in range(len(graph.nodes)) if (cone := _of_inputs(graph, n)) is not None})
    for number, node in enumerate(graph.nodes):
        if number not in wanted and node.op == "reshape" and "fold" in _readers(graph, number):
            wanted |= _of_folds(graph, node.inputs[0], node.shape)
    b, new, known = Builder(), dict[int, int](), dict[tuple[int, Shape], int]()

    def raised(number: int, shape: Shape, cone: set[int]) -> int:
        node = graph.nodes[number]
        if (number, shape) not in known:
            if number in cone:
                full = (raised(i, shape, cone) if graph.nodes[i].shape == node.shape else new[i] for i in node.inputs)
                known[number, shape] = b.add(node.op, *full, **dict(node.attributes))
            else:
                known[number, shape] = b.add("reshape", new[number], shape=shape)
        return known[number, shape]

    for number, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        cone = wanted.get(number)
        new[number] = b.copy(node, inputs) if cone is None else raised(node.inputs[0], node.shape, cone)
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def raise_views(graph: Graph) -> Graph:
    """View narrow floats before they are converted to wider ones, where pointwise operations and folds read the view.

    The readers then convert, and the wider floats are not stored for them. This must run last, as `raise_reshapes`.

    Example:
        >>> import numpy as np
        >>> from fireiron import tensor
        >>> from fireiron.graph.trace import trace_graph
        >>> def scaled(x, y):
        ...     return y * np.exp(x).astype("f32").reshape(y.shape)
        >>> print(raise_views(trace_graph(scaled, tensor(4, 8, dtype="f16"), (2, 16))))
        scaled(x[4, 8].f16, y[2, 16].f32)
          %1 = exp(x)                      [4, 8].f16
          %2 = reshape(%1, shape=(2, 16))  [2, 16].f16
          %3 = cast(%2, dtype=f32)         [2, 16].f32
          %4 = y * %3                      [2, 16].f32
          return %4
    """
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        source = b.nodes[inputs[0]] if node.kind == "view" else node
        if node.kind == "view" and widens(b.nodes, inputs[0]) and _for_points(graph, number):
            view = b.add(node.op, source.inputs[0], **dict(node.attributes))
            new[number] = b.add("cast", view, dtype=source.dtype)
        else:
            new[number] = b.copy(node, inputs)
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def widens(nodes: Sequence[Node], number: int) -> bool:
    """Say whether a node converts floats to wider ones."""
    node = nodes[number]
    if node.op != "cast":
        return False
    before = nodes[node.inputs[0]].dtype
    return before.kind == node.dtype.kind == "float" and before.bits < node.dtype.bits


def _for_points(graph: Graph, number: int) -> bool:
    """Say whether only pointwise operations and folds read a node, directly or through views."""
    if number in graph.returned:
        return False
    kinds = ((u, graph.nodes[u].kind) for u in graph.users[number])
    return all(_for_points(graph, u) if kind == "view" else kind in ("pointwise", "fold") for u, kind in kinds)


def _readers(graph: Graph, number: int) -> set[str]:
    return {graph.nodes[u].kind for u in graph.users[number]}


def _of_inputs(graph: Graph, reshape: int) -> set[int] | None:
    """Return the pointwise operations before a reshape that a pointwise operation reads, if they read inputs alone.

    The result is empty for an input, and None for other nodes.
    """
    if graph.nodes[reshape].op != "reshape" or "pointwise" not in _readers(graph, reshape):
        return None
    (number,) = graph.nodes[reshape].inputs
    node = graph.nodes[number]
    if node.kind != "pointwise":
        return set() if node.op == "input" else None
    same = kept_axes(node.shape, graph.nodes[reshape].shape)
    left, seen = [number], set[int]()
    while left:
        n = left.pop()
        seen.add(n)
        for i in graph.nodes[n].inputs:
            one = graph.nodes[i]
            if one.shape == node.shape and one.kind == "pointwise":
                left += [] if i in seen else [i]
            elif one.op != "input" if one.shape == node.shape else len(one.shape) > same:
                return None
    return None if seen.intersection(graph.outputs) else seen


def _alone(graph: Graph, cones: dict[int, set[int]]) -> dict[int, set[int]]:
    """Keep the reshapes before which nothing is computed that other operations read too.

    Reshapes from one shape to one other shape may share the operations before them, as in the gradient of GELU.
    """
    while True:
        shared: dict[tuple[Shape, Shape], set[int]] = {}
        for r, cone in cones.items():
            shared.setdefault(_change(graph, r), set()).update(cone, (r,))
        kept = {
            r: cone for r, cone in cones.items()
            if all(u in shared[_change(graph, r)] for n in cone for u in graph.users[n])
        }  # fmt: skip
        if len(kept) == len(cones):
            return kept
        cones = kept


def _change(graph: Graph, reshape: int) -> tuple[Shape, Shape]:
    node = graph.nodes[reshape]
    return graph.nodes[node.inputs[0]].shape, node.shape


def _of_folds(graph: Graph, number: int, shape: Shape) -> dict[int, set[int]]:
    """Find the pointwise operations in more than 16 bits behind which a value is reshaped, all to one shape.

    Returns:
        By reshape, these operations; empty where the value itself has other readers, or an operand has another shape.
    """
    whole = graph.nodes[number].shape
    same = kept_axes(whole, shape)

    def fits(n: int) -> bool:
        one = graph.nodes[n]
        if one.kind != "pointwise" or one.op == "copy" or one.shape != whole or one.dtype.bits <= 16:
            return False
        short = (len(graph.nodes[i].shape) for i in one.inputs if graph.nodes[i].shape != whole)
        return all(rank <= same for rank in short)

    def leaves(u: int) -> bool:
        return graph.nodes[u].op == "reshape" and graph.nodes[u].shape == shape

    cone, left = set[int](), [number]
    while left:
        n = left.pop()
        if n not in cone and fits(n):
            cone.add(n)
            left += graph.nodes[n].inputs
    while more := {n for n in cone if not all(u in cone or leaves(u) for u in graph.users[n])}:
        cone -= more
    reshapes = {u for n in cone for u in graph.users[n] if leaves(u)}
    return dict.fromkeys(reshapes, cone) if number in cone else {}


def merged_axes(before: Shape, after: Shape) -> list[tuple[int, ...]] | None:
    """List, for each axis of a reshape's result, the axes before that it merges.

    The result is None where an axis is split, an axis of extent 1 comes or goes, or no axes are merged.

    Example:
        >>> merged_axes((2, 4, 3, 16), (2, 12, 16)), merged_axes((2, 12, 16), (2, 4, 3, 16))
        ([(0,), (1, 2), (3,)], None)
        >>> merged_axes((1, 4, 3, 16), (1, 12, 16)), merged_axes((1, 4, 16), (4, 16))
        ([(0,), (1, 2), (3,)], None)
    """
    found: list[tuple[int, ...]] = []
    at = 0
    for n in after:
        size, start = 1, at
        while at < len(before) and (size < n or start == at):
            size, at = size * before[at], at + 1
        axes = tuple(range(start, at))
        if size != n or (len(axes) > 1 and any(before[a] == 1 for a in axes)):
            return None
        found.append(axes)
    return found if at == len(before) and len(after) < len(before) else None


def kept_axes(before: Shape, after: Shape) -> int:
    """Return the number of last axes that a reshape does not change.

    Example:
        >>> kept_axes((4, 8, 32), (32, 32)), kept_axes((4, 8, 2, 16), (4, 8, 32))
        (1, 0)
    """
    same = 0
    while same < min(len(before), len(after)) and before[-1 - same] == after[-1 - same]:
        same += 1
    while same and prod(before[: len(before) - same]) != prod(after[: len(after) - same]):
        same -= 1
    return same


def leading_axes(before: Shape, rows: Shape) -> int:
    """Return how many first axes of a shape have together as many elements as `rows`; 0 where no number of axes has.

    Example:
        >>> leading_axes((2, 128, 12, 64), (256,)), leading_axes((2, 128), (64,))
        (2, 0)
    """
    total, count = 1, 0
    for n in before:
        total, count = total * n, count + 1
        if total == prod(rows):
            return count
    return 0


def _behind_pointwise(b: Builder, node: Node, inputs: tuple[int, ...]) -> int | None:
    """Move a reshape behind a pointwise operation, where all operands have the shape before it, or repeat over it."""
    shapes = [i for i in inputs if b.nodes[i].op == "reshape" and b.nodes[i].shape == node.shape]
    if not shapes:
        return None
    before = b.nodes[b.nodes[shapes[0]].inputs[0]].shape
    same = kept_axes(before, node.shape)
    lead, outer = before[: len(before) - same], node.shape[: len(node.shape) - same]
    moved: list[int] = []
    for i in inputs:
        one = b.nodes[i]
        source = b.nodes[one.inputs[0]].shape if one.op == "reshape" else ()
        if one.op == "reshape" and one.shape[: len(outer)] == outer and source == (*lead, *one.shape[len(outer) :]):
            moved.append(one.inputs[0])
        elif len(one.shape) <= same:
            moved.append(i)
        elif one.shape == node.shape and one.kind == "source":
            moved.append(b.add("reshape", i, shape=before))
        else:
            return None
    return b.add("reshape", b.add(node.op, *moved, **dict(node.attributes)), shape=node.shape)


def _behind_products(b: Builder, node: Node, given: list[Node]) -> int | None:
    """Move a reshape that merges the axes of a batch behind the product of its matrices."""
    sources = [g.inputs[0] for g in given]
    shapes = [b.nodes[i].shape for i in sources]
    leads = {shape[:-2] for shape in shapes}
    kept = all(kept_axes(s, g.shape) >= 2 and len(g.shape) > 2 for s, g in zip(shapes, given, strict=True))
    if len(leads) != 1 or not kept or min(map(len, shapes)) < 3:
        return None
    return b.add("reshape", b.add("matmul", *sources), shape=node.shape)


def _behind_fold(b: Builder, node: Node, inner: Node) -> int | None:
    """Move a reshape behind a fold, where it keeps the folded axes, or merges axes that are all folded."""
    before = b.nodes[inner.inputs[0]].shape
    same, rank = kept_axes(before, inner.shape), len(inner.shape)
    axes: tuple[int, ...] = tuple(node["axes"])
    joined = merged_axes(before, inner.shape)
    if not axes or (min(axes) < rank - same and joined is None):
        return None
    if joined is not None:
        moved = tuple(x for a in axes for x in joined[a])
        if node.op in PLACES and len(moved) > 1:  # an index counts along one axis
            return None
    else:
        moved = tuple(a - rank + len(before) for a in axes)
    made = b.add(node.op, inner.inputs[0], axes=moved, keepdims=node["keepdims"])
    return b.add("reshape", made, shape=node.shape)
