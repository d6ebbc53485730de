"""What a chain computes, whatever its schedule: one record, its text, and digests of it.

All cache keys derive from these records: two programs that compute different things have different meanings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from numbers import Integral
from types import CodeType
from typing import Any, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Var, as_int, simplest
from fireiron.language.decompositions import Decomposition, Prolog
from fireiron.language.levels import Level, Memory
from fireiron.language.pointwise import Value
from fireiron.language.specs import BATCH, MatMul
from fireiron.language.steps import Program
from fireiron.language.tensor import RowMajor, Tensor

DEEPEST = 6  # nesting of functions in closures of functions
SIMULATED = "numpy"  # field with the function for the simulator: generated code does not depend on it


@attrs.frozen
class Stored:
    """Hold one output of an epilog beside C: the value, its tensor, the fold of its rows, and the links that store it.

    apart: whether later ops ignore this value, and read the value before it.
    """

    value: Value
    tensor: Tensor
    rows: str | None
    store: object
    apart: bool = False


@attrs.frozen
class Meaning:
    """Hold the completed program of a chain of one MatMul.

    Programs are the same if and only if their meanings are equal, names of tensors and bits of numbers included.

    Args:
        spec: the MatMul, without its ops.
        links: the links of the chain so far: prologs, and all others before the schedule.
        value: the expression of the accumulator that is stored to C, with ops, alpha and beta; None without ops.
        stored: the outputs that ops store beside C.
    """

    spec: MatMul
    links: tuple[Decomposition, ...] = ()
    value: Value | None = None
    stored: tuple[Stored, ...] = ()

    @property
    def product(self) -> Meaning:
        """Return the meaning without ops; prologs and other links stay."""
        return attrs.evolve(self, value=None, stored=())

    @property
    def digest(self) -> str:
        """Return a digest of everything, names of tensors too."""
        return hashed(text(self))

    @property
    def beyond(self) -> tuple[str, str]:
        """Return in words and as a digest how the program differs from a plain product; ("", "") where it does not.

        Names of tensors do not count. The words end with a digest that ignores extents, so programs with equal words
        differ only in sizes.
        """
        spec = attrs.evolve(self.spec, acc=self.spec.accumulator)
        mine = attrs.evolve(self, spec=spec)
        exact, plain = _Writer(names={}).of(mine), _Writer(names={}).of(Meaning(_dense(spec)))
        if exact == plain:
            return "", ""
        shape = _Writer(names={}, sizes=False).of(mine)
        return f"{'+'.join(_words(mine))} #{hashed(shape)[:8]}", hashed(exact)[:16]


def of_program(program: Program) -> tuple[str, str]:
    """Return a program's name with a digest that ignores extents, and a digest of everything.

    Both digests ignore the names of tensors.
    """
    shape, exact = _Writer(names={}, sizes=False).of(program), _Writer(names={}).of(program)
    return f"{program.name} #{hashed(shape)[:8]}", hashed(exact)[:16]


def _words(meaning: Meaning) -> Iterator[str]:
    spec, dense = meaning.spec, _dense(meaning.spec)
    if any(isinstance(link, Prolog) for link in meaning.links):
        yield "prolog"
    if any(not isinstance(link, Prolog) for link in meaning.links):
        yield "links"
    if meaning.value is not None:
        yield "ops"
    if meaning.stored:
        yield "save"
    if spec.groups is not None:
        yield "groups"
    if spec.swapped:
        yield "swapped"
    if (spec.A.strides, spec.B.strides, spec.C.strides) != (dense.A.strides, dense.B.strides, dense.C.strides):
        yield "strides"


def _dense(spec: MatMul) -> MatMul:
    """Return the product of dense matrices with the extents, types, orders and coefficients of a spec."""
    sizes = dict(spec.sizes)
    m, n, k, batch = sizes["M"], sizes["N"], sizes["K"], sizes.get(BATCH)

    def matrix(like: Tensor, name: str, rows: Any, cols: Any) -> Tensor:
        row = like.order is RowMajor
        strides: tuple[Any, ...] = (cols, 1) if row else (1, rows)
        shape: tuple[Any, ...] = (rows, cols)
        if batch is not None:
            shape, strides = (batch, *shape), (simplest(rows * cols), *strides)
        return Tensor(name, shape, like.dtype, strides)

    a, b, c = matrix(spec.A, "A", m, k), matrix(spec.B, "B", k, n), matrix(spec.C, "C", m, n)
    return MatMul(a, b, c, spec.alpha, spec.beta, spec.accumulator, spec.product)


def text(value: object) -> str:
    """Write a record, or plain data, as text; records with equal texts give the same kernel.

    Symbols are written with their ranges, functions with their code and closure, numbers bit by bit. Source locations
    of links and NumPy functions of the simulator are left out.

    Example:
        >>> text((1, 1.0, True, "a"))
        "(1,0x1.0000000000000p+0,True,'a',)"
    """
    return _Writer().of(value)


def hashed(written: str) -> str:
    """Digest a text."""
    import hashlib  # takes a twentieth of the import of all the rest

    return hashlib.sha256(written.encode()).hexdigest()


class _Writer:
    """Write records as text.

    Args:
        names: by name, the number that is written instead of a tensor's name; None where names are written.
        sizes: whether extents and strides of tensors are written.
    """

    def __init__(self, names: dict[str, int] | None = None, sizes: bool = True) -> None:
        self._names = names
        self._sizes = sizes

    def of(self, value: object, depth: int = 0) -> str:
        kind = type(value)
        if kind in _LEAVES:
            return _leaf(value)
        match value:
            case None | bool() | str() | bytes():
                return repr(value)
            case Integral():
                return str(int(value))
            case float():
                return value.hex()
            case tuple() | list():
                each = cast("tuple[object, ...]", value)
                return f"({''.join(f'{self.of(x, depth)},' for x in each)})"
            case dict():
                pairs = cast("dict[object, object]", value).items()
                return f"{{{''.join(f'{self.of(k, depth)}:{self.of(v, depth)},' for k, v in pairs)}}}"
            case Tensor() if self._names is not None:
                return self._tensor(value, self._names)
            case Expr() if (number := as_int(value)) is not None:
                return str(number)
            case _ if attrs.has(kind):
                return f"{kind.__name__}({''.join(f'{self._field(value, name, depth)},' for name in _fields(kind))})"
            case _ if callable(value):
                return _function(value, self, depth)
            case _:
                return f"{kind.__module__}.{kind.__qualname__}:{value!r}"

    def _field(self, record: object, name: str, depth: int) -> str:
        value: object = getattr(record, name)
        if name == "permute" and callable(value):  # a permutation is written as its expression of a unit's id
            return self.of(cast("Callable[[Expr], Expr]", value)(Var("id", None)), depth)
        return self.of(value, depth)

    def _tensor(self, tensor: Tensor, names: dict[str, int]) -> str:
        number = names.setdefault(tensor.name, len(names))
        steps = list(tensor.strides)
        for i, extent in enumerate(tensor.shape):
            if as_int(extent) == 1:  # its stride is never used
                steps[i] = 0
        where = f"t{number}:{tensor.dtype}:{tensor.memory}"
        if self._sizes:
            return f"{where}:{self.of(tensor.shape)}:{self.of(tuple(steps))}"
        extents = ["1" if as_int(extent) == 1 else "n" for extent in tensor.shape]
        strides = [str(step) if as_int(step) in (0, 1) else "d" if step in tensor.shape else "s" for step in steps]
        return f"{where}:{','.join(extents)}:{','.join(strides)}"


_LEAVES = frozenset({DType, Level, Memory})


@lru_cache(maxsize=1024)
def _leaf(value: Any) -> str:
    """Write a record that is part of many others (a dtype, a level, ...): all fields except a level's parent."""
    kind = cast("type[Any]", type(value))
    if kind not in _LEAVES:
        return repr(value)
    fields = (f.name for f in attrs.fields(kind) if f.name != "parent")
    return f"{kind.__name__}({', '.join(f'{name}={_leaf(getattr(value, name))}' for name in fields)})"


@lru_cache(maxsize=256)
def _fields(kind: type[Any]) -> tuple[str, ...]:
    """List the fields that decide a record's meaning: all except source locations and functions of the simulator."""
    skipped = {SIMULATED, "ops"} if issubclass(kind, MatMul) else {SIMULATED}  # ops: written as the value they return
    found = attrs.fields(kind)
    return tuple(field.name for field in found if field.eq and field.name not in skipped)


def _function(value: Any, writer: _Writer, depth: int) -> str:
    """Write a function as its name, code, defaults and closure; globals that it reads are left out."""
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    code = getattr(value, "__code__", None)
    if code is None or depth > DEEPEST:
        inner = getattr(value, "func", None)  # functools.partial
        if inner is None or depth > DEEPEST:
            return name
        return f"{name}({writer.of((inner, value.args, sorted(value.keywords.items())), depth + 1)})"
    cells = (cell.cell_contents for cell in value.__closure__ or () if _filled(cell))
    named: dict[str, object] = value.__kwdefaults__ or {}
    held: tuple[object, ...] = (*cells, *(value.__defaults__ or ()), *sorted(named.items()))
    return f"{name}#{_code(code)}{writer.of(held, depth + 1)}"


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def _code(code: CodeType) -> str:
    constants = [_code(x) if isinstance(x, CodeType) else repr(x) for x in code.co_consts]
    return hashed(f"{code.co_code.hex()} {constants} {code.co_names}")[:12]
