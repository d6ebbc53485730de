"""Early reads of programs: values that steps read after a loop of products are loaded before that loop.

The loads run while the products run, and the values wait in registers. Without early reads, each tile would wait for
global memory after its last product.
"""

from __future__ import annotations

import itertools

import attrs

from fireiron.base.errors import DecompositionError
from fireiron.kernel.analysis.sampling import reads_and_writes
from fireiron.kernel.ir.statements import Call, Compute, For, If, Micro, Region, Statement, View, walk
from fireiron.kernel.lower.context import Body
from fireiron.language.decompositions import Results


def read_early(link: Results, body: Body) -> Body:
    """Move the loads of an epilog's `early=` before the loop that precedes them.

    Args:
        link: the epilog.
        body: the statements of the links below it.

    Raises:
        DecompositionError: `epilog-early` where an operand is not loaded to registers after a loop.
    """
    for name in link.early:
        body, moved = _moved(body, name)
        if not moved:
            raise DecompositionError(
                "epilog-early",
                f"early= loads {name} before the products, but no load of {name} to registers stands behind their loop",
                fix="drop early=, or let one unit compute each tile and its threads read the operand there",
                link=link.link,
            )
    return body


def _moved(body: Body, source: str) -> tuple[Body, bool]:
    """Move the load of one array before the first loop over chunks that precedes it; say whether there was one."""
    place = next((i for i, s in enumerate(body) if _loads(s, source)), None)
    loop = next((i for i, s in enumerate(body[:place]) if any(map(_is_loop, walk((s,))))), None)
    if place is not None and loop is not None:
        crossed, load = body[loop:place], body[place]
        filled = {view.buffer.name for view, way in _touched((load,)) if way == "write"}
        if all(view.buffer.name not in filled for view, _ in _touched(crossed)):
            return (*body[:loop], load, *crossed, *body[place + 1 :]), True
    for i, s in enumerate(body):
        if isinstance(s, For | If | Region):
            inner, moved = _moved(s.body, source)
            if moved:
                return (*body[:i], attrs.evolve(s, body=inner), *body[i + 1 :]), True
    return body, False


def _loads(statement: Statement, source: str) -> bool:
    """Say whether a statement only loads an array from global memory to registers."""
    if not isinstance(statement, Region) or statement.kind != "load":
        return False
    touched = _touched((statement,))
    return any(way == "read" for _, way in touched) and all(
        view.buffer.name == source if way == "read" else view.buffer.memory.registers for view, way in touched
    )


def _is_loop(statement: Statement) -> bool:
    return isinstance(statement, For) and statement.kind == "chunks"


def _touched(body: Body) -> tuple[tuple[View, str], ...]:
    found = (reads_and_writes(s) for s in walk(body) if isinstance(s, Call | Compute | Micro))
    return tuple(itertools.chain.from_iterable(found))
