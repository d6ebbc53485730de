"""Check that an architecture has a kernel's conversions: those of tf32 and 8-bit floats are instructions."""

from __future__ import annotations

import re

from fireiron.algebra.dtypes import DType, e4m3, e5m2, tf32
from fireiron.algebra.scalar import Arg, Constant, parts
from fireiron.base.errors import DecompositionError
from fireiron.base.link import Link
from fireiron.kernel.ir.statements import Compute, Micro, Statement, walk

# PTX ISA, cvt: target notes.
_NEEDS = {tf32: 80, e4m3: 89, e5m2: 89}


def check_conversions(body: tuple[Statement, ...], arch: int) -> None:
    """Refuse to convert to or from a type whose conversion the architecture lacks.

    Raises:
        DecompositionError: `conversion-arch`.
    """
    if arch >= max(_NEEDS.values()):
        return
    for statement in walk(body):
        if isinstance(statement, Micro):
            for dtype, needs in _NEEDS.items():
                if arch < needs and re.search(rf"\b{dtype.name}_to_|_to_{dtype.name}\b", statement.source):
                    raise _refused(dtype, needs, arch, statement.link)
        if not isinstance(statement, Compute) or isinstance(statement.expr, Arg | Constant):
            continue
        for part in parts(statement.expr):
            needs = _NEEDS.get(part.dtype, 0)
            if arch < needs:
                raise _refused(part.dtype, needs, arch, statement.link)


def _refused(dtype: DType, needs: int, arch: int, link: Link | None) -> DecompositionError:
    return DecompositionError(
        "conversion-arch",
        f"converting {dtype} takes an instruction of sm_{needs}, and this is for sm_{arch}",
        fix=f"compile for sm_{needs} or later, or convert the arrays before the kernel",
        link=link,
    )
