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


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", [(2, 320, 64, 64), (4, 64, 33, 17)])
def test_group_norm_and_its_gradients(gpu: int, shape: tuple[int, ...], last: bool) -> None:
    import fireiron.torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    given = [torch.randn(n, device="cuda", dtype=torch.bfloat16) for n in (shape, shape[1], shape[1])]
    given[0] = given[0].to(memory_format=torch.channels_last) if last else given[0]
    given = [x.requires_grad_() for x in given]
    ahead = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    function = lambda x, g, b: torch.nn.functional.silu(torch.nn.functional.group_norm(x, 32, g, b))  # noqa: E731
    wide = [x.detach().double().requires_grad_() for x in given]
    exact = torch.autograd.grad(function(*wide), wide, ahead.double())
    eager = torch.autograd.grad(function(*given), given, ahead)
    compiled = torch.compile(function, backend=fireiron.torch.backend)
    for _ in range(3):
        made = torch.autograd.grad(compiled(*given), given, ahead)
        for one, other, right in zip(made, eager, exact, strict=True):
            usual = (other.double() - right).abs().max()
            assert (one.double() - right).abs().max() <= 2 * usual + 2**-9 * right.abs().max()


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


def compiled(model: Any, **options: Any) -> Any:
    import fireiron.torch

    torch._dynamo.reset()
    return torch.compile(model, backend=fireiron.torch.backend, options=options)


def near(made: Any, exact: Any) -> bool:
    return bool((made.float() - exact).abs().max() < 0.01 * exact.abs().max())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_a_resnet_is_kernels_alone(gpu: int, freeze: bool, last: bool) -> None:
    from bench.models import ResNet
    from fireiron.graph.torch_backend import plans

    torch.manual_seed(0)
    model = ResNet((2, 2), 64, 40).cuda().eval()
    exact_model, x = ResNet((2, 2), 64, 40).cuda().eval(), torch.randn(4, 3, 64, 64, device="cuda")
    exact_model.load_state_dict(model.state_dict())
    format = torch.channels_last if last else torch.contiguous_format
    fast = compiled(model.half().to(memory_format=format), freeze=freeze, strict=True)
    with torch.no_grad():
        for _ in range(3):
            assert near(fast(x.half().to(memory_format=format)), exact_model(x))
    assert not plans()[-1].foreign


@pytest.mark.parametrize("capture", [False, True])
def test_frozen_weights_are_packed_until_they_change(gpu: int, capture: bool) -> None:
    from fireiron.graph.torch_backend import plans

    torch.manual_seed(0)
    exact, short = Block().cuda().eval(), Block().cuda().eval()
    short.load_state_dict(exact.state_dict())
    short = short.half()
    fast = compiled(short, freeze=True, capture=capture)
    with torch.no_grad():
        for turn in range(6):
            x = torch.randn(4, 128, 256, device="cuda")
            assert near(fast(x.half()), exact(x)), turn
            if turn == 3:  # behind the capture
                for model in (exact, short):
                    model.q.weight.mul_(0.5)
    kinds = [x.part.kind for x in plans()[-1].launches if not x.once]
    assert sum(kind in ("product", "product rows") for kind in kinds) == 4


@pytest.mark.parametrize("freeze", [False, True])
def test_a_stream_and_a_capture_of_the_user(gpu: int, freeze: bool) -> None:
    torch.manual_seed(0)
    model = Block().cuda().eval()
    fast = compiled(model, freeze=freeze)
    x = torch.randn(4, 128, 256, device="cuda")
    stream = torch.cuda.Stream()
    with torch.no_grad():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                made = fast(x)
        torch.cuda.current_stream().wait_stream(stream)
        assert near(made, model(x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = fast(x)
        for _ in range(2):
            x.copy_(torch.randn_like(x))
            graph.replay()
            assert near(captured, model(x))


def test_a_capture_of_the_user_ahead_of_the_plan_s_own(gpu: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()).cuda().eval()
    fast = compiled(model, freeze=True)
    x = torch.randn(64, 256, device="cuda")
    with torch.no_grad():
        fast(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = fast(x)
        x.mul_(2)
        graph.replay()
        assert near(made, model(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_autocast(gpu: int, dtype: str) -> None:
    torch.manual_seed(0)
    model = Block().cuda().eval()
    fast = compiled(model)
    x = torch.randn(4, 128, 256, device="cuda")
    with torch.no_grad():
        exact = model(x)
        with torch.autocast("cuda", dtype=getattr(torch, dtype)):
            made, eager = fast(x), model(x)
    assert made.dtype == eager.dtype
    assert (made.float() - exact).abs().max() <= 1.5 * (eager.float() - exact).abs().max() + 1e-3


def test_a_second_gpu(gpu: int) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    torch.manual_seed(0)
    model = Block()
    with torch.no_grad():
        x = torch.randn(2, 128, 256)
        exact = model.cuda(0)(x.cuda(0)).cpu()
        for device in ("cuda:0", "cuda:1"):
            there = model.to(device).eval()
            fast = compiled(there)
            for _ in range(3):
                made = fast(x.to(device))
            assert made.device == torch.device(device)
            assert near(made.cpu(), exact)


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


@pytest.mark.parametrize("capture", [True, False])
def test_training_steps_of_depthwise_layers(gpu: int, capture: bool) -> None:
    """Three steps: the first compiles, the second captures, the third replays."""
    import fireiron.torch
    from fireiron.graph.torch_backend import plans

    def made() -> Any:
        torch.manual_seed(0)
        nn = torch.nn
        layers = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        model = nn.Sequential(*layers, nn.Conv2d(64, 64, 5, stride=2, padding=2, groups=64), nn.Conv2d(64, 32, 1))
        return model.cuda().to(memory_format=torch.channels_last)

    torch._dynamo.reset()
    exact, model = made(), made().half()
    before = len(plans())
    fast: Any = torch.compile(model, backend=fireiron.torch.backend, options={"capture": capture})
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(8, 64, 28, 28, device="cuda").half().to(memory_format=torch.channels_last)
        for net, given in ((exact, x.float()), (fast, x)):
            net.zero_grad()
            net(given).float().square().mean().backward()
        for p, q in zip(model.parameters(), exact.parameters(), strict=True):
            assert float((p.grad.float() - q.grad).norm()) <= 2e-2 * float(q.grad.norm()) + 1e-4
    labels = [str(dict(n.attributes)["label"]) for p in plans()[before:] for n in p.graph.nodes if n.op == "foreign"]
    assert sum("conv_filters_gradient" in x for x in labels) == 2


def alike(made: Any, exact: Any) -> bool:
    """Say whether the gradients of two models agree."""
    both = zip(made.parameters(), exact.parameters(), strict=True)
    return all(float((p.grad - q.grad).norm()) <= 5e-3 * float(q.grad.norm()) + 1e-5 for p, q in both)


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_captured_training_steps(gpu: int, device: str, monkeypatch: Any) -> None:
    from fireiron.graph import captured_training

    if torch.cuda.device_count() <= int(device[-1]):
        pytest.skip("one GPU")
    replays: list[bool] = []
    ready = captured_training.CapturedPass._ready
    monkeypatch.setattr(
        captured_training.CapturedPass, "_ready", lambda *given: replays.append(ready(*given)) or replays[-1]
    )
    torch.manual_seed(0)
    exact, made = Block().to(device), Block().to(device)
    made.load_state_dict(exact.state_dict())
    fast = compiled(made, capture=True)
    steps = [torch.optim.SGD(model.parameters(), 0.1) for model in (exact, made)]
    streams = [torch.cuda.current_stream(device), torch.cuda.Stream(device)]
    results: list[tuple[Any, Any]] = []
    for turn in range(8):  # gradients of turns 2 to 4 add up; later turns change streams
        x = torch.randn(4, 128, 256, device=device)
        stream = streams[turn % 2 if turn > 4 else 0]
        for other in streams:
            stream.wait_stream(other)
        with torch.cuda.stream(stream):
            y, z = fast(x), exact(x)
            for model in (exact, made) if turn not in (3, 4) else ():
                model.zero_grad(set_to_none=bool(turn % 2))
            y.square().mean().backward()
            z.square().mean().backward()
            results.append((y.detach(), z.detach()))
            assert alike(made, exact), turn
            for step in steps:
                step.step()
        streams[0].wait_stream(stream)
    assert all(near(*both) for both in results)
    assert replays[-8:] == [True] * 8
    # A second forward pass leaves what the first kept.
    for model in (exact, made):
        model.zero_grad()
    given = [torch.randn(4, 128, 256, device=device) for _ in "ab"]
    for model in (fast, exact):
        one, two = (model(x) for x in given)
        (one.square().mean() + 2 * two.square().mean()).backward()
        del one, two
    assert alike(made, exact)
    assert replays[-4:] == [True, False, False, True]


@pytest.mark.parametrize("how", ["none", "causal", "conditions", "numbers", "groups"])
@pytest.mark.parametrize("way", ["", "_of_package", "_by_flash", "_by_efficient", "_by_products"])
def test_gradients_of_attention(gpu: int, how: str, way: str, monkeypatch: Any) -> None:
    import fireiron.torch
    from fireiron.graph import torch_attention
    from fireiron.graph.torch_backend import plans

    torch._dynamo.reset()
    torch.manual_seed(0)
    attention = torch.nn.functional.scaled_dot_product_attention
    shape = 2, 384, 4, 64
    few = (2, 384, 2, 64) if how == "groups" else shape
    q, k, v = (torch.randn(s, device="cuda").half().transpose(1, 2).requires_grad_() for s in (shape, few, few))
    mask = {
        "conditions": torch.rand(2, 1, 384, 384, device="cuda") > 0.3,
        "numbers": torch.randn(2, 1, 1, 384, device="cuda").half(),
    }.get(how)
    found = torch_attention.ways(q, k, mask is not None, lambda name: True)
    if way:
        chosen = [one for one in found if one.__name__ == way]
        if not chosen:
            return  # this kernel has no such gradient
        monkeypatch.setattr(torch_attention, "ways", lambda *_: (*chosen, torch_attention._by_products))

    def run(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return attention(q, k, v, attn_mask=mask, is_causal=how == "causal", enable_gqa=how == "groups")

    y = torch.compile(run, backend=fireiron.torch.backend)(q, k, v, mask)
    dy = torch.randn_like(y)
    made = torch.autograd.grad(y, (q, k, v), dy)
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    exact = run(*wide, mask.float() if how == "numbers" else mask)
    torch.testing.assert_close(y.float(), exact, rtol=4e-3, atol=4e-3)
    for got, wanted in zip(made, torch.autograd.grad(exact, wide, dy.float()), strict=True):
        assert float((got.float() - wanted).norm() / wanted.norm()) < 2e-3
    assert [x.part.kind for x in plans()[-2].launches] == ["attention"]
    assert not torch_attention._refused


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize(("rows", "width", "words"), [(512, 256, 1003), (1024, 512, 30522), (2048, 256, 50257)])
def test_losses_of_an_odd_number_of_words(gpu: int, rows: int, width: int, words: int, returned: bool) -> None:
    """Lines of scores are padded, unless the caller gets them; memory is not what it was before, and full of NaN."""
    import fireiron.torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    functional = torch.nn.functional
    kind = torch.bfloat16

    def loss(x: Any, w: Any, word: Any) -> Any:
        scores = x @ w.T
        mean = functional.cross_entropy(scores.float(), word)
        return (mean, scores) if returned else (mean,)

    word = torch.randint(0, words, (rows,), device="cuda")
    word[::7] = -100
    given = torch.randn(rows, width, device="cuda").to(kind), torch.randn(words, width, device="cuda").to(kind)
    exact = [x.double().requires_grad_() for x in given]
    functional.cross_entropy(exact[0] @ exact[1].T, word).backward()
    fast = torch.compile(loss, backend=fireiron.torch.backend, fullgraph=True)
    made = [x.clone().requires_grad_() for x in given]
    usual = [x.clone().requires_grad_() for x in given]
    functional.cross_entropy((usual[0] @ usual[1].T).float(), word).backward()
    for _ in range(4):  # launched, then captured
        for x in made:
            x.grad = None
        spoilt = torch.full((rows, words + 64), torch.nan, device="cuda", dtype=kind)
        del spoilt
        first, *rest = fast(*made, word)
        first.backward()
        assert all(x.is_contiguous() for x in rest)
        for x, y, z in zip(made, exact, usual, strict=True):
            error, theirs = ((one.grad.double() - y.grad).norm() / y.grad.norm() for one in (x, z))
            assert error <= 1.5 * theirs + 1e-3


def test_a_cache_is_written_in_place(gpu: int) -> None:
    """In captured launches, also with another cache, whose address is another capture."""
    import fireiron.torch
    from fireiron.graph.torch_backend import plans

    def step(cache: Any, place: Any, lines: Any, q: Any) -> Any:
        cache[:, :, place] = lines * 2
        return torch.softmax(q @ cache.mT, -1) @ cache

    torch.manual_seed(0)
    torch._dynamo.reset()
    fast = torch.compile(step, backend=fireiron.torch.backend)
    q = torch.randn(2, 4, 1, 64, device="cuda").half()
    with torch.no_grad():
        for _ in range(2):
            mine = torch.randn(2, 4, 128, 64, device="cuda").half()
            theirs = mine.clone()
            for place in range(6):
                lines, at = torch.randn(2, 4, 1, 64, device="cuda").half(), torch.tensor([place], device="cuda")
                found, want = fast(mine, at, lines, q), step(theirs, at, lines, q)
                assert torch.equal(mine, theirs)
                torch.testing.assert_close(found, want, atol=2e-2, rtol=2e-2)
            del mine
    (plan,) = plans()[-1:]
    assert plan.written
    assert not plan.foreign


def test_training_steps_of_pixels_and_of_numbers(gpu: int) -> None:
    """Convolutions of single pixels are products, and a table's gradient is added to zeros in each step."""
    import fireiron.torch
    from fireiron.graph.torch_backend import plans

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.one, self.other = (
                torch.nn.Embedding(100, 64), torch.nn.Conv2d(64, 128, 1), torch.nn.Conv2d(128, 64, 1, bias=False)
            )  # fmt: skip

        def forward(self, ids: Any) -> Any:
            x = self.table(ids).permute(0, 3, 1, 2)
            return self.other(torch.tanh(self.one(x))).float().square().mean((2, 3)).sum()

    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Model().cuda().half()
    fast = torch.compile(model, backend=fireiron.torch.backend)
    for _ in range(4):
        ids = torch.randint(0, 100, (8, 16, 16), device="cuda")
        gradients: list[list[Any]] = []
        for run in (fast, model):
            model.zero_grad()
            run(ids).backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        for mine, theirs in zip(*gradients, strict=True):
            torch.testing.assert_close(mine, theirs, atol=2e-2 * float(theirs.abs().max()), rtol=2e-2)
    left = [node["label"] for plan in plans()[-2:] for node in plan.graph.nodes if node.op == "foreign"]
    assert not {"convolution", "convolution_backward", "embedding_dense_backward"} & set(left)
