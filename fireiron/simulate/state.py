"""What runs: the memories and clock of the whole kernel, the environment of one coroutine, and counters a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.base.link import Link
from fireiron.kernel.ir import BLOCK, THREAD, Kernel
from fireiron.kernel.traffic import Traffic
from fireiron.simulate.access import Env, Fault
from fireiron.simulate.flights import Flights
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import MANY, Array, Order
from fireiron.simulate.report import Site
from fireiron.simulate.tracker import Race

ITERATIONS = "# iterations"  # no C identifier, so no variable's name


@attrs.define(eq=False)
class Place:
    """Count at one site, and say where it is.

    Args:
        number: its index among the sites.
        title: of the enclosing region.
        path: in the decomposition tree.
        what: the instruction.
        link: the chain link.
        count: executions.
        traffic: by memory and direction.
    """

    number: int
    title: str
    path: str
    what: str
    link: Link | None
    count: int = 0
    traffic: dict[tuple[str, str], Traffic] = attrs.field(factory=dict[tuple[str, str], Traffic])

    def charge(self, kind: str, direction: str, traffic: Traffic) -> None:
        """Add what an execution cost."""
        if traffic.requests:
            self.traffic.setdefault((kind, direction), Traffic()).add(traffic)

    def __str__(self) -> str:
        return f"{self.what} in `{self.title}`" if self.title else self.what

    def site(self) -> Site:
        """Give the finished row."""
        pick = [self.traffic.get(key, Traffic()) for key in DIRECTIONS]
        return Site(self.title, self.path, self.what, self.count, *pick)


DIRECTIONS = (("GL", "read"), ("GL", "write"), ("SH", "read"), ("SH", "write"))


@attrs.define(eq=False)
class Machine:
    """Hold what all blocks share.

    Args:
        kernel: what runs.
        sizes: values of the symbols.
        numbers: values of the scalar parameters.
        order: the clock.
        check: whether races are looked for.
        storages: memories by buffer name; registers are renewed for each block.
        places: every site.
        barriers: barriers passed.
        flops: operations done.
        kept: elements of cached accesses.
        flights: asynchronous writes of the running block.
    """

    kernel: Kernel
    sizes: Mapping[str, int]
    numbers: Mapping[str, float]
    order: Order
    check: bool
    storages: dict[str, Storage]
    places: list[Place] = attrs.field(factory=list[Place])
    barriers: int = 0
    flops: int = 0
    kept: int = 0
    flights: Flights = attrs.field(factory=Flights)

    @property
    def threads(self) -> int:
        """Count the threads of a block."""
        return self.kernel.threads

    def environment(self, block: int) -> Env:
        """Give the values that index expressions start from."""
        return {**self.sizes, THREAD: np.arange(self.threads), BLOCK: block, ITERATIONS: 1}

    def thread(self, who: int) -> str:
        """Name a thread of the grid, given its number plus one."""
        block, thread = divmod(who - 1, self.threads)
        return f"thread {thread} of block {block}"

    def fault(self, place: Place, fault: Fault, verb: str) -> SimulationError:
        """Turn a bad access into the error that the user reads."""
        who = f"thread {fault.thread} of block {self.order.block}"
        return self.error(place, fault.code, f"{place}: {who} {verb} {fault.text}", fault.fix)

    def race(self, place: Place, race: Race, storage: Storage, granules: Array, who: Array) -> SimulationError:
        """Turn a race into the error that the user reads.

        Args:
            place: the later access's site.
            race: what was found.
            storage: the buffer of the later access.
            granules: all that it touches, with `who`, to name one thread where several met.
            who: threads plus one of this block.
        """
        shift = self.order.block * self.threads
        in_grid = storage.kind == "GL"
        mine, other = race.mine, race.other
        if mine == MANY:
            met = who[granules == race.granule] + (shift if in_grid else 0)
            mine = int(met[met != other][0])
        if not in_grid:
            mine, other = mine + shift, other + shift if other != MANY else MANY
        earlier, later = race.kind.split("-")
        element = storage.name(storage.element_of(race.granule))
        first = self.places[self.order.places[race.time]]
        rival = "several threads" if other == MANY else self.thread(other)
        same_block = other == MANY or (mine - 1) // self.threads == (other - 1) // self.threads
        if race.kind == "write-write" and in_grid:
            text = f"{place}: tiles overlap: {self.thread(mine)} writes {element}, which {rival} writes too ({first})"
            fix = "give every element of the output one owner: check tile sizes, strides and predicates"
        else:
            past = {"write": "wrote", "read": "read"}[earlier]
            order = "no barrier in between" if same_block else "blocks are not ordered"
            text = f"{place}: {self.thread(mine)} {later}s {element}, which {rival} {past} ({first}), {order}"
            fix = "put a Sync between the two" if same_block else "let one block own the element"
        return self.error(place, "race", text, fix)

    def error(self, place: Place, code: str, message: str, fix: str) -> SimulationError:
        """Make an error at a site."""
        return SimulationError(code, message, fix=fix, link=place.link, path=place.path or place.title)


@attrs.define(eq=False)
class State:
    """Hold what one coroutine sees.

    Args:
        machine: shared by all.
        env: values of variables by name, arrays over (iterations, threads) where they vary.
    """

    machine: Machine
    env: dict[str, Any]
