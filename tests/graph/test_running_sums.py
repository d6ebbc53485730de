"""Running sums of torch's graphs: kernels of rows, along any dim."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402

from fireiron.algebra.dtypes import DType, f16, f32, i64  # noqa: E402
from fireiron.graph.composites import Ops  # noqa: E402
from fireiron.graph.nodes import Builder  # noqa: E402
from fireiron.graph.torch_backend import backend, plans  # noqa: E402


def left(made: Any) -> set[str]:
    """Name what no kernel computes."""
    nodes = [plan.graph.nodes[i] for plan in made for launch in plan.foreign for i in launch.part.nodes]
    return {str(dict(node.attributes).get("label", node.op)) for node in nodes}


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(3, 40, 64), (2, 7, 33)], ids=str)
def test_dims(shape: tuple[int, ...], dim: int) -> None:
    """Also of what lies in lines of odd lengths; the gradient turns the lines, which torch does along the last dim."""
    torch.manual_seed(0)
    made = compared(lambda x: (x * 2).cumsum(dim) + 1, torch.randn(shape), within=1e-4)
    assert not left(made[:1])
    assert left(made) <= {"flip"}


def compiled(function: Any, *arrays: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, options={"arch": "sm_90a"})(*arrays)


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int32, torch.int64], ids=str)
def test_integers_are_summed_in_64_bits(kind: Any) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 2 if kind == torch.bool else 200, (6, 50)).to(kind)
    x = x * 2**56 if kind == torch.int64 else x
    found = compiled(lambda x: x.cumsum(1), x)
    assert found.dtype == torch.int64
    assert torch.equal(found, x.cumsum(1))
    assert not left(plans()[-1:])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_short_floats_are_summed_in_f32(kind: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 300).to(kind)
    found = compiled(lambda x: x.cumsum(-1), x)
    assert found.dtype == kind
    torch.testing.assert_close(found.float(), x.float().cumsum(-1), atol=0.05, rtol=2.0**-7)
    assert not left(plans()[-1:])


def test_another_type_is_given() -> None:
    x = torch.randn(8, 64).half()
    found = compiled(lambda x: x.cumsum(1, dtype=torch.float32), x)
    torch.testing.assert_close(found, x.float().cumsum(1), atol=1e-5, rtol=1e-5)
    assert not left(plans()[-1:])


def test_one_long_row_stays_with_torch() -> None:
    """One block would sum it."""
    assert left(compared(lambda x: x.cumsum(0) * 2, torch.ones(1 << 16))[:1]) == {"cumsum"}


@pytest.mark.parametrize("kind", [f32, f16, i64], ids=str)
def test_a_running_sum_takes_what_it_alone_reads(kind: DType) -> None:
    b = Builder()
    o = Ops(b)
    x = b.input("x", (8, 128), kind)
    graph = b.graph("sums", [o.add(o.cumsum(o.mul(x, b.constant(3, kind)), axis=1), x)])
    plan = graph.plan("sm_90", strict=True)
    assert [launch.part.kind for launch in plan.launches] == ["rows", "pointwise"]
    given = np.random.default_rng(0).integers(-9, 9, (8, 128)).astype(kind.numpy)
    found = plan(given)
    np.testing.assert_array_equal(found.astype(np.float64), (3 * given.astype(np.float64)).cumsum(1) + given)
