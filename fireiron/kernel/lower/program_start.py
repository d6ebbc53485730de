"""The beginning of a program's chain: windows for every tensor and for the points.

Every tensor of a program has a window. The window `POINTS` has an axis for each dim. Tiles and splits narrow all
windows in the same way.
"""

from __future__ import annotations

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import as_expr
from fireiron.base.records import evolve
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.early_reads import read_early
from fireiron.kernel.lower.progress import Progress
from fireiron.kernel.lower.step_results import stored_name
from fireiron.kernel.lower.storage import tensor_window
from fireiron.kernel.lower.tree import Tree
from fireiron.kernel.lower.window import POINTS, Axis, IndexMap, Storage, Window
from fireiron.language.decompositions import Results
from fireiron.language.levels import GL
from fireiron.language.residual import refs_by_role
from fireiron.language.steps import Program


def start_program(program: Program, state: State, context: Context) -> State:
    """Make the window of every tensor of a program, and the window of the points."""
    windows: dict[str, Window] = {}
    replaced = {name for _, name in program.inplace}
    for tensor in (*(t for t in program.inputs if t.name not in replaced), *map(program.memory_of, program.outputs)):
        tensor_window(tensor, state, context)  # parameters come in the caller's order
    maps, refs = dict(state.residual.maps), refs_by_role(program)
    for operand in state.residual.operands:
        storage = tensor_window(program.memory_of(operand.tensor), state, context).storage
        outside = refs[operand.role].outside
        axes = tuple(
            Axis(dim, n, as_expr(0), map=IndexMap(maps[dim], as_expr(0), n, outside=outside) if dim in maps else None)
            for dim, n in zip(operand.dims, operand.tensor.shape, strict=True)
        )
        written = any(operand.tensor == t for t in program.outputs)
        windows[stored_name(operand.role) if written else operand.role] = Window(storage, axes)
    extents = tuple(extent for _, extent in state.residual.sizes)
    points = Storage(
        POINTS, GL, f32, tuple(0 if e is None else e for e in extents), (0,) * len(extents), as_expr(1), state.level
    )
    windows[POINTS] = Window(points, tuple(Axis(d, 0 if e is None else e, as_expr(0)) for d, e in state.residual.sizes))
    return evolve(state, windows=windows, progress=Progress(program, program.steps, {}))


def lower_results(link: Results, rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Record how outputs are stored, and load the tensors of the epilog's `early=`."""
    assert state.progress is not None
    return read_early(link, recur(rest, evolve(state, progress=evolve(state.progress, results=link)), context))
