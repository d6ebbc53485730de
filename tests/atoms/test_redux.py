"""Reductions inside a warp: every lane gets what all hold, on the simulator; and compilers take the wrappers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from warp_rows import LANE, LANES, reduction

from fireiron.algebra.arch import arch
from fireiron.algebra.dtypes import f32, i32
from fireiron.algebra.expr import as_expr, lt
from fireiron.atoms.redux import REDUX
from fireiron.atoms.table import find, reducing
from fireiron.base.errors import SimulationError
from fireiron.cuda.printer import source
from fireiron.jit.compile import compile_source
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, If, Kernel
from fireiron.simulate import simulate

FOLDS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("row", REDUX, ids=lambda row: row.name)
def test_every_lane_gets_the_result(row: Any) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 2 * LANES).astype(np.int32)
    out = np.zeros(2 * LANES, np.int32)
    simulate(reduction(row, threads=2 * LANES), {"src_gl": x, "dst_gl": out})
    wanted = FOLDS[row.fold].reduce(x.reshape(2, LANES), axis=1).astype(np.int32)  # sums wrap, each warp's its own
    assert out.tolist() == np.repeat(wanted, LANES).tolist()


def test_a_warp_takes_part_as_a_whole() -> None:
    kernel = reduction(REDUX[0])
    few = rewrite(kernel.body, lambda s: If(lt(LANE, 16), (s,)) if isinstance(s, Call) and s.atom in REDUX else s)
    broken = Kernel("row", kernel.parameters, as_expr(1), LANES, 0, kernel.buffers, few)
    with pytest.raises(SimulationError) as caught:
        simulate(broken, {"src_gl": np.zeros(LANES, np.int32), "dst_gl": np.zeros(LANES, np.int32)})
    assert caught.value.code == "divergent-call"


@pytest.mark.parametrize("row", REDUX, ids=lambda row: row.name)
def test_wrappers_compile(row: Any) -> None:
    assert "redux.sync" in compile_source(source(reduction(row)), "row", arch("sm_80")).ptx


def test_the_row_of_a_fold() -> None:
    assert find("redux.max.i32") is reducing("max", i32, 80)
    assert reducing("add", i32, 75) is None
    assert reducing("add", f32, 90) is None
