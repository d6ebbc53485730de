"""Lengths in attention: padded keys, concatenated sequences, pages of keys and values.

Lengths become masks that compare indices with arrays of integers, and loops over keys end where the arrays say. For
sequences, arrays hold each query's first key, and the key behind its last. A second pair of arrays holds such bounds
for each 64 queries, so that a tile reads few elements to find the ends of its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError
from fireiron.language.pointwise import Value

Window: TypeAlias = tuple[int | None, int | None]
CAUSAL: Window = (None, 0)
ALL: Window = (None, None)
TOGETHER = 64  # queries, or keys, that have bounds in common
OF_QUERIES = ("first_key", "last_key", "first_of_64", "last_of_64")
OF_KEYS = ("first_query", "last_query")  # of 64 keys


def within_length(b: Value, j: Value, lengths: Value) -> Value:
    """Mask: the keys below a batch's length."""
    return j < lengths[b]


def _within_keys(i: Value, j: Value, first_key: Value, last_key: Value) -> Value:
    return (j >= first_key[i]) & (j < last_key[i])


def within_sequences(
    i: Value, j: Value, first_key: Value, last_key: Value, first_of_64: Value, last_of_64: Value
) -> Value:
    """Mask: the keys of a query's sequence; loops over keys use the bounds of 64 queries."""
    together = i // TOGETHER
    return _within_keys(i, j, first_key, last_key) & (j >= first_of_64[together]) & (j < last_of_64[together])


def within_sequences_of_keys(
    i: Value, j: Value, first_key: Value, last_key: Value, first_query: Value, last_query: Value
) -> Value:
    """Mask: the queries of a key's sequence; loops over queries use the bounds of 64 keys."""
    together = j // TOGETHER
    return _within_keys(i, j, first_key, last_key) & (i >= first_query[together]) & (i < last_query[together])


def bounds(
    offsets: Any, begins: Any, ends: Any, queries: int, keys: int, window: Window, places: Callable[[int], Any],
    find: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the arrays that masks of sequences read, by name, in i32.

    Queries behind the last sequence see no key, and keys behind it are seen by no query.

    Args:
        offsets: first query of each sequence, and the end of the last sequence.
        begins: first key of each sequence.
        ends: end of each sequence's keys; keys between this end and the next sequence are seen by no query.
        queries: number of all queries.
        keys: number of all keys.
        window: numbers of keys that a query sees before and behind its place among the keys; None for all. The place of
            a sequence's last query is its last key.
        places: a function that makes 0, 1, ..., n - 1.
        find: a function that counts, for each of some values, the elements of a sorted array that are at most this
            value: `find(sorted, values)`.
    """
    i, j = places(queries), places(keys)
    mine, theirs = (find(edges, at).clip(0, len(edges) - 1) for edges, at in ((offsets[1:], i), (ends, j)))
    there = i < offsets[-1]
    shift = ends[mine] - offsets[mine + 1]
    first, last = _seen(i + shift, window, begins[mine], ends[mine])
    first, last = (x * there + ends[-1] * (~there) for x in (first, last))
    shift = offsets[theirs + 1] - ends[theirs]
    began, ended = _seen(j + shift, (window[1], window[0]), offsets[theirs], offsets[theirs + 1])
    at, at_keys = i[::TOGETHER], j[::TOGETHER]
    far, far_keys = (at + TOGETHER - 1).clip(0, max(queries - 1, 0)), (at_keys + TOGETHER - 1).clip(0, max(keys - 1, 0))
    found = (first, last, first[at], last[far], began[at_keys], ended[far_keys])
    return dict(zip((*OF_QUERIES, *OF_KEYS), found, strict=True))


def _seen(place: Any, window: Window, begin: Any, end: Any) -> tuple[Any, Any]:
    """Return the first key of a sequence inside a window, and the key behind the last."""
    before, behind = window
    first = begin if before is None else (place - before).clip(min=begin)
    last = end if behind is None else (place + (behind + 1)).clip(max=end)
    return first, last.clip(min=begin)


def check_offsets(name: str, offsets: Sequence[int], rows: int) -> None:
    """Refuse offsets that do not begin at 0, that decrease, or that exceed the rows.

    Raises:
        CallError: `attention-offsets`.
    """
    fix = "give where each sequence begins, and the end of the last: np.cumsum([0, *lengths], dtype=np.int32)"
    if not offsets or offsets[0] != 0:
        raise CallError(
            "attention-offsets", f"{name} begins with {offsets[0] if offsets else 'nothing'}, not with 0", fix=fix
        )
    for n, (begin, end) in enumerate(pairwise(offsets)):
        if end < begin:
            raise CallError(
                "attention-offsets", f"{name}[{n + 1}] is {end}: sequence {n} begins at row {begin}", fix=fix
            )
        if end > rows:
            raise CallError("attention-offsets", f"{name}[{n + 1}] is {end}, and there are {rows} rows", fix=fix)


def check_pages(pages: Sequence[Sequence[int]], count: int) -> None:
    """Refuse page numbers that are no page.

    Raises:
        CallError: `attention-pages`.
    """
    for b, row in enumerate(pages):
        for n, page in enumerate(row):
            if not 0 <= page < count:
                raise CallError(
                    "attention-pages",
                    f"pages[{b}, {n}] is {page}, and pages have the numbers 0 to {count - 1}",
                    fix="give a valid page number in every entry: 0 in entries behind a sequence's length",
                )


def check_integers(name: str, kind: str) -> None:
    """Refuse arrays of lengths whose type is not int32 or int64.

    Raises:
        CallError: `attention-dtypes`.
    """
    if kind not in ("int32", "int64"):
        raise CallError("attention-dtypes", f"{name} of {kind}", fix=f"give {name} in int32")


def check_kinds(named: Sequence[tuple[str, str]]) -> None:
    """Refuse queries, keys and values of different element types, and of integers.

    Args:
        named: name and element type of each.

    Raises:
        CallError: `attention-dtypes`.
    """
    several = len({kind for _, kind in named}) > 1
    if several or find_dtype(named[0][1]).kind == "int":
        said = ", ".join(f"{name} of {kind}" for name, kind in named)
        to = "one element type" if several else "floats"
        raise CallError("attention-dtypes", f"attention of {said}", fix=f"convert them to {to}")


def check_lengths(
    offsets: Sequence[int] | None, key_offsets: Sequence[int] | None, lengths: Sequence[int] | None,
    pages: Sequence[int] | None, batch: int,
) -> None:  # fmt: skip
    """Refuse arrays of lengths whose shapes do not fit each other. With `offsets`, each sequence counts as a batch.

    Raises:
        CallError: `attention-lengths`.
    """
    wrong = None
    batch = offsets[0] - 1 if offsets else batch
    if key_offsets is not None and offsets is None:
        wrong = "key_offsets without offsets"
    elif offsets is not None and lengths is not None and pages is None:
        wrong = "offsets together with lengths"
    elif key_offsets is not None and pages is not None:
        wrong = "key_offsets together with pages"
    elif pages is not None and lengths is None:
        wrong = "pages without lengths"
    elif offsets is not None and (
        len(offsets) != 1 or batch < 1 or (key_offsets is not None and key_offsets != offsets)
    ):
        wrong = f"offsets {list(offsets)}" + (f" and key_offsets {list(key_offsets)}" if key_offsets else "")
    elif lengths is not None and tuple(lengths) != (batch,):
        wrong = f"lengths {list(lengths)} of {batch} batches"
    elif pages is not None and (len(pages) != 2 or pages[0] != batch):
        wrong = f"pages {list(pages)} of {batch} batches"
    if wrong is not None:
        raise CallError(
            "attention-lengths",
            f"attention takes no {wrong}" if "without" in wrong or "together" in wrong else f"attention with {wrong}",
            fix="give offsets of N + 1 numbers, and as many key_offsets; or one length for each batch, and with pages "
            "one row of pages for each batch. With offsets, sequences take the place of batches",
        )
