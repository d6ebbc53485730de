"""The pointwise language of epilogues and prologues: ordinary Python expressions that build an immutable tree.

An op is a function from the accumulator's expression to a new one. Tensors may be operands (`x + bias`), and scalars of
the call by their names (`x * "scale"`). NumPy's and torch's functions of expressions return expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType, f32, f64, i32, i64
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.expr import Expr, and_, as_expr, as_int, eq, le, lt, maximum, minimum, ne, or_, select
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    BinaryOp,
    Cast,
    Constant,
    Coordinate,
    Parameter,
    Scalar,
    Select,
    Unary,
    as_type,
    children,
    parts,
    renumbered,
    with_children,
)
from fireiron.algebra.simplify import simplify
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.contract import asked, checked, number, shown
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.language.tensor import Tensor

if TYPE_CHECKING:
    from fireiron.language.elements import At

MOST_FACTORS = 16  # largest power that is computed by products


class ExpressionError(SpecError, AttributeError):
    """Report an attribute that expressions do not have."""


@attrs.frozen(repr=False)
class Value:
    """Hold an expression: its scalar tree, and the tensors that its arguments read.

    `Arg(0)` is the accumulator; `Arg(i)` reads `tensors[i - 1]`. `x == y` compares the expressions themselves;
    `equal(x, y)` compares elements. Comparisons such as `x < y` give 1 or 0.
    """

    tree: Scalar
    tensors: tuple[Tensor, ...] = ()

    @property
    def dtype(self) -> DType:
        """Return the element type of the result."""
        return self.tree.dtype

    @property
    def of_program(self) -> bool:
        """Say whether the value belongs to a traced program; its operators convert operands to a common type."""
        return any(type(t) is not Tensor for t in self.tensors) or any(
            isinstance(part, Coordinate) for part in parts(self.tree)
        )

    @property
    def number(self) -> float | None:
        """Return the number that the expression is at all points; None where its value depends on anything.

        Example:
            >>> from fireiron.language.tensor import Vector
            >>> x, two = read(Vector(8, name="x")), Value(Constant(2.0, f32))
            >>> x.number, (two * 3).number
            (None, 6.0)
        """
        match simplified(self).tree:
            case Constant(value=value):
                return value
            case Coordinate(value=place):
                return as_int(place)
            case _:
                return None

    def __add__(self, other: Operand) -> Value:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return binary("div", other, self)

    def __floordiv__(self, other: int) -> Value:
        return _divided("//", self, other)

    def __mod__(self, other: int) -> Value:
        return _divided("%", self, other)

    def __and__(self, other: Operand) -> Value:
        return both(self, other)

    def __rand__(self, other: Operand) -> Value:
        return both(self, other)

    def __or__(self, other: Operand) -> Value:
        return either(self, other)

    def __ror__(self, other: Operand) -> Value:
        return either(self, other)

    def __invert__(self) -> Value:
        return binary("eq", self, 0)

    def __lt__(self, other: Operand) -> Value:
        return binary("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return binary("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return binary("lt", other, self)

    def __ge__(self, other: Operand) -> Value:
        return binary("le", other, self)

    def __pow__(self, other: Operand) -> Value:
        return power(self, other)

    def __rpow__(self, other: Operand) -> Value:
        return power(other, self)

    def __neg__(self) -> Value:
        return unary("neg", self)

    def __pos__(self) -> Value:
        return self

    def __floor__(self) -> Value:
        return unary("floor", self)

    def __ceil__(self) -> Value:
        return unary("ceil", self)

    def __abs__(self) -> Value:
        return unary("abs", self)

    def __getitem__(self, subscripts: object) -> Value:
        from fireiron.language.subscripts import subscripted

        if not self.of_program:
            raise SpecError(
                "bad-op",
                f"x[...] has no meaning for expressions such as {shown(self)}",
                fix="subscripts read arrays in a program: @fireiron.program(...)",
                link=here(),
            )
        return subscripted(self, subscripts)

    @property
    def at(self) -> At:
        """Name elements to add to, or to write: `sums.at[ids, :].add(x)`, `cache.at[places, :].set(x)`."""
        from fireiron.language.elements import At

        return At(self)

    def cast(self, dtype: object, wraps: bool = False) -> Value:
        """Convert to another type, as `fireiron.cast` does."""
        return cast_to(self, dtype, wraps)

    def named(self, name: str) -> Value:
        """Give the step that computes this value of a program a name, for use in chains."""
        from fireiron.language.trace import named

        return named(self, name)

    if not TYPE_CHECKING:  # type checkers that see __getattr__ accept every attribute

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            raise ExpressionError(
                "bad-op",
                f"an expression has no .{name}: functions are called with it, as in exp(x)",
                fix="write exp(x), maximum(x, y), cast(x, 'f16') or another of fireiron's functions, or an operator",
                link=here(),
            )

    def __bool__(self) -> bool:
        raise SpecError(
            "bad-op",
            "an expression has a truth value for each element, so Python's if, and, or and not cannot use it",
            fix="use where(condition, x, y), maximum(x, y) or minimum(x, y)",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Value:
        """Return the expression for a ufunc of NumPy."""
        from fireiron.language import foreign

        return foreign.of_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Value:
        """Return the expression for `np.where` or `np.clip`."""
        from fireiron.language import foreign

        return foreign.called("np", function.__name__, args, options)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Value:
        """Return the expression for a function of torch."""
        from fireiron.language import foreign

        options = {key: value for key, value in (kwargs or {}).items() if key != "inplace"}
        return foreign.called("torch", function.__name__, args, options)

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """Raise an error; NumPy would otherwise make an array of one Python object."""
        from fireiron.language import foreign

        foreign.as_array(self)

    def __str__(self) -> str:
        from fireiron.language.words import scalar_in_words

        return scalar_in_words(self.tree, ["acc", *(str(t) if self.of_program else t.name for t in self.tensors)])

    def __repr__(self) -> str:
        return f"<Value {shown(self)} of {self.dtype}>"


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Value, *operands: object) -> NoReturn:
        from fireiron.language import foreign

        foreign.refused_operator(name, self)

    return refuse


# Python's operators that expressions do not have. They are added here, not as methods, so that type checkers refuse
# them.
_UNDEFINED = """
    divmod matmul xor lshift rshift rfloordiv rmod rdivmod rmatmul rxor rlshift rrshift iter len contains float
    int index complex round trunc
"""
for _name in _UNDEFINED.split():
    setattr(Value, f"__{_name}__", _refuse(f"__{_name}__"))


Operand: TypeAlias = Value | Tensor | Expr | float | int | str
Op: TypeAlias = Callable[[Value], Value]


def accumulator(dtype: DType) -> Value:
    """Return the expression that is the accumulator."""
    return Value(Arg(0, dtype))


def read(tensor: Tensor) -> Value:
    """Return the expression that is a tensor's element."""
    return Value(Arg(1, tensor.dtype), (tensor,))


@checked
def parameter(name: str, dtype: object) -> Value:
    """Read a scalar kernel parameter, given by keyword at the call.

    Raises:
        SpecError: `unknown-dtype`.
    """
    return Value(Parameter(name, find_dtype(dtype)))


def _lift(x: object, dtype: DType) -> Value:
    """Convert a tensor, a number or a scalar's name to an expression of another expression's type.

    Raises:
        SpecError: `bad-operand`; `fraction-of-integer` where floats would become integers.
    """
    match x:
        case Value():
            return x
        case Tensor():
            if x.dtype.kind == "float" and dtype.kind == "int":
                raise SpecError(
                    "fraction-of-integer",
                    f"{x.name} holds {x.dtype}, and the expression is of {dtype}, which would drop its fractions",
                    fix=f"cast the expression to f32 first, or the tensor: cast({x.name}, '{dtype}')",
                )
            read: Scalar = Arg(1, x.dtype)
            return Value(as_type(read, dtype), (x,))
        case Expr():
            return Value(Coordinate(x))
        case str() if x.isidentifier():
            return Value(Parameter(x, dtype))
        case _:
            plain = None if isinstance(x, bool) else number(x)
            if plain is None:
                raise _no_operand(x)
            if dtype.kind == "int":
                check_whole(plain, dtype)
            return Value(Constant(plain, dtype))


def _no_operand(x: object) -> SpecError:
    """Make the error for an object that cannot be an operand of an expression."""
    if isinstance(x, bool):
        return SpecError(
            "bad-operand",
            f"{x} cannot take part in a pointwise expression: x == y compares expressions as wholes",
            fix="use equal(x, y), or the numbers 1 and 0",
        )
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type):
        return SpecError(
            "bad-operand",
            f"an array of {tuple(cast(Any, x).shape)} cannot take part in a pointwise expression",
            fix="pass it to the call by name, and give the op a parameter of that name: "
            "gemm(a, b, epilog=lambda acc, bias: acc + bias, bias=bias)",
        )
    return SpecError(
        "bad-operand",
        f"{shown(x)} cannot take part in a pointwise expression",
        fix="use numbers, tensors, expressions, and names of scalars",
    )


def check_whole(x: float, dtype: DType) -> None:
    """Refuse a number that an integer type does not hold.

    Raises:
        SpecError: `fraction-of-integer`, `constant-range`.
    """
    if not math.isfinite(x) or x != int(x):
        raise SpecError(
            "fraction-of-integer", f"{x!r} is no {dtype}", fix="use scale(number), or saturate('f32') before it"
        )
    low, high = dtype.limits
    if not low <= x <= high:
        raise SpecError(
            "constant-range",
            f"{x!r} is no {dtype}, which holds {low} to {high}",
            fix=f"give a number of these, or use saturate('{'i32' if dtype.bits < 32 else 'f32'}') before it",
        )


def lifted(*operands: Operand) -> tuple[Value, ...]:
    """Convert operands to expressions of one type: that of the first expression, or else of the first tensor.

    Raises:
        SpecError: `bad-operand`.
    """
    kinds = [x.dtype for x in operands if isinstance(x, Value)] or [x.dtype for x in operands if isinstance(x, Tensor)]
    if not kinds:
        if any(isinstance(x, bool) for x in operands):
            raise _no_operand(next(x for x in operands if isinstance(x, bool)))
        raise SpecError(
            "bad-operand", "an operation on numbers alone uses no element of a tensor", fix="compute it in Python"
        )
    if any(isinstance(x, Value) and x.of_program for x in operands):
        fractions = [f32 for x in operands if isinstance(x, float) and not x.is_integer()]
        kind = computed_in([*kinds, *fractions])
        return tuple(cast_to(_lift(x, kind), kind) for x in operands)
    return tuple(_lift(x, kinds[0]) for x in operands)


def computed_in(kinds: list[DType]) -> DType:
    """Return the type in which programs compute: f64, f32 where an operand is a float, else i64 or i32.

    Example:
        >>> computed_in([i64, i32]), computed_in([i64, f64]), computed_in([i32])
        (i64, f64, i32)
    """
    if any(kind.kind == "float" for kind in kinds):
        return f64 if f64 in kinds else f32
    return i64 if i64 in kinds else i32


def merged(values: tuple[Value, ...]) -> tuple[tuple[Scalar, ...], tuple[Tensor, ...]]:
    """Renumber the arguments of several expressions to index one common list of their tensors."""
    tensors: list[Tensor] = []
    trees: list[Scalar] = []
    for value in values:
        numbers: dict[int, int] = {}
        for i, tensor in enumerate(value.tensors, start=1):
            if tensor not in tensors:
                tensors.append(tensor)
            numbers[i] = tensors.index(tensor) + 1
        trees.append(renumbered(value.tree, numbers))
    return tuple(trees), tuple(tensors)


def renamed(value: Value, tensors: Sequence[Tensor]) -> Scalar:
    """Renumber an expression's arguments by a list of tensors, from 1 on."""
    return renumbered(value.tree, {i: tensors.index(t) + 1 for i, t in enumerate(value.tensors, start=1)})


def binary(op: BinaryOp, x: Operand, y: Operand) -> Value:
    """Apply a function of two values.

    Raises:
        SpecError: `dtype-mismatch`, `bad-operand`.
    """
    (a, b), tensors = merged(lifted(x, y))
    if a.dtype != b.dtype:
        raise SpecError("dtype-mismatch", f"{op} of {a.dtype} and {b.dtype}", fix="cast one side")
    left, right = integer(a), integer(b)
    if left is not None and right is not None and op in OF_COORDINATES:
        return Value(Coordinate(OF_COORDINATES[op](left, right)))
    return Value(Binary(op, a, b), tensors)


OF_COORDINATES: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "max": maximum, "min": minimum,
    "lt": lt, "le": le, "eq": eq,
}  # fmt: skip


def integer(tree: Scalar) -> Expr | None:
    """Return the index expression or whole number of a tree; None where the tree is neither."""
    match tree:
        case Coordinate(value):
            return value
        case Constant(value, dtype) if dtype == i32:
            return as_expr(int(value))
        case _:
            return None


def _divided(sign: str, x: Value, by: object) -> Value:
    """Divide an index expression by a number, rounding down, or take the remainder, which is never negative.

    Raises:
        SpecError: `index-division` where the expression is no index expression, or the number is below 1.
    """
    place = integer(x.tree)
    if place is None or not isinstance(by, int) or isinstance(by, bool) or by < 1:
        what = "takes an index, and this is a value" if place is None else f"by {by!r}"
        raise SpecError(
            "index-division",
            f"{sign} {what}",
            fix='divide an index by a whole number of 1 or more: index("i") // 4; values take floor(x / y)',
            link=here(),
        )
    return Value(Coordinate(place // by if sign == "//" else place % by))


def both(x: Operand, y: Operand) -> Value:
    """Give 1 where two conditions hold, else 0."""
    return _joined(x, y, and_, lambda a, b, one, zero: Select(a, _truth(b, one, zero), zero))


def either(x: Operand, y: Operand) -> Value:
    """Give 1 where one of two conditions holds, else 0."""
    return _joined(x, y, or_, lambda a, b, one, zero: Select(a, one, _truth(b, one, zero)))


def _truth(condition: Scalar, one: Scalar, zero: Scalar) -> Scalar:
    return Select(condition, one, zero)


def _joined(
    x: Operand,
    y: Operand,
    of_coordinates: Callable[[Expr, Expr], Expr],
    join: Callable[[Scalar, Scalar, Scalar, Scalar], Scalar],
) -> Value:
    (a, b), tensors = merged(lifted(x, y))
    left, right = integer(a), integer(b)
    if left is not None and right is not None:
        return Value(Coordinate(of_coordinates(ne(left, 0), ne(right, 0))))
    return Value(join(a, b, Constant(1, a.dtype), Constant(0, a.dtype)), tensors)


def unary(op: str, x: Operand) -> Value:
    """Apply a function of one value.

    Raises:
        SpecError: `fraction-of-integer` for exp, sqrt, ... of an integer; `bad-operand`.
    """
    (x,) = lifted(x)
    if x.dtype.kind == "int" and not FUNCTIONS[op].integers:
        raise SpecError(
            "fraction-of-integer",
            f"{op} of {x.dtype} gives fractions, which {x.dtype} does not hold",
            fix="cast to f32 before it" if x.of_program else "use saturate('f32') before it",
        )
    return Value(Unary(op, x.tree), x.tensors)


def power(x: Operand, y: Operand) -> Value:
    """Raise to a power: small whole powers by products, half powers by square roots, others by C's powf.

    Raises:
        SpecError: `fraction-of-integer` for a power of an integer that is no whole number from 0 on; `bad-operand`.

    Example:
        >>> x = accumulator(f32)
        >>> x**3, 2**x, x**-0.5
        (<Value acc * acc * acc of f32>, <Value exp2(acc) of f32>, <Value rsqrt(acc) of f32>)
    """
    exponent = None if isinstance(y, bool | str | Value | Tensor) else number(y)
    if exponent is None and not isinstance(x, bool | str | Value | Tensor) and number(x) == 2:
        return unary("exp2", y)
    base = lifted(x)[0] if exponent is not None else lifted(x, y)[0]
    if exponent is not None and exponent == int(exponent) and abs(exponent) <= MOST_FACTORS:
        times = int(abs(exponent))
        if exponent >= 0 or base.dtype.kind == "float":
            made = _product(base, times) if times else Value(Constant(1, base.dtype), base.tensors)
            return made if exponent >= 0 else 1 / made
    if exponent in (0.5, -0.5) and base.dtype.kind == "float":
        return unary("sqrt" if exponent == 0.5 else "rsqrt", base)
    if base.dtype.kind == "int":
        raise SpecError(
            "fraction-of-integer",
            f"{base.dtype} ** {shown(y)} is no {base.dtype}",
            fix=f"give a whole number from 0 to {MOST_FACTORS}, or "
            + ("cast to f32 before it" if base.of_program else "use saturate('f32') before it"),
        )
    return binary("pow", x, y)


def _product(base: Value, times: int) -> Value:
    """Raise a value to a whole power by repeated squares, each computed once."""
    if times == 1:
        return base
    half = _product(base, times // 2)
    return half * half if times % 2 == 0 else half * half * base


def where(condition: Operand, x: Operand, y: Operand) -> Value:
    """Give `x` where a condition is not zero, else `y`.

    Args:
        condition: an expression, or a tensor (a mask) of any type.
        x, y: expressions of one type, tensors or numbers.

    Raises:
        SpecError: `dtype-mismatch`, `bad-operand`.
    """
    given = condition if isinstance(condition, Value) else lifted(condition)[0]
    chosen = (x, y) if any(isinstance(z, Value | Tensor) for z in (x, y)) else (_lift(x, given.dtype), y)
    (c, a, b), tensors = merged((given, *lifted(*chosen)))
    if a.dtype != b.dtype:
        raise SpecError("dtype-mismatch", f"where of {a.dtype} and {b.dtype}", fix="cast one side")
    places = integer(c), integer(a), integer(b)
    if places[0] is not None and places[1] is not None and places[2] is not None:
        return Value(Coordinate(select(ne(places[0], 0), places[1], places[2])))
    return Value(Select(c, a, b), tensors)


def cast_to(x: Operand, dtype: object, wraps: bool = False) -> Value:
    """Convert to another type: floats round to nearest even, integers and 8-bit floats saturate.

    Args:
        x: what to convert.
        dtype: the type to convert to.
        wraps: whether an integer that the type does not hold keeps its low bits, as in C, NumPy and torch.

    Raises:
        SpecError: `unknown-dtype`.

    Example:
        >>> cast_to(accumulator(i64), "i32", wraps=True)
        <Value wrap_i32(acc) of i32>
    """
    if not isinstance(x, Value):
        (x,) = lifted(x)
    kind = find_dtype(dtype)
    low = wraps and x.dtype.kind == kind.kind == "int" and not kind.holds(x.dtype) and not kind.packed
    return x if x.dtype == kind else Value(Cast(x.tree, kind, low), x.tensors)


def substituted(value: Value, inner: Value) -> Value:
    """Replace the accumulator in one expression by another expression."""
    (outer, argument), tensors = merged((value, inner))

    def put(tree: Scalar) -> Scalar:
        if isinstance(tree, Arg):
            return argument if tree.index == 0 else tree
        return with_children(tree, tuple(put(x) for x in children(tree)))

    return Value(put(outer), tensors)


def simplified(value: Value) -> Value:
    """Simplify an expression, and drop the tensors that it no longer reads."""
    (tree,), tensors = simplified_together((value,))
    return Value(tree, tensors)


def simplified_together(values: tuple[Value, ...]) -> tuple[tuple[Scalar, ...], tuple[Tensor, ...]]:
    """Simplify several expressions, and renumber the tensors that they still read in one common list."""
    trees, tensors = merged(values)
    trees = tuple(map(simplify, trees))
    used = [i for i in range(1, len(tensors) + 1) if any(_reads(tree, i) for tree in trees)]
    numbers = {old: new for new, old in enumerate(used, start=1)}
    return tuple(renumbered(tree, numbers) for tree in trees), tuple(tensors[i - 1] for i in used)


def _reads(tree: Scalar, index: int) -> bool:
    return tree.index == index if isinstance(tree, Arg) else any(_reads(x, index) for x in children(tree))


def expression(ops: tuple[Op, ...], value: Value) -> Value:
    """Apply ops to an expression, first to last.

    Raises:
        SpecError: `bad-op` where an op is not a function, or does not return an expression.
    """
    for op in ops:
        # An op is a user's function, so its result's type must be checked here.
        if not callable(op):
            raise SpecError(
                "bad-op", f"{op} is no op", fix="give functions of the accumulator: relu, add(bias), lambda x: x * 2"
            )
        name = getattr(op, "__name__", None) or shown(op)
        try:
            result = cast(object, asked(op, value, said="op"))
        except TypeError as error:
            raise SpecError(
                "bad-op", f"epilog op {name} fails: {error}", fix="correct the call inside the op"
            ) from error
        if not isinstance(result, Value):
            raise SpecError(
                "bad-op",
                f"epilog op {name} returned {shown(result)}",
                fix="return an expression of the accumulator; store others beside it by save(tensor, of=op)"
                if isinstance(result, tuple | list)
                else "return an expression of the accumulator",
            )
        value = result
    return value
