"""The best schedule known for a product: a measured one, that of a similar product, or the cost model's choice."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

import attrs

from fireiron.base.contract import refused
from fireiron.base.errors import CheckError, FireironError, UsageError
from fireiron.base.link import here
from fireiron.base.records import evolve
from fireiron.front.best_program import best_program
from fireiron.front.chain import FoldChain, MatMulChain, ProgramChain
from fireiron.front.digest import digest
from fireiron.front.fallback import Fallback, ready
from fireiron.front.model_choice import Question, by_architecture, first_choice
from fireiron.front.state import kind_in
from fireiron.front.verbs import Schedule
from fireiron.language.residual import start
from fireiron.language.specs import MatMul, Move, Pointwise, task_of
from fireiron.language.steps import Program

if TYPE_CHECKING:
    from fireiron.front.chain import ElementwiseChain, MoveChain
    from fireiron.front.host import HostKernel
    from fireiron.jit.compile import Compiler
    from fireiron.jit.kernel import CompiledKernel
    from fireiron.tune.candidates import Candidate, Preset
    from fireiron.tune.lookup import Index
    from fireiron.tune.machine import Machine
    from fireiron.tune.record import Record

MODEL_LOOKS = 64  # candidates that a first choice without records judges: as many on a busy machine as on an idle one
MOST_CHOICES = 4096
OF_MOVES = "pointwise"  # the file of the preset for Moves


@attrs.frozen(eq=False)
class Choice:
    """Hold the schedule chosen for a product, and the reason.

    Args:
        schedule: the finished schedule.
        candidate: the preset and its keywords.
        why: the reason, in words.
        record: the measurement, None for the model's choice.
        target: name of the architecture; "" for a measured choice.
    """

    schedule: Any
    candidate: Candidate
    why: str
    record: Record | None = None
    target: str = ""

    @property
    def modelled_us(self) -> float | None:
        """Estimate the time of the model's choice in microseconds; None where a measurement decided."""
        return self.schedule.estimate(self.target).likely_us if self.target else None

    @property
    def point(self) -> str:
        """Write the call of the preset as Python."""
        return str(self.candidate)


_choices: dict[Any, Choice] = {}
_made_with: list[Any] = []  # the table of instructions for which choices are kept


def best(spec: MatMulChain | ProgramChain | ElementwiseChain | MoveChain, arch: str | None = None) -> Any:
    """Return the best schedule known for a product, or another spec's schedule by the preset for its form.

    The first choice is a schedule that was measured for this problem on this device. Without one, the preset for the
    newest architecture that takes the problem gives the first schedule of its own ranking; a preset without a ranking
    gives the schedule measured for the nearest problem, else the cost model's choice. The choice is kept: the next call
    for an equal spec takes microseconds.

    Args:
        spec: the result of `matmul(...)`, `Pointwise(...)`, `Move(...)` or a function under `@program`, without links.
        arch: the target; the spec's, else the GPU's, else sm_90a where None.

    Raises:
        UsageError: `argument-kind`. CheckError: `nothing-legal` where no preset takes the problem.

    Example:
        >>> from fireiron import matmul
        >>> best(matmul(256, 256, 64), "sm_80").residual.closed
        True
    """
    given = cast(object, spec)
    if not isinstance(given, Schedule) or kind_in(given).spec not in (MatMul, Program, Pointwise, Move):
        raise refused("best", ("a product, a program, a Pointwise or a Move", "matmul(64, 64, 32)"), spec, UsageError)
    if not isinstance(cast(object, arch), str | int | None):
        raise refused("arch=", ("an architecture", '"sm_90a"'), arch, UsageError)
    if kind_in(given).spec is not MatMul:
        try:
            return _of_form(given, arch)
        except FireironError as error:
            raise error.located(here()) from None
    return choose(cast(MatMulChain, spec), arch).schedule


def _of_form(chain: Schedule, arch: str | None) -> Any:
    """Schedule a program, or a Pointwise as the program of its steps, by form; a Move by the preset for Moves."""
    kind, task = kind_in(chain).spec, chain.program
    if kind is Program:
        return best_program(cast(ProgramChain, chain), arch)
    wanted = task.arch if arch is None else arch
    if kind is Move:
        return import_module(f"fireiron.schedules.{OF_MOVES}").move(evolve(chain, program=task_of(task.spec, wanted)))
    made = task_of(chain.steps, wanted)
    return best_program(cast(ProgramChain, FoldChain(made, (), start(chain.steps))))


def choose(spec: MatMulChain, arch: str | None = None) -> Choice:
    """Return the best schedule known, with the reason for the choice; see `best`."""
    try:
        up_to_date()
        key = choice_key(spec, arch)
        found = _choices.get(key)
        if found is not None:
            return found
        chosen = _with_fallback(_chosen(_question(spec, arch)), spec, arch)
    except FireironError as error:
        raise error.located(here()) from None
    if len(_choices) >= MOST_CHOICES:
        _choices.clear()
    _choices[key] = chosen
    return chosen


def _with_fallback(choice: Choice, spec: MatMulChain, arch: str | None) -> Choice:
    """Add the next choices, which replace a schedule that spills or crashes the installed compiler."""

    def choices(target: str) -> Iterator[Choice]:
        if target != target_of(spec, arch):
            return
        asked, found = _question(spec, arch), choice
        while True:
            asked = evolve(asked, passed=asked.passed | {str(found.candidate)})
            try:
                found = _chosen(asked)
            except CheckError:
                return  # every candidate was tried
            yield _with_fallback(found, spec, arch)

    def refuse(target: str, poor: Sequence[Choice], compiler: Compiler) -> None:
        from fireiron.jit.passed import pass_over

        if target == target_of(spec, arch):
            pass_over(_asked(spec, target), [str(each.candidate) for each in (choice, *poor)], compiler)
            _choices.pop(choice_key(spec, arch), None)

    return attrs.evolve(choice, schedule=attrs.evolve(choice.schedule, fallback=Fallback(choices, refuse)))


def _asked(spec: MatMulChain, target: str) -> str:
    """Write the problem and the target as a text."""
    from fireiron.tune.problem import meaning_of

    return f"{target} {meaning_of(spec).digest}"


def choice_key(spec: MatMulChain, arch: str | None) -> object:
    """Return a key of a choice: equal for equal problems and targets."""
    from fireiron.tune.problem import meaning_of

    return arch, spec.program.arch, meaning_of(spec)


def remember(spec: MatMulChain, arch: str | None, choice: Choice) -> None:
    """Keep a choice, so that `best` returns it; another process may have made it."""
    _choices[choice_key(spec, arch)] = choice


def compiled(spec: MatMulChain, schedule: Any = None) -> CompiledKernel | HostKernel:
    """Compile a schedule, the best one known by default; warn where NVRTC spills registers in every candidate.

    Without a GPU nothing is compiled, and calls are simulated.

    Raises:
        CheckError: `nothing-legal`. CompileError: as `compile` does, except for findings that only make a kernel
            slower.
    """
    from fireiron.front.host import SIMULATED, HostKernel, without_gpu

    if without_gpu():
        return HostKernel((schedule or best(spec, spec.program.arch or SIMULATED)).lowered())
    if schedule is not None:
        return schedule.compile()
    kept = kept_kernel(spec)
    if kept is not None:
        return kept
    return ready(best(spec))


def kept_kernel(spec: MatMulChain, arch: str | None = None) -> CompiledKernel | None:
    """Return the kernel of the model's choice if the disk holds both: in 2 ms, without building a schedule.

    The result is None where either is missing, where a record decides, or where this process has chosen already or has
    changed instructions.
    """
    from fireiron.algebra.arch import arch as find_arch
    from fireiron.jit.build import from_disk

    up_to_date()
    if choice_key(spec, arch) in _choices:
        return None
    asked = _question(spec, arch)
    kept = _facts(asked)
    if kept is None or not isinstance(kept.get("digest"), str) or not _by_model(asked, kept):
        return None

    def simulator(arrays: Mapping[str, Any], sizes: Mapping[str, int], numbers: Mapping[str, Any]) -> None:
        from fireiron.front.host import simulated

        simulated(best(spec, arch).lowered(asked.target), arrays, sizes, numbers)

    return from_disk(kept["digest"], find_arch(asked.target), simulator=simulator)


def key_of_model(spec: MatMulChain, arch: str) -> str | None:
    """Return the key on disk of what the model decides about a product.

    The result is None where a record decides, or this process has changed instructions.
    """
    up_to_date()
    asked = _question(spec, arch)
    return _kept_as(asked) if _by_model(asked, _facts(asked)) else None


def _by_model(asked: Question, kept: Mapping[str, Any] | None) -> bool:
    """Say whether the model decides about a product, with the instructions that every process has."""
    from fireiron.atoms.table import content

    return not content() and next(_recorded(asked, kept), None) is None


def forget() -> None:
    """Forget all choices, so that new records are read."""
    from fireiron.front import fused, multiply
    from fireiron.jit import passed

    _choices.clear()
    best_program.cache_clear()
    passed.forget()
    fused.forget()
    _index.cache_clear()
    measured.cache_clear()
    multiply.forget()


def up_to_date() -> None:
    """Forget all choices and kernels where this process has changed a row of the table of instructions since."""
    from fireiron.atoms import table

    if not _made_with:
        _made_with.append(table.TABLE)
    elif table.TABLE is not _made_with[0]:
        _made_with[0] = table.TABLE
        forget()


def _chosen(asked: Question) -> Choice:
    kept = _facts(asked)
    for candidate, record, why in _recorded(asked, kept):
        found = asked.check(candidate)
        if found.failure is None:  # a schedule that was legal there may be illegal here
            return Choice(found.schedule, candidate, why, record)
    return _kept(asked, kept) or _modelled(asked)


def _question(spec: MatMulChain, arch: str | None) -> Question:
    from fireiron.jit.passed import passed_over

    target = target_of(spec, arch)
    text = _asked(spec, target)
    return Question(spec, target, passed_over(text), text)


def _recorded(asked: Question, kept: Mapping[str, Any] | None) -> Iterator[tuple[Candidate, Record, str]]:
    """Yield the candidates that records name for a product, the best first, with the record and the reason.

    Args:
        asked: the product.
        kept: the model's choice on disk, None where there is none.
    """
    from fireiron.tune.candidates import Candidate
    from fireiron.tune.problem import described, meaning_of

    where, meaning, named = _machine(), meaning_of(asked.spec), _named()
    # Records of this product, and of the product without ops.
    wanted = [described(each) for each in dict.fromkeys((meaning, meaning.product))]
    for number, problem in enumerate(wanted):
        for found in _index().find(problem, where.device, asked.target, where.software):
            preset = named.get(found.record.preset)
            if preset is None or (found.distance > 0 and not _serves_near(preset, asked, kept)):
                continue
            candidate = Candidate(preset, found.record.point)
            if str(candidate) not in asked.passed:  # another compiler measured it
                yield candidate, found.record, f"{found.why}, of the product without its ops" if number else found.why


def recorded(spec: ProgramChain, names: Sequence[str]) -> Any:
    """Return a program's fastest measured schedule; None where no record is valid for this device and library.

    Args:
        spec: the result of a function under `@program`.
        names: the presets for the program's form.
    """
    from fireiron.tune.candidates import preset
    from fireiron.tune.problem import problem

    where, wanted = _machine(), problem(spec)
    for found in _index().find(wanted, where.device, target_of(spec, None), where.software):
        name = found.record.preset
        if found.record.problem == wanted and name in names:
            file, function = name.split(".")
            try:
                made = getattr(import_module(f"fireiron.schedules.{file}"), function)
                return preset(made, name=name).build(spec, found.record.point)
            except FireironError:  # a schedule that was legal there may be illegal here
                continue
    return None


def _kept_as(asked: Question) -> str:
    """Write the key of the model's choice on disk: the problem, the target, and candidates that failed to compile."""
    return "\n".join((asked.text, *sorted(asked.passed)))


def _facts(asked: Question) -> Mapping[str, Any] | None:
    """Read the model's choice that a process kept on disk; None where the disk holds none of a known preset."""
    from fireiron.jit.choices import kept_choice

    facts = kept_choice(_kept_as(asked))
    return facts if facts is not None and facts.get("preset") in _named() else None


def _kept(asked: Question, facts: Mapping[str, Any] | None) -> Choice | None:
    """Build the choice that a process kept on disk; None where it is not valid here."""
    from fireiron.tune.candidates import Candidate
    from fireiron.tune.space import point

    try:
        if facts is None:
            return None
        candidate = Candidate(_named()[facts["preset"]], point(facts["keywords"]))
        schedule = candidate.preset.build(asked.spec, candidate.point)
        return Choice(schedule, candidate, str(facts["why"]), target=asked.target)
    except (FireironError, KeyError, TypeError, AttributeError):
        return None


def _serves_near(preset: Preset, asked: Question, kept: Mapping[str, Any] | None) -> bool:
    """Say whether a measurement of a similar problem may decide for a preset.

    Such a measurement does not decide if the preset has its own ranking, or if a preset for a newer architecture takes
    the problem or is the choice on disk.
    """
    if _ranks(preset):
        return False
    newer = list(takewhile(lambda group: preset not in group, by_architecture(asked.target, presets())))
    if kept is not None and any(_named()[kept["preset"]] in group for group in newer):
        return False
    return all(first_choice(asked, group, 0)[0] is None for group in newer)


def _ranks(preset: Preset) -> bool:
    from fireiron.tune.space import space_of

    declared = space_of(preset.function)
    return declared is not None and declared.ranked


def _modelled(asked: Question) -> Choice:
    """Choose without measurements: take the first choice of the presets for the newest architecture that fits."""
    from fireiron.atoms.table import content
    from fireiron.jit.choices import keep_choice

    for group in by_architecture(asked.target, presets()):
        found, judged = first_choice(asked, group, MODEL_LOOKS)
        if found is not None:
            words = f"the best of {judged} by the cost model" if judged else "the preset's own first choice"
            schedule, why = found.schedule, f"no record: {words}, not measured"
            facts = {"preset": found.candidate.preset.name, "keywords": found.candidate.point.to_json(), "why": why}
            if not content():  # else the digest is that of another table of instructions
                facts["digest"] = digest(schedule.program, schedule.links, schedule.name)
            keep_choice(_kept_as(asked), facts)
            return Choice(schedule, found.candidate, why, target=asked.target)
    raise _nothing_legal(asked)


def _nothing_legal(asked: Question) -> CheckError:
    listed = "; ".join(f"{preset.name}: {why}" for preset, why in asked.refused.items())
    said = f"no preset takes {asked.spec.residual} on {asked.target}: {listed}"
    return CheckError("nothing-legal", said, fix="write a schedule for it")


def suited(spec: MatMulChain, arch: str | None = None) -> tuple[Preset, ...]:
    """List the presets to search for a product: those of the architecture from which `best` chooses.

    Raises:
        CheckError: `nothing-legal` where no preset takes the problem.
    """
    asked = Question(spec, target_of(spec, arch))
    for group in by_architecture(asked.target, presets()):
        if first_choice(asked, group, 0)[0] is not None:  # one legal schedule is enough
            return tuple(group)
    raise _nothing_legal(asked)


def takes(preset: Preset, spec: MatMulChain, arch: str) -> bool:
    """Say whether a preset lists candidates for a product."""
    return Question(spec, arch).space(preset) is not None


@cache
def presets() -> tuple[Preset, ...]:
    """List the presets that have a search space."""
    from fireiron.front.cli.find import searched
    from fireiron.tune.candidates import preset

    return tuple(preset(function, name=name) for name, function in searched())


def _named() -> Mapping[str, Preset]:
    """List the presets by name."""
    return {preset.name: preset for preset in presets()}


@cache
def _machine() -> Machine:
    from fireiron.tune.machine import machine

    return machine()


def target_of(spec: MatMulChain | ProgramChain, arch: str | None = None) -> str:
    """Return the architecture for a choice: the given one, else the spec's, else the GPU's."""
    from fireiron.algebra.arch import arch as find_arch

    wanted = arch or spec.program.arch
    return _machine().arch if wanted is None else find_arch(wanted).name


@cache
def measured() -> str:
    """Return a digest of this machine, and of the files of records that `best` reads."""
    from fireiron.jit.identity import content
    from fireiron.tune.lookup import read_by_default

    where = _machine()
    return f"{where.device} {where.arch} {where.software} {content([str(path) for path in read_by_default()])}"


@cache
def _index() -> Index:
    from fireiron.tune.lookup import load

    index, problems = load()
    for said in problems:
        warnings.warn(f"fireiron: {said}", stacklevel=2)
    return index
