"""Build the site: pages, notebooks with their outputs, the API reference of public names, presets, and error codes.

    python .ci/site.py FOLDER

Writes Markdown to FOLDER/pages and the site to FOLDER/site. Fails where a link leads nowhere. Needs `fireiron[docs]`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, get_origin

sys.path.insert(0, str(Path(__file__).parent))

import reference

import fireiron
from fireiron.base.errors import FireironError
from fireiron.front.catalogue import catalogue
from fireiron.front.cli.find import Target
from fireiron.front.cli.find import presets as listed
from fireiron.front.cli.problem import Problem
from fireiron.front.program import Function

ROOT = Path(__file__).resolve().parent.parent
# What stands at another place on the site than in the repository.
MOVED = {
    "README.md": "index.md",
    "LICENSE": "license.md",
    "schedules": "api/presets.md",
    "bench/results/README.md": "results.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
LEARN = ("start", "language", "tables", "fusion", "programs", "products", "hopper", "coming_from", "claims", "glossary")
USE = ("cli", "debugging", "bench", "profiling", "numbers", "limits", "platforms", "trust")
# Modules whose exported names share a page.
TOPICS = {
    "Specs and tensors": ("front.spec", "language.tensor", "algebra.dtypes", "algebra.expr", "algebra.layout",
                          "algebra.swizzle", "front.roles", "algebra.index.nodes"),
    "Chains": ("front.chain", "front.verbs", "front.moves", "front.layers", "front.products", "front.program",
               "front.preset", "language.decompositions", "language.levels"),
    "Ops": ("language.functions", "language.pointwise", "front.outputs", "language.reductions",
            "language.subscripts", "language.einsum", "language.traced"),
    "Simulations": ("simulate.watch",),
    "Best schedules": ("front.best", "front.multiply", "tune.space", "algebra.arch", "algebra.machine"),
    "Errors": ("base.errors",),
}  # fmt: skip
MORE = "More"
# Pictures are as wide as a notebook's output: smaller, their text would be too small. A studio fills its frame.
WIDE = ".md-grid{max-width:1480px}\niframe{display:block;width:100%;height:85vh;border:0}\n"
SMALLEST = 0.85  # of a picture's size: text of 10 pixels has 8.5
# Public things that are no names of the package itself.
BESIDE = {
    "Best schedules": ("tune.search:tune",),
    "Results": ("front.simulation:Simulation", "simulate.kept:Kept", "simulate.watch:Moment",
                "estimate.facts:Facts", "estimate.model:Estimate",
                "jit.kernel:CompiledKernel", "jit.timing:Timing", "show.explain:Explanation",
                "show.diff:Diff", "base.errors:Finding"),
    "Pictures": tuple(f"show.pictures:{name}" for name in (
        "banks", "compare", "cuts", "decomposition", "fragment", "roofline", "timeline", "values", "Picture")),
    "Bench": ("bench.measure:measure", "bench.cases:Case"),
}  # fmt: skip


def moved(text: str, here: str) -> str:
    """Turn a page's links into those of the site; `here` is the page's path in the repository."""

    def one(match: re.Match[str]) -> str:
        target, hash_, place = match[2].partition("#")
        if not target or "://" in target:
            return match[0]
        path = (ROOT / here).parent.joinpath(target).resolve().relative_to(ROOT).as_posix()
        goal = MOVED.get(path, path.removeprefix("notebooks/").replace(".ipynb", ".md"))
        return f"{match[1]}({goal}{hash_}{place})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else re.sub(r"(!?\[[^\]]*\])\(([^)\s]+)\)", one, part) for i, part in enumerate(parts))


def inside(svg: str) -> str:
    """Put a picture inside a page, where it follows the page's theme and shows tips.

    A picture that is wider than the page shrinks to SMALLEST of its size; below that its text would be too small, and
    the reader scrolls. Search leaves its text out.
    """
    width = float(svg.partition(' width="')[2].partition('"')[0])
    fitted = f"width:100%;min-width:{width * SMALLEST:.0f}px;max-width:{width:.0f}px;height:auto"
    own = svg.strip().replace("max-width:100%;height:auto", fitted, 1)
    return f'<div style="overflow-x:auto" data-search-exclude>{own}</div>'


def inlined(text: str) -> str:
    """Put the repository's pictures inside a page in the place of their links."""

    def one(match: re.Match[str]) -> str:
        return inside((ROOT / "notebooks" / match[1]).read_text(encoding="utf-8"))

    return re.sub(r"^!\[[^\]]*\]\((pictures/\w+\.svg)\)$", one, text, flags=re.MULTILINE)


def notebook(path: Path) -> str:
    """Write a notebook as Markdown, its pictures inside."""
    lines: list[str] = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [moved(source, f"notebooks/{path.name}"), ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/svg+xml" in data:
                lines += [inside("".join(data["image/svg+xml"])), ""]
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                lines += ["```text", re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip("\n"), "```", ""]
    return "\n".join(lines)


def entry(name: str, value: Any, level: int = 2) -> list[str]:
    """Write one public name, with the public methods of a class and of those that it extends."""
    lines = [f"{'#' * level} {name}", ""]
    if isinstance(value, Function):
        arrays = "; ".join(f"`{array}` over {dims}" for array, dims in value.dims.items())
        text = [*reference.code(name, value.function), *reference.doc(value.function.__doc__), ""]
        return [*lines, *text, f"A program. Dims of its arrays: {arrays}.", ""]
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return [*lines, f"`{value}`, a `{type(value).__name__}`.", ""]
    lines += [*reference.code(name, value), *reference.doc(value.__doc__), ""]
    seen: set[str] = set()
    for kind in inspect.getmro(value) if inspect.isclass(value) else ():
        if kind.__module__.startswith("fireiron"):
            for each, method in reference.methods(kind):
                if each not in seen:
                    seen.add(each)
                    lines += [
                        f"{'#' * level}# {name}.{each}",
                        "",
                        *reference.code(each, method),
                        *reference.doc(method.__doc__),
                        "",
                    ]
    return lines


def public() -> dict[str, dict[str, Any]]:
    """List the public names by topic; those of a module that no topic names are `More`."""
    topic_of = {f"fireiron.{module}": topic for topic, modules in TOPICS.items() for module in modules}
    found: dict[str, dict[str, Any]] = {topic: {} for topic in (*TOPICS, *BESIDE, MORE)}
    for name in fireiron.__all__:
        value = getattr(fireiron, name)
        module = getattr(value, "__module__", None) or type(value).__module__
        # Type aliases say what they are where they are used.
        if module.startswith("fireiron") and get_origin(value) is None:
            found[topic_of.get(module, MORE)][name] = value
    for topic, words in BESIDE.items():
        for module, name in (word.split(":") for word in words):
            found[topic][name] = getattr(importlib.import_module(f"fireiron.{module}"), name)
    return {topic: names for topic, names in found.items() if names}


# What a preset's studio shows: the first of these that it takes.
SHOWN = (
    {},
    {"dtype": "f16"},
    {"dtype": "f16", "layout": "TN"},
    {"dtype": "f16", "layout": "TN", "shape": (256, 256, 512)},
)
# What programs must be told besides, by keyword.
TOLD: dict[str, Any] = {"window": 2, "taps": 1, "size": 1, "width": 2}


def studio(target: Target) -> str | None:
    """Write the studio of a preset on a small problem that it takes; None where there is none."""
    told = {keyword.name: TOLD[keyword.name] for keyword in target.keywords if keyword.required}
    for problem in SHOWN if target.takes_spec else SHOWN[:1]:
        try:
            return target.build(Problem(**problem), told).studio().html()
        except FireironError:
            continue
    return None


def studios(folder: Path) -> set[str]:
    """Write the studio of every preset, and give the names of those that have one."""
    folder.mkdir(parents=True)
    found: set[str] = set()
    names = [target.reference for target in listed()]
    with ProcessPoolExecutor() as pool:
        for name, page in zip(names, pool.map(named_studio, names), strict=True):
            if page is not None:
                (folder / f"{name}.html").write_text(page, encoding="utf-8")
                found.add(name)
            else:
                print(f"no studio of {name}: it takes none of the site's small problems", file=sys.stderr)
    return found


def named_studio(name: str) -> str | None:
    """Write the studio of a preset in a process of its own."""
    return studio(next(target for target in listed() if target.reference == name))


def framed(name: str) -> list[str]:
    """Show a preset's studio on the page of presets, once it is unfolded."""
    frame = f'<iframe src="../../studio/{name}.html" title="{name}" loading="lazy"></iframe>'
    return [f"<details><summary>Studio of {name}</summary>{frame}</details>", ""]


def presets(shown: Collection[str]) -> str:
    """Write the presets of all files of schedules, and the studios of some."""
    from fireiron import schedules

    lines = [
        "# Presets",
        "",
        "Functions from a spec to a finished schedule; `fireiron list` prints them with their options.",
        "",
    ]
    for each in pkgutil.iter_modules(schedules.__path__):
        if not each.name.startswith("_"):
            module = importlib.import_module(f"fireiron.schedules.{each.name}")
            lines += [f"## {each.name}", "", *reference.doc(module.__doc__), ""]
            programs = {n: x for n, x in vars(module).items() if isinstance(x, Function)}
            own = {n: x for n, x in programs.items() if x.function.__module__ == module.__name__}
            for name, value in {**reference.members(module), **own}.items():
                lines += entry(f"{each.name}.{name}", value, level=3)
                lines += framed(f"{each.name}.{name}") if f"{each.name}.{name}" in shown else []
    return "\n".join(lines)


def write(folder: Path, shown: Collection[str] = ()) -> list[Any]:
    """Write all pages, and give the site's navigation; `shown` names the presets that have a studio."""
    (folder / "api").mkdir(parents=True)
    (folder / "wide.css").write_text(WIDE, encoding="utf-8")
    titles: dict[str, str] = {}

    def put(name: str, text: str) -> str:
        (folder / name).write_text(text, encoding="utf-8")
        titles[name] = next((line[2:] for line in text.splitlines() if line.startswith("# ")), name)
        return name

    for source, name in MOVED.items():
        if source.endswith(".md"):
            put(name, inlined(moved((ROOT / source).read_text(encoding="utf-8"), source)))
    put("license.md", "# License\n\n```text\n" + (ROOT / "LICENSE").read_text(encoding="utf-8") + "\n```\n")
    for path in sorted((ROOT / "notebooks").glob("*.md")):
        put(path.name, inlined(moved(path.read_text(encoding="utf-8"), f"notebooks/{path.name}")))
    notebooks = [put(f"{path.stem}.md", notebook(path)) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    entries = catalogue()
    found = public()
    topics = {topic: f"api/{topic.lower().replace(' ', '_')}.md" for topic in found}
    known = {e.code: f"codes.md#{reference.anchor(e.code)}" for e in entries}
    for topic, names in found.items():
        file = Path(topics[topic]).name
        for name, value in names.items():
            known.setdefault(name, f"{file}#{reference.anchor(name)}")
            for each, _ in reference.methods(value):
                known.setdefault(each, f"{file}#{reference.anchor(f'{name}.{each}')}")
    for topic, names in found.items():
        text = "\n".join([f"# {topic}", "", *(line for name, value in names.items() for line in entry(name, value))])
        put(topics[topic], reference.linked(text, known, Path(topics[topic]).name))
    put("api/presets.md", reference.linked(presets(shown), known, "presets.md"))
    put("api/codes.md", reference.errors(entries))
    use = tuple(f"{stem}.md" for stem in USE)
    placed = {"index.md", *(f"{stem}.md" for stem in LEARN), *use, *notebooks, *MOVED.values()}
    more = tuple(sorted(name for name in titles if "/" not in name and name not in placed))
    first, *rest = (f"{stem}.md" for stem in LEARN)
    learn = (first, *notebooks, *rest)
    last = ("contributing.md", "architecture.md", "changelog.md", "results.md", "license.md")
    sections = {
        "Learn": learn,
        "Use": (*use, *more),
        "API": (*topics.values(), "api/presets.md", "api/codes.md"),
        "Develop": last,
    }
    titles |= {"api/presets.md": "Presets"}
    listed = {"index.md", *(name for names in sections.values() for name in names)}
    assert (missing := set(titles) - listed) == set(), f"no place in the navigation: {missing}"
    return [{"Home": "index.md"}, *({head: [{titles[x]: x} for x in names]} for head, names in sections.items())]


def main() -> int:
    """Build into the folder that the command names."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shown = studios(folder / "pages" / "studio")
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": str(folder / "pages"),
        "nav": write(folder / "pages", shown),
    }
    (folder / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement
    return subprocess.run(
        [*command, "-f", str(folder / "mkdocs.yml"), "-d", str(folder / "site")], env=environment
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
