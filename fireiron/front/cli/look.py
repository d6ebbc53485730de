"""Commands that show facts of a schedule or an error: list, show, check, explain, diff, estimate, why."""

from __future__ import annotations

import builtins
from typing import Any

import attrs

from fireiron.base.errors import Finding
from fireiron.base.text import count
from fireiron.front.cli.find import presets
from fireiron.front.cli.options import Command, architecture
from fireiron.front.cli.output import Answer, plain, progress
from fireiron.front.conflicts import advised


def list(command: Command) -> Answer:
    """List the presets with their options."""
    from rich.padding import Padding
    from rich.text import Text

    found = presets()
    parts: builtins.list[Any] = []
    for target in found:
        parts += [Text(target.reference, style="bold"), Padding(Text(target.about), (0, 0, 0, 4))]
        if target.keywords:
            parts.append(Padding(Text("  ".join(k.text for k in target.keywords), style="dim"), (0, 0, 0, 4)))
    rows = [
        {
            "name": target.reference,
            "about": target.about,
            "shape": target.default.shape,
            "keywords": [
                {"name": k.name, "option": k.option, "type": k.kind.__name__, "default": k.default}
                for k in target.keywords
            ],
        }
        for target in found
    ]
    return Answer({"presets": rows}, tuple(parts))


def show(command: Command) -> Answer:
    """Print the decomposition tree."""
    schedule = command.schedule
    data = {
        "schedule": str(schedule),
        "name": schedule.name,
        "finished": schedule.residual.closed,
        "tree": schedule.tree(command.options.width or 80).splitlines(),
    }
    return Answer(data, (schedule,), width=command.options.width)


def check(command: Command) -> Answer:
    """Check a schedule against an architecture's limits, and print all findings."""
    schedule = command.schedule
    arch = architecture(command.options.arch)
    found = schedule.facts(arch)
    found = attrs.evolve(found, findings=advised(schedule, found.findings, arch))
    wrong = any(finding.severity == "error" for finding in found.findings)
    kinds = [finding.severity for finding in found.findings]
    total = ", ".join(count(kinds.count(kind), kind) for kind in ("error", "warning", "note") if kind in kinds)
    parts: builtins.list[Any] = []
    for finding in found.findings:
        parts += [str(_own(command, finding)), ""]
    parts += [attrs.evolve(found, findings=()), "", f"{'wrong' if wrong else 'right'}: {total or 'nothing to say'}"]
    data = {"right": not wrong, "findings": plain(found.findings), "facts": plain(found)}
    return Answer(data, tuple(parts), int(wrong))


def _own(command: Command, finding: Finding) -> Finding:
    """Remove from a finding the caller of the preset, which is the command line's own code."""
    return attrs.evolve(finding, link=command.request.target.own(finding.error()).link)


def explain(command: Command) -> Answer:
    """Explain each link."""
    found = command.schedule.explain(architecture(command.options.arch))
    return Answer({"explanation": plain(found)}, (found,), width=command.options.width)


def diff(command: Command) -> Answer:
    """Describe how two schedules differ."""
    left, right = (request.build() for request in command.requests)
    found = left.diff(right)
    names = [request.text for request in command.requests]
    return Answer({"schedules": names, "diff": plain(found)}, (found,), width=command.options.width)


def estimate(command: Command) -> Answer:
    """Estimate the time."""
    with progress("estimating"):
        found = command.schedule.estimate(architecture(command.options.arch), **dict(command.options.settings))
    return Answer({"estimate": plain(found)}, (found,))


def why(command: Command) -> Answer:
    """Explain an error's code; without a code, list all codes."""
    import textwrap

    from fireiron.front.catalogue import catalogue
    from fireiron.front.catalogue import why as find

    code = command.options.error_code
    if code is not None:
        entry = find(code)
        return Answer({"code": entry.code, "entry": plain(entry)}, (str(entry),))
    entries = catalogue()
    wide = max(len(entry.code) for entry in entries)
    lines = (f"{e.code:{wide}}  {textwrap.shorten(e.title, 78 - wide, placeholder='…')}" for e in entries)
    return Answer({"codes": [entry.code for entry in entries]}, ("\n".join(lines),))
