"""Hold functions that `torch.compile` compiles, and their gradients, against torch's."""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from fireiron.graph import torch_backend  # noqa: E402


def compared(function: Callable[..., Any], *arrays: Any, within: float = 1e-5) -> tuple[Any, ...]:
    """Hold a compiled function and its gradients against torch's, and return the plans."""
    torch._dynamo.reset()
    count = len(torch_backend.plans())
    fast = torch.compile(function, backend=torch_backend.backend, fullgraph=True, options={"arch": "sm_90a"})
    exact, made = ([x.clone().requires_grad_(x.is_floating_point()) for x in arrays] for _ in range(2))
    want, found = function(*exact), fast(*made)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    torch.testing.assert_close(found, want, atol=within, rtol=within, equal_nan=True)
    slope = torch.linspace(0.5, 1.5, want.numel(), dtype=want.dtype).reshape(want.shape)
    want.backward(slope)
    found.backward(slope)
    for one, other in zip(made, exact, strict=True):
        if one.is_floating_point():
            assert (one.grad is None) == (other.grad is None)
            if other.grad is not None:
                torch.testing.assert_close(one.grad, other.grad, atol=within, rtol=within, equal_nan=True)
    return torch_backend.plans()[count:]
