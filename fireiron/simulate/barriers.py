"""mbarriers and numbered barriers: phases, arrivals, bytes, and the vector clocks that waiting threads receive.

Source: PTX ISA 9.7.13.15, mbarrier: phases, pending count and tx-count; 9.7.13.1, bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.simulate.order import AGENT, Array, Order, some

if TYPE_CHECKING:
    from fireiron.simulate.state import Machine, Place, Team


class Landing(Protocol):
    """A bulk copy in flight whose bytes a barrier counts."""

    place: Place

    @property
    def nbytes(self) -> int:
        """Return the number of bytes that the barrier counts."""
        ...

    def land(self) -> None:
        """Write the copied elements."""


@attrs.define(eq=False)
class Slot:
    """Hold one mbarrier of a block.

    Args:
        name: the name in messages, such as `full[2]`.
        count: number of arrivals that complete a phase.
        agent: number of the agent that the writes of its bytes are recorded for.
        order: the clocks.
        arrivers: the threads that arrive there, in words.
        phase: number of the current phase, from 0 on.
        pending: number of arrivals that the current phase still needs.
        nbytes: announced bytes that have not landed yet; negative where bytes landed before they were announced.
        flights: copies that will signal it, oldest first.
        told: the merged vector clocks of all arrivals so far.
        completed: the vector clock that a wait for the last completed phase gives.
        completions: the time at which each phase was completed.
        initialiser: the thread of the cluster that initialised it.
        initialised: the time of initialisation, None before.
        fenced: the time at which the initialisation was fenced, None before.
        carries: whether bytes were announced or have landed in the current phase.
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
        """Check that threads may use the barrier: its initialisation was fenced and happened before.

        Raises:
            SimulationError: `uninitialised-barrier`.
        """
        missing = ""
        if self.initialised is None:
            missing = "which nobody initialised"
        elif team.machine.check and (asynchronous or some(threads != self.initialiser)):
            known = np.maximum(self.order.matrix()[threads, self.initialiser], self.order.base)
            known = np.where(threads == self.initialiser, self.order.now, known)
            if self.fenced is None:
                missing = "whose initialisation was not fenced"
            elif some(known < self.fenced):
                missing = "whose initialisation no barrier orders before"
        if missing:
            raise team.error(
                place,
                "uninitialised-barrier",
                f"{place}: {team.machine.local(int(threads[0]) + 1)} uses {self.name}, {missing}",
                "initialise in one thread, then Fence('barrier.init') there, then a barrier of the block or cluster",
            )

    def in_turn(self, team: Team, place: Place, threads: Array) -> None:
        """Check that the end of the last phase is ordered before the arrival of threads of the barrier's block.

        Without this order a thread might, in another order of execution, arrive twice in the same phase.

        Raises:
            SimulationError: `too-many-arrivals`.
        """
        if not (team.machine.check and self.completions):
            return
        known = np.maximum(self.order.matrix()[threads, self.column], self.order.base)
        if some(known < self.completions[-1]):
            early = int(threads[int(np.argmax(known < self.completions[-1]))])
            raise team.error(
                place,
                "too-many-arrivals",
                f"{place}: {team.machine.local(early + 1)} arrives at {self.name} in phase {self.phase}, and nothing "
                f"orders that behind the end of phase {self.phase - 1}, in which it may arrive a second time",
                "arrive after a wait for the phase before, or for an event that its end precedes",
            )

    def arrive(self, team: Team, place: Place, threads: Array, nbytes: int, wide: bool) -> None:
        """Record threads' arrivals and announced bytes. After a `wide` arrival, other blocks also see their writes.

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
            # A narrow arrival passes on only what is visible within this block; wide arrivals pass on the rest.
            self.told = np.maximum(self.told, row if wide else self.order.within(row, self.initialiser))
        ran = self.phase
        self.settle(team.machine, place)
        if team.machine.check and self.count == 1 and self.phase > ran and not self.carries:
            # The last arrival of a phase completes it, and the arriving thread knows that.
            self.order.matrix()[threads, self.column] = self.completions[-1]
        self.carries = self.carries and self.phase == ran

    def seen(self, wide: bool) -> Array:
        """Return the vector clock that a thread has after a wait for the last completed phase."""
        return self.completed if wide else self.order.within(self.completed, self.initialiser)

    def land(self, machine: Machine) -> bool:
        """Land the next copy in flight, if there is one."""
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
        """Complete the phase if all arrivals and bytes are there.

        Raises:
            SimulationError: `transaction-bytes` where more bytes landed than were announced.
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
class Gate:
    """Hold a counter at which units of several blocks meet.

    Args:
        name: of the counter.
        arrived: number of units that have counted in.
        told: the merged vector clock that they released.
    """

    name: str
    arrived: int = 0
    told: Array | None = None

    def arrive(self, team: Team, place: Place, units: int, count: int, row: Array | None) -> None:
        """Count units in.

        Args:
            team: the units' team.
            place: the statement's site.
            units: number of the units.
            count: number of all units that meet.
            row: the vector clock that the units release; None where races are not looked for.

        Raises:
            SimulationError: `counted-twice`.
        """
        self.arrived += units
        if self.arrived > count:
            raise team.error(
                place,
                "counted-twice",
                f"{place}: {team.label} counts in at {self.name} as number {self.arrived} of {count}",
                "let one thread of each unit that shares the tile count, once",
            )
        if row is not None:
            self.told = row if self.told is None else np.maximum(self.told, row)


@attrs.define(eq=False)
class Turnstile:
    """Hold one numbered barrier of a block.

    Args:
        threads: number of threads that open it.
        arrived: the threads that have arrived.
        generation: how often it has opened.
        told: the merged vector clocks of the arrived threads.
        completed: the merged vector clocks at the last opening.
    """

    threads: int
    arrived: set[int] = attrs.field(factory=set[int])
    generation: int = 0
    told: Array | None = None
    completed: Array | None = None

    def arrive(self, order: Order, threads: Array) -> None:
        """Record the arrival of threads; the last ones open the barrier."""
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
