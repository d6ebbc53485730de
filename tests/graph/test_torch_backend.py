"""The backend of torch.compile, on the CPU: plans are simulated, and agree with torch in f32."""
# pyright: reportMissingImports=false

from __future__ import annotations

import gc
import importlib.util
from typing import Any

import pytest

from fireiron import FireironError

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from torch import nn

import fireiron.torch
from fireiron.graph.torch_backend import plans
from fireiron.graph.torch_library import Torch

functional: Any = nn.functional


class Attention(nn.Module):
    """Project, attend, project: with torch's attention, or written out as transformers do without it."""

    def __init__(self, written: bool) -> None:
        super().__init__()
        self.written = written
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = (f(x).view(*x.shape[:2], 2, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.written:
            scores = torch.matmul(q, k.transpose(-1, -2)) / 4 + mask
            seen = torch.matmul(torch.softmax(scores, -1), v)
        else:
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(seen.transpose(1, 2).reshape(x.shape))


class Encoder(nn.Module):
    """Be a layer of BERT."""

    def __init__(self, written: bool = True) -> None:
        super().__init__()
        self.attention = Attention(written)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x: Any, mask: Any) -> Any:
        y = self.norm(self.attention(x, mask) + x)
        return self.last(self.down(functional.gelu(self.up(y))) + y)


class Odd(nn.Module):
    """Need an operator that no kernel has."""

    def forward(self, x: Any) -> Any:
        return torch.cumprod(x * 2, -1).relu() + 1


def compiled(model: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=fireiron.torch.backend, options={"arch": "sm_90a", **options})


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def forms() -> list[str]:
    return [x.part.kind if x.kernel is not None else "left over" for x in plans()[-1].launches if not x.once]


def agrees(model: Any, *inputs: Any) -> list[str]:
    """Compare a model in f16 with torch in f32, and hold its error to that of torch in f16."""
    torch.manual_seed(0)
    model = model.eval()
    with torch.no_grad():
        exact = model(*inputs)
        short = [x.half() for x in inputs]
        model = model.half()
        eager = model(*short).float()
        made = compiled(model)(*short)
    assert made.dtype == torch.float16
    error, theirs = (made.float() - exact).abs().max(), (eager - exact).abs().max()
    assert error <= 1.5 * theirs + 1e-3, (error, theirs)
    return forms()


def test_a_layer_of_bert() -> None:
    mask = torch.zeros(2, 1, 1, 16)
    mask[1, ..., 12:] = -10000.0
    wanted = ["products", "attention", "product rows", "product", "product rows"]
    for written in (True, False):
        torch.manual_seed(1)
        assert agrees(Encoder(written), drawn(2, 16, 32), mask) == wanted


def test_frozen_weights_are_packed_once_until_they_change() -> None:
    torch.manual_seed(0)
    model, x, mask = Encoder(False).eval().half(), drawn(2, 16, 32).half(), torch.zeros(2, 1, 1, 16).half()
    with torch.no_grad():
        run = compiled(model, freeze=True)
        for turn in range(3):
            torch.testing.assert_close(run(x, mask), model(x, mask), rtol=4e-3, atol=4e-3)
            kept = next(iter(plans()[-1].runner.kept.values()))
            if turn == 1:
                model.attention.q.weight.mul_(3)
        assert forms() == ["product", "attention", "product rows", "product", "product rows"]
        run(x, mask)
        assert next(iter(plans()[-1].runner.kept.values())) is kept


class Seen(nn.Module):
    """Be torch's attention alone."""

    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Placed(nn.Module):
    """Be torch's attention with a mask that is made of places alone, as transformers make masks."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        here = torch.arange(q.shape[-2], device=q.device)
        seen = here[None, None, :, None] + 0 >= (0 if self.kind == "all" else here)
        if self.kind == "window":
            seen = seen & (here[None, None, :, None] - here < 8)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen.expand(2, 1, 32, 32))


@pytest.mark.parametrize(("kind", "arrays"), [("all", 3), ("causal", 3), ("window", 4)])
def test_a_mask_of_places_is_computed_when_the_plan_is_made(kind: str, arrays: int) -> None:
    q, k, v = (drawn(2, 2, 32, 16).half() * i for i in (1, 2, 3))
    with torch.no_grad():
        made = compiled(Placed(kind))(q, k, v)
        wanted = Placed(kind)(q.float(), k.float(), v.float())
    torch.testing.assert_close(made.float(), wanted, rtol=2e-3, atol=2e-3)
    assert forms() == ["attention"]
    assert len(plans()[-1].kernels[0].inputs) == arrays


@pytest.mark.parametrize("mask", ["none", "keys", "pairs", "added"])
def test_attention_of_torch_is_one_kernel(mask: str) -> None:
    given = {
        "none": None,
        "keys": (drawn(2, 1, 1, 32) > -1).expand(2, 1, 32, 32),
        "pairs": drawn(2, 1, 32, 32) > -1,
        "added": drawn(2, 1, 1, 32).half(),
    }[mask]
    q, k, v = (drawn(2, 2, 32, 16).half() * i for i in (1, 2, 3))
    wide = given.float() if mask == "added" else given
    with torch.no_grad():
        made = compiled(Seen())(q, k, v, given)
        wanted = Seen()(q.float(), k.float(), v.float(), wide)
    torch.testing.assert_close(made.float(), wanted, rtol=2e-3, atol=2e-3)
    assert forms() == ["attention"]


def test_repeated_heads_are_read_once() -> None:
    """Heads of keys and values that are repeated for several heads of queries are not copied."""

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        k, v = (x[:, :, None].expand(2, 2, 3, 32, 16).reshape(2, 6, 32, 16) for x in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    torch._dynamo.reset()
    q, k, v = drawn(2, 6, 32, 16).half(), drawn(2, 2, 32, 16).half(), drawn(2, 2, 32, 16).half() * 2
    mask = (drawn(2, 1, 32, 32) > -1) | torch.eye(32, dtype=torch.bool)
    with torch.no_grad():
        made = torch.compile(attend, backend=fireiron.torch.backend)(q, k, v, mask)
        torch.testing.assert_close(made.float(), attend(q.float(), k.float(), v.float(), mask), rtol=2e-3, atol=2e-3)
    assert forms() == ["attention"]


def test_padding_by_nothing_is_no_operation() -> None:
    model = nn.Sequential(nn.ZeroPad2d(0), nn.Linear(32, 16))
    assert agrees(model, drawn(2, 4, 32)) == ["product"]


@pytest.mark.parametrize(
    ("pads", "value"),
    [((1, 2), 0.0), ((0, 3, 2, 0), -1.5), ((1, 0, 0, 0, 0, 2), float("-inf")), ((-1, 2), 0.0)],
)
def test_padding_is_fused_with_its_neighbours(pads: tuple[int, ...], value: float) -> None:
    def padded(x: Any) -> Any:
        return functional.pad(x.tanh(), pads, value=value) * 2

    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(compiled(padded)(x), padded(x), rtol=1e-5, atol=1e-6)
    assert forms() == ["pointwise"]


def test_a_perceptron() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.SiLU(), nn.Linear(32, 8))
    assert agrees(model, drawn(24, 32)) == ["product"] * 3


def test_a_norm_and_a_product() -> None:
    torch.manual_seed(0)
    assert agrees(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32), nn.Softmax(-1)), drawn(16, 64)) == [
        "rows", "product rows",
    ]  # fmt: skip


def test_numbers_of_64_bits_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    converted, seen = Torch.converted, list[Any]()

    def noted(library: Torch, array: Any, dtype: Any) -> Any:
        seen.append((array.dtype, str(dtype)))
        return converted(library, array, dtype)

    monkeypatch.setattr(Torch, "converted", noted)
    torch.manual_seed(0)
    model = nn.Embedding(50, 32).eval()
    ids = torch.randint(0, 50, (3, 8))
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(ids), model(ids), rtol=0, atol=0)
    assert forms() == ["pointwise"]
    assert (torch.int64, "i32") not in seen
    assert seen


class Tables(nn.Module):
    """Multiply lines of two tables."""

    def __init__(self, rows: int, padding: int | None) -> None:
        super().__init__()
        self.many, self.few = nn.Embedding(rows, 24, padding_idx=padding), nn.Embedding(3, 24)

    def forward(self, i: Any, j: Any) -> Any:
        return (self.many(i) * self.few(j)).tanh()


@pytest.mark.parametrize(("rows", "padding"), [(5, None), (5, 3), (40, None), (1 << 17, 3)])
def test_gradients_of_tables_are_sums(rows: int, padding: int | None) -> None:
    torch.manual_seed(0)
    model, before = Tables(rows, padding), len(plans())
    i, j = torch.randint(0, rows, (2, 9)), torch.randint(0, 3, (2, 9))
    i[0, :4] = 3

    def gradients(run: Any, scale: Any) -> list[Any]:
        model.zero_grad()
        (run(i, j).square() * scale).sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    fast, scale = compiled(model), torch.ones(2, 9, 24)
    for _ in range(2):
        for got, wanted in zip(gradients(fast, scale), gradients(model, scale), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
        scale[1, 2, 5] = float("inf")  # reaches the rows that were read there, and no others
    assert not [n["label"] for plan in plans()[before:] for n in plan.graph.nodes if n.op == "foreign"]


def test_an_embedding_with_a_norm() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 32), nn.LayerNorm(32)).eval()
    ids = torch.randint(0, 50, (3, 8))
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(ids), model(ids), rtol=1e-5, atol=1e-5)
    assert forms() == ["pointwise", "rows"]


class Conditions(nn.Module):
    """Negate conditions, and take numbers for conditions."""

    def forward(self, x: Any, y: Any) -> Any:
        one = torch.where(x != y, x, -3.0)
        two = torch.where(torch.logical_not(x > y), y, 5.0)
        return one + two * torch.where(x.to(torch.bool), 2.0, 7.0)


def test_negated_conditions() -> None:
    x, y = drawn(4, 32), drawn(4, 32)
    x[0], x[1] = y[0], 0.0
    torch.testing.assert_close(compiled(Conditions())(x, y), Conditions()(x, y))
    assert forms() == ["pointwise"]


def test_what_no_kernel_computes_is_left_to_torch() -> None:
    x = drawn(4, 32)
    torch.testing.assert_close(compiled(Odd())(x), Odd()(x))
    assert forms() == ["pointwise", "left over", "pointwise"]
    with pytest.raises(Exception, match="graph-strict"):
        compiled(Odd(), strict=True)(x)


def test_a_result_that_is_a_number_is_left_to_torch() -> None:
    def function(x: Any) -> Any:
        return x * 2, torch.arange(32)[:, None] >= 0

    doubled, seen = compiled(function)(drawn(32, 32))
    assert seen.shape == (32, 1)
    assert bool(seen.all())
    assert doubled.shape == (32, 32)
    assert forms() == ["pointwise", "left over"]


def test_a_plan_for_each_set_of_shapes() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU()).eval()
    run = compiled(model)
    with torch.no_grad():
        for rows in (8, 24, 40, 8):
            x = drawn(rows, 32)
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("marked", [False, True])
def test_another_batch_compiles_nothing(marked: bool) -> None:
    torch.manual_seed(0)
    model, before = Encoder(False).eval(), len(plans())
    torch._dynamo.reset()
    run = torch.compile(
        model, backend=fireiron.torch.backend, options={"arch": "sm_90a"}, dynamic=None if marked else True
    )
    kernels: list[int] = []
    with torch.no_grad():
        for batch in (3, 5, 11):
            inputs = drawn(batch, 16, 32), drawn(batch, 1, 1, 16)
            for x in inputs if marked else ():
                torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(run(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)
            (made,) = plans()[before:]
            kernels.append(len(made.runner.compiled))
    assert made.samples is not None
    assert kernels == [kernels[0]] * 3


@pytest.mark.parametrize("marked", ["", "length", "both"])
def test_another_length_compiles_nothing(marked: str) -> None:
    torch.manual_seed(0)
    model, before = Encoder(False).eval(), len(plans())
    torch._dynamo.reset()
    run = torch.compile(
        model, backend=fireiron.torch.backend, options={"arch": "sm_90a"}, dynamic=None if marked else True
    )
    kernels: list[int] = []
    with torch.no_grad():
        for batch, length in ((3, 20), (3, 31), (3 if marked == "length" else 5, 17)):
            x, mask = drawn(batch, length, 32), drawn(batch, 1, 1, length)
            for one, axis in ((x, 1), (mask, 3)) if marked else ():
                torch._dynamo.mark_dynamic(one, axis)
                if marked == "both":
                    torch._dynamo.mark_dynamic(one, 0)
            torch.testing.assert_close(run(x, mask), model(x, mask), rtol=1e-4, atol=1e-4)
            (made,) = plans()[before:]
            kernels.append(len(made.runner.compiled))
    assert made.samples is not None
    assert [s.name for s in made.samples.symbols] == (["length"] if marked == "length" else ["batch", "length"])
    assert kernels == [kernels[0]] * 3


def test_a_sum_over_the_batch_has_a_plan_for_each_batch() -> None:
    torch.manual_seed(0)
    model, before = nn.Linear(32, 16), len(plans())
    torch._dynamo.reset()
    run = torch.compile(model, backend=fireiron.torch.backend, options={"arch": "sm_90a"}, dynamic=True)
    for batch in (5, 7):
        grads: list[Any] = []
        for each in (run, model):
            model.zero_grad()
            each(drawn(batch, 32)).square().mean().backward()
            grads.append([p.grad.clone() for p in model.parameters()])  # type: ignore[union-attr]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    assert [plan.samples is not None for plan in plans()[before:]] == [True, False, False]  # forward, and both backward


def test_gradients_of_a_perceptron() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    x = drawn(16, 32)
    model(x).square().mean().backward()
    wanted = [p.grad.clone() for p in model.parameters()]  # type: ignore[union-attr]
    model.zero_grad()
    compiled(model)(x).square().mean().backward()
    for p, w in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, w, rtol=1e-3, atol=1e-5)


def test_weights_are_not_kept_twice_for_the_backward_pass() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    before = len(plans())
    compiled(model)(drawn(16, 32)).square().mean().backward()
    forward, _ = plans()[before:]
    kept = [forward.graph.nodes[i] for i in forward.graph.outputs]
    assert not [node for node in kept if node.op == "copy" and node.shape in ((64, 32), (64, 64), (32, 64))]


class Words(nn.Module):
    """Embed words, and put a layer of BERT on them."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(100, 32), Encoder(False)

    def forward(self, ids: Any, mask: Any) -> Any:
        return self.layer(self.words(ids), mask)


def held_by_torch(module: Any) -> int:
    """Give the most bytes that are alive where torch runs a graph operator by operator, inputs and results counted."""
    from fireiron.graph.torch_views import base_of

    nodes, last, size = list(module.graph.nodes), dict[Any, int](), dict[Any, int]()
    for place, node in enumerate(nodes):
        value = node.meta.get("val")
        size[node] = (
            value.numel() * value.element_size() if isinstance(value, torch.Tensor) and base_of(node) is node else 0
        )
        last |= dict.fromkeys(map(base_of, node.all_input_nodes), place)
    first = {node: -1 if node.op == "placeholder" else place for place, node in enumerate(nodes)}
    return max(sum(size[n] for n in nodes if first[n] <= at <= last.get(n, first[n])) for at in range(len(nodes)))


def test_a_training_step_holds_no_more_than_torch(monkeypatch: Any) -> None:
    import fireiron.graph.torch_backend as made_by

    graphs: list[Any] = []
    imported = made_by.imported
    monkeypatch.setattr(made_by, "imported", lambda module, **k: (graphs.append(module), imported(module, **k))[1])
    torch.manual_seed(0)
    model, before = Words(), len(plans())
    ids, mask = torch.arange(32).view(2, 16) % 100, torch.zeros(2, 1, 1, 16)

    def grads(run: Any) -> list[Any]:
        model.zero_grad()
        run(ids, mask).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]  # type: ignore[union-attr]

    for got, wanted in zip(grads(compiled(model)), grads(model), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-5)
    assert len(graphs) == 2
    for plan, graph in zip(plans()[before:], graphs, strict=True):
        assert plan.memory.spent <= held_by_torch(graph), plan.graph.name
        # Heads in torch's order of axes are read in place: no part copies an array of the layer.
        assert not [x for x in plan.launches if all(plan.graph.nodes[n].op == "copy" for n in x.part.nodes)]
    labels = [n["label"] for plan in plans()[before:] for n in plan.graph.nodes if n.op == "foreign"]
    assert not [label for label in labels if "scatter" in label or "embedding" in label]


class Joined(nn.Module):
    """Project queries, keys and values by one matrix, as GPT-2 does."""

    def __init__(self) -> None:
        super().__init__()
        self.three, self.last = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        q, k, v = (each.view(2, 16, 2, 16).transpose(1, 2) for each in self.three(x).split(32, -1))
        return self.last(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 16, 32))


def test_parts_of_one_array_are_kept_and_read_in_place() -> None:
    torch.manual_seed(0)
    model, x, before = Joined(), drawn(2, 16, 32), len(plans())

    def grads(run: Any) -> list[Any]:
        model.zero_grad()
        run(x).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]  # type: ignore[union-attr]

    torch.testing.assert_close(grads(compiled(model)), grads(model), rtol=1e-3, atol=1e-5)
    forward, backward = plans()[before:]
    assert [x.part.kind for x in forward.launches] == ["product", "attention", "product"]
    # Queries, keys and values are results by the strides of the product's, and the gradient reads them by these.
    kept = [forward.views[i] for i in forward.graph.outputs]
    strides = [dict(backward.graph.nodes[i].attributes).get("strides") for i in backward.graph.inputs]
    assert sum(view.strides == (1536, 16, 96, 1) for view in kept) == strides.count((1536, 16, 96, 1)) == 3
    assert sorted(view.offset for view in kept if view.strides == (1536, 16, 96, 1)) == [0, 32, 64]


@pytest.mark.parametrize("start", [0, 1, 8])
def test_inputs_with_gaps(start: int) -> None:
    def function(x: Any) -> Any:
        return x * 2 + 1

    wide = drawn(8, 64).half()
    run = compiled(function)
    for x in (wide[:, start : start + 32], wide[:, start : start + 32].contiguous()):
        torch.testing.assert_close(run(x), function(x))
    assert [dict(plan.graph.nodes[0].attributes).get("strides") for plan in plans()[-2:]] == [(64, 1), None]


def test_what_the_forward_pass_kept_is_released_while_the_backward_pass_runs() -> None:
    seen: list[list[bool]] = []
    kept: list[Any] = []

    from torch.multiprocessing.reductions import StorageWeakRef

    from fireiron.graph.plan import Plan

    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    run, x = compiled(model), drawn(16, 32)
    run(x).square().mean().backward()
    spend, launch = Plan.spend, type(plans()[-1].runner)._launch

    def noted(self: Any, arrays: list[Any]) -> Any:
        kept[:] = [StorageWeakRef(a.untyped_storage()) for a in arrays if a.shape == (16, 64)]
        return spend(self, arrays)

    def looked(self: Any, *given: Any) -> None:
        gc.collect()  # a simulation leaves cycles
        seen.append([not ref.expired() for ref in kept])
        launch(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "spend", noted)
        patch.setattr(type(plans()[-1].runner), "_launch", looked)
        run(x).square().mean().backward()
    backward = [line for line in seen if len(line) >= 2]
    assert all(backward[0])
    assert not any(backward[-1])


def test_options_that_are_not_there_are_refused() -> None:
    with pytest.raises(Exception, match="backend-options"):
        compiled(Odd(), speed=9)(drawn(4, 32))
    from fireiron.graph.torch_backend import backend

    with pytest.raises(FireironError, match="options: arch, freeze, capture"):
        backend(None, [], options={"speed": 9})


def test_large_kernels_are_computed_by_torch_on_the_cpu() -> None:
    torch.manual_seed(0)
    model = nn.Linear(512, 512).eval()
    x = drawn(512, 512)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-4)


def test_floats_lose_their_fractions_as_integers() -> None:
    def function(x: Any) -> Any:
        return (x * 0.7).to(torch.int32) + 1, (x * 3).to(torch.int64), (x > 0).to(torch.int32)

    x = torch.tensor([-1.9, -1.2, 0.4, 1.6, 2.9, -2.6])
    for found, wanted in zip(torch.compile(function, backend=fireiron.torch.backend)(x), function(x), strict=True):
        assert torch.equal(found, wanted)
        assert found.dtype == wanted.dtype
