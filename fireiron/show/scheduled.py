"""What is shown: anything with a program, links, and the specs that they leave."""
# pyright: reportPrivateUsage=false
# What a chain holds for fireiron alone is private, so that completion leaves it out.

from __future__ import annotations

from typing import Protocol

from fireiron.language.decompositions import Decomposition
from fireiron.language.residual import Residual
from fireiron.language.specs import Task


class Scheduled(Protocol):
    """Hold a program, the links so far, and what they leave to do: a chain, or anything shaped like one."""

    @property
    def program(self) -> Task:
        """Give what is computed."""
        ...

    @property
    def links(self) -> tuple[Decomposition, ...]:
        """Give the decompositions, outermost first."""
        ...

    @property
    def _origin(self) -> Residual:
        """Give the spec before the first link."""
        ...

    @property
    def _trail(self) -> tuple[Residual, ...]:
        """Give the specs after each link."""
        ...

    @property
    def _path(self) -> str:
        """Give the links that led to `origin`, empty for a whole schedule."""
        ...


def origin_of(schedule: Scheduled) -> Residual:
    """Give the spec before the first link."""
    return schedule._origin


def trail_of(schedule: Scheduled) -> tuple[Residual, ...]:
    """Give the specs after each link."""
    return schedule._trail


def path_of(schedule: Scheduled) -> str:
    """Give the links that led to the first spec, empty for a whole schedule."""
    return schedule._path
