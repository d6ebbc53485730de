"""Arguments of attention that are rare and legal, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, attention
from tests.front.test_torch_ops import agree, drawn

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional
ft: Any = __import__("fireiron.torch", fromlist=["attention"])

q, k = torch.zeros(1, 2, 4, 8), torch.zeros(1, 2, 6, 8)
rows, lines = torch.zeros(4, 2, 8), torch.zeros(6, 2, 8)
ends = torch.tensor([0, 2, 4], dtype=torch.int32)
attend: Any = ft.scaled_dot_product_attention


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_no_queries(lead: tuple[int, ...]) -> None:
    assert attend(torch.zeros(*lead, 2, 0, 8), torch.zeros(*lead, 2, 5, 8), torch.zeros(*lead, 2, 5, 16)).shape == (
        *lead, 2, 0, 16,
    )  # fmt: skip


def test_subscripts_count_from_the_end() -> None:
    q, weights = drawn(1, 2, 5, 8), drawn(2, 3)

    def wanted(q: Any, w: Any) -> Any:
        s = q @ q.mT * 8**-0.5
        return torch.softmax(s * w[:, -1, None, None] + w[-2, 1], -1) @ q

    agree(
        lambda q, w: ft.attention(q, q, q, score=lambda s, h, w: s * w[h, -1] + w[-2, 1], w=w), wanted, q, weights,
        within=1e-3,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(5, 5), (2, 1, 5), (1, 2, 5, 5)])
@pytest.mark.parametrize("adds", [False, True])
def test_compiled_masks(shape: tuple[int, ...], adds: bool) -> None:
    q, mask = drawn(1, 2, 5, 8), drawn(*shape).detach()
    mask = mask if adds else mask > -1
    compiled = torch.compile(lambda q, m: attend(q, q, q, m), fullgraph=True, backend="aot_eager")
    agree(lambda q: compiled(q, mask), lambda q: F.scaled_dot_product_attention(q, q, q, mask), q, within=1e-3)


def hides(i: Any, j: Any) -> Any:
    return j <= i


REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a mask of other rows": (
        lambda: attend(q, k, k, torch.zeros(3, 6)), "wrong-shape",
        "attn_mask has the shape [3, 6], and the scores have [1, 2, 4, 6]",
    ),
    "a mask of more dims": (
        lambda: attend(q, k, k, torch.zeros(1, 1, 1, 4, 6)), "wrong-shape",
        "attn_mask has the shape [1, 1, 1, 4, 6], and the scores have [1, 2, 4, 6]",
    ),
    "a mask of integers": (
        lambda: attend(q, k, k, torch.zeros(4, 6, dtype=torch.int32)), "attention-dtypes", "attn_mask of int32"
    ),
    "a mask of NumPy": (
        lambda: attend(q, k, k, np.zeros((4, 6), bool)), "not-an-array",
        "attn_mask is a ndarray, and a call with tensors of torch takes tensors",
    ),
    "keys of NumPy": (
        lambda: ft.attention(q, k.numpy(), k), "not-an-array", "k is a ndarray, which is no array of the call's library"
    ),
    "no values": (
        lambda: attention(q.numpy(), k.numpy(), None), "not-an-array",
        "v is a NoneType, which is no array of the call's library",
    ),
    "integers": (
        lambda: ft.attention(q.int(), q.int(), q.int()), "attention-dtypes",
        "attention of q of int32, k of int32, v of int32",
    ),
    "lengths in a list": (
        lambda: ft.attention(q, k, k, lengths=[3]), "not-an-array",
        "lengths is a list, which is no array of the call's library",
    ),
    "a number for an array": (
        lambda: attention(q.numpy(), k.numpy(), k.numpy(), score=lambda s, x: s * x, x=2.0), "not-an-array",
        "x is a float, which is no array of the call's library",
    ),
    "scales that are numbers": (
        lambda: ft.attention(q, k, k, scales=(1.0, 1.0, 1.0)), "not-an-array",
        "q_scale is a float, which is no array of the call's library",
    ),
    "a mask that is a text": (
        lambda: ft.attention(q, k, k, mask="causal"), "argument-kind",
        "mask= takes a function of indices and arrays, not 'causal'",
    ),
    "a scale that is a text": (
        lambda: ft.attention(q, k, k, scale="small"), "argument-kind", "scale= takes a number, not 'small'"
    ),
    "no dropout": (
        lambda: ft.attention(q, k, k, dropout_p=None), "argument-kind", "dropout_p= takes a number, not None"
    ),
    "a seed of three": (
        lambda: ft.attention(q, k, k, dropout_p=0.5, seed=(1, 2, 3)), "attention-dropout",
        "seed=(1, 2, 3) is out of range",
    ),
    "a window of one number": (
        lambda: ft.varlen_attn(rows, lines, lines, ends, ends, 2, 2, window_size=(1,)), "argument-kind",
        "window_size= takes a pair of whole numbers, not (1,)",
    ),
    "no sequence": (
        lambda: ft.varlen_attn(rows, lines, lines, ends[:1], ends[:1], 2, 2), "attention-lengths",
        "attention with offsets [1] and key_offsets [1]",
    ),
    "heads that differ": (
        lambda: ft.attention(q[:, :1], k, k, mask=hides), "attention-heads", "1 heads of queries and 2 of keys"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, code, message = REFUSED[name]
    with pytest.raises(FireironError) as caught:
        call()
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.link is not None
    assert caught.value.link.place.filename == __file__
