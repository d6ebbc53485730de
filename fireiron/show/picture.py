"""The class of all pictures: drawn in a notebook, saved to a file, printed as text in a terminal."""

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
    """The part of IPython's printer that is used."""

    def text(self, text: str) -> None:
        """Write a text."""
        ...


@attrs.frozen(eq=False, repr=False)
class Picture:
    """Hold a drawing and its description in words.

    A notebook shows the drawing, which needs no script and no network, and follows the notebook's light or dark theme.
    Shapes have tips with more facts.

    Args:
        title: the picture's title.
        drawing: the shapes of the picture.
        words: the description as lines of text.
    """

    title: str
    drawing: Drawing
    words: str

    def svg(self, theme: Theme = "auto") -> str:
        """Write the SVG; `auto` follows the theme of the page around it, else the reader's system."""
        return self.drawing.svg(theme)

    def png(self, theme: Theme = "light", zoom: float = 2.0) -> bytes:
        """Make a PNG; this needs `pip install fireiron[png]`.

        Raises:
            UsageError: `no-converter` where the converter is not installed.
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
        """Write the picture to a file; the name's ending chooses SVG or PNG.

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
        """Write the picture as HTML with the SVG inline, so that it follows the page's theme."""
        return f'<div style="overflow-x:auto">{self.svg().strip()}</div>'

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        # JupyterLab shows SVG as an image, which sees neither the page's theme nor the mouse; HTML does.
        return {"text/html": self.html(), "image/svg+xml": self.svg(), "text/plain": self.words}

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(self.words)


def wrapped(*paragraphs: str, indent: str = "") -> str:
    """Fold paragraphs to the width of a terminal; lines that fit are not changed.

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
