"""State of a simulation: of the whole kernel (`Machine`), a block (`Member`), and threads of one program (`Team`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.base.link import Link
from fireiron.kernel.analysis.traffic import Traffic
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, RANK, THREAD, Kernel, Role
from fireiron.simulate.access import Env, Fault
from fireiron.simulate.barriers import Gate, Slot, Turnstile
from fireiron.simulate.flights import Flights
from fireiron.simulate.groups import Groups
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import AGENT, MANY, Array, Order, some
from fireiron.simulate.report import Site
from fireiron.simulate.tracker import Race

WIDE = "let both the Arrive and the Await be wide, or meet at a barrier of the cluster"
ITERATIONS = "# iterations"  # no C identifier, so no variable's name


@attrs.define(eq=False)
class Place:
    """Hold a site (one instruction of one region), with its counters.

    Args:
        number: its index among the sites.
        title: of the enclosing region.
        path: the place in the decomposition tree.
        what: the instruction.
        link: the chain link.
        silent: whether reports omit it, since the instruction only orders others.
        count: number of executions.
        traffic: counters by memory and direction.
    """

    number: int
    title: str
    path: str
    what: str
    link: Link | None
    silent: bool = False
    count: int = 0
    traffic: dict[tuple[str, str], Traffic] = attrs.field(factory=dict[tuple[str, str], Traffic])

    def charge(self, kind: str, direction: str, traffic: Traffic) -> None:
        """Add an execution's traffic."""
        if traffic.requests:
            self.traffic.setdefault((kind, direction), Traffic()).add(traffic)

    def __str__(self) -> str:
        return f"{self.what} in `{self.title}`" if self.title else self.what

    def site(self) -> Site:
        """Return the row of the report."""
        pick = [self.traffic.get(key, Traffic()) for key in DIRECTIONS]
        return Site(self.title, self.path, self.what, self.count, *pick)


DIRECTIONS = (("GL", "read"), ("GL", "write"), ("SH", "read"), ("SH", "write"))


@attrs.define(eq=False)
class Machine:
    """Hold the state that all blocks share.

    Args:
        kernel: the kernel.
        sizes: values of the symbols.
        numbers: values of the scalar parameters.
        order: the clocks.
        check: whether to look for races.
        storages: global memories by buffer name.
        blocks: number of launched blocks.
        places: all sites.
        sites: the same sites, by region and instruction.
        members: the blocks that run at once.
        agents: descriptions of the asynchronous agents.
        barriers: number of barriers passed.
        flops: number of operations.
        kept: number of elements of cached accesses.
        exact: whether integer results that exceed 32 bits are errors; else they wrap.
        together: number of blocks that run at once: a cluster, or the grid of a cooperative launch.
        gates: counters at which blocks meet, by name and element.
    """

    kernel: Kernel
    sizes: Mapping[str, int]
    numbers: Mapping[str, float]
    order: Order
    check: bool
    storages: dict[str, Storage]
    blocks: int = 1
    places: list[Place] = attrs.field(factory=list[Place])
    sites: dict[tuple[str, str, str, str], Place] = attrs.field(factory=dict[tuple[str, str, str, str], Place])
    members: list[Member] = attrs.field(factory=list["Member"])
    agents: list[str] = attrs.field(factory=list[str])
    barriers: int = 0
    flops: int = 0
    kept: int = 0
    exact: bool = False
    together: int = 1
    gates: dict[str, Gate] = attrs.field(factory=dict[str, Gate])

    def cluster_of(self, member: Member) -> list[Member]:
        """List the blocks of a block's cluster."""
        size = self.kernel.cluster
        first = member.rank // size * size
        return self.members[first : first + size]

    def site(
        self, where: tuple[str, str, str], title: str, what: str, link: Link | None, silent: bool = False
    ) -> Place:
        """Find or make the site of an instruction in its region; `where` is the region's path, kind and buffer."""
        path, *_ = where
        key = (*where, what)
        if key not in self.sites:
            self.sites[key] = Place(len(self.places), title, path, what, link, silent)
            self.places.append(self.sites[key])
        return self.sites[key]

    def thread(self, who: int) -> str:
        """Describe a thread of the grid, or an agent, given its number plus one."""
        if who <= AGENT:
            return self.agents[AGENT - who]
        block, thread = divmod(who - 1, self.kernel.threads)
        return f"thread {thread} of block {block}"

    def local(self, who: int) -> str:
        """Describe a thread of the running cluster, given its number plus one."""
        return self.thread(who + self.order.group * self.order.threads if who > 0 else who)

    def race(self, place: Place, race: Race, storage: Storage, granules: Array, who: Array) -> SimulationError:
        """Make the user's error of a race.

        Args:
            place: the later access's site.
            race: the race.
            storage: the buffer of the later access.
            granules: all granules of the later access, with `who`, to name one thread where several accessed a granule.
            who: numbers of threads in the cluster, plus one.
        """
        shift = self.order.group * self.order.threads
        in_grid = storage.kind == "GL"
        mine, other = race.mine, race.other
        if mine == MANY:
            met = who[granules == race.granule] + (shift if in_grid else 0)
            mine = int(met[met != other][0])
        if not in_grid:
            mine, other = (each + shift if each > 0 else each for each in (mine, other))
        earlier, later = race.kind.split("-")
        element = storage.name(storage.element_of(race.granule))
        first = self.places[self.order.places[race.time]]
        rival = "several threads" if other == MANY else self.thread(other)
        past = {"write": "wrote", "read": "read"}[earlier]
        if race.proxy:
            text = (
                f"{place}: {self.thread(mine)} starts an asynchronous {later} of {element}, which {rival} {past} "
                f"({first}), with no proxy fence in between"
            )
            fix = "put Fence('proxy.async') after the generic access, in the threads that made it, before their barrier"
            return self.error(place, "missing-proxy-fence", text, fix)
        if race.kind == "write-write" and in_grid:
            text = f"{place}: tiles overlap: {self.thread(mine)} writes {element}, which {rival} writes too ({first})"
            fix = "give every element of the output one owner: check tile sizes, strides and predicates"
            return self.error(place, "race", text, fix)
        order, fix = "no barrier in between", "put a Sync between the two"
        if other < 0 and other != MANY:
            order, fix = "whose end it does not know of", "wait for it, and arrive at a barrier only after that"
        elif other > 0 and (mine - 1) // self.kernel.threads != (other - 1) // self.kernel.threads:
            order, fix = "blocks are not ordered", "let one block own the element"
            if (mine - 1) // self.order.threads == (other - 1) // self.order.threads:
                order, fix = "no barrier of the cluster in between", "let a barrier that both use order the two"
        text = f"{place}: {self.thread(mine)} {later}s {element}, which {rival} {past} ({first}), {order}"
        return self.error(place, "race", text, fix)

    def error(self, place: Place, code: str, message: str, fix: str) -> SimulationError:
        """Make an error at a site."""
        return SimulationError(code, message, fix=fix, link=place.link, path=place.path or place.title)

    def refuse_wrapped(self, place: Place, wide: Array, held: Array, mask: Array | None = None) -> None:
        """Raise an error for integers that exceed their type.

        Args:
            place: the statement.
            wide: the results in more bits.
            held: the results in their type.
            mask: which results count, None for all.

        Raises:
            SimulationError: `integer-overflow`.
        """
        wide, held, there = np.broadcast_arrays(wide, held, True if mask is None else mask)
        lost = (wide != held) & there
        if some(lost):
            raise self.error(
                place,
                "integer-overflow",
                f"{place}: {int(wide[lost][0])} does not fit into {8 * held.itemsize} bits, and wraps to "
                f"{int(held[lost][0])}",
                "sum fewer or smaller products, scale them in f32, or leave overflow= out: integers wrap",
            )


@attrs.define(eq=False)
class Look:
    """Record a read of a block's shared memory by threads of another block.

    Args:
        place: the statement.
        storage: the storage that is read.
        granules: the read granules that no thread has written since.
        who: numbers of the reading threads in the cluster, plus one.
        time: the time of the read.
    """

    place: Place
    storage: Storage
    granules: Array
    who: Array
    time: int


@attrs.define(eq=False)
class Member:
    """Hold one block of the running cluster.

    Args:
        rank: its index in the cluster.
        shared: its shared memories, by buffer name.
        barriers: its mbarriers, one ring for each name.
        engine: the agent of its first warpgroup's asynchronous instructions.
        turns: its numbered barriers.
        teams: its teams of threads.
        block: its number in the grid.
        visits: arrivals from other blocks: the thread, the time, and the site.
        looks: reads by other blocks.
        counted: results of CountIn, by statement, the unit's first thread, and how often the unit executed the
            statement.
        waited: which threads have waited for the end of the previous launch.
        told: for a cluster's first block: the vector clocks that units released at counters in global memory.
    """

    rank: int
    shared: dict[str, Storage]
    barriers: dict[str, list[Slot]]
    engine: int = 0
    turns: dict[int, Turnstile] = attrs.field(factory=dict[int, Turnstile])
    teams: list[Team] = attrs.field(factory=list["Team"])
    block: int = 0
    visits: list[tuple[int, int, Place]] = attrs.field(factory=list[tuple[int, int, Place]])
    looks: list[Look] = attrs.field(factory=list[Look])
    counted: dict[tuple[int, int, int], int] = attrs.field(factory=dict[tuple[int, int, int], int])
    waited: set[int] = attrs.field(factory=set[int])
    told: dict[tuple[str, int], Array] = attrs.field(factory=dict[tuple[str, int], "Array"])

    def begin(self, block: int) -> None:
        """Start a block with nothing initialised and nothing in flight."""
        self.block = block
        self.turns.clear()
        self.visits.clear()
        self.looks.clear()
        self.counted.clear()
        self.waited.clear()
        self.told.clear()
        for team in self.teams:
            team.visits.clear()
        for ring in self.barriers.values():
            for slot in ring:
                slot.begin()
        for storage in self.shared.values():
            if storage.tracker is not None and storage.tracker.flying is not None:
                storage.tracker.flying[:] = 0
                assert storage.tracker.reading is not None
                storage.tracker.reading[:] = 0
        for team in self.teams:
            team.begin()


@attrs.define(eq=False)
class Team:
    """Hold the threads of a block that execute one program together, as one coroutine.

    Args:
        machine: the state that all blocks share.
        member: the threads' block.
        storages: memories by buffer name, registers among them.
        threads: number of threads.
        first: number of the first thread in the block.
        role: the threads' role, None outside roles.
        flights: groups of asynchronous writes of the whole team, by the group's name.
        groups: groups of asynchronous work of a thread or unit, by name and first lane.
        visits: how often the team has executed a statement, by the statement's `id`.
    """

    machine: Machine
    member: Member
    storages: dict[str, Storage]
    threads: int
    first: int = 0
    role: Role | None = None
    flights: dict[str, Flights] = attrs.field(factory=dict[str, Flights])
    groups: dict[tuple[str, int], Groups] = attrs.field(factory=dict[tuple[str, int], Groups])
    visits: dict[int, int] = attrs.field(factory=dict[int, int])

    @property
    def order(self) -> Order:
        """Give the clock."""
        return self.machine.order

    @property
    def offset(self) -> int:
        """Return the number of the team's first thread in the cluster."""
        return self.member.rank * self.machine.kernel.threads + self.first

    @property
    def label(self) -> str:
        """Describe the team as reports do."""
        if self.role is None:
            return f"block {self.member.block}"
        part = ""
        if self.threads < self.role.threads:
            last = self.first - self.role.first + self.threads - 1
            part = f" (threads {self.first - self.role.first}..{last})"
        return f"role {self.role.name}{part} of block {self.member.block}"

    def ids(self, act: Array | None) -> Array:
        """Number the active threads in the cluster, given a mask over (1, threads)."""
        lanes = np.arange(self.threads) if act is None else np.flatnonzero(act[0])
        return lanes + self.offset

    def who(self, lane: int) -> str:
        """Describe one of the team's threads."""
        return f"thread {self.first + lane} of block {self.member.block}"

    def begin(self) -> None:
        """Start a block: registers hold nothing, and nothing is in flight."""
        self.flights.clear()
        self.groups.clear()
        for storage in self.storages.values():
            if storage.initialised is not None:
                storage.initialised[:] = False
                storage.begun += 1
            if storage.fragment is not None:
                storage.fragment.begin()

    def environment(self) -> Env:
        """Return the variables that are known before the first statement: thread, block, sizes, ..."""
        return {
            **self.machine.sizes,
            THREAD: np.arange(self.threads),
            BLOCK: self.member.block,
            BLOCKS: self.machine.blocks,
            RANK: self.member.rank % self.machine.kernel.cluster,
            ITERATIONS: 1,
        }

    def fault(self, place: Place, fault: Fault, verb: str) -> SimulationError:
        """Make the user's error of a bad access."""
        return self.error(place, fault.code, f"{place}: {self.who(fault.thread)} {verb} {fault.text}", fault.fix)

    def error(self, place: Place, code: str, message: str, fix: str) -> SimulationError:
        """Make an error at a site."""
        return self.machine.error(place, code, message, fix)


@attrs.define(eq=False)
class State:
    """Hold the variables of one coroutine.

    Args:
        team: its threads.
        env: values of variables by name, arrays over (iterations, threads) where they vary.
        cursors: for each cursor, how often it wrapped, and the threads that advance it.
        met: the time of the last barrier of its block, or role.
    """

    team: Team
    env: dict[str, Any]
    cursors: dict[str, CursorState] = attrs.field(factory=dict[str, "CursorState"])
    met: int = 0


@attrs.define(eq=False)
class CursorState:
    """Hold facts about a cursor of a role, beside its two variables.

    Args:
        wraps: how often the ring has wrapped.
        movers: the threads that advance it, as bytes of a mask.
    """

    wraps: int = 0
    movers: bytes | None = None
