"""Collect the contents of a schedule's studio: links with CUDA, findings, pictures, and the steps of one block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.expr import evaluate
from fireiron.base.errors import Finding, FireironError, UsageError
from fireiron.base.text import count, nbytes
from fireiron.front.conflicts import advised
from fireiron.front.host import duration
from fireiron.front.simulation import simulate_schedule
from fireiron.front.verbs import Schedule
from fireiron.jit.interface import Interface
from fireiron.kernel.analysis.sampling import typical_sizes
from fireiron.kernel.ir.statements import Kernel, Region
from fireiron.show import lowered, pictures
from fireiron.show.picture import Picture
from fireiron.show.scheduled import origin_of, path_of
from fireiron.show.steps import steps
from fireiron.show.studio import Cells, Frame, LinkRow, Remark, Studio, Tiles
from fireiron.simulate import cost
from fireiron.simulate.kept import Kept, kept, names_of
from fireiron.simulate.state import Team
from fireiron.simulate.watch import Moment, Watch
from fireiron.verify.verification import make

MOST_S = 20.0  # most seconds of the simulation of one block
FIRST, LAST = 28, 12  # most steps of a block that are shown
ROWS = COLUMNS = 24  # most rows and columns of a tile that are shown
COPIES = 4  # most copies of a tile that are shown: ring slots, warps
TREE = 60  # characters of a line of the tree: as many as its column has room for in a window of 1300 pixels


def studio(
    schedule: Schedule,
    arch: str | None = None,
    sizes: Mapping[str, int] | None = None,
    block: int = 0,
) -> Studio:
    """Collect the contents of the studio of a schedule, finished or not.

    Args:
        schedule: the schedule.
        arch: architecture of the CUDA and the findings.
        sizes: values of the symbols; missing symbols get typical values.
        block: number of the block whose steps are shown.

    Raises:
        FireironError: as lowering does. UsageError: `no-such-block`.

    Example:
        >>> import fireiron as fi
        >>> from fireiron.schedules import simt
        >>> page = studio(simt.listing2(fi.matmul(128, 128, 16)))
        >>> page.title, len(page.frames), page.frames[0].did[1][:14]
        ('listing2_128x128x8_f32', 5, 'load A to a_sh')
    """
    kernel = schedule.lowered(arch) if schedule.residual.closed and not path_of(schedule) else None
    explained = schedule.explain(arch)
    paths = [step.path for step in steps(schedule)]
    found = schedule.facts(arch)
    remarks = tuple(_remark(one, paths) for one in advised(schedule, found.findings, arch))
    title = str(origin_of(schedule)) if kernel is None else schedule.name
    subtitle = str(schedule.program.spec) if kernel is None else f"{origin_of(schedule)}, {found.arch}"
    rows = tuple(LinkRow(row.link, row.after, _about(row.change, row.sentences), row.lines) for row in explained.rows)
    page = Studio(
        title, subtitle, (), rows, schedule.tree(TREE), explained.left, remarks=remarks, block=block,
        pictures=_pictures(schedule, kernel),
    )  # fmt: skip
    if kernel is None:
        return attrs.evolve(page, why_not="An unfinished schedule does not run.")
    source = schedule.cuda(arch)
    run = _Run(schedule, kernel, source, typical_sizes(kernel, sizes), block)
    frames, tiles, why_not = run.frames()
    return attrs.evolve(page, facts=_facts(kernel), source=source, frames=frames, tiles=tiles, why_not=why_not)


def _facts(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    return (
        ("blocks", str(kernel.grid)),
        ("threads", str(kernel.threads)),
        ("shared memory", nbytes(kernel.shared_nbytes)),
        ("barriers", str(len(lowered.barriers(kernel)))),
    )


def _about(change: str, sentences: str) -> str:
    return ". ".join(part for part in (change, sentences) if part)


def _remark(found: Finding, paths: Sequence[str]) -> Remark:
    """Find a finding's link: the last link whose path is a prefix of the finding's path."""
    mine = [i for i, path in enumerate(paths) if found.path == path or found.path.startswith(f"{path} > ")]
    return Remark(found.severity, found.code, found.message, found.fix, max(mine, default=-1))


def _pictures(schedule: Schedule, kernel: Kernel | None) -> tuple[tuple[str, Picture], ...]:
    """Draw all pictures that apply to the schedule."""
    wanted: list[tuple[str, Callable[[], Picture]]] = [
        ("Decomposition", lambda: pictures.decomposition(schedule)),
        ("Tiles", lambda: pictures.cuts(schedule)),
    ]
    if kernel is not None:
        wanted.append(("Banks of shared memory", lambda: pictures.banks(schedule)))
    if kernel is not None and (kernel.barriers or lowered.barriers(kernel)):  # else no event waits for another
        wanted.append(("One block over time, modelled", lambda: pictures.timeline(schedule, "modelled")))
    found: list[tuple[str, Picture]] = []
    for name, draw in wanted:
        try:
            found.append((name, draw()))
        except FireironError:
            continue
    return tuple(found)


class _Run:
    """Simulate one block on small whole numbers, and keep its tiles at the end of each step."""

    def __init__(self, schedule: Schedule, kernel: Kernel, source: str, sizes: Mapping[str, int], block: int) -> None:
        self.schedule = schedule
        self.kernel = kernel
        self.sizes = sizes
        self.block = block
        self.names = names_of(kernel)
        printed = lowered.lines(kernel, source).found
        self.lines = {s.id: (first, last) for s, first, last in printed if isinstance(s, Region)}
        self.first: list[tuple[Moment, dict[str, Kept]]] = []
        self.last: deque[tuple[Moment, dict[str, Kept]]] = deque(maxlen=LAST)
        self.left_out = 0

    def frames(self) -> tuple[tuple[Frame, ...], tuple[Tiles, ...], str]:
        """Return the steps, the contents of tiles at their ends, and a note about what is missing."""
        grid = int(evaluate(self.kernel.grid, self.sizes))
        if self.block >= grid:
            raise UsageError(
                "no-such-block",
                f"block {self.block} was asked for, the grid has {grid}",
                fix="choose blocks of the grid",
            )
        seconds = cost(self.kernel, self.sizes, 1)
        if seconds > MOST_S:
            return (
                (),
                (),
                f"Simulating one block takes about {duration(seconds)}: ask for a smaller shape to see steps.",
            )
        data = make("exact", self.schedule, Interface.of(self.kernel), self.sizes)
        scalars: dict[str, Any] = {**data.sizes, **data.numbers}
        wrong = ""
        try:
            simulate_schedule(
                self.kernel, data.inputs, data.out, (self.block,), True, scalars,
                watch=Watch(self.kernel, None, (), each=self._step, block=self.block),
            )  # fmt: skip
        except FireironError as error:
            wrong = f"The simulation ends with {error.code}: {error.message}."
        taken = [*self.first, *self.last]
        if self.left_out:
            wrong = f"{count(self.left_out, 'step')} after the first {FIRST} are left out. {wrong}".strip()
        tiles = [_Tile(name) for name in self.names]
        frames = tuple(
            self._frame(moment, tuple(tile.add(now.get(tile.name)) for tile in tiles)) for moment, now in taken
        )
        shown = [i for i, tile in enumerate(tiles) if tile.states]
        frames = tuple(attrs.evolve(f, state=tuple(f.state[i] for i in shown)) for f in frames)
        return frames, tuple(tiles[i].made() for i in shown), wrong

    def _frame(self, moment: Moment, state: tuple[int, ...]) -> Frame:
        ran = tuple(self.lines[i] for i in moment.regions if i in self.lines)
        return Frame(str(moment), moment.did, ran, state)

    def _step(self, moment: Moment, watch: Watch, team: Team) -> None:
        found = moment, kept(team.member, self.names, team.machine.sizes)
        if len(self.first) < FIRST:
            self.first.append(found)
            return
        self.left_out += len(self.last) == LAST
        self.last.append(found)


class _Tile:
    """Collect the different contents of one tile."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.states: list[list[Cells]] = []
        self.known: dict[bytes, int] = {}
        self.example: Kept | None = None

    def add(self, found: Kept | None) -> int:
        """Return a content's position in `states`, and add a new content; -1 where no element is written."""
        if found is None or not found.written.any():
            return -1
        self.example = self.example or found
        values, written = _copies(found.values, found), _copies(found.written, found)
        key = values.tobytes() + written.tobytes()
        if key not in self.known:
            self.known[key] = len(self.states)
            self.states.append([_cells(v, w) for v, w in zip(values, written, strict=True)])
        return self.known[key]

    def made(self) -> Tiles:
        """Return the record of the tile."""
        found = self.example
        assert found is not None
        shape, outer = found.values.shape, len(found.outer)
        inner = shape[outer:]
        total = int(np.prod(shape[:outer], dtype=int))
        names = [
            ", ".join(f"{name} {at}" for name, at in zip(found.outer, np.unravel_index(i, shape[:outer]), strict=True))
            for i in range(min(total, COPIES))
        ]
        cut = [f"{most} of {extent} {words}" for words, most, extent in _cuts(inner, total) if extent > most]
        owners: Any = [] if found.threads is None else _copies(found.threads, found).tolist()
        title = f"{found.name}: {'x'.join(map(str, inner))} {found.dtype} in {found.memory}"
        clipped = f"{' and '.join(cut)} are shown" if cut else ""
        return Tiles(self.name, title, clipped, tuple(names or [""]), owners, self.states)


def _cuts(inner: Sequence[int], copies: int) -> tuple[tuple[str, int, int], ...]:
    rows, columns = (int(np.prod(inner[:-1], dtype=int)), inner[-1])
    return ("rows", ROWS, rows), ("columns", COLUMNS, columns), ("copies", COPIES, copies)


def _copies(values: Any, found: Kept) -> Any:
    """View an array as (copies, rows, columns), cut to the part that is shown."""
    inner = values.shape[len(found.outer) :]
    flat = values.reshape(-1, int(np.prod(inner[:-1], dtype=int)), inner[-1])
    return np.ascontiguousarray(flat[:COPIES, :ROWS, :COLUMNS])


def _cells(values: Any, written: Any) -> Cells:
    """Round numbers to four digits; None for elements that are not written or are NaN."""
    wide = values.astype(np.float64)
    return [
        [float(f"{v:.4g}") if w and np.isfinite(v) else None for v, w in zip(row, there, strict=True)]
        for row, there in zip(wide, written, strict=True)
    ]
