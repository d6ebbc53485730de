"""The differences between two kernels that follow from differences of their schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import attrs

from fireiron.kernel.ir.statements import Kernel
from fireiron.language.decompositions import Done, Epilog
from fireiron.show import lowered
from fireiron.show.scheduled import Scheduled
from fireiron.show.steps import nested, steps
from fireiron.show.words import amount, head

Part = Literal["spec", "links", "kernel"]


class AccessRow(Protocol):
    """Describe one access of a Move: its region, memory, degree of bank conflicts, and sectors per request."""

    @property
    def title(self) -> str:
        """Return the name of the Move."""
        ...

    @property
    def place(self) -> tuple[str, str, str]:
        """Return a key of the region: its path, its purpose, and the buffer that it writes."""
        ...

    @property
    def memory(self) -> object:
        """Return the memory that is accessed."""
        ...

    @property
    def conflicts(self) -> float:
        """Return the degree of bank conflicts; 1 without conflicts."""
        ...

    @property
    def sectors(self) -> float:
        """Return the sectors per request."""
        ...


@attrs.frozen
class Difference:
    """Hold one difference.

    Args:
        part: whether specs, links or kernels differ.
        place: what differs: `load A to SH`; empty where `what` names it.
        what: the difference: `pad 0 → 4`, `added`, `removed`.
    """

    part: Part
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" if self.place else self.what


def arrow(name: str, old: object, new: object) -> str:
    """Write a change: `pad 0 → 4`."""
    return f"{name} {old} → {new}".lstrip()


def consequences(a: Scheduled, b: Scheduled, kernels: tuple[Kernel, Kernel]) -> Iterable[Difference]:
    """Yield the differences of two schedules' kernels: threads, memory, barriers, instructions."""
    facts = [
        ("blocks", *(str(k.grid) for k in kernels)),
        ("threads", *(str(k.threads) for k in kernels)),
        ("shared memory", *_amounts(kernels)),
        ("registers a thread for tensors", *(str(lowered.register_total(k)) for k in kernels)),
        ("barriers", *(str(len(lowered.barriers(k))) for k in kernels)),
        ("computed by", *(lowered.compute_name(k) or "nothing" for k in kernels)),
    ]
    yield from (Difference("kernel", "", arrow(name, old, new)) for name, old, new in facts if old != new)
    atoms = [_atoms(s, k) for s, k in zip((a, b), kernels, strict=True)]
    for place, old in atoms[0].items():
        new = atoms[1].get(place, old)
        if new != old:
            yield Difference("kernel", place, arrow("", " and ".join(old), " and ".join(new)))


def _amounts(kernels: tuple[Kernel, Kernel]) -> tuple[str, ...]:
    """Print the shared memory of both kernels in one unit."""
    rounded = tuple(amount(k.shared_nbytes) for k in kernels)
    same = len({text.split(" ")[1] for text in rounded if text != "0 B"}) < 2
    return rounded if same else tuple(f"{k.shared_nbytes} B" for k in kernels)


def _atoms(schedule: Scheduled, kernel: Kernel) -> dict[str, tuple[str, ...]]:
    """Return, by load or store, the instructions of its last hop."""
    found: dict[str, tuple[str, ...]] = {}
    for step in steps(schedule):
        move = nested(step)
        names = lowered.move_atoms(kernel, move, step) if move else ()
        if names and move and isinstance(move.steps[-1].link, Done):
            found["store C" if isinstance(step.link, Epilog) else head(step.link)] = names
    return found


def traffic(a: Sequence[AccessRow], b: Sequence[AccessRow]) -> Iterable[Difference]:
    """Compare the worst access of each Move that both kernels have; sizes in the Moves' names may differ."""
    before, after = _worst(a), _worst(b)
    for (place, memory), (words, conflicts, sectors) in before.items():
        if (place, memory) not in after:
            continue
        later = after[place, memory][1:]
        for name, old, new in (("conflicts", conflicts, later[0]), ("sectors per request", sectors, later[1])):
            if old != new:
                yield Difference("kernel", f"{words}, {memory}", arrow(name, f"{old:.4g}", f"{new:.4g}"))


def _worst(rows: Sequence[AccessRow]) -> dict[tuple[tuple[str, ...], str], tuple[str, float, float]]:
    """Return each Move's worst access: its name, degree of bank conflicts, and sectors per request.

    The key is the buffer that the Move fills, or else its path.
    """
    worst: dict[tuple[tuple[str, ...], str], tuple[str, float, float]] = {}
    for row in rows:
        path, kind, buffer = row.place
        key = ((kind, buffer) if buffer else (path,), str(row.memory))
        words, conflicts, sectors = worst.get(key, (row.title.split(":")[0], 0, 0))
        worst[key] = (words, max(conflicts, row.conflicts), max(sectors, row.sectors))
    return worst
