"""Find a schedule: a preset by its name, or a function or schedule in a Python file."""

from __future__ import annotations

import difflib
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from fireiron.base.errors import FireironError, UsageError
from fireiron.front.cli.keywords import Keyword, keywords
from fireiron.front.cli.problem import DEFAULT_SHAPE, Problem
from fireiron.front.program import Function
from fireiron.front.verbs import Schedule
from fireiron.language.tensor import tensor

PRESETS = "fireiron.schedules"
LINES, FEW_LINES, COLUMNS = 64, 4, 256  # of a program's arrays by default; of three dims or more, few lines
PACKAGE = str(Path(__file__).parents[2])


@attrs.frozen
class Target:
    """Hold what a reference leads to.

    Args:
        reference: as it was written.
        made: a function that gives a schedule, or a schedule.
        takes_spec: whether the function is given a spec.
        keywords: what else it may be given.
    """

    reference: str
    made: Any
    takes_spec: bool
    keywords: tuple[Keyword, ...] = ()

    @property
    def about(self) -> str:
        """Give the first line of the docstring."""
        return (inspect.getdoc(self.made) or "").partition("\n")[0] if callable(self.made) else ""

    @property
    def default(self) -> Problem:
        """Give the problem where nothing is said: small, of the preset's `shape` and its file's `DTYPE`, if there."""
        module = sys.modules.get(getattr(self.made, "__module__", ""))
        shape = getattr(self.made, "shape", DEFAULT_SHAPE)
        return Problem(shape=tuple(shape), dtype=getattr(module, "DTYPE", "f32"), layout="NN")

    def build(self, problem: Problem, values: Mapping[str, Any]) -> Schedule:
        """Build the schedule.

        Args:
            problem: the spec; what it leaves open takes defaults.
            values: keywords.

        Raises:
            FireironError: as the links do. UsageError: `fixed-spec`, `schedule-failed`, `not-a-schedule`.
        """
        own = {keyword.name for keyword in self.keywords} - {*values}
        if not self.takes_spec:  # what a spec's option says may be a keyword of a preset without one: --dtype
            given = {name: x for name, x in attrs.asdict(problem).items() if x is not None and name in own}
            values, problem = {**values, **given}, attrs.evolve(problem, **dict.fromkeys(given))
        if not self.takes_spec and problem.said:
            raise UsageError(
                "fixed-spec",
                f"{self.reference} has a spec of its own, and {', '.join(problem.said)} cannot change it",
                fix="drop the option, or name a function whose first parameter is a spec",
            )
        made = self.made
        if not isinstance(made, Schedule):
            arguments = (problem.over(self.default).spec(),) if self.takes_spec else ()
            try:
                made = made(*arguments, **values)
            except FireironError as error:
                raise self.own(error) from None
            except (Exception, SystemExit) as error:
                if _is_ours(error):
                    raise
                raise _failed(self.reference, error) from None
        if not isinstance(made, Schedule):
            raise UsageError(
                "not-a-schedule", f"{self.reference} gives {made!r}, which is no schedule", fix="return the chain"
            )
        return made

    def own(self, error: FireironError) -> FireironError:
        """Leave out who called a preset: it is the command line itself, and not what the user wrote."""
        if error.link is not None and ".py" not in self.reference:
            error.link = attrs.evolve(error.link, caller=None)
        return error


def is_reference(word: str) -> bool:
    """Say whether a word of a command names a schedule.

    Example:
        >>> is_reference("simt.sgemm"), is_reference("my/file.py:gemm"), is_reference("64x32"), is_reference("0.5")
        (True, True, False, False)
    """
    parts = word.split(".")
    return ".py" in word or (len(parts) > 1 and all(part.isidentifier() for part in parts))


def find(reference: str) -> Target:
    """Find what a reference names.

    Raises:
        UsageError: `unknown-preset`, `no-such-file`, `no-such-function`, `schedule-failed`.
    """
    if ".py" in reference:
        return _in_file(reference)
    found = {target.reference: target for target in presets()}
    if reference in found:
        return found[reference]
    # A preset's own name goes a long way: `sgemm` is near `simt.sgemm`.
    near = [name for name in found if name.rpartition(".")[2] == reference.rpartition(".")[2]]
    near += [name for name in difflib.get_close_matches(reference, found, 3, 0.75) if not near]
    raise UsageError(
        "unknown-preset",
        f"there is no preset {reference}",
        fix=f"did you mean {' or '.join(near)}?" if near else "see fireiron list, or name path/file.py:function",
    )


def presets() -> tuple[Target, ...]:
    """List every preset: the public functions of fireiron.schedules that give a schedule, of a spec or of their own."""
    package = import_module(PRESETS)
    found: list[Target] = []
    for entry in sorted(pkgutil.iter_modules(package.__path__), key=lambda entry: entry.name):
        if not entry.name.startswith("_"):
            module = import_module(f"{PRESETS}.{entry.name}")
            own = [(name, f) for name, f in _functions(module) if _schedules(f) or _has_a_spec(f)]
            found += (_target(f"{entry.name}.{name}", function) for name, function in own)
            found += (_target(f"{entry.name}.{name}", function) for name, function in _programs(module))
    return tuple(found)


def _functions(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    """List a module's own public functions in the order of its text."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _schedules(function: Callable[..., Any]) -> bool:
    return _takes_spec(function) and _gives_schedule(function) and not _takes_program(function)


def _gives_schedule(function: Callable[..., Any]) -> bool:
    """Tell whether a function's annotation says that it gives a schedule: `-> Schedule`, or a chain."""
    said = str(inspect.signature(function).return_annotation)
    return "Schedule" in said or "Chain" in said


def _takes_program(function: Callable[..., Any]) -> bool:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and "ProgramChain" in str(first.annotation)


def _programs(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    """List a module's programs, each scheduled by the module's function that schedules programs."""
    by = next((f for _, f in _functions(module) if _takes_program(f)), None)
    own = [(name, value) for name, value in vars(module).items() if isinstance(value, Function)]
    return [(name, _scheduled(program, by)) for name, program in own] if by is not None else []


def _scheduled(program: Function, by: Callable[..., Any]) -> Callable[..., Any]:
    """Make a preset of a program: its keywords are the extents of the dims, one element type, and the schedule's."""
    dims = dict.fromkeys(dim for names in program.dims.values() for dim in names.split())
    lines = LINES if len(dims) <= 2 else FEW_LINES
    extents = {**dict.fromkeys(dims, lines), list(dims)[-1]: COLUMNS}

    def made(dtype: str = "f32", **values: Any) -> Any:
        sizes = {dim: values.pop(dim, extent) for dim, extent in extents.items()}
        arrays: dict[str, Any] = {
            name: tensor(*(sizes[dim] for dim in names.split()), dtype=dtype, name=name)
            for name, names in program.dims.items()
        }
        return by(program(**arrays), **values)

    keyword = inspect.Parameter.KEYWORD_ONLY
    schedules = list(inspect.signature(by).parameters.values())[1:]
    parameters = [inspect.Parameter(dim, keyword, default=n, annotation=int) for dim, n in extents.items()]
    parameters.append(inspect.Parameter("dtype", keyword, default="f32", annotation=str))
    parameters += [parameter.replace(kind=keyword) for parameter in schedules if parameter.name not in extents]
    made.__signature__ = inspect.Signature(parameters, return_annotation="Schedule")  # pyright: ignore
    made.__name__, made.__module__ = program.name, program.function.__module__
    made.__doc__ = program.function.__doc__
    made.__annotations__ = {p.name: p.annotation for p in parameters if isinstance(p.annotation, type)}
    return made


def _takes_spec(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].default is not inspect.Parameter.empty:
        return False
    first = parameters[0]
    return first.name == "spec" or "MatMulChain" in str(first.annotation)


def _has_a_spec(function: Callable[..., Any]) -> bool:
    """Say whether a function makes the spec itself, from keywords that all have defaults."""
    signature = inspect.signature(function)
    free = all(p.default is not inspect.Parameter.empty for p in signature.parameters.values())
    return free and _gives_schedule(function)


def _target(reference: str, made: Any) -> Target:
    if isinstance(made, Schedule):
        return Target(reference, made, takes_spec=False)
    parameters = list(inspect.signature(made).parameters.values())
    wants = bool(parameters) and parameters[0].default is inspect.Parameter.empty
    return Target(reference, made, wants, keywords(made, skip=int(wants)))


def _in_file(reference: str) -> Target:
    name, colon, wanted = reference.rpartition(".py:")
    path = Path(f"{name}.py" if colon else reference)
    if not path.is_file():
        raise UsageError("no-such-file", f"there is no file {path}", fix="name a schedule as path/file.py:function")
    module = _imported(path, reference)
    candidates = dict(_functions(module)) | {
        name: value for name, value in vars(module).items() if isinstance(value, Schedule) and not name.startswith("_")
    }
    if not colon and len(candidates) == 1:
        return _target(reference, *candidates.values())
    if wanted in vars(module) and (callable(vars(module)[wanted]) or isinstance(vars(module)[wanted], Schedule)):
        return _target(reference, vars(module)[wanted])
    has = ", ".join(candidates) or "no public function"
    raise UsageError(
        "no-such-function",
        f"{path} has no {wanted}" if colon else f"{path} has several schedules, or none",
        fix=f"it has {has}; name one as {path}:function",
    )


def _imported(path: Path, reference: str) -> ModuleType:
    name = f"_schedule_file_{path.stem}"
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    # Files beside it can be imported, as when Python runs it.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except FireironError:
        raise
    except (Exception, SystemExit) as error:
        if _is_ours(error):
            raise
        raise _failed(reference, error) from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _is_ours(error: BaseException) -> bool:
    """Say whether an exception comes from the library: then it is a defect, whose traceback must be seen."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.filename.startswith(f"{PACKAGE}{os.sep}") for frame in frames[-1:])


def _failed(reference: str, error: BaseException) -> UsageError:
    """Say where the user's own code failed."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError):
        at = f" at {error.filename}:{error.lineno}"
    return UsageError(
        "schedule-failed", f"{reference} fails with {type(error).__name__}: {error}{at}", fix="correct the function"
    )
