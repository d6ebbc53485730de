"""A bulk copy of a chunk that would hold channels of two groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Value, einsum, index, program, tensor
from fireiron.schedules import conv
from fireiron.schedules._windows import places


@program(x="n h w m", f="g k r s c")
def folded(x: Value, f: Value, part: int) -> Value:
    read = places("hw", "rs", "pq", 1, 0, 1)
    return einsum("n p q r s g c, g k r s c -> n p q g k", x[(slice(None), *read, index("g") * part + index("c"))], f)


def wrong() -> Any:
    x, f = tensor(2, 8, 8, 80, dtype="f16"), tensor(2, 64, 3, 3, 40, dtype="f16", name="f")
    return conv.wgmma(folded(x, f, part=40, arch="sm_90a"))


def test_conv_cut(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "conv-cut",
        'wgmma(folded(x, f, part=40, arch="sm_90a"))',
        """\
FireironError[conv-cut]: c: 40 is no whole number of chunks of 64, and behind it x is read on along c_g: bulk copies \
end only where the tensor ends
  --> test_conv_cut.py:21:17
21 |     return conv.wgmma(folded(x, f, part=40, arch="sm_90a"))
   |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: use conv.mma, or read a dim of groups of its own, as conv2d_grouped does""",
    )
