"""Turns: units execute the loops over a ring one after another; derives waits and arrivals at numbered block barriers.

Units that skip the chunks of each other's tiles must not run a whole ring ahead, since an mbarrier's phase has the same
parity as the phase before the last. Units with rows of the same layers share each slot; they take turns so that the
epilog of one runs during the products of another. Each unit waits at its own barrier before its loops, and after them
arrives at the next unit's barrier. Before all loops the last unit arrives at the first unit's barrier.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.expr import Expr, Var, eq
from fireiron.kernel.ir.statements import LOADS, Advance, For, If, Let, Region, Role, Roles, Statement, Turn

Body = tuple[Statement, ...]

FIRST_TURN = 8  # smaller numbers are used by the barriers of levels


@attrs.frozen
class Turns:
    """Describe the loops that units execute in turn.

    Args:
        unit: number of this unit, below `count`.
        count: number of units.
        threads: number of threads of a unit.
        loops: the variables of the loops, in program order.
        whole: whether all loops together are one turn; else each loop is one.
    """

    unit: Expr
    count: int
    threads: int
    loops: tuple[Var, ...] = ()
    whole: bool = False

    @property
    def waits(self) -> Body:
        """Wait at this unit's barrier."""
        return self._each(0, True)

    @property
    def tells(self) -> Body:
        """Arrive at the next unit's barrier."""
        return self._each(1, False)

    @property
    def first(self) -> Statement:
        """Make the last unit arrive at the first unit's barrier, so that the first unit may begin."""
        why = "the first main loop may begin"
        return If(eq(self.unit, self.count - 1), (Turn(FIRST_TURN, 2 * self.threads, False, why),))

    def _each(self, ahead: int, waits: bool) -> Body:
        def turn(i: int) -> Statement:
            number = FIRST_TURN + (i + ahead) % self.count
            return If(eq(self.unit, i), (Turn(number, 2 * self.threads, waits, "main loops take turns"),))

        return tuple(map(turn, range(self.count)))


def take_turns(body: Body, turns: Turns | None) -> Body:
    """Insert the waits for turns, and the arrivals at the next unit's barrier.

    Args:
        body: the kernel's statements, with a `Roles` where units take turns.
        turns: the units and loops; None if no unit takes turns.
    """
    if turns is None:
        return body
    return tuple(Roles(tuple(_role(r, turns) for r in s.roles)) if isinstance(s, Roles) else s for s in body)


def _role(role: Role, turns: Turns) -> Role:
    if role.name == LOADS:
        return role  # the role that fills a ring follows the roles that empty it
    begin = next((i for i, s in enumerate(role.body) if not isinstance(s, Let | Advance)), len(role.body))
    head, rest = role.body[:begin], role.body[begin:]
    return attrs.evolve(role, body=(*head, turns.first, *_around(rest, turns)))


def _around(body: Body, turns: Turns) -> Body:
    """Insert a wait before each turn, and an arrival after it."""
    out: list[Statement] = []
    for s in body:
        match s:
            case For(var=var) if var in turns.loops:
                begins = not turns.whole or var == turns.loops[0]
                ends = not turns.whole or var == turns.loops[-1]
                out += [*(turns.waits if begins else ()), s, *(turns.tells if ends else ())]
            case For(body=inner) | If(body=inner) | Region(body=inner):
                out.append(attrs.evolve(s, body=_around(inner, turns)))
            case _:
                out.append(s)
    return tuple(out)
