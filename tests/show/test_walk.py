"""Every picture of every preset: each one is drawn, or refused by a code that says why."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pytest

import fireiron as fi
from fireiron import FireironError, Matrix, Move, Vector, tensor
from fireiron.front.cli.find import presets
from fireiron.front.cli.problem import Problem
from fireiron.schedules import attention, conv, conv_gradients, pointwise, reductions, rows
from fireiron.show import pictures
from fireiron.show.picture import Picture

PROBLEMS: dict[str, dict[str, Any]] = {
    "hopper.split_k": {"dtype": "f16", "layout": "TN", "shape": (256, 256, 1024)},
    "volta.listing3": {"dtype": "f16:f32:f32", "layout": "NN"},
    "ampere.gemm_tf32x3": {"dtype": "f32", "layout": "TN"},
    "ampere.sgemm": {"dtype": "f32"},
    "volta.tvm": {"dtype": "f16:f32:f32", "layout": "NN"},
}
TENSOR_CORES = ("ada", "ampere", "attention", "hopper", "turing", "volta")


def image(*shape: int) -> Any:
    return tensor(*shape, name="x")


def filters(*shape: int) -> Any:
    return tensor(*shape, name="f")


# Presets of specs that no option of the command line describes.
OWN: dict[str, Callable[[], Any]] = {
    "conv.conv1d": lambda: conv.simt(conv.conv1d(image(2, 30, 8), filters(12, 3, 8), pad=1)),
    "conv.conv2d": lambda: conv.simt(conv.conv2d(image(1, 12, 12, 8), filters(12, 3, 3, 8), pad=1)),
    "conv.conv2d_grouped": lambda: conv.simt(conv.conv2d_grouped(image(1, 8, 8, 2, 8), filters(2, 8, 3, 3, 8), pad=1)),
    "conv.conv1d_grouped": lambda: conv.simt(conv.conv1d_grouped(image(1, 20, 2, 8), filters(2, 8, 3, 8), pad=1)),
    "conv.conv3d_grouped": lambda: conv.simt(conv.conv3d_grouped(image(1, 3, 3, 4, 2, 8), filters(2, 8, 2, 2, 2, 8))),
    "conv.conv3d": lambda: conv.simt(conv.conv3d(image(1, 4, 5, 6, 4), filters(8, 3, 2, 3, 4), pad=1)),
    "conv.max_pool2d": lambda: conv.simt(conv.max_pool2d(image(1, 9, 10, 8), 3, 2, 1)),
    "conv.max_pool1d": lambda: conv.simt(conv.max_pool1d(image(2, 30, 8), 3, 2, 1)),
    "conv.max_pool3d": lambda: conv.simt(conv.max_pool3d(image(1, 4, 4, 4, 8), 2)),
    "conv.average_pool1d": lambda: conv.simt(conv.average_pool1d(image(2, 30, 8), 3, 2, 1)),
    "conv.average_pool3d": lambda: conv.simt(conv.average_pool3d(image(1, 4, 4, 4, 8), 2)),
    "conv.average_pool2d": lambda: conv.simt(conv.average_pool2d(image(1, 9, 10, 8), 3, 2, 1)),
    "conv_gradients.conv2d_transposed": lambda: conv.simt(
        conv.conv2d_transposed(tensor(1, 5, 5, 8, name="y"), filters(8, 3, 3, 4), stride=2, pad=1)
    ),
    "conv_gradients.conv2d_filter_gradient": lambda: conv_gradients.filters_mma(
        conv_gradients.conv2d_filter_gradient(
            tensor(2, 8, 8, 64, dtype="f16", name="y"), tensor(2, 8, 8, 64, dtype="f16", name="x"), (3, 3), pad=1
        )
    ),
    "pointwise.move": lambda: pointwise.move(Move(Matrix(96, 64, name="src"), Matrix(96, 64, name="dst"))),
    "rows.embedding": lambda: pointwise.pointwise(
        rows.embedding(Vector(64, "i32", name="ids"), Matrix(70, 32, name="table"))
    ),
}


def made(target: Any) -> Any:
    """Build a preset on a small problem that it takes."""
    name = target.reference
    known = PROBLEMS.get(name, {})
    if name in OWN:
        return OWN[name]()
    if not known and name.startswith(TENSOR_CORES) and target.takes_spec:
        known = {"dtype": "f16", "layout": "TN"}
    told = {keyword.name: 1 for keyword in target.keywords if keyword.required}
    return target.build(Problem(**(known if target.takes_spec else {})), told)


def heads(name: str) -> Any:
    return tensor(1, 2, 128, 64, dtype="f16", name=name)


def sums(over: str, shape: tuple[int, int]) -> Any:
    spec: Any = fi.program(x="m n")(lambda x: fi.sum(x, over))(tensor(*shape, dtype="bf16"), out="f32")
    return reductions.reduction(spec)


SCHEDULES: dict[str, Callable[[], Any]] = {
    **{target.reference: lambda target=target: made(target) for target in presets()},
    "a strided convolution": lambda: conv.simt(
        conv.conv2d(tensor(2, 9, 11, 8), tensor(12, 3, 3, 8, name="f"), stride=2, pad=1)
    ),
    "attention by mma": lambda: attention.mma(attention.attention(heads("q"), heads("k"), heads("v"))),
    "sums of rows": lambda: sums("n", (80, 1024)),
    "sums of columns": lambda: sums("m", (600, 512)),
    "a pointwise program": lambda: pointwise.pointwise(
        fi.program(x="m n")(lambda x: fi.relu(x))(tensor(80, 1024, dtype="bf16"))
    ),
}
DRAWN: dict[str, Callable[[Any], Picture]] = {
    "decomposition": pictures.decomposition,
    "cuts": pictures.cuts,
    "banks": pictures.banks,
    "timeline": lambda s: pictures.timeline(s, chunks=2, tiles=1),
    "timeline, modelled": lambda s: pictures.timeline(s, "modelled", chunks=2, tiles=1),
    "roofline": pictures.roofline,
    "compare": lambda s: pictures.compare(s, s),
}
NOT_OF_SCHEDULES = {"fragment", "values"}  # of atoms, and of what a simulation kept


def test_every_picture_is_walked() -> None:
    named = {name for name in pictures.__all__ if name[0].islower()}
    assert named - NOT_OF_SCHEDULES == {name.partition(",")[0] for name in DRAWN}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_picture_of_a_preset(name: str) -> None:
    schedule, refused = SCHEDULES[name](), dict[str, str]()
    for what, draw in DRAWN.items():
        try:
            picture = draw(schedule)
        except FireironError as error:
            refused[what] = error.code
            continue
        ElementTree.fromstring(picture.svg())
        assert "no tile yet" not in str(picture)
    # Of a schedule that loads nothing to shared memory there are no banks to draw.
    assert refused in ({}, {"banks": "no-such-buffer"})
