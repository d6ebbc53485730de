"""The interface of schedules for this package: a program, links, and the specs between them."""
# pyright: reportPrivateUsage=false
# What a chain holds for fireiron alone is private, so that completion leaves it out.

from __future__ import annotations

from typing import Protocol

from fireiron.language.decompositions import Decomposition
from fireiron.language.residual import Residual
from fireiron.language.specs import Task


class Scheduled(Protocol):
    """A program, the links so far, and the specs that remain after each: a chain, or a similar object."""

    @property
    def program(self) -> Task:
        """Return the program."""
        ...

    @property
    def links(self) -> tuple[Decomposition, ...]:
        """Return the decompositions, outermost first."""
        ...

    @property
    def _origin(self) -> Residual:
        """Return the spec before the first link."""
        ...

    @property
    def _trail(self) -> tuple[Residual, ...]:
        """Return the specs after each link."""
        ...

    @property
    def _path(self) -> str:
        """Return the path of links that lead to `_origin`; "" for a whole schedule."""
        ...


def origin_of(schedule: Scheduled) -> Residual:
    """Return the spec before the first link."""
    return schedule._origin


def trail_of(schedule: Scheduled) -> tuple[Residual, ...]:
    """Return the specs after each link."""
    return schedule._trail


def path_of(schedule: Scheduled) -> str:
    """Return the path of links that lead to the first spec; "" for a whole schedule."""
    return schedule._path
