"""Watching a block: keeping the values of tiles at a statement, a trip of a loop or a step, and stopping there.

A step is the execution of one coroutine's threads up to the next barrier or wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import attrs
import numpy as np

from fireiron.base.contract import checked_fields
from fireiron.base.errors import UsageError
from fireiron.base.records import Itself
from fireiron.base.text import count
from fireiron.kernel.ir.statements import (
    Arrive,
    Await,
    Call,
    Compute,
    CountIn,
    For,
    Kernel,
    Meet,
    Micro,
    Region,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
    within,
)
from fireiron.simulate.kept import Kept, kept, names_of
from fireiron.simulate.program import Compiler, Nest
from fireiron.simulate.state import State, Team
from fireiron.simulate.steps import Act, Run, Scope, Step, Walk

Works = Call | Compute | Micro
Orders = Sync | CountIn | Meet | Wait | Await | Turn


@attrs.frozen(field_transformer=checked_fields)
class At:
    """Choose a moment of a simulation: directly before the first statement that matches.

    Args:
        what: a part of the CUDA comment above the statement (`load A`), of an instruction's name (`mma`), or of a
            buffer's name; "" matches any statement.
        block: number of the block in the grid.
        trips: values of loop variables, by their names in the CUDA: `{"k": 2}`.
        step: number of a step, from 0 on in each block; a step ends at a barrier or a wait. If only a step is given,
            the moment is its end.

    Example:
        >>> At("mma", trips={"k": 2})
        At(what='mma', block=0, trips={'k': 2}, step=None)
    """

    what: str = ""
    block: int = 0
    trips: Mapping[str, int] = attrs.field(factory=dict[str, int])
    step: int | None = None

    def __str__(self) -> str:
        parts = [repr(self.what)] if self.what else []
        parts += [f"{name} = {value}" for name, value in self.trips.items()]
        parts += [] if self.step is None else [f"step {self.step}"]
        return ", ".join(parts)


@attrs.frozen
class Moment:
    """Describe a moment of a simulation.

    Args:
        block: number of the block in the grid.
        step: number of steps that the block had finished; None at the block's end where steps were not counted.
        what: the next instruction, or the barrier that ended a step.
        title: the CUDA comment above it.
        trips: values of loop variables with a single value, by name.
        role: the role of the statement, "" where all threads do the same.
        did: at the end of a step, the titles of the regions that were executed in it.
        regions: the numbers of these regions.
    """

    block: int
    step: int | None
    what: str
    title: str
    trips: Mapping[str, int]
    role: str = ""
    did: tuple[str, ...] = ()
    regions: tuple[int, ...] = ()

    def __str__(self) -> str:
        trips = "".join(f", {name} = {value}" for name, value in self.trips.items())
        role = f", role {self.role}" if self.role else ""
        title = f" in `{self.title}`" if self.title else ""
        step = "" if self.step is None else f", step {self.step}"
        return f"{self.what}{title}: block {self.block}{role}{step}{trips}"


class Stopped(Exception):
    """Raised to end a simulation at the chosen moment."""


@attrs.define(eq=False, slots=False)
class Watch:
    """Find one moment of a simulation, and keep tiles there.

    Args:
        kernel: the kernel.
        at: the moment; None for the end of block 0.
        keep: names of the tiles to keep.
        stops: whether the simulation ends there.
        each: called at the end of each step of the block.
        block: number of the watched block.
        moment: the moment that was found.
        kept: the kept tiles by name.
    """

    kernel: Kernel
    at: At | None
    keep: tuple[str, ...]
    stops: bool = False
    each: Callable[[Moment, Watch, Team], None] | None = None
    block: int = 0
    moment: Moment | None = None
    kept: dict[str, Kept] = attrs.field(factory=dict[str, Kept])
    step: int = 0
    did: dict[Itself, list[Region]] = attrs.field(factory=dict[Itself, "list[Region]"])

    @cached_property
    def loops(self) -> frozenset[str]:
        """List the variables of the kernel's loops."""
        return frozenset(s.var.name for s in walk(self.kernel.body) if isinstance(s, For))

    def trips(self, scope: Scope, state: State) -> dict[str, int]:
        """Return the values of the loop variables around a statement that have a single value now."""
        found: dict[str, int] = {}
        for name, needs in scope.needs:
            value = state.env.get(name)
            if needs == frozenset([name]) and isinstance(value, int) and name in self.loops:
                found[name] = value
        return found

    @property
    def everywhere(self) -> bool:
        """Say whether statements must be watched, and not only the block's end."""
        return self.each is not None or (self.at is not None and bool(self.at.what or self.at.trips or self._steps))

    @property
    def _steps(self) -> bool:
        return self.at is not None and self.at.step is not None

    def compiler(self, team: Team) -> Compiler:
        """Return the compiler whose statements report to the watch."""
        return Watching(team, self) if self.everywhere else Compiler(team)

    def begin(self) -> None:
        """Start a block."""
        self.step = 0
        self.did.clear()

    def take(self, team: Team, moment: Moment) -> None:
        """Keep the tiles as they are now.

        Raises:
            Stopped: where the simulation ends here.
        """
        self.moment = moment
        self.kept = kept(team.member, self.keep, team.machine.sizes)
        if self.stops:
            raise Stopped

    def comes(self, team: Team, statement: Works, scope: Scope, state: State) -> None:
        """Check whether the moment is before a statement that accesses data."""
        if team.member.block != self.block:
            return
        title = scope.title
        did = self.did.setdefault(Itself(team), [])
        if scope.region is not None and all(known is not scope.region for known in did):
            did.append(scope.region)
        at = self.at
        if self.moment is not None or at is None or not (at.what or at.trips) or at.step not in (None, self.step):
            return
        if not fits(statement, scope.region, at.what):
            return
        if all(_is(state.env.get(name), value) for name, value in at.trips.items()):
            self.take(
                team, Moment(self.block, self.step, name_of(statement), title, self.trips(scope, state), _role(team))
            )

    def ends(self, team: Team, statement: Orders, scope: Scope, state: State) -> None:
        """Count a step at its end, unless no statement was executed in it."""
        if team.member.block != self.block or Itself(team) not in self.did:
            return
        did = self.did.pop(Itself(team))
        trips = self.trips(scope, state)
        moment = Moment(self.block, self.step, _order(statement), "", trips, _role(team), *_titles(did))
        self.step += 1
        if self.each is not None:
            self.each(moment, self, team)
        at = self.at
        if self.moment is None and at is not None and at.step == moment.step and not (at.what or at.trips):
            self.take(team, moment)

    def finish(self, team: Team) -> None:
        """Keep the tiles at the end of the watched block, if that is the moment.

        Raises:
            UsageError: `no-such-moment`.
        """
        left = [region for regions in self.did.values() for region in regions]
        step = self.step if self.everywhere else None
        end = Moment(self.block, step, "the block's end", "", {}, "", *_titles(left))
        if self.each is not None and self.did:
            self.each(end, self, team)
        last = self.did and self.at is not None and self.at.step == self.step and not (self.at.what or self.at.trips)
        if self.moment is None and (last or not self.everywhere):
            self.take(team, end)
        if self.moment is None and self.at is not None:
            raise UsageError(
                "no-such-moment",
                f"block {self.block} never reaches {self.at}: it takes {self.step} steps",
                fix="choose a smaller number for the trip or the step",
            )

    def close(self, ran: Sequence[int]) -> None:
        """End the simulation.

        Args:
            ran: the blocks that ran.

        Raises:
            UsageError: `no-such-moment` where the watched block is not one of them.
        """
        if self.block not in ran:
            raise UsageError(
                "no-such-moment",
                f"block {self.block} does not run: {count(len(ran), 'block')} of {self.kernel.name} did",
                fix="choose one of them, or run more by blocks=",
            )


def name_of(statement: Works) -> str:
    """Return the name of an instruction, as in reports."""
    match statement:
        case Call(atom=atom):
            return atom.name
        case Micro(name=name):
            return name
        case Compute():
            return "compute"


def fits(statement: Works, region: Region | None, what: str) -> bool:
    """Say whether a text is part of a statement's region's title, of its instruction's name or of a buffer's name."""
    if not what:
        return True
    views = (statement.dst, *statement.inputs) if isinstance(statement, Compute) else statement.views
    texts = [name_of(statement), *(view.buffer.name for view in views)]
    return any(what in text for text in (*texts, *((region.title, region.path) if region is not None else ())))


def watch(kernel: Kernel, keep: tuple[str, ...], at: At | None, stops: bool) -> Watch:
    """Make the watch for the moment `at` of a kernel's simulation.

    Raises:
        UsageError: `no-such-tile`, `no-such-moment`, `no-such-loop`.
    """
    names = names_of(kernel)
    for name in keep:
        if name not in names:
            raise UsageError(
                "no-such-tile",
                f"{kernel.name} has no tile {name} in shared memory or registers",
                fix=f"keep some of {', '.join(names)}" if names else "leave keep= out: the kernel has none",
            )
    if at is not None:
        _refuse_unknown(kernel, at)
    if stops and not keep:
        keep = names
    return Watch(kernel, at, keep, stops, block=0 if at is None else at.block)


def _refuse_unknown(kernel: Kernel, at: At) -> None:
    loops = {s.var.name: None for s in walk(kernel.body) if isinstance(s, For)}
    for name in at.trips:
        if name not in loops:
            raise UsageError(
                "no-such-loop",
                f"{kernel.name} has no loop over {name}",
                fix=f"name some of its loops: {', '.join(loops)}" if loops else "leave trips out: it has no loop",
            )
    titles: dict[str, None] = {}
    for statement, around in within(kernel.body):
        if isinstance(statement, Works):
            region = next((x for x in reversed(around) if isinstance(x, Region)), None)
            if fits(statement, region, at.what):
                return
            titles[region.title.partition(":")[0] if region is not None else name_of(statement)] = None
    raise UsageError(
        "no-such-moment",
        f"no statement of {kernel.name} is named {at.what!r}",
        fix=f"name one of: {', '.join(titles)}",
    )


class Watching(Compiler):
    """Compile a team's statements so that each one reports to a watch."""

    def __init__(self, team: Team, watch: Watch) -> None:
        super().__init__(team)
        self.watch = watch

    def beside(self, team: Team) -> Watching:
        """Compile for another team."""
        return Watching(team, self.watch)

    def statement(self, statement: Statement, scope: Scope) -> Step:
        """Compile a statement that reports to the watch before it is executed."""
        step = super().statement(statement, scope)
        team, watch = self.team, self.watch
        if isinstance(statement, Works):
            return before(step, lambda state: watch.comes(team, statement, scope, state))
        if isinstance(statement, Orders):
            return before(step, lambda state: watch.ends(team, statement, scope, state))
        return step

    def nest(self, statement: Statement, scope: Scope, found: Nest | None = None) -> Nest | None:
        """Compile a nest as one statement, unless the watch looks for a trip of one of its loops."""
        at = self.watch.at
        if at is not None and isinstance(statement, For) and statement.var.name in at.trips:
            return None
        return super().nest(statement, scope, found)

    def loop(self, statement: For, scope: Scope) -> Step:
        """Compile a loop; where its trips are executed at once, the single statement in it reports before them."""
        step = super().loop(statement, scope)
        works = [s for s in walk(statement.body) if isinstance(s, Works)]
        if step.run is None or len(works) != 1 or any(isinstance(s, Orders | Arrive) for s in walk(statement.body)):
            return step
        regions = [s for s in walk(statement.body) if isinstance(s, Region)]
        inside = scope.enter(regions[-1]) if regions else scope
        return before(step, lambda state: self.watch.comes(self.team, works[0], inside, state))


def before(step: Step, tell: Callable[[State], None]) -> Step:
    """Make a compiled statement report to the watch before it is executed."""
    if step.run is not None:
        inner: Run = step.run

        def run(state: State, act: Act) -> None:
            tell(state)
            inner(state, act)

        return Step(run)
    assert step.walk is not None
    walker: Walk = step.walk

    def walk_(state: State, act: Act) -> Any:
        tell(state)
        yield from walker(state, act)

    return Step(None, walk_)


def _titles(regions: Sequence[Region]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the titles of regions, each once, and their numbers."""
    titles = dict.fromkeys(region.title for region in regions if region.title)
    return tuple(titles), tuple(dict.fromkeys(region.id for region in regions))


def _role(team: Team) -> str:
    return "" if team.role is None else team.role.name


def _is(found: object, value: int) -> bool:
    return found is not None and bool(np.all(np.asarray(cast(Any, found)) == value))


def _order(statement: Orders) -> str:
    match statement:
        case Sync(level=level, reason=reason):
            return f"barrier of the {level}: {reason}"
        case CountIn(level=level):
            return f"the {level} counts in"
        case Meet(level=level):
            return f"the {level} meets the others of its tile"
        case Wait(group=group):
            return f"wait for {group}"
        case Await(barrier=barrier):
            return f"await {barrier.name}"
        case Turn(reason=reason):
            return f"turn: {reason}"
