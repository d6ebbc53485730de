"""The catalogue of error codes, read from the sources that raise them and from the tests of mistakes.

`fireiron/front/mistakes` is a link to `tests/errors`; a wheel holds copies of these files. Each file makes one mistake
and has the text that is printed. A code without such a file is described by the calls that raise it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import attrs

from fireiron.base.errors import UsageError

PACKAGE = Path(__file__).resolve().parent.parent
Texts: TypeAlias = Mapping[str, ast.expr]
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")


@attrs.frozen
class Mistake:
    """Hold one mistake, as an example of an error.

    Args:
        title: the mistake in words.
        source: the code that makes the mistake.
        printed: the whole text of the error.
    """

    title: str
    source: str
    printed: str


@attrs.frozen
class Raised:
    """Hold one place that raises a code, and its words.

    Args:
        family: the error's class, or `Finding`.
        message: the message; a value stands as its name in braces, or as … if it has none.
        fix: the advice.
        where: path of the file.
    """

    family: str
    message: str
    fix: str
    where: str


@attrs.frozen
class Entry:
    """Describe one code.

    Args:
        code: the code. Example: `tile-extent`.
        raised: the places that raise the code.
        mistakes: examples of mistakes.
    """

    code: str
    raised: tuple[Raised, ...] = ()
    mistakes: tuple[Mistake, ...] = ()

    @property
    def title(self) -> str:
        """Describe the code in a line."""
        if self.mistakes:
            return self.mistakes[0].title
        return min((each.message for each in self.raised), key=lambda said: re.match(r"(\{\w+\}|…)$", said) is not None)

    def __str__(self) -> str:
        families = ", ".join(dict.fromkeys(each.family for each in self.raised))
        parts = [f"{self.code} ({families})" if families else self.code]
        for mistake in self.mistakes:
            parts += ["", mistake.title, "", textwrap.indent(mistake.source, "    "), ""]
            parts += [textwrap.indent(mistake.printed, "    ")]
        if not self.mistakes:
            for each in self.raised:
                parts += ["", each.message, *([f"fix: {each.fix}"] if each.fix else []), f"raised in {each.where}"]
        return "\n".join(parts)


def mistakes_folder(package: Path = PACKAGE) -> Path:
    """Return the folder of mistakes; where git could not make a link, a file holds the link's target."""
    link = package / "front/mistakes"
    return (link.parent / link.read_text(encoding="utf-8").strip()).resolve() if link.is_file() else link


@cache
def catalogue() -> tuple[Entry, ...]:
    """List all codes of the package in alphabetical order."""
    entries: dict[str, Entry] = {}
    for code, raised in _raised():
        entry = entries.setdefault(code, Entry(code))
        if raised not in entry.raised:
            entries[code] = attrs.evolve(entry, raised=(*entry.raised, raised))
    for file in sorted(mistakes_folder().glob("test_*.py")):
        for code, mistake in mistakes(file.read_text(encoding="utf-8")):
            entry = entries.get(code, Entry(code))
            entries[code] = attrs.evolve(entry, mistakes=(*entry.mistakes, mistake))
    return tuple(entries[code] for code in sorted(entries))


def why(code: str) -> Entry:
    """Return the entry of a code, given the code or the first line of an error.

    Raises:
        UsageError: `unknown-code`.

    Example:
        >>> print(why("DecompositionError[level-nests]: cannot map").title)
        A tile to Thread without a tile to Block.
    """
    import difflib

    inside = re.search(r"\[([a-z0-9-]+)\]", code)
    wanted = inside[1] if inside else code.strip()
    known = {entry.code: entry for entry in catalogue()}
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 3) or sorted(known)[:3]
        raise UsageError("unknown-code", f"no error has the code {wanted!r}", fix=f"perhaps {', '.join(near)}")
    return known[wanted]


def mistakes(text: str) -> Iterator[tuple[str, Mistake]]:
    """Read one file of mistakes; yield for each mistake its code, title, source and printed text."""
    tree = ast.parse(text)
    title = ast.get_docstring(tree) or ""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in ast.walk(tree):
        match call:
            case ast.Call(
                func=ast.Name("refused"), args=[wrong, ast.Constant(str(code)), _, ast.Constant(str(printed))]
            ):
                pass
            case _:
                continue
        match wrong:
            case ast.Name(name) if name in functions:
                source = _body(text, functions[name])
            case ast.Lambda(body=body):
                source = ast.get_source_segment(text, body) or ""
            case _:
                source = ast.get_source_segment(text, wrong) or ""
        yield code, Mistake(title, source, printed)
    for function in functions.values():
        for block in (node for node in ast.walk(function) if isinstance(node, ast.With)):
            told = dict(_asserted(function))
            if {"code", "message", "fix"} <= told.keys():
                printed = f"[{told['code']}]: {told['message']}\nfix: {told['fix']}"
                lines = text.splitlines()[block.body[0].lineno - 1 : block.end_lineno]
                yield told["code"], Mistake(title, textwrap.dedent("\n".join(lines)), printed)


def _asserted(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the fields of an error that a test compares with a text, with these texts."""
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=ast.Attribute(attr=field), ops=[ast.Eq()], comparators=[ast.Constant(str(text))]):
                yield field, text
            case _:
                pass


def _body(text: str, function: ast.FunctionDef) -> str:
    lines = text.splitlines()[function.body[0].lineno - 1 : function.end_lineno]
    return textwrap.dedent("\n".join(lines))


def _raised() -> Iterator[tuple[str, Raised]]:
    """Yield each call that makes an error or a finding, with the code."""
    # In a checkout fireiron/bench is a link, which a search of the package does not follow.
    for file in sorted({*PACKAGE.rglob("*.py"), *(PACKAGE / "bench").rglob("*.py")}):
        where = file.relative_to(PACKAGE.parent).as_posix()
        if "mistakes" in where or "schedules" in where:
            continue
        text = file.read_text(encoding="utf-8")
        if not any(word in text for word in ("Error(", "Finding(", "Fault(", ".error(", "._refuse(", "._wrong(")):
            continue
        tree = ast.parse(text)
        nodes = tuple(ast.walk(tree))
        calls = [(node, family) for node in nodes if isinstance(node, ast.Call) and (family := _family(node.func))]
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)] if calls else []
        inside = {id(node): function for function in functions for node in ast.walk(function)}
        for node, family in calls:
            yield from _call(node, family, where, _texts(inside.get(id(node))))


def _texts(function: ast.FunctionDef | None) -> Texts:
    """Return the texts that a function assigns to names."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function) if function else ():
        match node:
            case ast.Assign(
                targets=[ast.Name(name)], value=ast.Constant(str()) | ast.JoinedStr() | ast.IfExp() as value
            ):
                found.setdefault(name, []).append(value)
            case _:
                pass
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _family(func: ast.expr) -> str:
    """Return the class of what a call makes: its own class, or that of a function for errors; "" for other calls."""
    match func:
        case ast.Name("Fault") | ast.Attribute(attr="error" | "_refuse"):
            return "SimulationError"
        case ast.Attribute(attr="_wrong"):  # of a chain
            return "DecompositionError"
        case ast.Name(name) if name.endswith("Error") or name == "Finding":
            return name
        case _:
            return ""


def _call(node: ast.Call, family: str, where: str, texts: Texts) -> Iterator[tuple[str, Raised]]:
    """Read a call that makes an error of a class."""
    for i, arg in enumerate(node.args[:3]):
        match arg:
            case ast.Constant(str(code)) if CODE.fullmatch(code):
                # A fault names the thread between code and message.
                rest = node.args[i + 1 + (ast.unparse(node.func) == "Fault") :]
                told = next((k.value for k in node.keywords if k.arg == "fix"), rest[1] if len(rest) > 1 else None)
                fix = "" if told is None or (family == "Finding" and told in rest) else _words(told, texts)
                if rest:
                    yield code, Raised(family, _words(rest[0], texts), fix, where)
                return
            case _:
                pass


def _words(node: ast.expr, texts: Texts) -> str:
    """Read the expression of a message; a value that it fills in becomes a name in braces, or an ellipsis."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join(_words(value, texts) for value in values)
        case ast.FormattedValue(value):
            return _words(value, texts)
        case ast.BinOp(left, ast.Add(), right):
            return _words(left, texts) + _words(right, texts)
        case ast.IfExp(_, first, other) if _is_text(first, texts) and _is_text(other, texts):
            return f"{_words(first, texts)} / {_words(other, texts)}"
        case ast.Name(name) if name in texts:
            return _words(texts[name], {})
        case ast.Name(name) | ast.Attribute(attr=name):
            return f"{{{name}}}"
        case _:
            return "…"


def _is_text(node: ast.expr, texts: Texts) -> bool:
    match node:
        case ast.IfExp(_, first, other):
            return _is_text(first, texts) and _is_text(other, texts)
        case _:
            return isinstance(node, ast.Constant | ast.JoinedStr) or (isinstance(node, ast.Name) and node.id in texts)
