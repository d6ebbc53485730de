"""Element types: how many bits, which NumPy type means them, and how accurate they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from fireiron.base.errors import SpecError

if TYPE_CHECKING:
    import numpy as np

Kind: TypeAlias = Literal["float", "int"]


@attrs.frozen
class DType:
    """Describe one element type.

    Args:
        name: the short name that prints everywhere (`f16`, `i8`).
        bits: storage bits of one element.
        kind: floating point or integer.
        numpy_name: NumPy's (or ml_dtypes') name of the type that holds it exactly.
        mantissa: explicit mantissa bits of a float, 0 for integers.
    """

    name: str
    bits: int
    kind: Kind
    numpy_name: str
    mantissa: int = 0

    @property
    def nbytes(self) -> int:
        """Give the storage bytes of one element."""
        return self.bits // 8

    @property
    def epsilon(self) -> float:
        """Give half a unit in the last place at 1.0: the relative rounding error (0 for integers)."""
        return 2.0 ** -(self.mantissa + 1) if self.kind == "float" else 0.0

    @property
    def numpy(self) -> np.dtype[Any]:
        """Give the NumPy dtype (imports ml_dtypes for bf16 and the fp8 types)."""
        import numpy as np

        if self.numpy_name in ("bfloat16",):
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.numpy_name))
        return np.dtype(self.numpy_name)

    def __str__(self) -> str:
        return self.name


f64 = DType("f64", 64, "float", "float64", 52)
f32 = DType("f32", 32, "float", "float32", 23)
f16 = DType("f16", 16, "float", "float16", 10)
bf16 = DType("bf16", 16, "float", "bfloat16", 7)
i32 = DType("i32", 32, "int", "int32")
i8 = DType("i8", 8, "int", "int8")
u8 = DType("u8", 8, "int", "uint8")

DTYPES = (f64, f32, f16, bf16, i32, i8, u8)

_ALIASES = {
    "float64": f64, "double": f64, "fp64": f64,
    "float32": f32, "float": f32, "fp32": f32,
    "float16": f16, "half": f16, "fp16": f16,
    "bfloat16": bf16,
    "int32": i32, "s32": i32, "int8": i8, "s8": i8, "uint8": u8,
}  # fmt: skip


def dtype(name: object) -> DType:
    """Find a dtype by its name, an alias, or a NumPy/torch dtype object.

    Raises:
        SpecError: `unknown-dtype`.

    Example:
        >>> dtype("float16") is f16
        True
    """
    if isinstance(name, DType):
        return name
    text = str(getattr(name, "name", name)).removeprefix("torch.").lower()
    by_name = {d.name: d for d in DTYPES} | _ALIASES
    if text in by_name:
        return by_name[text]
    raise SpecError(
        "unknown-dtype",
        f"unknown dtype {name!r}",
        fix="use one of " + ", ".join(d.name for d in DTYPES),
    )


def default_accumulator(d: DType) -> DType:
    """Choose the accumulator of products of `d`: f32 for 16-bit floats, i32 for integers, else `d` itself."""
    if d.kind == "int":
        return i32
    return f32 if d.bits == 16 else d
