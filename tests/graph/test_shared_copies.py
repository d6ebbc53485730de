"""Copies that views and products need: one for all readers, in an order that these can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import nn, tensor
from fireiron.graph.plan import Plan
from fireiron.graph.trace import trace_graph


def copies(plan: Plan) -> int:
    return sum(node.op == "copy" for node in plan.graph.nodes)


def computed(plan: Plan, *shapes: tuple[int, ...], within: float = 4e-3) -> None:
    """Hold a simulated plan against the graph."""
    draw = np.random.default_rng(0)
    given = [draw.standard_normal(shape).astype(np.float16) for shape in shapes]
    found, wanted = plan(*given), plan.passed.given.evaluate(*(x.astype(np.float64) for x in given))
    for one, right in zip(found, wanted, strict=True):
        assert np.abs(one - right).max() <= within * max(1.0, np.abs(right).max())


HEADS, RIGHT, LEFT = (2, 4, 24, 16), (64, 32), (48, 32)


def both(x: Any, w: Any, y: Any) -> Any:
    """Merge heads, and multiply the rows from both sides, as the gradients of a linear layer do."""
    rows = x.transpose(0, 2, 1, 3).reshape(48, 64)
    return (rows @ w).astype("float16"), (rows.T @ y).astype("float16")


def test_a_copy_is_read_transposed_too() -> None:
    plan = trace_graph(both, *(tensor(*s, dtype="f16") for s in (HEADS, RIGHT, LEFT))).plan("sm_80")
    assert copies(plan) == 1, plan.explain()
    computed(plan, HEADS, RIGHT, LEFT)


def shapes(x: Any, w: Any) -> Any:
    """Merge heads to two shapes, of which the caller gets one."""
    merged = x.transpose(0, 2, 1, 3)
    return merged.reshape(48, 64), (merged.reshape(2, 24, 64) @ w).astype("float16")


def test_a_copy_is_viewed_in_several_shapes() -> None:
    plan = trace_graph(shapes, *(tensor(*s, dtype="f16") for s in (HEADS, RIGHT))).plan("sm_80")
    assert copies(plan) == 1, plan.explain()
    computed(plan, HEADS, RIGHT)


def outputs(x: Any) -> Any:
    """Return two shapes of what lies in another order."""
    merged = (x * 2).transpose(0, 2, 1, 3)
    return merged.reshape(48, 64), merged.reshape(2, 24 * 64)


def test_results_share_no_copy() -> None:
    plan = trace_graph(outputs, tensor(*HEADS, dtype="f16")).plan("sm_80")
    one, other = plan(np.ones(HEADS, np.float16))
    assert not np.shares_memory(one, other)
    computed(plan, HEADS)


def windows(x: Any, w: Any, y: Any) -> Any:
    """Divide images into windows, and multiply their pixels from both sides."""
    parts = x.reshape(2, 2, 4, 2, 4, 16).transpose(0, 1, 3, 2, 4, 5)
    return (parts @ w).astype("float16"), (parts.reshape(128, 16).T @ y).astype("float16")


def test_a_copy_for_a_product_serves_a_view() -> None:
    sizes = (2, 8, 8, 16), (16, 32), (128, 24)
    plan = trace_graph(windows, *(tensor(*s, dtype="f16") for s in sizes)).plan("sm_80")
    assert copies(plan) == 1, plan.explain()
    computed(plan, *sizes)


def stacked(q: Any, k: Any, v: Any, w: Any) -> Any:
    """Stack three arrays of heads, put what belongs to a row side by side, and multiply the rows."""
    joined = np.concatenate([q, k, v], axis=0).reshape(3, *q.shape)
    return ((joined.transpose(1, 3, 0, 2, 4).reshape(48, -1) @ w).astype("float16"),)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_stacked_parts_are_written_in_their_readers_order(arch: str) -> None:
    sizes = HEADS, HEADS, HEADS, (192, 32)
    plan = trace_graph(stacked, *(tensor(*s, dtype="f16") for s in sizes)).plan(arch)
    assert not copies(plan), plan.explain()
    assert not plan.foreign
    if arch == "sm_80":
        computed(plan, *sizes)


def gated(x: Any, a: Any, b: Any) -> Any:
    """Multiply by two matrices, and combine the products."""
    return (nn.silu(x @ a) * (x @ b),)


@pytest.mark.parametrize(("rows", "products"), [(8, 1), (4096, 2)])
def test_large_products_that_an_operation_combines_are_two_kernels(rows: int, products: int) -> None:
    plan = trace_graph(gated, *(tensor(*s, dtype="f16") for s in ((2, rows // 2, 1024), *[(1024, 4096)] * 2))).plan(
        "sm_90a"
    )
    assert sum(x.part.kind in ("product", "products") for x in plan.launches) == products, plan.explain()


def slope(dy: Any, w: Any, g: Any, u: Any) -> Any:
    """Take the gradients of both operands of a gate behind a product."""
    d, f = (dy @ w).astype("float32"), g.astype("float32")
    s = 1 / (1 + np.exp(-f))
    return (d * f * s).astype("float16"), (d * u.astype("float32") * s * (1 + f * (1 - s))).astype("float16")


@pytest.mark.parametrize(("rows", "kinds"), [(64, ["product"]), (8192, ["product", "pointwise"])])
def test_epilogs_that_read_and_write_much_are_kernels_of_their_own(rows: int, kinds: list[str]) -> None:
    sizes = (rows, 1024), (1024, 4096), (rows, 4096), (rows, 4096)
    plan = trace_graph(slope, *(tensor(*s, dtype="f16") for s in sizes)).plan("sm_90a")
    assert [x.part.kind for x in plan.launches] == kinds, plan.explain()
