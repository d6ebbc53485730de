"""Places in source text: find the call that a code position belongs to, and print it with carets below."""

import ast
import io
import linecache
import os
import tokenize
from collections.abc import Sequence
from itertools import islice
from types import CodeType

import attrs

# A gutter two digits wide keeps the arrow where it is when an edit moves a call from line 9 to line 10.
MIN_GUTTER = 2


@attrs.frozen
class Place:
    """Hold one underlined stretch of one source line, as plain values that outlive the code object.

    Args:
        filename: as the code object names it.
        line: from 1.
        column: first underlined character, from 0; None where no column is known.
        end: one past the last underlined character; None where no column is known.
        source: the line's text, without its end; empty where the source is missing.
    """

    filename: str
    line: int
    column: int | None = None
    end: int | None = None
    source: str = ""

    @property
    def underlined(self) -> str:
        """Return the source text above the carets, empty where none are printed."""
        return "" if self.column is None else self.source[self.column : self.end]

    def where(self) -> str:
        """Return `file:line:column`, with as much of it as is known.

        Example:
            >>> Place("<string>", 3).where()
            '<string>:3'
            >>> Place("<string>", 3, 4, 9, "k = tile()").where()
            '<string>:3:5'
        """
        name = display_name(self.filename)
        return f"{name}:{self.line}" if self.column is None else f"{name}:{self.line}:{self.column + 1}"

    def excerpt(self, gutter: int) -> list[str]:
        r"""Return the source line and the carets below it, none where the source is missing.

        Args:
            gutter: characters for the line number.

        Example:
            >>> print(*Place("<string>", 3, 2, 10, "a.to(Block)").excerpt(2), sep="\n")
             3 | a.to(Block)
               |   ^^^^^^^^
        """
        if not self.source:
            return []
        lines = [f"{self.line:>{gutter}} | {self.source}"]
        if self.column is not None and self.underlined:
            # A tab stays a tab, so that the carets stand below the text however wide the terminal draws it.
            padding = "".join("\t" if c == "\t" else " " for c in self.source[: self.column])
            lines.append(f"{'':>{gutter}} | {padding}{'^' * len(self.underlined)}")
        return lines


def excerpts(place: Place, caller: Place | None) -> list[str]:
    """Return the printed lines for a place and, where a preset wrote it, for the place that called the preset."""
    places = [place] if caller is None else [place, caller]
    gutter = max(MIN_GUTTER, *(len(str(p.line)) for p in places))
    lines = [f"{'':>{gutter}}--> {place.where()}", *place.excerpt(gutter)]
    if caller is not None:
        lines += [f"called from {caller.where()}", *caller.excerpt(gutter)]
    return lines


def display_name(filename: str) -> str:
    """Return a file's name as a reader knows it: relative to the current directory if inside it, else its base name.

    Example:
        >>> display_name("<ipython-input-3-0a1b>")
        '<ipython-input-3-0a1b>'
        >>> display_name("/tmp/ipykernel_71/2093.py")
        '<notebook cell>'
        >>> display_name("/nowhere/schedule.py")
        'schedule.py'
    """
    if filename.startswith("<"):
        return filename
    folder, name = os.path.split(filename)
    # ipykernel names a cell by process id and hash: noise to a reader, and different on each run.
    if os.path.basename(folder).startswith("ipykernel_"):
        return "<notebook cell>"
    here, path = os.path.realpath(os.getcwd()), os.path.realpath(filename)
    return path[len(here) :].lstrip(os.sep) if path.startswith(here.rstrip(os.sep) + os.sep) else name


def find_place(code: CodeType, lasti: int) -> Place:
    """Find the source of one instruction: its call from the method's name on, else its whole line.

    Args:
        code: the frame's code object.
        lasti: the frame's `f_lasti`, in bytes.
    """
    line, end_line, column, end_column = next(islice(code.co_positions(), lasti // 2, None), (None,) * 4)
    if line is None:
        return Place(code.co_filename, code.co_firstlineno)
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    if line > len(lines):
        return Place(code.co_filename, line)
    bare = Place(code.co_filename, line, source=lines[line - 1].rstrip())
    if end_line is None or column is None or end_column is None:
        return bare
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return bare
    node = _node_at(tree, (line, column), (end_line, end_column))
    return bare if node is None else _underline(code.co_filename, lines, node)


def _node_at(tree: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> ast.expr | None:
    """Return the call that ends at `end`, else one whose method name starts at `start`, else the operator there."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.expr)]
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    # The compiler may move a call's start to its method's name, and its end with it, so either may identify it.
    # No two calls share an end: each has its own closing parenthesis.
    found = (
        *(c for c in calls if _end(c) == end),
        *(c for c in calls if isinstance(c.func, ast.Attribute) and _start(c) == start),
        *(n for n in nodes if (n.lineno, n.col_offset) == start and _end(n) == end),
    )
    if found and isinstance(found[0], ast.Attribute):
        # A method that could not be looked up: its call says more than its name.
        return next((c for c in calls if c.func is found[0]), found[0])
    return found[0] if found else None


def _start(node: ast.expr) -> tuple[int, int]:
    """Return where the underline starts, as (line, UTF-8 column): at a call's own name, after what it is called on."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as func):
            line, column = _end(func)
            return line, column - len(name.encode())
        case _:
            return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    """Return where a node ends, as (line, UTF-8 column)."""
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _underline(filename: str, lines: Sequence[str], node: ast.expr) -> Place:
    """Return the node's place; of a node over several lines only the first line's code."""
    (line, start), (end_line, end) = _start(node), _end(node)
    source = lines[line - 1].rstrip()
    column = _characters(source, start)
    if end_line == line:
        return Place(filename, line, column, _characters(source, end), source)
    return Place(filename, line, column, column + len(_without_comment(source[column:])), source)


def _characters(source: str, nbytes: int) -> int:
    """Return how many characters a UTF-8 column stands for.

    Example:
        >>> _characters("é.to(Block)", 3)
        2
    """
    return len(source.encode()[:nbytes].decode(errors="ignore"))


def _without_comment(source: str) -> str:
    """Return the start of a statement without a comment at its end.

    Example:
        >>> _without_comment('load("#1",  # the first')
        'load("#1",'
    """
    end = len(source)
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                end = token.start[1]
    except tokenize.TokenError:
        pass  # The statement goes on in the next line, which this text does not hold.
    return source[:end].rstrip()
