"""Asynchronous writes: each lands as late as is legal, when its group is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from fireiron.simulate.order import Array
from fireiron.simulate.tracker import Race

if TYPE_CHECKING:
    from fireiron.simulate.state import Machine, Place, Storage


@attrs.frozen(eq=False)
class Flight:
    """Hold one statement's writes that have not landed.

    Args:
        place: the statement.
        storage: where they go.
        touched: elements.
        values: what is written there.
        granules: places in the tracker.
        who: issuing threads plus one.
    """

    place: Place
    storage: Storage
    touched: Array
    values: Array
    granules: Array
    who: Array


@attrs.define
class Flights:
    """Keep a block's groups: the open one, and those that are committed, oldest first."""

    machine: Any = None
    open: list[Flight] = attrs.field(factory=list[Flight])
    groups: list[list[Flight]] = attrs.field(factory=list[list[Flight]])

    def begin(self, machine: Machine) -> None:
        """Start a block with nothing in flight."""
        self.machine, self.open, self.groups = machine, [], []

    def launch(self, flight: Flight) -> None:
        """Start writes. From now on nobody may read or write there until they have landed.

        Raises:
            SimulationError: `race` where an earlier access is not ordered before them.
        """
        tracker = flight.storage.tracker
        assert tracker is not None
        self._record(flight)
        if tracker.flying is None:
            tracker.flying = np.zeros(len(tracker.writer), bool)
        tracker.flying[flight.granules] = True
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
                assert tracker is not None and tracker.flying is not None
                tracker.flying[flight.granules] = False
                self._record(flight)
                flight.storage.data[flight.touched] = flight.values

    def _record(self, flight: Flight) -> None:
        """Note the writes as the issuing threads', now."""
        assert flight.storage.tracker is not None
        try:
            flight.storage.tracker.write(flight.granules, flight.who)
        except Race as race:
            raise self.machine.race(flight.place, race, flight.storage, flight.granules, flight.who) from None
