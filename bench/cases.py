"""Cases: one problem each, as plain data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import UsageError

if TYPE_CHECKING:
    from fireiron.front.matmul import MatMulChain

LAYOUTS = ("NN", "NT", "TN", "TT")


@attrs.frozen
class Case:
    """Describe one product.

    Args:
        m, n, k: extents.
        dtype: element types of the inputs, the accumulator and the output, as `in[:acc[:out]]`.
        layout: the layout of the row-major arrays, as `matmul` takes it.
        batch: number of products.
        ops: operations after the product in the same kernel, joined by "+": `bias` (adds a row), `relu`, `gelu`,
            `silu`, `residual` (adds a matrix).
        product: for bits, `and` or `xor`.

    Example:
        >>> str(Case(512, 256, 64, "f16", "TN")), Case(512, 256, 64).flops
        ('512x256x64 f16 TN', 16777216.0)
    """

    m: int
    n: int
    k: int
    dtype: str = "f32"
    layout: str = "NN"
    batch: int | None = None
    ops: str = ""
    product: str = ""

    @property
    def shape(self) -> str:
        """Write the extents."""
        return f"{self.m}x{self.n}x{self.k}" + (f" by {self.batch}" if self.batch else "")

    @property
    def key(self) -> str:
        """Name the case in results: equal for equal problems."""
        return str(self)

    @property
    def types(self) -> tuple[DType, DType, DType]:
        """Give the element types of the inputs, the accumulator and the output."""
        spec = self.spec().matmul
        return spec.A.dtype, spec.accumulator, spec.C.dtype

    @property
    def flops(self) -> float:
        """Count the operations."""
        return 2.0 * self.m * self.n * self.k * (self.batch or 1)

    @property
    def nbytes(self) -> float:
        """Count the bytes that must be moved: each operand once."""
        inside, _, outside = self.types
        whole = 1 + ("residual" in self.steps)
        each = inside.nbytes_of(self.m * self.k + self.k * self.n) + whole * self.m * self.n * outside.nbytes
        return float(each * (self.batch or 1))

    @property
    def steps(self) -> tuple[str, ...]:
        """List the operations after the product."""
        return tuple(filter(None, self.ops.split("+")))

    def spec(self) -> MatMulChain:
        """Return the spec of the case, with the operations after the product."""
        from fireiron import Matrix, Vector, add, gelu, relu, silu
        from fireiron.front.spec import matmul

        names = [name or None for name in self.dtype.split(":")]
        dtype, acc, out = (*names, None, None)[:3]
        product = matmul(
            self.m, self.n, self.k, dtype, acc=acc, out=out, layout=self.layout, batch=self.batch,
            product=cast("Any", self.product or None),
        )  # fmt: skip
        kind = product.matmul.C.dtype
        made = {
            "bias": add(Vector(self.n, kind, name="bias")),
            "residual": add(Matrix(self.m, self.n, kind, name="residual")),
            **{"relu": relu, "gelu": gelu, "silu": silu},
        }
        return product.then(*(made[step] for step in self.steps)) if self.steps else product

    def to_json(self) -> dict[str, Any]:
        """Give plain data."""
        facts = attrs.asdict(self)
        return {name: value for name, value in facts.items() if value not in (None, "")}

    def __str__(self) -> str:
        return " ".join(filter(None, (self.shape, self.dtype, self.layout, self.product, self.ops)))


def case(shape: str, dtype: str = "f32", layout: str = "NN", batch: int | None = None) -> Case:
    """Read a case.

    Args:
        shape: `MxNxK`.
        dtype: `in[:acc[:out]]`.
        layout: NN, NT, TN or TT.
        batch: number of products.

    Raises:
        UsageError: `bad-shape`. SpecError: `unknown-dtype`, `bad-layout`.

    Example:
        >>> case("512x256x64", "f16").k
        64
    """
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)", shape.strip())
    if found is None or "0" in found.groups():
        raise UsageError("bad-shape", f"{shape!r} is not MxNxK", fix="write three positive numbers, as 4096x4096x4096")
    m, n, k = (int(word) for word in found.groups())
    made = Case(m, n, k, dtype, layout, batch)
    made.spec()  # refuses wrong element types and layouts here
    return made


def with_options(cases: Sequence[Case], dtype: str | None, layout: str | None) -> tuple[Case, ...]:
    """Replace the fields that the command line sets; equal cases are kept once."""
    chosen = {name: value for name, value in (("dtype", dtype), ("layout", layout)) if value is not None}
    if dtype is not None:
        find_dtype(dtype.split(":")[0])
    return tuple(dict.fromkeys(attrs.evolve(each, **chosen) for each in cases))
