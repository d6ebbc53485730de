"""Keys of functions: a key holds a function's code and all values that the code reads from outside."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.base.contract import unchecked

MOST_CODES = 4096
DEEPEST = 8  # most nested calls that a key follows, which ends recursion

# Functions of Python that give the same for the same arguments.
_PURE = frozenset({abs, all, any, divmod, isinstance, len, max, min, pow, round, sorted, sum})
_PURE_TYPES = frozenset({bool, dict, enumerate, float, int, list, map, range, reversed, set, str, tuple, zip})
# Instructions that read or write what following names does not find.
_OPAQUE = frozenset({
    "DELETE_ATTR", "DELETE_DEREF", "DELETE_GLOBAL", "DELETE_SUBSCR", "IMPORT_NAME", "LOAD_BUILD_CLASS", "LOAD_NAME",
    "STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR",
})  # fmt: skip
_MISSING = object()


class _UnknownError(Exception):
    """Report a value that may change without notice, so that there is no key."""


def fingerprint(value: object) -> object:
    """Return a key of a function or value: equal keys mean equal behaviour. None where no such key exists.

    The key of a function holds its code object, its defaults, and the current values of its closure and of the globals
    that it reads, including functions and attributes of modules. Functions of this library count as constants. The key
    is None for values that can change without notice (lists, most objects) and for code that reads such values.

    Example:
        >>> make = lambda factor: lambda acc: acc * factor
        >>> fingerprint(make(2.0)) == fingerprint(make(2.0)), fingerprint(make(2.0)) == fingerprint(make(3.0))
        (True, False)
        >>> fingerprint(make([2.0])) is None
        True
    """
    try:
        return _of(value, 0)
    except _UnknownError:
        return None


@attrs.frozen(eq=False)
class _Reads:
    """Hold the names that a piece of code reads. The record's identity is a key of the code.

    Args:
        code: the code object, kept so that its address is not used again.
        paths: each a global or builtin name with the attributes that are read from it. Example: ("np", "float32").
        opaque: whether the code may read values that `paths` does not have.
    """

    code: CodeType
    paths: tuple[tuple[str, tuple[str, ...]], ...]
    opaque: bool


_reads: dict[int, _Reads] = {}


def _read(code: CodeType) -> _Reads:
    paths: dict[tuple[str, tuple[str, ...]], None] = {}
    opaque = False
    for one in _nested(code):
        path: list[str] = []
        for instruction in dis.get_instructions(one):
            name = str(instruction.argval)
            opaque |= instruction.opname in _OPAQUE
            opaque |= instruction.opname == "STORE_DEREF" and name in one.co_freevars
            if path and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                path.append(name)
                continue
            if path:
                paths[path[0], tuple(path[1:])] = None
            path = [name] if instruction.opname == "LOAD_GLOBAL" else []
    return _Reads(code, tuple(paths), opaque)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _of(value: object, depth: int) -> object:
    kind = type(value)
    make = _KINDS.get(kind)
    if make is not None:
        return make(value, depth)
    if isinstance(value, type) and (value in _PURE_TYPES or _is_ours(value)):
        return value
    if attrs.has(kind) and _is_ours(kind) and kind.__setattr__ is not object.__setattr__:  # a frozen record
        if kind.__eq__ is object.__eq__:
            return value
        return (kind, *[_of(getattr(value, field.name), depth) for field in attrs.fields(kind) if field.eq])
    raise _UnknownError


def _is_ours(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] == "fireiron"


def _plain(value: object, depth: int) -> object:
    return type(value), value  # 1, 1.0 and True are equal


def _float(value: Any, depth: int) -> object:
    return float, value.hex()  # 0.0 and -0.0 are equal


def _tuple(value: Any, depth: int) -> object:
    return (tuple, *[_of(x, depth) for x in value])


def _constant(value: object, depth: int) -> object:
    return value


def _builtin(value: Any, depth: int) -> object:
    if value in _PURE or value.__module__ == "math":
        return value
    raise _UnknownError


def _partial(value: Any, depth: int) -> object:
    if value.__dict__:
        raise _UnknownError
    keywords = [(name, _of(x, depth)) for name, x in value.keywords.items()]
    return (partial, _of(value.func, depth), _tuple(value.args, depth), *keywords)


def _module(value: Any, depth: int) -> object:
    if value.__name__.partition(".")[0] == "fireiron":
        return value
    raise _UnknownError  # whoever is given it may read anything of it


def _function(value: Any, depth: int) -> object:
    value = unchecked(value)
    cells: tuple[CellType, ...] | None = value.__closure__
    ours = str(value.__globals__.get("__name__")).partition(".")[0] == "fireiron"  # wraps() copies __module__
    if ours and not cells:
        return value
    code = value.__code__
    reads = _reads.get(id(code))
    if reads is None:
        if len(_reads) >= MOST_CODES:
            _reads.clear()
        reads = _reads[id(code)] = _read(code)
    if depth > DEEPEST or reads.opaque or value.__dict__:
        raise _UnknownError
    depth += 1
    found: list[object] = [reads]
    if cells:
        try:
            found += [_of(cell.cell_contents, depth) for cell in cells]
        except ValueError:  # an empty cell
            raise _UnknownError from None
    if value.__defaults__:
        found += [_of(x, depth) for x in value.__defaults__]
    if value.__kwdefaults__:
        found += [(name, _of(x, depth)) for name, x in value.__kwdefaults__.items()]
    if not ours:
        for name, rest in reads.paths:
            held = value.__globals__.get(name, _MISSING)
            if held is _MISSING:
                held = value.__builtins__.get(name, _MISSING)
            found.append(_of(_followed(held, rest) if rest else held, depth))
    return tuple(found)


def _followed(held: Any, rest: tuple[str, ...]) -> object:
    """Read attributes one after another while the value is a module; the key of another value covers its attributes."""
    for name in rest:
        if type(held) is not ModuleType:
            break
        held = vars(held).get(name, _MISSING)
    return held


_KINDS: dict[type, Callable[[Any, int], object]] = {
    int: _plain,
    bool: _plain,
    str: _plain,
    bytes: _plain,
    type(None): _plain,
    float: _float,
    tuple: _tuple,
    BuiltinFunctionType: _builtin,
    partial: _partial,
    ModuleType: _module,
    FunctionType: _function,
    DType: _constant,
}
