"""Making the blocks of a cluster with their memories, and the teams of threads inside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fireiron.algebra.expr import evaluate
from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.flying import starts
from fireiron.kernel.ir.statements import (
    Arrive,
    Barrier,
    Call,
    Compute,
    Fence,
    InitBarriers,
    Kernel,
    Micro,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    View,
    walk,
    within,
)
from fireiron.simulate.barriers import Slot, unfinished
from fireiron.simulate.groups import deferred
from fireiron.simulate.memory import registers, shared
from fireiron.simulate.order import Order, some
from fireiron.simulate.state import WIDE, Machine, Member, Team

WARPGROUP = 128
MOST_TOGETHER = 8192  # threads whose vector clocks are kept: 0.5 GB


def has_partial_barriers(body: tuple[Statement, ...], threads: int) -> bool:
    """Say whether some barrier orders fewer threads than a whole block."""
    return any(isinstance(s, Sync) and s.level.size is not None and s.level.size < threads for s in walk(body))


def is_asynchronous(kernel: Kernel) -> bool:
    """Say whether a kernel has several coroutines, or asynchronous agents."""
    return (
        kernel.cluster > 1
        or bool(kernel.barriers)
        or any(
            isinstance(s, Roles | Turn | InitBarriers)
            or (isinstance(s, Fence) and not s.kind.startswith("grid."))
            or (isinstance(s, Call) and deferred(s.atom.completion))
            for s in walk(kernel.body)
        )
    )


def together(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Return the number of blocks that run at once: a cluster, or the grid where blocks wait for each other.

    Raises:
        SimulationError: `cooperative-grid` where the vector clocks of all threads take too much memory.
    """
    if not kernel.cooperative:
        return kernel.cluster
    blocks = int(evaluate(kernel.grid, sizes))  # pyright: ignore[reportArgumentType]
    if blocks * kernel.threads > MOST_TOGETHER:
        raise SimulationError(
            "cooperative-grid",
            f"{blocks} blocks of {kernel.threads} threads wait for each other, and run together: the simulator runs "
            f"{MOST_TOGETHER} threads together at most",
            fix="simulate smaller sizes, with fewer tiles or ways",
        )
    return blocks


def order_of(kernel: Kernel, blocks: int) -> Order:
    """Make the clocks for a kernel; `blocks` is the number of blocks that run at once."""
    partial = has_partial_barriers(kernel.body, kernel.threads)
    if not is_asynchronous(kernel) and blocks == 1:
        return Order(kernel.threads, partial)
    agents = sum(barrier.slots for barrier in kernel.barriers) + -(-kernel.threads // WARPGROUP)
    reads_peers = any(view.peer is not None for s in walk(kernel.body) if isinstance(s, Call) for view in s.views)
    peers = kernel.threads if reads_peers else 0
    return Order(kernel.threads * blocks, True, agents * blocks, peers)


def members(machine: Machine, sizes: Mapping[str, int]) -> Iterator[Member]:
    """Make the blocks of a cluster, with their memories, barriers and agents."""
    kernel, order = machine.kernel, machine.order
    for rank in range(machine.together):
        where = f" of rank {rank}" if machine.together > 1 else ""
        barriers: dict[str, list[Slot]] = {}
        for barrier in kernel.barriers:
            barriers[barrier.name] = []
            who = arrivers(kernel, barrier)
            for number in range(barrier.slots):
                name = f"{barrier.name}[{number}]{where}"
                slot = Slot(name, barrier.count, len(machine.agents), order, who)
                machine.agents.append(f"a bulk copy that {name} counts")
                barriers[barrier.name].append(slot)
        engine = len(machine.agents)
        if order.proxies:
            for first in range(0, kernel.threads, WARPGROUP):
                last = min(first + WARPGROUP, kernel.threads) - 1
                machine.agents.append(f"the asynchronous instruction of threads {first}..{last}{where}")
        found = {storage.buffer.name: storage for storage in shared(kernel, sizes, order, machine.check)}
        yield Member(rank, found, barriers, engine=engine)


def arrivers(kernel: Kernel, barrier: Barrier) -> str:
    """Describe the threads that arrive at a barrier."""
    found: dict[str, None] = {}
    for statement in walk(kernel.body):
        bodies = {f"role {role.name}": role.body for role in statement.roles} if isinstance(statement, Roles) else {}
        found |= {name: None for name, body in bodies.items() if _arrives(body, barrier)}
    if not found:
        return "the block" if _arrives(kernel.body, barrier) else "nobody"
    return " and ".join(found)


def _arrives(body: tuple[Statement, ...], barrier: Barrier) -> bool:
    return any(isinstance(s, Arrive) and s.barrier.name == barrier.name for s in walk(body))


def parts(role: Role) -> list[tuple[int, int]]:
    """Cut a role into warpgroups with separate coroutines, unless wider units execute some instruction together.

    Returns:
        The first thread in the block and the count of each part.
    """
    levels = [s.atom.unit if isinstance(s, Call) else s.level for s in walk(role.body) if isinstance(s, Call | Micro)]
    whole = role.threads % WARPGROUP or any(level.size is None or level.size > WARPGROUP for level in levels)
    step = role.threads if whole else WARPGROUP
    return [(role.first + first, step) for first in range(0, role.threads, step)]


def team_of(
    machine: Machine,
    member: Member,
    body: tuple[Statement, ...],
    threads: int,
    first: int = 0,
    role: Role | None = None,
) -> Team:
    """Make a team, with its registers.

    Raises:
        SimulationError: `role-registers` where a role uses registers that were set before roles parted.
    """
    used = {view.buffer.name for view in _views(body)}
    fragments = {
        view.buffer.name
        for statement in walk(body)
        if isinstance(statement, Call) and starts(statement, "products")
        for view in statement.views
    }
    storages = {**machine.storages, **member.shared}
    for buffer in machine.kernel.buffers:
        if buffer.memory.registers and buffer.name in used:
            if role is not None and buffer.name in member.teams[0].storages:
                raise SimulationError(
                    "role-registers",
                    f"role {role.name} uses the registers {buffer.name}, which are used outside roles too",
                    fix="give the role its own register buffers",
                )
            storages[buffer.name] = registers(buffer, machine.sizes, threads, buffer.name in fragments)
    team = Team(machine, member, storages, threads, first, role)
    member.teams.append(team)
    return team


def _views(body: tuple[Statement, ...]) -> Iterator[View]:
    """Visit the views of statements outside further roles."""
    for statement, around in within(body):
        if any(isinstance(x, Role) for x in around):
            continue
        match statement:
            case Call(views=views) | Micro(views=views):
                yield from views
            case Compute(dst=dst, inputs=inputs):
                yield from (dst, *inputs)
            case _:
                pass


def finish(machine: Machine) -> None:
    """End a cluster: bulk stores land, and no other asynchronous work may be in flight.

    Raises:
        SimulationError: `unfinished-flight`, `peer-exited`, `narrow-barrier`.
    """
    order = machine.order
    for member in machine.members:
        for team in member.teams:
            for (group, _), groups in team.groups.items():
                work = groups.unread
                if work is not None:
                    state = "committed" if groups.open else "waited for"
                    text = f"{team.label} ends, and its group ({group}) was never {state}"
                    raise unfinished(
                        work.place, machine, text, f"Commit({group!r}) and Wait({group!r}, 0) before the end"
                    )
        for ring in member.barriers.values():
            for slot in ring:
                if slot.flights:
                    text = f"block {member.block} ends while {slot.flights[0].nbytes} bytes fly to it, for {slot.name}"
                    raise unfinished(slot.flights[0].place, machine, text, "await the barrier before the block ends")
        if machine.check:
            mine = np.arange(machine.kernel.threads) + member.rank * machine.kernel.threads
            come = {(thread, time, place): 0 for thread, time, place in member.visits}
            come |= {
                (int(thread) - 1, look.time, look.place): 2 * order.columns
                for look in member.looks
                for thread in np.unique(look.who)
            }
            for (thread, time, place), part in come.items():
                if time <= order.base or some(order.matrix()[mine, part + thread] >= time):
                    continue
                comes = f"{place}: {machine.local(thread + 1)} comes to block {member.block}, which may have ended"
                if some(order.matrix()[mine, thread] >= time):
                    why, fix = "an mbarrier between them orders only the accesses of its own block", WIDE
                    raise machine.error(place, "narrow-barrier", f"{comes}: {why}", fix)
                fix = "await the last arrivals before the end, or end with a barrier of the cluster"
                raise machine.error(place, "peer-exited", f"{comes}: nothing there waits for it", fix)
    for member in machine.members:
        for team in member.teams:
            for groups in team.groups.values():
                groups.land(0)
