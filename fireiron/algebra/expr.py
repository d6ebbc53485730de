"""Index expressions: integers built with operators, simplified by their ranges, and printed as C or Python.

All values are mathematical integers; `//` and `%` round down. `lt`, `eq`, ... make comparisons of values; `==` compares
the expressions themselves, whatever the order of their terms.

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
    Element,
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
from fireiron.algebra.index.sums import terms_of
from fireiron.algebra.index.values import evaluate
from fireiron.algebra.index.walk import Substitution, affine, free, substitute, terms
from fireiron.base.contract import checked
from fireiron.base.errors import SpecError
from fireiron.base.link import here
from fireiron.base.names import check_name


@checked
def symbol(
    name: str, multiple_of: int = 1, minimum: int = 1, maximum: int = 2**30, typical: int | None = None
) -> Symbol:
    """Make a run-time size: a kernel parameter that is known to be a multiple of `multiple_of`.

    Args:
        name: of the parameter, in calls and errors.
        multiple_of: a number that divides every value.
        minimum, maximum: the smallest and the largest value, 0 to 2**31 - 1.
        typical: the size that presets choose tiles and plans for, and that estimates assume. None: estimates assume
            1024, presets choose for 4096 (both adjusted to the range), and `check` notes it (`assumed-size`).

    Raises:
        SpecError: `bad-name`; `bad-symbol` where no multiple lies between the minimum and the maximum, or `typical` is
            not such a multiple.
    """
    check_name("a size", name, keyword=True)
    if multiple_of < 1 or not 0 <= minimum <= maximum < 2**31 or maximum // multiple_of * multiple_of < max(1, minimum):
        raise SpecError(
            "bad-symbol",
            f"{name} has no value: a multiple of {multiple_of} between {minimum} and {maximum}",
            fix="give multiple_of= of 1 and more, and a range up to 2**31 - 1 that holds a multiple of it",
            link=here(),
        )
    if typical is not None and (typical % multiple_of or not minimum <= typical <= maximum):
        raise SpecError(
            "bad-symbol",
            f"typical={typical} is no value of {name}: a multiple of {multiple_of} between {minimum} and {maximum}",
            fix="give a typical= that the kernel could be called with",
            link=here(),
        )
    return Symbol(name, multiple_of, minimum, maximum, typical)


__all__ = [
    "FALSE",
    "TRUE",
    "Bitwise",
    "Compare",
    "Const",
    "Element",
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
    "Substitution",
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
]
