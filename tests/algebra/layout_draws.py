"""Random layouts, and the functions that they stand for, written out without the algebra."""

from hypothesis import strategies as st

from fireiron.algebra.layout import IndexTree, Layout

EXTENTS = st.sampled_from((1, 2, 2, 3, 4, 4, 6, 8))
STRIDES = st.one_of(st.sampled_from((0, 1, 2, 4, 8, 16, 32, 64)), st.integers(0, 24))


def offsets(layout: Layout) -> list[int]:
    """Give the offset of every index, by digits."""
    table = [0]
    for extent, stride in layout.leaves:
        table = [base + digit * stride for digit in range(extent) for base in table]
    return table


def trees(leaves: st.SearchStrategy[int], most: int = 4) -> st.SearchStrategy[IndexTree]:
    return st.recursive(leaves, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=most)


def _congruent(shape: IndexTree, strides: st.SearchStrategy[int]) -> st.SearchStrategy[IndexTree]:
    if isinstance(shape, tuple):
        return st.tuples(*(_congruent(mode, strides) for mode in shape))
    return strides


def layouts(strides: st.SearchStrategy[int] = STRIDES) -> st.SearchStrategy[Layout]:
    """Draw nested layouts with any strides."""
    return trees(EXTENTS).flatmap(lambda shape: _congruent(shape, strides).map(lambda stride: Layout(shape, stride)))


@st.composite
def injective_layouts(draw: st.DrawFn, gaps: st.SearchStrategy[int] | None = None) -> Layout:
    """Draw nested layouts whose strides, sorted, are multiples of what lies below: all of them have complements."""
    shape = draw(trees(EXTENTS))
    flat = list(Layout(shape, shape).leaves)
    order = draw(st.permutations(range(len(flat))))
    strides = [0] * len(flat)
    step = 1
    for place in order:
        step *= draw(gaps or st.sampled_from((1, 1, 1, 2, 3)))
        strides[place] = step
        step *= flat[place][0]
    rest = iter(strides)

    def fill(tree: IndexTree) -> IndexTree:
        return tuple(map(fill, tree)) if isinstance(tree, tuple) else next(rest)

    return Layout(shape, fill(shape))


def compact_layouts() -> st.SearchStrategy[Layout]:
    """Draw nested permutations of 0 to size - 1."""
    return injective_layouts(st.just(1))
