"""Watching a block: what its tiles hold at a statement, a trip of a loop or a step, and stopping there.

A step is what the threads that run together do up to the next barrier or wait.
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
Orders = Sync | CountIn | Wait | Await | Turn


@attrs.frozen(field_transformer=checked_fields)
class At:
    """Choose a moment of a simulation: just before the first statement that fits.

    Args:
        what: a part of what the CUDA says above the statement (`load A`), of an instruction's name (`mma`), or of a
            buffer's name; any statement where it is empty.
        block: which one of the grid.
        trips: values of loop variables, by their names in the CUDA: `{"k": 2}`.
        step: which step, counted from 0 in each block; a step ends at a barrier or a wait. Where only a step is given,
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
    """Say where a simulation was.

    Args:
        block: of the grid.
        step: steps that the block had finished; None at its end where steps were not counted.
        what: the instruction that comes next, or the barrier that ended a step.
        title: what the CUDA says above it.
        trips: loop variables that have one value, by name.
        role: whose statement it is, "" where all threads do the same.
        did: of the end of a step, the titles of what ran in it.
        regions: the numbers of the regions that these titles head.
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
    """End a simulation at the moment that was asked for."""


@attrs.define(eq=False, slots=False)
class Watch:
    """Find one moment of a simulation, and keep tiles there.

    Args:
        kernel: what runs.
        at: which moment; None for the end of block 0.
        keep: names of the tiles that are kept.
        stops: whether the simulation ends there.
        each: called at the end of each step of the block.
        block: which block is looked at.
        moment: what was found.
        kept: tiles by name.
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
        """Give the variables of the loops around a statement that have one value now."""
        found: dict[str, int] = {}
        for name, needs in scope.needs:
            value = state.env.get(name)
            if needs == frozenset([name]) and isinstance(value, int) and name in self.loops:
                found[name] = value
        return found

    @property
    def everywhere(self) -> bool:
        """Say whether statements must be watched, and not the block's end alone."""
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
        """Keep the tiles as they are.

        Raises:
            Stopped: where the simulation ends here.
        """
        self.moment = moment
        self.kept = kept(team.member, self.keep, team.machine.sizes)
        if self.stops:
            raise Stopped

    def comes(self, team: Team, statement: Works, scope: Scope, state: State) -> None:
        """Check whether a statement that accesses data is the moment."""
        if team.member.block != self.block:
            return
        title = _title(scope)
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
        """Count a step at its end, unless no statement ran in it."""
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
        """Keep the tiles at the end of the watched block, where that is the moment.

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
                fix="choose a smaller trip or step",
            )

    def close(self, ran: Sequence[int]) -> None:
        """End the simulation.

        Args:
            ran: the blocks that ran.

        Raises:
            UsageError: `no-such-moment` where the block that is watched is none of them.
        """
        if self.block not in ran:
            raise UsageError(
                "no-such-moment",
                f"block {self.block} does not run: {count(len(ran), 'block')} of {self.kernel.name} did",
                fix="choose one of them, or run more by blocks=",
            )


def name_of(statement: Works) -> str:
    """Name an instruction as reports do."""
    match statement:
        case Call(atom=atom):
            return atom.name
        case Micro(name=name):
            return name
        case Compute():
            return "compute"


def fits(statement: Works, region: Region | None, what: str) -> bool:
    """Say whether a statement's region, instruction or a buffer of it has a text in its name."""
    if not what:
        return True
    views = (statement.dst, *statement.inputs) if isinstance(statement, Compute) else statement.views
    texts = [name_of(statement), *(view.buffer.name for view in views)]
    return any(what in text for text in (*texts, *((region.title, region.path) if region is not None else ())))


def watch(kernel: Kernel, keep: tuple[str, ...], at: At | None, stops: bool) -> Watch:
    """Make the watch that finds the moment `at` of a kernel's simulation, and keeps tiles there.

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
    """Compile a team's statements so that a watch sees each of them."""

    def __init__(self, team: Team, watch: Watch) -> None:
        super().__init__(team)
        self.watch = watch

    def beside(self, team: Team) -> Watching:
        """Compile for another team."""
        return Watching(team, self.watch)

    def statement(self, statement: Statement, scope: Scope) -> Step:
        """Compile a statement that tells the watch before it runs."""
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
        """Compile a loop; where its trips run at once, the one statement in it is told ahead of them."""
        step = super().loop(statement, scope)
        works = [s for s in walk(statement.body) if isinstance(s, Works)]
        if step.run is None or len(works) != 1 or any(isinstance(s, Orders | Arrive) for s in walk(statement.body)):
            return step
        regions = [s for s in walk(statement.body) if isinstance(s, Region)]
        inside = scope.enter(regions[-1]) if regions else scope
        return before(step, lambda state: self.watch.comes(self.team, works[0], inside, state))


def before(step: Step, tell: Callable[[State], None]) -> Step:
    """Report a compiled statement to the watch before it runs."""
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
    """Give the titles of regions, each once, and their numbers."""
    titles = dict.fromkeys(region.title for region in regions if region.title)
    return tuple(titles), tuple(dict.fromkeys(region.id for region in regions))


def _title(scope: Scope) -> str:
    return scope.region.title if scope.region is not None else ""


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
        case Wait(group=group):
            return f"wait for {group}"
        case Await(barrier=barrier):
            return f"await {barrier.name}"
        case Turn(reason=reason):
            return f"turn: {reason}"
