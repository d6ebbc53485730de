"""Every picture can be read: no text lies on another, none is tiny, and all of it stands out from what it lies on."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import attrs
import pytest

from fireiron import Matrix, matmul, tensor
from fireiron.atoms.table import TABLE
from fireiron.atoms.wgmma import wgmma
from fireiron.language.atom import Atom
from fireiron.schedules import ampere, conv, fused, hopper, rows, simt
from fireiron.schedules.hopper import Plan
from fireiron.show import pictures
from fireiron.show.picture import Picture
from fireiron.show.svg import ADVANCE, SIZE, Drawing, Theme

# One atom of each picture: others differ in the names of their element types.
ATOMS = tuple(
    {
        (atom.unit.name, *((str(o.layout), o.shape, o.memory.name, o.span) for o in atom.operands)): atom
        for atom in (*TABLE, *(atom for n in (8, 96, 256) for atom in wgmma(n)))
    }.values()
)
SMALLEST = 8.0  # CSS pixels
CONTRAST = 4.5  # that text needs (WCAG 2.2, 1.4.3)
FORMS = 1.2  # that the box of a timeline needs from its row
MEANT = ("fi-load", "fi-put", "fi-math", "fi-store", "fi-wait", "fi-bad", "fi-flight", "fi-held")
THEMES: tuple[Theme, ...] = ("light", "dark")


@attrs.frozen
class Area:
    """Hold a rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.top <= y <= self.bottom

    def meets(self, other: Area) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


@attrs.frozen
class Written:
    """Hold a text, what it covers, and its contrast with what lies below its middle."""

    text: str
    area: Area
    size: float
    contrast: float


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@cache
def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def read(svg: str) -> tuple[list[Written], list[tuple[str, str]]]:
    """Give the texts of a drawing, and (fill, fill below it) of boxes whose colour means something."""
    root = ElementTree.fromstring(svg)
    style = next(each.text or "" for each in root.iter() if each.tag.endswith("style"))
    colours = dict(re.findall(r"\.(fi-[\w]+)\{fill:(#\w+)\}", style))
    boxes: list[tuple[Area, str]] = []
    texts: list[Written] = []
    stacked: list[tuple[str, str]] = []

    def fill(names: str) -> str | None:
        return next((colours[name] for name in names.split() if name in colours), None)

    def below(x: float, y: float) -> str:
        return next((colour for area, colour in reversed(boxes) if area.holds(x, y)), boxes[0][1])

    def box(area: Area, names: str) -> None:
        colour = fill(names)
        if colour is not None:
            if names.split()[0] in MEANT:
                stacked.append((colour, below((area.left + area.right) / 2, (area.top + area.bottom) / 2)))
            boxes.append((area, colour))

    def walk(element: ElementTree.Element, given: dict[str, str]) -> None:
        known = {**given, **element.attrib}
        tag, names = element.tag.rsplit("}", 1)[-1], known.get("class", "")
        if tag == "rect":
            x, y, w, h = (float(known[name]) for name in ("x", "y", "width", "height"))
            box(Area(x, y, x + w, y + h), names)
        elif tag == "path":
            for x, y, w, h in re.findall(r"M([-\d.]+) ([-\d.]+)h([-\d.]+)v([-\d.]+)h", known["d"]):
                box(Area(float(x), float(y), float(x) + float(w), float(y) + float(h)), names)
        elif tag == "text":
            size, text = float(known.get("font-size", SIZE)), element.text or ""
            wide = len(text) * size * ADVANCE
            left = float(known["x"]) - wide * {"start": 0, "middle": 0.5, "end": 1}[known.get("text-anchor", "start")]
            y = float(known["y"])
            # Capitals and digits stand on the base line and reach 0.72 of the size above it.
            area = Area(left, y - 0.72 * size, left + wide, y)
            ink = fill(names)
            assert ink is not None
            ground = below((area.left + area.right) / 2, (area.top + area.bottom) / 2)
            texts.append(Written(text, area, size, contrast(ink, ground)))
        for child in element:
            walk(child, known if tag == "g" else {})

    walk(root, {})
    return texts, stacked


def complaints(picture: Picture) -> list[str]:
    """Say what of a picture cannot be read."""
    found: list[str] = []
    for theme in THEMES:
        svg = picture.svg(theme)
        texts, stacked = read(svg)
        left, top, wide, high = (float(n) for n in re.search(r'viewBox="([^"]*)"', svg)[1].split())  # type: ignore[index]
        for each in texts:
            a = each.area
            if a.left < left or a.top < top or a.right > left + wide or a.bottom > top + high:
                found.append(f"{theme}: {each.text!r} is cut off")
            if each.size < SMALLEST:
                found.append(f"{theme}: {each.text!r} is {each.size} pixels high")
            if each.contrast < CONTRAST:
                found.append(f"{theme}: {each.text!r} has a contrast of {each.contrast:.2f}")
        found += [f"{theme}: {a} on {b}" for a, b in dict.fromkeys(stacked) if a != b and contrast(a, b) < FORMS]
        ordered = sorted(texts, key=lambda each: each.area.left)
        for i, one in enumerate(ordered):
            for other in ordered[i + 1 :]:
                if other.area.left >= one.area.right:
                    break
                if one.area.meets(other.area):
                    found.append(f"{theme}: {one.text!r} lies on {other.text!r}")
    return found


def on_hopper(plan: Plan) -> Picture:
    spec = matmul(1024, 1024, 1024, "bf16", out="bf16", layout="TN")
    return pictures.timeline((hopper.pingpong if plan.pingpong else hopper.cooperative)(spec, plan), "modelled")


PICTURES: dict[str, Callable[[], Picture]] = {
    "tree": lambda: pictures.decomposition(simt.sgemm(matmul(512, 512, 4096))),
    "tree of hopper": lambda: pictures.decomposition(hopper.gemm(matmul(2048, 2048, 2048, "f16", layout="TN"))),
    "bare spec": lambda: pictures.decomposition(matmul(64, 64, 64)),
    "banks": lambda: pictures.banks(simt.listing2(matmul(256, 256, 64)), simt.sgemm(matmul(256, 256, 64))),
    "banks of halves": lambda: pictures.banks(ampere.gemm(matmul(512, 512, 512, "f16", layout="TN"))),
    "cuts": lambda: pictures.cuts(simt.sgemm(matmul(512, 512, 4096))),
    "cuts in turn": lambda: pictures.cuts(hopper.gemm(matmul(8192, 8192, 8192, "f16", layout="TN"))),
    "cuts of many waves": lambda: pictures.cuts(ampere.gemm(matmul(8192, 8192, 64, "f16", layout="TN"))),
    "cuts of rows": lambda: pictures.cuts(rows.row(rows.softmax(Matrix(64, 256, name="x")))),
    "cuts with halos": lambda: pictures.cuts(
        conv.simt(conv.conv2d(tensor(1, 20, 20, 8, name="x"), tensor(8, 3, 3, 8, name="f"), pad=1))
    ),
    "tree of layers": lambda: pictures.decomposition(fused.mlp(256, 64, 3)),
    "values": lambda: pictures.values(simt.listing2(matmul(128, 128, 16)).simulate(blocks=1, keep="acc").kept["acc"]),
    "no cuts": lambda: pictures.cuts(matmul(64, 64, 64)),
    "timeline": lambda: pictures.timeline(simt.sgemm(matmul(512, 512, 4096))),
    "timeline, modelled": lambda: pictures.timeline(ampere.gemm(matmul(512, 512, 4096, "f16")), "modelled"),
    "timeline of roles": lambda: on_hopper(Plan(128, 128)),
    "timeline of ping-pong": lambda: on_hopper(Plan(64, 128, pingpong=True)),
    "roofline": lambda: pictures.roofline(
        simt.sgemm(matmul(512, 512, 4096)),
        on="sm_90",
        measured={"sgemm_128x128x8_f32": 40.0},
        peers={"one": 45, "two": 41},
    ),
    "comparison": lambda: pictures.compare(simt.listing2(matmul(256, 256, 64)), simt.sgemm(matmul(512, 512, 64))),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_can_be_read_in_both_themes(name: str) -> None:
    assert complaints(PICTURES[name]()) == []


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_every_layout_of_fragments_can_be_read_in_both_themes(atom: Atom) -> None:
    assert complaints(pictures.fragment(atom)) == []


def test_what_cannot_be_read_is_found() -> None:
    drawing = Drawing("bad")
    drawing.text(0, 12, "one text")
    drawing.text(20, 14, "another text")
    drawing.text(0, 40, "tiny", size=6)
    drawing.text(-40, 60, "gone")
    drawing.rect(0, 80, 100, 20, "h0")
    drawing.text(4, 94, "pale", "alarm")
    said = "\n".join(complaints(Picture("bad", drawing, "")))
    assert "'one text' lies on 'another text'" in said
    assert "'tiny' is 6.0 pixels high" in said
    assert "'gone' is cut off" in said
    assert "light: 'pale' has a contrast of" in said


def test_bars_of_one_picture_have_one_scale() -> None:
    """A bank that gives 8 words stands higher than one that gives 1, also where they are bars of two schedules."""
    svg = pictures.banks(simt.listing2(matmul(256, 256, 64)), simt.sgemm(matmul(256, 256, 64))).svg()
    bars = {float(high) for high in re.findall(r"h15v([\d.]+)h-15z", svg)}
    (smallest, one, *_), most = sorted(bars), max(bars)
    assert smallest == 1  # of banks that give nothing
    assert most == pytest.approx(8 * one)


@pytest.mark.parametrize("policy", ["simulated", "modelled"])
def test_a_legend_explains_what_a_timeline_has_and_nothing_else(policy: str) -> None:
    plain = pictures.timeline(simt.sgemm(matmul(512, 512, 4096)), policy).svg()  # type: ignore[arg-type]
    assert "barrier of the block" in plain
    assert "barrier of a role" not in plain
    assert ("a role that computes waits" in plain) == ('"fi-bad fi-edge"' in plain) == (policy == "modelled")
    roles = on_hopper(Plan(128, 128)).svg()
    assert "barrier of a role" in roles


def test_labels_of_a_timeline_stand_beside_its_lines() -> None:
    svg = on_hopper(Plan(64, 128, pingpong=True)).svg("light")
    texts, _ = read(svg)
    lines = [
        tuple(map(float, found))
        for found in re.findall(r'<line class="fi-(?:blue|edge|orange)" x1="(\S+)" y1="(\S+)" x2="\1" y2="(\S+)"', svg)
    ]
    assert len(lines) > 4
    named = [each for each in texts if re.fullmatch(r"(tile )?\d+", each.text)]
    assert len(named) > 8
    for each in named:
        for x, top, bottom in lines:
            assert not (each.area.left < x < each.area.right and top < each.area.bottom and each.area.top < bottom)


def test_rows_of_numbers_in_a_terminal_are_not_folded() -> None:
    spec = matmul(8192, 8192, 8192, "f16", layout="TN")
    said = str(pictures.cuts(hopper.gemm(spec, hopper.Plan(n=192, pingpong=True)))).splitlines()
    rows = [line for line in said if re.match(r"\s+\d+ +\d+", line)]
    assert len({len(line) for line in rows}) == 1
    assert all(line.endswith("…") for line in rows)
    numbers = [[int(n) for n in re.findall(r"\d+", line)] for line in rows]
    assert all(b[0] == a[0] + 1 for a, b in pairwise(numbers))


def test_numbers_of_tiles_side_by_side_are_apart() -> None:
    """Numbers of three digits in a grid of 16 x 16 tiles."""
    written, _ = read(pictures.cuts(simt.sgemm(matmul(2048, 2048, 64))).svg("light"))
    numbers = sorted((t.area.top, t.area.left, t.area.right) for t in written if t.text.isdecimal())
    gaps = [right[1] - left[2] for left, right in pairwise(numbers) if left[0] == right[0] and right[1] > left[1]]
    assert len(gaps) > 200
    assert min(gaps) >= 3
