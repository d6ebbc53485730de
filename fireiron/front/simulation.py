"""Simulate a schedule: bind arrays, run, and compare the results with a reference in higher precision."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import attrs

from fireiron.base.contract import refused
from fireiron.base.errors import UsageError
from fireiron.jit import bind
from fireiron.jit.arrays import describe
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import as_tuple
from fireiron.kernel.ir.statements import Kernel, Workspace
from fireiron.simulate import Report, cost, simulate
from fireiron.simulate.kept import Kept
from fireiron.simulate.watch import At, Moment, Watch, watch
from fireiron.verify.random_data import random_arrays

if TYPE_CHECKING:
    from fireiron.front.verbs import Schedule
    from fireiron.verify.comparison import Comparison


@attrs.frozen(eq=False, repr=False, slots=False)
class Simulation:
    """Hold the results of a simulation.

    Args:
        out: the written array, or a tuple of several.
        report: traffic, conflicts, barriers, findings.
        arrays: all arrays by name.
        verify: function that compares the outputs with a reference in higher precision; None without a reference, and
            where the simulation stopped before its end.
        kept: by name, the tiles that `keep=` copied.
        moment: the moment at which tiles were copied; None without `keep=`.
        stopped: whether the simulation ended at `moment`.
    """

    out: Any
    report: Report
    arrays: dict[str, Any]
    verify: Callable[[], Comparison] | None = None
    kept: Mapping[str, Kept] = attrs.field(factory=dict[str, Kept])
    moment: Moment | None = None
    stopped: bool = False

    @cached_property
    def comparison(self) -> Comparison | None:
        """Compare the outputs with NumPy in f64; the first access computes this, from the arrays as they are then."""
        return None if self.verify is None else self.verify()

    def __str__(self) -> str:
        if self.moment is None:
            return self._words
        when = f"stopped before {self.moment}" if self.stopped else f"{self._words}\nkept before {self.moment}"
        if self.moment.did:
            when = when.replace(" before ", " at ") + f"; it did {', '.join(self.moment.did)}"
        return "\n".join([when, *map(str, self.kept.values())])

    @property
    def _words(self) -> str:
        words = f"{self.report.blocks} of {self.report.grid} blocks, {self.report.barriers} barriers"
        return words if self.comparison is None else f"{words}; {self.comparison.word}: {self.comparison}"

    def __repr__(self) -> str:
        if self.stopped:
            return f"<Simulation stopped before {self.moment}>"
        return f"<Simulation of {self._words}>"


def simulate_schedule(
    kernel: Kernel,
    inputs: Sequence[Any],
    out: Any,
    blocks: int | Sequence[int] | None,
    track: bool,
    scalars: Mapping[str, Any],
    launched: int | None = None,
    each: Callable[[int, int], None] | None = None,
    schedule: Schedule | None = None,
    overflow: Literal["wrap", "error"] = "wrap",
    watch: Watch | None = None,
    shows: bool = False,
) -> Simulation:
    """Bind arguments as a kernel's call does, and run on the simulator.

    Args:
        kernel: the lowered kernel.
        inputs: arrays; random ones where there are none.
        out: arrays to write.
        blocks: number of blocks to run, or their numbers; None for all.
        track: whether to look for races.
        scalars: sizes and numbers by name.
        launched: number of blocks that a persistent kernel is launched with.
        each: a function that is called after each cluster with the numbers of simulated blocks and of all blocks; None
            for none.
        schedule: the schedule of the kernel, for the comparison.
        overflow: what happens when a sum of integers exceeds 32 bits: `wrap` or `error`.
        watch: the tiles to copy, and the moment of the copy; None for none.
        shows: whether a terminal shows the progress of a long simulation.

    Raises:
        CallError: as a call does. SimulationError: a race or another fault. UsageError: `no-such-moment`.
    """
    interface = Interface.of(kernel)
    outs: tuple[Any, ...] = as_tuple(out)
    if not inputs and not outs:
        given, numbers = bind.split_scalars(interface, scalars)
        missing = [p.name for p in interface.symbols if p.name not in given]
        if missing:
            raise UsageError(
                "unknown-size",
                f"no inputs and no value for the size {missing[0]}",
                fix=f"pass {missing[0]}=..., or arrays",
            )
        sizes = bind.solve(interface, {}, given)
        arrays = random_arrays(interface, sizes)
    else:
        bind.check_count(interface, len(inputs), len(outs))
        given, numbers = bind.split_scalars(interface, scalars)
        described = {p.name: describe(a, p.name) for p, a in zip(interface.inputs, inputs, strict=True)}
        described |= {p.name: describe(a, p.name) for p, a in zip(interface.outputs, outs, strict=False)}
        sizes = bind.bind(interface, described, given).sizes
        bind.check_overlap(interface, described)
        arrays = random_arrays(interface, sizes, given=described)
        arrays |= {p.name: described[p.name].owner for p in interface.inputs}
        arrays |= {p.name: a for p, a in zip(interface.outputs, outs, strict=False)}
    before = {} if schedule is None else {p.name: arrays[p.name].copy() for p in interface.outputs}
    with _progress(kernel, sizes, each, shows and blocks is None) as each:
        report = simulate(kernel, arrays, sizes, numbers, blocks, track, launched, each, overflow, watch)
    written = tuple(arrays[p.name] for p in interface.outputs)

    def verify() -> Comparison:
        from fireiron.verify.reference import references
        from fireiron.verify.verification import Data, held

        assert schedule is not None
        data = Data("random", interface, sizes, numbers, arrays, before)
        wanted = references(schedule, {**arrays, **before}, {**sizes, **numbers}, drawn=not inputs)
        return held(schedule, data, wanted, report.blocks < report.grid)

    made = written[0] if len(written) == 1 else written
    if watch is None or watch.moment is None:
        return Simulation(made, report, arrays, None if schedule is None else verify)
    check = None if schedule is None or watch.stops else verify
    return Simulation(made, report, arrays, check, watch.kept, watch.moment, watch.stops)


@contextmanager
def _progress(
    kernel: Kernel, sizes: Mapping[str, int], each: Callable[[int, int], None] | None, shows: bool
) -> Generator[Callable[[int, int], None] | None]:
    """Show a bar of progress, unless the caller has a function for it."""
    from fireiron.front.host import bar

    if each is not None or not shows:
        yield each
        return
    with bar(kernel, cost(kernel, sizes)) as made:
        yield made


def watched(
    kernel: Kernel, keep: Sequence[str] | str, at: At | str | None, break_at: At | str | None
) -> tuple[Watch | None, tuple[int, ...] | None]:
    """Make the watch for `keep`, `at` and `break_at` of `simulate`, and choose the blocks to run if it stops early.

    Raises:
        UsageError: `no-such-tile`, `no-such-moment`, `no-such-loop`, `two-moments`.
    """
    if not keep and at is None and break_at is None:
        return None, None
    if at is not None and break_at is not None:
        raise UsageError("two-moments", "at= and break_at= both choose a moment", fix="give one of them")
    found = at if break_at is None else break_at
    found = At(found) if isinstance(found, str) else found
    if found is not None and not isinstance(found, At):  # pyright: ignore[reportUnnecessaryIsInstance]
        word = "at=" if break_at is None else "break_at="
        raise refused(word, ("a moment", "a word of a statement, or At(...)"), found, UsageError)
    made = watch(kernel, (keep,) if isinstance(keep, str) else tuple(keep), found, break_at is not None)
    if break_at is None or kernel.persistent:
        return made, None
    # Blocks that add to each other's sums need those before them.
    together = any(isinstance(p, Workspace) for p in kernel.parameters)
    return made, tuple(range(made.block + 1)) if together else (made.block,)
