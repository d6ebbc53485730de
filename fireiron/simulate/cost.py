"""The time that a simulation will take, so that one that would take too long is refused before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fireiron.algebra.expr import Expr, evaluate, free
from fireiron.atoms.flights import flying
from fireiron.kernel.ir.statements import (
    BLOCKS,
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
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    Vote,
    Wait,
)
from fireiron.simulate.groups import deferred

STATEMENT_S = 1.0e-4  # seconds to plan and execute one statement
ELEMENT_S = 5.0e-9  # seconds for one element of one lane
MICRO_S = 1.0e-5  # seconds for one call of a microkernel's NumPy function
LET_S = 2.0e-5
COPY_S = 1.0e-3  # seconds for one bulk copy: its checks at the start, and its writes
PRODUCT_S = 5.0e-4  # seconds for one warpgroup's asynchronous product, and for each of its terms
SUM_S = 1.2e-7
BLOCK_S = 1.0e-3


def cost(
    kernel: Kernel, sizes: Mapping[str, int] | None = None, blocks: int | None = None, launched: int | None = None
) -> float:
    """Predict the seconds that `simulate` takes, within a small factor.

    Args:
        kernel: the kernel to simulate.
        sizes: values of the symbols.
        blocks: number of blocks; None for all.
        launched: number of blocks of a persistent kernel that share its work; None for the number that `simulate`
            chooses.
    """
    env = dict(sizes or {})
    grid = _value(kernel.grid, env)
    if kernel.persistent:
        grid = (min(2 * kernel.cluster, grid) if blocks is None else grid) if launched is None else launched
    run = grid if blocks is None else min(-(-blocks // kernel.cluster) * kernel.cluster, grid)
    env[BLOCKS] = max(grid, 1)
    return run * (BLOCK_S + _body(kernel.body, env, kernel.threads))


def _body(body: tuple[Statement, ...], env: Mapping[str, int], threads: int) -> float:
    return sum(_statement(statement, env, threads) for statement in body)


def _statement(statement: Statement, env: Mapping[str, int], threads: int) -> float:
    match statement:
        case Let() | FindGroup() | Fetch() | Vote() | Draw() | Leave():
            return LET_S
        case (
            Sync() | CountIn() | Meet() | Raise() | Lower()
            | Commit() | Wait() | InitBarriers() | Await() | Arrive() | Advance() | Fence() | Prefetch()
            | Ask() | Turn()
        ):  # fmt: skip
            return STATEMENT_S / 4
        case Roles(roles=roles):
            return sum(_body(role.body, env, role.threads) for role in roles)
        case Call(atom=atom) if atom.rank or flying(atom.completion) == "sends":
            return COPY_S
        case Call(atom=atom) if deferred(atom.completion):
            m, n, _ = atom.shape
            return threads / (atom.unit.size or threads) * (PRODUCT_S + SUM_S * m * n)
        case For(extent=extent, body=body):
            trips = _value(extent, env)
            if _is_nest(body):
                # The iterations run at once: only elements count.
                once = _body(body, env, threads)
                return max(once, STATEMENT_S) + trips * max(once - STATEMENT_S, 0.0)
            return trips * _body(body, env, threads)
        case If(body=body) | Region(body=body):
            return _body(body, env, threads)
        case Call(views=views):
            return STATEMENT_S + ELEMENT_S * threads * sum(_size(view.layout.size, env) for view in views)
        case Compute(inputs=inputs):
            return STATEMENT_S + ELEMENT_S * threads * (1 + len(inputs))
        case Micro(views=views, level=level):
            elements = sum(_size(view.layout.size, env) for view in views)
            return STATEMENT_S + threads * (MICRO_S / (level.size or threads) + ELEMENT_S * elements)
        case _ as never:
            assert_never(never)


def _is_nest(body: tuple[Statement, ...]) -> bool:
    """Say whether a loop contains a single Call or Compute, inside Lets, loops, conditions and regions."""
    *lets, last = body or (Sync,)
    if not all(isinstance(let, Let) for let in lets):
        return False
    if isinstance(last, For | If | Region):
        return _is_nest(last.body)
    return isinstance(last, Compute) or (isinstance(last, Call) and not deferred(last.atom.completion))


def _size(size: int | Expr, env: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else _value(size, env)


def _value(expr: Expr, env: Mapping[str, int]) -> int:
    """Evaluate an expression with loop variables at 0."""
    zeros = {leaf.name: 0 for leaf in free(expr)}
    found = evaluate(expr, {**zeros, **env})
    assert isinstance(found, int)
    return found
