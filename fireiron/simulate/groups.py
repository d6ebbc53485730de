"""Groups of asynchronous work that one thread or unit started: open, then committed, then awaited."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from fireiron.atoms.flights import flying


def deferred(group: str) -> bool:
    """Say whether a group's work is recorded for a separate agent, and not for the thread that starts it."""
    return flying(group) in ("products", "stores", "loads", "sends")


class Work(Protocol):
    """Describe an asynchronous operation between its start and its end."""

    place: Any

    def read(self) -> None:
        """Read the sources, as late as is legal."""

    def land(self) -> None:
        """Write the results, after the sources were read."""


@attrs.define(eq=False)
class Groups:
    """Keep one queue: the open group, and those that are committed, oldest first.

    Args:
        open: work that was started and not committed.
        committed: committed groups that have not landed, oldest first.
        sources_read: number of the oldest committed groups that have read their sources.
    """

    open: list[Work] = attrs.field(factory=list[Work])
    committed: list[list[Work]] = attrs.field(factory=list[list[Work]])
    sources_read: int = 0

    def commit(self) -> None:
        """Commit the open group, which may be empty."""
        self.committed.append(self.open)
        self.open = []

    def read(self, pending: int) -> None:
        """Read the sources of all groups but the newest `pending`."""
        while len(self.committed) - self.sources_read > pending:
            for work in self.committed[self.sources_read]:
                work.read()
            self.sources_read += 1

    def land(self, pending: int) -> None:
        """Land all groups but the newest `pending`."""
        self.read(pending)
        while len(self.committed) > pending:
            for work in self.committed.pop(0):
                work.land()
            self.sources_read -= 1

    @property
    def unread(self) -> Work | None:
        """Find work whose sources may still be read, since no thread has waited for it."""
        rest = [work for group in self.committed[self.sources_read :] for work in group] + self.open
        return rest[0] if rest else None
