"""Next lines: a persistent block of layers asks the L2 cache for its next tile's X, all of it, each line once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fireiron import FR, SH, A, B, Block, ColMajor, Matrix, RowMajor, Warp, cp_async, layers, relu
from fireiron.algebra.expr import evaluate
from fireiron.front.digest import digest
from fireiron.kernel.ir.statements import BLOCK, BLOCKS, THREAD, Ask, For, If, Let, Region, Role, Roles, Statement, walk
from fireiron.schedules import _programs, fused

BLOCKS_AT_WORK = 3


def env_of(block: int, threads: int) -> dict[str, Any]:
    return {BLOCK: block, BLOCKS: BLOCKS_AT_WORK, THREAD: np.arange(threads)}


def asked(body: tuple[Statement, ...], env: dict[str, Any], active: Any) -> Counter[int]:
    """Count the elements of X whose lines the active threads ask for, in every trip of every loop."""
    found: Counter[int] = Counter()
    for s in body:
        match s:
            case Let(var, value):
                env[var.name] = evaluate(value, env)
            case If(condition, inner) if any(isinstance(x, Ask) for x in walk(inner)):
                found += asked(inner, env, active & (np.broadcast_to(evaluate(condition, env), len(active)) != 0))
            case For(var=var, extent=extent, body=inner) if any(isinstance(x, Ask) for x in walk(inner)):
                for i in range(int(evaluate(extent, env))):  # pyright: ignore[reportArgumentType]
                    found += asked(inner, {**env, var.name: i}, active)
            case Ask(view=view):
                assert view.buffer.name == "X"
                found.update(np.broadcast_to(evaluate(view.offset, env), len(active))[active].tolist())
            case Region(body=inner):
                found += asked(inner, env, active)
            case _:
                pass
    return found


def of_all_blocks(made: Any) -> Counter[int]:
    kernel = made.lowered()
    roles = next((s.roles for s in kernel.body if isinstance(s, Roles)), ())
    math: Role | None = next((r for r in roles if r.name == "math"), None)
    body, threads = (kernel.body, kernel.threads) if math is None else (math.body, math.threads)
    found: Counter[int] = Counter()
    for block in range(BLOCKS_AT_WORK):
        found += asked(body, env_of(block, threads), np.ones(threads, bool))
    return found


@pytest.mark.parametrize(("rows", "width"), [(64, 64), (128, 64), (128, 48), (64, 96)])
def test_all_lines_but_those_of_first_tiles(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of X has 64 elements of 16 bits; the last tile may be cut short."""
    monkeypatch.setattr(_programs, "SMS", BLOCKS_AT_WORK)
    m = 4 * rows + 20
    found = of_all_blocks(fused.mlp(m, width, 2, path="hopper", rows=rows))
    first = BLOCKS_AT_WORK * rows
    assert found == Counter(row * width + col for row in range(first, m) for col in range(0, width, 64))


def stack(order: Any, prefetch: bool = True, persistent: bool = True) -> Any:
    m, width = 320, 32
    x, y = Matrix(m, width, "f16", order, name="X"), Matrix(m, width, "f16", name="Y")
    w = Matrix(width, width, "f16", ColMajor, name="W", batch=2)

    def layer(one: Any) -> Any:
        loaded = one.epilog().split(16).unroll().load(B, SH, cp_async()).storage_layout(ColMajor).pad(8)
        return loaded.tile(16, 32).to(Warp).tile(16, 8).unroll().load(B, FR).done()

    tiled = layers(y, x, (w, relu)).tile(64).to(Block)
    return (tiled.persistent() if persistent else tiled).load(A, FR).each(layer, prefetch=prefetch)


def test_columns_of_an_x_that_lies_so() -> None:
    found = of_all_blocks(stack(ColMajor))
    assert found == Counter(row + col * 320 for row in (192, 256) for col in range(32))


def test_presets_ask_where_blocks_take_several_tiles() -> None:
    assert "prefetch_line" in fused.mlp(132 * 256 + 1, 128, 2).cuda("sm_90a")
    assert "prefetch_line" not in fused.mlp(132 * 256, 128, 2).cuda("sm_90a")


def test_nothing_without() -> None:
    assert not of_all_blocks(stack(RowMajor, prefetch=False))
    assert "prefetch_line" not in stack(RowMajor, prefetch=False, persistent=False).cuda("sm_90a")


def test_right_and_told(programs: Any) -> None:
    programs.simulated(stack(RowMajor))
    made = stack(RowMajor)
    assert "asks the L2 cache for its next tile's X" in repr(made.explain().rows)
    assert "prefetch" in made.tree()
    without = stack(RowMajor, prefetch=False)
    assert digest(made.program, made.links, "") != digest(without.program, without.links, "")
