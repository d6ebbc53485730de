"""Each layout operation whose precondition fails says so, with names and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron.algebra.index.nodes import Symbol
from fireiron.algebra.layout import Layout
from fireiron.algebra.layout_ops import (
    blocked_product,
    coalesce_modes,
    complement,
    compose,
    is_injective,
    left_inverse,
    logical_divide,
    repetitions,
    reshape,
    right_inverse,
    tile_tensor,
)
from fireiron.algebra.swizzle import Swizzle
from fireiron.base.errors import LayoutError

M = Symbol("M")
L = Layout.parse
ANY: Any = 0.5

REFUSALS: list[tuple[Callable[[], object], str, str]] = [
    (
        lambda: Layout((4, 2), (1, 2, 3)),
        "not-congruent",
        "the shape (4,2) and the stride (1,2,3) are nested differently",
    ),
    (lambda: Layout(((4, 2),), (1,)), "not-congruent", "the shape ((4,2)) and the stride (1) are nested differently"),
    (lambda: Layout(4, (1,)), "not-congruent", "the shape 4 and the stride (1) are nested differently"),
    (
        lambda: Layout((4, 0), (1, 4)),
        "bad-extent",
        "the layout (4,0):(1,4) has the extent 0: extents are positive ints or expressions",
    ),
    (
        lambda: Layout(ANY, 1),
        "bad-extent",
        "the layout 0.5:1 has the extent 0.5: extents are positive ints or expressions",
    ),
    (lambda: Layout(4, -1), "bad-stride", "the layout 4:-1 has the stride -1: strides are ints >= 0 or expressions"),
    (lambda: Layout(4, ANY), "bad-stride", "the layout 4:0.5 has the stride 0.5: strides are ints >= 0 or expressions"),
    (lambda: L("(4,2)"), "layout-syntax", "cannot read '(4,2)' as a layout: ':' must stand between shape and stride"),
    (lambda: L("4:1:2"), "layout-syntax", "cannot read '4:1:2' as a layout: text is left after the stride"),
    (lambda: L("4:"), "layout-syntax", "cannot read '4:' as a layout: '' stands where an extent or '(' must"),
    (lambda: L("(4 2):1"), "layout-syntax", "cannot read '(4 2):1' as a layout: '2' stands where ',' or ')' must"),
    (lambda: L("4:x"), "layout-syntax", "cannot read '4:x' as a layout: 'x' is no extent, stride or parenthesis"),
    (
        lambda: L("(4,2):(1,4)")(1, 2, 3),
        "bad-coordinate",
        "the coordinate (1, 2, 3) does not fit the mode (4,2) of the layout (4,2):(1,4)",
    ),
    (
        lambda: L("(4,2):(1,4)")((1, 1), 0),
        "bad-coordinate",
        "the coordinate (1, 1) does not fit the mode 4 of the layout (4,2):(1,4)",
    ),
    (
        lambda: compose(L("(4,3):(1,10)"), L("6:3")),
        "composition-undefined",
        "cannot compose (4,3):(1,10) with 6:3: 6 steps of 3 do not fit the extent 4 evenly",
    ),
    (
        lambda: compose(L("(6,3):(1,10)"), L("4:2")),
        "composition-undefined",
        "cannot compose (6,3):(1,10) with 4:2: 4 steps of 2 do not fit the extent 6 evenly",
    ),
    (
        lambda: compose(L("(4,3):(1,10)"), L("2:6")),
        "composition-undefined",
        "cannot compose (4,3):(1,10) with 2:6: 2 steps of 6 do not fit the extent 4 evenly",
    ),
    (
        lambda: compose(L("(3,2):(1,6)"), L("(2,2):(1,2)")),
        "composition-undefined",
        "cannot compose (3,2):(1,6) with (2,2):(1,2): together the modes of (2,2):(1,2) reach 3 in the extent 3",
    ),
    (
        lambda: compose(Layout((M, 8), (8, 1)), L("4:1")),
        "symbolic-extent",
        "the composition of (M,8):(8,1) with 4:1 would have to divide or compare the symbols of (M,8):(8,1)",
    ),
    (
        lambda: compose(L("(4,8):(8,1)"), Layout(M, 1)),
        "symbolic-extent",
        "the composition of (4,8):(8,1) with M:1 would have to divide or compare the symbols of M:1",
    ),
    (
        lambda: complement(L("(2,2):(1,3)"), 12),
        "complement-undefined",
        "the layout (2,2):(1,3) has no complement: stride 3 is no multiple of the 2 offsets below it",
    ),
    (
        lambda: complement(L("(4,2):(1,0)"), 8),
        "not-injective",
        "the layout (4,2):(1,0) has no complement: two of its coordinates share an offset",
    ),
    (
        lambda: repetitions(L("(3,2):(2,3)"), 12),
        "complement-undefined",
        "the layout (3,2):(2,3) cannot repeat: stride 3 is less than the 6 offsets below it",
    ),
    (
        lambda: repetitions(L("(4,4):(1,2)"), 12),
        "not-injective",
        "the layout (4,4):(1,2) has no repetitions: two of its coordinates share an offset",
    ),
    (
        lambda: complement(Layout((M, 8), (8, 1)), 64),
        "symbolic-extent",
        "the complement of (M,8):(8,1) would have to divide or compare the symbols of (M,8):(8,1)",
    ),
    (
        lambda: left_inverse(L("(4,4):(1,2)")),
        "not-injective",
        "the layout (4,4):(1,2) has no complement: two of its coordinates share an offset",
    ),
    (
        lambda: right_inverse(L("(2,2):(1,1)")),
        "not-injective",
        "the layout (2,2):(1,1) has no right inverse: two of its coordinates share an offset",
    ),
    (
        lambda: is_injective(Layout(M, 1)),
        "symbolic-extent",
        "the injectivity of M:1 would have to divide or compare the symbols of M:1",
    ),
    (
        lambda: logical_divide(L("(4,8):(1,4)"), (2, 2, 2)),
        "tiler-rank",
        "3 tilers are given for the 2 modes of the layout (4,8):(1,4)",
    ),
    (lambda: coalesce_modes(L("4:1"), (1, 1)), "tiler-rank", "2 tilers are given for the 1 modes of the layout 4:1"),
    (
        lambda: blocked_product(L("4:1"), L("(2,2):(1,2)")),
        "tiler-rank",
        "2 tilers are given for the 1 modes of the layout 4:1",
    ),
    (
        lambda: tile_tensor(L("(4,8):(1,4)"), (2,)),
        "tiler-rank",
        "1 tilers are given for the 2 dimensions of the tensor [4,8:1,4]",
    ),
    (
        lambda: reshape(L("(4,8):(1,4)"), (4, 4)),
        "reshape-size",
        "cannot reshape (4,8):(1,4) to (4,4): 32 elements are not 16",
    ),
    (lambda: Swizzle(-1, 4, 3), "bad-swizzle", "Swizzle(-1, 4, 3) has a negative parameter"),
    (
        lambda: Swizzle(3, 4, 2),
        "bad-swizzle",
        "Swizzle(3, 4, 2) mixes overlapping bits: 3 bits do not fit below a shift of 2",
    ),
]


@pytest.mark.parametrize(("call", "code", "message"), REFUSALS, ids=[f"{i}-{row[1]}" for i, row in enumerate(REFUSALS)])
def test_refusals_name_what_fails(call: Callable[[], object], code: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        call()
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.fix
