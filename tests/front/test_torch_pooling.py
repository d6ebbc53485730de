"""Pooling of torch's tensors on the simulator: values and gradients against torch's own."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional
ops: Any = __import__("fireiron.torch").torch

SIDES = {1: (21,), 2: (7, 10), 3: (4, 5, 6)}
MAX: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "dilation": 2, "stride": 1},
]
MEAN: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True, "count_include_pad": False},
]


def drawn(*shape: int, dtype: str = "float16", last: bool = True) -> Any:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(getattr(torch, dtype))
    made = made.movedim(1, -1).contiguous().movedim(-1, 1) if last else made
    return made.detach().requires_grad_()


@pytest.mark.parametrize("rank", SIDES)
@pytest.mark.parametrize("name", ["max", "avg"])
def test_pooling(name: str, rank: int) -> None:
    for number, given in enumerate(MAX if name == "max" else MEAN):
        x = drawn(2, 8, *SIDES[rank], last=number != 1)
        wide = x.detach().float().requires_grad_()
        made, wanted = (getattr(o, f"{name}_pool{rank}d")(t, **given) for o, t in ((ops, x), (F, wide)))
        torch.testing.assert_close(made.float(), wanted, rtol=2e-3, atol=2e-3)
        assert made.is_contiguous() == (number == 1)
        weight = torch.linspace(-1, 1, wanted.numel()).reshape(wanted.shape)
        (found,) = torch.autograd.grad(made, x, weight.half())
        (expected,) = torch.autograd.grad(wanted, wide, weight)
        assert found.dtype == x.dtype
        torch.testing.assert_close(found.float(), expected, rtol=4e-3, atol=4e-3)


def test_integers_and_nan() -> None:
    x = drawn(1, 4, 4, 4, dtype="float32").detach()
    x[0, 1, 2, 2] = float("nan")
    assert torch.equal(ops.max_pool2d(x, 2).isnan(), F.max_pool2d(x, 2).isnan())
    x = torch.arange(32, dtype=torch.int8).reshape(1, 2, 4, 4)
    assert ops.max_pool2d(x, 2)[0, 1].tolist() == [[21, 23], [29, 31]]


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int32])
def test_the_largest_of_integers_has_their_type_and_their_mean_is_a_float(kind: Any) -> None:
    x = torch.arange(64).reshape(1, 4, 4, 4).to(kind)
    assert torch.equal(ops.max_pool2d(x, 2), F.max_pool2d(x, 2))
    assert ops.max_pool2d(x, 2).dtype == kind
    assert torch.equal(ops.avg_pool2d(x, 2), F.avg_pool2d(x.float(), 2))
    for op in ("max", "average"):  # what torch.compile sees
        torch.library.opcheck(
            torch.ops.fireiron.pool.default,
            (x, op, [2, 2], [2, 2], [0] * 4, [1, 1], True),
            test_utils="test_faketensor",
        )


def test_the_operator_is_well_formed() -> None:
    for op in ("max", "average"):
        given = (drawn(1, 8, 5, 5), op, [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], True)
        checks = ("test_schema", "test_faketensor", "test_autograd_registration")
        torch.library.opcheck(torch.ops.fireiron.pool.default, given, test_utils=checks)
