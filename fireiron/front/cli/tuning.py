"""Commands that find fast schedules: tune, best, records."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fireiron.base.errors import FireironError, UsageError
from fireiron.base.text import count
from fireiron.front.cli.options import Command, architecture, problem_of
from fireiron.front.cli.output import Answer, columns, console, pairs, progress, row

if TYPE_CHECKING:
    from fireiron.tune.record import Record
    from fireiron.tune.records import Read
    from fireiron.tune.search import Progress, Tuned

SUITES = "fireiron.bench.suites"
SHOWN = 5
INTERRUPTED = 130


def tune(command: Command) -> Answer:
    """Search for the fastest keywords of a preset, for one shape or those of a suite."""
    from fireiron.jit.process import Processes
    from fireiron.tune.candidates import preset
    from fireiron.tune.search import COMPILE_LIMIT_S, Interrupted
    from fireiron.tune.search import tune as search
    from fireiron.tune.space import space_of

    options, request = command.options, command.request
    target = request.target
    axes: dict[str, Any] | None
    if target.is_program:
        specs, presets, axes = _of_program(command)
    elif not target.takes_spec or target.moves:
        raise UsageError(
            "fixed-spec",
            f"{target.reference} schedules a Move" if target.moves else f"{target.reference} has a spec of its own",
            fix="name a function that schedules a product",
        )
    else:
        own = space_of(target.made)
        # A keyword that the command gives a value is not searched.
        said: dict[str, Any] = {name: (value,) for name, value in request.values.items()}
        axes = {**dict(own.axes if own else ()), **dict(options.space), **said}
        specs = _specs(options.suite) if options.suite else [request.problem.over(target.default).spec()]
        presets = {target.reference: target.made}
    found: list[Tuned] = []
    failed: dict[str, FireironError] = {}
    interrupted = False
    # One set of compilers serves all shapes.
    portable = all(preset(made).portable for made in presets.values())
    compilers = Processes(os.cpu_count() or 1, COMPILE_LIMIT_S) if portable else None
    try:
        for i, spec in enumerate(specs):
            with _bar(f"{i + 1} of {len(specs)}: {spec.residual}") as tell:
                try:
                    found.append(
                        search(
                            spec, (*presets.values(),), space=axes, names=(*presets,), arch=architecture(options.arch),
                            device=options.device, effort=options.effort, budget_s=options.budget,
                            records=options.records, executor=compilers, on_progress=tell,
                        )
                    )  # fmt: skip
                except Interrupted as stop:
                    found.append(stop.tuned)
                    interrupted = True
                    break
                except FireironError as error:
                    if len(specs) == 1 or error.code != "nothing-legal":
                        raise
                    failed[str(spec.residual)] = error
    finally:
        if compilers is not None:
            compilers.shutdown(wait=False, cancel_futures=True)
    parts: list[Any] = []
    for tuned in found:
        parts += [*_described(tuned), ""]
    parts += [str(error) for error in failed.values()]
    parts += ["interrupted: everything measured until then is recorded"] if interrupted else []
    data = {
        "tuned": [_data(tuned) for tuned in found],
        "failed": {name: error.message for name, error in failed.items()},
        "interrupted": interrupted,
    }
    right = bool(found) and all(tuned.best is not None for tuned in found) and not failed
    return Answer(data, tuple(parts), INTERRUPTED if interrupted else int(not right))


def _of_program(command: Command) -> tuple[list[Any], dict[str, Any], dict[str, Any] | None]:
    """Return the program that a command describes, the presets to search by name, and their axes, None for their own.

    The presets are those that `fireiron.best` tries for the program, unless the command names one, by `--schedule`, by
    a preset's keywords or by `--space`.

    Raises:
        UsageError: `fixed-spec` where the command names cases of a suite.
    """
    from fireiron.base.records import evolve
    from fireiron.front.best_program import names_for
    from fireiron.language.specs import task_of
    from fireiron.tune.candidates import preset
    from fireiron.tune.space import space_of

    options, request = command.options, command.request
    if options.suite:
        raise UsageError(
            "fixed-spec",
            f"{request.target.reference} is a program, and cases of suites are products",
            fix="drop --suite, and give extents by --shape or by name",
        )
    asked = request.target.asked(request.problem, request.values)
    spec = asked.spec
    arch = architecture(options.arch)
    if arch is not None:
        spec = evolve(spec, program=task_of(spec.program.spec, arch))
    said = request.values.get("schedule") or asked.given or options.space
    if not said:
        made = {name: _preset_of(name) for name in names_for(spec)}
        if spaces := {name: each for name, each in made.items() if space_of(each) is not None}:
            return [spec], spaces, None
    own = space_of(asked.preset)
    given: dict[str, Any] = {name: (value,) for name, value in asked.given.items()}
    axes: dict[str, Any] = {**dict(own.axes if own else ()), **dict(options.space), **given}
    return [spec], {preset(asked.preset).name: asked.preset}, axes or None


def _preset_of(name: str) -> Any:
    file, _, function = name.partition(".")
    return getattr(import_module(f"fireiron.schedules.{file}"), function)


def best(command: Command) -> Answer:
    """Print the schedule that `best` chooses for a product, with the reason."""
    from fireiron.front.best import choose

    options = command.options
    if options.records:
        if not Path(options.records).is_file():
            raise UsageError("no-such-file", f"there is no file {options.records}", fix="name a file of records")
        os.environ["FIREIRON_RECORDS"] = options.records
    spec = problem_of(options).spec()
    with progress("choosing"):
        found = choose(spec, architecture(options.arch))
    record = found.record
    facts = {"schedule": found.point, "for": str(spec.residual), "why": found.why}
    if record is not None and record.us is not None:
        facts["measured"] = f"{record.us:.2f} us on {record.device}, {record.samples} samples, {record.when}"
        facts["measured of"] = str(record.problem)
    elif found.modelled_us is not None:
        facts["modelled"] = f"{found.modelled_us:.2f} us; nothing was measured"
    data = {
        "preset": found.candidate.preset.name,
        "keywords": found.candidate.point.to_json(),
        "python": found.point,
        "why": found.why,
        "record": None if record is None else record.to_json(),
        "modelled_us": found.modelled_us,
    }
    return Answer(data, (pairs(facts),))


def records(command: Command) -> Answer:
    """Merge files of records into the first, check or repair their lines, or print them."""
    from fireiron.tune.records import BROKEN, merge, newest, read, repair

    options = command.options
    paths = [Path(name) for name in options.files]
    if options.action == "merge":
        if len(paths) < 2:
            raise UsageError("one-file", "there is nothing to merge", fix="fireiron records merge OUT FILE FILE...")
        found = merge(paths[0], paths[1:])
        said = f"{paths[0]} holds {count(len(found.records), 'record')}"
        return Answer({"records": len(found.records), "left_out": found.problems}, (said, *found.told))
    if options.action in ("check", "repair"):
        looked: list[tuple[Path, Read]] = [(p, read(p) if options.action == "check" else repair(p)) for p in paths]
        return _checked(looked, BROKEN if options.action == "repair" else "")
    each = [read(path) for path in paths]
    everything = newest(record for one in each for record in one.records)
    problems = tuple(problem for one in each for problem in one.told)
    timed = sorted((r for r in everything if r.us is not None), key=lambda r: (r.device, str(r.problem), r.us))
    table = columns("problem", "schedule", "us", "TFLOP/s", "device", right=(2, 3))
    seen: set[tuple[object, ...]] = set()
    for record in timed:
        if (record.device, record.problem) not in seen:
            seen.add((record.device, record.problem))
            _row(table, record)
    failures = sum(r.count for r in everything if r.failure is not None)
    said = f"{count(len(timed), 'time')} of {count(len(seen), 'problem')}, {count(failures, 'failure')}"
    data = {"records": [r.to_json() for r in everything], "left_out": problems}
    return Answer(data, (table, said, *problems))


def _checked(looked: Sequence[tuple[Path, Read]], moved: str) -> Answer:
    """Print for each file its numbers of records and of records by a newer version, and its invalid lines."""
    lines: list[str] = []
    for path, found in looked:
        said = f"{path}: {count(len(found.records), 'record')}, {count(len(found.broken), 'broken line')}"
        said += f", {count(len(found.newer), 'line')} of a newer format" if found.newer else ""
        said += f"; broken lines are in {path}{moved} now" if moved and found.broken else ""
        doubts = [f"{path}: {r.schedule}: doubted, {r.doubt}" for r in found.records if r.doubt]
        lines += [said, *found.problems, *doubts]
    data = {
        str(path): {"records": len(found.records), "broken": len(found.broken), "newer": len(found.newer)}
        for path, found in looked
    }
    wrong = not moved and any(found.broken for _, found in looked)
    return Answer({"files": data, "right": not wrong}, tuple(lines), int(wrong))


def _row(table: Any, record: Record) -> None:
    us = record.us or 0.0
    rate = f"{record.problem.flops / us * 1e-6:.1f}" if us else ""
    row(table, record.problem, record.schedule, f"{us:.2f}", rate, record.device)


def _specs(name: str) -> list[Any]:
    suites: Any = import_module(SUITES)
    return [case.spec() for case in suites.suite(name).cases]


def _data(tuned: Tuned) -> dict[str, Any]:
    return {
        "problem": tuned.problem.to_json(),
        "best": None if tuned.best is None else tuned.best.to_json(),
        "measured": sum(r.us is not None for r in tuned.records),
        "judged": tuned.judged,
        "refused": dict(tuned.refused),
        "failures": [r.to_json() for r in tuned.failures],
        "rank_correlation": tuned.correlation,
        "first_choice": tuned.first_choice,
        "elapsed_s": tuned.elapsed_s,
        "notes": tuned.notes,
    }


def _described(tuned: Tuned) -> list[Any]:
    """Describe a search's results: the fastest schedules, the errors of the model, and the failures with reasons."""
    timed = [r for r in tuned.records if r.us is not None]
    table = columns("schedule", "us", "p20", "p80", "samples", "TFLOP/s", "modelled us", right=(1, 2, 3, 4, 5, 6))
    for r in timed[:SHOWN]:
        us = r.us or 0.0
        modelled = "" if r.modelled_us is None else f"{r.modelled_us:.2f}"
        rate = f"{tuned.problem.flops / us * 1e-6:.1f}"
        row(table, r.schedule, f"{us:.2f}", f"{r.p20:.2f}", f"{r.p80:.2f}", r.samples, rate, modelled)
    refused = ", ".join(f"{code} {number}" for code, number in sorted(tuned.refused.items()))
    facts = {
        "tuned": f"{tuned.problem} in {tuned.elapsed_s:.1f} s",
        "tried": f"{tuned.judged} ranked by the model, {sum(tuned.refused.values())} of them refused"
        + (f" ({refused})" if refused else "")
        + f", {len(timed)} measured, {len(tuned.failures)} failed",
    }
    if tuned.correlation is not None:
        facts["model"] = f"rank correlation with the measured times {tuned.correlation:.2f}" + (
            f"; its first choice reaches {tuned.first_choice:.2f} of the best" if tuned.first_choice else ""
        )
    lines = [f"failed: {r.schedule}: {': '.join(r.failure or ())}" for r in tuned.failures[:SHOWN]]
    return [pairs(facts), *((table,) if timed else ()), *lines, *(f"note: {said}" for said in tuned.notes)]


@contextmanager
def _bar(title: str) -> Generator[Any]:
    """Draw a progress bar on stderr, if it is a terminal; else print only the title."""
    if not sys.stderr.isatty():
        print(f"tuning {title} ...", file=sys.stderr, flush=True)
        yield None
        return
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    shown = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f} of {task.total:.0f}"))
    with Bar(*shown, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def tell(now: Progress) -> None:
            words = f"{title} · {now.stage} · {now.left_s:.0f} s left" + (f" · best {now.best}" if now.best else "")
            bar.update(task, description=words, completed=now.done, total=now.total)

        yield tell
