"""Products whose number of rows M changes from call to call: one kernel serves a bucket of values of M."""

from __future__ import annotations

from fireiron.algebra.expr import Symbol
from fireiron.base.errors import CallError
from fireiron.base.link import here

LEAST_BUCKET = 16  # the fewest rows that a bucket ends with


def bucket(rows: int) -> Symbol:
    """Return the symbol of a bucket: it stands for all values up to a power of two and above half of it (33 to 64).

    Args:
        rows: one value of the bucket.

    Example:
        >>> [(s.minimum, s.maximum) for s in map(bucket, (1, 16, 17, 700))]
        [(1, 16), (1, 16), (17, 32), (513, 1024)]
    """
    most = max(LEAST_BUCKET, 1 << (rows - 1).bit_length())
    least = 1 if most == LEAST_BUCKET else most // 2 + 1
    return Symbol("M", minimum=least, maximum=most, typical=most)


def check_dynamic(dynamic: object, plain: bool) -> None:
    """Refuse dims other than M, and calls that one kernel cannot serve.

    Raises:
        CallError: `dynamic-call`.
    """
    if not isinstance(dynamic, str) or dynamic != "M":
        raise CallError("dynamic-call", f'dynamic= takes "M", not {dynamic!r}', fix='write dynamic="M"', link=here())
    if not plain:
        raise CallError(
            "dynamic-call",
            "dynamic= supports two dense matrices, without epilog, schedule, operands or dtype",
            fix='write the schedule: best(matmul(symbol("M"), N, K, "f16").then(...))',
            link=here(),
        )
