"""The spec of a command: shape, dtypes, layout, batch and coefficients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from fireiron.base.errors import FireironError, UsageError

if TYPE_CHECKING:
    from fireiron.front.chain import MatMulChain, MoveChain

Extent = int | str
DEFAULT_SHAPE: tuple[Extent, ...] = (256, 256, 128)


@attrs.frozen
class Problem:
    """Hold the options of a command that describe a spec; None for options that were not given.

    Args:
        shape: M, N, K; M, N for a Move; or the extents of a program's dims. Numbers or names of symbols.
        dtype: element types of the inputs, the accumulator and the output, as `in[:acc[:out]]`.
        layout: NN, NT, TN or TT.
        batch: number of products.
        groups: number of products that share the M rows of A and C.
        alpha: a number, or the name of a scalar given at the call.
        beta: a number, or the name of a scalar given at the call.
    """

    shape: tuple[Extent, ...] | None = None
    dtype: str | None = None
    layout: str | None = None
    batch: Extent | None = None
    groups: Extent | None = None
    alpha: float | str | None = None
    beta: float | str | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """List the options that were given."""
        return tuple(f"--{name}" for name, value in attrs.asdict(self).items() if value is not None)

    def over(self, other: Problem) -> Problem:
        """Fill in options that were not given from another problem."""
        mine, theirs = attrs.asdict(self), attrs.asdict(other)
        return Problem(**{name: theirs[name] if mine[name] is None else mine[name] for name in mine})

    def spec(self) -> MatMulChain:
        """Build the spec of a product.

        Raises:
            UsageError: `bad-shape`, `bad-layout`, `unknown-dtype`, `bad-extent`, `batch-groups`.
        """
        from fireiron.algebra.dtypes import dtype as find_dtype
        from fireiron.algebra.expr import symbol
        from fireiron.front.spec import matmul

        def extent(value: Extent, multiple: int = 1) -> object:
            return symbol(value, multiple_of=multiple) if isinstance(value, str) else value

        names = [name or None for name in (self.dtype or "f32").split(":")]
        dtype, acc, out = (*names, None, None)[:3]
        m, n, k = self._extents("a product", 3)
        try:
            pack = find_dtype(dtype).pack  # elements that share a byte fill whole bytes along K
            return matmul(
                extent(m),  # pyright: ignore[reportArgumentType]
                extent(n),  # pyright: ignore[reportArgumentType]
                extent(k, pack),  # pyright: ignore[reportArgumentType]
                dtype,
                acc=acc,
                out=out,
                layout=self.layout or "NN",
                batch=None if self.batch is None else extent(self.batch),  # pyright: ignore[reportArgumentType]
                groups=None if self.groups is None else extent(self.groups),  # pyright: ignore[reportArgumentType]
                alpha=1.0 if self.alpha is None else self.alpha,
                beta=0.0 if self.beta is None else self.beta,
            )
        except FireironError as error:
            # The user's mistake stands in the command, not in the file that reads it.
            raise UsageError(error.code, error.message, fix=error.fix) from None

    def move(self) -> MoveChain:
        """Build the spec of a Move between two matrices: a copy, or with `--layout row,col` a transpose.

        Raises:
            UsageError: `bad-shape`, `fixed-spec`, `unknown-dtype`, `bad-extent`.
        """
        from fireiron.front.spec import Move
        from fireiron.language.storage_order import LAYOUTS
        from fireiron.language.tensor import ColMajor, Matrix, RowMajor

        if others := [word for word in self.said if word not in ("--shape", "--dtype", "--layout")]:
            raise UsageError("fixed-spec", f"a Move has no {others[0]}", fix="drop the option")
        m, n = self._extents("a Move", 2)
        names = [name for name in (self.dtype or "f32").split(":") if name]
        orders = [RowMajor if word == "row" else ColMajor for word in LAYOUTS[self.layout or "NN"].split(",")]
        try:
            src, dst = (
                Matrix(m, n, kind, order, name=name)  # pyright: ignore[reportArgumentType]
                for kind, order, name in zip((names[0], names[-1]), orders, ("src", "dst"), strict=True)
            )
            return Move(src, dst)
        except FireironError as error:
            raise UsageError(error.code, error.message, fix=error.fix) from None

    def _extents(self, what: str, count: int) -> tuple[Extent, ...]:
        """Return the shape, which must have `count` extents."""
        found = self.shape or DEFAULT_SHAPE[:count]
        if len(found) != count:
            said, form = "x".join(map(str, found)), "x".join("MNK"[:count])
            raise UsageError("bad-shape", f"--shape {said}: {what} has {count} extents", fix=f"write --shape {form}")
        return found


def shape(text: str) -> tuple[Extent, ...]:
    """Read `MxNxK`, or a Move's `MxN`, or as many extents as a program has dims.

    Raises:
        ValueError: where the text has another form.

    Example:
        >>> shape("512x512x64"), shape("Mx4096xK")
        ((512, 512, 64), ('M', 4096, 'K'))
    """
    return tuple(extent(word) for word in text.split("x"))


def extent(text: str) -> Extent:
    """Read a number, or the name of a symbol.

    Raises:
        ValueError: where the text is neither.
    """
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return text
    if not text.isdecimal():
        raise ValueError(f"{text!r} is neither a number nor a name")
    value = int(text)
    if value < 1:
        raise ValueError(f"{text!r} is too small: extents start at 1")
    return value


def dtypes(text: str) -> str:
    """Check the form of `in[:acc[:out]]`; the names are checked where the spec is built.

    Raises:
        ValueError: for more than three types.
    """
    if not 1 <= len(text.split(":")) <= 3 or not text.split(":")[0]:
        raise ValueError(f"{text!r} is not in[:acc[:out]]")
    return text


def coefficient(text: str) -> float | str:
    """Read a number, or the name of a scalar.

    Raises:
        ValueError: where the text is neither.
    """
    return text if re.fullmatch(r"[A-Za-z_]\w*", text) else float(text)


def setting(text: str) -> tuple[str, int | float]:
    """Read `NAME=VALUE`.

    Raises:
        ValueError: where the text has another form.
    """
    name, _, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    try:
        return name, int(value)
    except ValueError:
        return name, float(value)
