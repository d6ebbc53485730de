"""Plans of graphs on the GPU: NumPy-like functions by torch's tensors, and the backend of torch.compile."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

from fireiron import nn, tensor, trace_graph

torch: Any = pytest.importorskip("torch")


def layer(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, gain: Any, up: Any, down: Any) -> Any:
    def heads(w: Any) -> Any:
        return (x @ w).reshape(*x.shape[:2], -1, 64).transpose(0, 2, 1, 3)

    y = x + nn.attention(heads(wq), heads(wk), heads(wv)).transpose(0, 2, 1, 3).reshape(x.shape) @ wo
    return y + nn.gelu(nn.rms_norm(y, gain) @ up) @ down


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_layer_computes_what_numpy_does(gpu: int, dtype: str) -> None:
    shapes = [(2, 128, 256), *[(256, 256)] * 4, (256,), (256, 512), (512, 256)]
    graph = trace_graph(layer, *(tensor(*s, dtype=dtype) for s in shapes))
    plan = graph.plan(strict=True)
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    arrays = [(0.1 * torch.randn(*s)).to(kind) for s in shapes]
    wide = [x.float().numpy() for x in arrays]
    given = [x.cuda() for x in arrays]
    for _ in range(3):
        made = plan(*given).float().cpu().numpy()
    exact, eager = graph.evaluate(*wide), graph.evaluate(*wide, rounded=True)
    assert abs(made - exact).max() <= 1.5 * abs(eager - exact).max() + 1e-4


class Block(torch.nn.Module):
    """Be a layer of BERT."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.norm, self.last = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        q, k, v = (f(x).view(*x.shape[:2], -1, 64).transpose(1, 2) for f in (self.q, self.k, self.v))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        y = self.norm(self.o(seen.transpose(1, 2).reshape(x.shape)) + x)
        return self.last(self.down(torch.nn.functional.gelu(self.up(y))) + y)


@pytest.mark.parametrize("capture", [False, True])
def test_the_backend_of_torch_compile(gpu: int, capture: bool) -> None:
    import fireiron.torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Block().cuda().eval()
    fast = torch.compile(Block().cuda().eval(), backend=fireiron.torch.backend, options={"capture": capture})
    fast.load_state_dict({f"_orig_mod.{k}": v for k, v in model.state_dict().items()})
    fast = fast.half()
    with torch.no_grad():
        for turn in range(5):  # tensors at other places than those that were captured
            x = torch.randn(4, 128, 256, device="cuda")
            exact = model(x)
            error = (fast(x.half()).float() - exact).abs().max()
            assert error < 0.01 * exact.abs().max(), turn


def test_a_training_step(gpu: int) -> None:
    import fireiron.torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512)).cuda()
    x = torch.randn(128, 256, device="cuda")
    model(x).square().mean().backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.compile(model, backend=fireiron.torch.backend)(x).square().mean().backward()
    for p, w in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, w, rtol=2e-3, atol=2e-5)
