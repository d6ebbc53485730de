"""fuse() of dims that are not neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fireiron as fi
from fireiron import FireironError, symbol, tensor
from fireiron.schedules import conv, rows


@fi.program(x="b m n")
def doubled(x: Any) -> Any:
    return x * 2


def images() -> Any:
    return tensor(2, 8, 8, 16, dtype="f16"), tensor(32, 3, 3, 16, dtype="f16", name="f")


def wrong() -> Any:
    return fi.fuse(conv.conv2d(*images(), pad=1), m="p k")


def test_fuse_dims(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fuse-dims",
        'fuse(conv.conv2d(*images(), pad=1), m="p k")',
        """\
SpecError[fuse-dims]: product[n, p, q, k] does not have p, k next to each other
  --> test_fuse_dims.py:25:15
25 |     return fi.fuse(conv.conv2d(*images(), pad=1), m="p k")
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: name dims in the order of the arrays""",
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fi.fuse(conv.conv2d(*images()), m="n p z"), "m='n p z' does not name two or more dims of conv2d and"),
        (lambda: fi.fuse(conv.conv2d(*images()), m="n"), "m='n' does not name"),
        (lambda: fi.fuse(conv.conv2d(*images()), k="n p"), "k='n p' does not name"),
        (lambda: fi.fuse(conv.conv2d(*images()), m="r s"), "r, s cannot be one dim: r is folded"),
        (lambda: fi.fuse(conv.conv2d(*images()).tile(n=1), m="n p"), "fuse() stands behind 1 link"),
        (
            lambda: fi.fuse(rows.softmax.on(x="b m n")(tensor(symbol("B"), 8, 64)), r="b m"),
            "b, m cannot be one dim: an extent is a symbol",
        ),
        (
            lambda: fi.fuse(doubled(tensor(2, 8, 64, strides=(1024, 64, 1))), r="b m"),
            "x[2, 8, 64].f32.GL has gaps between b and m: their strides are 1024 and 64",
        ),
        (lambda: fi.fuse(fi.matmul(64, 64, 64), m="m n"), "fuse() takes a program"),
    ],
)
def test_what_is_no_run_of_points(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(FireironError) as caught:
        make()
    assert caught.value.code == "fuse-dims"
    assert caught.value.message.startswith(message)
