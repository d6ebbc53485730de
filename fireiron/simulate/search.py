"""Reads of integer arrays that determine addresses: the ends of groups of rows, and the indices of gathers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fireiron.base.errors import SimulationError
from fireiron.kernel.ir.statements import Fetch, FindGroup
from fireiron.simulate.access import Env, Value
from fireiron.simulate.order import Array, some
from fireiron.simulate.steps import Act


def finder(statement: FindGroup, ends: Array, value: Callable[..., Value]) -> Callable[[Env], None]:
    """Compile a search: it sets the variables of the groups.

    Args:
        statement: the search.
        ends: the elements of the array with the groups' ends.
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


def fetcher(statement: Fetch, array: Array, value: Callable[..., Value]) -> Callable[[Env, Act], None]:
    """Compile the read of an index: it sets the statement's variable.

    Args:
        statement: the read.
        array: the elements of the statement's buffer.
        value: compiles an index expression.

    Raises:
        SimulationError: `gather-range`, when it runs.
    """
    var, name = statement.var, statement.view.buffer.name
    offset, present = value(statement.view.offset), value(statement.present)
    limit = None if var.extent is None else value(var.extent)

    def fetch(env: Env, act: Act) -> None:
        at, there = np.broadcast_arrays(np.asarray(offset(env)), np.asarray(present(env)) != 0)
        found: Array = np.where(there, array[np.where(there, at, 0)], 0).astype(np.int64) if len(array) else at * 0
        if var.lower < 0:  # a condition's element: clamped to its bounds
            assert limit is not None
            found = np.clip(found, var.lower, limit(env) - 1)
        wrong = (found < var.lower) | (limit is not None and found >= limit(env))
        wrong = np.asarray(wrong if act is None else wrong & act)
        if some(wrong):
            # A value for all threads has no dimension.
            each = [np.atleast_1d(x) for x in np.broadcast_arrays(wrong, at, found)]
            first = tuple(x[0] for x in np.nonzero(each[0]))
            where, index = (x[first] for x in each[1:])
            high = "" if limit is None else f" to {int(np.max(limit(env))) - 1}"
            raise SimulationError(
                "gather-range",
                f"element {int(where)} of {name} is {int(index)}, and indices lie from 0{high}",
                fix=f"give indices inside the array that {name} indexes: where(...) around a read does not stop it",
            )
        env[var.name] = found if found.ndim else int(found)

    return fetch


def _check(name: str, ends: Array, rows: int) -> None:
    """Raise an error for ends of groups that decrease or exceed the rows; a GPU would take them as empty or cut."""
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
