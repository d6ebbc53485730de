"""Asynchronous writes (cp.async): each lands as late as is legal, when its group is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fireiron.simulate.order import Array
from fireiron.simulate.tracker import Race

if TYPE_CHECKING:
    from fireiron.simulate.memory import Storage
    from fireiron.simulate.state import Machine, Place


@attrs.frozen(eq=False)
class Flight:
    """Hold one statement's writes that have not landed.

    Args:
        place: the statement.
        storage: the memory that they write.
        touched: the elements that they write.
        values: the values.
        granules: the tracker's granules of `touched`.
        who: numbers of the issuing threads, plus one.
    """

    place: Place
    storage: Storage
    touched: Array
    values: Array
    granules: Array
    who: Array


@attrs.define
class Flights:
    """Keep a team's groups: the open one, and those that are committed, oldest first."""

    machine: Machine
    open: list[Flight] = attrs.field(factory=list[Flight])
    groups: list[list[Flight]] = attrs.field(factory=list[list[Flight]])

    def launch(self, flight: Flight) -> None:
        """Start writes. Until they have landed, no thread may read or write these elements.

        Raises:
            SimulationError: `race` where an earlier access is not ordered before them.
        """
        tracker = flight.storage.tracker
        assert tracker is not None
        self._record(flight)
        tracker.mark(flight.granules, True, 1)
        self.open.append(flight)

    def commit(self) -> None:
        """Close the open group."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        """Land all groups but the newest `pending`."""
        while len(self.groups) > pending:
            for flight in self.groups.pop(0):
                tracker = flight.storage.tracker
                assert tracker is not None
                tracker.mark(flight.granules, True, -1)
                self.machine.order.tick(flight.place.number)  # barriers before this time do not order the writes
                self._record(flight)
                flight.storage.data[flight.touched] = flight.values

    def _record(self, flight: Flight) -> None:
        """Record the writes as the issuing threads' writes, at the current time."""
        assert flight.storage.tracker is not None
        try:
            flight.storage.tracker.write(flight.granules, flight.who)
        except Race as race:
            raise self.machine.race(flight.place, race, flight.storage, flight.granules, flight.who) from None
