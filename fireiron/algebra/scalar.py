"""Scalar expressions: computations on one element, independent of the element's place.

The pointwise language of epilogs, the CUDA printer and the simulator share these trees. Leaves are numbered arguments
(`Arg`), so a tree never refers to a buffer; the statement with the tree says which view each argument reads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from fireiron.algebra.dtypes import DType, i32
from fireiron.algebra.expr import Expr, Symbol, Var, as_int, free, substitute
from fireiron.base.errors import SpecError
from fireiron.base.names import named
from fireiron.base.text import count

BinaryOp = Literal["add", "sub", "mul", "div", "max", "min", "lt", "le", "eq", "pow"]

OF_NUMBERS: tuple[BinaryOp, ...] = ("add", "sub", "mul", "div", "max", "min", "lt", "le", "eq")
BINARY: tuple[BinaryOp, ...] = (*OF_NUMBERS, "pow")  # pow is a function of floats


@attrs.frozen
class Arg:
    """Read the statement's argument number `index`, of element type `dtype`."""

    index: int
    dtype: DType


def exactly(value: float) -> str:
    """Return a number's key for comparisons by bits: 0 differs from -0, and a NaN equals itself."""
    return repr(value) if isinstance(value, int) and abs(value) >= 2**53 else float(value).hex()


@attrs.frozen
class Constant:
    """Hold a number."""

    value: float | int = attrs.field(eq=exactly)
    dtype: DType


def number(value: float, dtype: DType) -> Constant:
    """Give a number as a constant of a type."""
    return Constant(float(value) if dtype.kind == "float" else int(value), dtype)


@attrs.frozen
class Coordinate:
    """Convert an index expression, of a program's dims or a kernel's variables, to an i32. Conditions are 1 or 0."""

    value: Expr
    dtype: DType = i32


@attrs.frozen
class Parameter:
    """Read a scalar kernel parameter (`alpha`), which calls pass by keyword."""

    name: str = attrs.field(validator=named("a scalar", keyword=True))
    dtype: DType


@attrs.frozen
class Unary:
    """Apply a function of one value, by its name in `algebra/unary.py`; the result has the operand's dtype."""

    op: str
    x: Scalar

    @property
    def dtype(self) -> DType:
        """Give the operand's dtype."""
        return self.x.dtype


@attrs.frozen
class Binary:
    """Apply a function of two values of one dtype; comparisons give 1 or 0 in that dtype."""

    op: BinaryOp
    x: Scalar
    y: Scalar

    @property
    def dtype(self) -> DType:
        """Give the operands' dtype."""
        return self.x.dtype


@attrs.frozen
class MultiplyAdd:
    """Compute x * y + z of f32, rounded once. Lowering makes it from sums of products (`algebra/fused.py`)."""

    x: Scalar
    y: Scalar
    z: Scalar

    @property
    def dtype(self) -> DType:
        """Give the operands' dtype."""
        return self.x.dtype


@attrs.frozen
class Select:
    """Give `x` where `condition` is not zero, else `y`."""

    condition: Scalar
    x: Scalar
    y: Scalar

    @property
    def dtype(self) -> DType:
        """Give the dtype of both alternatives."""
        return self.x.dtype


@attrs.frozen
class Cast:
    """Convert to another dtype, rounding to nearest even.

    Args:
        x: the value.
        dtype: the type to convert to.
        wraps: whether integers keep their low bits, as in C; else they saturate.
    """

    x: Scalar
    dtype: DType
    wraps: bool = False


@attrs.frozen
class Custom:
    """Apply a user's function, which is written in CUDA C++ and in NumPy.

    Args:
        name: an identifier.
        source: an expression of the parameters, or statements with `return`.
        parameters: the names of the arguments in the source.
        args: one expression for each parameter; floats that C does not have are passed as `float`.
        dtype: of the result.
        numpy: the same function on arrays.
    """

    name: str
    source: str
    parameters: tuple[str, ...]
    args: tuple[Scalar, ...]
    dtype: DType
    numpy: Callable[..., Any] = attrs.field(eq=id, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without a NumPy function that other processes cannot import; kernels need only the source."""
        found = self.numpy if _importable(self.numpy) else Elsewhere(self.name)
        return Custom, (self.name, self.source, self.parameters, self.args, self.dtype, found)


@attrs.frozen
class Debug:
    """Print a value where it is computed, and return it unchanged.

    Args:
        name: the start of the printed line.
        x: the value.
        at: the element's coordinates, set by lowering.
        only: coordinates of the one element to print; None prints all.
    """

    name: str
    x: Scalar
    at: tuple[Scalar, ...] = ()
    only: tuple[int, ...] | None = None

    @property
    def dtype(self) -> DType:
        """Give the value's dtype."""
        return self.x.dtype


def _importable(function: Callable[..., Any]) -> bool:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    held: Any = sys.modules.get(module or "")
    for part in name.split("."):
        held = getattr(held, part, None)
    return held is function and module != "__main__"


@attrs.frozen
class Elsewhere:
    """Stand for a NumPy function of another process, which was not pickled."""

    name: str

    def __call__(self, *arrays: Any) -> Any:
        """Raise an error: the function is not known in this process."""
        raise SpecError(
            "bad-custom",
            f"the NumPy function of {self.name} was not sent to this process: it is a lambda or a function of __main__",
            fix="simulate there, or write the function into a module",
        )


Scalar: TypeAlias = (
    Arg | Constant | Coordinate | Parameter | Unary | Binary | MultiplyAdd | Select | Cast | Custom | Debug
)


def children(tree: Scalar) -> tuple[Scalar, ...]:
    """List an expression's operands."""
    match tree:
        case Arg() | Constant() | Coordinate() | Parameter():
            return ()
        case Unary(x=x) | Cast(x=x):
            return (x,)
        case Binary(x=x, y=y):
            return x, y
        case MultiplyAdd(x=x, y=y, z=z):
            return x, y, z
        case Select(condition=condition, x=x, y=y):
            return condition, x, y
        case Custom(args=args):
            return args
        case Debug(x=x, at=at):
            return x, *at
        case _ as never:
            assert_never(never)


def with_children(tree: Scalar, operands: tuple[Scalar, ...]) -> Scalar:
    """Return the same operation with other operands.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> with_children(Unary("neg", Arg(0, f32)), (Arg(1, f32),)).x.index
        1
    """
    match tree:
        case Arg() | Constant() | Coordinate() | Parameter():
            return tree
        case Unary(op=op):
            return Unary(op, operands[0])
        case Cast(dtype=dtype, wraps=wraps):
            return Cast(operands[0], dtype, wraps)
        case Binary(op=op):
            x, y = operands
            return Binary(op, x, y)
        case MultiplyAdd():
            return MultiplyAdd(*operands)
        case Select():
            condition, x, y = operands
            return Select(condition, x, y)
        case Custom():
            return attrs.evolve(tree, args=operands)
        case Debug():
            return attrs.evolve(tree, x=operands[0], at=operands[1:])
        case _ as never:
            assert_never(never)


def parts(tree: Scalar) -> Iterator[Scalar]:
    """Visit an expression and all its parts, operands first, each as often as it occurs."""
    for operand in children(tree):
        yield from parts(operand)
    yield tree


def as_type(tree: Scalar, dtype: DType) -> Scalar:
    """Convert an expression to an element type, unless it has this type.

    Example:
        >>> from fireiron.algebra.dtypes import f16, f32
        >>> as_type(Arg(0, f16), f16), as_type(Arg(0, f16), f32).dtype
        (Arg(index=0, dtype=f16), f32)
    """
    return tree if tree.dtype == dtype else Cast(tree, dtype)


def renumbered(tree: Scalar, numbers: dict[int, int]) -> Scalar:
    """Change the numbers of arguments; arguments that are not in the mapping keep theirs.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> renumbered(Unary("neg", Arg(1, f32)), {1: 4}).x.index
        4
    """
    if isinstance(tree, Arg):
        return Arg(numbers.get(tree.index, tree.index), tree.dtype)
    return with_children(tree, tuple(renumbered(x, numbers) for x in children(tree)))


def tells(tree: Scalar) -> bool:
    """Say whether an expression is a condition (1 or 0): comparisons, joined or negated.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> less = Binary("lt", Arg(0, f32), Arg(1, f32))
        >>> tells(Select(less, Constant(1, f32), less)), tells(Select(less, Arg(0, f32), less))
        (True, False)
    """
    match tree:
        case Binary(op=("lt" | "le" | "eq")):
            return True
        case Cast(x=x) | Unary(op="implied", x=x):
            return tells(x)
        case Select(condition=a, x=b, y=Constant(value=0)) | Select(condition=a, x=Constant(value=1), y=b):
            return tells(a) and tells(b)
        case _:
            return False


def substituted(tree: Scalar, arguments: Sequence[Scalar]) -> Scalar:
    """Replace each argument by an expression.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> substituted(Unary("neg", Arg(0, f32)), (Arg(3, f32),)).x.index
        3
    """
    if isinstance(tree, Arg):
        return arguments[tree.index]
    return with_children(tree, tuple(substituted(x, arguments) for x in children(tree)))


def parameters(tree: Scalar) -> tuple[Parameter, ...]:
    """List the scalar parameters that an expression reads.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> parameters(Binary("mul", Arg(0, f32), Parameter("alpha", f32)))[0].name
        'alpha'
    """
    return tuple(part for part in parts(tree) if isinstance(part, Parameter))


def coordinates(tree: Scalar) -> tuple[Expr, ...]:
    """List the index expressions that an expression reads, each once."""
    return tuple(dict.fromkeys(part.value for part in parts(tree) if isinstance(part, Coordinate)))


def placed(tree: Scalar, values: Mapping[Expr, Expr]) -> Scalar:
    """Replace variables in index expressions by values; index expressions that become numbers become constants.

    Example:
        >>> from fireiron.algebra.expr import Var, as_expr
        >>> i = Var("i", 8)
        >>> placed(Coordinate(i * 2), {i: as_expr(3)}).value
        6
    """
    leaves = all(isinstance(v, Var | Symbol) for v in values)
    if not values or (leaves and not any(v in values for e in coordinates(tree) for v in free(e))):
        return tree
    if isinstance(tree, Coordinate):
        value = substitute(tree.value, dict(values))
        known = as_int(value)
        return Coordinate(value) if known is None else Constant(known, tree.dtype)
    return with_children(tree, tuple(placed(x, values) for x in children(tree)))


def located(tree: Scalar, at: Sequence[Expr]) -> Scalar:
    """Set the coordinates of the current element in each `Debug`, unless they are set already.

    Raises:
        SpecError: `bad-debug` where `only` has another number of coordinates.
    """
    if isinstance(tree, Debug) and not tree.at:
        if tree.only is not None and len(tree.only) != len(at):
            raise SpecError(
                "bad-debug",
                f"debug({tree.name!r}, at={tree.only}) names an element by {count(len(tree.only), 'coordinate')}, and "
                f"elements have {len(at)} here",
                fix=f"give {count(len(at), 'coordinate')} in at=",
            )
        return attrs.evolve(tree, x=located(tree.x, at), at=tuple(map(Coordinate, at)))
    return with_children(tree, tuple(located(x, at) for x in children(tree)))


def debug_line(tree: Debug, block: int, thread: int, at: Sequence[int], value: Any) -> str:
    """Return the line that a `Debug` prints; the CUDA prints the same.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> debug_line(Debug("acc", Arg(0, f32)), 0, 31, (2, 3), 0.5)
        'acc: block 0, thread 31, [2, 3] = 0.5'
    """
    place = f", [{', '.join(map(str, at))}]" if at else ""
    return f"{tree.name}: block {block}, thread {thread}{place} = {_shown(tree, value)}"


def _shown(tree: Debug, value: Any) -> str:
    return str(int(value)) if tree.dtype.kind == "int" else f"{float(value):g}"


def prints(tree: Scalar) -> bool:
    """Say whether an expression contains a `Debug`."""
    return any(isinstance(part, Debug) for part in parts(tree))


def without_coordinates(tree: Scalar, first: int) -> tuple[Scalar, tuple[Expr, ...]]:
    """Replace index expressions by arguments `first`, `first + 1`, ...; return also the replaced index expressions."""
    found = coordinates(tree)
    numbers = {value: first + i for i, value in enumerate(found)}

    def put(part: Scalar) -> Scalar:
        if isinstance(part, Coordinate):
            return Arg(numbers[part.value], part.dtype)
        return with_children(part, tuple(map(put, children(part))))

    return (put(tree) if found else tree), found
