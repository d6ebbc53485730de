"""Find the group of rows that holds an item of work, from the array that says where groups end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import FindGroup
from fireiron.simulate.access import Env, Value
from fireiron.simulate.order import Array


def finder(statement: FindGroup, ends: Array, value: Callable[..., Value]) -> Callable[[Env], None]:
    """Compile a search: it sets the variables of the groups.

    Args:
        statement: what is looked for.
        ends: the array's elements.
        value: compiles an index expression.

    Raises:
        SimulationError: `group-offsets`, when it runs.
    """
    groups = statement.groups
    item, count, rows, items = (value(e) for e in (statement.item, groups.count, groups.rows, groups.items))
    names = tuple(var.name for var in (groups.group, groups.first, groups.begin, groups.length))

    def find(env: Env) -> None:
        lasts = ends[: int(count(env))].astype(np.int64)
        _check(statement.ends.buffer.name, lasts, int(rows(env)))
        begins = np.concatenate([[0], lasts])
        lengths = np.append(np.diff(begins), 0)
        firsts = np.concatenate([[0], np.cumsum(-(-lengths[:-1] // groups.size) * int(items(env)))])
        wanted: Array = np.asarray(item(env))  # one for all threads, or one for each
        group: Array = (firsts[1:] <= wanted[..., None]).sum(-1)
        for name, values in zip(names, (group, firsts[group], begins[group], lengths[group]), strict=True):
            env[name] = values if wanted.ndim else int(values)

    return find


def _check(name: str, ends: Array, rows: int) -> None:
    """Refuse ends that go back, or beyond the rows: kernels take such groups for empty, or for shorter."""
    begins = np.concatenate([[0], ends[:-1]])
    wrong = np.flatnonzero((ends < begins) | (ends > rows))
    if len(wrong):
        group = int(wrong[0])
        raise SimulationError(
            "group-offsets",
            f"{name}[{group}] is {int(ends[group])}: group {group} begins at row {int(begins[group])}, and there are "
            f"{rows} rows",
            fix="give for each group the row before which it ends: np.cumsum(counts, dtype=np.int32)",
        )
