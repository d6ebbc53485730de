"""mbarriers and numbered barriers: phases, arrivals and bytes, and what arrivals tell to those who wait.

Source: PTX ISA 9.7.13.15, mbarrier: phases, pending count and tx-count; 9.7.13.1, bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.simulate.order import AGENT, Array, Order

if TYPE_CHECKING:
    from fireiron.simulate.state import Machine, Place, Team


class Landing(Protocol):
    """A bulk copy on its way to a barrier's block."""

    place: Place

    @property
    def nbytes(self) -> int:
        """Count the bytes that the barrier sees."""
        ...

    def land(self) -> None:
        """Write what arrived."""


@attrs.define(eq=False)
class Slot:
    """Hold one mbarrier of a block.

    Args:
        name: `full[2]`.
        count: arrivals that complete a phase.
        agent: the number of the agent whose writes its bytes are.
        order: the clock.
        arrivers: who arrives there, in words.
        phase: the phase that runs, counted from 0.
        pending: arrivals that it lacks.
        nbytes: bytes that it expects and that have not landed; below 0 where bytes landed that nobody announced yet.
        flights: copies that will signal it, oldest first.
        told: what all arrivals so far tell.
        completed: what those tell who see the last completed phase.
        completions: when each phase was completed.
        initialiser: the thread of the cluster that initialised it.
        initialised: when, None before.
        fenced: when its initialisation was fenced, None before.
        carries: whether bytes were announced or have landed in the phase that runs.
    """

    name: str
    count: int
    agent: int
    order: Order
    arrivers: str = "nobody"
    phase: int = 0
    pending: int = 0
    nbytes: int = 0
    flights: list[Landing] = attrs.field(factory=list[Landing])
    told: Array = attrs.field(factory=lambda: np.zeros(0, np.int32))
    completed: Array = attrs.field(factory=lambda: np.zeros(0, np.int32))
    completions: list[int] = attrs.field(factory=list[int])
    initialiser: int = 0
    initialised: int | None = None
    fenced: int | None = None
    carries: bool = False

    @property
    def who(self) -> int:
        """Return the agent's number, as trackers record it."""
        return AGENT - self.agent

    @property
    def column(self) -> int:
        """Return the agent's column in vector clocks."""
        return self.order.threads + self.agent

    def begin(self) -> None:
        """Reset the barrier to its state before initialisation."""
        self.phase, self.pending, self.nbytes = 0, self.count, 0
        self.flights = []
        self.told, self.completed = np.zeros(self.order.width, np.int32), np.zeros(self.order.width, np.int32)
        self.completions = []
        self.initialised = self.fenced = None

    def initialise(self, team: Team, place: Place, thread: int) -> None:
        """Initialise the barrier.

        Raises:
            SimulationError: `barrier-in-use` if it was set up before.
        """
        if self.initialised is not None:
            raise team.error(
                place,
                "barrier-in-use",
                f"{place}: {self.name} of block {team.member.block} is initialised a second time",
                "initialise it once, by one thread",
            )
        self.initialiser, self.initialised = thread, self.order.tick(place.number)

    def usable(self, team: Team, place: Place, threads: Array, asynchronous: bool = False) -> None:
        """Check that threads may use the barrier: it is initialised, and that was fenced and has reached them.

        Raises:
            SimulationError: `uninitialised-barrier`.
        """
        missing = ""
        if self.initialised is None:
            missing = "which nobody initialised"
        elif team.machine.check and (asynchronous or (threads != self.initialiser).any()):
            known = np.maximum(self.order.matrix()[threads, self.initialiser], self.order.base)
            known = np.where(threads == self.initialiser, self.order.now, known)
            if self.fenced is None:
                missing = "whose initialisation was not fenced"
            elif (known < self.fenced).any():
                missing = "whose initialisation no barrier orders before"
        if missing:
            raise team.error(
                place,
                "uninitialised-barrier",
                f"{place}: {team.machine.local(int(threads[0]) + 1)} uses {self.name}, {missing}",
                "initialise in one thread, then Fence('barrier.init') there, then a barrier of the block or cluster",
            )

    def in_turn(self, team: Team, place: Place, threads: Array) -> None:
        """Check that threads of the barrier's block know its last phase to be complete before they arrive.

        In another order of execution a thread that does not know it arrives while that phase runs, a second time.

        Raises:
            SimulationError: `too-many-arrivals`.
        """
        if not (team.machine.check and self.completions):
            return
        known = np.maximum(self.order.matrix()[threads, self.column], self.order.base)
        if (known < self.completions[-1]).any():
            early = int(threads[int(np.argmax(known < self.completions[-1]))])
            raise team.error(
                place,
                "too-many-arrivals",
                f"{place}: {team.machine.local(early + 1)} arrives at {self.name} in phase {self.phase}, and nothing "
                f"orders that behind the end of phase {self.phase - 1}, in which it may arrive a second time",
                "arrive after a wait for the phase before, or for what follows from its end",
            )

    def arrive(self, team: Team, place: Place, threads: Array, nbytes: int, wide: bool) -> None:
        """Let threads arrive and announce bytes. Where the arrival is `wide`, other blocks also see what they wrote.

        Raises:
            SimulationError: `too-many-arrivals`, `transaction-bytes`.
        """
        if len(threads) > self.pending:
            raise team.error(
                place,
                "too-many-arrivals",
                f"{place}: {len(threads)} {'arrives' if len(threads) == 1 else 'arrive'} at {self.name} from "
                f"{team.label}, whose phase {self.phase} lacks {self.pending} of {self.count} arrivals"
                + (f" and {self.nbytes} bytes" if self.nbytes else ""),
                "let as many threads arrive as the barrier counts, once a phase",
            )
        self.pending -= len(threads)
        self.nbytes += nbytes * len(threads)
        self.carries = self.carries or nbytes > 0
        if team.machine.check:
            row = self.order.released(threads)
            # What one narrow arrival of this block passes on is this block's alone: the wide ones tell the rest.
            self.told = np.maximum(self.told, row if wide else self.order.within(row, self.initialiser))
        ran = self.phase
        self.settle(team.machine, place)
        if team.machine.check and self.count == 1 and self.phase > ran and not self.carries:
            # An arrival that is all that a phase lacks ends it, and who arrives knows.
            self.order.matrix()[threads, self.column] = self.completions[-1]
        self.carries = self.carries and self.phase == ran

    def seen(self, wide: bool) -> Array:
        """Return the vector clock that a thread has after a wait for the last completed phase."""
        return self.completed if wide else self.order.within(self.completed, self.initialiser)

    def land(self, machine: Machine) -> bool:
        """Let the next copy in flight arrive, if there is one."""
        if not self.flights:
            return False
        flight = self.flights.pop(0)
        self.order.tick(flight.place.number)
        flight.land()
        self.nbytes -= flight.nbytes
        ran, self.carries = self.phase, True
        self.settle(machine, flight.place)
        self.carries = self.phase == ran
        return True

    def settle(self, machine: Machine, place: Place) -> None:
        """Complete the phase once all arrivals and bytes are there.

        Raises:
            SimulationError: `transaction-bytes` where more bytes landed than anyone will announce.
        """
        if self.pending:
            return
        if self.nbytes < 0:
            raise machine.error(
                place,
                "transaction-bytes",
                f"{place}: {-self.nbytes} bytes more than were announced have landed on {self.name} in phase "
                f"{self.phase}, which will never be complete",
                "announce the bytes of all boxes that land in this block, parts outside the tensor included",
            )
        if self.nbytes == 0:
            self.completions.append(self.order.tick(place.number))
            self.told[self.column] = self.order.now
            self.completed = self.told.copy()
            self.phase += 1
            self.pending = self.count

    def awaits(self, parity: int) -> str:
        """Return in words which arrivals and bytes a wait for a parity still needs."""
        parts: list[str] = []
        if self.pending:
            parts.append(f"{self.pending} of {self.count} arrivals from {self.arrivers}")
        if self.nbytes > 0:
            flying = sum(flight.nbytes for flight in self.flights)
            parts.append(
                f"{self.nbytes} bytes" + (f" ({flying} in flight)" if flying else ", of which none are in flight")
            )
        return f"{self.name}, parity {parity}, whose phase {self.phase} lacks {' and '.join(parts)}"


@attrs.define(eq=False)
class Turnstile:
    """Hold one numbered barrier of a block.

    Args:
        threads: how many must come.
        arrived: which have.
        generation: how often it opened.
        told: what those who came tell.
        completed: what those told who came the last time.
    """

    threads: int
    arrived: set[int] = attrs.field(factory=set[int])
    generation: int = 0
    told: Array | None = None
    completed: Array | None = None

    def arrive(self, order: Order, threads: Array) -> None:
        """Let threads arrive; the last ones open the barrier."""
        row = order.released(threads)
        self.told = row if self.told is None else np.maximum(self.told, row)
        self.arrived.update(threads.tolist())
        if len(self.arrived) == self.threads:
            self.completed, self.told = self.told, None
            self.arrived.clear()
            self.generation += 1


def unfinished(place: Place, machine: Machine, message: str, fix: str) -> SimulationError:
    """Make the error of a copy or product that has not ended when its block ends."""
    return machine.error(place, "unfinished-flight", f"{place}: {message}", fix)
