"""Sends of registers to the shared memory of blocks of a cluster: they land later, and an mbarrier counts their bytes.

A send lands when the receiving block's mbarrier is awaited and no coroutine can continue. Threads that have waited for
it also come after all that the sending thread relies on: the reads of its block before its last barrier.

Source: PTX ISA, st.async: a weak access of the generic proxy; complete-tx has release semantics at cluster scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from fireiron.kernel.ir.statements import Call
from fireiron.simulate.barriers import Slot
from fireiron.simulate.lanes import each
from fireiron.simulate.leaves import SKIP, active, refuse_flying
from fireiron.simulate.memory import Storage
from fireiron.simulate.order import Array
from fireiron.simulate.state import Place, State
from fireiron.simulate.steps import Act, Scope
from fireiron.simulate.tracker import Race

if TYPE_CHECKING:
    from fireiron.simulate.program import Compiler


@attrs.define(eq=False)
class Send:
    """Hold a thread's send on its way to one block.

    Args:
        place: the statement.
        near: the receiving block's storage.
        index: the flat elements there.
        granules: the tracker's granules of `index`.
        values: the elements.
        told: the vector clock that the sending thread releases; empty where races are not looked for.
        slot: the mbarrier that counts the bytes.
    """

    place: Place
    near: Storage
    index: Array
    granules: Array
    values: Array
    told: Array
    slot: Slot

    @property
    def nbytes(self) -> int:
        """Return the number of bytes that the mbarrier counts."""
        return len(self.index) * self.near.itemsize

    def land(self) -> None:
        """Write the elements."""
        self.near.data[self.index] = self.values
        assert self.near.tracker is not None
        self.near.tracker.mark(self.granules, True, -1)
        self.near.tracker.finish_write(self.granules, self.slot.who)
        if len(self.told):
            self.slot.told = np.maximum(self.slot.told, self.told)


class Sends:
    """Execute one statement that sends registers."""

    def __init__(self, compiler: Compiler, statement: Call, scope: Scope) -> None:
        self.team = compiler.team
        self.leaf = compiler.leaf(statement, scope)
        self.place = self.leaf.place
        (_, into) = statement.views
        if into.peer is None or statement.signal is None or into.buffer.memory.name != "SH":
            text = f"{self.place}: a send goes to the shared memory of a block of the cluster, for an mbarrier"
            raise self.team.error(self.place, "bulk-views", text, "give its view a peer, and the Call a signal")
        self.name = into.buffer.name
        self.peer = compiler.value(into.peer)
        self.barrier, number = statement.signal
        self.number = compiler.value(number)

    def run(self, state: State, act: Act) -> None:
        """Send from each active thread."""
        team, plan = self.team, self.leaf.plan(state, act)
        if isinstance(plan, str):
            assert plan == SKIP
            return
        team.order.tick(self.place.number)
        ((source,), (target,)) = plan.reads, plan.writes
        assert source is not None
        values = active(self.leaf.load(source), target, plan.mask)
        ranks, numbers = (each(value, state.env, team) for value in (self.peer, self.number))
        self.place.count += plan.count
        self.place.charge("SH", "write", target.traffic)
        for lane in np.unique(target.who) - 1:
            mine = target.who == lane + 1
            self._send(int(lane), int(ranks[lane]), int(numbers[lane]), target.touched[mine], values[mine])

    def _send(self, lane: int, rank: int, number: int, index: Array, values: Array) -> None:
        """Start one thread's send."""
        team, machine = self.team, self.team.machine
        order, thread, members = team.order, team.offset + lane, machine.cluster_of(team.member)
        if not 0 <= rank < len(members):
            text = f"{self.place}: {team.who(lane)} sends to rank {rank} of a cluster of {len(members)}"
            raise team.error(self.place, "bad-peers", text, "send to blocks of the cluster")
        member = members[rank]
        near, slot = member.shared[self.name], member.barriers[self.barrier.name][number]
        granules = near.granules(index, index)[0]
        slot.usable(team, self.place, np.array([thread]), asynchronous=True)
        refuse_flying(team, self.place, near, granules, "writes")
        told = np.zeros(0, np.int32)
        assert near.tracker is not None
        if machine.check:
            row, told = order.common(np.array([thread])), order.released(np.array([thread]))
            try:
                near.tracker.start_write(granules, row, thread + 1, fenced=False)
            except Race as race:
                raise machine.race(self.place, race, near, granules, np.array([thread + 1])) from None
        if member is not team.member:
            member.visits.append((thread, order.now, self.place))
        near.tracker.mark(granules, True, 1)
        slot.flights.append(Send(self.place, near, index, granules, values, told, slot))
