"""First lines: blocks at work together ask the L2 cache for all of their first chunks, each line by as few as can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import (
    FR,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Grouped,
    RowMajor,
    Warpgroup,
    conform,
    matmul,
    symbol,
    tma,
)
from fireiron.algebra.expr import Expr, evaluate
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Ask,
    For,
    If,
    Kernel,
    Let,
    Pointer,
    Statement,
    walk,
)
from fireiron.schedules import fused, hopper
from fireiron.schedules.hopper import Plan
from fireiron.simulate import simulate
from fireiron.verify.random_data import random_arrays

Lines = set[tuple[str, int]]
WIDE = Plan(128, 128, group=4)


def lowered(size: tuple[Any, Any, Any], plan: Plan, layout: str = "TN", dtype: str = "bf16", **more: Any) -> Kernel:
    return hopper.gemm(matmul(*size, dtype, layout=layout, arch="sm_90a", **more), plan).lowered()


def values(e: Expr, env: Mapping[str, Any], threads: int) -> Any:
    return np.broadcast_to(np.asarray(evaluate(e, env)), threads)


def run(body: tuple[Statement, ...], env: dict[str, Any], active: Any) -> Iterator[tuple[str, int]]:
    """List the elements whose lines the active threads ask for."""
    for s in body:
        match s:
            case Let(var, value):
                env[var.name] = values(value, env, len(active))
            case If(condition, inner):
                yield from run(inner, env, active & (values(condition, env, len(active)) != 0))
            case For(var=var, extent=extent, body=inner):
                for i in range(int(evaluate(extent, env))):  # pyright: ignore[reportArgumentType]
                    yield from run(inner, {**env, var.name: i}, active)
            case Ask(view=view):
                yield from ((view.buffer.name, int(x)) for x in values(view.offset, env, len(active))[active])
            case _:
                pass


def asked(kernel: Kernel) -> Counter[tuple[str, int]]:
    """Count how often each line is asked for by all blocks of a launch of as many as have work, at most 132."""
    blocks = min(132, int(evaluate(kernel.grid, {})))  # pyright: ignore[reportArgumentType]
    found: Counter[tuple[str, int]] = Counter()
    top = tuple(s for s in kernel.body if isinstance(s, If))
    for block in range(blocks):
        env = {BLOCK: block, BLOCKS: blocks, RANK: block % kernel.cluster, THREAD: np.arange(kernel.threads)}
        found.update(run(top, env, np.ones(kernel.threads, bool)))
    return found


def along_k(name: str, rows: int, depth: int, starts: list[int]) -> Lines:
    return {(name, row * depth + k) for row in range(rows) for k in starts if k < depth}


@pytest.mark.parametrize(
    ("size", "plan", "starts"),
    [
        ((512, 512, 512), attrs.evolve(WIDE, prefetch=1), [0]),
        ((512, 512, 512), attrs.evolve(WIDE, prefetch=3), [0, 64, 128]),
        ((500, 392, 104), attrs.evolve(WIDE, prefetch=3), [0, 64]),
        ((512, 640, 256), Plan(64, 40, 1, swapped=True, prefetch=2), [0, 64]),
        ((512, 512, 256), Plan(128, 128, cluster=(2, 1)), [0]),
        ((512, 512, 512), Plan(64, 64, 1, ways=2, prefetch=1), [0, 256]),
        ((512, 512, 512), Plan(64, 64, 1, panels=2, prefetch=1), [0, 64]),
        ((768, 768, 256), Plan(128, 128, pingpong=True), [0]),
        ((2048, 1024, 256), Plan(256, 64, prefetch=2), [0, 64]),
        ((512, 1024, 512), Plan(128, 256, prefetch=3), [0, 64, 128]),
        ((128, 256, 512), Plan(128, 256, prefetch=3), [0, 64, 128]),
    ],
    ids=["one", "three", "ragged", "swapped", "cluster", "ways", "panels", "pingpong", "tall", "wide", "alone"],
)
def test_blocks_together_ask_for_all_of_their_first_chunks(
    size: tuple[int, int, int], plan: Plan, starts: list[int]
) -> None:
    m, n, k = size
    found = asked(lowered(size, plan))
    assert set(found) == along_k("A", m, k, starts) | along_k("B", n, k, starts)


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_rows_of_boxes_are_lines_of_any_layout(layout: str) -> None:
    m, n, k = 256, 384, 192
    found = set(asked(lowered((m, n, k), attrs.evolve(WIDE, prefetch=2), layout)))
    across_a = {("A", row * m + col) for row in range(128) for col in range(0, m, 64)}
    across_b = {("B", row * n + col) for row in range(128) for col in range(0, n, 64)}
    spec = matmul(m, n, k, layout=layout).matmul
    assert {x for x in found if x[0] == "A"} == (along_k("A", m, k, [0, 64]) if spec.A.order is RowMajor else across_a)
    assert {x for x in found if x[0] == "B"} == (along_k("B", n, k, [0, 64]) if spec.B.order is ColMajor else across_b)


def test_eight_bits_and_batches() -> None:
    found = set(asked(lowered((256, 256, 512), WIDE, dtype="e4m3")))
    assert found == along_k("A", 256, 512, [0]) | along_k("B", 256, 512, [0])
    found = set(asked(lowered((128, 256, 128), WIDE, batch=3)))
    assert found == along_k("A", 3 * 128, 128, [0]) | along_k("B", 3 * 256, 128, [0]), "rows of all batches"


def test_neighbours_share_what_they_need() -> None:
    """Of 16 blocks each line is needed by 4: one of them asks for it."""
    assert set(asked(lowered((512, 512, 512), WIDE)).values()) == {1}
    pairs = asked(lowered((256, 512, 512), WIDE))
    assert {count for (name, _), count in pairs.items() if name == "A"} == {1}, "4 tiles along N"
    assert {count for (name, _), count in pairs.items() if name == "B"} == {1}, "2 tiles along M"
    lonely = asked(lowered((128, 512, 512), WIDE))
    assert {count for (name, _), count in lonely.items() if name == "B"} == {1}
    three = asked(lowered((384, 128, 512), WIDE))
    assert {count for (name, _), count in three.items() if name == "B"} == {1, 2}, "two of three blocks share a half"


def test_a_few_tiles_without_neighbours_do_not_part_the_others() -> None:
    """Of 132 blocks 128 fill a band of 8 rows of tiles, and 4 begin the next one, alone in their rows."""
    found = asked(lowered((4096, 4096, 256), Plan(128, 256)))
    assert {count for (name, line), count in found.items() if name == "A" and line < 8 * 128 * 256} == {4}
    assert max(count for (name, _), count in found.items() if name == "B") == 3


def test_neighbours_are_those_at_work_at_once() -> None:
    """Of 400 tiles in two rows the first wave takes 132 of the first row: none shares columns with another."""
    found = asked(lowered((256, 6400, 64), Plan(128, 32, group=1)))
    assert {line for name, line in found if name == "B"} == {row * 64 for row in range(132 * 32)}


def test_lines_lie_in_arrays_as_they_are_passed() -> None:
    kernel = lowered((512, 512, 512), WIDE)
    passed = {p.buffer for p in kernel.parameters if isinstance(p, Pointer)}
    assert {s.view.buffer for s in walk(kernel.body) if isinstance(s, Ask)} <= passed


def test_many_tiles_without_neighbours_share_with_fewer() -> None:
    """Of 132 blocks 20 begin a second band of 8 rows, two or three in each: they ask for halves, not quarters."""
    found = asked(lowered((2048, 896, 64), Plan(128, 64)))
    assert {line for name, line in found if name == "A"} == {row * 64 for row in range(2048)}


def test_sizes_that_are_not_known_are_asked_for_whole() -> None:
    kernel = lowered((symbol("m"), 512, 512), WIDE)
    lines = [s for s in walk(kernel.body) if isinstance(s, Ask)]
    assert len(lines) == 2
    shares = [s for s in walk(kernel.body) if isinstance(s, Let) and s.var.name.startswith("line")]
    assert [s.var.range for s in shares] == [(0, 127), (0, 127)]


def test_a_program_asks_for_its_first_product() -> None:
    kernel = fused.add_gemm_gemm(512, 512, 256, path="hopper").lowered()
    assert {s.view.buffer.name for s in walk(kernel.body) if isinstance(s, Ask)} == {"X", "W"}


def test_trees_and_explanations_say_so() -> None:
    chain = hopper.gemm(matmul(512, 512, 512, "f16", layout="TN", arch="sm_90a"), attrs.evolve(WIDE, prefetch=2))
    assert "specialize registers 24/240 prefetch 2" in " ".join(str(chain.tree()).replace("│", " ").split())
    assert "first prefetch 2 chunks into the L2 cache" in " ".join(str(chain.explain()).split())
    one = hopper.gemm(matmul(512, 512, 512, "f16", layout="TN", arch="sm_90a"), WIDE)
    assert "first prefetch the first chunk into the L2 cache" in " ".join(str(one.explain()).split())
    text = chain.cuda()
    head = text.index("if (thread > 127)")
    assert head < text.index("prefetch_line(&A", head) < text.index("mbarrier_init(&", head)


def test_none_is_asked_for_where_none_is_wanted() -> None:
    kernel = lowered((512, 512, 512), attrs.evolve(WIDE, prefetch=0))
    assert not any(isinstance(s, Ask) for s in walk(kernel.body))
    assert "prefetch_line" not in hopper.gemm(matmul(512, 512, 512, "f16", layout="TN"), Plan(prefetch=0)).cuda(
        "sm_90a"
    )


def shifted(body: tuple[Statement, ...], by: int) -> tuple[Statement, ...]:
    """Ask for lines so many elements further on."""
    out: list[Statement] = []
    for s in body:
        match s:
            case If(body=inner) | For(body=inner):
                out.append(attrs.evolve(s, body=shifted(inner, by)))
            case Ask(view=view):
                out.append(attrs.evolve(s, view=attrs.evolve(view, offset=view.offset + by, origin=())))
            case _:
                out.append(s)
    return tuple(out)


def test_lines_lie_in_the_tensor() -> None:
    kernel = lowered((128, 128, 128), attrs.evolve(WIDE, stages=3))
    arrays = random_arrays(Interface.of(kernel), {})
    simulate(attrs.evolve(kernel, body=shifted(kernel.body, 0)), dict(arrays))
    with pytest.raises(SimulationError, match=r"prefetch.*asks for") as caught:
        simulate(attrs.evolve(kernel, body=shifted(kernel.body, 128)), dict(arrays))
    assert caught.value.code == "out-of-bounds"


def test_groups_are_refused() -> None:
    """The preset asks for nothing there; a chain that does is told why not."""
    grouped = matmul(512, 256, 128, "bf16", layout="TN", groups=4, arch="sm_90a")
    assert not any(isinstance(s, Ask) for s in walk(hopper.gemm(grouped).lowered().body))
    with pytest.raises(FireironError, match="drop prefetch=") as caught:
        _ = (
            grouped.tile(128, 128, batch=1).to(Block).persistent(Grouped(4)).epilog(memory=FR, store=conform())
            .split(64).pipeline(3, inflight=1).specialize(prefetch=1).load(A, SH, tma()).load(B, SH, tma())
            .tile(64, 128).to(Warpgroup).split(16).unroll().done()
        )  # fmt: skip
    assert caught.value.code == "role-prefetch"
