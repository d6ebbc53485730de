"""One kernel for all numbers of rows of a bucket, on torch's tensors."""

from __future__ import annotations

import numpy as np
import pytest

from fireiron import gemm


@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_rows_of_every_bucket(gpu: int, layout: str) -> None:
    torch = pytest.importorskip("torch")
    for m in (1, 16, 17, 100, 700, 1025):
        a = torch.randint(-4, 5, (m, 512), dtype=torch.bfloat16, device="cuda")
        b = torch.randint(-4, 5, (512, 384), dtype=torch.bfloat16, device="cuda")
        second = b if layout == "NN" else b.t().contiguous()
        for _ in range(2):  # the second call is remembered
            made = gemm(a, second, layout=layout, dynamic="M")
            wanted = (a.double() @ b.double()).to(torch.bfloat16)
            np.testing.assert_array_equal(made.float().cpu().numpy(), wanted.float().cpu().numpy())
