"""The layout algebra by its laws, at every coordinate of random and of all small layouts."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fireiron.algebra.layout import IndexTree, Layout, col_major, from_leaves, row_major
from fireiron.algebra.layout_ops import (
    blocked_product,
    coalesce,
    coalesce_modes,
    complement,
    compose,
    concat,
    equal_functions,
    is_compact,
    is_injective,
    left_inverse,
    logical_divide,
    logical_product,
    raked_product,
    repetitions,
    right_inverse,
    tile_tensor,
    tiled_divide,
    zipped_divide,
    zipped_product,
)
from fireiron.base.errors import LayoutError

EXTENTS = st.sampled_from((1, 2, 2, 3, 4, 4, 6, 8))
STRIDES = st.one_of(st.sampled_from((0, 1, 2, 4, 8, 16, 32, 64)), st.integers(0, 24))
many = settings(max_examples=150, deadline=None)


def offsets(layout: Layout) -> list[int]:
    """Give the offset of every index by running through the digits, without the algebra."""
    table = [0]
    for extent, stride in layout.leaves:
        table = [base + digit * stride for digit in range(extent) for base in table]
    return table


def fill(tree: IndexTree, values: list[int]) -> IndexTree:
    """Put values into a tree's leaves, from left to right."""
    return tuple(fill(mode, values) for mode in tree) if isinstance(tree, tuple) else values.pop(0)


def coordinates(tree: IndexTree) -> list:
    """List the nested coordinates of a shape, first mode fastest."""
    if not isinstance(tree, tuple):
        return list(range(tree))
    return [tuple(reversed(item)) for item in product(*(coordinates(mode) for mode in reversed(tree)))]


SHAPES = st.recursive(EXTENTS, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = draw(SHAPES)
    return Layout(shape, fill(shape, [draw(STRIDES) for _ in Layout(shape, shape).leaves]))


@st.composite
def spread_layouts(draw: st.DrawFn, gaps: tuple[int, ...] = (1, 1, 1, 2, 3)) -> Layout:
    """Draw layouts whose every stride is a multiple of all that lies below it: they have complements."""
    shape = draw(SHAPES)
    extents = [extent for extent, _ in Layout(shape, shape).leaves]
    strides, step = [0] * len(extents), 1
    for place in draw(st.permutations(range(len(extents)))):
        strides[place] = step * draw(st.sampled_from(gaps))
        step = strides[place] * extents[place]
    return Layout(shape, fill(shape, strides))


compact_layouts = spread_layouts((1,))
SMALL = [
    Layout(shape, stride)
    for shape in [(a, b) for a in (1, 2, 3, 4, 6) for b in (1, 2, 4)]
    for stride in product((0, 1, 2, 3, 4, 8), repeat=2)
]


def refused(a: Layout, b: Layout) -> bool:
    """Compose and hold the law; tell whether composition was refused."""
    try:
        c = compose(a, b)
    except LayoutError as error:
        assert error.code == "composition-undefined"  # noqa: PT017
        return True
    assert offsets(c) == [a(offset) for offset in offsets(b)]
    if isinstance(b.shape, tuple):
        assert [mode.size for mode in c.modes] == [mode.size for mode in b.modes]
    return False


@many
@given(layouts())
def test_an_index_and_a_coordinate_give_the_same_offset(layout: Layout) -> None:
    table = offsets(layout)
    assert [layout(i) for i in range(layout.size)] == table
    assert [layout(coord) for coord in coordinates(layout.shape)] == table
    assert layout(np.arange(layout.size)).tolist() == table
    assert max(table) + 1 == layout.cosize
    assert len(table) == layout.size
    assert offsets(layout.flat) == table
    if isinstance(layout.shape, tuple):
        digits = np.unravel_index(np.arange(layout.size), [mode.size for mode in layout.modes], order="F")
        assert layout(*digits).tolist() == table
        assert concat(*layout.modes) == layout


@many
@given(layouts())
def test_text_reads_back(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout
    assert hash(Layout.parse(f" {layout} ".replace(",", " , "))) == hash(layout)


@many
@given(layouts())
def test_coalesce_keeps_the_function_and_leaves_nothing_to_join(layout: Layout) -> None:
    short = coalesce(layout)
    assert offsets(short) == offsets(layout)
    assert short.depth <= 1
    assert all(extent > 1 for extent, _ in short.leaves) or short == Layout(1, 0)
    assert all(q != e * p for (e, p), (_, q) in zip(short.leaves, short.leaves[1:], strict=False))


@many
@given(layouts())
def test_coalesce_by_mode_keeps_the_modes_apart(layout: Layout) -> None:
    assert coalesce_modes(layout, None) == coalesce(layout)
    parts = coalesce_modes(layout, (None,) * layout.rank)
    assert parts.modes == tuple(map(coalesce, layout.modes))
    assert coalesce_modes(concat(layout, layout), (1,)).modes == (coalesce(layout), layout)


def test_composition_holds_for_all_small_layouts() -> None:
    results = [refused(a, b) for a in SMALL for b in SMALL[::3]]
    assert results.count(False) > 3 * results.count(True) > 0


@many
@given(layouts(), layouts())
def test_composition_is_b_then_a(a: Layout, b: Layout) -> None:
    refused(a, b)


@many
@given(compact_layouts, spread_layouts(), layouts())
def test_composition_is_associative_where_it_is_defined(a: Layout, b: Layout, c: Layout) -> None:
    # Past its size a layout runs on along its last mode, and which mode that is depends on how it was composed.
    if c.cosize > b.size:
        return
    try:
        left, right = compose(compose(a, b), c), compose(a, compose(b, c))
    except LayoutError:
        return
    assert offsets(left) == offsets(right)


@many
@given(layouts())
def test_composition_has_an_identity(layout: Layout) -> None:
    assert equal_functions(compose(layout, Layout(layout.size, 1)), layout)
    assert offsets(compose(Layout(layout.cosize, 1), layout)) == offsets(layout)


def test_composition_by_mode() -> None:
    a = row_major(8, 16, 3)
    assert compose(a, (Layout(4, 2), 8)) == Layout.parse("(4,8,3):(96,3,1)")
    assert compose(a, ((4,),)).shape == ((4,), 16, 3)


@many
@given(spread_layouts(), st.integers(0, 300))
def test_a_complement_is_ordered_disjoint_and_covers(layout: Layout, size: int) -> None:
    size = max(size, layout.cosize)
    rest = complement(layout, size)
    steps = offsets(rest)
    assert steps == sorted(set(steps))
    everything = sorted(x + y for x in offsets(layout) for y in steps)
    assert len(everything) == len(set(everything))
    assert everything[:size] == list(range(size))
    # Rounded up to whole repetitions, and no further.
    assert len(everything) - size < max((extent * stride for extent, stride in layout.leaves if extent > 1), default=1)


def test_complements_of_all_small_layouts() -> None:
    for layout in SMALL:
        try:
            rest = complement(layout, 48)
        except LayoutError as error:
            assert error.code == ("complement-undefined" if is_injective(layout) else "not-injective")  # noqa: PT017
            continue
        assert set(range(48)) <= {x + y for x in offsets(layout) for y in offsets(rest)}


def repeated(layout: Layout, size: int) -> str:
    """Hold the laws of repetitions; tell by which code they were refused, or that they are a complement, or not one."""
    try:
        rest = repetitions(layout, size)
    except LayoutError as error:
        return error.code
    image, steps = set(offsets(layout)), offsets(rest)
    everything = [x + y for x in image for y in steps]
    assert steps == sorted(set(steps))
    assert len(everything) == len(set(everything))
    assert size - max(everything) <= max(1, *(stride for extent, stride in layout.leaves if extent > 1), 1)
    return "whole" if set(range(size)) <= set(everything) else "uneven"


@many
@given(layouts(), st.integers(1, 300))
def test_repetitions_never_overlap(layout: Layout, size: int) -> None:
    image = [leaf for leaf in layout.leaves if leaf[1]] or [(1, 0)]
    code = repeated(layout, size)
    assert (code == "not-injective") == (not is_injective(from_leaves(image)))


def test_repetitions_of_all_small_layouts_are_complements_where_there_are_any() -> None:
    found = Counter[str]()
    for layout in [*SMALL, Layout((4, 6), (1, 6)), Layout((3, 2), (2, 3)), Layout((2, 4), (0, 2))]:
        code = repeated(layout, 48)
        found[code] += 1
        if is_injective(layout) and code in ("whole", "uneven"):
            try:
                assert complement(layout, 48) == repetitions(layout, 48)
            except LayoutError as error:
                assert (code, error.code) == ("uneven", "complement-undefined")  # noqa: PT017
            else:
                assert code == "whole"
    assert set(found) == {"whole", "uneven", "complement-undefined", "not-injective"}


@many
@given(layouts())
def test_a_right_inverse_of_any_layout_is_undone(layout: Layout) -> None:
    try:
        inverse = right_inverse(layout)
    except LayoutError as error:
        image = [leaf for leaf in layout.leaves if leaf[1]]
        assert error.code == "not-injective"  # noqa: PT017
        assert not is_injective(from_leaves(image))
        return
    assert [layout(i) for i in offsets(inverse)] == list(range(inverse.size))


@many
@given(spread_layouts())
def test_a_left_inverse_undoes_and_marks_what_is_skipped(layout: Layout) -> None:
    inverse = left_inverse(layout)
    table = offsets(layout)
    assert [inverse(offset) for offset in table] == list(range(layout.size))
    assert all(inverse(offset) >= layout.size for offset in set(range(layout.cosize)) - set(table))


@many
@given(spread_layouts())
def test_a_right_inverse_is_undone_over_the_longest_run(layout: Layout) -> None:
    inverse = right_inverse(layout)
    assert [layout(i) for i in offsets(inverse)] == list(range(inverse.size))
    step = 1
    for extent, stride in sorted(layout.leaves, key=lambda leaf: leaf[1]):
        if extent > 1 and stride == step:
            step *= extent
    assert inverse.size == step


@many
@given(compact_layouts)
def test_the_inverses_of_a_permutation_agree(layout: Layout) -> None:
    assert is_compact(layout)
    assert equal_functions(left_inverse(layout), right_inverse(layout))


@many
@given(st.one_of(layouts(), spread_layouts()), st.one_of(layouts(), spread_layouts()))
def test_predicates_are_what_the_tables_say(a: Layout, b: Layout) -> None:
    table = offsets(a)
    assert is_injective(a) == (len(set(table)) == len(table))
    assert is_compact(a) == (sorted(table) == list(range(len(table))))
    assert equal_functions(a, b) == (table == offsets(b))


def test_layouts_of_any_size_are_compared_by_their_strides() -> None:
    """No offset is listed: a list of so many would take minutes."""
    many = 10**9
    assert is_injective(Layout((256, many), (1, 256)))
    assert is_injective(Layout((256, many, 3), (2, 511, many * 512)))  # even offsets, and odd distances
    assert not is_injective(Layout((256, many), (2, 129)))
    assert not is_injective(Layout((many, 4), (1, 0)))


def test_predicates_over_all_small_layouts() -> None:
    for a in [*SMALL, Layout((3, 3), (2, 3))]:
        table = offsets(a)
        assert is_injective(a) == (len(set(table)) == len(table))
        assert is_compact(a) == (sorted(table) == list(range(len(table))))


@many
@given(compact_layouts, st.sampled_from((1, 2, 3, 4)), st.sampled_from((1, 2, 4)))
def test_a_division_permutes_the_offsets(layout: Layout, n: int, step: int) -> None:
    tiler = Layout(n, step)
    if layout.size % (n * step):
        return
    try:
        divided = logical_divide(layout, tiler)
    except LayoutError as error:
        assert error.code == "composition-undefined"  # noqa: PT017
        return
    assert sorted(offsets(divided)) == sorted(offsets(layout))
    tile, rest = divided.modes
    assert offsets(tile) == [layout(i * step) for i in range(n)]
    assert tile.size * rest.size == layout.size
    assert zipped_divide(layout, tiler) == divided
    assert tiled_divide(layout, tiler) == concat(tile, *rest.modes)


def test_divisions_by_mode_only_regroup() -> None:
    layout = row_major(12, 8, 5)
    tiler = (Layout(3, 4), Layout((2, 2), (1, 4)))
    logical = logical_divide(layout, tiler)
    assert [mode.size for mode in logical.modes] == [12, 8, 5]
    (t0, r0), (t1, r1), whole = logical[0].modes, logical[1].modes, logical[2]
    assert zipped_divide(layout, tiler) == concat(concat(t0, t1), concat(r0, r1, whole))
    assert tiled_divide(layout, tiler) == concat(concat(t0, t1), r0, r1, whole)
    assert str(t1) == "(2,2):(5,20)"
    assert sorted(offsets(logical)) == list(range(480))


@many
@given(spread_layouts(), compact_layouts)
def test_a_product_repeats_the_layout_without_overlap(block: Layout, copies: Layout) -> None:
    try:
        result = logical_product(block, copies)
    except LayoutError as error:
        assert error.code == "composition-undefined"  # noqa: PT017
        return
    inside, over = result.modes
    assert inside == block
    free = complement(block, block.size * copies.cosize)
    assert offsets(over) == [free(i) for i in offsets(copies)]
    assert is_injective(result)
    assert zipped_product(block, copies) == result


def test_products_by_mode_only_regroup() -> None:
    block, copies = Layout((2, 3), (1, 2)), (4, Layout(2, 1))
    (t0, r0), (t1, r1) = (mode.modes for mode in logical_product(block, copies).modes)
    assert zipped_product(block, copies) == concat(concat(t0, t1), concat(r0, r1))


@pytest.mark.parametrize(("block", "grid"), [("(2,4):(4,1)", "(3,2):(2,1)"), ("(2,2):(1,2)", "(4,4):(1,4)")])
def test_blocked_and_raked_products_place_the_same_blocks(block: str, grid: str) -> None:
    tile, tiles = Layout.parse(block), Layout.parse(grid)
    blocked, raked = blocked_product(tile, tiles), raked_product(tile, tiles)
    rows, cols = (mode.size for mode in tile.modes)
    over_rows, over_cols = (mode.size for mode in tiles.modes)
    for i, j, p, q in product(range(rows), range(cols), range(over_rows), range(over_cols)):
        offset = tile(i, j) + tile.size * tiles(p, q)
        assert blocked(p * rows + i, q * cols + j) == offset
        assert raked(i * over_rows + p, j * over_cols + q) == offset
    assert is_compact(blocked)
    assert blocked_product(Layout(4, 1), Layout(3, 1)).shape == ((4, 3),)


@many
@given(st.data())
def test_tiles_of_a_tensor_cover_it_once(data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.sampled_from((8, 16, 24)), min_size=1, max_size=3))
    layout = data.draw(st.sampled_from((row_major, col_major)))(*dims)
    tilers = [data.draw(st.sampled_from((1, 2, 4, Layout(2, 2), Layout((2, 2), (1, 4)), None))) for _ in dims]
    outer, inner = tile_tensor(layout, tilers)
    assert sorted(x + y for x in offsets(outer) for y in offsets(inner)) == list(range(layout.size))
    assert [a.size * b.size for a, b in zip(outer.modes, inner.modes, strict=True)] == dims


def test_a_tile_that_does_not_divide_runs_past_the_end() -> None:
    outer, inner = tile_tensor(row_major(100, 30), (32, 8))
    assert (str(outer), str(inner)) == ("(4,4):(960,8)", "(32,8):(30,1)")
