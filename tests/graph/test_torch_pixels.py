"""Convolutions of single pixels in training, against torch: products, whatever the order of the images in memory."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402

F = torch.nn.functional
CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


def foreign(plans: Any) -> list[str]:
    """Name the operators that torch runs."""
    return [n["label"] for plan in plans for n in plan.graph.nodes if n.op == "foreign"]


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(3, 16, 20), (3, 16, 4, 5), (2, 16, 2, 3, 4), (5, 16, 1, 1), (1, 16, 4, 5)])
def test_pixels_are_rows(shape: tuple[int, ...], bias: bool, last: bool) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(shape).half(), (torch.randn(24, 16, *[1] * (len(shape) - 2)) / 4).half()
    if last:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    given = (x, w, torch.randn(24).half()) if bias else (x, w)
    plans = compared(lambda *given: F.relu(CONVOLUTIONS[len(shape)](*given)), *given, within=1e-2)
    assert not foreign(plans)


def test_the_bias_is_in_the_product() -> None:
    torch.manual_seed(0)
    given = torch.randn(4, 32, 8, 8).half(), torch.randn(48, 32, 1, 1).half() / 5, torch.randn(48).half()
    for x in (given[0], given[0].to(memory_format=torch.channels_last)):
        plans = compared(lambda x, w, b: F.conv2d(x, w, b) * 2, x, *given[1:], within=1e-2)
        forward = [[plans[0].graph.nodes[n].op for n in launch.part.nodes] for launch in plans[0].launches]
        assert [ops for ops in forward if "matmul" in ops and "add" in ops], plans[0].explain()


@pytest.mark.parametrize("how", [{"stride": 2}, {"padding": 1}, {"groups": 2}])
def test_others_stay_with_torch(how: dict[str, int]) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(3, 16, 6, 6).half(), torch.randn(24, 16 // how.get("groups", 1), 1, 1).half()
    assert "convolution" in foreign(compared(lambda x, w: F.conv2d(x, w, **how) * 2, x, w, within=2e-2))
