"""Layouts: functions from coordinates to offsets, written shape:stride, first mode fastest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from fireiron.algebra.index.nodes import Expr, Index, simplest
from fireiron.base.contract import checked, shown, whole
from fireiron.base.errors import LayoutError
from fireiron.base.link import here

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

IndexTree: TypeAlias = "Index | tuple[IndexTree, ...]"
Coord: TypeAlias = "Index | npt.NDArray[np.integer[Any]] | tuple[Coord, ...]"
Leaf: TypeAlias = "tuple[Index, Index]"

LIMIT = 2**40  # limit of extents and strides: products of a few stay below NumPy's 64-bit integers
_TOKEN = re.compile(r"\s*(\d+|[(),:])")


@attrs.frozen(repr=False, str=False, slots=False)
class Layout:
    """Map coordinates to offsets by `sum(digit * stride)`, digits taken colexicographically.

    A nested tuple is a mode that contains modes. An extent may be symbolic where no operation has to divide or compare
    it. A coordinate beyond the end continues along the last mode, as partial tiles need.

    Args:
        shape: positive extents, an int or a nested tuple of them.
        stride: offsets >= 0, nested like `shape`; all indices of a mode with stride 0 have the same offset.

    Raises:
        LayoutError: `not-congruent`, `bad-extent`, `bad-stride`.

    Example:
        >>> c = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
        >>> c((5, 1)), c(37), c(((1, 1), (1, 0)))
        (49, 49, 49)
    """

    shape: IndexTree
    stride: IndexTree

    def __attrs_post_init__(self) -> None:
        try:
            symbolic = _validate(self.shape, self.stride, self)
        except LayoutError:
            for name in ("shape", "stride"):
                object.__setattr__(self, name, _whole_tree(getattr(self, name)))
            symbolic = _validate(self.shape, self.stride, self)
        if symbolic:
            object.__setattr__(self, "shape", _simplest(self.shape))
            object.__setattr__(self, "stride", _simplest(self.stride))

    @classmethod
    @checked
    def parse(cls, text: str) -> Layout:
        """Read a layout from its shape:stride text; parentheses always make a tuple.

        Raises:
            LayoutError: `layout-syntax`, and what the constructor refuses.

        Example:
            >>> Layout.parse("(4,2):(1,16)").cosize
            20
        """
        tokens = _tokens(text)
        shape = _parse_tree(tokens, next(tokens), text)
        if next(tokens) != ":":
            raise _syntax(text, "':' must stand between shape and stride")
        stride = _parse_tree(tokens, next(tokens), text)
        if next(tokens):
            raise _syntax(text, "text is left after the stride")
        return cls(shape, stride)

    def __str__(self) -> str:
        return f"{tree_text(self.shape)}:{tree_text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self})"

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """List the (extent, stride) leaves, fastest first."""
        if not isinstance(self.shape, tuple):
            return ((self.shape, cast("Index", self.stride)),)
        return tuple(zip(tree_leaves(self.shape), tree_leaves(self.stride), strict=True))

    @cached_property
    def size(self) -> Any:
        """Count the coordinates; an Expr when an extent is symbolic."""
        if not isinstance(self.shape, tuple):
            return self.shape
        return simplest(product(extent for extent, _ in self.leaves))

    @cached_property
    def cosize(self) -> Any:
        """Give the largest offset plus one."""
        return simplest(sum(((extent - 1) * stride for extent, stride in self.leaves if extent != 1), 1))

    @property
    def rank(self) -> int:
        """Count the top-level modes; a single extent is one mode."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @cached_property
    def depth(self) -> int:
        """Count the levels of nesting; a single extent has depth 0."""
        return _depth(self.shape)

    @cached_property
    def modes(self) -> tuple[Layout, ...]:
        """List the top-level modes as layouts; a single extent is its own mode."""
        if not isinstance(self.shape, tuple):
            return (self,)
        return tuple(map(Layout, self.shape, cast("tuple[IndexTree, ...]", self.stride)))

    @property
    def flat(self) -> Layout:
        """Drop the nesting: one mode for each leaf."""
        return from_leaves(self.leaves)

    @cached_property
    def is_static(self) -> bool:
        """Tell whether every extent and stride is an int."""
        return all(isinstance(extent, int) and isinstance(stride, int) for extent, stride in self.leaves)

    def __getitem__(self, mode: int) -> Layout:
        """Give one top-level mode.

        Raises:
            LayoutError: `layout-mode` where there is none of this number.
        """
        number, modes = whole(mode), self.modes
        if number is None or not -len(modes) <= number < len(modes):
            raise LayoutError(
                "layout-mode",
                f"{self} has no mode {shown(mode)}",
                fix=f"give a number from 0 to {len(modes) - 1}",
                link=here(),
            )
        return modes[number]

    def __iter__(self) -> Iterator[Layout]:
        return iter(self.modes)

    def __call__(self, *coord: Coord) -> Any:
        """Return the offset of a coordinate; several arguments are the coordinates of the modes.

        Args:
            coord: an index, or one coordinate for each mode; ints, Exprs and integer arrays mix freely.

        Raises:
            LayoutError: `bad-coordinate` when a tuple's length is not the rank of its mode.

        Example:
            >>> Layout((4, 8), (1, 4))(3, 2), Layout((4, 8), (1, 4))(11)
            (11, 11)
        """
        try:
            return _offset(self, self.shape, self.stride, coord[0] if len(coord) == 1 else coord)
        except TypeError:
            raise LayoutError(
                "bad-coordinate",
                f"{', '.join(map(shown, coord))} is no coordinate of the layout {self}",
                fix="give whole numbers, expressions of sizes, or arrays of integers",
                link=here(),
            ) from None


def row_major(*shape: IndexTree) -> Layout:
    """Give the compact layout whose last mode is fastest; inside a nested mode the first stays fastest.

    Example:
        >>> row_major(128, 8)
        Layout((128,8):(8,1))
    """
    strides: list[IndexTree] = []
    step: Index = 1
    for mode in reversed(shape):
        stride, step = _compact(mode, step)
        strides.append(stride)
    return Layout(shape, tuple(reversed(strides)))


def col_major(*shape: IndexTree) -> Layout:
    """Give the compact layout whose first mode is fastest.

    Example:
        >>> col_major(128, (4, 2))
        Layout((128,(4,2)):(1,(128,512)))
    """
    return Layout(shape, _compact(shape, 1)[0])


def from_leaves(leaves: Iterable[Leaf]) -> Layout:
    """Make a flat layout of (extent, stride) pairs."""
    pairs = tuple(leaves)
    return Layout(tuple(extent for extent, _ in pairs), tuple(stride for _, stride in pairs))


def of_leaves(leaves: Iterable[Leaf]) -> Layout:
    """Make a layout of (extent, stride) pairs: a single extent for one pair, 1:0 for none."""
    pairs = tuple(leaves) or ((1, 0),)
    return Layout(*pairs[0]) if len(pairs) == 1 else from_leaves(pairs)


def product(extents: Iterable[Index]) -> Any:
    """Multiply extents; ints stay ints."""
    result: Any = 1
    for extent in extents:
        if extent != 1:
            result = extent if result == 1 else result * extent
    return result


def tree_leaves(tree: IndexTree) -> Iterator[Index]:
    """Walk the leaves of a nested tuple from left to right."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from tree_leaves(item)
    else:
        yield tree


def tree_text(tree: IndexTree) -> str:
    """Write a nested tuple without spaces."""
    return f"({','.join(map(tree_text, tree))})" if isinstance(tree, tuple) else str(tree)


def _depth(tree: IndexTree) -> int:
    return 1 + max(map(_depth, tree), default=0) if isinstance(tree, tuple) else 0


def _compact(shape: IndexTree, step: Index) -> tuple[IndexTree, Index]:
    """Return the colexicographic strides from `step` on, and the step after them."""
    if not isinstance(shape, tuple):
        return step, product((step, shape))
    strides: list[IndexTree] = []
    for mode in shape:
        stride, step = _compact(mode, step)
        strides.append(stride)
    return tuple(strides), step


def _validate(shape: IndexTree, stride: IndexTree, whole: Layout) -> bool:
    """Raise an error for an invalid layout, and tell whether it contains expressions."""
    if isinstance(shape, tuple):
        if not isinstance(stride, tuple) or len(stride) != len(shape):
            raise _not_congruent(whole)
        found = False
        for extent, step in zip(shape, stride, strict=True):
            found = _validate(extent, step, whole) or found
        return found
    if isinstance(stride, tuple):
        raise _not_congruent(whole)
    if not (0 < shape < LIMIT if isinstance(shape, int) else _is_expr(shape)):
        raise LayoutError(
            "bad-extent",
            f"the layout {shown(whole)} has the extent {shown(shape)}: extents are positive ints or expressions",
            fix="give every mode at least one element",
        )
    if not (0 <= stride < LIMIT if isinstance(stride, int) else _is_expr(stride)):
        raise LayoutError(
            "bad-stride",
            f"the layout {shown(whole)} has the stride {shown(stride)}: strides are ints >= 0 or expressions",
            fix="start at the smallest offset and count upwards",
        )
    return isinstance(shape, Expr) or isinstance(stride, Expr)


def _whole_tree(tree: Any) -> Any:
    """Turn whole numbers of other libraries into Python's, and lists into tuples."""
    if isinstance(tree, tuple | list):
        return tuple(map(_whole_tree, cast("tuple[Any, ...]", tree)))
    found = whole(tree)
    return tree if found is None else found


def _is_expr(leaf: object) -> bool:
    return isinstance(leaf, Expr)


def _simplest(tree: IndexTree) -> IndexTree:
    """Convert the constant expressions of a tree to ints, which the operations expect."""
    return tuple(map(_simplest, tree)) if isinstance(tree, tuple) else simplest(tree)


def _not_congruent(whole: Layout) -> LayoutError:
    return LayoutError(
        "not-congruent",
        f"the shape {tree_text(whole.shape)} and the stride {tree_text(whole.stride)} are nested differently",
        fix="give one stride for each extent, with the same parentheses",
    )


def _offset(whole: Layout, shape: IndexTree, stride: IndexTree, coord: Any) -> Any:
    if isinstance(coord, tuple):
        parts = cast("tuple[Coord, ...]", coord)
        if not isinstance(shape, tuple) or len(parts) != len(shape):
            raise LayoutError(
                "bad-coordinate",
                f"the coordinate {coord} does not fit the mode {tree_text(shape)} of the layout {whole}",
                fix="give one index, or one coordinate for each mode",
            )
        total: Any = 0
        for extent, step, part in zip(shape, cast("tuple[IndexTree, ...]", stride), parts, strict=True):
            total = total + _offset(whole, extent, step, part)
        return total
    if not isinstance(shape, tuple):
        return coord * stride
    leaves = whole.leaves if shape is whole.shape else zip(tree_leaves(shape), tree_leaves(stride), strict=True)
    return _linear(tuple(leaf for leaf in leaves if leaf[0] != 1), coord)


def _linear(leaves: tuple[Leaf, ...], index: Any) -> Any:
    """Return the offset of an index: the sum of its digits times strides. The last digit needs no remainder."""
    total: Any = None
    rest = index
    for extent, stride in leaves[:-1]:
        if stride != 0:
            digit = rest % extent
            term = digit if stride == 1 else digit * stride
            total = term if total is None else total + term
        rest = rest // extent
    if leaves and leaves[-1][1] != 0:
        term = rest if leaves[-1][1] == 1 else rest * leaves[-1][1]
        total = term if total is None else total + term
    return index * 0 if total is None else total


def _tokens(text: str) -> Iterator[str]:
    """Split the text into tokens; after the last token, yield empty strings without end."""
    place = 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        yield match[1]
    if text[place:].strip():
        raise _syntax(text, f"{text[place:].strip()!r} is no extent, stride or parenthesis")
    while True:
        yield ""


def _parse_tree(tokens: Iterator[str], token: str, text: str) -> IndexTree:
    if token.isdigit():
        return int(token)
    if token != "(":
        raise _syntax(text, f"{token!r} stands where an extent or '(' must")
    items: list[IndexTree] = []
    token = next(tokens)
    while token != ")":
        items.append(_parse_tree(tokens, token, text))
        token = next(tokens)
        if token == ",":
            token = next(tokens)
        elif token != ")":
            raise _syntax(text, f"{token!r} stands where ',' or ')' must")
    return tuple(items)


def _syntax(text: str, fact: str) -> LayoutError:
    return LayoutError(
        "layout-syntax", f"cannot read {text!r} as a layout: {fact}", fix='write "((4,8),2):((32,1),16)"'
    )
