"""Schedules that another process chose: the disk holds their digests, and a schedule is built only where it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from fireiron.front.verbs import Schedule
    from fireiron.jit.kernel import CompiledKernel


@attrs.frozen
class KeptSchedule:
    """Hold the digest of a schedule, which suffices to load its kernel from the disk.

    Args:
        digest: digest of the schedule, see `fireiron.front.digest`.
        name: name of the kernel.
        arch: the target.
        make: a function that builds the schedule.
        forget: a function that removes the digest from the disk; called where `make` gives another schedule.
        early: the same schedule with a dependent launch; None where it was not kept.
    """

    digest: str
    name: str
    arch: str
    make: Callable[[], Schedule] = attrs.field(eq=False, repr=False)
    forget: Callable[[], None] = attrs.field(eq=False, repr=False)
    early: KeptSchedule | None = attrs.field(default=None, eq=False, repr=False)

    @cached_property
    def schedule(self) -> Schedule:
        """Return the schedule; the first access builds it."""
        from fireiron.front.digest import digest

        made = self.make()
        if digest(made.program, made.links, made.name) != self.digest:  # a compiler has refused the kept one since
            self.forget()
        return made

    def compile(self, allow_spills: bool = False) -> CompiledKernel:
        """Load the kernel from the disk; where the disk has none, build the schedule, and compile it.

        Args:
            allow_spills: as `Schedule.compile` takes it; such kernels are not on the disk.
        """
        if allow_spills:
            return self.schedule.compile(allow_spills=True)
        from fireiron.algebra.arch import arch
        from fireiron.front.fallback import kept_substitute
        from fireiron.front.host import simulated
        from fireiron.jit.build import from_disk

        def simulator(arrays: Mapping[str, Any], sizes: Mapping[str, int], numbers: Mapping[str, Any]) -> None:
            simulated(self.schedule.lowered(self.arch), arrays, sizes, numbers)

        target = arch(self.arch)
        found = from_disk(self.digest, target, simulator=simulator)
        if found is None and (other := kept_substitute(self.digest, target)) is not None:
            found = from_disk(other, target, simulator=simulator)
        return self.schedule.compile() if found is None else found
