"""A small SVG writer: shapes with classes, and style sheets for light and dark themes.

A picture has its own background, so that it is legible on any page. Background and colours follow the page's theme
(Jupyter, VS Code, Colab, MkDocs, Bootstrap), or else the theme of the reader's system. Text is monospaced, so that its
width is known without measuring.
"""

from __future__ import annotations

import colorsys
from html import escape
from itertools import groupby
from typing import Final, Literal

import attrs

Theme = Literal["auto", "light", "dark", "page"]
Anchor = Literal["start", "middle", "end"]

# What pages say of their theme, on elements around a picture: (light, dark).
_PAGES: Final = (
    ('[data-jp-theme-light="true"]', '[data-jp-theme-light="false"]'),  # JupyterLab, Notebook 7
    ('[data-vscode-theme-kind="vscode-light"]', '[data-vscode-theme-kind="vscode-dark"]'),
    ('[data-md-color-scheme="default"]', '[data-md-color-scheme="slate"]'),  # MkDocs Material
    ('[data-bs-theme="light"]', '[data-bs-theme="dark"]'),  # Bootstrap 5, MkDocs
    ('html[theme="light"]', 'html[theme="dark"]'),  # Colab
)
HUES: Final = 32
SHADES: Final = 9  # of a value, from the most negative to the most positive
SIZE: Final = 12.0
ADVANCE: Final = 0.602  # of a monospaced character, in its size

# Class: (light, dark). `ground` is the card, `panel` what stands on it.
_FILLS: Final = {
    "ground": ("#ffffff", "#161b22"),
    "panel": ("#f3f5f8", "#20272f"),
    "empty": ("#e8ebef", "#2a323c"),
    "spec": ("#e7effb", "#1d2f49"),
    "load": ("#bfe6ca", "#22603a"),
    "put": ("#cde295", "#4b5c1c"),
    "math": ("#f2c4e6", "#743a6b"),
    "store": ("#bcd6f8", "#28508a"),
    "wait": ("#fbdc8e", "#765a10"),
    "flight": ("#a9e3ea", "#115f6a"),
    "held": ("#d3d9e0", "#4d5966"),
    "bad": ("#ffb2a8", "#8f352e"),
    "halo": ("#8b95a1", "#8b97a5"),
    "added": ("#dcf5e1", "#17401f"),
    "removed": ("#ffe2df", "#55221f"),
    "changed": ("#fdf1cf", "#463912"),
}
_INKS: Final = {
    "ink": ("#1c2128", "#e9eef4"),
    "faint": ("#5b6570", "#9aa6b2"),
    "dim": ("#47505a", "#dbe2ea"),  # on coloured cells
    "link": ("#0b6a86", "#5cc0dc"),
    "atom": ("#93388a", "#dc8fd2"),
    "memory": ("#1f7a37", "#71c988"),
    "alarm": ("#b3261e", "#ff8b80"),
    "note": ("#845a00", "#e0b350"),
}
_LINES: Final = {
    "edge": ("#b8c1cc", "#4a5562", 1.0),
    "hair": ("#d9dee5", "#39434e", 0.75),
    "strong": ("#1c2128", "#e9eef4", 2.0),
    "order": ("#1c2128", "#e9eef4", 1.25),
    "red": ("#b3261e", "#ff8b80", 2.0),
    "blue": ("#1f66c1", "#6aa9f4", 2.0),
    "green": ("#1f7a37", "#71c988", 2.0),
    "orange": ("#a86400", "#e0a24a", 2.0),
}
_OTHER: Final = {"none": "fill:none", "crisp": "shape-rendering:crispEdges"}  # edges on whole pixels leave no seams
_SHEET = "fi-"  # every class starts so: a page may hold other drawings


@attrs.frozen
class Part:
    """Hold one shape: attributes that it shares with similar shapes, and its own.

    Consecutive shapes with equal `common` are written as one element, which keeps drawings of many cells small.
    """

    kind: Literal["box", "text", "other"]
    common: str
    own: str


def _written(parts: list[Part]) -> str:
    found: list[str] = []
    for (kind, common), same in groupby(parts, key=lambda part: (part.kind, part.common)):
        own = [part.own for part in same]
        if kind == "box":
            found.append(f'<path{common} d="{"".join(own)}"/>')
        elif kind == "text" and len(own) > 1:
            found.append(f"<g{common}>{''.join(f'<text{each}</text>' for each in own)}</g>")
        elif kind == "text":
            found.append(f"<text{common}{own[0]}</text>")
        else:
            found += own
    return "".join(found)


def width_of(text: str, size: float = SIZE) -> float:
    """Return the width of a text in pixels.

    Example:
        >>> round(width_of("warp", 10))
        24
    """
    return len(text) * size * ADVANCE


@attrs.define
class Drawing:
    """Collect shapes; positions are in CSS pixels from the upper left corner.

    Args:
        title: text for screen readers.
    """

    title: str
    width: float = 0.0
    height: float = 0.0
    parts: list[Part] = attrs.field(factory=list["Part"])
    used: set[str] = attrs.field(factory=set[str])

    def rect(
        self, x: float, y: float, w: float, h: float, fill: str = "", stroke: str = "", radius: float = 0, tip: str = ""
    ) -> None:
        """Draw a rectangle; `tip` is shown when the mouse rests on it."""
        self._grow(x + w, y + h)
        looks = self._class(fill, stroke)
        if not radius and not tip:
            self.parts.append(Part("box", looks, f"M{_n(x)} {_n(y)}h{_n(w)}v{_n(h)}h{_n(-w)}z"))
            return
        round_ = f' rx="{_n(radius)}"' if radius else ""
        inside = f"><title>{escape(tip)}</title></rect>" if tip else "/>"
        at = f'x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}"'
        self._other(f"<rect{looks} {at}{round_}{inside}")

    def text(
        self, x: float, y: float, text: str, ink: str = "ink", size: float = SIZE, anchor: Anchor = "start",
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Write a line of text; `y` is its base line."""
        more = f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += f' font-size="{_n(size)}"' if size != SIZE else ""
        more += ' font-weight="600"' if bold else ""
        own = f' x="{_n(x)}" y="{_n(y)}">{escape(text, quote=False)}'
        self.parts.append(Part("text", f"{self._class(ink)}{more}", own))
        wide = width_of(text, size)
        self._grow(x + wide * {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor], y + size * 0.3)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "edge", dashed: bool = False) -> None:
        """Draw a line."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        at = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
        self._other(f"<line{self._class('', stroke)} {at}{dash}/>")
        self._grow(max(x1, x2), max(y1, y2))

    def path(self, points: list[tuple[float, float]], stroke: str, dashed: bool = False) -> None:
        """Draw a line through points."""
        d = " ".join(f"{'L' if i else 'M'}{_n(x)} {_n(y)}" for i, (x, y) in enumerate(points))
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._other(f'<path{self._class("none", stroke)} d="{d}"{dash}/>')
        self._grow(max(x for x, _ in points), max(y for _, y in points))

    def arrow(self, x: float, y1: float, y2: float, stroke: str = "edge") -> None:
        """Draw a vertical arrow from y1 down to y2."""
        self.line(x, y1, x, y2, stroke)
        self.path([(x - 3.5, y2 - 5), (x, y2), (x + 3.5, y2 - 5)], stroke)

    def dot(self, x: float, y: float, radius: float, fill: str, stroke: str = "", tip: str = "") -> None:
        """Draw a disc."""
        inside = f"><title>{escape(tip)}</title></circle>" if tip else "/>"
        self._other(f'<circle{self._class(fill, stroke)} cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"{inside}')
        self._grow(x + radius, y + radius)

    def svg(self, theme: Theme = "auto", margin: float = 12) -> str:
        """Write the SVG.

        Args:
            theme: `auto` follows the page's theme, or else the reader's system; `light` and `dark` are fixed, for
                converters without style queries; `page` leaves the colours to a page that contains `sheet`.
            margin: pixels around the shapes.
        """
        wide, high = self.width + 2 * margin, self.height + 2 * margin
        scope = f"fi-{theme}"
        if theme == "page":
            style = ""
        elif theme == "auto":
            light, dark = (f"{{{self._variables(n)}}}" for n in (0, 1))
            style = f".{scope}{light}@media (prefers-color-scheme:dark){{.{scope}{dark}}}"
            for n, values in enumerate((light, dark)):
                style += ",".join(f"{page[n]} .{scope}" for page in _PAGES) + values
            style += self._sheet(scope)
        else:
            style = self._sheet(scope, int(theme == "dark"))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{_n(-margin)} {_n(-margin)} {_n(wide)} {_n(high)}" '
            f'class="{scope}" width="{_n(wide)}" height="{_n(high)}" style="max-width:100%;height:auto" role="img" '
            f'font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="{_n(SIZE)}">'
            f"<title>{escape(self.title)}</title><style>{style}</style>"
            f'<rect class="{_SHEET}ground" x="{_n(-margin)}" y="{_n(-margin)}" width="{_n(wide)}" height="{_n(high)}" '
            f'rx="6"/>{_written(self.parts)}</svg>\n'
        )

    def _other(self, element: str) -> None:
        self.parts.append(Part("other", "", element))

    def _class(self, *names: str) -> str:
        known = [name for name in names if name]
        self.used.update(known)
        return f' class="{" ".join(_SHEET + name for name in known)}"' if known else ""

    def _grow(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def sheet(self, dark: int) -> str:
        """Write the style rules for drawings of theme `page`, for a light (0) or dark (1) page."""
        return self._sheet("fi-page", dark)

    def _names(self) -> list[str]:
        return sorted({*self.used, "ground"})

    def _variables(self, dark: int) -> str:
        """Write the used colours as CSS variables."""
        return ";".join(f"--{_SHEET}{name}:{_colour(name, dark)}" for name in self._names() if name not in _OTHER)

    def _sheet(self, scope: str, dark: int | None = None) -> str:
        """Write the style rules of the used classes, with colours of one theme or as variables."""
        rules: list[str] = []
        for name in self._names():
            colour = "" if name in _OTHER else f"var(--{_SHEET}{name})" if dark is None else _colour(name, dark)
            if name in _OTHER:
                rule = _OTHER[name]
            elif name in _LINES:
                rule = f"stroke:{colour};stroke-width:{_n(_LINES[name][2])}"
            elif name in _INKS:
                rules.append(f"{name}{{fill:{colour}}}")
                rule = "pointer-events:none"  # a tip is that of the shape below the text
            else:
                rule = f"fill:{colour}"
            rules.append(f"{name}{{{rule}}}")
        return "".join(f".{scope} .{_SHEET}{rule}" for rule in rules)


def hue(number: int) -> str:
    """Return the fill class for one of many things; consecutive numbers get very different colours.

    Example:
        >>> hue(0), hue(1), hue(33)
        ('h0', 'h4', 'h4')
    """
    return f"h{number % 8 * 4 + number // 8 % 4}"


def wheel(number: int) -> str:
    """Return the fill class for one of 32 things in a row, such as banks; neighbours get similar colours."""
    return f"h{number % HUES}"


def _colour(name: str, dark: int) -> str:
    """Return the colour of a class."""
    if name in _LINES:
        light, night, _ = _LINES[name]
        return night if dark else light
    if name in _FILLS or name in _INKS:
        return (_FILLS | _INKS)[name][dark]
    return _shade(int(name[1:]), bool(dark)) if name[0] == "v" else _tint(int(name[1:]), bool(dark))


def shade(value: float, largest: float) -> str:
    """Return the fill class for a value: blue below zero, red above.

    Example:
        >>> shade(-2.0, 2.0), shade(0.0, 2.0), shade(1.0, 2.0)
        ('v0', 'v4', 'v6')
    """
    part = value / largest if value == value and abs(value) != float("inf") else 0.0
    return f"v{round((max(-1.0, min(1.0, part)) + 1) / 2 * (SHADES - 1))}"


def _shade(number: int, dark: bool) -> str:
    strength = (number - SHADES // 2) / (SHADES // 2)
    lightness = 0.17 + 0.13 * abs(strength) if dark else 0.96 - 0.18 * abs(strength)
    parts = colorsys.hls_to_rgb(0.0 if strength > 0 else 0.6, lightness, 0.6 * abs(strength) ** 0.5)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


def _tint(number: int, dark: bool) -> str:
    lightness, saturation = (0.28, 0.45) if dark else (0.84, 0.70)
    red, green, blue = colorsys.hls_to_rgb(number / HUES, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
