"""The search: rank a space by the model, compile the best in parallel, measure them by successive halving."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as TooLate
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from fireiron.base.errors import CallError, UsageError
from fireiron.jit.process import Processes
from fireiron.tune import candidates
from fireiron.tune import records as files
from fireiron.tune.candidates import Built, Candidate, Failure, Judged, Preset, compiled, failure, judge, preset
from fireiron.tune.effort import EFFORTS, Effort
from fireiron.tune.halving import Rung, halve, rank_correlation, ranked
from fireiron.tune.lookup import load
from fireiron.tune.machine import Machine, State, machine
from fireiron.tune.measurer import GpuMeasurer, Measurer
from fireiron.tune.problem import FREE, Problem, problem
from fireiron.tune.record import Record, now
from fireiron.tune.space import Declared, Point, Space, checked, default_point, space_of

COMPILE_LIMIT_S = 120.0
RANKED_LOOKS = 3  # candidates of a preset's own ranking that are checked, for each that may be compiled
NO_FAILURE = Failure("", "", "")


@attrs.frozen
class Progress:
    """Hold the progress of a search.

    Args:
        stage: `model`, `compile`, `measure`.
        done: number of finished candidates of the stage.
        total: number of candidates of the stage.
        left_s: seconds that are left of the budget.
        best: median time of the fastest candidate so far, in words.
    """

    stage: str
    done: int
    total: int
    left_s: float
    best: str = ""


@attrs.frozen
class Tuned:
    """Hold the results of a search.

    Args:
        problem: the computation.
        records: measured schedules, fastest first, and failures.
        candidate: the fastest candidate, None where none was measured.
        judged: number of candidates that the cost model ranked.
        refused: by code, the number of candidates that `check` refused.
        correlation: Spearman's rank correlation of modelled and measured times, None where too few were measured.
        elapsed_s: time of the search in seconds.
        notes: remarks for the user. Example: "12 of 40 candidates were left unranked: time was up".
        first: the choice without measurements: the first candidate by the cost model, or of the preset's own ranking.
    """

    problem: Problem
    records: tuple[Record, ...]
    candidate: Candidate | None
    judged: int
    refused: Mapping[str, int]
    correlation: float | None
    elapsed_s: float
    notes: tuple[str, ...] = ()
    first: Candidate | None = None

    @property
    def best(self) -> Record | None:
        """Return the record of the fastest candidate."""
        return next((r for r in self.records if r.us is not None), None)

    @property
    def first_us(self) -> float | None:
        """Return the measured time of `first` in microseconds, None where it was not measured."""
        return next((r.us for r in self.records if self.first is not None and _is_of(r, self.first)), None)

    @property
    def first_choice(self) -> float | None:
        """Return the best time divided by that of `first`: 1 where `first` is the fastest."""
        best, first = self.best, self.first_us
        return None if best is None or best.us is None or not first else best.us / first

    @property
    def failures(self) -> tuple[Record, ...]:
        """List the records of failures."""
        return tuple(r for r in self.records if r.failure is not None)


def _is_of(record: Record, candidate: Candidate) -> bool:
    return (record.preset, record.point) == (candidate.preset.name, candidate.point)


class Interrupted(KeyboardInterrupt):
    """Raised where Ctrl-C ended a search; measured times are saved.

    Args:
        tuned: the results so far.
    """

    def __init__(self, tuned: Tuned) -> None:
        super().__init__("interrupted")
        self.tuned = tuned


Spaces: TypeAlias = "Callable[..., Any] | Sequence[Callable[..., Any]]"


def tune(
    spec: Any,
    presets: Spaces,
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    given: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    arch: str | None = None,
    device: int = 0,
    effort: str = "quick",
    budget_s: float | None = None,
    records: str | Path | None = None,
    executor: Executor | None = None,
    measurer: Measurer | None = None,
    seeds: Iterable[Point] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> Tuned:
    """Search for the fastest schedule of a product.

    Args:
        spec: the empty schedule; all sizes are numbers.
        presets: functions from the spec to a schedule, decorated by `@space(...)`.
        space: values of keywords, instead of those of the presets' spaces.
        given: keywords that are part of the problem.
        names: names of the presets in records.
        arch: the target; the GPU's where None.
        device: the GPU's ordinal.
        effort: `quick` or `full`.
        budget_s: seconds after which no new measurement starts; None for the effort's.
        records: the file to add to; the user's own where None.
        executor: runs the cost model and compiles; new processes where None. Any executor with the interface of
            concurrent.futures, such as Dask's (`client.get_executor()`).
        measurer: measures candidates; None for this machine's GPU.
        seeds: points that are measured without regard to the cost model, in addition to recorded points of this problem
            or a near one.
        on_progress: function that is called with the progress.

    Raises:
        UsageError: `empty-space`, `unknown-parameter`, `unknown-effort`, `unknown-size`, `not-a-product`.
        CallError: `no-gpu`. CheckError: `nothing-legal` where `check` refuses every point.
        Interrupted: after Ctrl-C; measured times are saved before.
    """
    if effort not in EFFORTS:
        raise UsageError("unknown-effort", f"there is no effort {effort}", fix="use " + " or ".join(EFFORTS))
    functions = (presets,) if callable(presets) else tuple(presets)
    wanted = problem(spec, given)
    if FREE in (wanted.m, wanted.n, wanted.k):
        raise UsageError("unknown-size", f"{wanted} has a size that is a symbol", fix="tune for sizes, as 512x512x64")
    named = [preset(f, given, names[i] if i < len(names) else "") for i, f in enumerate(functions)]
    declared = {p: _space(f, space) for p, f in zip(named, functions, strict=True)}
    where = machine(device) if measurer is None else measurer.machine
    if measurer is None and not where.device:
        from fireiron.jit.driver import probe

        raise CallError(
            "no-gpu",
            f"the tuner measures, and there is no GPU: {probe().problem}",
            fix="fireiron.best(spec) gives the model's choice without one",
        )
    chosen = EFFORTS[effort]
    spaces, refused = _spaces_for(declared, spec)
    sent, bare = candidates.sendable(spec)
    search = _Search(
        spec if sent is None else sent, wanted, spaces, arch or where.arch, where, chosen, budget_s or chosen.budget_s,
        Path(records) if records is not None else files.default_path(), on_progress,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        search.notes += refused
        portable = all(p.portable for p in named) and sent is not None
        if not portable:
            what = "this product's ops" if sent is None else "functions of a script or notebook"
            search.notes.append(f"{what} are compiled in this process, one at a time: no other could read them")
        if executor is None:
            count = max(1, os.cpu_count() or 1)
            own: Executor = Processes(count, COMPILE_LIMIT_S) if portable else ThreadPoolExecutor(1)
            stack.callback(own.shutdown, wait=False, cancel_futures=True)
            executor = own
        if measurer is None:
            measurer = GpuMeasurer(bare if sent is None else sent, device, where)
            stack.callback(measurer.close)
        first = [Candidate(p, s) for s in seeds for p in spaces]
        return search.run(executor, measurer, [*first, *search.recorded()])


def _spaces_for(declared: Mapping[Preset, Declared], spec: Any) -> tuple[dict[Preset, Space], list[str]]:
    """Return the presets' spaces for one problem, and notes on presets without a space.

    Raises:
        UsageError: `no-candidates` where no preset has a space.
    """
    spaces: dict[Preset, Space] = {}
    refused: list[UsageError] = []
    for each, found in declared.items():
        try:
            spaces[each] = found.of(spec)
        except UsageError as error:
            refused.append(error)
    if refused and not spaces:
        raise refused[0]
    return spaces, [error.message for error in refused]


def _space(function: Callable[..., Any], given: Mapping[str, Sequence[Any]] | None) -> Declared:
    found = checked(function, given) if given is not None else space_of(function)
    if found is None:
        name = getattr(function, "__name__", str(function))
        raise UsageError(
            "empty-space", f"{name} has no search space", fix="put @space(m=(64, 128), ...) on it, or pass space={...}"
        )
    return found


class _Search:
    """Hold the state of one search."""

    def __init__(
        self,
        spec: Any,
        wanted: Problem,
        spaces: Mapping[Preset, Space],
        arch: str,
        where: Machine,
        effort: Effort,
        budget_s: float,
        path: Path,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.spec, self.problem, self.spaces, self.arch, self.where = spec, wanted, spaces, arch, where
        self.effort, self.path, self.on_progress = effort, path, on_progress
        self.start = time.perf_counter()
        self.end = self.start + budget_s
        self.judged: dict[Candidate, Judged] = {}
        self.built: list[Built] = []
        self.samples: dict[int, list[float]] = {}
        self.failed: dict[int, Failure] = {}
        self.sources: dict[str, int] = {}
        self.saved: dict[int, int] = {}
        self.notes: list[str] = []
        self.left: list[int] = []
        self.state = State()
        self.first: Candidate | None = None

    def run(self, executor: Executor, measurer: Measurer, seeds: Sequence[Candidate]) -> Tuned:
        try:
            self._judge(executor, [*seeds, *self._drawn()], self.effort.judged)
            legal = [j for j in self.judged.values() if j.failure is None]
            if not legal:
                self._nothing_legal()
            order = self._order(legal)
            self.first = order[0]
            first = [c for c in dict.fromkeys(seeds) if self.judged[c].failure is None]
            self._measure(executor, measurer, list(dict.fromkeys([*first, *order]))[: self.effort.compiled])
            self.left = list(self.samples)
            for turn, rung in enumerate(self.effort.rungs):
                self.left = self._rung(measurer, self.left, rung)
                self._save(self.left)
                if turn < self.effort.climbs:
                    self._climb(executor, measurer)
        except KeyboardInterrupt:
            self._save(list(self.samples))
            raise Interrupted(self._tuned(measurer)) from None
        except BaseException:
            self._save(list(self.samples))
            raise
        self._save(list(self.samples))
        return self._tuned(measurer)

    def recorded(self) -> list[Candidate]:
        """List the fastest recorded candidates for this problem and near ones."""
        index, problems = load([*files.shipped(), *([self.path] if self.path.exists() else [])])
        self.notes += problems
        # What is doubted takes part: measured again, it is right, or displaced.
        found = index.find(self.problem, self.where.device, self.arch, self.where.software, doubted=True)
        fastest = {f.record.problem: f.record for f in reversed(found)}  # one of each problem: they take others' places
        return [Candidate(p, r.point) for r in reversed(fastest.values()) for p in self.spaces if p.name == r.preset]

    def _late(self) -> bool:
        return time.perf_counter() > self.end

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            order = ranked(self.samples)
            best = f"{statistics.median(self.samples[order[0]]):.2f} us" if order else ""
            self.on_progress(Progress(stage, done, total, max(0.0, self.end - time.perf_counter()), best))

    def _drawn(self) -> Iterator[Candidate]:
        """List the presets' defaults, then the points of each preset's space."""
        for each, space in self.spaces.items():
            yield Candidate(each, default_point(each.function, space))
        share = max(1, self.effort.judged // len(self.spaces))
        for each, space in self.spaces.items():
            points = list(space.points(min(share, RANKED_LOOKS * self.effort.compiled) if space.ranked else share))
            if not space.ranked:
                # In no order: where time ends the ranking, what was looked at is spread over the space.
                random.Random(0).shuffle(points)
            yield from (Candidate(each, p) for p in points)

    def _order(self, legal: Sequence[Judged]) -> list[Candidate]:
        """Sort candidates, the most promising first: by the cost model, or by the preset's own ranking if it has one.

        Candidates of different rankings take turns, since ranks of different rankings cannot be compared.
        """
        own: dict[Preset, list[Candidate]] = {}
        for judged in legal:  # in the order in which they were drawn, which is that of a ranking
            if self.spaces[judged.candidate.preset].ranked:
                own.setdefault(judged.candidate.preset, []).append(judged.candidate)
        others = [j for j in legal if j.candidate.preset not in own]
        modelled = [j.candidate for j in sorted(others, key=lambda j: j.modelled_us or 0.0)]
        turns = itertools.zip_longest(*own.values(), modelled)
        return [candidate for turn in turns for candidate in turn if candidate is not None]

    def _judge(self, executor: Executor, candidates: Iterable[Candidate], most: int) -> None:
        """Check and model new candidates, in at most a third of the remaining time."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.judged][:most]
        limit = time.perf_counter() + max(0.5, (self.end - time.perf_counter()) / 3)
        tasks = {executor.submit(judge, c, self.spec, self.arch): c for c in new}
        found: dict[Candidate, Judged] = {}
        for done, (task, error) in enumerate(_finished(tasks, limit), 1):
            candidate = tasks[task]
            found[candidate] = Judged(candidate, failure=error) if error else task.result()
            self._tell("model", done, len(tasks))
        self.judged |= {c: found[c] for c in new if c in found}
        skipped = len(new) - sum(c in self.judged for c in new)
        if skipped:
            self.notes.append(f"{skipped} of {len(new)} candidates were left unranked: time was up")

    def _nothing_legal(self) -> None:
        from fireiron.base.errors import CheckError

        reasons = self._refused()
        if not reasons:
            raise CheckError("nothing-legal", "no candidate was ranked in time", fix="give more time: budget_s=60")
        example = next(j for j in self.judged.values() if j.failure is not None)
        listed = ", ".join(f"{code} ({count})" for code, count in reasons.items())
        raise CheckError(
            "nothing-legal",
            f"none of {len(self.judged)} points is legal for {self.problem} on {self.arch}: {listed}; for example "
            f"{example.candidate}: {example.failure}",
            fix="widen the space, or use a preset for these element types",
        )

    def _measure(self, executor: Executor, measurer: Measurer, candidates: Sequence[Candidate]) -> None:
        """Compile candidates in parallel, and try each as soon as it is compiled."""
        tasks = {executor.submit(compiled, c, self.spec, self.arch): c for c in candidates}
        for done, (task, error) in enumerate(_finished(tasks, self.end), 1):
            self._try(Built(tasks[task], failure=error) if error else task.result(), measurer)
            self._tell("compile", done, len(tasks))
        unfinished = sum(not task.done() or task.cancelled() for task in tasks)
        if unfinished:
            self.notes.append(f"{unfinished} of {len(tasks)} candidates were not compiled: time was up")

    def _try(self, built: Built, measurer: Measurer) -> None:
        index = len(self.built)
        self.built.append(built)
        if built.entry is None:
            self.failed[index] = built.failure or NO_FAILURE
        elif built.source in self.sources:  # two points of one kernel: it is measured once
            return
        else:
            self.sources[built.source] = index
            found = measurer.trial(index, built, self.effort.first)
            self.state = measurer.state()
            if isinstance(found, Failure):
                self.failed[index] = found
            else:
                self.samples[index] = list(found)
        self._save([index])

    def _rung(self, measurer: Measurer, who: Sequence[int], rung: Rung) -> list[int]:
        """Sample some candidates, keep the fastest of them, and drop those that failed."""
        some = {i: self.samples[i] for i in who}
        left = halve(some, (rung,), self._sampler(measurer), self._late)
        for i in who:
            if i not in some:
                del self.samples[i]
        return left

    def _sampler(self, measurer: Measurer) -> Callable[[Sequence[int], int], Mapping[int, Sequence[float]]]:
        def sample(who: Sequence[int], count: int) -> Mapping[int, Sequence[float]]:
            self._tell("measure", 0, len(who))
            found, lost = measurer.sample(who, count)
            self.state = measurer.state()
            self.failed |= lost
            self._save(list(lost))
            return found

        return sample

    def _climb(self, executor: Executor, measurer: Measurer) -> None:
        """Try the neighbours of the fastest candidate."""
        order = ranked(self.samples)
        if not order or self._late():
            return
        leader = self.built[order[0]].candidate
        tried = {b.candidate for b in self.built}
        near = [Candidate(leader.preset, p) for p in self.spaces[leader.preset].neighbours(leader.point)]
        self._judge(executor, near, len(near))
        legal = [c for c in near if c in self.judged and self.judged[c].failure is None and c not in tried]
        before = set(self.samples)
        self._measure(executor, measurer, legal)
        new = [i for i in self.samples if i not in before]
        if new:  # they get what the others had, so that medians are of as many samples
            count = max(1, len(self.samples[order[0]]) - self.effort.first)
            self.left += self._rung(measurer, new, Rung(count, len(new)))

    def _refused(self) -> dict[str, int]:
        codes: dict[str, int] = {}
        for judged in self.judged.values():
            if judged.failure is not None:
                codes[judged.failure.code] = codes.get(judged.failure.code, 0) + 1
        return codes

    def _record(self, index: int) -> Record:
        built = self.built[index]
        samples = sorted(self.samples.get(index, ()))
        last = len(samples) - 1
        failed = self.failed.get(index)
        judged = self.judged.get(built.candidate)
        return Record(
            problem=self.problem,
            preset=built.candidate.preset.name,
            point=built.candidate.point,
            device=self.where.device,
            arch=self.arch,
            us=statistics.median(samples) if samples else None,
            p20=samples[round(0.2 * last)] if samples else 0.0,
            p80=samples[round(0.8 * last)] if samples else 0.0,
            samples=len(samples),
            modelled_us=None if judged is None else judged.modelled_us,
            failure=(failed.stage, failed.code, failed.message) if failed and not samples else None,
            source=built.source,
            registers=built.entry.binary.resources.registers if built.entry else 0,
            when=now(),
            machine=files.described(self.where, self.state),
        )

    def _save(self, indices: Sequence[int]) -> None:
        """Append records of candidates with new results."""
        new = [i for i in indices if self.saved.get(i) != len(self.samples.get(i, ()))]
        new = [i for i in new if i in self.samples or i in self.failed]
        files.append(self.path, [self._record(i) for i in new])
        self.saved |= {i: len(self.samples.get(i, ())) for i in new}

    def _tuned(self, measurer: Measurer) -> Tuned:
        order = [*[i for i in self.left if i in self.samples], *ranked(self.samples)]
        order = list(dict.fromkeys(order))
        pairs = [(self._record(i).modelled_us, statistics.median(self.samples[i])) for i in order]
        known = [(modelled, measured) for modelled, measured in pairs if modelled is not None]
        return Tuned(
            problem=self.problem,
            records=tuple(self._record(i) for i in [*order, *self.failed]),
            candidate=self.built[order[0]].candidate if order else None,
            judged=len(self.judged),
            refused=self._refused(),
            correlation=rank_correlation([x for x, _ in known], [y for _, y in known]),
            elapsed_s=time.perf_counter() - self.start,
            notes=(*self.notes, *measurer.notes),
            first=self.first,
        )


def _finished(tasks: Mapping[Future[Any], Candidate], limit: float) -> Iterator[tuple[Future[Any], Failure | None]]:
    """Yield tasks as they finish, each with its failure or None; tasks that do not finish in time are cancelled."""
    try:
        for task in as_completed(tasks, timeout=max(0.0, limit - time.perf_counter())):
            error = task.exception()
            if isinstance(error, KeyboardInterrupt):
                raise error
            yield task, None if error is None else failure("compile", error)
    except TooLate:
        for task in tasks:
            task.cancel()
