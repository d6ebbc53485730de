"""Losses of classes through `torch.compile`: values as torch's, and no matrix beside the scores."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402

from fireiron.graph import torch_backend  # noqa: E402

F = torch.nn.functional


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(24, 40), (40,), (2, 16, 4, 8)])
def test_a_loss_of_classes(shape: tuple[int, ...], reduction: str) -> None:
    torch.manual_seed(0)
    scores = 3 * torch.randn(shape)
    target = torch.randint(0, scores.shape[1 if len(shape) > 1 else 0], shape[:1] + shape[2:] if len(shape) > 1 else ())
    if target.dim():
        target.view(-1)[::5] = -100  # rows that do not count
    plans = compared(lambda x, y: F.cross_entropy(x, y, reduction=reduction), scores, target)
    if len(shape) > 1:  # a single row has results without dims
        assert not any(plan.foreign for plan in plans), [plan.explain() for plan in plans]


def head(x: Any, w: Any, y: Any) -> Any:
    """Take the mean loss of scores, which are a product."""
    return F.cross_entropy((x @ w.T).float(), y)


def test_scores_alone_are_stored() -> None:
    """Forward gives two numbers of each row, with which the backward pass computes the rest of the scores again."""
    torch.manual_seed(0)
    x, w, y = torch.randn(32, 16).half(), torch.randn(64, 16).half(), torch.randint(0, 64, (32,))

    forward, backward = compared(head, x, w, y, within=4e-3)
    for plan in (forward, backward):
        assert not plan.foreign
        made = [plan.graph.nodes[n] for launch in plan.launches for n in launch.part.outputs]
        assert {node.dtype.name for node in made if node.size == 32 * 64} <= {"f16"}
    assert len(forward.kernels) == len(backward.kernels) == 3


def test_scores_of_an_odd_number_of_classes_have_padded_lines() -> None:
    """Scores that the caller gets lie as torch's; the backward pass reads those that it does not get as they lie."""
    torch.manual_seed(0)
    x, w, y = torch.randn(128, 16).half(), torch.randn(389, 16).half(), torch.randint(0, 389, (128,))

    forward, backward = compared(head, x, w, y, within=4e-3)
    assert [v.strides for i in forward.graph.outputs if (v := forward.views[i]).shape == (128, 389)] == [(392, 1)]
    given = [dict(backward.graph.nodes[i].attributes) for i in backward.graph.inputs]
    assert [g["strides"] for g in given if g.get("padded")] == [(392, 1)]
    stored = [backward.views[n].strides for x in backward.launches for n in x.part.outputs]
    assert (392, 1) in stored  # the scores' gradients, which two products read

    def both(x: Any, w: Any, y: Any) -> Any:
        scores = x @ w.T
        return torch.cat([F.cross_entropy(scores.float(), y)[None], scores.float().reshape(-1)])

    torch._dynamo.reset()
    fast = torch.compile(lambda *a: (x @ w.T, head(*a)), backend=torch_backend.backend, fullgraph=True)
    scores, loss = fast(x.requires_grad_(), w, y)
    assert scores.is_contiguous()
    loss.backward()
    compared(both, x.detach(), w, y, within=4e-3)


def test_a_masked_language_model_in_short_floats_has_few_kernels() -> None:
    """Scores are returned beside the loss, and their gradients are summed for the bias."""
    torch.manual_seed(0)
    x, w, b = torch.randn(4, 32, 16).half(), torch.randn(389, 16).half(), torch.randn(389).half()
    y = torch.randint(0, 389, (4, 32))
    y[:, ::7] = -100

    def loss(x: Any, w: Any, b: Any, y: Any) -> Any:
        scores = F.linear(x, w, b)
        return torch.stack([F.cross_entropy(scores.view(-1, 389), y.view(-1)), scores.square().mean()])

    forward, backward = compared(loss, x, w, b, y, within=8e-3)
    assert not forward.foreign
    assert not backward.foreign
    assert len(backward.kernels) <= 5, backward.explain()


def test_torch_gets_dense_tensors_for_a_backward_pass_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept scores have padded lines, where torch traced dense ones."""
    imported, by_torch = torch_backend.Compiled._imported, torch_backend.Compiled._by_torch
    seen: list[Any] = []

    def forward_alone(self: Any, *given: Any) -> Any:
        if self.training.returned is None:
            raise torch_backend.Stays("the test takes no backward pass")
        return imported(self, *given)

    def noted(self: Any, inputs: list[Any]) -> Any:
        module, self.module = self.module, lambda *given: (seen.extend(given), module(*given))[1]
        return by_torch(self, inputs)

    monkeypatch.setattr(torch_backend.Compiled, "_imported", forward_alone)
    monkeypatch.setattr(torch_backend.Compiled, "_by_torch", noted)
    torch.manual_seed(0)
    x, w, y = torch.randn(128, 16).half(), torch.randn(389, 16).half(), torch.randint(0, 389, (128,))
    with pytest.warns(UserWarning, match="leaves a graph to torch"):
        (forward,) = compared(head, x, w, y, within=4e-3)
    assert [v.strides for i in forward.graph.outputs if (v := forward.views[i]).shape == (128, 389)] == [(392, 1)]
    assert (128, 389) in [tuple(x.shape) for x in seen]
    assert all(x.is_contiguous() for x in seen)


@pytest.mark.parametrize(
    "options", [{"ignore_index": 3}, {"label_smoothing": 0.1}, {"weight": torch.linspace(0.1, 2, 40)}]
)
def test_options_of_losses(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    scores, target = torch.randn(24, 40), torch.randint(0, 40, (24,))
    target[4:8] = options.get("ignore_index", -100)
    compared(lambda x, y: F.cross_entropy(x, y, **options), scores, target)


def test_a_loss_without_rows_is_not_a_number() -> None:
    scores, target = torch.randn(6, 40), torch.full((6,), -100)
    compared(lambda x, y: F.cross_entropy(x, y), scores, target)


def test_classes_that_no_number_selects() -> None:
    """Scores of other classes may be infinite."""
    scores, target = torch.randn(6, 40), torch.arange(6)
    scores[:, 20:] = -float("inf")
    compared(lambda x, y: F.cross_entropy(x, y), scores, target)


def test_a_bfloat16_loss() -> None:
    torch.manual_seed(0)
    scores, target = torch.randn(24, 40).bfloat16(), torch.randint(0, 40, (24,))
    compared(lambda x, y: F.cross_entropy(x, y), scores, target, within=2.0**-6)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("norm", "shape"), [
    (torch.nn.BatchNorm1d, (24, 16)), (torch.nn.BatchNorm1d, (4, 16, 9)), (torch.nn.BatchNorm2d, (4, 16, 6, 8)),
    (torch.nn.BatchNorm3d, (2, 8, 2, 3, 4)),
])  # fmt: skip
def test_a_batch_norm_reads_a_batch_twice(norm: Any, shape: tuple[int, ...], last: bool) -> None:
    """Once for its statistics, and once for the result, with the operations behind it; batches are counted beside."""
    if last and len(shape) != 4:
        pytest.skip("two dims lie apart")
    torch.manual_seed(0)
    torch._dynamo.reset()
    x = 0.1 * torch.randn(shape) + 30 + torch.arange(shape[1]).reshape(-1, *[1] * (len(shape) - 2))
    x = x.to(memory_format=torch.channels_last) if last else x
    slope, found = torch.randn(shape), []
    count = len(torch_backend.plans())
    for fast in (False, True):
        torch.manual_seed(1)
        module = norm(shape[1])
        torch.nn.init.normal_(module.weight)
        torch.nn.init.normal_(module.bias)
        call = torch.compile(module, backend=torch_backend.backend, options={"arch": "sm_90a"}) if fast else module
        given = x.clone().requires_grad_()
        made = torch.relu(call(given)) if not fast else call(given).relu()
        made.backward(slope)
        found.append((made, given.grad, module.weight.grad, module.bias.grad, module.running_mean, module.running_var))
    for got, want in zip(*reversed(found), strict=True):
        torch.testing.assert_close(got, want, atol=3e-4, rtol=3e-4)
    forward, backward = torch_backend.plans()[count:]
    kinds = [launch.part.kind for launch in forward.launches if launch.kernel is not None]
    assert kinds == ["pointwise", "reduction", "pointwise"]
    assert len(backward.kernels) == 2


def test_an_instance_norm() -> None:
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 8, 5, 6), torch.randn(8), torch.randn(8)
    compared(lambda x, w, b: F.instance_norm(x, weight=w, bias=b).square().sum(), x, w, b, within=1e-4)


def test_a_batch_norm_that_does_not_train() -> None:
    torch.manual_seed(0)
    module = torch.nn.BatchNorm2d(8).eval()
    module.running_mean.normal_()
    compared(lambda x: module(x).square().sum(), torch.randn(3, 8, 5, 6), within=1e-4)
