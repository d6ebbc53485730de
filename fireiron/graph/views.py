"""Where elements of nodes lie: a view is an offset and strides in the memory of the node that computes the elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import attrs

from fireiron.graph.nodes import Builder, Graph, Node
from fireiron.graph.operations import Shape

Order = tuple[int, ...]
VECTOR_NBYTES = 16
WHOLE_LINE = 128  # bytes, to which lines are padded where that is less than MOST_PADDING of a line
MOST_PADDING = 1 / 8
LEAST_LINE = 64  # bytes of lines that are padded; copies for products are always padded
LEAST_PADDED = 1 << 16  # bytes of results whose lines are padded
TAKE_GAPS = frozenset({"product", "pointwise", "fold"})  # kinds of operations that read padded lines


@attrs.frozen
class View:
    """Describe the memory of a node's elements.

    Args:
        node: number of the node that owns the memory.
        offset: elements from the start of this memory.
        shape: the extents.
        strides: elements from one index to the next along each axis; 0 where a value repeats.
    """

    node: int
    offset: int
    shape: Shape
    strides: tuple[int, ...]


def dense(shape: Shape, order: Order | None = None) -> tuple[int, ...]:
    """Return the strides of a dense array; the last axis of `order` is contiguous.

    Example:
        >>> dense((2, 3, 4)), dense((2, 3, 4), (1, 0, 2))
        ((12, 4, 1), (4, 8, 1))
    """
    strides, step = [0] * len(shape), 1
    for axis in reversed(order if order is not None else range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def order_of(view: View) -> Order | None:
    """Return the axes from the largest stride to the smallest; None where this is the order of the shape.

    Example:
        >>> order_of(View(0, 0, (2, 3, 4), (4, 8, 1))), order_of(View(0, 0, (2, 3), (3, 1)))
        ((1, 0, 2), None)
    """
    found = tuple(sorted(range(len(view.shape)), key=lambda a: (-view.strides[a], -view.shape[a])))
    return None if found == tuple(range(len(found))) else found


def reshaped(shape: Shape, strides: Sequence[int], new: Shape) -> tuple[int, ...] | None:
    """Return the strides of the same elements in another shape; None where a copy is needed.

    Example:
        >>> reshaped((4, 8), (16, 1), (4, 2, 4)), reshaped((4, 8), (1, 4), (32,))
        ((16, 4, 1), None)
    """
    if 0 in new:  # without elements, all strides are right
        return (0,) * len(new)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    place = 0
    wanted = [n for n in new if n != 1]
    at = 0
    while at < len(wanted):
        # The fewest axes of both sides that hold equally many elements.
        left, right, first, start = old[place][0], wanted[at], place, at
        while left != right:
            if left < right:
                place += 1
                left *= old[place][0]
            else:
                at += 1
                right *= wanted[at]
        run = old[first : place + 1]
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(run)):
            return None
        step = run[-1][1]
        part: list[int] = []
        for n in reversed(wanted[start : at + 1]):
            part.insert(0, step)
            step *= n
        found += part
        place, at = place + 1, at + 1
    rest = iter(found)
    return tuple(0 if n == 1 else next(rest) for n in new)


def matrix_strides(view: View, shape: Shape) -> tuple[int, ...] | None:
    """Return the strides of a view as a matrix or a batch of matrices; None where this needs a copy."""
    strides = reshaped(view.shape, view.strides, shape)
    if strides is None or (shape[-1] != 1 and strides[-1] != 1 and (len(shape) < 2 or strides[-2] != 1)):
        return None
    if len(shape) > 1 and strides[-1] != 1 and strides[-2] == 1:
        return tuple(
            s if n != 1 or i == len(shape) - 2 else max(s, shape[-2])
            for i, (n, s) in enumerate(zip(shape, strides, strict=True))
        )
    found, width = list(strides), shape[len(shape) - 1]
    for i, n in enumerate(shape):
        if n == 1:
            found[i] = (0, width, 1)[max(0, i + 3 - len(shape))]
    return tuple(found)


def views_of(
    graph: Graph, orders: Mapping[int, Order], padded: Mapping[int, tuple[int, ...]] | None = None
) -> dict[int, View | None]:
    """Return, for each node, where its elements lie; None for views that strides cannot express.

    Args:
        graph: the graph.
        orders: the order of axes in memory, for nodes where it is not the shape's order.
        padded: strides of results whose lines are padded.
    """
    known = padded or {}
    found: dict[int, View | None] = {}
    for number, node in enumerate(graph.nodes):
        if node.op == "scatter":  # in place: in a copy, the caller would not see it
            assert graph.nodes[node.inputs[2]].op == "input"
            found[number] = found[node.inputs[2]]
            continue
        if node.kind != "view":
            apart = dict(node.attributes).get("strides") if node.op == "input" else known.get(number)
            found[number] = View(number, 0, node.shape, apart or dense(node.shape, orders.get(number)))
            continue
        base = found[node.inputs[0]]
        found[number] = None if base is None else _viewed(base, node.op, node.shape, dict(node.attributes))
    return found


def moved_views(graph: Graph, views: Mapping[int, View], places: Mapping[int, View]) -> dict[int, View] | None:
    """Return where elements lie if some results lie elsewhere; None where strides cannot express a view of these.

    Args:
        graph: the graph.
        views: where elements lie.
        places: where the elements of some results lie instead.
    """
    found = dict(views)
    for number, node in enumerate(graph.nodes):
        if number in places:
            found[number] = places[number]
        elif node.kind == "view" and number in views and found[node.inputs[0]] is not views[node.inputs[0]]:
            view = _viewed(found[node.inputs[0]], node.op, node.shape, dict(node.attributes))
            if view is None:
                return None
            found[number] = view
    return found


def sliced(view: View, axis: int, start: int, extent: int) -> View:
    """Return where a slice along an axis lies.

    Example:
        >>> sliced(View(0, 0, (4, 24), (24, 1)), 1, 8, 16)
        View(node=0, offset=8, shape=(4, 16), strides=(24, 1))
    """
    shape = (*view.shape[:axis], extent, *view.shape[axis + 1 :])
    return attrs.evolve(view, offset=view.offset + start * view.strides[axis], shape=shape)


def source_of(graph: Graph, number: int, view: View) -> tuple[int, View] | None:
    """Return the node whose transposes and reshapes a node shows, and where its elements lie if the shown ones do so.

    The result is None where the node shows a part of another or repeats it, and where strides cannot express the place.

    Args:
        graph: the graph.
        number: the node.
        view: where its elements lie.
    """
    while (node := graph.nodes[number]).kind == "view":
        shape = graph.nodes[node.inputs[0]].shape
        strides: tuple[int, ...] | None = None
        if node.op == "transpose":
            axes: Order = node["axes"]
            strides = tuple(view.strides[axes.index(a)] for a in range(len(shape)))
        elif node.op == "reshape":
            strides = reshaped(view.shape, view.strides, shape)
        if strides is None:
            return None
        number, view = node.inputs[0], attrs.evolve(view, shape=shape, strides=strides)
    return number, view


def padded_lines(graph: Graph, orders: Mapping[int, Order], kept: Set[int]) -> dict[int, tuple[int, ...]]:
    """Choose strides for results of odd widths that products read or write, so that lines start at whole vectors.

    Lines are padded to 128 bytes, where bulk copies and tensor cores are fastest, or to 16 if that is much for a line.
    What readers see of a result must have strides, and readers must be kernels.

    Args:
        graph: the graph.
        orders: the order of axes in memory, for nodes where it is not the shape's order.
        kept: results that are not padded.

    Example:
        >>> import numpy as np
        >>> from fireiron.graph.trace import trace_graph
        >>> graph = trace_graph(lambda x, y, z: np.tanh(x @ y) @ z, (512, 64), (64, 999), (999, 64))
        >>> padded_lines(graph, {}, set(graph.outputs))
        {3: (1024, 1), 4: (1024, 1)}
    """
    found: dict[int, tuple[int, ...]] = {}
    for number, node in enumerate(graph.nodes):
        readers, views, left = list[Node](), list[int](), [number]
        while left:
            users = [(u, graph.nodes[u]) for u in graph.users[left.pop()]]
            readers += [node for _, node in users if node.kind != "view"]
            views += [u for u, node in users if node.kind == "view"]
            left += [u for u, node in users if node.kind == "view"]
        order = orders.get(number, tuple(range(len(node.shape))))
        strides = _padded(node, order)
        if strides is None or not kept.isdisjoint((number, *views)):
            continue
        if not any(x.op == "matmul" for x in (node, *readers)) or {x.kind for x in readers} - TAKE_GAPS:
            continue
        lies: dict[int, View | None] = {number: View(number, 0, node.shape, strides)}
        for u in views:
            viewed, base = graph.nodes[u], lies[graph.nodes[u].inputs[0]]
            lies[u] = None if base is None else _viewed(base, viewed.op, viewed.shape, dict(viewed.attributes))
        found |= {number: strides} if all(lies.values()) else {}
    return found


def _padded(node: Node, order: Order) -> tuple[int, ...] | None:
    """Return the strides of a result whose lines are padded; None for results whose lines need none, and small ones."""
    width, nbytes = (node.shape[order[-1]] if order else 1), node.dtype.nbytes
    line = width * nbytes
    if node.kind not in ("product", "pointwise") or line == node.nbytes:
        return None
    if line % VECTOR_NBYTES == 0 or node.nbytes < LEAST_PADDED or (line < LEAST_LINE and node.op != "copy"):
        return None
    unit = next(n for n in (WHOLE_LINE, VECTOR_NBYTES) if -line % n <= line * MOST_PADDING or n == VECTOR_NBYTES)
    pitch = -(-line // unit) * unit // nbytes
    wide = dense(tuple(pitch if a == order[-1] else n for a, n in enumerate(node.shape)), order)
    return tuple(wide)


def held(view: View) -> int:
    """Count the elements of the memory of an array with these strides, with the padding of its last line.

    Example:
        >>> held(View(0, 0, (4, 7), (8, 1))), held(View(0, 0, (), ()))
        (32, 1)
    """
    return 0 if 0 in view.shape else max([1, *(n * s for n, s in zip(view.shape, view.strides, strict=True))])


def has_padding(graph: Graph, view: View) -> bool:
    """Say whether lines of an array have gaps that kernels may read: those of inputs only if these say so."""
    owner = graph.nodes[view.node]
    ours = owner.op != "input" or "padded" in dict(owner.attributes)
    return ours and held(view) > prod(view.shape)


def room(view: View, axis: int, vector: int) -> int:
    """Count the elements of a line's memory, with its padding; 0 where lines do not start at vectors of `vector`.

    Example:
        >>> room(View(0, 0, (4, 7), (8, 1)), 1, 8), room(View(0, 8, (4, 7), (24, 1)), 1, 8)
        (8, 16)
    """
    others = [s for a, (n, s) in enumerate(zip(view.shape, view.strides, strict=True)) if a != axis and n > 1 and s]
    whole = view.strides[axis] == 1 and all(s % vector == 0 for s in (*others, view.offset))
    pitch = min(others, default=0) if whole else 0
    return pitch - view.offset % pitch if pitch else 0


def _viewed(base: View, op: str, shape: Shape, attributes: Mapping[str, tuple[int, ...]]) -> View | None:
    if op == "transpose":
        axes = attributes["axes"]
        return attrs.evolve(base, shape=shape, strides=tuple(base.strides[a] for a in axes))
    if op == "slice":
        starts, steps = attributes["starts"], attributes["steps"]
        offset = base.offset + sum(a * s for a, s in zip(starts, base.strides, strict=True))
        strides = tuple(a * s for a, s in zip(steps, base.strides, strict=True))
        return attrs.evolve(base, offset=offset, shape=shape, strides=strides)
    if op == "broadcast":
        lead = len(shape) - len(base.shape)
        strides = tuple(
            0 if i < lead or (base.shape[i - lead] == 1 and n != 1) else base.strides[i - lead]
            for i, n in enumerate(shape)
        )
        return attrs.evolve(base, shape=shape, strides=strides)
    strides = reshaped(base.shape, base.strides, shape)
    return None if strides is None else attrs.evolve(base, shape=shape, strides=strides)


def orders_of(graph: Graph) -> dict[int, Order]:
    """Choose the order of axes in memory of results that are transposed, then reshaped, such as heads that are merged.

    Inputs and results of a library's calls have the orders that their nodes say. Images have their channels last, see
    `_images`.
    """
    found: dict[int, Order] = {}
    for number, node in enumerate(graph.nodes):
        if "order" in dict(node.attributes):
            found[number] = tuple(node["order"])
        if node.kind in ("view", "source", "foreign"):
            continue
        turned = [u for u in graph.users[number] if graph.nodes[u].op == "transpose"]
        reads = [(u, r) for u in turned for r in graph.users[u] if graph.nodes[r].op == "reshape"]
        if reads and len(turned) == len(graph.users[number]):
            last = len(node.shape) - 1  # the axis whose elements are best written side by side
            orders = [*(tuple(graph.nodes[u]["axes"]) for u, _ in reads), tuple(range(len(node.shape)))]
            found[number] = min(orders, key=lambda o: (_lost(graph, node.shape, o, reads), o[-1] != last))
    return found | _images(graph)


def swapped(rank: int) -> Order:
    """Return the order of axes of matrices whose columns are contiguous."""
    return (*range(rank - 2), rank - 1, rank - 2)


def read_by_columns(graph: Graph, number: int) -> bool:
    """Say whether all points that read a product are read side by side along its columns, as behind a transpose.

    Products read matrices of either order.
    """
    shape = graph.nodes[number].shape
    ranks = {len(graph.nodes[i].shape) for i in graph.nodes[number].inputs}
    if 1 in shape[-2:] or number in graph.returned or len(ranks) > 1:  # one matrix for a batch of them
        return False
    views = {order: {number: View(number, 0, shape, dense(shape, order))} for order in (None, swapped(len(shape)))}
    left, seen = [number], 0
    while left:
        i = left.pop()
        for u in graph.users[i]:
            node = graph.nodes[u]
            if node.kind == "view":
                for known in views.values():
                    view = _viewed(known[i], node.op, node.shape, dict(node.attributes))
                    if view is None or u in graph.returned:
                        return False
                    known[u] = view
                left.append(u)
            elif node.kind in ("pointwise", "fold") and node.op != "copy":
                rows, columns = (_last_step(known[i]) for known in views.values())
                if rows == 1 or columns != 1:
                    return False
                seen += 1
            elif node.op != "matmul":
                return False
    return seen > 0


def _last_step(view: View) -> int:
    """Return the distance of neighbours along the last axis that has any."""
    return next((s for s, n in zip(reversed(view.strides), reversed(view.shape), strict=True) if n > 1), 1)


def channels_last(rank: int) -> Order:
    """Return the order of axes in memory of images (N, C, sides...), whose channels lie last.

    Example:
        >>> channels_last(4)
        (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def _images(graph: Graph) -> dict[int, Order]:
    """Find the results whose channels lie last in memory, and the order of their axes.

    These are the results of convolutions and pooling, what is computed of them and of a caller's or a library's images
    whose channels lie last, also in another shape, and what is computed for convolutions and pooling.
    """
    found: dict[int, Order] = {}
    lies: dict[int, View | None] = {}
    computed: set[int] = set()  # for convolutions and pooling or of them, whose kernels store channels last
    read = {i for node in graph.nodes if node.kind == "windows" for i in node.inputs}
    for number, node in enumerate(graph.nodes):
        given, last = dict(node.attributes), channels_last(len(node.shape))
        order: Order | None = None
        if node.kind == "view":
            base = lies[node.inputs[0]]
            lies[number] = None if base is None else _viewed(base, node.op, node.shape, given)
            continue
        if node.kind in ("source", "foreign"):
            order = last if len(node.shape) > 3 and given.get("order") == last else None  # torch's format has a name
        elif node.kind == "windows" or (number in read and node.kind in ("pointwise", "copy") and len(node.shape) > 2):
            order = last
            computed.add(number)
        elif node.kind in ("pointwise", "copy") and node.op != "copy" and len(node.shape) > 2:
            # A copy has its reader's order.
            sources = [i for i in _alike(graph, number) if base_of(graph, i) in found]
            ours = not computed.isdisjoint(map(partial(base_of, graph), sources))
            orders = filter(None, (_dense_order(lies[i]) for i in sources))
            order = next((o for o in orders if ours or _shown(graph, number, o)), None)
            computed |= {number} if ours else set()
        found |= {} if order is None else {number: order}
        lies[number] = View(number, 0, node.shape, given.get("strides") or dense(node.shape, order))
    return found


def _dense_order(view: View | None) -> Order | None:
    """Return the order of an array's axes in memory if it lies densely in another order than its shape's."""
    order = None if view is None else order_of(view)
    return order if view is not None and order is not None and lies(view, order) else None


def _shown(graph: Graph, number: int, order: Order) -> bool:
    """Say whether strides express what readers see of a result, if its axes have an order in memory."""
    shape = graph.nodes[number].shape
    view = View(number, 0, shape, dense(shape, order))
    views = (graph.nodes[u] for u in graph.users[number] if graph.nodes[u].kind == "view")
    return all(_viewed(view, v.op, v.shape, dict(v.attributes)) is not None for v in views)


def _alike(graph: Graph, number: int) -> list[int]:
    """List the inputs that decide the order of a result's axes: images, arrays of its shape, parts along an axis."""
    node, nodes = graph.nodes[number], graph.nodes
    if node.kind == "windows":
        return [node.inputs[0]]
    same = [i for i in node.inputs if len(nodes[i].shape) == len(node.shape)]
    return [i for i in same if node.kind == "copy" or nodes[i].shape == node.shape]


def _as_given(graph: Graph, views: Mapping[int, View | None]) -> set[int]:
    """Find what is computed of inputs whose channels lie last: torch's results have this order too."""
    found = set[int]()
    for number, node in enumerate(graph.nodes):
        view = views[number]
        if node.kind not in ("windows", "pointwise", "copy"):
            outer = graph.nodes[base_of(graph, number)].kind in ("source", "foreign")
            if base_of(graph, number) in found:
                found.add(number)
            elif outer and view is not None and len(node.shape) > 2:
                found |= {number} if lies(view, channels_last(len(node.shape))) and not lies(view) else set()
        elif not found.isdisjoint(_alike(graph, number)):
            found.add(number)
    return found


def lies(view: View, order: Order | None = None) -> bool:
    """Say whether elements lie densely, in an order of axes."""
    plain = dense(view.shape, order)
    return all(n == 1 or s == p for n, s, p in zip(view.shape, view.strides, plain, strict=True))


def base_of(graph: Graph, number: int) -> int:
    """Return the node whose memory a view shows."""
    while graph.nodes[number].kind == "view":
        number = graph.nodes[number].inputs[0]
    return number


def lies_last(view: View, nbytes: int) -> bool:
    """Say whether kernels of convolutions and pooling read an array without a copy.

    Its channels are contiguous, and its pixels are too, or lie at equal distances that vectors of 16 bytes divide; it
    starts at such a vector.

    Args:
        view: where the elements lie.
        nbytes: of an element.
    """
    if view.offset * nbytes % 16:
        return False
    order = channels_last(len(view.shape))
    shape, strides = (tuple(each[a] for a in order) for each in (view.shape, view.strides))
    if lies(view, order):
        return True
    lines = reshaped(shape[:-1], strides[:-1], (prod(shape[:-1]),))
    apart = lines is not None and lines[0] >= shape[-1] and lines[0] * nbytes % 16 == 0
    return apart and strides[-1] == 1 and shape[-1] * nbytes % 16 == 0


def _lost(graph: Graph, shape: Shape, order: Order, reads: Sequence[tuple[int, int]]) -> int:
    """Count the transposes whose reshape would need a copy, if an array had this order of axes."""
    strides = dense(shape, order)
    lost = 0
    for turned, read in reads:
        axes: Order = graph.nodes[turned]["axes"]
        steps = tuple(strides[a] for a in axes)
        lost += reshaped(graph.nodes[turned].shape, steps, graph.nodes[read].shape) is None
    return lost


def materialised(graph: Graph) -> tuple[Graph, dict[int, Order]]:
    """Insert a copy before each view that strides cannot express, and of images and filters without channels last.

    Returns:
        The graph, and the orders of axes in memory.
    """
    while True:
        orders = orders_of(graph)
        views = views_of(graph, orders)
        lost = next((i for i, view in views.items() if view is None), None)
        if lost is None:
            turned = [i for node in graph.nodes if node.kind == "windows" for i in node.inputs]
            turned = {i for i in turned if (v := views[i]) and not lies_last(v, graph.nodes[v.node].dtype.nbytes)}
            if not turned:
                return graph, orders
            graph = _copied(graph, turned)
            continue
        graph = _with_copy(graph, views, lost)


def _with_copy(graph: Graph, views: Mapping[int, View | None], lost: int) -> Graph:
    """Insert a copy before a view that strides cannot express, for all such views that strides of the copy express.

    Besides other views of what is copied, these are views of its transposes, as of a matrix that one product reads as
    it is and another transposed.
    """
    nodes = graph.nodes
    source = nodes[lost].inputs[0]
    base, axes = _turned(graph, source)
    shape, order = nodes[source].shape, _order_kept(views[source])
    copied = View(0, 0, shape, dense(shape, order))
    if order is not None and _viewed(copied, nodes[lost].op, nodes[lost].shape, {}) is None:
        order, copied = None, View(0, 0, shape, dense(shape))
    said: dict[str, Any] = {} if order is None else {"order": order}
    turns: dict[int, Order] = {}  # by view, the order of the copy's axes that it shows
    for number in (n for n, view in views.items() if view is None and nodes[n].op == nodes[lost].op):
        other, order = _turned(graph, nodes[number].inputs[0])
        if other == base:
            turn = tuple(axes.index(a) for a in order)
            there = _viewed(copied, "transpose", tuple(nodes[source].shape[a] for a in turn), {"axes": turn})
            if there is not None and _viewed(there, nodes[number].op, nodes[number].shape, {}) is not None:
                turns[number] = turn
    b, new, copy = Builder(), dict[int, int](), -1
    for number, node in enumerate(nodes):
        inputs = tuple(new[i] for i in node.inputs)
        if number in turns:
            copy = b.add("copy", new[source], **said) if number == lost else copy
            same = turns[number] == tuple(range(len(turns[number])))
            inputs = (copy if same else b.add("transpose", copy, axes=turns[number]),)
        new[number] = b.copy(node, inputs)
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def _order_kept(view: View | None) -> Order | None:
    """Return the order of an array's axes in memory, where repeated axes follow those before them; None for its own."""
    if view is None:
        return None
    steps, last = list[int](), 0
    for step in view.strides:
        last = step or last
        steps.append(last)
    order = tuple(sorted(range(len(steps)), key=lambda a: -steps[a]))
    return None if order == tuple(range(len(order))) else order


def _turned(graph: Graph, number: int) -> tuple[int, Order]:
    """Return the node that a transpose shows and the order of its axes; for other nodes, the node itself."""
    node = graph.nodes[number]
    if node.op == "transpose":
        return node.inputs[0], tuple(node["axes"])
    return number, tuple(range(len(node.shape)))


def with_matrices(graph: Graph, products: Mapping[int, Sequence[int]], views: Mapping[int, View]) -> Graph | None:
    """Insert copies where products do not read and write matrices, or batches of these; None where all do.

    Products that read the same array, or transposes of it, share a copy that all of them can read, and use one that is
    there for another reader.

    Args:
        graph: the graph.
        products: for each product that has a kernel of its own, the results of the kernel.
        views: where the elements of its nodes lie.
    """
    read, turned = dict[int, Shape](), set[int]()
    for number, results in products.items():
        batch = batch_of(graph, number)
        for i in (*graph.nodes[number].inputs, *results):
            *_, rows, last = shape = graph.nodes[i].shape
            wanted = (*batch, rows, last) if batch else (prod(shape) // last, last)
            if prod(wanted) != prod(shape):
                continue
            if i not in results:
                read |= {i: wanted} if matrix_strides(views[i], wanted) is None else {}
            elif reshaped(shape, views[i].strides, wanted) is None:  # it is written as its reader needs it
                turned |= {u for u in graph.users[i] if graph.nodes[u].op == "transpose"}
    if not read and not turned:
        return None
    b, new, copies = Builder(), dict[int, int](), dict[int, list[tuple[Order, int]]]()

    def shown(base: int, axes: Order, serves: Callable[[View], bool]) -> int | None:
        """Return the transpose of a copy of `base` that has an order of axes; None where no copy serves."""
        for order, made in copies.get(base, ()):
            turn = tuple(order.index(a) for a in axes)
            shape = b.nodes[made].shape
            strides = dense(shape, dict(b.nodes[made].attributes).get("order"))
            there = View(made, 0, tuple(shape[a] for a in turn), tuple(strides[a] for a in turn))
            if serves(there):
                return made if turn == tuple(range(len(turn))) else b.add("transpose", made, axes=turn)
        return None

    def copy_of(i: int) -> int:
        base, axes = _turned(graph, i)
        found = shown(base, axes, lambda there: matrix_strides(there, read[i]) is not None)
        if found is None:
            found = b.add("copy", new[i])
            copies.setdefault(base, []).append((axes, found))
        return found

    def read_by_views(number: int) -> Callable[[View], bool]:
        readers = [graph.nodes[u] for u in graph.users[number]]
        return lambda there: all(
            n.kind == "view" and _viewed(there, n.op, n.shape, dict(n.attributes)) is not None for n in readers
        )

    for number, node in enumerate(graph.nodes):
        known = {i: copy_of(i) for i in node.inputs if i in read} if number in products else {}
        if node.op == "copy":
            base, axes = _turned(graph, node.inputs[0])
            there = None if number in graph.returned else shown(base, axes, read_by_views(number))
            new[number] = b.copy(node, (new[node.inputs[0]],)) if there is None else there
            if there is None:
                copies.setdefault(base, []).append((axes, new[number]))
            continue
        made = b.copy(node, tuple(known.get(i, new[i]) for i in node.inputs))
        new[number] = b.add("copy", made) if number in turned else made
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def batch_of(graph: Graph, product: int) -> tuple[int, ...]:
    """Return the number of matrices that a product multiplies, as a shape; () where all rows share one right matrix."""
    right = graph.nodes[graph.nodes[product].inputs[1]].shape
    count = prod(graph.nodes[product].shape[:-2])
    return () if prod(right[:-2]) == 1 or count == 1 else (count,)


def _copied(graph: Graph, turned: set[int]) -> Graph:
    """Let convolutions, pooling and pointwise operations read copies of some nodes, one of each."""
    b, new, copies = Builder(), dict[int, int](), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        if node.kind == "windows":
            copies |= {i: b.add("copy", new[i]) for i in turned.intersection(node.inputs) - copies.keys()}
        known = copies if node.kind in ("windows", "pointwise") else {}
        new[number] = b.copy(node, tuple(known.get(i, new[i]) for i in node.inputs))
    return b.graph(graph.name, [new[i] for i in graph.outputs])


def outputs_apart(graph: Graph, together: Sequence[int] = ()) -> Graph:
    """Insert copies for outputs that are inputs or numbers, or share memory with another output.

    A result whose channels lie last is copied too, unless the images that it is computed of lie so.

    Args:
        graph: the graph.
        together: a number for each output; outputs with equal numbers may share memory. Empty if no outputs may.
    """
    b, new = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        new[number] = b.copy(node, tuple(new[i] for i in node.inputs))
    made: list[int] = []
    bases: dict[int, int] = {}
    views, images = views_of(graph, orders_of(graph)), _images(graph)
    given = _as_given(graph, views)
    groups = together or range(len(graph.outputs))
    for i, group in zip(graph.outputs, groups, strict=True):
        base = base_of(graph, i)
        view = views[i]
        turned = base in images and base not in given and (view is None or not lies(view))
        own = view is not None and graph.nodes[base].kind == "source"
        apart = turned or own or bases.setdefault(base, group) != group
        made.append(b.add("copy", new[i]) if apart else new[i])
    return b.graph(graph.name, made)
