"""Convert rich renderables to plain text, and to HTML that is legible in light and dark themes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
    from rich.measure import Measurement
    from rich.text import Text

WIDTH: Final = 80
NOTEBOOK_WIDTH: Final = 100

# Styles of what is said, by the terminal's own colours: they fit the ground that its owner chose.
SPEC: Final = "bold"
LINK: Final = "cyan"
MEMORY: Final = "green"
ATOM: Final = "magenta"
OPEN: Final = "yellow"

# The same in HTML: each colour has a contrast of at least 3.5 with white and with #111.
COLOURS: Final = {
    "black": (122, 122, 122),
    "red": (200, 70, 60),
    "green": (46, 133, 64),
    "yellow": (154, 106, 0),
    "blue": (50, 120, 200),
    "magenta": (170, 80, 160),
    "cyan": (14, 124, 154),
    "white": (122, 122, 122),
}

_HTML: Final = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:1.25;'
    "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\">{code}</pre>"
)


def plain(renderable: ConsoleRenderable, width: int = WIDTH) -> str:
    """Print without colour, in lines of at most `width`, without spaces at line ends."""
    console = _console(width)
    console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in console.export_text(clear=True).splitlines())


def html(renderable: ConsoleRenderable, width: int = NOTEBOOK_WIDTH) -> str:
    """Print as one `<pre>` with inline styles, without scripts and without a background."""
    from rich.terminal_theme import TerminalTheme

    console = _console(width)
    console.print(renderable)
    palette = list(COLOURS.values())
    theme = TerminalTheme((255, 255, 255), (0, 0, 0), palette, palette)
    return console.export_html(theme=theme, inline_styles=True, code_format=_HTML)


def bundle(renderable: ConsoleRenderable, width: int = NOTEBOOK_WIDTH) -> dict[str, str]:
    """Return the dictionary for a notebook's `_repr_mimebundle_`."""
    return {"text/plain": plain(renderable, width), "text/html": html(renderable, width)}


def _console(width: int) -> Console:
    import io

    from rich.console import Console

    # An environment of its own: neither NO_COLOR nor a notebook's variables change what is printed.
    return Console(
        width=width, file=io.StringIO(), record=True, force_jupyter=False, force_terminal=True, color_system="standard",
        legacy_windows=False, highlight=False, emoji=False, markup=False, _environ={},
    )  # fmt: skip


@attrs.frozen
class Row:
    """Print two texts side by side, the second at a column, or below each other where the line is too short.

    Args:
        first, second: the texts; `second` may be empty.
        column: column at which the second text starts.
    """

    first: Text
    second: Text
    column: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        width = options.max_width
        column = max(self.column, self.first.cell_len + 1)
        if not self.second:
            yield from hanging(self.first, width)
        elif column + self.second.cell_len <= width:
            yield Text.assemble(self.first, " " * (column - self.first.cell_len), self.second)
        elif self.first.cell_len + 1 + self.second.cell_len <= width:
            yield Text.assemble(self.first, " ", self.second)
        else:
            yield from hanging(self.first, width)
            yield from hanging(self.second, width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(min(20, options.max_width), options.max_width)


def hanging(text: Text, width: int, indent: int = 2) -> list[Text]:
    """Fold a text; lines after the first are indented."""
    import io

    from rich.console import Console
    from rich.text import Text

    if text.cell_len <= width:
        return [text]
    console = Console(file=io.StringIO(), width=width)
    first = text.wrap(console, width)[0]
    rest = text[len(first.plain.rstrip()) :]
    while rest.plain.startswith(" "):
        rest = rest[1:]
    folded = rest.wrap(console, max(1, width - indent))
    return [first, *(Text.assemble(" " * indent, line) for line in folded)]
