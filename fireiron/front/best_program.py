"""The schedule of a program by its form: pointwise, rows that are folded and kept, folds of any dims."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from fireiron.base.errors import CheckError, FireironError
from fireiron.base.records import evolve
from fireiron.front.program import ProgramChain
from fireiron.language.steps import Program

MOST_CHOICES = 1024


@lru_cache(MOST_CHOICES)
def best_program(spec: ProgramChain, arch: str | None = None) -> Any:
    """Give a program's schedule: that of the preset for its form.

    Args:
        spec: what a function under `@program` gives.
        arch: the target; the program's own where None.

    Raises:
        CheckError: `nothing-legal` where no preset takes the program.
    """
    if arch is not None:
        spec = evolve(spec, program=evolve(spec.program, arch=arch))
    names = presets_for(spec.computed)
    refused: list[str] = []
    for name in names:
        file, function = name.split(".")
        try:
            return getattr(import_module(f"fireiron.schedules.{file}"), function)(spec)
        except FireironError as error:
            refused.append(f"{name}: {error.message}")
    said = "; ".join(refused) or "it multiplies matrices"
    raise CheckError("nothing-legal", f"no preset takes {spec.computed.name}: {said}", fix="write a schedule for it")


def presets_for(program: Program) -> tuple[str, ...]:
    """Name the presets for a program's form, the likeliest first."""
    if any(step.is_product for step in program.steps):
        return ()
    folded = {d.name for step in program.steps for d in step.over}
    if not folded:
        return ("pointwise.pointwise",)
    outputs = {t.name for t in program.outputs}
    kept = {d.name for step in program.steps for out in step.outs if out.name in outputs for d in out.dims}
    # Steps that read a fold's result at the dim that it folded need the whole row in one place.
    made: set[str] = set()
    again = False
    for step in program.steps:
        again |= any(ref.name in made for ref in step.reads) and any(d.name in folded for d in step.dims)
        if any(d.name in folded for d in step.over) or any(ref.name in made for ref in step.reads):
            made |= {out.name for out in step.outs}
    return ("rows.row",) if folded & kept or again else ("reductions.reduction", "rows.row")
