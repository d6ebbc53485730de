"""Define the nodes of index expressions: mathematical integers over loop variables and run-time sizes.

Make nodes by operators and functions (`+`, `lt`, `select`, ...), which return canonical forms; the classes themselves
do not. Sums and products keep the order in which their operands first appeared, but equality ignores it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from operator import index
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Interval: TypeAlias = "tuple[int | None, int | None]"
Term: TypeAlias = "tuple[Expr, int]"


PLANNED = 4096  # planned size of a symbol without a typical size; `check` notes it


class Expr:
    """An integer expression. `lt`, `eq`, ... compare values; `==` compares the expressions themselves."""

    __slots__ = ("_divisor", "_hash", "_range", "give", "leaves")
    _divisor: int
    _hash: int
    _range: Interval
    leaves: frozenset[Var | Symbol]  # variables and symbols, once `free` has found them
    give: Callable[[Mapping[str, Any]], Any]  # the function of the leaves' values, once `evaluate` has made it

    @property
    def planned(self) -> int:
        """Return the size that presets choose tiles and plans for, if this is an extent known only at the launch."""
        return PLANNED

    def _key(self) -> Hashable:
        raise NotImplementedError

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash((type(self), self._key()))
            object.__setattr__(self, "_hash", found)
            return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or not isinstance(other, Expr):
            return False
        try:
            same = self._hash == other._hash
        except AttributeError:  # one of the hashes is not cached yet
            same = hash(self) == hash(other)
        return same and self._key() == other._key()

    def __bool__(self) -> bool:
        if isinstance(self, Const):
            return self.value != 0
        raise TypeError(f"the truth of `{self}` is not known here; ask `proves(...)`, or branch with `select`")

    @property
    def range(self) -> Interval:
        """Return the smallest and the largest value, None where unbounded."""
        try:
            return self._range
        except AttributeError:
            found = _ranges.interval(self)
            object.__setattr__(self, "_range", found)
            return found

    @property
    def divisor(self) -> int:
        """Return the greatest integer known to divide every value; 0 for the constant 0."""
        try:
            return self._divisor
        except AttributeError:
            found = _ranges.divisor(self)
            object.__setattr__(self, "_divisor", found)
            return found

    def __add__(self, other: Index) -> Expr:
        return _sums.plus(self, other) if type(other) is int else _sums.add(self, as_expr(other))

    def __radd__(self, other: Index) -> Expr:
        return _sums.add(as_expr(other), self)

    def __sub__(self, other: Index) -> Expr:
        return _sums.subtract(self, as_expr(other))

    def __rsub__(self, other: Index) -> Expr:
        return _sums.subtract(as_expr(other), self)

    def __mul__(self, other: Index) -> Expr:
        return _sums.scale(self, other) if type(other) is int else _sums.multiply(self, as_expr(other))

    def __rmul__(self, other: Index) -> Expr:
        return _sums.multiply(as_expr(other), self)

    def __neg__(self) -> Expr:
        return _sums.scale(self, -1)

    def __floordiv__(self, other: Index) -> Expr:
        return _division.floordiv(self, as_expr(other))

    def __rfloordiv__(self, other: Index) -> Expr:
        return _division.floordiv(as_expr(other), self)

    def __mod__(self, other: Index) -> Expr:
        return _division.modulo(self, as_expr(other))

    def __rmod__(self, other: Index) -> Expr:
        return _division.modulo(as_expr(other), self)

    def __and__(self, other: Index) -> Expr:
        return _bits.bit_and(self, as_expr(other))

    def __rand__(self, other: Index) -> Expr:
        return _bits.bit_and(as_expr(other), self)

    def __or__(self, other: Index) -> Expr:
        return _bits.bit_or(self, as_expr(other))

    def __ror__(self, other: Index) -> Expr:
        return _bits.bit_or(as_expr(other), self)

    def __xor__(self, other: Index) -> Expr:
        return _bits.bit_xor(self, as_expr(other))

    def __rxor__(self, other: Index) -> Expr:
        return _bits.bit_xor(as_expr(other), self)

    def __lshift__(self, other: Index) -> Expr:
        return _bits.shift_left(self, as_expr(other))

    def __rlshift__(self, other: Index) -> Expr:
        return _bits.shift_left(as_expr(other), self)

    def __rshift__(self, other: Index) -> Expr:
        return _bits.shift_right(self, as_expr(other))

    def __rrshift__(self, other: Index) -> Expr:
        return _bits.shift_right(as_expr(other), self)

    def __str__(self) -> str:
        from fireiron.algebra.index.printing import to_c

        return to_c(self)

    def __repr__(self) -> str:
        return f"<{self}>"


Index: TypeAlias = int | Expr


@attrs.frozen(eq=False, repr=False)
class Const(Expr):
    """A known integer."""

    value: int

    def _key(self) -> Hashable:
        return self.value


def _optional_expr(value: Index | None) -> Expr | None:
    return None if value is None else as_expr(value)


@attrs.frozen(eq=False, repr=False)
class Var(Expr):
    """A variable with `lower <= value < extent`: a loop counter, a thread, a block; an extent of None is unbounded."""

    name: str
    extent: Expr | None = attrs.field(converter=_optional_expr, default=None)
    lower: int = 0

    def _key(self) -> Hashable:
        return (self.name, self.extent, self.lower)


@attrs.frozen(eq=False, repr=False)
class Symbol(Expr):
    """A run-time size (a kernel parameter), a multiple of `multiple_of` between `minimum` and `maximum`.

    `typical` is the size that estimates and presets assume.
    """

    name: str
    multiple_of: int = 1
    minimum: int = 1
    maximum: int = 2**30
    typical: int | None = attrs.field(default=None, eq=False)

    @property
    def planned(self) -> int:
        """Return the typical size, else PLANNED, limited to the range."""
        return min(max(PLANNED, self.minimum), self.maximum) if self.typical is None else self.typical

    def _key(self) -> Hashable:
        return (self.name, self.multiple_of, self.minimum, self.maximum, self.typical)


@attrs.frozen(eq=False, repr=False)
class Sum(Expr):
    """The sum over `terms` of coefficient * monomial, plus a constant; monomials are neither sums nor constants."""

    terms: tuple[Term, ...]
    constant: int

    def _key(self) -> Hashable:
        return (frozenset(self.terms), self.constant)


@attrs.frozen(eq=False, repr=False)
class Product(Expr):
    """The product of two or more factors, none a sum, a product or a constant."""

    factors: tuple[Expr, ...]

    def _key(self) -> Hashable:
        return frozenset(Counter(self.factors).items())


@attrs.frozen(eq=False, repr=False)
class FloorDiv(Expr):
    """The quotient rounded down; `exact` where the divisor is a constant known to divide the numerator."""

    numerator: Expr
    denominator: Expr
    exact: bool = False

    def _key(self) -> Hashable:
        return (self.numerator, self.denominator)


@attrs.frozen(eq=False, repr=False)
class Mod(Expr):
    """The remainder of the quotient rounded down, never negative for a positive denominator."""

    numerator: Expr
    denominator: Expr

    def _key(self) -> Hashable:
        return (self.numerator, self.denominator)


@attrs.frozen(eq=False, repr=False)
class Bitwise(Expr):
    """And, or, exclusive or of two or more operands in two's complement."""

    op: Literal["&", "|", "^"]
    operands: tuple[Expr, ...]

    def _key(self) -> Hashable:
        return (self.op, frozenset(Counter(self.operands).items()))


@attrs.frozen(eq=False, repr=False)
class Shift(Expr):
    """A shift by an amount that is not constant (shifts by constants become `*` and `//`)."""

    op: Literal["<<", ">>"]
    value: Expr
    amount: Expr

    def _key(self) -> Hashable:
        return (self.op, self.value, self.amount)


@attrs.frozen(eq=False, repr=False)
class Extremum(Expr):
    """The smallest or the largest of two or more operands."""

    op: Literal["min", "max"]
    operands: tuple[Expr, ...]

    def _key(self) -> Hashable:
        return (self.op, frozenset(self.operands))


@attrs.frozen(eq=False, repr=False)
class Compare(Expr):
    """A comparison, 0 or 1; `<=`, `>=`, `>` are written with `<`."""

    op: Literal["<", "==", "!="]
    left: Expr
    right: Expr

    def _key(self) -> Hashable:
        return (self.op, (self.left, self.right) if self.op == "<" else frozenset((self.left, self.right)))


@attrs.frozen(eq=False, repr=False)
class Logic(Expr):
    """The conjunction or disjunction of two or more conditions, 0 or 1."""

    op: Literal["&&", "||"]
    operands: tuple[Expr, ...]

    def _key(self) -> Hashable:
        return (self.op, frozenset(self.operands))


@attrs.frozen(eq=False, repr=False)
class Select(Expr):
    """`then` where the condition holds, else `otherwise`."""

    condition: Expr
    then: Expr
    otherwise: Expr

    def _key(self) -> Hashable:
        return (self.condition, self.then, self.otherwise)


@attrs.frozen(eq=False, repr=False)
class Element(Expr):
    """An element of an integer array, in an index or a condition: `lower <= element < extent`.

    Args:
        array: the array's name.
        index: the element's index, one expression for each dimension of the array.
        shape: of the array.
        extent: the element is below it; None where no bound is known.
        lower: the element is at least this: 0 in an index.
    """

    array: str
    index: tuple[Expr, ...]
    shape: tuple[Index, ...]
    extent: Expr | None = attrs.field(converter=_optional_expr, default=None)
    lower: int = 0

    def _key(self) -> Hashable:
        return (self.array, self.index, self.extent, self.lower)


Leaf: TypeAlias = Var | Symbol
Node: TypeAlias = (
    Const | Var | Symbol | Sum | Product | FloorDiv | Mod | Bitwise | Shift | Extremum | Compare | Logic | Select
    | Element
)  # fmt: skip

FALSE = Const(0)
TRUE = Const(1)
_SMALL = tuple(Const(value) for value in range(257))


def const(value: int) -> Const:
    """Return the constant, shared where it is small."""
    return _SMALL[value] if 0 <= value <= 256 else Const(value)


def as_expr(value: Index | SupportsIndex) -> Expr:
    """Return an expression for an integer or an expression.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(value, Expr):
        return value
    return _SMALL[value] if type(value) is int and 0 <= value <= 256 else const(index(value))


def as_int(value: Index) -> int | None:
    """Return the integer where the value is a constant, else None."""
    if isinstance(value, Expr):
        return value.value if isinstance(value, Const) else None
    return value


def simplest(value: Index) -> Index:
    """Return an int for a constant, else the expression."""
    return value.value if isinstance(value, Const) else value


def closed(e: Expr) -> Node:
    """Return an expression, typed as the closed union of nodes, for `match` with `assert_never`."""
    return e  # pyright: ignore[reportReturnType]


def operands(e: Expr) -> Sequence[Expr]:
    """Return the direct operands of a node; a leaf has none."""
    match closed(e):
        case Const() | Var() | Symbol():
            return ()
        case Sum(terms=terms):
            return [monomial for monomial, _ in terms]
        case Product(factors=found):
            return found
        case FloorDiv(numerator=a, denominator=b) | Mod(numerator=a, denominator=b):
            return (a, b)
        case Bitwise(operands=found) | Extremum(operands=found) | Logic(operands=found):
            return found
        case Shift(value=a, amount=b) | Compare(left=a, right=b):
            return (a, b)
        case Select(condition=c, then=a, otherwise=b):
            return (c, a, b)
        case Element(index=index):
            return index


# The operators build through these modules, which need the classes above: hence the imports at the end.
from fireiron.algebra.index import bits as _bits  # noqa: E402
from fireiron.algebra.index import division as _division  # noqa: E402
from fireiron.algebra.index import ranges as _ranges  # noqa: E402
from fireiron.algebra.index import sums as _sums  # noqa: E402
