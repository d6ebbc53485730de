"""Text: an indenting writer for any kind of text, and numbers with their units."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import cast


class Writer:
    """Collect lines at the current indent.

    Args:
        step: what one indent adds.

    Example:
        >>> w = Writer()
        >>> with w.block("if (lane == 0) {", "}"):
        ...     w.line("wait(full);")
        >>> print(w.text(), end="")
        if (lane == 0) {
          wait(full);
        }
    """

    def __init__(self, step: str = "  ") -> None:
        self._step = step
        self._depth = 0
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        r"""Write one line; text of several lines is written at the same indent, and an empty line bare.

        Example:
            >>> w = Writer()
            >>> with w.indent():
            ...     w.line("a = 1;\n\nb = 2;")
            >>> w.text()
            '  a = 1;\n\n  b = 2;\n'
        """
        prefix = self._step * self._depth
        self._lines += [prefix + part if part else "" for part in text.split("\n")]

    def lines(self, texts: Iterable[str]) -> None:
        r"""Write several lines.

        Example:
            >>> w = Writer()
            >>> w.lines(f"x{i} = 0;" for i in range(2))
            >>> w.text()
            'x0 = 0;\nx1 = 0;\n'
        """
        for text in texts:
            self.line(text)

    @contextmanager
    def indent(self) -> Generator[None, None, None]:
        """Write what is inside the `with` one step deeper."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def block(self, open: str, close: str = "}") -> Generator[None, None, None]:
        """Write `open`, what is inside the `with` one step deeper, and `close`; an empty `close` writes no line."""
        self.line(open)
        with self.indent():
            yield
        if close:
            self.line(close)

    def text(self) -> str:
        """Return all lines, each with its line end; empty where nothing was written."""
        return "".join(f"{line}\n" for line in self._lines)


def by(value: object) -> str:
    """Write the numbers of a tuple with `x` between them; any other value as text.

    Example:
        >>> by((128, 64)), by(3)
        ('128x64', '3')
    """
    return "x".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)


def count(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun, the plural made with `s` unless given.

    Example:
        >>> count(1, "warp"), count(3, "warp"), count(0, "warp"), count(2, "entry", "entries")
        ('1 warp', '3 warps', '0 warps', '2 entries')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def nbytes(n: int) -> str:
    """Return a size in the largest binary unit not above it: whole if it is exact, else with one decimal.

    Example:
        >>> nbytes(16), nbytes(69632), nbytes(1536), nbytes(3 << 30)
        ('16 B', '68 KiB', '1.5 KiB', '3 GiB')

        One byte too many shows:

        >>> nbytes(227 * 1024), nbytes(227 * 1024 + 1)
        ('227 KiB', '227.0 KiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(max(abs(n).bit_length() - 1, 0) // 10, len(units) - 1)
    size = 1 << 10 * power
    return f"{n // size} {units[power]}" if n % size == 0 else f"{n / size:.1f} {units[power]}"


def printable(text: str) -> str:
    r"""Replace characters that control a terminal; line ends and tabs stay.

    Example:
        >>> printable("a\x1b[31m\tb\n\u202ec")
        'a?[31m\tb\n?c'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
