"""The best schedule known for a product: recorded, near one that is, or the model's choice; and a call that uses it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache, lru_cache
from importlib import import_module
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Literal, cast

import attrs

from fireiron.base.contract import refused
from fireiron.base.errors import CallError, CheckError, CompileError, FireironError, UsageError
from fireiron.base.link import here
from fireiron.front.best_program import best_program
from fireiron.front.chain import MatMulChain, ProgramChain
from fireiron.front.repeat import NUMBERS, Call, launches
from fireiron.front.state import kind_in
from fireiron.front.verbs import Schedule
from fireiron.jit.arrays import is_torch
from fireiron.jit.kernel import as_tuple
from fireiron.language.specs import MatMul
from fireiron.language.steps import Program
from fireiron.language.storage_order import FIX, letters

if TYPE_CHECKING:
    from fireiron.algebra.dtypes import DType
    from fireiron.algebra.expr import Symbol
    from fireiron.front.host import HostKernel
    from fireiron.jit.compile import Compiler
    from fireiron.jit.kernel import CompiledKernel
    from fireiron.tune.candidates import Candidate, Judged, Preset
    from fireiron.tune.lookup import Index
    from fireiron.tune.machine import Machine
    from fireiron.tune.record import Record
    from fireiron.tune.space import Point, Space

MODEL_LOOKS = 64  # candidates that a first choice without records judges: as many on a busy machine as on an idle one
SURE = 0.97  # of the modelled time: what saves less is no reason to leave a default, which was measured once
FEW_POINTS = 24  # of a preset whose default is not legal
SHORTLIST = 4  # legal points that are judged of those that the quick model finds fastest
MOST_SHORT = 12  # of them that are built, where some are not legal
PADDED = 16  # of a product without elements: what elements that share a byte fill
MOST_CHOICES = 4096
MOST_KERNELS = 1024
SLOWER = ("spills", "stack", "wgmma-serialised")  # errors of a kernel that would compute right
SIMULATED = "sm_89"  # what gemm takes where there is no GPU to be fast on: copies by threads are simulated quickest


@attrs.frozen(eq=False)
class Choice:
    """Hold what was chosen for a product, and why.

    Args:
        schedule: finished.
        candidate: the preset and its keywords.
        why: in words.
        record: what was measured, None for the model's choice.
        modelled_us: what the model says, None where it was not asked.
    """

    schedule: Any
    candidate: Candidate
    why: str
    record: Record | None = None
    modelled_us: float | None = None

    @property
    def point(self) -> str:
        """Write the call as Python."""
        return str(self.candidate)


@attrs.frozen(eq=False)
class _Question:
    """Hold a product for a target, and what was found out about candidates so far: nothing is asked twice.

    Args:
        spec: the product.
        target: the architecture.
        passed: texts of candidates that the installed compiler does not build well.
        spaces: of presets that list candidates for it.
        judged: candidates.
        refused: why a preset takes no candidate.
    """

    spec: MatMulChain
    target: str
    passed: Set[str] = frozenset()
    spaces: dict[Preset, Space] = attrs.field(factory=lambda: dict[Any, Any]())
    judged: dict[Candidate, Judged] = attrs.field(factory=lambda: dict[Any, Any]())
    refused: dict[Preset, str] = attrs.field(factory=lambda: dict[Any, str]())

    def space(self, preset: Preset) -> Space | None:
        """List a preset's candidates; None where it has none for this product."""
        from fireiron.tune.space import space_of

        if preset not in self.spaces and preset not in self.refused:
            declared = space_of(preset.function)
            assert declared is not None
            try:
                self.spaces[preset] = declared.of(self.spec)
            except UsageError as error:
                self.refused[preset] = error.message
        return self.spaces.get(preset)

    def shortlist(self, preset: Preset) -> tuple[Point, ...] | None:
        """List the points that a quick model of their tiles finds fastest, each with two keywords of its own.

        Points that differ in one keyword are often equal to the quick model. None where the preset gives no tiles.
        """
        from fireiron.algebra.arch import arch
        from fireiron.estimate.tiling import quick_us
        from fireiron.tune.space import space_of

        declared, space = space_of(preset.function), self.space(preset)
        if declared is None or declared.tiling is None or space is None:
            return None
        matmul, bits, target, tiling = self.spec.matmul, self.spec.left.dtype.bits, arch(self.target), declared.tiling
        times = ((quick_us(tiling(self.spec, p.keywords), matmul, bits, target), p) for p in space.points())
        chosen: list[Point] = []
        for us, found in sorted(times, key=lambda each: each[0]):
            if us == inf or len(chosen) == MOST_SHORT:
                break
            if all(len(set(found.values) ^ set(other.values)) >= 4 for other in chosen):
                chosen.append(found)
        return tuple(chosen)

    def judge(self, candidate: Candidate) -> Judged:
        """Build, check and model a candidate."""
        from fireiron.tune.candidates import judge

        if candidate not in self.judged:
            self.judged[candidate] = judge(candidate, self.spec, self.target)
        return self.judged[candidate]


_choices: dict[Any, Choice] = {}
_made_with: list[Any] = []  # the instructions' rows of all that is kept here


def best(spec: MatMulChain | ProgramChain, arch: str | None = None) -> Any:
    """Give the best schedule known for a product, or the one for a program's form.

    A schedule that was recorded for the problem on this device, else the first choice of the preset for the newest
    architecture that takes the problem: its own, or, where it ranks none, a record's of the nearest problem, or the
    cost model's. The answer is kept: the next one for an equal spec takes microseconds.

    Args:
        spec: what `matmul(...)` gives, or a function under `@program`: pointwise programs, rows and reductions.
        arch: the target; the spec's, else the GPU's, else sm_90a where None.

    Raises:
        UsageError: `argument-kind`. CheckError: `nothing-legal` where no preset takes the problem.

    Example:
        >>> from fireiron import matmul
        >>> best(matmul(256, 256, 64), "sm_80").residual.closed
        True
    """
    given = cast(object, spec)
    if not isinstance(given, Schedule) or kind_in(given).spec not in (MatMul, Program):
        raise refused("best", ("a product or a program", "what matmul(M, N, K) gives"), spec, UsageError)
    if not isinstance(cast(object, arch), str | int | None):
        raise refused("arch=", ("an architecture", '"sm_90a"'), arch, UsageError)
    if kind_in(given).spec is Program:
        try:
            return best_program(cast(ProgramChain, spec), arch)
        except FireironError as error:
            raise error.located(here()) from None
    return choose(cast(MatMulChain, spec), arch).schedule


def choose(spec: MatMulChain, arch: str | None = None) -> Choice:
    """Give the best schedule known, and say why it was chosen; see `best`."""
    try:
        _up_to_date()
        key = choice_key(spec, arch)
        found = _choices.get(key)
        if found is not None:
            return found
        chosen = _with_fallback(_chosen(spec, arch), spec, arch)
    except FireironError as error:
        raise error.located(here()) from None
    if len(_choices) >= MOST_CHOICES:
        _choices.clear()
    _choices[key] = chosen
    return chosen


def _with_fallback(choice: Choice, spec: MatMulChain, arch: str | None) -> Choice:
    """Let the chosen schedule give way to the next one where the installed compiler does not build it well."""

    def next_one(target: str, compiler: Compiler) -> Any:
        if target != _target(spec, arch):
            return None
        from fireiron.jit.passed import pass_over

        pass_over(_asked(spec, target), str(choice.candidate), compiler)
        _choices.pop(choice_key(spec, arch), None)
        try:
            return choose(spec, arch).schedule
        except CheckError:
            return None  # every candidate was tried

    return attrs.evolve(choice, schedule=attrs.evolve(choice.schedule, fallback=next_one))


def _asked(spec: MatMulChain, target: str) -> str:
    """Name what is computed, and for which target."""
    from fireiron.tune.problem import meaning_of

    return f"{target} {meaning_of(spec).digest}"


def choice_key(spec: MatMulChain, arch: str | None) -> object:
    """Tell a choice from all others: by what is computed, and for which target."""
    from fireiron.tune.problem import meaning_of

    return arch, spec.program.arch, meaning_of(spec)


def remember(spec: MatMulChain, arch: str | None, choice: Choice) -> None:
    """Keep a choice that was made elsewhere, as by another process, as what `best` gives."""
    _choices[choice_key(spec, arch)] = choice


def compiled(spec: MatMulChain, schedule: Any = None) -> CompiledKernel | HostKernel:
    """Compile a schedule, the best one known by default; where NVRTC spills in every candidate, warn.

    Where there is no GPU nothing is compiled: its call is simulated.

    Raises:
        CheckError: `nothing-legal`. CompileError: as `compile` does, but for what makes a kernel slower only.
    """
    from fireiron.front.host import HostKernel, without_gpu

    if without_gpu():
        return HostKernel((schedule or best(spec, spec.program.arch or SIMULATED)).lowered())
    if schedule is not None:
        return schedule.compile()
    schedule = best(spec)
    try:
        return schedule.compile()
    except CompileError as error:
        if error.code not in SLOWER:
            raise
        warnings.warn(f"slower than it could be: {str(error).splitlines()[0]}", stacklevel=2)
        return schedule.compile(allow_spills=True)


def forget() -> None:
    """Forget all choices: records that were added since are read again."""
    from fireiron.front import fused
    from fireiron.jit import passed

    _choices.clear()
    passed.forget()
    fused.forget()
    _index.cache_clear()
    _kernel.cache_clear()
    _kernels.clear()
    launches.clear()


def _up_to_date() -> None:
    """Forget what was made before a row of the instructions' table was corrected in this process."""
    from fireiron.atoms import table

    if not _made_with:
        _made_with.append(table.TABLE)
    elif table.TABLE is not _made_with[0]:
        _made_with[0] = table.TABLE
        forget()


def _chosen(spec: MatMulChain, arch: str | None) -> Choice:
    from fireiron.jit.passed import passed_over
    from fireiron.tune.candidates import Candidate
    from fireiron.tune.problem import described, meaning_of

    where = _machine()
    target = _target(spec, arch)
    asked_of = _Question(spec, target, passed_over(_asked(spec, target)))
    meaning = meaning_of(spec)
    asked = dict.fromkeys((described(meaning), described(meaning.product)))  # its own records, and those without ops
    named = {preset.name: preset for preset in presets()}
    for number, wanted in enumerate(asked):
        for found in _index().find(wanted, where.device, target, where.software):
            preset = named.get(found.record.preset)
            if preset is None or (found.distance > 0 and not _serves_near(preset, asked_of)):
                continue
            candidate = Candidate(preset, found.record.point)
            if str(candidate) in asked_of.passed:  # another compiler measured it
                continue
            if asked_of.judge(candidate).failure is None:  # what was legal there need not be here
                why = f"{found.why}, of the product without its ops" if number else found.why
                return Choice(preset.build(spec, found.record.point), candidate, why, found.record)
    return _kept(asked_of, named) or _modelled(asked_of)


def _kept(asked: _Question, named: Mapping[str, Preset]) -> Choice | None:
    """Give the choice that the model made in another process; None where there is none, or it does not hold here."""
    from fireiron.jit.choices import kept_choice
    from fireiron.tune.candidates import Candidate
    from fireiron.tune.space import point

    facts = None if asked.passed else kept_choice(_asked(asked.spec, asked.target))
    try:
        if facts is None or facts["preset"] not in named:
            return None
        candidate = Candidate(named[facts["preset"]], point(facts["keywords"]))
        schedule = candidate.preset.build(asked.spec, candidate.point)
        return Choice(schedule, candidate, str(facts["why"]), modelled_us=facts["modelled_us"])
    except (FireironError, KeyError, TypeError, AttributeError):
        return None


def _serves_near(preset: Preset, asked: _Question) -> bool:
    """Say whether a record of another problem is a guide: a preset's own ranking, or a newer preset, knows more."""
    newer = takewhile(lambda group: preset not in group, _by_architecture(asked.target))
    return not _ranks(preset) and all(_first_choice(asked, group, 0)[0] is None for group in newer)


def _ranks(preset: Preset) -> bool:
    from fireiron.tune.space import space_of

    declared = space_of(preset.function)
    return declared is not None and declared.ranked


def _modelled(asked: _Question) -> Choice:
    """Choose without records: of the presets for the newest architecture that take the problem, the first choice."""
    from fireiron.jit.choices import keep_choice

    for group in _by_architecture(asked.target):
        found, judged = _first_choice(asked, group, MODEL_LOOKS)
        if found is not None:
            words = f"the best of {judged} by the cost model" if judged else "the preset's own first choice"
            schedule = found.candidate.preset.build(asked.spec, found.candidate.point)
            why = f"no record: {words}, not measured"
            if not asked.passed:
                facts = {"preset": found.candidate.preset.name, "keywords": found.candidate.point.to_json()}
                keep_choice(_asked(asked.spec, asked.target), facts | {"why": why, "modelled_us": found.modelled_us})
            return Choice(schedule, found.candidate, why, modelled_us=found.modelled_us)
    raise _nothing_legal(asked)


def _nothing_legal(asked: _Question) -> CheckError:
    listed = "; ".join(f"{preset.name}: {why}" for preset, why in asked.refused.items())
    said = f"no preset takes {asked.spec.residual} on {asked.target}: {listed}"
    return CheckError("nothing-legal", said, fix="write a schedule for it")


def _by_architecture(target: str) -> list[list[Preset]]:
    """Group the presets that a target may run by what they are for, the newest architecture first."""
    from fireiron.algebra.arch import arch as find_arch
    from fireiron.tune.space import space_of

    groups: dict[int, list[Preset]] = {}
    for preset in presets():
        declared = space_of(preset.function)
        since = find_arch(declared.since).number if declared is not None and declared.since else 0
        if since <= find_arch(target).number:
            groups.setdefault(since, []).append(preset)
    return [groups[since] for since in sorted(groups, reverse=True)]


def suited(spec: MatMulChain, arch: str | None = None) -> tuple[Preset, ...]:
    """List the presets that are worth a search for a product: those of the architecture that `best` chooses from.

    Raises:
        CheckError: `nothing-legal` where no preset takes the problem.
    """
    asked = _Question(spec, _target(spec, arch))
    for group in _by_architecture(asked.target):
        if _first_choice(asked, group, 0)[0] is not None:  # the first that is legal says enough
            return tuple(group)
    raise _nothing_legal(asked)


def _first_choice(asked: _Question, group: Sequence[Preset], looks: int) -> tuple[Judged | None, int]:
    """Find the best of some presets by the model.

    A preset that ranks its points itself is taken at its word: its first legal point stands for it. Of one that gives
    the tiles of its points, the default and the few that a quick model finds fastest are judged. Of others the model
    descends from the best of their defaults, one keyword at a time. Candidates are counted, and no clock is asked: the
    choice is the same however busy the machine is.

    Args:
        asked: the product.
        group: the presets.
        looks: how many candidates are judged at most, once one is legal.

    Returns:
        The best, None where nothing is legal; and from how many points the model chose it, 0 where it is first in a
        preset's own ranking.
    """
    from fireiron.tune.candidates import Candidate
    from fireiron.tune.space import default_point, point

    seen: dict[Candidate, Judged] = {}
    spaces = {preset: space for preset in group if (space := asked.space(preset)) is not None}
    settled = {preset for preset, space in spaces.items() if space.ranked}

    def look(preset: Preset, values: Mapping[str, Any]) -> bool:
        candidate = Candidate(preset, point(values))
        if asked.passed and str(candidate) in asked.passed:
            asked.refused.setdefault(preset, f"{candidate} spills registers with the installed compiler")
            return False
        if candidate not in seen and (len(seen) < looks or not leader()):
            seen[candidate] = found = asked.judge(candidate)
            if found.failure is not None:
                asked.refused.setdefault(preset, str(found.failure))
        return candidate in seen and seen[candidate].failure is None

    def leader() -> Judged | None:
        legal = [j for j in seen.values() if j.modelled_us is not None]
        return min(legal, key=lambda j: j.modelled_us or 0.0, default=None)

    def better(best: Judged | None) -> Judged | None:
        """Give the leader where it saves enough."""
        found = leader()
        if best is None or (found is not None and (found.modelled_us or 0.0) < SURE * (best.modelled_us or 0.0)):
            return found
        return best

    for preset, space in spaces.items():
        if space.ranked:
            next((each for each in space.points(FEW_POINTS) if look(preset, each.keywords)), None)
        else:
            look(preset, default_point(preset.function, space).keywords)
    best = leader()
    if not _multiplied_by_warps(asked):  # then no point of a preset for tensor cores has an instruction
        hopeless = {j.candidate.preset for j in seen.values() if j.failure is not None and j.failure.code == "no-atom"}
        spaces = {preset: space for preset, space in spaces.items() if preset not in hopeless}
    for preset, space in spaces.items() if looks else ():
        legal, short = 0, None if space.ranked else asked.shortlist(preset)
        for each in short or ():
            legal += legal < SHORTLIST and look(preset, each.keywords)
        settled |= {preset} if legal else set()
    best = better(best)
    for preset, space in spaces.items() if best is None else ():
        for other in space.points(FEW_POINTS):
            look(preset, other.keywords)
    before, best = None, best or leader()
    while best is not None and best != before and best.candidate.preset not in settled:
        before = best
        for name, values in spaces[best.candidate.preset].axes:
            for value in values:
                look(best.candidate.preset, {**best.candidate.point.keywords, name: value})
            best = better(best) or best
    own = best is not None and spaces[best.candidate.preset].ranked
    return best, 0 if own else sum(j.failure is None for j in seen.values())


def _multiplied_by_warps(asked: _Question) -> bool:
    """Say whether an instruction of a warp, or of several, multiplies elements of the product's type on the target."""
    from fireiron.algebra.arch import arch
    from fireiron.atoms.table import TABLE
    from fireiron.language.levels import Thread

    dtype, number = asked.spec.left.dtype, arch(asked.target).number
    rows = (row for row in TABLE if row.kind == "MatMul" and row.unit != Thread and row.arch <= number)
    return any(operand.role == "A" and operand.dtype == dtype for row in rows for operand in row.operands)


@cache
def presets() -> tuple[Preset, ...]:
    """List the presets that have a search space."""
    from fireiron.front.cli.find import presets as targets
    from fireiron.tune.candidates import preset
    from fireiron.tune.space import space_of

    return tuple(preset(t.made, name=t.reference) for t in targets() if space_of(t.made) is not None)


@cache
def _machine() -> Machine:
    from fireiron.tune.machine import machine

    return machine()


def _target(spec: MatMulChain, arch: str | None) -> str:
    from fireiron.algebra.arch import arch as find_arch

    wanted = arch or spec.program.arch
    return _machine().arch if wanted is None else find_arch(wanted).name


@cache
def _index() -> Index:
    from fireiron.tune.lookup import load

    index, problems = load()
    for said in problems:
        warnings.warn(f"fireiron: {said}", stacklevel=2)
    return index


def gemm(
    a: Any,
    b: Any,
    /,
    *,
    epilog: Callable[..., Any] | None = None,
    out: Any = None,
    layout: str = "NN",
    dtype: object = None,
    stream: Any = None,
    schedule: Callable[[MatMulChain], Schedule] | None = None,
    dynamic: Literal["M"] | None = None,
    **operands: Any,
) -> Any:
    """Multiply two arrays with the best schedule known, and compute with the product before it is stored.

    The next call with torch tensors that lie alike, and functions that do the same, takes microseconds: a function
    counts by its code and the values that it reads from outside. One that reads what may change unseen, as lists and
    most objects, is called again each time.

    Args:
        a, b: arrays as the layout stores them, of torch, CuPy or NumPy, or views of them whose rows or columns are
            contiguous. Leading dimensions are batches; `b` may have none, and then serves all of them.
        epilog: a function of the accumulator's expression and of `operands` by name, in the pointwise language. A tuple
            of expressions gives as many outputs, which one kernel writes.
        out: array to write, or a tuple of them; allocated where None, of the type that the epilog converts it to, or of
            a's element type (i32 for integers) where it does not.
        layout: how a and b are stored, as `matmul` takes it: "row,col" or "TN" for a[M, K] and b[N, K].
        dtype: element type of both, where the arrays do not say it: `tf32` in f32; `i4`, `u4` and `b1` in bytes.
        stream: as a kernel takes it.
        schedule: makes a schedule of the spec; the best one known where None.
        dynamic: "M" lets one kernel serve all numbers of rows of a bucket (1 to 16, 17 to 32, 33 to 64, ...), chosen
            for its largest: the first call of a new number compiles nothing. Of two dense matrices without epilog.
        operands: what the epilog reads: arrays that broadcast over the product, or numbers, in the accumulator's type;
            beside sums of integers floats stay floats. Only the names of this function's own options (out, layout, ...)
            are taken.

    Raises:
        CallError: `requires-grad`, `wrong-shape`, `wrong-stride`, `bad-epilog`, `dynamic-call`, and as a kernel's call
            does.
        CheckError: `nothing-legal`.

    Example:
        >>> import numpy as np
        >>> from fireiron import relu
        >>> a, b, bias = np.ones((32, 16), np.float32), np.ones((16, 64), np.float32), np.full(64, -15, np.float32)
        >>> gemm(a, b)[0, 0].item()
        16.0
        >>> gemm(a, b, epilog=lambda acc, bias: relu(acc + bias), bias=bias)[0, 0].item()
        1.0
        >>> made, raw = gemm(a, b, epilog=lambda acc, bias: (relu(acc + bias), acc), bias=bias)
        >>> made[0, 0].item(), raw[0, 0].item()
        (1.0, 16.0)
    """
    if _traced():
        by_torch = _by_torch(a, b, out, stream, schedule, dynamic)
        return by_torch(a, b, epilog=epilog, layout=layout, dtype=dtype, **operands)
    arrays = (a, b, *[x for x in operands.values() if type(x) not in NUMBERS]) if operands else (a, b)
    _up_to_date()
    said = layout if dynamic is None else f"{layout} for any {dynamic}"
    key = launches.key(arrays, out, said, dtype, (epilog, schedule), operands)
    if key is not None:
        launch = launches.find(key)
        if launch is not None:
            result = launch(arrays, out, stream, operands)
            if result is not None:
                return result
    layout = _letters(layout)
    if key is None:
        if out is stream is schedule is dynamic is None and any(map(_for_torch, arrays)):
            by_torch = _by_torch(a, b, out, stream, schedule, dynamic)
            return by_torch(a, b, epilog=epilog, layout=layout, dtype=dtype, **operands)
        _check_call(a, b, out, dtype, epilog, schedule)
        if 0 in (*a.shape, *b.shape):
            return _empty(a, b, out, layout, dtype, epilog, stream, schedule, operands)
    plain = epilog is None and schedule is None and not operands and not _is_view(a, b, out, dtype)
    if dynamic is not None:
        from fireiron.front.dynamic import check_dynamic

        check_dynamic(dynamic, plain)
    if not plain:
        from fireiron.front import fused

        call = fused.prepared(a, b, epilog, out, layout, dtype, schedule, operands)
    else:
        wanted = None if out is None else out.dtype
        kernel = _kernels.get((layout, dtype, a.dtype, a.shape, b.shape, wanted, dynamic))
        call = Call(kernel or _prepared(a, b, out, layout, dtype, dynamic), (a, b), (0, 1), out, {})
    made = call.kernel(*call.inputs, out=call.out, stream=stream, **call.numbers)
    result = call.shaped(made) if out is None else out
    if key is not None:
        launches.keep(key, arrays, call, made, result)
    return result


def _traced() -> bool:
    """Say whether torch.compile or torch.export reads the call, and no arrays are there."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return compiler is not None and compiler.is_compiling()


def _for_torch(array: Any) -> bool:
    """Say whether a tensor takes torch's dispatcher: for its gradient, on the CPU, or without contents."""
    if not is_torch(array):
        return False
    torch = sys.modules["torch"]
    return not array.is_cuda or (array.requires_grad and torch.is_grad_enabled()) or hasattr(array, "fake_mode")


def _by_torch(a: Any, b: Any, out: Any, stream: Any, schedule: Any, dynamic: Any) -> Callable[..., Any]:
    """Give the operator of torch that multiplies.

    Raises:
        CallError: `traced-option`.
    """
    from fireiron.front.torch_ops import gemm as by_torch
    from fireiron.front.torch_ops import refuse

    given = [
        name
        for name, x in (("out", out), ("stream", stream), ("schedule", schedule), ("dynamic", dynamic))
        if x is not None
    ]
    if given:
        refuse(given[0])
    return by_torch


OPTIONS = (
    "epilog",
    "out",
    "layout",
    "dtype",
    "stream",
    "schedule",
    "dynamic",
)  # of gemm, besides which it takes operands


def _letters(layout: object) -> str:
    """Read a layout.

    Raises:
        CallError: `argument-kind`, `bad-layout`.
    """
    if not isinstance(layout, str):
        raise refused("layout=", ("a text", "one of NN, NT, TN, TT in quotes"), layout, CallError)
    try:
        return letters(layout)
    except ValueError as error:
        raise CallError("bad-layout", str(error), fix=FIX, link=here()) from None


def _check_call(a: Any, b: Any, out: Any, dtype: object, *functions: object) -> None:
    """Refuse what is no array, no element type or no function.

    Raises:
        CallError: `requires-grad`, `not-an-array`, `argument-kind`. SpecError: `unknown-dtype`.
    """
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.front.fused import check_options, described

    if callable(functions[0]):
        check_options(functions[0], OPTIONS)
    outs = () if out is None else (out,)  # an empty list is no array either
    try:
        for x, name in ((a, "a"), (b, "b"), *((x, "out") for x in as_tuple(out) or outs)):
            facts = described(x, name)
            if any(step < 0 for step in facts.strides):
                raise CallError(
                    "wrong-stride",
                    f"{name} has element strides {facts.strides}: kernels take no negative strides",
                    fix=f"pass {name}.copy()",
                )
        if dtype is not None:
            find_dtype(dtype)
    except FireironError as error:
        raise error.located(here()) from None
    for name, function in zip(("epilog=", "schedule="), functions, strict=True):
        if function is not None and not callable(function):
            raise refused(name, ("a function", "a function"), function, CallError)


def _empty(
    a: Any,
    b: Any,
    out: Any,
    layout: str,
    dtype: object,
    epilog: Callable[..., Any] | None,
    stream: Any,
    schedule: Callable[[MatMulChain], Schedule] | None,
    operands: Mapping[str, Any],
) -> Any:
    """Multiply arrays without elements: each sum over no K is 0, and a product without rows or columns is empty."""
    from fireiron.algebra.dtypes import default_result
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.jit.arrays import describe

    rows, depth = (-1, -2) if layout[1:] == "T" else (-2, -1)
    above, columns = (-1, -2) if layout[:1] == "T" else (-2, -1)
    shapes = tuple(a.shape), tuple(b.shape)
    if min(map(len, shapes)) < 2 or shapes[0][depth] != shapes[1][above]:
        raise CallError(
            "wrong-shape", f"a has the shape {shapes[0]} and b {shapes[1]}", fix="give them one K", link=here()
        )
    shape = (*shapes[0][:-2], shapes[0][rows], shapes[1][columns])
    for one in as_tuple(out):
        if tuple(one.shape) != shape:
            raise CallError(
                "wrong-shape",
                f"out has the shape {tuple(one.shape)}, the product {shape}",
                fix="give them one shape",
                link=here(),
            )
    if 0 in shape and out is not None:
        return out
    if 0 not in shape or epilog is not None:  # as good as one of zeros, of which no element is given back

        def zeros(x: Any) -> Any:
            return x if 0 not in getattr(x, "shape", ()) else _zeros(x, tuple(n or PADDED for n in x.shape))

        made = gemm(
            zeros(a), zeros(b), epilog=epilog, out=out, layout=layout, dtype=dtype, stream=stream,
            schedule=schedule, **{name: zeros(x) for name, x in operands.items()},
        )  # fmt: skip
        kept = tuple(slice(n) for n in shape)
        if 0 not in shape:
            return made
        cut = tuple(x[kept] for x in as_tuple(made))
        return cut if isinstance(made, tuple) else cut[0]
    kind = default_result(find_dtype(describe(a, "a").dtype if dtype is None else dtype))
    return _zeros(a, shape, kind)


def _zeros(like: Any, shape: tuple[int, ...], dtype: DType | None = None) -> Any:
    """Make an array of zeros beside another one."""
    if is_torch(like):
        kind = like.dtype if dtype is None else getattr(import_module("torch"), dtype.numpy_name)
        return like.new_zeros(shape, dtype=kind)
    space = like.__array_namespace__() if hasattr(like, "__array_namespace__") else import_module("numpy")
    return space.zeros(shape, dtype=like.dtype if dtype is None else dtype.numpy)


def _is_view(a: Any, b: Any, out: Any, dtype: object) -> bool:
    """Say whether arrays are more than matrices, or batches of them, that lie densely one line after another."""
    if dtype is not None:
        return False
    for x in (a, b) if out is None else (a, b, out):
        contiguous = getattr(x, "is_contiguous", None)
        flags = getattr(x, "flags", None)
        dense = contiguous() if contiguous is not None else flags is None or bool(flags.c_contiguous)
        if not dense or getattr(x, "requires_grad", False):
            return True
    rank = len(getattr(a, "shape", ()))
    return rank > 3 or rank != len(getattr(b, "shape", ()))


_kernels: dict[Any, CompiledKernel | HostKernel] = {}


def _prepared(a: Any, b: Any, out: Any, layout: str, dtype: object, dynamic: str | None) -> CompiledKernel | HostKernel:
    from fireiron.algebra.dtypes import dtype as find_dtype
    from fireiron.base.errors import CallError
    from fireiron.jit.arrays import describe

    facts = describe(a, "a"), describe(b, "b")
    ranks = {len(x.shape) for x in facts}
    if ranks not in ({2}, {3}):
        raise CallError(
            "wrong-shape",
            f"a has the shape {facts[0].shape} and b {facts[1].shape}",
            fix="give two matrices, or two batches of them",
        ).located(here())
    try:
        kind = find_dtype(facts[0].dtype if dtype is None else dtype)
    except FireironError as error:
        raise error.located(here()) from None
    # Several elements share a byte along the last axis.
    first, second = ((*x.shape[:-1], x.shape[-1] * kind.pack) for x in facts)
    m, k = first[-2:] if layout[1:] != "T" else first[:-3:-1]
    n = second[-1] if layout[:1] != "T" else second[-2]
    batch = facts[0].shape[0] if ranks == {3} else None
    wanted = None if out is None else describe(out, "out").dtype
    kernel = _kernel(_rows_of(m, dynamic), n, k, kind.name, wanted, layout, batch)
    if len(_kernels) >= MOST_CHOICES:
        _kernels.clear()
    _kernels[layout, dtype, a.dtype, a.shape, b.shape, None if out is None else out.dtype, dynamic] = kernel
    return kernel


def _rows_of(m: int, dynamic: str | None) -> int | Symbol:
    if dynamic is None:
        return m
    from fireiron.front.dynamic import bucket

    return bucket(m)


@lru_cache(maxsize=MOST_KERNELS)
def _kernel(
    m: int | Symbol, n: int, k: int, dtype: str, out: str | None, layout: str, batch: int | None
) -> CompiledKernel | HostKernel:
    from fireiron.front.spec import matmul

    return compiled(matmul(m, n, k, dtype, out=out, layout=layout, batch=batch))
