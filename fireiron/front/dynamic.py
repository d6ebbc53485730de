"""Products whose number of rows changes from call to call: buckets of numbers that one kernel serves."""

from __future__ import annotations

from fireiron.algebra.expr import Symbol
from fireiron.base.errors import CallError
from fireiron.base.link import here

LEAST_BUCKET = 16  # the fewest rows that a bucket ends with


def bucket(rows: int) -> Symbol:
    """Give the size that stands for all numbers of rows of a bucket: those up to a power of two, above half of it.

    Args:
        rows: one of them.

    Example:
        >>> [(s.minimum, s.maximum) for s in map(bucket, (1, 16, 17, 700))]
        [(1, 16), (1, 16), (17, 32), (513, 1024)]
    """
    most = max(LEAST_BUCKET, 1 << (rows - 1).bit_length())
    least = 1 if most == LEAST_BUCKET else most // 2 + 1
    return Symbol("M", minimum=least, maximum=most, typical=most)


def check_dynamic(dynamic: object, plain: bool) -> None:
    """Refuse another dim than M, and calls that one kernel does not serve.

    Raises:
        CallError: `dynamic-call`.
    """
    if dynamic != "M":
        raise CallError("dynamic-call", f'dynamic= takes "M", not {dynamic!r}', fix='write dynamic="M"', link=here())
    if not plain:
        raise CallError(
            "dynamic-call",
            "dynamic= serves two dense matrices, without epilog, schedule, operands or dtype",
            fix='write the schedule: best(matmul(symbol("M"), N, K, "f16").then(...))',
            link=here(),
        )
