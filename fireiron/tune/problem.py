"""Problems: what is multiplied, as plain data, so that records of one machine are found on another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from fireiron.algebra.expr import as_int
from fireiron.base.errors import UsageError
from fireiron.language.specs import Coefficient, MatMul, Task
from fireiron.language.tensor import RowMajor, Tensor

FREE = 0  # stands for an extent that is a symbol


@attrs.frozen
class Problem:
    """Describe a product.

    Args:
        m, n, k: extents; 0 for a symbol.
        a, b, acc, c: element types.
        layout: the letters of `matmul`, and of C where it is column-major.
        batch: number of products, 1 for one.
        scaled: alpha and beta, where they are not 1 and 0.
        product: what is summed, where it is no product of numbers: "xor" or "and" of bits.
        given: keywords of the preset that are part of the problem (`ops=...`), as text.
    """

    m: int
    n: int
    k: int
    a: str = "f32"
    b: str = "f32"
    acc: str = "f32"
    c: str = "f32"
    layout: str = "NN"
    batch: int = 1
    scaled: str = ""
    given: str = ""
    product: str = "mul"

    @property
    def family(self) -> tuple[object, ...]:
        """Give all but the extents: problems of one family may borrow each other's schedules."""
        return (self.a, self.b, self.acc, self.c, self.layout, self.batch > 1, self.scaled, self.given, self.product)

    @property
    def flops(self) -> float:
        """Count the operations."""
        return 2.0 * self.m * self.n * self.k * self.batch

    def distance(self, other: Problem) -> float:
        """Say how far two problems of one family are apart: doublings of M, N, K and of the batch; symbols fit all.

        Example:
            >>> Problem(512, 512, 64).distance(Problem(1024, 512, 128))
            2.0
        """
        pairs = ((self.m, other.m), (self.n, other.n), (self.k, other.k), (self.batch, other.batch))
        return sum(abs(math.log2(x / y)) for x, y in pairs if FREE not in (x, y))

    def to_json(self) -> dict[str, Any]:
        """Give plain data, without what is as usual."""
        usual = {field.name: field.default for field in attrs.fields(Problem)}
        return {name: value for name, value in attrs.asdict(self).items() if value != usual[name] or name in "mnk"}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Problem:
        """Read what `to_json` gave.

        Raises:
            TypeError: where it is something else.
        """
        numbers = ("m", "n", "k", "batch")
        if not all(isinstance(value, int if name in numbers else str) for name, value in facts.items()):
            raise TypeError(f"{dict(facts)} is no problem")
        return cls(**facts)

    def __str__(self) -> str:
        words = [f"{self.m or 'M'}x{self.n or 'N'}x{self.k or 'K'}"]
        words += [f"by {self.batch}"] if self.batch > 1 else []
        kinds = [self.a if self.a == self.b else f"{self.a}*{self.b}"]
        kinds += [self.acc, self.c] if (self.acc, self.c) != (self.a, self.a) else []
        words += [":".join(kinds), self.layout, *filter(None, (self.scaled, self.given))]
        return " ".join([*words, *([self.product] if self.product != "mul" else [])])


def problem(program: Task, given: Mapping[str, Any] | None = None) -> Problem:
    """Describe what a program multiplies.

    Args:
        program: one MatMul.
        given: keywords of the preset that are part of the problem.

    Raises:
        UsageError: `not-a-product`.
    """
    spec = program.spec
    if not isinstance(spec, MatMul):
        raise UsageError("not-a-product", f"{spec} is no product", fix="tune and best take what matmul(...) gives")
    m, k = spec.A.shape[-2:]
    n = spec.B.shape[-1]
    batch = spec.C.shape[0] if len(spec.C.shape) == 3 else 1
    sizes = [as_int(x) or FREE for x in (m, n, k, batch)]
    scaled = [
        f"{name}={_said(x)}"
        for name, x, usual in (("alpha", spec.alpha, 1.0), ("beta", spec.beta, 0.0))
        if x.name or x.value != usual
    ]
    return Problem(
        *sizes[:3],
        a=spec.A.dtype.name,
        b=spec.B.dtype.name,
        acc=spec.accumulator.name,
        c=spec.C.dtype.name,
        layout=_letter(spec.B) + _letter(spec.A) + ("" if spec.C.order is RowMajor else "T"),
        batch=sizes[3],
        scaled=",".join(scaled),
        given=",".join(f"{name}={value!r}" for name, value in sorted((given or {}).items())),
        product=spec.product,
    )


def _letter(tensor: Tensor) -> str:
    return "N" if tensor.order is RowMajor else "T"


def _said(value: Coefficient) -> str:
    return value.name or f"{value.value:g}"
