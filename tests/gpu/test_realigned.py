"""Products of matrices whose lines start between multiples of 16 bytes, by copies, on torch's tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fireiron import gemm, matmul
from fireiron.front import best, realigned
from fireiron.front.kept_copies import kept_copies
from fireiron.front.several import compiled_for


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("given", [False, True], ids=["current stream", "given stream"])
def test_copies_and_the_product_give_the_product(
    gpu: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, layout: str, given: bool
) -> None:
    torch: Any = pytest.importorskip("torch")
    if gpu < 90:
        pytest.skip("wgmma takes copies from sm_90 on")
    monkeypatch.setattr(realigned, "LAUNCH_US", -1000.0)
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    m, n, k = 701, 1003, 517
    assert compiled_for(matmul(m, n, k, "f16", layout=layout)) is not None
    a = torch.randint(-4, 5, (m, k), dtype=torch.float16, device="cuda")
    b = torch.randint(-4, 5, (k, n), dtype=torch.float16, device="cuda")
    wanted = (a.double() @ b.double()).half()
    first = a.t().contiguous() if layout[1] == "T" else a
    second = b.t().contiguous() if layout[0] == "T" else b
    stream = torch.cuda.Stream() if given else None
    torch.cuda.synchronize()
    for _ in range(3):  # copies' memory is used again
        made = gemm(first, second, layout=layout, stream=stream)
        torch.cuda.synchronize()
        assert torch.equal(made, wanted)
    best.forget()
    kept = kept_copies(matmul(m, n, k, "f16", layout=layout), best.target_of(matmul(m, n, k, "f16")), None)  # type: ignore[arg-type]
    assert kept is not None
    assert kept.copies is not None
    assert torch.equal(kept.copies(first, second), wanted)
