"""The explanation of a plan: a table of launches, reasons of fusion, memory, and operations without a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fireiron.base.text import count
from fireiron.graph.words import described, names_of

if TYPE_CHECKING:
    from fireiron.graph.plan import Launch, Plan


def titles(plan: Plan) -> tuple[str, ...]:
    """Name each launch by its operations."""
    return tuple(_title(plan, launch) for launch in plan.launches)


def _title(plan: Plan, launch: Launch) -> str:
    nodes = [plan.graph.nodes[n] for n in launch.part.nodes]
    ops = list(dict.fromkeys(n.op for n in nodes if n.kind != "view" and n.op != "cast")) or ["cast"]
    if launch.kernel is None:
        return str(nodes[-1]["label"]) if nodes[-1].op == "foreign" else nodes[-1].op
    if launch.part.kind == "attention":
        return "attention"
    return "_".join(ops)[:48].rstrip("_")


def explain(plan: Plan) -> str:
    """Write the table."""
    graph, names = plan.graph, names_of(plan.graph)
    given = plan.passed.given
    lines = [
        f"{graph.name} for {plan.arch}: {count(given.ops, 'operation')} traced, {graph.ops} behind the passes, "
        f"{count(len(plan.kernels), 'kernel')}"
    ]
    rows: list[tuple[str, ...]] = [("", "form", "operations", "reads", "gives", "modelled")]
    total = 0.0
    for place, (title, launch) in enumerate(zip(titles(plan), plan.launches, strict=True)):
        us = launch.modelled_us
        total += us or 0.0
        ops = sum(graph.nodes[n].kind != "view" for n in launch.part.nodes)
        reads = ", ".join(names[i] for i in launch.part.inputs)
        gives = ", ".join(f"{names[i]}{described(graph.nodes[i])}" for i in launch.part.outputs)
        form = "once" if launch.once else launch.part.kind if launch.kernel is not None else "left over"
        time = f"{us:.1f} us" if us is not None else "-"
        rows.append((str(place), form, f"{title} ({ops})", reads, gives, time))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines += ["  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    memory = plan.memory
    lines.append(f"  modelled {total:.1f} us in all, one launch after another; nothing here is measured")
    lines.append(
        f"  {memory.nbytes} bytes for results between kernels, {memory.apart} without sharing, "
        f"{memory.eager} where operators run one by one"
    )
    for whole, parts in plan.joined.items():
        said = ", ".join(names[i] for i in parts)
        lines.append(
            f"  {names[whole]}{described(graph.nodes[whole])} needs no copy: kernels write {said} to their places in it"
        )
    for place, launch in enumerate(plan.launches):
        why = [*([launch.why] if launch.why else []), *_short(launch.part.why)]
        lines += [f"  {place}: {text}" for text in why]
    return "\n".join(lines)


def _short(why: tuple[str, ...]) -> list[str]:
    """Merge reasons that differ only in their first word, the operation."""
    found: dict[str, list[str]] = {}
    for text in why:
        first, _, rest = text.partition(" ")
        found.setdefault(rest, []).append(first)
    return [f"{rest}: {', '.join(dict.fromkeys(firsts))}" for rest, firsts in found.items()]
