"""Candidates: a preset with a point of its space; the model judges candidates, and processes compile them."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import attrs

from fireiron.algebra.arch import Arch
from fireiron.algebra.arch import arch as find_arch
from fireiron.algebra.expr import as_int
from fireiron.base.errors import CheckError, FireironError, UsageError
from fireiron.jit.build import compiling_candidates
from fireiron.jit.cache import Entry
from fireiron.jit.driver import probe
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.steps import Program
from fireiron.tune.space import Point, arguments
from fireiron.verify.reference import Meaning

PRESETS = "fireiron.schedules."


@attrs.frozen
class Preset:
    """Describe a preset so that another process can find its function.

    Args:
        name: the name in records. Example: `ampere.gemm`, or `path/file.py:gemm`.
        module: name of the function's module.
        file: path of the function's file, for modules that no import finds.
        qualname: the function's qualified name in the module.
        given: keywords that are part of the problem, and not searched.
        local: the function itself, in the process that named it.
    """

    name: str
    module: str
    file: str
    qualname: str
    given: tuple[tuple[str, Any], ...] = ()
    local: Callable[..., Any] | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def portable(self) -> bool:
        """Say whether another process can find the function: not a nested function, nor one of a script or notebook."""
        return "<" not in self.qualname and self.module != "__main__"

    @property
    def function(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            UsageError: `not-importable`.
        """
        if self.local is not None:
            return self.local
        try:
            found: Any = import_module(self.module)
        except ImportError:
            found = _loaded(self.module, self.file)
        for part in self.qualname.split("."):
            found = getattr(found, part)
        return found

    def build(self, spec: Any, point: Point, **more: Any) -> Any:
        """Build the schedule.

        Args:
            spec: the empty schedule.
            point: keywords of the space.
            more: further keywords of the preset, such as `ops`.

        Raises:
            FireironError: the codes of the links; `schedule-failed` for any other exception of the function.
        """
        try:
            function = self.function
            return function(spec, **arguments(function, point), **{**dict(self.given), **more})
        except FireironError:
            raise
        except Exception as error:
            raise UsageError("schedule-failed", f"{self.name} fails with {type(error).__name__}: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _preset, (self.name, self.module, self.file, self.qualname, self.given)

    def text(self, point: Point) -> str:
        """Write the call as Python that can be pasted."""
        call = self.name.partition(".py:")[2] or self.name
        words = [f"{name}={value!r}" for name, value in (*point.values, *self.given)]
        return f"{call}({', '.join(('spec', *words))})"


def _preset(*fields: Any) -> Preset:
    return Preset(*fields)


def preset(function: Callable[..., Any], given: Mapping[str, Any] | None = None, name: str = "") -> Preset:
    """Describe a function as a preset.

    Args:
        function: the function that maps a spec to a finished schedule.
        given: keywords that are part of the problem.
        name: the name in records; empty for the name of module and function.
    """
    module = getattr(function, "__module__", "") or ""
    qualname = getattr(function, "__qualname__", repr(function))
    code = getattr(function, "__code__", None)
    file = "" if code is None else code.co_filename
    if not name:
        name = f"{module}.{qualname}".removeprefix(PRESETS)
    return Preset(name, module, file, qualname, tuple(sorted((given or {}).items())), function)


def sendable(spec: Any) -> tuple[Any, Any]:
    """Return a spec that another process can read (None where links cannot be pickled), and the spec without ops.

    Ops such as lambdas and `add(bias)` cannot be pickled, but the expressions that the ops make of the accumulator can.
    """
    same, bare = (spec, spec) if isinstance(spec.program.spec, Program) else spec.portable
    for chain in (spec, same):
        try:
            pickle.loads(pickle.dumps(chain))
        except Exception:  # pickle raises what it likes
            continue
        return chain, bare
    return None, bare


def _loaded(module: str, file: str) -> Any:
    """Load the module of a preset from its file, as the process that described the preset did."""
    if module in sys.modules:
        return sys.modules[module]
    spec = spec_from_file_location(module, file)
    if spec is None or spec.loader is None or not Path(file).is_file():
        raise UsageError("not-importable", f"no process finds {module}", fix="put the schedule into a file of its own")
    made = module_from_spec(spec)
    sys.modules[module] = made
    sys.path.insert(0, str(Path(file).parent))
    try:
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(Path(file).parent))
    return made


@attrs.frozen
class Candidate:
    """Hold one schedule that may be the best.

    Args:
        preset: the preset.
        point: the values of the preset's keywords.
    """

    preset: Preset
    point: Point

    def __str__(self) -> str:
        return self.preset.text(self.point)


@attrs.frozen
class Failure:
    """Hold the reason why a candidate is excluded.

    Args:
        stage: `check`, `compile`, `run` or `verify`.
        code: stable name of the reason.
        message: the reason in words.
    """

    stage: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.code}: {self.message}"


def failure(stage: str, error: BaseException) -> Failure:
    """Convert an exception to a failure."""
    if isinstance(error, FireironError):
        return Failure(stage, error.code, error.message)
    return Failure(stage, type(error).__name__, str(error).strip().partition("\n")[0])


@attrs.frozen
class Judged:
    """Hold the results of judging a candidate, which is not compiled yet.

    Args:
        candidate: the candidate.
        modelled_us: the cost model's time in microseconds; None for an excluded candidate.
        failure: the reason why the candidate is excluded; None for a legal one.
    """

    candidate: Candidate
    modelled_us: float | None = None
    failure: Failure | None = None


@attrs.frozen
class Built:
    """Hold the result of compiling a candidate.

    Args:
        candidate: the candidate.
        entry: the machine code, None for an excluded candidate.
        source: digest of the CUDA: equal sources are one kernel.
        meaning: the program, and how its sums are rounded; None for an excluded candidate.
        failure: the reason why the candidate is excluded; None for a compiled one.
    """

    candidate: Candidate
    entry: Entry | None = None
    source: str = ""
    meaning: Meaning | None = None
    failure: Failure | None = None

    @property
    def spills(self) -> bool:
        """Say whether registers ran out."""
        return self.entry is not None and self.entry.binary.resources.spills


@attrs.frozen(eq=False, slots=False)
class Checked:
    """Hold a candidate that was built, lowered and checked; the cost model runs when its time is asked for.

    Args:
        candidate: the candidate.
        arch: name of the target.
        schedule: the finished schedule, None where it could not be built.
        failure: the reason why the candidate is excluded; None for a legal one.
    """

    candidate: Candidate
    arch: str
    schedule: Any = None
    failure: Failure | None = None

    @cached_property
    def modelled_us(self) -> float:
        """Estimate the time of a legal candidate in microseconds."""
        from fireiron.estimate.model import estimate

        return estimate(self.schedule.lowered(self.arch), find_arch(self.arch)).likely_us


def check(candidate: Candidate, spec: Any, arch: str) -> Checked:
    """Build and lower a candidate, and look for errors; nothing is modelled or compiled.

    Args:
        candidate: the candidate.
        spec: the empty schedule.
        arch: name of the target.
    """
    from fireiron.estimate.findings import errors

    target, schedule = find_arch(arch), None
    try:
        schedule = candidate.preset.build(spec, candidate.point)
        kernel = schedule.lowered(arch)
        for finding in errors(kernel, target):
            raise finding.error()
        if kernel.cooperative:
            refuse_too_many(kernel, target)
    except Exception as error:  # a record's keywords may be anything
        return Checked(candidate, arch, schedule, failure("check", error))
    return Checked(candidate, arch, schedule)


def judge(candidate: Candidate, spec: Any, arch: str) -> Judged:
    """Build, check and model a candidate; nothing is compiled.

    Args:
        candidate: the candidate.
        spec: the empty schedule.
        arch: name of the target.
    """
    found = check(candidate, spec, arch)
    return Judged(candidate, None if found.failure else found.modelled_us, found.failure)


def refuse_too_many(kernel: Kernel, target: Arch) -> None:
    """Refuse more blocks that wait for each other than a GPU has SMs, since they might not all run at once.

    The limit is that of the GPU in this machine; without a GPU, that of the target's GPU.

    Raises:
        CheckError: `cooperative-grid`.
    """
    blocks, sms = as_int(kernel.grid), probe().sms or target.gpu.sms
    if blocks is None or blocks > sms:
        raise CheckError(
            "cooperative-grid",
            f"{kernel.grid} blocks of {kernel.name} wait for each other, and the GPU has {sms} SMs",
            fix="use larger tiles or fewer ways, or drop shared=True",
        )


def compiled(candidate: Candidate, spec: Any, arch: str) -> Built:
    """Compile a candidate, through the disk cache.

    Args:
        candidate: the candidate.
        spec: the empty schedule.
        arch: name of the target.
    """
    try:
        schedule = candidate.preset.build(spec, candidate.point)
        with compiling_candidates():
            kernel = schedule.compile(arch)
    except Exception as error:
        return Built(candidate, failure=failure("compile", error))
    digest = hashlib.sha256(kernel.source.encode()).hexdigest()[:16]
    return Built(candidate, Entry(kernel.binary, kernel.interface), digest, Meaning.of(schedule))
