"""Find a schedule: a preset by its name, or a function or schedule in a Python file."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, cast, get_args

import attrs

from fireiron.base.errors import FireironError, UsageError
from fireiron.front.best_program import best_program
from fireiron.front.cli.keywords import Keyword, keywords
from fireiron.front.cli.problem import DEFAULT_SHAPE, Problem
from fireiron.front.program import Function
from fireiron.front.verbs import Schedule
from fireiron.language.tensor import tensor

PRESETS = "fireiron.schedules"
# Default extents of a program's dims: lines, lines of arrays of three dims or more, and columns.
LINES, FEW_LINES, COLUMNS = 64, 4, 256
MOST_WIDE = 3  # dims of a program whose last one has so many columns
PACKAGE = str(Path(__file__).parents[2])


@attrs.frozen
class Asked:
    """Hold a program that the command line describes, and the function that schedules the program.

    Args:
        spec: the program, traced.
        preset: the function that schedules the program.
        given: keywords for the preset.
        others: further functions of the same file that may schedule the program, where the command names none.
    """

    spec: Any
    preset: Callable[..., Any]
    given: dict[str, Any]
    others: tuple[Callable[..., Any], ...] = ()


@attrs.frozen
class Target:
    """Hold a schedule, or a function that makes one, which a word of a command names.

    Args:
        reference: the word: `hopper.gemm`, or `mine.py:schedule`.
        made: the schedule, or the function.
        takes_spec: whether the function takes a spec.
        keywords: the function's other parameters.
    """

    reference: str
    made: Any
    takes_spec: bool
    keywords: tuple[Keyword, ...] = ()

    @property
    def about(self) -> str:
        """Return the first line of the docstring."""
        return (inspect.getdoc(self.made) or "").partition("\n")[0] if callable(self.made) else ""

    def offers(self, schedule: str) -> bool:
        """Say whether this target is a program and one of its presets has this name."""
        if not callable(self.made) or (told := inspect.signature(self.made).parameters.get("schedule")) is None:
            return False
        return schedule in get_args(told.annotation)

    @property
    def default(self) -> Problem:
        """Return the problem to use without options: a small one, with the constants of the preset's file.

        In the file, `SHAPE`, `LAYOUT` and `DTYPE` apply to all presets, and `DTYPES` to some, by name.
        """
        module = sys.modules.get(getattr(self.made, "__module__", ""))
        shape = getattr(module, "SHAPE", DEFAULT_SHAPE)
        dtype, layout = getattr(module, "DTYPE", "f32"), getattr(module, "LAYOUT", "NN")
        dtype = getattr(module, "DTYPES", {}).get(getattr(self.made, "__name__", ""), dtype)
        return Problem(shape=shape[:2] if self.moves else shape, dtype=dtype, layout=layout)

    @property
    def moves(self) -> bool:
        """Say whether the function schedules a Move instead of a product."""
        return self.takes_spec and "MoveChain" in str(next(iter(inspect.signature(self.made).parameters.values())))

    @property
    def is_program(self) -> bool:
        """Say whether the reference names a program, which a function of its file schedules."""
        return hasattr(self.made, "asked")

    def asked(self, problem: Problem, values: Mapping[str, Any]) -> Asked:
        """Trace the program that a command describes.

        Args:
            problem: extents and element type.
            values: keywords of the program and of the function that schedules it.

        Raises:
            FireironError: as tracing does. UsageError: `bad-shape`, `fixed-spec`, `unknown-array`, `unknown-parameter`.
        """
        values, _ = self._of_program(problem, values)
        try:
            return self.made.asked(**values)
        except FireironError as error:
            raise self.own(error) from None

    def build(self, problem: Problem, values: Mapping[str, Any]) -> Schedule:
        """Build the schedule.

        Args:
            problem: the spec's options; missing options take defaults.
            values: keywords of the function.

        Raises:
            FireironError: as the links do. UsageError: `fixed-spec`, `schedule-failed`, `not-a-schedule`.
        """
        values, problem = self._of_program(problem, values)
        made = self.made
        if not isinstance(made, Schedule):
            whole = problem.over(self.default)
            arguments = (whole.move() if self.moves else whole.spec(),) if self.takes_spec else ()
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

    def _of_program(self, problem: Problem, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], Problem]:
        """Move a spec's options to keywords of a target that makes its own spec; return keywords and other options.

        Raises:
            UsageError: `bad-shape`, `fixed-spec`.
        """
        own = {keyword.name for keyword in self.keywords} - {*values}
        dims: tuple[str, ...] = getattr(self.made, "dims", ())
        if dims and problem.shape is not None:
            values = {**self._extents(dims, problem.shape), **values}
            problem = attrs.evolve(problem, shape=None)
        if self.takes_spec:
            return values, problem
        given = {name: x for name, x in attrs.asdict(problem).items() if x is not None and name in own}
        values, problem = {**values, **given}, attrs.evolve(problem, **dict.fromkeys(given))
        if problem.said:
            raise UsageError(
                "fixed-spec",
                f"{self.reference} has a spec of its own, and {', '.join(problem.said)} cannot change it",
                fix="drop the option, or name a function whose first parameter is a spec",
            )
        return values, problem

    def _extents(self, dims: Sequence[str], shape: Sequence[int | str]) -> dict[str, int | str]:
        """Name the extents of a program's dims.

        Raises:
            UsageError: `bad-shape` for a wrong number of extents.
        """
        if len(shape) != len(dims):
            raise UsageError(
                "bad-shape",
                f"{'x'.join(map(str, shape))} has {len(shape)} extents, and {self.reference} {len(dims)} dims",
                fix=f"give {'x'.join(d.upper() for d in dims)}",
            )
        return dict(zip(dims, shape, strict=True))

    def own(self, error: FireironError) -> FireironError:
        """Remove from an error the caller of the preset, which is the command line's own code."""
        if error.link is not None and ".py" not in self.reference:
            error.link = attrs.evolve(error.link, caller=None) if error.link.in_preset else None
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
    """Find the target that a word of a command names.

    Raises:
        UsageError: `unknown-preset`, `no-such-file`, `no-such-function`, `schedule-failed`.
    """
    if ".py" in reference:
        return _in_file(reference)
    file, _, last = reference.rpartition(".")
    if file in _files():
        for target in _presets_of(file):
            if target.reference == reference:
                return target
    found = {target.reference: target for target in presets()}
    near = [f"{name} --schedule {last}" for name, t in found.items() if name.startswith(f"{file}.") and t.offers(last)]
    # The name without its file counts too: `sgemm` is near `simt.sgemm`.
    near += [name for name in found if name.rpartition(".")[2] == reference.rpartition(".")[2]]
    near += [name for name in difflib.get_close_matches(reference, found, 3, 0.75) if not near]
    raise UsageError(
        "unknown-preset",
        f"there is no preset {reference}",
        fix=f"did you mean {' or '.join(near[:3])}?" if near else "see fireiron list, or name path/file.py:function",
    )


def presets() -> tuple[Target, ...]:
    """List all presets: the public functions of fireiron.schedules that return a schedule."""
    return tuple(target for file in _files() for target in _presets_of(file))


def searched() -> tuple[tuple[str, Callable[..., Any]], ...]:
    """List the functions among the presets that declare a search space, by name; no docstrings are read."""
    from fireiron.tune.space import space_of

    modules = [(file, import_module(f"{PRESETS}.{file}")) for file in _files()]
    found = ((f"{file}.{name}", f) for file, module in modules for name, f in _functions(module))
    return tuple((name, f) for name, f in found if space_of(f) is not None and _is_preset(f))


def _files() -> list[str]:
    """Name the public files of fireiron.schedules."""
    found = pkgutil.iter_modules(import_module(PRESETS).__path__)
    return sorted(entry.name for entry in found if not entry.name.startswith("_"))


@functools.cache
def _presets_of(file: str) -> tuple[Target, ...]:
    """List the presets of one file; reading their signatures and docstrings takes milliseconds."""
    module = import_module(f"{PRESETS}.{file}")
    own = [(name, f) for name, f in _functions(module) if _is_preset(f)]
    return tuple(_target(f"{file}.{name}", function) for name, function in (*own, *_programs(module)))


def _functions(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    """List a module's own public functions in the order of its text."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _is_preset(function: Callable[..., Any]) -> bool:
    """Say whether a function takes a spec that is no program, or none at all, and returns a schedule."""
    return _schedules(function) or _has_a_spec(function)


def _schedules(function: Callable[..., Any]) -> bool:
    return _takes_spec(function) and _gives_schedule(function) and not _takes_program(function)


def _gives_schedule(function: Callable[..., Any]) -> bool:
    """Say whether a function's annotation names a schedule as its result: `-> Schedule`, or a chain."""
    said = str(inspect.signature(function).return_annotation)
    return "Schedule" in said or "Chain" in said


def _takes_program(function: Callable[..., Any]) -> bool:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and "ProgramChain" in str(first.annotation)


def _programs(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    """List a module's programs, each with the module's functions that schedule programs; the first is the default.

    In a module without programs, a function that schedules programs is a preset for the program that it imports.
    """
    by = {name: f for name, f in _functions(module) if _takes_program(f) and _gives_schedule(f)}
    programs = [(name, value) for name, value in vars(module).items() if isinstance(value, Function)]
    own = [(name, value) for name, value in programs if value.function.__module__ == module.__name__]
    if by and not own and programs:
        return [(name, _scheduled(programs[0][1], {name: f}, module)) for name, f in by.items()]
    return [(name, _scheduled(program, by, module)) for name, program in own] if by else []


def _scheduled(program: Function, by: Mapping[str, Callable[..., Any]], module: ModuleType) -> Callable[..., Any]:
    """Make a preset of a program.

    The preset's keywords are the extents of the dims, one element type, the program's own arguments, one switch for
    each optional array, the name of the function that schedules the program, and the keywords of that function. If both
    have an argument `groups`, that of the function is called `schedule_groups`.
    """
    taken = inspect.signature(program.function).parameters
    needed = [name for name in program.dims if taken[name].default is inspect.Parameter.empty]
    spare = [name for name in program.dims if name not in needed]
    dims = dict.fromkeys(dim for name in needed for dim in program.dims[name].split())
    lines = LINES if len(dims) <= 2 else FEW_LINES
    extents = dict.fromkeys(dims, lines) | ({list(dims)[-1]: COLUMNS} if len(dims) <= MOST_WIDE else {})
    extents |= getattr(module, "EXTENTS", {}).get(program.name, {})
    arguments = [k for k in keywords(program.function, skip=0) if k.name not in program.dims and k.name not in dims]
    held = {*dims, "dtype", "arrays", "schedule", *(k.name for k in arguments)}
    known: dict[str, tuple[str, Keyword]] = {}
    for function in by.values():
        for k in keywords(function, skip=1):
            known.setdefault(f"schedule_{k.name}" if k.name in held else k.name, (k.name, k))

    out = getattr(module, "OUTS", {}).get(program.name)
    usual = getattr(module, "DTYPES", {}).get(program.name, getattr(module, "DTYPE", "f32"))

    def asked(dtype: str = usual, arrays: str | None = None, schedule: str | None = None, **values: Any) -> Asked:
        """Trace the program, and choose which function schedules it with which keywords."""
        sizes: dict[str, Any] = {dim: values.pop(dim, extent) for dim, extent in extents.items()}
        own = {k.name: values.pop(k.name) for k in arguments if k.name in values}
        named = [word for word in (arrays or "").split(",") if word]
        if wrong := [name for name in named if name not in spare]:
            listed = f"name some of {', '.join(spare)}" if spare else "leave it out"
            raise UsageError("unknown-array", f"{program.name} has no array {wrong[0]} to be left out", fix=listed)

        def traced(names: Sequence[str], integers: Sequence[str] = ()) -> Any:
            shapes = {name: [sizes[dim] for dim in program.dims[name].split()] for name in names}
            types = {name: "i32" if name in integers else dtype for name in names}
            given = {name: tensor(*shape, dtype=types[name], name=name) for name, shape in shapes.items()}
            return program(**given, **own) if out is None else program(**given, **own, out=out)

        spec, subscripts = _with_subscripts(traced, needed)
        if named:
            sizes = {**spec.residual.extents, **sizes}
            spec = traced([*needed, *named], subscripts)
        given = {known[name][0]: value for name, value in values.items() if name in known}
        chosen = schedule or next((name for name, f in by.items() if set(given) <= set(_names(f))), next(iter(by)))
        if foreign := [name for name in given if name not in _names(by[chosen])]:
            listed = ", ".join(_names(by[chosen])) or "nothing"
            raise UsageError("unknown-parameter", f"{chosen} takes no {foreign[0]}", fix=f"it takes {listed}")
        others = tuple(f for name, f in by.items() if name != chosen)
        return Asked(spec, by[chosen], given, () if schedule or given else others)

    def made(**values: Any) -> Any:
        found = asked(**values)
        try:
            return found.preset(found.spec, **found.given)
        except FireironError as error:
            if values.get("schedule") or found.given:
                raise
            best: Callable[[Any], Any] = functools.partial(best_program, arch=None)
            for take in (*found.others, best):  # gathers fold nothing, in a module of rows
                try:
                    return take(found.spec)
                except FireironError:
                    continue
            raise error from None  # the error of the first schedule in the program's own file is the most helpful

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(dim, keyword, default=n, annotation=int) for dim, n in extents.items()]
    parameters.append(inspect.Parameter("dtype", keyword, default=usual, annotation=str))
    for k in arguments:
        default = inspect.Parameter.empty if k.required else k.default
        parameters.append(inspect.Parameter(k.name, keyword, default=default, annotation=_hint(k)))
    if spare:
        parameters.append(inspect.Parameter("arrays", keyword, default=None, annotation=str))
    if len(by) > 1:
        choices: Any = Literal[tuple(by)]
        parameters.append(inspect.Parameter("schedule", keyword, default=None, annotation=choices))
    for name, (_, k) in known.items():  # schedules have defaults of their own
        default = k.default if len(by) == 1 else None
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=_hint(k)))
    made.__signature__ = inspect.Signature(parameters, return_annotation="Schedule")  # pyright: ignore
    made.__name__, made.__module__ = program.name, module.__name__
    about = [f"{name}: {k.about}" for name, (_, k) in known.items() if k.about]
    about.append("schedule: which function schedules the program; by default the first that takes it all")
    if spare:
        about.append(f"arrays: those that the program shall have of {', '.join(spare)}, parted by commas")
    made.__doc__ = "\n".join([inspect.getdoc(program.function) or "", *about])
    cast(Any, made).dims = tuple(extents)
    cast(Any, made).asked = asked
    made.__annotations__ = {p.name: p.annotation for p in parameters}
    return made


def _names(schedule: Callable[..., Any]) -> list[str]:
    """List the names of a scheduling function's keywords."""
    return list(inspect.signature(schedule).parameters)[1:]


def _with_subscripts(traced: Callable[..., Any], names: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """Trace a program; return its chain, and the names of arrays of integers that it uses as subscripts."""
    try:
        return traced(names), ()
    except FireironError as error:
        if error.code != "affine-subscript":
            raise
        for name in names:
            try:
                return traced(names, (name,)), (name,)
            except FireironError:
                continue
        raise


def _hint(keyword: Keyword) -> Any:
    """Return a Python annotation for a keyword."""
    if keyword.choices:
        return Literal[keyword.choices]
    if keyword.kind is tuple:
        element: Any = keyword.element
        return tuple[element, ...]
    return keyword.kind


def _takes_spec(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].default is not inspect.Parameter.empty:
        return False
    first = parameters[0]
    return first.name == "spec" or "MatMulChain" in str(first.annotation)


def _has_a_spec(function: Callable[..., Any]) -> bool:
    """Say whether a function makes its spec itself: all its parameters have defaults."""
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
    """Say whether an exception comes from the library: it is a defect then, and its traceback is shown."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.filename.startswith(f"{PACKAGE}{os.sep}") for frame in frames[-1:])


def _failed(reference: str, error: BaseException) -> UsageError:
    """Make an error that names the line where the user's code failed."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError):
        at = f" at {error.filename}:{error.lineno}"
    return UsageError(
        "schedule-failed", f"{reference} fails with {type(error).__name__}: {error}{at}", fix="correct the function"
    )
