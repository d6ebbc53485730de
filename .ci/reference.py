"""Write the API reference from docstrings, and the catalogue of errors, as Markdown; fail where a link leads nowhere.

    python .ci/reference.py FOLDER

Names in backquotes that the reference holds become links. Nothing of what is written is committed.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fireiron
from fireiron.front.catalogue import Entry, catalogue

ROOT = Path(__file__).resolve().parent.parent
WIDEST = 76  # characters of a signature on one line
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Where the links of chains are looked for, in this order.
CHAINS = ("fireiron.front.chain", "fireiron.front.verbs")
NAME = re.compile(r"`([A-Za-z_][\w.-]*)(\([^`]*\))?`")
FENCED = re.compile(r"^```.*?^```$|^    [^\n]*$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^(Args|Shapes|Raises|Returns|Source|Example|Attributes):\s*(.*)$")


def modules() -> Iterator[ModuleType]:
    """List the modules of the package; those whose names start with an underscore are nobody's business."""
    yield fireiron
    for found in pkgutil.walk_packages(fireiron.__path__, "fireiron."):
        if not any(part.startswith("_") for part in found.name.split(".")) and "mistakes" not in found.name:
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as error:  # operators of torch and JAX, where these are not installed
                if error.name not in ("torch", "jax"):
                    raise


def members(module: ModuleType) -> dict[str, Any]:
    """List the public classes and functions that a module defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    }


def page(module: ModuleType) -> str:
    """Write one module."""
    lines = [f"# {module.__name__}", "", *doc(module.__doc__), ""]
    for name, value in members(module).items():
        lines += [f"## {name}", "", *code(name, value), *doc(value.__doc__), ""]
        for each, method in methods(value):
            lines += [f"### {name}.{each}", "", *code(each, method), *doc(method.__doc__), ""]
    return "\n".join(lines)


def methods(value: Any) -> Iterator[tuple[str, Any]]:
    """List the public methods and properties that a class defines, documented ones alone."""
    if not inspect.isclass(value):
        return
    for name, found in vars(value).items():
        inner = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        inner = getattr(inner, "func", inner)  # cached properties
        if not name.startswith("_") and inspect.isfunction(inner) and inner.__doc__:
            yield name, inner


def code(name: str, value: Any) -> list[str]:
    """Write a signature; a long one takes a line for each parameter."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    text = _plain(f"{name}{signature}")
    if len(text) > WIDEST:
        found: list[str] = []
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not any(each.startswith("*") for each in found):
                found.append("*")
            found.append(_plain(str(parameter)))
            if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name == _last_by_place(signature):
                found.append("/")
        result = signature.return_annotation
        arrow = "" if result is signature.empty else _plain(f" -> {inspect.formatannotation(result)}")
        text = "\n".join([f"{name}(", *(f"    {each}," for each in found), f"){arrow}"])
    return ["```python", text, "```", ""]


def _last_by_place(signature: inspect.Signature) -> str:
    """Name the last parameter that is given by its place alone."""
    by_place = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    return by_place[-1]


def _plain(text: str) -> str:
    """Write annotations as a file does: without the quotes of those that are kept as text."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text.replace("NOTHING", "..."))


def doc(text: str | None) -> list[str]:
    """Write a docstring: sections become headings in bold, examples code."""
    lines: list[str] = []
    example = False
    for line in inspect.cleandoc(text or "").splitlines():
        section = SECTION.match(line)
        if section:
            example = section[1] in ("Example", "Shapes")
            lines += ["", f"**{section[1]}** {section[2]}".rstrip(), ""]
        elif example:
            lines.append(f"    {line.strip()}" if line.strip() else "")
        elif line.startswith("    "):
            field = re.match(r"    ([\w, *]+): (.*)", line)
            lines.append(f"- `{field[1]}`: {field[2]}" if field else line.strip())
        else:
            lines.append(line)
    return lines


def errors(entries: tuple[Entry, ...]) -> str:
    """Write the catalogue."""
    lines = ["# Error codes", "", "`fireiron why CODE` prints an entry.", ""]
    for entry in entries:
        lines += [f"## {entry.code}", ""]
        for mistake in entry.mistakes:
            lines += [mistake.title, "", "```python", mistake.source, "```", "```text", mistake.printed, "```", ""]
        if not entry.mistakes:
            for each in entry.raised:
                lines += ["```text", each.message, *([f"fix: {each.fix}"] if each.fix else []), "```", ""]
        files = dict.fromkeys(f"`{each.where}`" for each in entry.raised)
        lines += [f"Raised in {', '.join(files)}.", ""] if files else []
    return "\n".join(lines)


def anchor(heading: str) -> str:
    """Name the place that a heading makes."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def linked(text: str, known: dict[str, str], here: str) -> str:
    """Turn names that the reference holds into links; code is left alone."""

    def one(match: re.Match[str]) -> str:
        target = known.get(match[1])
        return match[0] if target is None else f"[{match[0]}]({target.removeprefix(here)})"

    # An argument's own name, at the start of its line, is nobody else's.
    parts = re.split(r"(^```.*?^```$|^ {4}[^\n]*$|^#[^\n]*$|^- `[\w, *]+`:)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else NAME.sub(one, part) for i, part in enumerate(parts))


def places(found: list[ModuleType]) -> dict[str, str]:
    """Say where names lead: the package's exports, then links of chains, then names that stand for one thing."""
    candidates: dict[str, list[tuple[Any, str]]] = {}
    known: dict[str, str] = {}
    for module in found:
        for name, value in members(module).items():
            candidates.setdefault(name, []).append((value, f"{module.__name__}.md#{anchor(name)}"))
            for each, _ in methods(value) if module.__name__ in CHAINS else ():
                known.setdefault(each, f"{module.__name__}.md#{anchor(f'{name}.{each}')}")
    for name, known_as in candidates.items():
        exported = [place for value, place in known_as if getattr(fireiron, name, None) is value]
        if exported or (len(known_as) == 1 and name not in known):
            known[name] = (exported or [known_as[0][1]])[0]
    return known


def broken(pages: dict[Path, str]) -> list[str]:
    """List the links of pages that lead nowhere."""
    places = {
        path: {anchor(h) for h in re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)}
        for path, text in pages.items()
    }
    found: list[str] = []
    for path, text in pages.items():
        for target in LINK.findall(FENCED.sub("", text)):
            if target.startswith(("http://", "https://")):
                continue
            name, _, place = target.partition("#")
            goal = (path.parent / name).resolve() if name else path
            if goal not in pages and not goal.exists():
                found.append(f"{path.name}: {target} is not there")
            elif place and place not in places.get(goal, {place}):
                found.append(f"{path.name}: {target} names no heading")
    return found


def unknown_codes(pages: dict[str, str], entries: tuple[Entry, ...]) -> list[str]:
    """List the codes that docstrings promise to raise and nothing raises."""
    codes = {entry.code for entry in entries}
    return [
        f"{name}: {code} is raised nowhere"
        for name, text in pages.items()
        for paragraph in re.findall(r"\*\*Raises\*\*.*?(?=\n\n\*\*|\n#|\Z)", text, re.DOTALL)
        for code in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", paragraph)
        if code not in codes
    ]


def build(folder: Path) -> list[str]:
    """Write all pages, and list what is wrong with them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(modules())
    known = places(found)
    entries = catalogue()
    known |= {entry.code: f"errors.md#{anchor(entry.code)}" for entry in entries}
    texts = {module.__name__: page(module) for module in found}
    listed = "\n".join(f"- [{name}]({name}.md)" for name in texts)
    written = {f"{name}.md": linked(text, known, f"{name}.md") for name, text in texts.items()}
    written |= {"errors.md": errors(entries)}
    written |= {"index.md": f"# fireiron\n\n- [Error codes](errors.md)\n{listed}\n"}
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    pages = {(folder / name).resolve(): text for name, text in written.items()}
    pages |= {path.resolve(): path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.md")}
    return [*broken(pages), *unknown_codes(texts, entries)]


def main() -> int:
    """Build into the folder that the command names."""
    wrong = build(Path(sys.argv[1]))
    print("\n".join(wrong) or f"{len(list(Path(sys.argv[1]).glob('*.md')))} pages")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
