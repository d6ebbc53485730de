"""What every picture is: an object that shows itself in a notebook, is saved, and says in a terminal what it shows."""

from __future__ import annotations

import textwrap
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import attrs

from fireiron.base.errors import UsageError
from fireiron.show.page import WIDTH
from fireiron.show.svg import Drawing, Theme

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


class Printer(Protocol):
    """Print as IPython does."""

    def text(self, text: str) -> None:
        """Write a text."""
        ...


@attrs.frozen(eq=False, repr=False)
class Picture:
    """Hold a drawing and its words.

    A notebook shows the drawing; it needs no script and no network, and follows the notebook's light or dark theme.
    Where the mouse rests on a shape, a tip says more.

    Args:
        title: what it shows.
        drawing: the shapes.
        words: the same in lines for a terminal.
    """

    title: str
    drawing: Drawing
    words: str

    def svg(self, theme: Theme = "auto") -> str:
        """Write the SVG; `auto` follows the theme of the page that holds it, else the reader's preference."""
        return self.drawing.svg(theme)

    def png(self, theme: Theme = "light", zoom: float = 2.0) -> bytes:
        """Make a PNG; needs `pip install fireiron[png]`.

        Raises:
            UsageError: `no-converter` where that is not installed.
        """
        try:
            import resvg_py  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            raise UsageError(
                "no-converter", "PNG needs a converter, and none is installed", fix='pip install "fireiron[png]"'
            ) from None
        style = "light" if theme == "auto" else theme
        made = resvg_py.svg_to_bytes(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            svg_string=self.svg(style), zoom=round(zoom), monospace_family="DejaVu Sans Mono"
        )
        return bytes(made)  # pyright: ignore[reportUnknownArgumentType]

    def save(self, path: str | PathLike[str], theme: Theme = "auto") -> Path:
        """Write the picture to a file, SVG or PNG by its name's end.

        Raises:
            UsageError: `picture-format`, `no-converter`.
        """
        file = Path(path)
        if file.suffix == ".svg":
            file.write_text(self.svg(theme), encoding="utf-8")
        elif file.suffix == ".png":
            file.write_bytes(self.png(theme))
        else:
            raise UsageError("picture-format", f"cannot save a picture as {file.name}", fix="name it .svg or .png")
        return file

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        return self.words

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield Text(self.words)

    def html(self) -> str:
        """Write the picture for a page: the SVG inside the page itself, so that it follows the page's theme."""
        return f'<div style="overflow-x:auto">{self.svg().strip()}</div>'

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        # JupyterLab shows SVG as an image, which sees neither the page's theme nor the mouse; HTML does.
        return {"text/html": self.html(), "image/svg+xml": self.svg(), "text/plain": self.words}

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(self.words)


def wrapped(*paragraphs: str, indent: str = "") -> str:
    """Fold paragraphs to the width of a terminal; lines that fit stay as they are.

    Example:
        >>> print(wrapped("one", "two"))
        one
        two
    """
    lines: list[str] = []
    for paragraph in paragraphs:
        for line in paragraph.splitlines() or [""]:
            folded = textwrap.wrap(line, WIDTH, subsequent_indent=indent or "  ") if len(line) > WIDTH else [line]
            lines += folded or [""]
    return "\n".join(line.rstrip() for line in lines)
