"""The launches of a part, kept on disk: for a part that was planned before, no schedule is chosen, built or lowered.

One file holds the launches of all parts with one form (`fireiron.graph.alike`). Another version of fireiron, another
GPU, other options of the plan, and other records of measurements do not read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.algebra.dtypes import dtype
from fireiron.graph.alike import Form
from fireiron.graph.areas import Part
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.graph.lowered import Lowered, Operand
from fireiron.graph.nodes import Graph
from fireiron.graph.views import View

if TYPE_CHECKING:
    from fireiron.front.verbs import Schedule
    from fireiron.graph.plan import Launch
    from fireiron.graph.sizes import Samples


@attrs.frozen(eq=False)
class KeptLaunches:
    """Read and describe the launches of a part.

    Args:
        form: description of the part.
        key: text of everything that the launches depend on.
        make: a function that builds the schedule of a part.
        early: whether kernels may begin while the kernel before them ends.
    """

    form: Form
    key: str
    make: Callable[[Part], Schedule]
    early: bool

    def read(self) -> list[Launch] | None:
        """Return the launches; None where the disk holds none, or a damaged file."""
        from fireiron.graph.plan import Launch
        from fireiron.jit.choices import kept_choice

        facts = kept_choice(self.key)
        try:
            if facts is None or facts["check"] != _check(facts["launches"]):
                return None
            made: list[Launch] = []
            for each in facts["launches"]:
                part = self._part(each["part"])
                kernel = None if each["kernel"] is None else self._kernel(each["kernel"], part)
                made.append(Launch(part, kernel, each["why"], each["exposed_us"]))
        except (KeyError, TypeError, ValueError, IndexError):
            return None
        return made

    def facts(self, launches: Sequence[Launch]) -> Mapping[str, Any]:
        """Describe the launches in plain data, with nodes by their places in the form."""
        from fireiron.graph.dependent import dependent

        place = {number: i for i, number in enumerate(self.form.numbers)}

        def operand(one: Operand) -> dict[str, Any]:
            lies = place[one.view.node], one.view.offset, one.view.shape, one.view.strides
            said = {"lies": lies, "dtype": one.dtype.name, "name": one.name}
            return said | ({"cleared": True} if one.cleared else {})

        def kernel(one: Lowered) -> dict[str, Any]:
            schedules = [one.schedule, dependent(one.schedule)] if self.early else [one.schedule]
            return {
                "schedules": [_described(each) for each in schedules],
                "inputs": {name: operand(each) for name, each in one.inputs.items()},
                "outputs": [operand(each) for each in one.outputs],
            }

        found: list[dict[str, Any]] = []
        for launch in launches:
            part = attrs.asdict(launch.part)
            part |= {name: [place[i] for i in part[name]] for name in ("nodes", "inputs", "outputs")}
            held = None if launch.kernel is None else kernel(launch.kernel)
            found.append({"part": part, "why": launch.why, "exposed_us": launch.exposed_us, "kernel": held})
        return {"launches": found, "check": _check(found)}

    def _there(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.form.numbers[place] for place in places)

    def _part(self, facts: Any) -> Part:
        nodes, inputs, outputs = map(self._there, (facts["nodes"], facts["inputs"], facts["outputs"]))
        return Part(facts["kind"], nodes, inputs, outputs, tuple(facts["why"]))

    def _kernel(self, facts: Any, part: Part) -> Lowered:
        from fireiron.graph.dependent import dependent
        from fireiron.jit.choices import drop_choice

        def operand(one: Any) -> Operand:
            place, offset, shape, strides = one["lies"]
            view = View(self._there((place,))[0], offset, tuple(shape), tuple(strides))
            return Operand(view, dtype(one["dtype"]), one["name"], one.get("cleared", False))

        def kept(one: Any, make: Callable[[], Schedule], early: KeptSchedule | None = None) -> KeptSchedule:
            digest, name, arch = one
            return KeptSchedule(digest, name, arch, make, lambda: drop_choice(self.key), early)

        plain, *early = facts["schedules"]
        behind = kept(early[0], lambda: dependent(source.schedule)) if early else None
        source = kept(plain, lambda: self.make(part), behind)
        inputs = {name: operand(each) for name, each in facts["inputs"].items()}
        return Lowered(source, inputs, tuple(map(operand, facts["outputs"])))


def kept_launches(
    form: Form, graph: Graph, part: Part, views: Mapping[int, View], arch: str, samples: Samples | None, early: bool
) -> KeptLaunches | None:
    """Return the place of a part's launches on disk; None where no text describes all that they depend on.

    Args:
        form: description of the part.
        graph: the graph of the part.
        part: the part.
        views: for each node, where its elements lie in memory.
        arch: the target.
        samples: numbers that are symbols in the kernels; None for a graph without symbols.
        early: whether kernels may begin while the kernel before them ends.
    """
    from fireiron.atoms.table import content
    from fireiron.front.best import measured
    from fireiron.graph.lower import lowered
    from fireiron.language.meaning import text

    if part.kind == "foreign" or content():  # this process has changed instructions
        return None
    said = text(form.key)
    if " at 0x" in said:  # the address of an object that has no description
        return None

    def make(one: Part) -> Schedule:
        return lowered(graph, one, views, arch, samples).schedule

    return KeptLaunches(form, f"launches {arch} {early} {samples} {measured()}\n{said}", make, early)


def _described(schedule: Schedule) -> tuple[str, str, str]:
    """Return a schedule's digest, name and target."""
    from fireiron.front.digest import digest
    from fireiron.front.verbs import target

    name = schedule.name
    return digest(schedule.program, schedule.links, name), name, target(schedule).name


def _check(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
