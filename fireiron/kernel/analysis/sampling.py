"""Sites: statements that access memory or compute, with what stands around them; and samples of variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.expr import Expr, Symbol, Var, as_expr, ceil_div, evaluate, free, lt, substitute
from fireiron.base.errors import CallError
from fireiron.base.link import Link, here
from fireiron.base.records import evolve
from fireiron.kernel.analysis.traffic import Array
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Ask,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Pointer,
    Prefetch,
    Raise,
    Region,
    Role,
    Roles,
    Size,
    Statement,
    Sync,
    Turn,
    View,
    Vote,
    Wait,
)

MOST_TRIPS = 2**31 - 1
TYPICAL = 1024  # value of a size that was not given
MOST_LANES = 1 << 16  # lanes for which one site is evaluated
SHORT = 16  # loops and grids up to this are never sampled
FEW = 6  # samples of a longer loop or grid


@attrs.frozen(slots=False)
class Site:
    """Hold one statement and what surrounds it.

    Args:
        statement: a Call, Compute, Micro or Sync.
        index: number of the statement in program order.
        loops: the loops around the statement, outermost first.
        lets: the named expressions in scope.
        guards: the conditions around the statement.
        region: the innermost region around the statement.
        role: the role that executes the statement; None outside roles.
        arrivals: the counters (`CountIn`) that the block has incremented before the statement.
    """

    statement: Call | Compute | Micro | Sync
    index: int
    loops: tuple[For, ...]
    lets: tuple[Let, ...]
    guards: tuple[Expr, ...]
    region: Region | None
    role: Role | None = None
    arrivals: tuple[CountIn, ...] = ()

    @property
    def link(self) -> Link | None:
        """Return the chain link that makes the statement: the link of its region, else its own."""
        return (self.region.link if self.region else None) or self.statement.link

    @property
    def title(self) -> str:
        """Return the region's title."""
        return self.region.title if self.region else ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Return a key of the region that does not depend on its title."""
        return self.region.place if self.region else ("", "", "")

    @property
    def path(self) -> str:
        """Return the region's place in the tree."""
        return self.region.path if self.region else ""


def sites(body: tuple[Statement, ...]) -> tuple[Site, ...]:
    """List every Call, Compute, Micro and Sync in program order."""
    return tuple(evolve(site, index=i) for i, site in enumerate(_sites(body, Site(Sync, 0, (), (), (), None))))  # pyright: ignore[reportArgumentType]


def _sites(body: tuple[Statement, ...], around: Site) -> Iterator[Site]:
    for statement in body:
        match statement:
            case Let():
                around = evolve(around, lets=(*around.lets, statement))
            case FindGroup():
                around = evolve(around, lets=(*around.lets, *_alike(statement)))
            case Draw(var=var):  # as if all units drew equally often
                around = evolve(around, lets=(*around.lets, Let(var, statement.expected)))
            case Fetch(var=var, view=view):  # as if each element's value were its index
                value = view.offset if var.extent is None else view.offset % var.extent
                around = evolve(around, lets=(*around.lets, Let(var, value)))
            case Vote(var=var):  # as if each warp took every branch
                around = evolve(around, lets=(*around.lets, Let(var, as_expr(statement.taken))))
            case For(body=inner):
                yield from _sites(inner, evolve(around, loops=(*around.loops, statement)))
            case If(condition=condition, body=inner):
                yield from _sites(inner, evolve(around, guards=(*around.guards, condition)))
            case Region(body=inner):
                yield from _sites(inner, evolve(around, region=statement))
            case Roles(roles=roles):
                for role in roles:
                    yield from _sites(role.body, evolve(around, role=role))
            case CountIn():
                around = evolve(around, arrivals=(*around.arrivals, statement))
            case (
                Leave()
                | Meet()
                | Raise()
                | Lower()
                | Commit()
                | Wait()
                | InitBarriers()
                | Await()
                | Arrive()
                | Advance()
                | Fence()
                | Prefetch()
                | Ask()
                | Turn()
            ):
                pass
            case Call() | Compute() | Micro() | Sync():
                yield evolve(around, statement=statement)


def _alike(search: FindGroup) -> tuple[Let, ...]:
    """Return the values of a FindGroup's variables for groups of equal size, as typical ones."""
    groups = search.groups
    rows = ceil_div(groups.rows, groups.count)
    items = ceil_div(rows, groups.size) * groups.items
    return (
        Let(groups.sought, search.item // items),
        Let(groups.group, search.item // items),
        Let(groups.first, groups.group * items),
        Let(groups.begin, groups.group * rows),
        Let(groups.length, rows),
    )


def reads_and_writes(statement: Call | Compute | Micro | Sync) -> tuple[tuple[View, str], ...]:
    """List the views that a statement accesses, with `read` or `write`; a view that an atom updates is listed twice.

    Outputs of a microkernel count as written only, as on the simulator; whether it also reads them is not known.
    """
    found: list[tuple[View, str]] = []
    match statement:
        case Call(atom=atom, views=views):
            for operand, view in zip(atom.operands, views, strict=True):
                # Memory does the addition: nothing is read back.
                ways = ("write",) if atom.kind == "Add" and operand.access == "update" else ("read", "write")
                found += [(view, way) for way in ways if operand.access in (way, "update")]
        case Compute(dst=dst, inputs=inputs):
            found = [*((view, "read") for view in inputs), (dst, "write")]
        case Micro(roles=roles, views=views, written=written):
            found = [(v, "write" if role in written else "read") for role, v in zip(roles, views, strict=True)]
        case Sync():
            pass
    return tuple(found)


def typical_sizes(kernel: Kernel, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Give every symbol a value: the given one, else its typical one, else 1024 adjusted to its bounds and multiple.

    Raises:
        CallError: `size-range` where the symbol cannot have the value; `unknown-size` where no symbol has the name.
    """
    sizes: dict[str, int] = {}
    found = {symbol.name: symbol for symbol in symbols(kernel)}
    for name, value in (given or {}).items():
        symbol = found.get(name)
        if symbol is None:
            known = ", ".join(found)
            raise CallError(
                "unknown-size",
                f"{kernel.name} has no size {name}",
                fix=f"its sizes: {known}" if known else f"drop {name}=",
                link=here(),
            )
        if not symbol.minimum <= value <= symbol.maximum or value % symbol.multiple_of:
            many = f"multiples of {symbol.multiple_of}" if symbol.multiple_of > 1 else "whole numbers"
            raise CallError(
                "size-range",
                f"{name} is {value}, and its values are {many} from {symbol.minimum} to {symbol.maximum}",
                fix=f"give {name} one of these",
                link=here(),
            )
    for symbol in found.values():
        value = max(TYPICAL if symbol.typical is None else symbol.typical, symbol.minimum)
        value = min(-(-value // symbol.multiple_of), symbol.maximum // symbol.multiple_of) * symbol.multiple_of
        sizes[symbol.name] = value
    return {**sizes, **(given or {})}


def symbols(kernel: Kernel) -> tuple[Symbol, ...]:
    """List the sizes that are known only at the launch."""
    found: dict[Symbol, None] = {p.symbol: None for p in kernel.parameters if isinstance(p, Size)}
    exprs = [kernel.grid, *(e for p in kernel.parameters if isinstance(p, Pointer) for e in (*p.shape, *p.strides))]
    for e in exprs:
        found |= {leaf: None for leaf in free(e) if isinstance(leaf, Symbol)}
    return tuple(found)


@attrs.frozen(eq=False)
class Sample:
    """Hold sampled values of the variables around a site; each sample stands for several executions.

    Args:
        env: arrays of values by name: samples along the first axis, threads along the last.
        weights: how many executions each sample stands for; their sum is the executions of an average block.
        threads: number of threads of the block, or of the role.
        turns: for loops whose trips units take in turn, the condition that a thread's unit takes the trip.
    """

    env: dict[str, Any]
    weights: Array
    threads: int
    turns: tuple[Expr, ...] = ()

    @property
    def lanes(self) -> tuple[int, int]:
        """Return the number of samples and the number of threads."""
        return len(self.weights), self.threads

    def of(self, e: Expr) -> Array:
        """Evaluate an expression for all lanes."""
        with np.errstate(divide="ignore"):  # in lanes beyond the last trip, which masks exclude
            return np.broadcast_to(np.asarray(evaluate(e, self.env), np.int64), self.lanes)

    def mask(self, *conditions: Expr | None) -> Array | None:
        """Say which lanes take part and satisfy all conditions; None where all do."""
        total: Array | None = None
        for condition in (*self.turns, *conditions):
            if condition is not None:
                holds = self.of(condition) != 0
                total = holds if total is None else total & holds
        return None if total is None or total.all() else total

    def warps(self, mask: Array | None) -> float:
        """Return how many warps of a block execute a statement, given the active lanes."""
        warps = -(-self.threads // 32)
        if mask is None:
            return float(self.weights.sum()) * warps
        padded = np.pad(mask, ((0, 0), (0, -self.threads % 32))).reshape(len(self.weights), warps, 32)
        return float((padded.any(axis=2).sum(axis=1) * self.weights).sum())


def sample(site: Site, kernel: Kernel, sizes: Mapping[str, int], wanted: tuple[Expr, ...]) -> Sample:
    """Choose values of loop variables and the block index for some expressions: all values where they are few.

    In a long loop, the first and the last iteration stand for themselves, and four between for the rest. In a large
    grid, evenly spread blocks stand for all.

    Args:
        site: the site whose loops are sampled.
        kernel: the kernel of the site.
        sizes: values of all symbols.
        wanted: the expressions that will be evaluated.
    """
    whole: dict[Var, Expr] = {}
    for let in site.lets:  # definitions may use other names
        whole[let.var] = substitute(let.value, whole)
    extents = [as_expr(substitute(loop.extent, whole)) for loop in site.loops]
    needed = _needed((*wanted, *extents), {let.var: let.value for let in site.lets})
    turns = tuple(
        lt(loop.var, extent)
        for loop, extent in zip(site.loops, extents, strict=True)
        if any(leaf.name == BLOCKS for leaf in free(extent)) and any(leaf.name == THREAD for leaf in free(extent))
    )
    needed |= {leaf.name for turn in turns for leaf in free(turn)}
    needed |= {leaf.name for arrival in site.arrivals if arrival.var.name in needed for leaf in free(arrival.count)}
    env: dict[str, Any] = dict(sizes)
    weights = np.ones(1)
    grid = max(1, int(evaluate(kernel.grid, sizes)))  # pyright: ignore[reportArgumentType]  # sizes may leave no block
    trips = _trips(site, extents, sizes, grid)
    axes = {loop.var.name: n for loop, n in zip(site.loops, trips, strict=True) if loop.var.name in needed}
    if BLOCK in needed:
        axes[BLOCK] = grid
    threads = site.role.threads if site.role else kernel.threads
    # A persistent block counts as taking one tile, and a ring as being at its start.
    env |= {BLOCKS: grid, RANK: 0}
    for cursor in site.role.cursors if site.role else ():
        env |= {cursor.slot.name: 0, cursor.parity.name: 0}
    few = _few(axes, max(1, MOST_LANES // threads))
    if BLOCK in needed:
        blocks = _spread(grid, FEW) if BLOCK in few else np.arange(grid)
        env[BLOCK] = blocks[:, None]
        weights = np.full(len(blocks), 1 / len(blocks))
    for loop, extent, most in zip(site.loops, extents, trips, strict=True):
        # Trips are the same in each warp; where warps take turns, the first one represents all.
        bound = np.broadcast_to(np.asarray(evaluate(extent, {**env, THREAD: 0})).reshape(-1), weights.shape)
        name = loop.var.name
        if name not in needed:
            weights = weights * bound
            continue
        values, each = _iterations(bound, most, name in few)
        count = values.shape[1]
        for known in (k for k, v in env.items() if not isinstance(v, int)):
            env[known] = np.repeat(env[known], count, axis=0)
        weights = np.repeat(weights, count) * each.reshape(-1)
        env[name] = values.reshape(-1)[:, None]
    env[THREAD] = np.arange(threads)[None, :]
    for arrival in site.arrivals:
        if arrival.var.name in needed:  # code that depends on it runs only in the last block
            env[arrival.var.name] = 1
            weights = weights / float(np.mean(np.asarray(evaluate(arrival.count, env))))
    with np.errstate(divide="ignore"):
        for let in site.lets:
            if let.var.name in needed:
                env[let.var.name] = evaluate(let.value, env)
    return Sample(env, weights, threads, turns)


def _needed(wanted: tuple[Expr, ...], meaning: Mapping[Var, Expr]) -> set[str]:
    found: set[str] = set()
    pending = [leaf for e in wanted for leaf in free(e)]
    while pending:
        leaf = pending.pop()
        if leaf.name not in found:
            found.add(leaf.name)
            pending += [x for x in free(meaning[leaf])] if isinstance(leaf, Var) and leaf in meaning else []
    return found


def _trips(site: Site, extents: list[Expr], sizes: Mapping[str, int], grid: int) -> list[int]:
    """Return the number of trips of each loop; the largest number where it depends on outer loops."""
    found: list[int] = []
    for loop, extent in zip(site.loops, extents, strict=True):
        names = {leaf.name for leaf in free(extent) if isinstance(leaf, Var)}
        if BLOCKS in names and names <= {BLOCKS, BLOCK, THREAD, RANK}:  # the first block's first threads take the most
            found.append(int(evaluate(extent, {**sizes, BLOCKS: grid, BLOCK: 0, THREAD: 0, RANK: 0})))  # pyright: ignore[reportArgumentType]
        elif names:  # a name's own range may be narrower than that of its definition
            most = [n for n in (loop.extent.range[1], extent.range[1]) if n is not None]
            found.append(min(*most, MOST_TRIPS) if most else TYPICAL)
        else:
            found.append(int(evaluate(extent, sizes)))  # pyright: ignore[reportArgumentType]
        assert loop.var.name
    return found


def _few(axes: Mapping[str, int], budget: int) -> set[str]:
    """Choose the axes to sample: the longest ones, until the others are few enough to enumerate."""
    few: set[str] = set()
    counts = dict(axes)
    while np.prod([max(n, 1) for n in counts.values()], dtype=float) > budget:
        longest = max(counts, key=lambda name: counts[name])
        if counts[longest] <= SHORT:
            break
        few.add(longest)
        counts[longest] = FEW
    return few


def _spread(count: int, parts: int) -> Array:
    """Return the middles of equal parts of a range."""
    return ((np.arange(parts) * 2 + 1) * count // (2 * parts)).astype(np.int64)


def _iterations(bounds: Array, most: int, few: bool) -> tuple[Array, Array]:
    """Choose trips of a loop, a row for each sample, and how many trips each chosen one stands for.

    Args:
        bounds: number of trips in each sample.
        most: largest number of trips.
        few: whether only the first, the last and four trips between are chosen.

    Example:
        >>> values, weights = _iterations(np.array([100, 3]), 100, True)
        >>> values.tolist(), weights.sum(axis=1).tolist()
        ([[0, 1, 2, 50, 51, 99], [0, 1, 2, 3, 4, 5]], [100.0, 3.0])
    """
    n = bounds[:, None]
    values = np.broadcast_to(np.arange(FEW if few else most), (len(bounds), FEW if few else most))
    weights = (values < n).astype(float)
    if not few:
        return values, weights
    inner = (n - 2) / 4
    chosen = np.concatenate([0 * n, 0 * n + 1, 0 * n + 2, n // 2, n // 2 + 1, n - 1], axis=1)
    each = np.concatenate([inner * 0 + 1, inner, inner, inner, inner, inner * 0 + 1], axis=1)
    return np.where(n > FEW, chosen, values), np.where(n > FEW, each, weights)
