"""Concatenations in place: kernels write what they compute to its slice of the concatenation's memory, without a copy.

Such a concatenation has no launch: its operands are views of it, for all their readers. Kernels write all operands, or
none: inputs of the graph, results of a library, what a library reads too, and operands that occur twice are copied with
the others.

Kernels must write and read the slices as fast as arrays of their own. A slice starts at a sector of 32 bytes, and so do
its lines, which are no shorter than two sectors: bulk copies and vectors of 16 bytes then serve them, and no sector is
written by two kernels. The axes keep their order in memory. The cost model compares the kernels that write and read the
slices with those of separate arrays and the copy.

The whole concatenation is allocated for its first operand; in return, no operand has memory of its own beside it. Peaks
of memory may grow by a hundredth at most.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from fireiron.algebra.arch import machine
from fireiron.graph.alike import form_of
from fireiron.graph.areas import Part
from fireiron.graph.nodes import Graph
from fireiron.graph.plan import Kernels, Launch, peaks
from fireiron.graph.views import View, base_of, moved_views, sliced, source_of
from fireiron.jit.choices import keep_choice, kept_choice

SECTOR_NBYTES = 32
LEAST_LINE = 2 * SECTOR_NBYTES
MOST_MORE = 1.01  # limit of the most bytes in use at once, as a multiple of those where all operands are copied


@attrs.frozen
class Places:
    """Hold the places of a concatenation's operands.

    Args:
        joined: the concatenation, and those among its operands.
        views: for each node of the graph, where its elements lie then.
    """

    joined: frozenset[int]
    views: dict[int, View]


@attrs.frozen(eq=False)
class Change:
    """Hold the launches of a part before and after its arrays move; none for a concatenation that is no longer copied.

    Args:
        part: the part.
        before: its launches before.
        after: its launches after.
    """

    part: Part
    before: Sequence[Launch]
    after: Sequence[Launch]


def in_place(
    graph: Graph, launches: Sequence[Launch], views: dict[int, View], kernels: Kernels, spends: bool
) -> tuple[list[Launch], dict[int, View]]:
    """Let kernels write the operands of concatenations in place.

    Args:
        graph: the graph.
        launches: the launches, in order.
        views: for each node, where its elements lie in memory.
        kernels: gives a part its launches.
        spends: whether calls release inputs (`Plan.spend`), so that inputs count among the bytes in use.

    Returns:
        The launches, and where elements lie.
    """
    parts = [launch.part for launch in launches]
    search = Search(graph, parts)
    if not search.whole:
        return list(launches), views
    made, found, order = [[launch] for launch in launches], views, list(range(len(launches)))
    most_held, most_spent = (MOST_MORE * nbytes for nbytes in peaks(graph, launches, views))
    for number in sorted(search.whole, reverse=True):  # outer ones first
        places = search.places(number, found) if made[search.whole[number]] else None
        if places is None:
            continue
        gone = [at for at, part in enumerate(parts) if not places.joined.isdisjoint(part.nodes)]
        moved = [
            at
            for at, part in enumerate(parts)
            if at not in gone and any(places.views[i] != found[i] for i in (*part.inputs, *part.outputs))
        ]
        if any(launches[at].kernel is None for at in moved):  # a library's functions take arrays of their own
            continue
        changes = {at: Change(parts[at], made[at], []) for at in gone}
        changes |= {at: Change(parts[at], made[at], _again(kernels, launches[at], places.views)) for at in moved}
        other = [changes[at].after if at in changes else made[at] for at in range(len(parts))]
        then = _early(graph, parts, order, changes)
        new = _begun(graph, [x for at in then for x in other[at]], places.views)
        if any(x.kernel is None and _written(graph, x, places.views) for x in new):
            continue
        held, spent = peaks(graph, new, places.views)
        if held > most_held or (spends and spent > most_spent):
            continue
        if _pays(graph, list(changes.values()), found, places.views, kernels):
            made, found, order = [list(x) for x in other], places.views, then
    return _begun(graph, [x for at in order for x in made[at]], found), found


def _again(kernels: Kernels, launch: Launch, views: Mapping[int, View]) -> list[Launch]:
    """Return the launches of a part whose arrays lie elsewhere, with the reason why it is a part."""
    return [attrs.evolve(x, why=x.why or launch.why) for x in kernels.of(launch.part, views)]


def _early(graph: Graph, parts: Sequence[Part], order: Sequence[int], moving: Collection[int]) -> list[int]:
    """Let copies run behind the launches that compute what they copy, which is then released earlier.

    Args:
        graph: the graph.
        parts: the parts of the launches.
        order: positions of the launches, in the order in which they run.
        moving: positions of the launches that may move.
    """
    made = list(order)
    for place in moving:
        part = parts[place]
        if any(graph.nodes[n].op != "copy" for n in part.nodes):
            continue
        read = {base_of(graph, i) for i in part.inputs}
        writers = [at for at in made if not read.isdisjoint(parts[at].outputs)]
        if read <= {i for at in writers for i in parts[at].outputs}:
            made.remove(place)
            made.insert(max(map(made.index, writers)) + 1, place)
    return made


def _pays(
    graph: Graph, changes: Sequence[Change], before: Mapping[int, View], after: Mapping[int, View], kernels: Kernels
) -> bool:
    """Say whether launches take no longer where operands are written in place, and no kernel is lost; kept on disk.

    Args:
        graph: the graph.
        changes: the launches that change.
        before: where elements lie before.
        after: where elements lie after.
        kernels: the launches of parts.
    """
    forms = [form_of(graph, one.part, before, kernels.free).key for one in changes]
    forms += [form_of(graph, one.part, after, kernels.free).key for one in changes if one.after]
    problem = f"in place {kernels.arch} {forms!r}"
    kept = kept_choice(problem)
    if kept is not None and "in place" in kept:
        return bool(kept["in place"])
    unknown, us = _times(graph, [x for one in changes for x in one.before], kernels.arch)
    unknown_after, us_after = _times(graph, [x for one in changes for x in one.after], kernels.arch)
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
        """Return the places of a concatenation's operands; None where one cannot be written in place.

        Args:
            number: the concatenation.
            views: for each node, where its elements lie in memory.
        """
        found: dict[int, View] = {}
        if not self._placed(number, views[number], views, found):
            return None
        made = moved_views(self.graph, views, found)
        if made is None:
            return None
        joined = {number, *(i for i in found if i in self.whole)}
        gone = {self.whole[i] for i in joined}
        rest = any(at in gone and i not in joined for i, at in self.whole.items())
        return None if rest else Places(frozenset(joined), made)

    def _placed(self, number: int, view: View, views: Mapping[int, View], found: dict[int, View]) -> bool:
        """Add the places of a concatenation's operands to `found`, and say whether all can be written there.

        Operands that are concatenations are written in place too.
        """
        node, nodes, start = self.graph.nodes[number], self.graph.nodes, 0
        axis = int(node["axis"])
        for i in node.inputs:
            source = source_of(self.graph, i, sliced(view, axis, start, nodes[i].shape[axis]))
            start += nodes[i].shape[axis]
            if source is None or nodes[i].dtype != node.dtype:
                return False
            base, there = source
            if base in found or base not in self.writable or views[base].node != base:
                return False
            if not _fits(there, views[base], node.dtype.bits):
                return False
            found[base] = there
            if base in self.whole and not self._placed(base, there, views, found):
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


def _written(graph: Graph, launch: Launch, views: Mapping[int, View]) -> set[int]:
    """Return the concatenations of which a launch writes parts in place."""
    there = {views[i].node for i in launch.part.outputs} - set(launch.part.outputs)
    return {i for i in there if graph.nodes[i].op == "concatenate"}


def _begun(graph: Graph, launches: Sequence[Launch], views: Mapping[int, View]) -> list[Launch]:
    """Write into each launch the concatenations of which it writes the first part."""
    seen, made = set[int](), list[Launch]()
    for launch in launches:
        begun = _written(graph, launch, views) - seen
        made.append(attrs.evolve(launch, begun=tuple(sorted(begun))) if begun or launch.begun else launch)
        seen |= begun
    return made
