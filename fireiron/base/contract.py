"""Check the arguments of calls against the functions' annotations; values of another kind raise a coded error.

In notebooks no type checker reads the annotations. Whole numbers of any library are accepted and become Python's, so
that the library's own arithmetic never overflows.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any, ForwardRef, Literal, ParamSpec, TypeAlias, TypeVar, cast

import attrs

from fireiron.base.errors import FireironError, SpecError
from fireiron.base.later import Later
from fireiron.base.link import here
from fireiron.base.text import count

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

CODE = "argument-kind"
MOST_SHOWN = 80  # characters of a value in a message
_UNFIT: Any = object()
_STRATEGY = "a function from a Move to a finished Move: vector(16), cp_async(16), or one of yours"

# What a kind is called, and what to write: by an annotation's text, else by the names of the classes in it.
_SAID: Mapping[str, tuple[str, str]] = {
    "int": ("a number", "a whole number"),
    "float": ("a number", "a number"),
    "bool": ("a switch", "True or False"),
    "str": ("a text", "a text in quotes"),
    "Expr": ("an index expression", "an expression of sizes"),
    "Index": ("a number", "a whole number, or a symbol"),
    "Level": ("a level", "Block, Warp, Thread or another of fireiron's levels, without quotes"),
    "Level | Nested": ("a level", "Block, Warp, Thread or another of fireiron's levels, without quotes"),
    "Nested": ("a thread tensor", "threads(Warp), tiled and reshaped"),
    "Memory": ("a memory", "SH, FR or RF, without quotes"),
    "TileOrder": ("an order", "RowMajor, ColMajor, Grouped(8), Hilbert(), Serpentine() or a Layout"),
    "Order": ("an order", "RowMajor or ColMajor, without quotes"),
    "Order | Layout": ("a storage", "RowMajor, ColMajor or a Layout, without quotes"),
    "Swizzle": ("a swizzle", "Swizzle(bits, base, shift), for example Swizzle(3, 3, 3)"),
    "Layout": ("a layout", "Layout(shape, stride)"),
    "Tensor": ("a tensor", 'the tensor itself: Matrix(64, 64, name="X")'),
    "Strategy": ("a strategy", _STRATEGY),
    "Op": ("an op", "a function of the accumulator: relu, add(bias), lambda x: x * 2"),
    "Reduction": ("a reduction", "in_order(), by_atomics(), by_tma() or by_cluster()"),
    "StreamK | Drawn": ("a way to share", "stream_k() or drawn()"),
    "Role | Tensor | str": ("an operand", "A or B, a tensor, or a tensor's name"),
    "Atom | Microkernel | str": ("an atom", "an instruction's name, or microkernel(source, numpy)"),
    "MatMulChain": ("a product", "what matmul(M, N, K) gives"),
    "ProductsChain": ("products", "what products(...) gives"),
    "LayersChain": ("layers", "what layers(...) gives"),
    "ProgramChain": ("a program", "what a function under @program gives"),
    "MoveChain": ("a Move", "what Move(src, dst) gives"),
    "Schedule": ("a schedule", "a schedule, closed by .done()"),
    "Value": ("an expression", "an expression of the accumulator"),
    "Plan": ("a plan", "Plan(m=128, n=256)"),
}


@attrs.frozen
class Kind:
    """Describe the values that a parameter accepts.

    Args:
        said: name of such a value in messages. Example: "a number".
        fix: what to write, for the fix of an error.
        exact: types whose values are accepted unchanged, without a call of `read`.
        read: converts a value to the one to pass on; returns `_UNFIT` for a value that does not fit.
        counts: whether values are whole numbers, or tuples of them.
    """

    said: str
    fix: str
    exact: frozenset[type]
    read: Callable[[Any], Any]
    counts: bool = False


def whole(value: object) -> int | None:
    """Convert a whole number of any library to Python's; None for other values, True and False among them.

    Example:
        >>> import numpy as np
        >>> whole(np.int64(8)), whole(8), whole(8.0), whole(True), whole("8")
        (8, 8, None, None, None)
    """
    if isinstance(value, bool | str):
        return None
    try:
        return operator.index(cast(Any, value))
    except Exception:  # whatever a foreign object's __index__ raises
        return None


def number(value: object) -> int | float | None:
    """Convert a real number of any library to Python's; None for other values."""
    found = whole(value)
    if found is not None:
        return found
    if isinstance(value, float):
        return float(value)
    real = isinstance(value, Number) and hasattr(value, "dtype") and hasattr(value, "__float__")
    if not real or type(value).__name__.startswith(("complex", "bool")):
        return None
    return float(cast(Any, value))


def shown(value: object) -> str:
    """Write any value as a short text for a message."""
    try:
        ours = type(value).__module__.startswith("fireiron.")
        text = str(value) if ours else repr(value)
    except Exception:  # a foreign object that cannot be written
        text = f"a {type(value).__name__}"
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def refused(
    method: str, kind: tuple[str, str], value: object, family: type[FireironError] = SpecError
) -> FireironError:
    """Make the error for a value of a kind that a call does not take, at the user's line."""
    return family(CODE, f"{method} takes {kind[0]}, not {shown(value)}", fix=f"give {kind[1]}", link=here())


def checked(
    function: Callable[P, R],
    *,
    family: type[FireironError] = SpecError,
    where: Callable[[Any], str] | None = None,
    leave: Set[str] = frozenset(),
    least: bool = False,
    name: str = "",
    locate: bool = False,
) -> Callable[P, R]:
    """Wrap a function: each call checks the arguments against the function's annotations.

    Args:
        function: the function; parameters without annotation are not checked.
        family: the errors to raise.
        where: for methods: maps the object to the path in the tree, for errors.
        leave: parameters that the function checks itself; here, only whole numbers of other libraries are converted.
        least: whether whole numbers below 1 are refused; below 0, for `pad` and for parameters whose default is 0.
        name: the function's name in errors; empty for its Python name.
        locate: whether errors of the function that have no link get one to the user's line.

    Raises:
        FireironError: in calls of the result: `argument-kind`; `call-arguments` where arguments are missing, too many
            or of names that no parameter has.

    Example:
        >>> def twice(size: int) -> int:
        ...     return 2 * size
        >>> checked(twice)("4")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        fireiron.base.errors.SpecError: SpecError[argument-kind]: twice takes a number, not '4'
        ...
        fix: give a whole number
    """
    name = name or function.__name__
    kinds: list[tuple[str, Kind | None]] = []
    rest: list[Kind | None] = []
    by_name: dict[str, Kind | None] = {}
    others: list[Kind | None] = []

    def plan() -> None:
        made = tuple(_planned(function, leave, least))
        kinds.extend((n, k) for n, how, k in made if how in ("positional", "either"))
        rest.extend(k for _, how, k in made if how == "rest")
        by_name.update((n, k) for n, how, k in made if how in ("either", "named"))
        others.extend(k for _, how, k in made if how == "others")

    def fail(argument: str, kind: Kind, value: object, args: tuple[Any, ...]) -> FireironError:
        alike = [k for _, k in kinds if k is not None and k.said == kind.said]
        first = next((n for n, k in kinds if k is not None), "")
        words = name if argument in ("", first) or (len(alike) == 1 and argument in dict(kinds)) else f"{argument}="
        error = refused(words, (kind.said, kind.fix), value, family)
        return error if where is None else error.located(path=where(args[0]))

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        if not kinds and not by_name:
            plan()
        changed: list[Any] | None = None
        further = len(args) - len(kinds)
        planned = kinds if further <= 0 else [*kinds, *[("", rest[0] if rest else None)] * further]
        for i, (value, (argument, kind)) in enumerate(zip(args, planned, strict=False)):
            if kind is None or type(value) in kind.exact:
                continue
            found = kind.read(value)
            if found is _UNFIT:
                raise fail(argument, kind, value, args) from None
            if found is not value:
                changed = changed or list(args)
                changed[i] = found
        for argument, value in named.items():
            kind = by_name[argument] if argument in by_name else others[0] if others else None
            if kind is None or type(value) in kind.exact:
                continue
            found = kind.read(value)
            if found is _UNFIT:
                raise fail(argument, kind, value, args) from None
            named[argument] = found
        try:
            return function(*(args if changed is None else changed), **named)  # pyright: ignore[reportCallIssue]
        except FireironError as error:
            if error.link is not None or not locate:
                raise
            raise error.located(here()) from None
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised inside the function
                raise
            unbound = _unbound(name, function, args, named, family)
            if unbound is None:
                raise
            raise (unbound if where is None else unbound.located(path=where(args[0]))) from None

    return call


def _unbound(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    family: type[FireironError],
) -> FireironError | None:
    """Make the error of a call whose arguments do not match the function's parameters; None where they match."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        own = [p for p in signature.parameters.values() if p.name not in ("self", "cls", "chain")]
        plain = signature.replace(
            parameters=[p.replace(annotation=p.empty) for p in own], return_annotation=signature.empty
        )
        return family("call-arguments", f"{name}: {error}", fix=f"call {name}{plain}", link=here())
    return None


def asked(function: Callable[..., Any], *args: Any, said: str) -> Any:
    """Call a user's function; raise a coded error if its parameters do not match the arguments.

    Args:
        function: the user's function.
        args: arguments of the call.
        said: the purpose of the function, for messages. Example: "an op".

    Raises:
        SpecError: `function-arguments`. Errors that the function itself raises are not changed.
    """
    try:
        return function(*args)
    except TypeError as error:
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:  # raised inside the function
            raise
        name = getattr(function, "__name__", shown(function))
        raise SpecError(
            "function-arguments",
            f"{said} {name} cannot be called with {count(len(args), 'value')}: {error}",
            fix=f"give a function of {count(len(args), 'argument')}",
            link=here(),
        ) from None


def held(function: Callable[..., Any], given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Check some arguments of a function against its annotations; arguments without annotation are not checked.

    Args:
        function: the user's function.
        given: arguments by the parameters' names.
        name: the function's name in errors.

    Raises:
        SpecError: `argument-kind`.
    """
    plain = hasattr(inspect.unwrap(function), "__code__")
    planned = _planned(function, frozenset(), False) if plain else ()
    kinds = {argument: kind for argument, how, kind in planned if how not in ("rest", "others")}
    found: dict[str, Any] = {}
    for argument, value in given.items():
        kind = kinds.get(argument)
        read = value if kind is None or type(value) in kind.exact else kind.read(value)
        if kind is not None and read is _UNFIT:
            raise refused(f"{argument}= of {name}", (kind.said, kind.fix), value)
        found[argument] = read
    return found


def unchecked(function: Any) -> Any:
    """Return the function that `checked` wraps; any other function is returned unchanged."""
    return function.__wrapped__ if function.__globals__ is globals() and hasattr(function, "__wrapped__") else function


def checks(*leave: str, least: bool = False, locate: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make the decorator `checked` with options; `leave` names parameters that the function checks itself."""
    return lambda function: checked(function, leave=frozenset(leave), least=least, locate=locate)


def checked_methods(
    kind: type,
    family: type[FireironError],
    where: Callable[[Any], str],
    leave: Set[str] = frozenset(),
    skip: Set[str] = frozenset(),
) -> None:
    """Wrap the public methods that a class defines by `checked`, except those named in `skip`.

    The methods check their `*args` themselves, with more specific errors.
    """
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__call__") and name not in skip:
            setattr(kind, name, checked(method, family=family, where=where, leave={*rest_of(method), *leave}))


def rest_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the name of a function's `*args` parameter in a tuple; () without such a parameter."""
    code = function.__code__
    places = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[places : places + 1] if code.co_flags & inspect.CO_VARARGS else ()


def checked_fields(kind: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Give each field of a record a converter that checks values against its annotation, as a `field_transformer`."""
    found: list[attrs.Attribute[Any]] = []
    for field in fields:
        converter: Any = getattr(field, "converter", None)
        made = converter or _converter(kind, field.name, str(field.type))
        found.append(field.evolve(converter=made))
    return found


def _converter(owner: type, name: str, annotation: str) -> Callable[[Any], Any]:
    found: list[Kind | None] = []
    exact: frozenset[type] = frozenset()

    def convert(value: Any) -> Any:
        nonlocal exact
        if type(value) in exact:
            return value
        if not found:
            found.append(_kind(_named_types(annotation, vars(sys.modules[owner.__module__])), annotation))
            exact = frozenset() if found[0] is None else found[0].exact
        kind = found[0]
        if kind is None:
            return value
        read = kind.read(value)
        if read is _UNFIT:
            raise refused(f"{name}= of {owner.__name__}", (kind.said, kind.fix), value)
        return read

    return convert


How: TypeAlias = Literal["positional", "either", "named", "rest", "others"]


def _planned(function: Callable[..., Any], leave: Set[str], least: bool) -> Iterator[tuple[str, How, Kind | None]]:
    """Give each parameter's name, how it is passed, and its kind."""
    inner = inspect.unwrap(function)
    generated = inner.__code__.co_filename.startswith("<attrs")  # a record's __init__ has globals of its own
    names = vars(sys.modules[inner.__module__]) if generated else inner.__globals__
    for i, parameter in enumerate(inspect.signature(function).parameters.values()):
        how = _HOW.get(parameter.kind)
        if how is None:
            continue
        text = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
        own = i == 0 and parameter.name in ("self", "cls")
        kind = _kind(_named_types(text, names), text) if text and not own else None
        if kind is not None and parameter.name in leave:
            kind = attrs.evolve(kind, read=_lenient(kind.read))
        elif kind is not None and least and kind.counts:
            kind = _counting(kind, 0 if parameter.default == 0 or parameter.name in _FROM_ZERO else 1)
        yield parameter.name, how, kind


_FROM_ZERO = frozenset({"pad"})  # parameters of presets of which 0 means none, whatever their default
_HOW: Mapping[Any, How] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "named",
    inspect.Parameter.VAR_POSITIONAL: "rest",
    inspect.Parameter.VAR_KEYWORD: "others",
}


def _lenient(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def reading(value: Any) -> Any:
        found = read(value)
        return value if found is _UNFIT else found

    return reading


def _counting(kind: Kind, least: int) -> Kind:
    def reading(value: Any) -> Any:
        found = kind.read(value)
        inside = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
        return _UNFIT if any(type(x) is int and x < least for x in inside) else cast(Any, found)

    return attrs.evolve(kind, exact=kind.exact - {int}, read=reading, fix=f"{kind.fix} from {least} on")


class _Names(dict[str, Any]):
    """Look up names of annotations; names that exist only under TYPE_CHECKING stand for any type."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, name: str) -> Any:
        found = self._known.get(name, _UNFIT)
        if isinstance(found, Later):
            return found.load()
        return getattr(builtins, name, Any) if found is _UNFIT else found


def _named_types(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an annotation of fireiron's own source."""
    try:
        return eval(text, {"__builtins__": {}}, _Names(names))
    except Exception:  # an annotation that only a type checker can read
        return Any


def _kind(annotation: Any, text: str = "") -> Kind | None:
    """Return the kind that an annotation describes; None where every value is accepted."""
    said = _SAID.get(text.strip("'\"").removesuffix(" | None"))
    found = _read(annotation)
    if found is None or said is None:
        return found
    return attrs.evolve(found, said=said[0], fix=said[1])


def _read(annotation: Any) -> Kind | None:
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is types.NoneType:
        return Kind("None", "None", frozenset({types.NoneType}), lambda x: x if x is None else _UNFIT)
    if origin in (typing.Union, types.UnionType):
        return _union(inside)
    if origin is Literal:
        listed = " or ".join(map(repr, inside))

        def choose(value: Any) -> Any:
            return value if type(value) in (str, int, bool) and value in inside else _UNFIT

        return Kind("one of a few words", listed, frozenset(), choose)
    if annotation in _PLAIN:
        return _PLAIN[annotation]()
    if origin is tuple:
        return _tuple(inside)
    if origin in (Sequence, list):
        return _sequence(inside[0])
    if origin is Callable or annotation is Callable:
        return Kind("a function", "a function", frozenset({types.FunctionType}), lambda x: x if callable(x) else _UNFIT)
    kind = origin or annotation
    if not isinstance(kind, type) or kind in (object, Any) or getattr(kind, "_is_protocol", False):
        return None
    fits = getattr(kind, "__fits__", None)
    if inside and fits is not None:  # a class that says which of its objects one of its generic aliases takes
        named = f"{getattr(inside[0], '__name__', '')}Chain"
        words = _SAID.get(named, (f"a {kind.__name__}", f"a {kind.__name__}"))
        return Kind(*words, frozenset(), lambda x: x if fits(x, inside) else _UNFIT)
    words = _SAID.get(kind.__name__, (f"a {kind.__name__}", f"a {kind.__name__}"))
    return Kind(*words, frozenset({kind}), lambda x: x if isinstance(x, kind) else _UNFIT)


def _bool() -> Kind:
    def read(value: Any) -> Any:
        return bool(value) if type(value).__name__ in ("bool", "bool_") else _UNFIT

    return Kind(*_SAID["bool"], frozenset({bool}), read)


def _int() -> Kind:
    def read(value: Any) -> Any:
        found = whole(value)
        return _UNFIT if found is None else found

    return Kind(*_SAID["int"], frozenset({int}), read, counts=True)


def _float() -> Kind:
    def read(value: Any) -> Any:
        found = number(value)
        return _UNFIT if found is None or (isinstance(found, int) and abs(found) >= 2**1023) else found

    return Kind(*_SAID["float"], frozenset({float}), read)


def _str() -> Kind:
    return Kind(*_SAID["str"], frozenset({str}), lambda x: str(x) if isinstance(x, str) else _UNFIT)


_PLAIN: Mapping[Any, Callable[[], Kind]] = {bool: _bool, int: _int, float: _float, str: _str}


def _union(inside: tuple[Any, ...]) -> Kind | None:
    kinds = [_read(one) for one in inside if not isinstance(one, str | ForwardRef)]
    if None in kinds or len(kinds) < len(inside):
        return None
    found = [kind for kind in kinds if kind is not None]

    def read(value: Any) -> Any:
        for kind in found:
            read = value if type(value) in kind.exact else kind.read(value)
            if read is not _UNFIT:
                return read
        return _UNFIT

    named = [kind for kind in found if kind.said != "None"]
    said = " or ".join(dict.fromkeys(kind.said for kind in named))
    fix = ", or ".join(dict.fromkeys(kind.fix for kind in named))
    counts = any(kind.counts for kind in found)
    return Kind(said, fix, frozenset(one for kind in found for one in kind.exact), read, counts)


def _tuple(inside: tuple[Any, ...]) -> Kind:
    if len(inside) == 2 and inside[1] is Ellipsis:
        return _sequence(inside[0])
    kinds = [_read(one) for one in inside]
    words = ", ".join("anything" if kind is None else kind.said for kind in kinds)
    numbers = all(kind is not None and kind.said == _SAID["int"][0] for kind in kinds)
    said = f"a tuple of {len(kinds)} numbers" if numbers else f"a tuple ({words})"

    def read(value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(cast("Sequence[Any]", value)) != len(kinds):
            return _UNFIT
        return _each(cast("Sequence[Any]", value), kinds)

    return Kind(said, said, frozenset(), read, counts=numbers)


def _sequence(inside: Any) -> Kind:
    kind = _read(inside)
    words = "values" if kind is None else f"{kind.said} each"

    def read(value: Any) -> Any:
        if not isinstance(value, tuple | list):
            return _UNFIT
        items = cast("Sequence[Any]", value)
        return _each(items, [kind] * len(items))

    return Kind(f"a tuple ({words})", f"a tuple ({words})", frozenset(), read, counts=kind is not None and kind.counts)


def _each(values: Sequence[Any], kinds: Sequence[Kind | None]) -> Any:
    if isinstance(values, tuple):
        for value, kind in zip(values, kinds, strict=True):
            if kind is not None and type(value) not in kind.exact:
                break
        else:
            return values
    found = tuple(
        value if kind is None or type(value) in kind.exact else kind.read(value)
        for value, kind in zip(values, kinds, strict=True)
    )
    if any(x is _UNFIT for x in found):
        return _UNFIT
    return values if isinstance(values, tuple) and all(x is y for x, y in zip(found, values, strict=True)) else found
