"""Answers of commands, and their output: to a terminal, to a file, or as JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import attrs

from fireiron.base.errors import Finding, FireironError, UsageError
from fireiron.base.link import Link
from fireiron.base.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 80
PATIENCE_S = 1.0


@attrs.frozen
class Answer:
    """Hold the answer of a verb.

    Args:
        data: the answer as data, for --json.
        parts: the answer for people: texts, and objects that rich can draw, in order.
        code: the exit code.
        width: columns of the output; None for the terminal's width.
    """

    data: Mapping[str, Any]
    parts: tuple[Any, ...] = ()
    code: int = 0
    width: int | None = None


def console(file: TextIO, width: int | None = None) -> Console:
    """Open a console on a file: as wide as the terminal, or 80 columns where the file is no terminal."""
    from rich.console import Console

    if width is None and not file.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        width = WIDTH
    return Console(file=file, width=width, highlight=False, soft_wrap=False)


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer on stdout, as JSON or for people."""
    if as_json:
        print(json.dumps(plain(answer.data), indent=2, allow_nan=False))
        return
    drawn = None
    for part in answer.parts:
        if not (hasattr(part, "__rich_console__") or hasattr(part, "__rich__")):
            print(printable(part) if isinstance(part, str) else part)
            continue
        drawn = drawn or console(sys.stdout, answer.width)
        if sys.stdout.isatty():
            drawn.print(part)
        else:  # files and pipes get no blanks at the ends of lines
            with drawn.capture() as captured:
                drawn.print(part)
            print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def report_error(error: FireironError, *, as_json: bool) -> None:
    """Print an error on stderr; with --json, also on stdout as JSON."""
    print(printable(str(error)), file=sys.stderr)
    if as_json:
        print(json.dumps({"error": plain(error)}, indent=2))


def pairs(rows: Mapping[str, Any]) -> Table:
    """Draw names and values in two columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(printable(name)), Text(printable(str(value))))
    return table


def columns(*heads: str, right: tuple[int, ...] = ()) -> Table:
    """Open a table with these heads; columns in `right` are aligned right, for numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i in right else "left", overflow="fold")
    return table


def row(table: Table, *cells: object) -> None:
    """Add a row of values as plain text."""
    from rich.text import Text

    table.add_row(*(Text(printable(str(cell))) for cell in cells))


def write(path: str, content: str | bytes) -> None:
    """Write the file of option -o.

    Raises:
        UsageError: `cannot-write`.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        Path(path).write_bytes(data)
    except (OSError, ValueError) as error:  # a name that is no name of a file is a ValueError
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            "cannot-write", f"{path} cannot be written: {why}", fix="name a file in a folder that exists"
        ) from None


@contextmanager
def progress(doing: str) -> Generator[None]:
    """Print on stderr what is being done, once it takes longer than a second."""
    lock = threading.Lock()
    spinning: list[Any] = []
    finished = False

    def begin() -> None:
        with lock:
            if finished:
                return
            if not sys.stderr.isatty():
                print(f"{doing} ...", file=sys.stderr, flush=True)
                return
            from rich.text import Text

            status = console(sys.stderr).status(Text(doing))
            status.start()
            spinning.append(status)

    timer = threading.Timer(PATIENCE_S, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            finished = True
        for status in spinning:
            status.stop()


def plain(value: Any) -> Any:
    """Convert records to data of JSON; NaN and infinities become their names.

    Example:
        >>> plain((1, float("inf"), Finding("idle-threads", "64 idle", "warning"))[:2])
        [1, 'inf']
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case FireironError():
            return {"family": type(value).__name__, **_located(value)}
        case Finding():
            return {"severity": value.severity, **_located(value)}
        case Mapping():
            found = cast("Mapping[Any, Any]", value)
            return {str(k): plain(v) for k, v in found.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in cast("tuple[Any, ...]", value)]
        case _ if hasattr(value, "to_json"):
            return plain(value.to_json())
        case _ if _is_record(value):
            fields = {field.name: getattr(value, field.name) for field in value.__attrs_attrs__}
            return {name: plain(v) for name, v in fields.items() if not isinstance(v, Link)}
        case _ if hasattr(value, "item"):  # NumPy's scalars
            return plain(value.item())
        case _:
            return str(value)


def _is_record(value: Any) -> bool:
    """Say whether a value is converted field by field; links and short words of the language become text."""
    if not hasattr(value, "__attrs_attrs__") or isinstance(value, Link):
        return False
    words = value.__class__.__module__.startswith(("fireiron.algebra", "fireiron.language"))
    return not words or value.__class__.__str__ is object.__str__


def _located(value: FireironError | Finding) -> dict[str, Any]:
    found = {"code": value.code, "message": value.message, "fix": value.fix, "path": value.path}
    return found if value.link is None else found | {"where": value.link.where(), "underlined": value.link.underlined}
