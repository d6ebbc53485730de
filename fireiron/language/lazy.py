"""Slack of online loops: the factor by which a term may exceed the scale, and the test whether a term exceeds it.

In an online softmax the scale is the largest value so far. Results do not depend on the scale as long as nothing
overflows, so sums need not be rescaled for every new maximum. Where no term is negative, a chunk's sum is at least as
large as each of its terms: while the sum stays below the slack, so does every term.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Select, Unary, parts
from fireiron.base.errors import DecompositionError
from fireiron.language.online import EXPONENTIALS, Factor, Law, spelled
from fireiron.language.steps import Program, Step

MOST_SLACK = 64.0  # half of f32's exponent range: a sum of 2**60 such terms is finite


def lazy(program: Program, law: Law, slack: float, speculate: bool) -> None:
    """Raise an error for slack that a loop cannot have.

    Raises:
        DecompositionError: `online-slack` where the slack is out of range, an element type does not hold it, or an
            output shows the scale itself; `online-speculate` where no sum bounds the terms.
    """
    if not 0 <= slack <= MOST_SLACK or (speculate and not slack):
        raise DecompositionError(
            "online-slack",
            f"slack={slack:g} is out of range: a slack is 0 to {MOST_SLACK:g} powers of 2"
            + (", and speculation needs one above 0" if speculate else ""),
            fix="online(slack=24) where summands are bf16 or f32, slack=10 where they are f16",
        )
    if not slack:
        return
    makers = {out.name: s for s in program.steps for out in s.outs}
    for name, factors in law.factors.items():
        if any(factor.adds for factor in factors):
            raise DecompositionError(
                "online-slack",
                f"folds that depend on {name} are corrected by a sum, and slack supports only factors",
                fix="online() without slack",
            )
        _held(program, law, name, slack, makers)
        _unseen(program, law, name)
    if speculate and not witnesses(program, law):
        raise DecompositionError(
            "online-speculate",
            f"no sum in the loop over {law.dim} shows that a term exceeds the slack: that takes a sum of exponentials "
            "behind one fold, with one factor",
            fix=f"online(slack={slack:g}) without speculate=True",
        )


def witnesses(program: Program, law: Law) -> tuple[str, ...]:
    """Return the names of the sums without negative terms; () unless one fold scales all sums by the same factor."""
    if len(law.factors) != 1 or any(len(found) != 1 for found in law.factors.values()):
        return ()
    makers = {out.name: s for s in program.steps for out in s.outs}
    steps = {s.name: s for s in program.steps}
    found: list[str] = []
    for name in law.corrected:
        fold = steps[name].fold
        if fold is not None and fold.name == "add" and _never_negative(spelled(steps[name], makers)[0]):
            found.append(name)
    return tuple(found)


def doubling(law: Law, lead: Step) -> float | None:
    """Return by how much the scale must rise for terms to fall to a half; None where this is not a constant.

    Example: 1 where terms are exp2(x - m) and m, the scale, is the largest x.
    """
    if lead.fold is None or lead.fold.name != "max":
        return None
    match law.factors[lead.name]:
        case (Factor(Unary("exp2" | "exp" as op, Binary("sub", Arg(0), Arg(1)))),):
            per = 1.0
        case (Factor(Unary("exp2" | "exp" as op, Binary("mul", Binary("sub", Arg(0), Arg(1)), Constant(value=per)))),):
            pass
        case _:
            return None
    return (1.0 if op == "exp2" else log(2)) / per if per > 0 else None


def _never_negative(tree: Scalar) -> bool:
    match tree:
        case Unary(op) if op in EXPONENTIALS:
            return True
        case Constant(value=value):
            return value >= 0
        case Cast(x, dtype):
            return dtype.kind == "float" and _never_negative(x)
        case Select(_, x, y) | Binary("mul" | "add", x, y):
            return _never_negative(x) and _never_negative(y)
        case _:
            return False


def _held(program: Program, law: Law, lead: str, slack: float, makers: Mapping[str, Step]) -> None:
    """Raise an error for element types of terms that do not hold the slack."""
    steps = {s.name: s for s in program.steps}
    for name, found in law.corrected.items():
        if not any(other == lead for other, _ in found):
            continue
        tree, reads = spelled(steps[name], makers)
        outs = {out.name for out in steps[lead].outs}
        mine = {i for i, ref in enumerate(reads) if ref.name in outs}
        for part in parts(tree):
            inside = isinstance(part, Cast) and any(isinstance(x, Arg) and x.index in mine for x in parts(part.x))
            if isinstance(part, Cast) and inside and part.dtype.kind == "float" and part.dtype.limits[1] < 2**slack:
                most = part.dtype.limits[1]
                raise DecompositionError(
                    "online-slack",
                    f"step {name} rounds its summands to {part.dtype}, which holds {most:g} at most: slack={slack:g} "
                    f"lets them grow to {2**slack:g}",
                    fix=f"a slack of at most {int(most).bit_length() - 1}",
                )


def _unseen(program: Program, law: Law, lead: str) -> None:
    """Raise an error where the scale is an output of the program: outputs must hold the newest value."""
    step = next(s for s in program.steps if s.name == lead)
    outputs = {t.name for t in program.outputs}
    if any(out.name in outputs for out in step.outs):
        raise DecompositionError(
            "online-slack",
            f"step {lead} is an output, and with slack its value stays old",
            fix="online() without slack",
        )
