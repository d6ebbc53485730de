"""Arguments of torch's operators on rows that are rare and legal, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, f32, gemm, where
from tests.front.test_torch_ops import agree, drawn

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional
ft: Any = __import__("fireiron.torch", fromlist=["softmax"])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cumsum"])
@pytest.mark.parametrize(("shape", "dim"), [((), 0), ((), -1), ((5,), 0), ((3, 4, 5), -2), ((0, 3), 0), ((3, 0), -1)])
def test_dims_of_numbers_vectors_and_empty_tensors(name: str, shape: tuple[int, ...], dim: int) -> None:
    agree(lambda x: getattr(ft, name)(x, dim), lambda x: getattr(torch, name)(x, dim), drawn(*shape))


def test_empty_rows_have_norms_and_losses() -> None:
    x, weight = drawn(2, 0, 8), drawn(8)
    agree(lambda x, w: ft.rms_norm(x, (8,), w), lambda x, w: F.rms_norm(x, (8,), w), x, weight)
    assert ft.cross_entropy(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64), "sum").item() == 0
    images, gain = drawn(0, 4, 3), drawn(4)
    by_images, by_gain = torch.autograd.grad(ft.group_norm(images, 2, gain).sum(), (images, gain))
    assert by_images.shape == images.shape
    assert (by_gain == 0).all()


def test_weights_need_not_be_contiguous() -> None:
    x, weight = drawn(6, 16), torch.linspace(1, 2, 32)[::2]
    assert torch.allclose(ft.rms_norm(x, (16,), weight, 1e-5), F.rms_norm(x, (16,), weight, 1e-5), atol=1e-5)
    values, scales = ft.quantized_rms_norm(x.detach(), weight)
    assert torch.allclose(values * scales[:, None], F.rms_norm(x, (16,), weight), atol=0.05)
    made, _ = ft.dropout_add_layer_norm(x, x, 16, weight, weight, training=False)
    assert torch.allclose(made, F.layer_norm(2 * x, (16,), weight, weight), atol=1e-4)


@pytest.mark.parametrize("weights", ["float16", "float32", "float64"])
@pytest.mark.parametrize("width", [16, 17])
def test_gradients_where_weights_have_another_type(weights: str, width: int) -> None:
    x, gain, bias = drawn(5, width, dtype="float16"), *(drawn(width, dtype=weights) for _ in range(2))
    made = ft.layer_norm(x, (width,), gain, bias)
    wide = [t.detach().double().requires_grad_() for t in (x, gain, bias)]
    by = torch.linspace(-1, 1, made.numel()).reshape(made.shape)
    wanted = torch.autograd.grad(F.layer_norm(wide[0], (width,), *wide[1:]), wide, by.double())
    for got, want, given in zip(
        torch.autograd.grad(made, (x, gain, bias), by.half()), wanted, (x, gain, bias), strict=True
    ):
        assert got.dtype == given.dtype
        assert torch.allclose(got.double(), want, atol=2e-2)


def test_f64_stays_f64() -> None:
    x, gain = drawn(6, 24, dtype="float64"), drawn(24, dtype="float64")
    target = torch.arange(6)
    agree(lambda x: ft.cross_entropy(x, target), lambda x: F.cross_entropy(x, target), x, within=1e-12)
    agree(lambda x, g: ft.rms_norm(x, 24, g, 1e-5), lambda x, g: F.rms_norm(x, (24,), g, 1e-5), x, gain, within=1e-12)
    agree(
        lambda x, g: ft.add_rms_norm(x, x, 24, g, 1e-5)[0],
        lambda x, g: F.rms_norm(2 * x, (24,), g, 1e-5), x, gain, within=1e-12,
    )  # fmt: skip
    agree(lambda x: ft.group_norm(x, 3), lambda x: F.group_norm(x, 3), x, within=1e-12)


@pytest.mark.parametrize("shape", [(2, 6, 7, 7), (3, 4, 17), (1, 8, 51)])
def test_group_norm_of_odd_images(shape: tuple[int, ...]) -> None:
    weights = drawn(shape[1]), drawn(shape[1])
    agree(lambda x, *w: ft.group_norm(x, 2, *w), lambda x, *w: F.group_norm(x, 2, *w), drawn(*shape), *weights)
    bias = weights[1].detach()
    assert torch.allclose(
        ft.group_norm(drawn(*shape), 2, None, bias), F.group_norm(drawn(*shape), 2, None, bias), atol=1e-4
    )


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32"])
def test_tables_of_integers(kind: str) -> None:
    table = torch.arange(40).reshape(5, 8).to(getattr(torch, kind))
    lines = torch.tensor([[4, 0], [2, 2]])
    made = ft.embedding(lines, table)
    assert made.dtype == table.dtype
    assert torch.equal(made, table[lines])


x, whole = torch.zeros(4, 8), torch.zeros(4, 8, dtype=torch.int32)
REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "integers": (
        lambda: ft.softmax(whole), "wrong-dtype", "softmax takes tensors of floats, not of int32"
    ),
    "integer weights": (
        lambda: ft.layer_norm(x, 8, torch.ones(8, dtype=torch.bool)), "wrong-dtype",
        "layer_norm takes tensors of floats, not of bool",
    ),
    "a table of bool": (
        lambda: ft.embedding(whole, x > 0), "wrong-dtype", "embedding takes no table of bool"
    ),
    "a dim too far": (lambda: ft.cumsum(x, 2), "wrong-shape", "a tensor of the shape [4, 8] has no dim 2"),
    "a residual of one row": (
        lambda: ft.add_rms_norm(x, x[:1], 8, x[0]), "wrong-shape",
        "input has the shape [4, 8], and residual [1, 8]",
    ),
    "rows without classes": (
        lambda: ft.cross_entropy(x[:, :0], whole[:, 0]), "wrong-shape",
        "input has the shape [4, 0]: its rows hold no class",
    ),
    "topk of a number": (
        lambda: ft.topk(x[0, 0], 2), "wrong-shape",
        "topk takes 2 to 8 elements of rows along the last dim, not 2 of [] along -1",
    ),
    "no groups": (
        lambda: ft.group_norm(x, 0), "wrong-shape",
        "0 groups do not divide 8 channels, or the weights do not have one value per channel",
    ),
    "a rotary embedding of a matrix": (
        lambda: ft.apply_rotary_emb(x, x, x), "wrong-shape", "x has the shape [4, 8], cos [4, 8] and sin [4, 8]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, code, message = REFUSED[name]
    with pytest.raises(FireironError) as caught:
        call()
    assert (caught.value.code, caught.value.message) == (code, message)


def test_errors_below_torchs_dispatcher_show_the_users_line() -> None:
    with pytest.raises(FireironError) as caught:
        ft.embedding(whole[0], torch.zeros(4, 8, dtype=torch.int16))
    assert caught.value.code == "unknown-dtype"
    assert caught.value.link is not None
    assert caught.value.link.place.filename == __file__


def test_epilogs_read_numbers_without_dims_and_masks() -> None:
    a, b, gain = drawn(6, 8), drawn(8, 5), drawn()
    agree(
        lambda a, b, g: ft.gemm(a, b, epilog=lambda acc, g: acc * g + g, g=g), lambda a, b, g: (a @ b) * g + g,
        a, b, gain,
    )  # fmt: skip
    kept = torch.arange(30).reshape(6, 5) % 3 > 0
    agree(
        lambda a, b: ft.gemm(a, b, epilog=lambda acc, kept: where(kept, acc, -1.0), kept=kept),
        lambda a, b: torch.where(kept, a @ b, -1.0), a, b,
    )  # fmt: skip
    by_numpy = gemm(a.detach().numpy(), b.detach().numpy(), epilog=lambda acc, k: where(k, acc, -1.0), k=kept.numpy())
    assert abs(by_numpy - torch.where(kept, a @ b, -1.0).detach().numpy()).max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, np.float32, f32, "f32"])
def test_element_types_of_products_by_any_name(dtype: object) -> None:
    assert torch.equal(gemm(x, x.mT, dtype=dtype), x @ x.mT)


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (lambda: gemm(x.numpy(), x), "not-an-array", "a is a ndarray, and a call with tensors of torch takes tensors"),
        (lambda: gemm(x, None), "not-an-array", "b is a NoneType, and a call with tensors of torch takes tensors"),
        (
            lambda: gemm(x, x.mT, epilog=lambda acc, s: acc + s, s=[1.0]), "not-an-array",
            "s is a list, and a call with tensors of torch takes tensors",
        ),
        (lambda: ft.gemm(x, x, layout="XX"), "bad-layout", "unknown layout 'XX' of a product"),
        (lambda: gemm(x.to_sparse(), x.mT), "wrong-stride", "a tensor is sparse_coo, and kernels read dense tensors"),
        (lambda: gemm(x, x.mT, epilog=lambda acc: ()), "bad-epilog", "the epilog returned 0 values"),
    ],
)  # fmt: skip
def test_products_refuse(call: Callable[[], Any], code: str, message: str) -> None:
    with pytest.raises(FireironError) as caught:
        call()
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.link is not None
    assert caught.value.link.place.filename == __file__


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_tf32_in_all_layouts_with_gradients(layout: str) -> None:
    a = drawn(24, 20) if layout[1] == "T" else drawn(20, 24)
    b = drawn(32, 24) if layout[0] == "T" else drawn(24, 32)
    agree(
        lambda a, b: gemm(a, b, layout=layout, dtype="tf32"),
        lambda a, b: (a.mT if layout[1] == "T" else a) @ (b.mT if layout[0] == "T" else b),
        a, b, within=3e-2,
    )  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k"), [(4, 0, 3), (0, 4, 3), (4, 3, 0)])
def test_gradients_of_products_without_elements(m: int, n: int, k: int) -> None:
    agree(lambda a, b: ft.gemm(a, b), lambda a, b: a @ b, drawn(m, k), drawn(k, n))
    agree(lambda a, b: ft.gemm(a, b), lambda a, b: a @ b, drawn(2, m, k), drawn(k, n))
