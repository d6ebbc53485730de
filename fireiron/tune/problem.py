"""Problems: descriptions of computations as plain data, by which records of another machine are found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from fireiron.algebra.expr import as_int
from fireiron.base.errors import UsageError
from fireiron.language.meaning import Meaning, hashed, of_program, text
from fireiron.language.specs import Coefficient, MatMul
from fireiron.language.steps import Program
from fireiron.language.tensor import RowMajor, Tensor
from fireiron.tune.plain import number, words

FREE = 0  # stands for an extent that is a symbol
_size, _word = number(0, 2**40, whole=True), words()


@attrs.frozen
class Problem:
    """Describe a product, or a program.

    Args:
        m, n, k: extents of a product; 0 for a symbol. For a program: the number of lines of its first result, the
            extent of the result's last dim, and the number of points that the first fold folds.
        a, b, acc, c: element types.
        layout: the letters of `matmul`; a third letter T where C is column-major.
        batch: number of products, 1 for one.
        scaled: text of alpha if it is not 1, and of beta if it is not 0.
        product: the term that is summed: "mul", or for bits "xor" or "and".
        given: keywords of the preset that are part of the problem (`ops=...`), as text.
        kind: the computation beyond a product of dense matrices: words, and a digest without sizes. Example:
            "prolog+ops #1f0a66c2". "" for a plain product.
        meaning: digest of the whole program, "" where the other fields determine the program.

    Raises:
        ValueError: for a field of another type, or beyond its range.
    """

    m: int = attrs.field(validator=_size)
    n: int = attrs.field(validator=_size)
    k: int = attrs.field(validator=_size)
    a: str = attrs.field(default="f32", validator=_word)
    b: str = attrs.field(default="f32", validator=_word)
    acc: str = attrs.field(default="f32", validator=_word)
    c: str = attrs.field(default="f32", validator=_word)
    layout: str = attrs.field(default="NN", validator=_word)
    batch: int = attrs.field(default=1, validator=_size)
    scaled: str = attrs.field(default="", validator=_word)
    given: str = attrs.field(default="", validator=words(4000))
    product: str = attrs.field(default="mul", validator=_word)
    kind: str = attrs.field(default="", validator=_word)
    meaning: str = attrs.field(default="", validator=_word)

    @property
    def family(self) -> tuple[object, ...]:
        """Return all fields but the extents: problems of one family may use each other's schedules."""
        types = self.a, self.b, self.acc, self.c
        return (*types, self.layout, self.batch > 1, self.scaled, self.given, self.product, self.kind)

    @property
    def flops(self) -> float:
        """Count the operations."""
        return 2.0 * self.m * self.n * self.k * self.batch

    def distance(self, other: Problem) -> float:
        """Return the distance of two problems of one family: doublings of M, N, K and batch, without those of symbols.

        Example:
            >>> Problem(512, 512, 64).distance(Problem(1024, 512, 128))
            2.0
        """
        pairs = ((self.m, other.m), (self.n, other.n), (self.k, other.k), (self.batch, other.batch))
        return sum(abs(math.log2(x / y)) for x, y in pairs if FREE not in (x, y))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data, without fields that have their default."""
        usual = {field.name: field.default for field in attrs.fields(Problem)}
        return {name: value for name, value in attrs.asdict(self).items() if value != usual[name] or name in "mnk"}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Problem:
        """Read the result of `to_json`.

        Raises:
            TypeError, ValueError: for other data.
        """
        return cls(**facts)

    def __str__(self) -> str:
        words = [f"{self.m or 'M'}x{self.n or 'N'}x{self.k or 'K'}"]
        words += [f"by {self.batch}"] if self.batch > 1 else []
        kinds = [self.a if self.a == self.b else f"{self.a}*{self.b}"]
        kinds += [self.acc, self.c] if (self.acc, self.c) != (self.a, self.a) else []
        words += [":".join(kinds), self.layout, *filter(None, (self.scaled, self.given, self.kind))]
        return " ".join([*words, *([self.product] if self.product != "mul" else [])])


def problem(spec: Any, given: Mapping[str, Any] | None = None) -> Problem:
    """Describe the computation of a chain.

    Args:
        spec: an empty schedule: the result of `matmul(...)` or of a function under `@program`.
        given: keywords of the preset that are part of the problem.

    Raises:
        UsageError: `not-a-product`.
    """
    if isinstance(spec.program.spec, Program):
        return of_steps(spec.program.spec, given)
    return described(meaning_of(spec), given)


def of_steps(program: Program, given: Mapping[str, Any] | None = None) -> Problem:
    """Describe a program by its sizes and types, and by a digest of the rest."""
    (out, *_), inputs = program.outputs, program.inputs
    fold = next((step for step in program.steps if step.fold is not None), None)
    *rows, columns = out.shape
    folded = () if fold is None else tuple(1 if d.extent is None else d.extent for d in fold.over)
    kinds = [t.dtype.name for t in inputs] or [out.dtype.name]
    kind, digest = of_program(program)
    return Problem(
        _count(rows), _count([columns]), _count(folded),
        a=kinds[0], b=kinds[min(1, len(kinds) - 1)],
        acc=out.dtype.name if fold is None or fold.fold is None else fold.fold.dtypes[0].name, c=out.dtype.name,
        given=_given(given), kind=kind, meaning=digest,
    )  # fmt: skip


def _count(extents: Sequence[Any]) -> int:
    """Multiply extents; 0 where one is a symbol."""
    return math.prod(int(as_int(x) or FREE) for x in extents)


def _given(given: Mapping[str, Any] | None) -> str:
    return ",".join(f"{name}={_told(value)}" for name, value in sorted((given or {}).items()))


def meaning_of(spec: Any) -> Meaning:
    """Return the meaning of a chain of one MatMul.

    Raises:
        UsageError: `not-a-product`.
    """
    found = spec.program.spec
    if not isinstance(found, MatMul):
        raise UsageError(
            "not-a-product", f"{found} is no product", fix="tune and best take what matmul(...) or a program gives"
        )
    return spec.meaning


def described(meaning: Meaning, given: Mapping[str, Any] | None = None) -> Problem:
    """Describe a meaning by fields, and by a digest of the properties that no field holds."""
    spec = meaning.spec
    m, k = spec.A.shape[-2:]
    n = spec.B.shape[-1]
    batch = spec.C.shape[0] if len(spec.C.shape) == 3 else 1
    sizes = [int(as_int(x) or FREE) for x in (m, n, k, batch)]
    scaled = [
        f"{name}={_said(x)}"
        for name, x, usual in (("alpha", spec.alpha, 1.0), ("beta", spec.beta, 0.0))
        if x.name or x.value != usual
    ]
    kind, digest = meaning.beyond
    return Problem(
        *sizes[:3],
        a=spec.A.dtype.name,
        b=spec.B.dtype.name,
        acc=spec.accumulator.name,
        c=spec.C.dtype.name,
        layout=_letter(spec.B) + _letter(spec.A) + ("" if spec.C.order is RowMajor else "T"),
        batch=sizes[3],
        scaled=",".join(scaled),
        given=_given(given),
        product=spec.product,
        kind=kind,
        meaning=digest,
    )


def _letter(tensor: Tensor) -> str:
    return "N" if tensor.order is RowMajor else "T"


def _said(value: Coefficient) -> str:
    short = f"{value.value:g}"
    return value.name or (short if float(short) == value.value else repr(value.value))


def _told(value: object) -> str:
    """Write plain data as text; other objects, such as functions, as a digest."""
    return repr(value) if _plain(value) else f"#{hashed(text(value))[:16]}"


def _plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(_plain(x) for x in cast("tuple[object, ...]", value))
    return value is None or isinstance(value, bool | int | float | str)
