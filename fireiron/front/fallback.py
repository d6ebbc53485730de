"""The schedules that take the place of one that the installed compiler builds poorly: it spills, or crashes NVRTC."""

# pyright: reportPrivateUsage=false
# What replaces a schedule is a part of it that users do not see.

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.base.errors import CompileError
from fireiron.estimate.registers import registers_lacking

if TYPE_CHECKING:
    from fireiron.algebra.arch import Arch
    from fireiron.front.host import HostKernel
    from fireiron.front.verbs import Schedule
    from fireiron.jit.compile import Compiler
    from fireiron.jit.kernel import CompiledKernel
    from fireiron.language.decompositions import Decomposition

# Errors of a kernel that would compute right, or would with other registers.
SLOWER = ("spills", "stack", "wgmma-serialised")  # errors of a kernel that would compute right
POORLY_BUILT = ("compiler-crash", "spills", "stack", "wgmma-serialised", "wgmma-registers", "setmaxnreg-ignored")


def ready(schedule: Schedule, host: bool = False) -> CompiledKernel | HostKernel:
    """Give a schedule's kernel for calls of functions; a warning says where registers spill in every choice.

    Args:
        schedule: what the function has chosen.
        host: whether arrays lie in host memory: without a GPU they are then simulated.

    Raises:
        CompileError: as `compile` does, except for findings that only make a kernel slower.
    """
    from fireiron.front.host import HostKernel, without_gpu

    return HostKernel(schedule.lowered()) if host and without_gpu() else at_worst_slower(schedule.compile)


def at_worst_slower(build: Callable[..., CompiledKernel]) -> CompiledKernel:
    """Compile a kernel by a function that takes `allow_spills=`; where it spills, warn, and take it as it is.

    Raises:
        CompileError: as `build` does, except for findings that only make a kernel slower.
    """
    try:
        return build()
    except CompileError as error:
        if error.code not in SLOWER:
            raise
        warnings.warn(f"slower than it could be: {str(error).splitlines()[0]}", stacklevel=3)
        return build(allow_spills=True)


@attrs.frozen(eq=False)
class Fallback:
    """Find the schedules that replace one that `best` chose.

    Args:
        choices: a function from a target's name to the choices after this one, the best first.
        refuse: a function that records, for a target's name, which of these choices a compiler built poorly.
        change: a function that is applied to the schedule of each choice.
    """

    choices: Callable[[str], Iterator[Any]]
    refuse: Callable[[str, Sequence[Any], Compiler], None]
    change: Callable[[Any], Any] = lambda schedule: schedule

    def compiled(
        self, schedule: Schedule, error: CompileError, arch: Arch, build: Callable[[Schedule], CompiledKernel]
    ) -> tuple[Schedule, CompiledKernel] | None:
        """Compile the next best choices until one is built well; return its schedule and kernel, or None.

        If a choice spilled, and its tensors are more than a thread's registers, choices with as many or more registers
        in tensors are not compiled, since they would spill too.

        Args:
            schedule: the schedule that was built poorly.
            error: its error.
            arch: the target.
            build: compiles a schedule.

        Raises:
            CompileError: of a choice that does not compile, if it comes before one that is built well.
        """
        from fireiron.jit.compile import compiler

        poor: list[Any] = []
        spilled = _lacking(schedule, error, arch)
        try:
            for choice in self.choices(arch.target.name):
                if registers_lacking(choice.schedule.lowered(arch.name), arch) < spilled:
                    schedule = self.change(choice.schedule)
                    try:
                        return schedule, build(schedule)
                    except CompileError as error:
                        if error.code not in POORLY_BUILT:
                            raise
                        spilled = min(spilled, _lacking(schedule, error, arch))
                poor.append(choice)
        finally:
            self.refuse(arch.target.name, poor, compiler())
        return None


def _lacking(schedule: Schedule, error: CompileError, arch: Arch) -> float:
    """Return the registers that a schedule's tensors lack if this is why it was built poorly, else infinity."""
    lacking = registers_lacking(schedule.lowered(arch.name), arch) if error.code == "spills" else 0
    return lacking if lacking > 0 else inf


def relinked(schedule: Schedule, links: tuple[Decomposition, ...], change: Callable[[Schedule], Schedule]) -> Schedule:
    """Return a schedule with other links.

    Args:
        schedule: the schedule.
        links: the links.
        change: makes the same change to a schedule that takes the place of this one.
    """
    mine = schedule._fallback
    if mine is None:
        return attrs.evolve(schedule, links=links)

    def both(other: Schedule) -> Schedule:
        return change(mine.change(other))

    return attrs.evolve(schedule, links=links, fallback=attrs.evolve(mine, change=both))


def keep_substitute(digest: str, arch: Arch, other: str) -> None:
    """Keep on disk the digest of the schedule that takes the place of a poorly built one."""
    from fireiron.jit.choices import keep_choice

    keep_choice(_substitute(digest, arch), {"digest": other})


def kept_substitute(digest: str, arch: Arch) -> str | None:
    """Return the digest of the schedule that took the place of a poorly built one; None where the disk holds none."""
    from fireiron.jit.choices import kept_choice

    found = (kept_choice(_substitute(digest, arch)) or {}).get("digest")
    return found if isinstance(found, str) else None


def _substitute(digest: str, arch: Arch) -> str:
    return f"in place of {digest} {arch.target.name}"
