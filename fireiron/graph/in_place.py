"""Concatenations in place: kernels write what they compute to its slice of the concatenation's memory, without a copy.

Such a concatenation has no launch: its operands are views of it, for all their readers. One operand, of half the
elements at most, may be copied to its place: an input of the graph, a part of a result, what a library computes, or an
operand that occurs twice. Where more cannot be written in place, all are copied.

Kernels must write and read the slices as fast as arrays of their own. A slice starts at a sector of 32 bytes, and so do
its lines, which are no shorter than two sectors: bulk copies and vectors of 16 bytes then serve them, and no sector is
written by two kernels. The axes keep their order in memory. The cost model compares the kernels that write and read the
slices with those of separate arrays and the copy.

The whole concatenation is allocated for its first operand; in return, no operand has memory of its own beside it. Peaks
of memory may grow by a hundredth at most; copies among the operands run early or late to this end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fireiron.algebra.arch import machine
from fireiron.graph.alike import form_of
from fireiron.graph.areas import Part
from fireiron.graph.nodes import Graph, Node
from fireiron.graph.plan import Kernels, Launch, peaks
from fireiron.graph.views import View, base_of, moved_views, sliced, source_of
from fireiron.jit.choices import keep_choice, kept_choice

SECTOR_NBYTES = 32
LEAST_LINE = 2 * SECTOR_NBYTES
MOST_COPIED = 0.5  # part of a concatenation that is copied, where kernels write the rest in place
MOST_MORE = 1.01  # limit of the most bytes in use at once, as a multiple of those where all operands are copied


@attrs.frozen
class Places:
    """Hold the places of a concatenation's operands.

    Args:
        joined: the concatenation, and those among its operands.
        views: for each node of the graph, where its elements lie then.
        copied: the operand that is copied, with its place, and the concatenation that reads it; None where kernels
            write all.
    """

    joined: frozenset[int]
    views: dict[int, View]
    copied: tuple[int, View, int] | None


@attrs.frozen(eq=False)
class Arranged:
    """Hold the launches of parts, and where their arrays lie.

    Args:
        graph: the graph, with a node for each operand that is copied; no node reads these.
        parts: the parts.
        launches: the launches of each part; none for a concatenation that is written in place.
        order: positions of the parts, in the order in which they run.
        views: for each node, where its elements lie in memory.
    """

    graph: Graph
    parts: tuple[Part, ...]
    launches: tuple[tuple[Launch, ...], ...]
    order: tuple[int, ...]
    views: dict[int, View]

    @property
    def all(self) -> list[Launch]:
        """List the launches in order, each with the concatenations of which it writes the first part."""
        seen, made = set[int](), list[Launch]()
        for launch in (x for at in self.order for x in self.launches[at]):
            begun = self.written(launch) - seen
            made.append(attrs.evolve(launch, begun=tuple(sorted(begun))) if begun else launch)
            seen |= begun
        return made

    def written(self, launch: Launch) -> set[int]:
        """Return the concatenations of which a launch writes parts in place."""
        there = {self.views[i].node for i in launch.part.outputs} - set(launch.part.outputs)
        return {i for i in there if self.graph.nodes[i].op == "concatenate"}


def in_place(
    graph: Graph, launches: Sequence[Launch], views: dict[int, View], kernels: Kernels, spends: bool
) -> tuple[Graph, list[Launch], dict[int, View]]:
    """Let kernels write the operands of concatenations in place.

    Args:
        graph: the graph.
        launches: the launches, in order.
        views: for each node, where its elements lie in memory.
        kernels: gives a part its launches.
        spends: whether calls release inputs (`Plan.spend`), so that inputs count among the bytes in use.

    Returns:
        The graph, with a node for each operand that is copied, the launches, and where elements lie.
    """
    parts = tuple(launch.part for launch in launches)
    search = Search(graph, parts)
    now = Arranged(graph, parts, tuple((launch,) for launch in launches), tuple(range(len(parts))), views)
    most = [MOST_MORE * nbytes for nbytes in peaks(graph, launches, views)] if search.whole else []
    for number in sorted(search.whole, reverse=True):  # outer ones first
        places = search.places(number, now.views) if now.launches[search.whole[number]] else None
        then = None if places is None else _arranged(now, search.whole, places, kernels)
        if places is not None and then is not None:
            for one in _orders(then, [search.whole[i] for i in places.joined]):
                held, spent = peaks(one.graph, one.all, one.views)
                if held <= most[0] and (spent <= most[1] or not spends):
                    now = one if _pays(now, one, kernels) else now
                    break
    return now.graph, now.all, now.views


def _arranged(now: Arranged, whole: Mapping[int, int], places: Places, kernels: Kernels) -> Arranged | None:
    """Return the launches with operands in their places; None where no kernel writes one, or a library reads one.

    Args:
        now: the launches.
        whole: by concatenation, the position of its part.
        places: the places of its operands.
        kernels: gives a part its launches.
    """
    graph, views, parts = now.graph, dict(places.views), now.parts
    order, launches = list(now.order), list(now.launches)
    if places.copied is not None:  # by the launch that concatenates now
        (i, there, reader), number = places.copied, len(graph.nodes)
        node = graph.nodes[i]
        graph = attrs.evolve(graph, nodes=(*graph.nodes, Node("copy", (i,), (), node.shape, node.dtype)))
        views[number] = there
        order.insert(order.index(whole[reader]), len(parts))
        parts = (*parts, Part("pointwise", (number,), (i,), (number,)))
        launches.append(())
    kernels.graph = graph
    for at, part in enumerate(parts):
        if not places.joined.isdisjoint(part.nodes):
            launches[at] = ()
        elif any(views[i] != now.views.get(i) for i in (*part.inputs, *part.outputs)):
            if any(x.kernel is None for x in launches[at]):  # a library's functions take arrays of their own
                return None
            why = next((x.why for x in launches[at]), "")
            launches[at] = tuple(attrs.evolve(x, why=x.why or why) for x in kernels.of(part, views))
    then = Arranged(graph, parts, tuple(launches), tuple(order), views)
    return None if any(x.kernel is None and then.written(x) for each in launches for x in each) else then


def _orders(then: Arranged, gone: Sequence[int]) -> list[Arranged]:
    """Let copies of operands run as early as they can, or as late.

    What an early copy reads is released early; a late one may run behind the peak of memory.

    Args:
        then: the launches.
        gone: positions of the parts that concatenated the operands.
    """
    parts, early, late = then.parts, list(then.order), list(then.order)
    for at, part in enumerate(parts):
        written = any(then.written(x) for x in then.launches[at])
        if not written or any(then.graph.nodes[n].op != "copy" for n in part.nodes):
            continue
        read = {base_of(then.graph, i) for i in part.inputs}
        writers = [w for w, other in enumerate(parts) if not read.isdisjoint(other.outputs)]
        if not read <= {i for w in writers for i in parts[w].outputs}:  # an input, which a launch may write to
            continue
        early.remove(at)
        early.insert(1 + max(map(early.index, writers)), at)
        left = [other for w, other in enumerate(parts) if w != at and w not in gone]
        others = {base_of(then.graph, i) for other in left for i in other.inputs}
        last = min(map(late.index, gone))
        if others.isdisjoint(part.outputs) and late.index(at) < last:
            late.remove(at)
            late.insert(last - 1, at)
    return [attrs.evolve(then, order=tuple(order)) for order in (early, late)]


def _pays(now: Arranged, then: Arranged, kernels: Kernels) -> bool:
    """Say whether launches take no longer where operands are written in place, and no kernel is lost; kept on disk.

    Args:
        now: the launches that copy operands.
        then: those that write them in place.
        kernels: gives parts their launches.
    """
    old = (*now.launches, *[()] * (len(then.parts) - len(now.parts)))
    pairs = [x for x in zip(then.parts, old, then.launches, strict=True) if x[1] is not x[2]]
    forms = [form_of(now.graph, part, now.views, kernels.free).key for part, before, _ in pairs if before]
    forms += [form_of(then.graph, part, then.views, kernels.free).key for part, _, after in pairs if after]
    problem = f"in place {kernels.arch} {forms!r}"
    kept = kept_choice(problem)
    if kept is not None and "in place" in kept:
        return bool(kept["in place"])
    unknown, us = _times(now.graph, [x for _, before, _ in pairs for x in before], kernels.arch)
    unknown_after, us_after = _times(then.graph, [x for _, _, after in pairs for x in after], kernels.arch)
    found = unknown_after <= unknown and us_after <= us
    keep_choice(problem, {"in place": found})
    return found


def _times(graph: Graph, launches: Sequence[Launch], arch: str) -> tuple[int, float]:
    """Count the launches whose time the model does not know, and add up the others' times in microseconds."""
    times = [_copy_us(graph, x, arch) or x.modelled_us for x in launches]
    return sum(us is None for us in times), sum(us for us in times if us is not None)


def _copy_us(graph: Graph, launch: Launch, arch: str) -> float | None:
    """Return the time in which a library concatenates, by the bandwidth of memory; None for other launches."""
    nodes = [node for n in launch.part.nodes if (node := graph.nodes[n]).kind != "view"]
    if launch.kernel is not None or [node.op for node in nodes] != ["concatenate"]:
        return None
    gpu = machine(arch)
    return gpu.launch_us + 2 * nodes[0].nbytes / gpu.dram_gbps * 1e-3


class Search:
    """Find the places of operands.

    Args:
        graph: the graph.
        parts: the parts of its launches.
    """

    def __init__(self, graph: Graph, parts: Sequence[Part]) -> None:
        self.graph, nodes = graph, graph.nodes
        done = [[n for n in part.nodes if nodes[n].kind != "view"] for part in parts]
        # By concatenation, the position of its part, if this part does nothing but concatenate.
        self.whole = {
            n: at for at, found in enumerate(done) if {nodes[n].op for n in found} == {"concatenate"} for n in found
        }
        # Kernels that write to elements at numbers need zeros ahead of them, or an array of the caller.
        written = {i for part in parts for i in part.outputs if nodes[i].kind != "scatter"}
        returned = {base_of(graph, i) for i in graph.outputs}
        self.writable = (written | self.whole.keys()) - returned

    def places(self, number: int, views: Mapping[int, View]) -> Places | None:
        """Return the places of a concatenation's operands; None where these cannot be written in place.

        Args:
            number: the concatenation.
            views: for each node, where its elements lie in memory.
        """
        found, copied = dict[int, View](), list[tuple[int, View, int]]()
        if not self._placed(number, views[number], views, found, copied):
            return None
        many = sum(self.graph.nodes[i].size for i, _, _ in copied) > MOST_COPIED * self.graph.nodes[number].size
        made = moved_views(self.graph, views, found)
        if made is None or len(copied) > 1 or many:
            return None
        joined = {number, *(i for i in found if i in self.whole)}
        gone = {self.whole[i] for i in joined}
        rest = any(at in gone and i not in joined for i, at in self.whole.items())
        return None if rest else Places(frozenset(joined), made, next(iter(copied), None))

    def _placed(
        self,
        number: int,
        view: View,
        views: Mapping[int, View],
        found: dict[int, View],
        copied: list[tuple[int, View, int]],
    ) -> bool:
        """Add the places of a concatenation's operands to `found`, or `copied`; say whether all have one.

        Operands that are concatenations are written in place too.
        """
        node, nodes, start = self.graph.nodes[number], self.graph.nodes, 0
        axis = int(node["axis"])
        for i in node.inputs:
            target = sliced(view, axis, start, nodes[i].shape[axis])
            start += nodes[i].shape[axis]
            base, there = source_of(self.graph, i, target) or (i, target)
            if nodes[i].dtype != node.dtype:
                return False
            alone = base not in found and base in self.writable and views[base].node == base
            if not alone or not _fits(there, views[base], node.dtype.bits):
                copied.append((i, target, number))
                continue
            found[base] = there
            if base in self.whole and not self._placed(base, there, views, found, copied):
                return False
        return True


def _fits(view: View, own: View, bits: int) -> bool:
    """Say whether a slice starts at a sector, as do its lines, and its axes have the order of an array of its own.

    Args:
        view: the slice.
        own: the array.
        bits: of an element.

    Example:
        >>> own, slices = View(0, 0, (4, 32), (32, 1)), [View(1, start, (4, 32), (80, 1)) for start in (16, 40)]
        >>> [_fits(view, own, 16) for view in slices]
        [True, False]
    """
    axes = [a for a, n in enumerate(view.shape) if n > 1]
    order = sorted(axes, key=lambda a: view.strides[a])
    if bits < 8 or order != sorted(axes, key=lambda a: own.strides[a]):
        return False
    line = 1
    while order and view.strides[order[0]] == line:
        line *= view.shape[order.pop(0)]
    sector = 8 * SECTOR_NBYTES // bits
    whole = all(step % sector == 0 for step in (view.offset, *(view.strides[a] for a in order)))
    return whole and (not order or line * bits >= 8 * LEAST_LINE)
