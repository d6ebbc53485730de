"""Products of few tiles and a long K in two launches, on torch's tensors."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import gemm, matmul
from fireiron.front import several
from fireiron.front.parts_of_k import Parts


@pytest.mark.parametrize("layout", ["NN", "TN"])
@pytest.mark.parametrize("given", [False, True], ids=["current stream", "given stream"])
def test_sums_of_parts_are_the_product(gpu: int, layout: str, given: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    if gpu != 90:
        pytest.skip("the model of parts is for Hopper")
    m, n, k = 480, 304, 54784
    assert isinstance(several.compiled_for(matmul(m, n, k, "f16", layout=layout)), Parts)
    a = torch.randint(-1, 2, (m, k), dtype=torch.float16, device="cuda")
    b = torch.randint(-1, 2, (k, n), dtype=torch.float16, device="cuda")
    wanted = (a.double() @ b.double()).half()
    second = b.t().contiguous() if layout == "TN" else b
    stream = torch.cuda.Stream() if given else None
    torch.cuda.synchronize()
    for _ in range(3):  # partial sums' memory is used again
        made = gemm(a, second, layout=layout, stream=stream)
        torch.cuda.synchronize()
        assert torch.equal(made, wanted)
