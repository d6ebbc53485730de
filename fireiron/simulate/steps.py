"""Compiled statements, and the loops and regions around a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from fireiron.algebra.expr import Expr, free
from fireiron.base.records import evolve
from fireiron.kernel.ir.statements import Region
from fireiron.simulate.machine import Event
from fireiron.simulate.order import Array
from fireiron.simulate.state import State

Act: TypeAlias = "Array | None"
Run: TypeAlias = Callable[[State, Act], None]
Walk: TypeAlias = Callable[[State, Act], Iterator[Event]]
Needs: TypeAlias = frozenset[str]


@attrs.frozen
class Step:
    """Hold one compiled statement: `run`, a function, if it contains no barrier or wait, else `walk`, a generator."""

    run: Run | None
    walk: Walk | None = None


@attrs.frozen(slots=False)
class Scope:
    """Hold the loops and regions around a statement.

    Args:
        region: the innermost region.
        titles: titles of all regions.
        needs: for each variable, the loop variables that its value depends on.
        guard: the loop variables that the surrounding conditions depend on.
    """

    region: Region | None = None
    titles: tuple[str, ...] = ()
    needs: tuple[tuple[str, Needs], ...] = ()
    guard: Needs = frozenset()

    @property
    def title(self) -> str:
        """Return the title of the innermost region, "" outside of regions."""
        return self.region.title if self.region is not None else ""

    def of(self, *exprs: Expr | None) -> Needs:
        """List the loop variables that expressions depend on."""
        known = dict(self.needs)
        found: set[str] = set()
        for expr in exprs:
            if expr is not None:
                for leaf in free(expr):
                    found |= known.get(leaf.name, frozenset())
        return frozenset(found)

    def bind(self, name: str, needs: Needs) -> Scope:
        """Add a variable."""
        return evolve(self, needs=(*(pair for pair in self.needs if pair[0] != name), (name, needs)))

    def enter(self, region: Region) -> Scope:
        """Return the scope inside a region."""
        return evolve(self, region=region, titles=(*self.titles, region.title))
