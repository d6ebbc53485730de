"""Repeated calls of a plan: launches by address, for arrays that lie as those of an earlier call did.

A call with arrays of the same shapes, strides and types needs no views and no checks of each launch: what an array's
address cannot change was checked in the earlier call. Results share no byte with what a launch reads, because the
memory plan, or the library, has placed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.graph.plan import BEFORE, Launch

if TYPE_CHECKING:
    from fireiron.graph.run import Library, Quick, Runner

LIKE = -1  # among the lines by node, an array that says where arrays lie
MOST_SMALL = 64 << 10  # bytes of a result that shares a block with others although memory is spent sparingly
BLOCK_NBYTES = 1 << 20  # most bytes of that block
ALIGNMENT = 256  # bytes


@attrs.frozen(eq=False)
class Step:
    """Hold a launch of repeated calls.

    Args:
        launch: the launch.
        quick: the checked launch; None where the library computes.
        fresh: results that get memory of their own: node, elements and type.
        dead: nodes whose last reader this launch is.
        cleared: results that are filled with zeros first.
    """

    launch: Launch
    quick: Quick | None
    fresh: tuple[tuple[int, int, DType], ...]
    dead: tuple[int, ...]
    cleared: tuple[int, ...]


@attrs.frozen(eq=False)
class Repeat:
    """Hold what calls with arrays of known forms have in common; `of` makes it behind a call.

    Args:
        runner: runner of the plan.
        forms: shape, strides and type of each array.
        low: for each array, a mask and the bits of its address that the mask must leave.
        lined: positions of the arrays that the library reads, or returns views of.
        steps: the launches.
        nbytes: bytes of the block that results share.
        offsets: by result in the block, its first byte.
        typed: results in the block that the library reads or writes.
    """

    runner: Runner
    forms: tuple[object, ...]
    low: tuple[tuple[int, int], ...]
    lined: frozenset[int]
    steps: tuple[Step, ...]
    nbytes: int
    offsets: Mapping[int, int]
    typed: tuple[int, ...]

    @classmethod
    def of(
        cls, runner: Runner, forms: tuple[object, ...], addresses: Sequence[int], device: int, spend: bool
    ) -> Repeat | None:
        """Prepare repeated calls; None where a kernel is not launched by addresses alone.

        Args:
            runner: runner of the plan, behind a call.
            forms: shape, strides and type of each array of the call.
            addresses: addresses of the arrays.
            device: number of the GPU.
            spend: as the call takes it.
        """
        plan, nodes = runner.plan, runner.plan.graph.nodes
        launches = [(place, launch) for place, launch in enumerate(plan.launches) if not launch.once]
        quick = {place: runner.quick.get((place, device)) for place, _ in launches}
        by_library = {p for p, launch in launches if launch.kernel is None or p in runner.failed}
        if any(quick[p] is None and p not in by_library for p in quick):
            return None
        touched = {plan.views[i].node for i in plan.graph.outputs}
        for place in by_library:
            part = plan.launches[place].part
            read = {i for n in part.nodes for i in nodes[n].inputs}
            touched |= {plan.views[i].node for i in (*part.inputs, *part.outputs, *read)}
        touched |= {i for _, launch in launches for i in launch.cleared}
        masks = dict[int, int]()
        for each in filter(None, quick.values()):
            for node, _ in each.spots:
                masks[node] = max(masks.get(node, 0), each.plan.align_mask)
        given = [masks.get(one.node, 0) for one in runner.inputs]
        offsets = _small(runner, by_library, launches) if spend else dict(plan.memory.offsets)
        ends = (at + nodes[i].dtype.nbytes_of(runner.sizes[i]) for i, at in offsets.items())
        nbytes = max(ends, default=0) if spend else plan.memory.nbytes
        held = {*plan.graph.inputs, *touched, *(i for _, x in launches for i in (*x.begun, *x.part.outputs))}
        steps = tuple(
            Step(
                launch,
                quick[place],
                () if launch.kernel is None else _fresh(runner, launch, offsets),
                tuple(i for i in runner.dead.get(place, ()) if i in held),
                launch.cleared,
            )
            for place, launch in launches
        )
        return cls(
            runner,
            forms,
            tuple((mask, address & mask) for mask, address in zip(given, addresses, strict=True)),
            frozenset(p for p, one in enumerate(runner.inputs) if one.node in touched),
            steps,
            nbytes,
            offsets,
            tuple(i for i in offsets if i in touched),
        )

    def __call__(self, arrays: list[Any], library: Library, stream: int, spend: bool) -> tuple[Any, ...] | None:
        """Compute the outputs as the runner does; None, before anything is computed, for arrays of other forms.

        Args:
            arrays: one for each input.
            library: library of the arrays.
            stream: the stream to launch in.
            spend: as the runner takes it.
        """
        runner = self.runner
        form, address, plan = library.form, library.address, runner.plan
        if len(arrays) != len(self.forms):
            return None
        places = list(map(address, arrays))
        if any(place & mask != low for place, (mask, low) in zip(places, self.low, strict=True)):
            return None
        if tuple(map(form, arrays)) != self.forms:
            return None
        like = arrays[0] if arrays else None
        lines: dict[int, Any] = {LIKE: like}
        at: dict[int, int] = {}
        for position, one in enumerate(runner.inputs):
            lines[one.node] = one.line(arrays[position], library) if position in self.lined else arrays[position]
            at[one.node] = places[position]
        if runner.once:
            runner.settle(lines, arrays, library)
            at |= {i: address(lines[i]) for _, launch in runner.once for i in launch.part.outputs}
        block = library.empty(self.nbytes, like) if self.nbytes or spend else None
        if spend:
            like = lines[LIKE] = block
            arrays.clear()
            for owner in runner.dead.get(BEFORE, ()):
                lines.pop(owner, None)
        start = address(block) if self.offsets else 0
        for i, offset in self.offsets.items():
            at[i] = start + offset
        for i in self.typed:
            lines[i] = library.typed(block, self.offsets[i], runner.sizes[i], plan.graph.nodes[i].dtype)
        for step in self.steps:
            for i, size, dtype in step.fresh:
                made = lines[i] = library.elements(size, dtype, like)
                at[i] = address(made)
            if step.quick is None:
                runner.compute(step.launch, lines, library)
                single = (i for i in step.launch.own(plan.views) if not isinstance(lines[i], list))
                at |= {i: address(lines[i]) for i in single}
            else:
                for i in step.cleared:
                    library.clear(lines[i])
                spots = step.quick.spots
                found = [(at[i] if i in at else runner.place(i, at, lines, library)) + first for i, first in spots]
                step.quick.plan.run(found, step.quick.numbers, stream)
            for owner in step.dead:
                lines.pop(owner, None)
        return tuple(library.strided(lines[plan.views[i].node], plan.views[i]) for i in plan.graph.outputs)


def _fresh(runner: Runner, launch: Launch, offsets: Mapping[int, int]) -> tuple[tuple[int, int, DType], ...]:
    nodes = runner.plan.graph.nodes
    own = launch.own(runner.plan.views)
    return tuple((i, runner.sizes[i], nodes[i].dtype) for i in own if i not in offsets)


def _small(runner: Runner, by_library: set[int], launches: Sequence[tuple[int, Launch]]) -> dict[int, int]:
    """Place small results that are no outputs in one block, one behind the other."""
    plan, found, end = runner.plan, dict[int, int](), 0
    outputs = {plan.views[i].node for i in plan.graph.outputs}
    for place, launch in launches:
        for i in launch.own(plan.views) if place not in by_library else ():
            nbytes = plan.graph.nodes[i].dtype.nbytes_of(runner.sizes[i])
            if i not in outputs and nbytes <= MOST_SMALL and end + nbytes <= BLOCK_NBYTES:
                found[i] = end
                end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return found
