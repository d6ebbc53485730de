"""Groups of asynchronous work that one thread or unit started: open, then committed, then awaited."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from fireiron.atoms.flights import flying


def deferred(group: str) -> bool:
    """Say whether what a group holds is done later, by agents of its own, and not by the thread that starts it."""
    return flying(group) in ("products", "stores", "loads")


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
        open: started and not committed.
        committed: closed groups that have not landed.
        sources_read: how many of these, from the oldest on, have read their sources.
    """

    open: list[Work] = attrs.field(factory=list[Work])
    committed: list[list[Work]] = attrs.field(factory=list[list[Work]])
    sources_read: int = 0

    def commit(self) -> None:
        """Close the open group, which may be empty."""
        self.committed.append(self.open)
        self.open = []

    def read(self, pending: int) -> None:
        """Let all groups but the newest `pending` read their sources."""
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
        """Find asynchronous work whose sources no thread waited for."""
        rest = [work for group in self.committed[self.sources_read :] for work in group] + self.open
        return rest[0] if rest else None
