"""The picture of a plan: a box for each launch, its operations inside, and arrows for the arrays.

Arrays that go from launch to launch are lines on the left. A line begins at the array's name and shape and enters each
box that reads the array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fireiron.graph.explain import titles
from fireiron.graph.flow import Flow, Place, flow
from fireiron.graph.words import described, expression, names_of
from fireiron.show.picture import Picture
from fireiron.show.svg import Drawing, width_of

if TYPE_CHECKING:
    from fireiron.graph.plan import Plan

FILLS = {"pointwise": "math", "fold": "put", "product": "store", "view": "empty", "foreign": "wait"}
HEAD, LINE, CHIP, STEP, GAP, PAD = 24.0, 17.0, 20.0, 36.0, 12.0, 12.0
LANE, SMALL = 10.0, 10.0  # pixels between lines, and of the size of names on lines
DOT = 8.0  # width of a place that a line only passes


@attrs.frozen
class Wire:
    """Hold the line of one array: the launch that gives it (-1 for the caller), and the last one that reads it."""

    node: int
    first: int
    last: int


def picture(plan: Plan) -> Picture:
    """Draw a plan."""
    names = names_of(plan.graph)
    flows = [flow(plan.graph, launch.part) for launch in plan.launches]
    wires = _wires(plan, flows)
    lanes = _lanes(wires)
    count = max(lanes.values(), default=-1) + 1
    said = {i: f"{names[i]}{described(plan.graph.nodes[i])}" for i in lanes}
    for whole, parts in plan.joined.items():
        said |= {i: f"{said[i]} in {names[whole]}" for i in parts}
    wholes = _wholes(plan)
    start = LANE * count  # where names begin
    box = start + max((width_of(text, SMALL) for text in said.values()), default=0.0) + 2 * PAD
    drawing = Drawing(f"data flow of {plan.graph.name}")
    chips = [[[_width(plan, place) for place in row] for row in one.rows] for one in flows]
    heads = [_head(plan, i, title) for i, title in enumerate(titles(plan))]
    inside = [max(_across(row) for row in rows) for rows in chips]
    wide = max([width_of(head) for head in heads] + inside, default=0.0) + 2 * PAD
    begun: dict[int, float] = {}
    y = 0.0
    for wire in wires:
        if wire.first < 0:
            begun[wire.node] = y + LINE
            _named(drawing, start, y + LINE, said[wire.node])
            drawing.line(lanes[wire.node] * LANE, y + LINE, start + width_of(said[wire.node], SMALL), y + LINE, "blue")
            y += LINE
    ends: dict[int, float] = {}
    left: list[tuple[float, float]] = []  # where an array leaves its lane
    for number, (one, head, rows) in enumerate(zip(flows, heads, chips, strict=True)):
        y += GAP
        part = plan.launches[number].part
        entries = len(one.rows[0])
        # Each with the operation from which its line leaves the box.
        results = [(i, i) for i in part.outputs if i in lanes] + [pair for pair in wholes[number] if pair[0] in lanes]
        tall = HEAD + LINE * entries + STEP * len(one.rows) + GAP
        drawing.rect(box, y, wide, tall, "panel", "edge", 4, tip=_tip(plan, number))
        drawing.text(box + PAD, y + 16, head, bold=True)
        at = _places(rows, box + wide / 2, y + HEAD + LINE * entries)
        for place, (x, top) in zip(one.rows[0], at[0], strict=True):
            y_in = y + HEAD + LINE * (one.rows[0].index(place) + 1) - 4
            _named(drawing, start, y_in, said[place.node])
            drawing.path([(lanes[place.node] * LANE, y_in), (x, y_in), (x, top + CHIP / 2)], "blue")
            ends[place.node] = y_in
            left.append((lanes[place.node] * LANE, y_in))
        _edges(drawing, one, at)
        _chips(drawing, plan, one, rows, at, names)
        y += tall
        for i, source in results:
            y += LINE
            begun[i] = ends[i] = y
            (row,) = [number for number, place in enumerate(one.rows[-1]) if place.node == source]
            x, top = at[-1][row]
            bottom = top + CHIP / 2 if one.rows[-1][row].passed else top + CHIP
            _named(drawing, start, y, said[i])
            drawing.path([(x, bottom), (x, y), (lanes[i] * LANE, y)], "blue")
    y = _returned(drawing, plan, lanes, said, ends, start, y)
    for node, lane in lanes.items():
        drawing.line(lane * LANE, begun[node], lane * LANE, ends.get(node, begun[node]), "blue")
    for x, at_y in left:
        drawing.dot(x, at_y, 3, "ground", "blue")
    return Picture(drawing.title, drawing, plan.explain())


def _wires(plan: Plan, flows: list[Flow]) -> list[Wire]:
    """List the arrays that go between launches, in the order in which their lines begin."""
    first = dict.fromkeys(plan.graph.inputs, -1)
    last = {i: len(flows) for i in _outputs(plan)}
    for number, (launch, one) in enumerate(zip(plan.launches, flows, strict=True)):
        for place in one.rows[0]:
            first.setdefault(place.node, -1)
            last[place.node] = max(last.get(place.node, -1), number)
        first |= {i: number for i in launch.part.outputs}
    for number, pairs in enumerate(_wholes(plan)):
        first |= {whole: number for whole, _ in pairs}
    for i in _outputs(plan):  # an output may be an input
        first.setdefault(i, -1)
    return sorted((Wire(i, at, last.get(i, at)) for i, at in first.items()), key=lambda wire: wire.first)


def _wholes(plan: Plan) -> list[list[tuple[int, int]]]:
    """List, for each launch, the concatenations whose last part it writes, each with this part."""
    found: list[list[tuple[int, int]]] = [[] for _ in plan.launches]
    for whole, parts in plan.joined.items():
        at = {i: number for number, launch in enumerate(plan.launches) for i in launch.part.outputs if i in parts}
        last = max(parts, key=lambda i: at[i])
        found[at[last]].append((whole, last))
    return found


def _outputs(plan: Plan) -> list[int]:
    """List the arrays that the caller gets, or of which it gets views."""
    found: list[int] = []
    for i in plan.graph.outputs:
        while plan.graph.nodes[i].kind == "view" and not any(i in x.part.nodes for x in plan.launches):
            i = plan.graph.nodes[i].inputs[0]
        found.append(i)
    return found


def _lanes(wires: list[Wire]) -> dict[int, int]:
    """Give each array a lane that is free from its launch to its last reader."""
    free: list[int] = []
    lanes: dict[int, int] = {}
    for wire in wires:
        lane = next((i for i, until in enumerate(free) if until < wire.first), len(free))
        free[lane : lane + 1] = [max(wire.last, wire.first)]
        lanes[wire.node] = lane
    return lanes


def _head(plan: Plan, number: int, title: str) -> str:
    launch = plan.launches[number]
    form = "once" if launch.once else launch.part.kind if launch.kernel is not None else "library"
    us = launch.modelled_us
    return f"{number} {form}: {title}" + (f", {us:.1f} us modelled" if us is not None else "")


def _tip(plan: Plan, number: int) -> str:
    launch = plan.launches[number]
    kernel = [] if launch.kernel is None else [str(launch.kernel.schedule)]
    return "\n".join([*kernel, *([launch.why] if launch.why else []), *launch.part.why])


def _label(plan: Plan, place: Place) -> str:
    node = plan.graph.nodes[place.node]
    return str(node["label"]) if node.op == "foreign" else node.op


def _width(plan: Plan, place: Place) -> float:
    return DOT if place.read or place.passed else width_of(_label(plan, place)) + 2 * PAD


def _across(row: list[float]) -> float:
    return sum(row) + GAP * (len(row) - 1)


def _places(rows: list[list[float]], middle: float, top: float) -> list[list[tuple[float, float]]]:
    """Give the middle and the top of each place."""
    found: list[list[tuple[float, float]]] = []
    for level, row in enumerate(rows):
        x, line = middle - _across(row) / 2, list[tuple[float, float]]()
        for wide in row:
            line.append((x + wide / 2, top + STEP * level))
            x += wide + GAP
        found.append(line)
    return found


def _edges(drawing: Drawing, one: Flow, at: list[list[tuple[float, float]]]) -> None:
    """Draw the arrays between operations of one launch."""
    for (row, place), (below, target) in one.edges:
        (x1, y1), (x2, y2) = at[row][place], at[below][target]
        source, sink = one.rows[row][place], one.rows[below][target]
        y1 += CHIP / 2 if source.read or source.passed else CHIP
        drawing.line(x1, y1, x2, y2 + (CHIP / 2 if sink.passed else 0), "blue")
    for row, line in zip(one.rows, at, strict=True):
        for place, (x, y) in zip(row, line, strict=True):
            if not place.read and not place.passed:
                drawing.path([(x - 3.5, y - 5), (x, y), (x + 3.5, y - 5)], "blue")


def _chips(
    drawing: Drawing,
    plan: Plan,
    one: Flow,
    rows: list[list[float]],
    at: list[list[tuple[float, float]]],
    names: tuple[str, ...],
) -> None:
    """Draw the operations."""
    for row, widths, line in zip(one.rows, rows, at, strict=True):
        for place, wide, (x, y) in zip(row, widths, line, strict=True):
            if place.read or place.passed:
                continue
            node = plan.graph.nodes[place.node]
            tip = f"{names[place.node]} = {expression(node, names)} {described(node)}"
            drawing.rect(x - wide / 2, y, wide, CHIP, FILLS.get(node.kind, "held"), "edge", 4, tip=tip)
            drawing.text(x, y + 14, _label(plan, place), "dim", anchor="middle")


def _named(drawing: Drawing, x: float, y: float, text: str) -> None:
    """Write an array's name and shape above its line."""
    drawing.text(x + 4, y - 4, text, "faint", SMALL)


def _returned(
    drawing: Drawing,
    plan: Plan,
    lanes: dict[int, int],
    said: dict[int, str],
    ends: dict[int, float],
    start: float,
    y: float,
) -> float:
    """Draw the arrays that the caller gets."""
    y += GAP
    for i in dict.fromkeys(_outputs(plan)):
        y += LINE
        ends[i] = y
        text = f"returned: {said[i]}"
        _named(drawing, start, y, text)
        drawing.line(lanes[i] * LANE, y, start + width_of(text, SMALL), y, "blue")
    return y
