"""Give the integers of GPU index arithmetic: built with operators, simplified from ranges, printed as C or Python.

All values are mathematical integers; `//` and `%` round down. Expressions compare with `lt`, `eq`, ...; `==` asks
whether two are written alike, whatever the order of their terms.

Example:
    >>> warp, lane, M = Var("warp", 8), Var("lane", 32), symbol("M", multiple_of=8)
    >>> thread = warp * 32 + lane
    >>> print(thread // 32, thread % 32, ceil_div(M, 8) * 8)
    warp lane M
    >>> proves(lt(thread, 256))
    True
"""

from __future__ import annotations

from fireiron.algebra.index.logic import (
    and_,
    as_condition,
    ceil_div,
    eq,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    ne,
    not_,
    or_,
    prove_lt,
    proves,
    select,
)
from fireiron.algebra.index.nodes import (
    FALSE,
    TRUE,
    Bitwise,
    Compare,
    Const,
    Expr,
    Extremum,
    FloorDiv,
    Index,
    Interval,
    Leaf,
    Logic,
    Mod,
    Node,
    Product,
    Select,
    Shift,
    Sum,
    Symbol,
    Term,
    Var,
    as_expr,
    as_int,
    closed,
    const,
    operands,
    simplest,
)
from fireiron.algebra.index.printing import fits_int32, to_c
from fireiron.algebra.index.python import to_python
from fireiron.algebra.index.sums import terms_of
from fireiron.algebra.index.walk import affine, evaluate, free, substitute, terms


def symbol(name: str, multiple_of: int = 1, minimum: int = 1, maximum: int = 2**30) -> Symbol:
    """Make a run-time size: a kernel parameter that is known to be a multiple of `multiple_of`.

    Raises:
        ValueError: if no multiple lies between the minimum and the maximum, or `multiple_of` is not positive.
    """
    if multiple_of < 1:
        raise ValueError(f"symbol {name}: multiple_of={multiple_of} is not positive")
    made = Symbol(name, multiple_of, minimum, maximum)
    low, high = made.range
    if low is None or high is None or low > high:
        raise ValueError(f"symbol {name}: no multiple of {multiple_of} lies between {minimum} and {maximum}")
    return made


__all__ = [
    "FALSE",
    "TRUE",
    "Bitwise",
    "Compare",
    "Const",
    "Expr",
    "Extremum",
    "FloorDiv",
    "Index",
    "Interval",
    "Leaf",
    "Logic",
    "Mod",
    "Node",
    "Product",
    "Select",
    "Shift",
    "Sum",
    "Symbol",
    "Term",
    "Var",
    "affine",
    "and_",
    "as_condition",
    "as_expr",
    "as_int",
    "ceil_div",
    "closed",
    "const",
    "eq",
    "evaluate",
    "fits_int32",
    "free",
    "ge",
    "gt",
    "le",
    "lt",
    "maximum",
    "minimum",
    "ne",
    "not_",
    "operands",
    "or_",
    "prove_lt",
    "proves",
    "select",
    "simplest",
    "substitute",
    "symbol",
    "terms",
    "terms_of",
    "to_c",
    "to_python",
]
