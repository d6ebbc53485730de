"""Operators of torch on the simulator: values and gradients against torch's own, also when compiled and exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fireiron
from fireiron import FireironError, cast, gelu, gelu_tanh, relu, silu, sqrt

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional
ft: Any = __import__("fireiron.torch", fromlist=["gemm"])


def drawn(*shape: int, dtype: str = "float32") -> Any:
    return (
        torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float32)
        .to(getattr(torch, dtype))
        .requires_grad_()
    )


def agree(ours: Callable[..., Any], torchs: Callable[..., Any], *inputs: Any, within: float = 1e-4) -> None:
    made, wanted = ours(*inputs), torchs(*inputs)
    made, wanted = ((x,) if isinstance(x, torch.Tensor) else tuple(x) for x in (made, wanted))
    weights = [torch.linspace(-1, 1, x.numel()).reshape(x.shape).to(x.dtype) for x in wanted]
    for got, want in zip(made, wanted, strict=True):
        assert got.dtype == want.dtype
        assert torch.allclose(got, want, rtol=within, atol=within)
    pairs = zip(torch.autograd.grad(made, inputs, weights), torch.autograd.grad(wanted, inputs, weights), strict=True)
    for got, want in pairs:
        assert got.dtype == want.dtype
        assert torch.allclose(got, want, rtol=within, atol=within)


EPILOGS: dict[str, Any] = {
    "plain": (None, lambda y: y),
    "gelu": (lambda acc, bias: gelu(acc + bias), lambda y, bias: F.gelu(y + bias)),
    "torch's": (
        lambda acc, bias: F.gelu(acc + bias, approximate="tanh"),
        lambda y, bias: F.gelu(y + bias, approximate="tanh"),
    ),
    "bias": (lambda acc, bias: acc + bias, lambda y, bias: y + bias),
    "gated": (lambda acc, bias: silu(acc) * bias, lambda y, bias: F.silu(y) * bias),
    "several": (lambda acc, bias: (relu(acc + bias), acc * bias), lambda y, bias: (F.relu(y + bias), y * bias)),
    "root": (
        lambda acc, bias: sqrt(acc * acc + 1) ** 1.5 / (bias * bias + 1),
        lambda y, bias: (y * y + 1) ** 0.75 / (bias * bias + 1),
    ),
}


@pytest.mark.parametrize("name", EPILOGS)
def test_gradients_of_epilogs(name: str) -> None:
    epilog, wanted = EPILOGS[name]
    x, w = drawn(20, 24), drawn(32, 24)
    operands = () if epilog is None else (drawn(32),)
    named = {} if epilog is None else {"bias": 0}

    def ours(x: Any, w: Any, *rest: Any) -> Any:
        return fireiron.gemm(x, w, layout="TN", epilog=epilog, **dict(zip(named, rest, strict=True)))

    agree(ours, lambda x, w, *rest: wanted(x @ w.mT, *rest), x, w, *operands)


@pytest.mark.parametrize("shapes", [((2, 3, 8, 12), (12, 16)), ((3, 8, 12), (3, 12, 16))])
def test_gradients_of_batches(shapes: Any) -> None:
    agree(ft.gemm, torch.matmul, *(drawn(*shape) for shape in shapes))


@pytest.mark.parametrize("lead", [(2, 1), (3,)])
def test_operands_are_broadcast_over_leading_dimensions(lead: Any) -> None:
    def ours(a: Any, b: Any, x: Any) -> Any:
        return ft.gemm(a, b, epilog=lambda acc, x: acc * x, x=x)

    agree(ours, lambda a, b, x: a @ b * x, drawn(2, 3, 8, 12), drawn(12, 16), drawn(*lead, 8, 16))


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_gradients_of_layouts(layout: str) -> None:
    a = drawn(24, 20) if layout[1] == "T" else drawn(20, 24)
    b = drawn(32, 24) if layout[0] == "T" else drawn(24, 32)
    turned = [x if letter == "N" else "T" for x, letter in ((0, layout[1]), (1, layout[0]))]
    agree(
        lambda a, b: ft.gemm(a, b, layout=layout),
        lambda a, b: (a.mT if turned[0] == "T" else a) @ (b.mT if turned[1] == "T" else b),
        a,
        b,
    )


def test_half_precision_and_numbers() -> None:
    x, w, bias = drawn(16, 32, dtype="bfloat16"), drawn(32, 16, dtype="bfloat16"), drawn(16, dtype="bfloat16")
    agree(
        lambda x, w, bias: ft.gemm(x, w, epilog=lambda acc, bias, s: gelu_tanh(acc + bias) * s, bias=bias, s=0.5),
        lambda x, w, bias: F.gelu((x.float() @ w.float() + bias), approximate="tanh").bfloat16() * 0.5,
        x, w, bias, within=5e-2,
    )  # fmt: skip
    signs = ft.gemm(x, w, epilog=lambda acc: (acc, cast(acc > 0, "u8")))[1]
    assert signs.dtype == torch.uint8
    assert not signs.requires_grad


def norm(x: Any, *weights: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], *weights)


ROWS: dict[str, Any] = {
    "softmax": (lambda x: ft.softmax(x, dim=-1), lambda x: torch.softmax(x, -1), 0),
    "softmax of columns": (lambda x: ft.softmax(x, 1), lambda x: torch.softmax(x, 1), 0),
    "log_softmax": (lambda x: ft.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1), 0),
    "layer_norm": (lambda x, w, b: ft.layer_norm(x, (40,), w, b), lambda x, w, b: F.layer_norm(x, (40,), w, b), 2),
    "layer_norm alone": (lambda x: ft.layer_norm(x, 40, eps=1e-3), lambda x: F.layer_norm(x, (40,), eps=1e-3), 0),
    "rms_norm": (lambda x, w: ft.rms_norm(x, [40], w), lambda x, w: F.rms_norm(x, (40,), w), 1),
    "add_rms_norm": (
        lambda x, w: ft.add_rms_norm(x, 2 * x, (40,), w), lambda x, w: (F.rms_norm(3 * x, (40,), w), 3 * x), 1
    ),
    "add_layer_norm": (
        lambda x, w, b: ft.add_layer_norm(x, x * x, (40,), w, b),
        lambda x, w, b: (F.layer_norm(x + x * x, (40,), w, b), x + x * x),
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    ours, wanted, weights = ROWS[name]
    agree(ours, wanted, drawn(3, 5, 40), *(drawn(40) for _ in range(weights)))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "add_rms_norm", "add_layer_norm"])
def test_gradients_of_wide_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel gives the input's gradient and the rows' statistics, a second one sums over rows."""
    from fireiron.front import torch_rows

    made, of_columns = list[str](), torch_rows._of_columns  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(torch_rows, "WIDEST_WITH_SUMS", 8)
    monkeypatch.setattr(torch_rows, "_of_columns", lambda *given: (made.append(given[0]), of_columns(*given))[1])
    ours, wanted, weights = ROWS[name]
    agree(ours, wanted, drawn(3, 5, 40), *(drawn(40) for _ in range(weights)))
    assert made == ["layernorm_by_weights" if "layer" in name else "rms_norm_by_gain"]


def test_gradients_of_a_part_of_the_weights() -> None:
    x, w = drawn(3, 40), drawn(40)
    agree(lambda x, w: ft.layer_norm(x, (40,), w), lambda x, w: F.layer_norm(x, (40,), w), x, w)
    agree(lambda x, b: ft.layer_norm(x, (40,), None, b), lambda x, b: F.layer_norm(x, (40,), None, b), x, w)
    agree(lambda x: ft.rms_norm(x, (40,), w), lambda x: F.rms_norm(x, (40,), w), x)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm", "add_rms_norm", "add_layer_norm"])
def test_functions_of_autograd_are_as_the_operators(name: str) -> None:
    """On a GPU, calls that torch only differentiates take them; their gradients have none."""
    from fireiron.front.torch_ops import LEARNED

    rest = {"softmax": 0, "log_softmax": 0, "rms_norm": 1, "add_rms_norm": 2, "layer_norm": 2, "add_layer_norm": 3}[
        name
    ]
    eps = () if "softmax" in name else (1e-5,)
    x, *others = drawn(4, 40), *([drawn(4, 40)] if "add" in name else []), drawn(40), drawn(40)
    found: list[Any] = []
    for run in (LEARNED[name], getattr(torch.ops.fireiron, name)):
        given = [t.clone().requires_grad_() for t in (x, *others[:rest])]
        made = run(*given, *eps)
        made = made if isinstance(made, tuple) else (made,)
        found.append((*made, *torch.autograd.grad([y.sin() for y in made], given, [x for _ in made])))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    given = [t.clone().requires_grad_() for t in (x, *others[:rest])]
    made = LEARNED[name](*given, *eps)
    first = torch.autograd.grad((made[0] if isinstance(made, tuple) else made).sin().sum(), given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first[0].sum().backward()


@pytest.mark.parametrize("name", ["add_rms_norm", "add_layer_norm"])
def test_gradients_of_norms_of_sums_are_one_kernel(name: str) -> None:
    """The gradient that comes by the sum is added by the kernel that sums the gradients of gain and bias."""
    from torch.utils._python_dispatch import TorchDispatchMode

    ran: list[str] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(str(op))
            return op(*args, **(kwargs or {}))

    x, y, ones = drawn(6, 40).requires_grad_(), drawn(6, 40), torch.ones(6, 40)
    weights = [drawn(40).requires_grad_() for _ in range(1 if name == "add_rms_norm" else 2)]
    made = getattr(ft, name)(x, y, (40,), *weights)
    with Seen():
        torch.autograd.grad(made, [x, *weights], (ones, ones))
    assert [op for op in ran if "fireiron" in op or "add" in op or "sum" in op] == ["fireiron.norm_gradients.default"]


def test_rows_of_several_dims_and_none() -> None:
    x, w, b = drawn(3, 4, 10), drawn(4, 10), drawn(4, 10)
    agree(lambda x, w, b: ft.layer_norm(x, (4, 10), w, b), lambda x, w, b: F.layer_norm(x, (4, 10), w, b), x, w, b)
    assert ft.softmax(drawn(0, 16)).shape == (0, 16)
    with pytest.raises(FireironError) as caught:
        ft.layer_norm(x, (10,), w)
    assert caught.value.code == "wrong-shape"


def test_a_vector_is_a_row() -> None:
    x, w, b = drawn(10), drawn(10), drawn(10)
    agree(lambda x: ft.softmax(x, 0), lambda x: torch.softmax(x, 0), x)
    agree(lambda x: ft.log_softmax(x), lambda x: torch.log_softmax(x, -1), x)
    agree(lambda x, w, b: ft.layer_norm(x, (10,), w, b), lambda x, w, b: F.layer_norm(x, (10,), w, b), x, w, b)
    agree(lambda x, y, w: ft.add_rms_norm(x, y, (10,), w, 1e-6), _added, x, drawn(10), w)
    assert torch.allclose(ft.layer_norm(x.reshape(2, 5), (2, 5)), F.layer_norm(x.reshape(2, 5), (2, 5)), atol=1e-5)


def _added(x: Any, y: Any, w: Any) -> Any:
    return F.rms_norm(x + y, (10,), w, 1e-6), x + y


def test_the_dispatcher_makes_calls_on_the_cpu_and_those_that_are_watched() -> None:
    from fireiron.front.torch_ops import dispatched, routed

    x = torch.zeros(4)
    assert dispatched(x, None)
    assert not dispatched(None)
    assert routed("softmax", len, x) is torch.ops.fireiron.softmax
    assert routed("softmax", len) is len
    with torch.autograd.forward_ad.dual_level():
        assert dispatched()
    inside: list[bool] = []
    torch.func.vmap(lambda y: inside.append(dispatched()) or y)(torch.zeros(2, 2))
    assert inside == [True]


def layer(x: Any, w: Any, bias: Any) -> Any:
    made = fireiron.gemm(x, w, epilog=lambda acc, bias: gelu(acc + bias), bias=bias)
    return ft.rms_norm(ft.softmax(made), made.shape[-1:]).sum()


def test_torch_compile_traces_all_of_it() -> None:
    x, w, bias = drawn(16, 16), drawn(16, 16), drawn(16)
    traced = torch.compile(layer, fullgraph=True, backend="aot_eager")
    agree(traced, layer, x, w, bias)


def test_operators_pass_torchs_own_checks() -> None:
    x, w, bias = drawn(16, 16), drawn(16, 16), drawn(16)
    text = '[["add","f32",["arg","f32",0],["arg","f32",1]]]'
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(torch.ops.fireiron.gemm, (x, w, [bias], [], text, "float32"), test_utils=tests)
    torch.library.opcheck(torch.ops.fireiron.layer_norm, (x, bias, None, 1e-5), test_utils=tests)


def test_torch_export_keeps_the_operator() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Any, w: Any, bias: Any) -> Any:
            return layer(x, w, bias)

    inputs = [x.detach() for x in (drawn(16, 16), drawn(16, 16), drawn(16))]
    program = torch.export.export(Layer(), tuple(inputs))
    assert "fireiron.gemm" in str(program.graph)
    assert torch.allclose(program.module()(*inputs), layer(*inputs))


def test_tensors_without_contents_have_shapes() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode  # pyright: ignore

    with FakeTensorMode():
        x, w = torch.empty(64, 32, dtype=torch.bfloat16), torch.empty(32, 48, dtype=torch.bfloat16)
        made = fireiron.gemm(x, w, epilog=lambda acc: (relu(acc), cast(acc, "i8")))
        assert [(tuple(y.shape), y.dtype) for y in made] == [((64, 48), torch.bfloat16), ((64, 48), torch.int8)]


def test_options_that_an_operator_has_not() -> None:
    x = drawn(16, 16)
    with pytest.raises(FireironError) as caught:
        fireiron.gemm(x, x, out=torch.empty(16, 16))
    assert caught.value.code == "requires-grad"
    with pytest.raises(FireironError) as caught:
        ft.gemm(x, x, epilog=lambda acc, bias: acc, bias=x)
    assert caught.value.code == "bad-epilog"


def test_options_that_no_graph_holds() -> None:
    def wrong(x: Any) -> Any:
        return fireiron.gemm(x, x, stream=1)

    with pytest.raises(Exception, match="traced-option"):
        torch.compile(wrong, fullgraph=True, backend="aot_eager")(drawn(16, 16))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction: str) -> None:
    """A row of the index that is ignored counts for nothing, nor does its gradient."""
    target = torch.tensor([3, 0, -100, 99, 7])
    agree(
        lambda x: ft.cross_entropy(x, target, reduction),
        lambda x: F.cross_entropy(x, target, reduction=reduction),
        torch.randn(5, 100, generator=torch.Generator().manual_seed(0), requires_grad=True),
    )


@pytest.mark.parametrize("kind", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("ignored", [-100, 0, 99, 255, 2**31, 2**40])
def test_targets_and_the_index_that_is_ignored(kind: str, ignored: int) -> None:
    """An index that the targets' type does not hold ignores no row; in torch, 2^40 would be 0 for narrow targets."""
    info = torch.iinfo(getattr(torch, kind))
    target = torch.tensor([3, ignored if info.min <= ignored <= info.max else 7, 0, 99, 7]).to(getattr(torch, kind))
    agree(
        lambda x: ft.cross_entropy(x, target, ignore_index=ignored),
        lambda x: F.cross_entropy(x, target.long(), ignore_index=ignored),
        torch.randn(5, 100, generator=torch.Generator().manual_seed(0), requires_grad=True),
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_rows_that_are_all_ignored(reduction: str) -> None:
    x = torch.randn(5, 100, requires_grad=True)
    target = torch.full((5,), -100)
    made = ft.cross_entropy(x, target, reduction)
    assert torch.equal(made.isnan(), F.cross_entropy(x, target, reduction=reduction).isnan())
    made.sum().backward()
    assert not x.grad.any()


def test_the_loss_of_a_class_that_is_no_column_is_nan() -> None:
    made = ft.cross_entropy(torch.zeros(4, 10), torch.tensor([9, 10, -1, -100]), "none")
    assert made.isnan().tolist() == [False, True, True, False]


def test_losses_of_many_rows_are_added_by_several_blocks() -> None:
    from fireiron.front.torch_losses import MANY

    x, target = torch.randn(MANY + 9, 2), torch.randint(0, 2, (MANY + 9,))
    assert torch.allclose(ft.cross_entropy(x, target), F.cross_entropy(x, target), rtol=1e-5)


def test_cross_entropy_refuses_what_torch_does() -> None:
    x = torch.zeros(5, 100)
    for call, code in (
        ((x, torch.zeros(4).long()), "wrong-shape"),
        ((x, torch.zeros(5).long(), "max"), "bad-reduction"),
    ):
        with pytest.raises(FireironError) as caught:
            ft.cross_entropy(*call)
        assert caught.value.code == code


def test_embedding() -> None:
    ids = torch.tensor([[3, 0, 49], [3, 7, 3]])
    table = torch.randn(50, 64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    agree(lambda w: ft.embedding(ids, w), lambda w: F.embedding(ids, w), table)
    for kind in (torch.int32, torch.uint8):
        assert torch.equal(ft.embedding(ids.to(kind), table), ft.embedding(ids, table))


def test_gradients_of_gain_and_bias_come_from_the_kernel_of_the_inputs() -> None:
    x, gain, bias = (
        torch.randn(shape, generator=torch.Generator().manual_seed(i), requires_grad=True)
        for i, shape in enumerate(((4, 5, 96), (96,), (96,)))
    )
    agree(lambda *a: ft.layer_norm(a[0], (96,), *a[1:]), lambda *a: F.layer_norm(a[0], (96,), *a[1:]), x, gain, bias)
    agree(lambda *a: ft.rms_norm(a[0], (96,), a[1], 1e-6), lambda *a: F.rms_norm(a[0], (96,), a[1], 1e-6), x, gain)


def test_running_sums() -> None:
    agree(lambda x: ft.cumsum(x), lambda x: torch.cumsum(x, -1), drawn(3, 5, 40))
    agree(lambda x: ft.cumsum(x, 1), lambda x: torch.cumsum(x, 1), drawn(3, 5, 40))


def test_the_largest_of_rows() -> None:
    x = drawn(4, 5, 100)
    values, indices = ft.topk(x, 5)
    wanted = torch.topk(x, 5)
    assert torch.equal(values, wanted.values)
    assert torch.equal(indices, wanted.indices)
    agree(lambda x: ft.topk(x, 5)[0], lambda x: torch.topk(x, 5).values, x)
    with pytest.raises(FireironError) as caught:
        ft.topk(x, 9)
    assert caught.value.code == "wrong-shape"


def test_groups_of_channels() -> None:
    x, w, b = drawn(2, 12, 4, 6), drawn(12), drawn(12)
    agree(lambda x, w, b: ft.group_norm(x, 3, w, b), lambda x, w, b: F.group_norm(x, 3, w, b), x, w, b)
    agree(lambda x: ft.group_norm(x, 4), lambda x: F.group_norm(x, 4), x)
    with pytest.raises(FireironError) as caught:
        ft.group_norm(x, 5)
    assert caught.value.code == "wrong-shape"


def test_dropout_before_a_norm() -> None:
    x, r, w, b = drawn(6, 40), drawn(6, 40), drawn(40), drawn(40)

    def ours(x: Any, r: Any, w: Any, b: Any) -> Any:
        torch.manual_seed(5)
        return ft.dropout_add_layer_norm(x, r, (40,), w, b, p=0.25)

    def wanted(x: Any, r: Any, w: Any, b: Any) -> Any:
        torch.manual_seed(5)
        mask = torch.empty_like(x, dtype=torch.uint8).bernoulli_(0.75)
        total = x * mask / 0.75 + r
        return F.layer_norm(total, (40,), w, b), total

    agree(ours, wanted, x, r, w, b)
    made = ft.dropout_add_layer_norm(x, r, (40,), w, b, training=False)
    assert torch.allclose(made[1], x + r)


def test_rows_in_eight_bits() -> None:
    x, w = drawn(6, 64), drawn(64)
    values, scales = ft.quantized_rms_norm(x, w, 1e-6)
    normed = F.rms_norm(x, (64,), w, 1e-6)
    assert values.dtype == torch.int8
    assert ((values * scales[:, None] - normed).abs() <= 0.51 * scales[:, None]).all()


@pytest.mark.parametrize("interleaved", [False, True])
def test_heads_turn(interleaved: bool) -> None:
    x, turn = drawn(2, 5, 3, 32), torch.rand(5, 16) * 6
    cos, sin = turn.cos(), turn.sin()

    def wanted(x: Any) -> Any:
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        both = (a * c - b * s, b * c + a * s)
        return torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)

    agree(lambda x: ft.apply_rotary_emb(x, cos, sin, interleaved), wanted, x)


def test_more_operators_pass_torchs_own_checks() -> None:
    x, w = drawn(4, 32), drawn(32)
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    ops = torch.ops.fireiron
    torch.library.opcheck(ops.cumsum, (x,), test_utils=tests)
    torch.library.opcheck(ops.topk, (x, 4), test_utils=tests)
    torch.library.opcheck(ops.quantized_rms_norm, (x.detach(), w.detach(), 1e-6), test_utils=tests)
    angles = torch.rand(3, 16)
    torch.library.opcheck(ops.rotary, (drawn(2, 3, 2, 32), angles, angles, False), test_utils=tests)

    def both(x: Any) -> Any:
        return ft.cumsum(ft.topk(x, 4)[0])

    agree(torch.compile(both, fullgraph=True, backend="aot_eager"), both, x)


def test_floats_beside_sums_of_integers_stay_floats() -> None:
    a, c = torch.ones(16, 16, dtype=torch.int8), torch.full((16,), 0.5)

    def function(a: Any, c: Any) -> Any:
        return fireiron.gemm(a, a, epilog=lambda acc, c, s: cast(acc, "f32") * c + s, c=c, s=0.25)

    for made in (function(a, c), torch.compile(function, fullgraph=True, backend="aot_eager")(a, c)):
        assert made.dtype == torch.float32
        assert (made == 8.25).all()
    assert (fireiron.gemm(a, a, epilog=lambda acc, s: acc * s, s=2) == 32).all()
