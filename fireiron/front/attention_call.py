"""Check a call of attention, and turn lengths into masks; all array libraries share this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import refused
from fireiron.base.errors import CallError
from fireiron.base.link import here
from fireiron.front.attention_lengths import (
    ALL,
    CAUSAL,
    Window,
    bounds,
    check_integers,
    check_kinds,
    check_lengths,
    check_offsets,
    check_pages,
    within_length,
    within_sequences,
    within_sequences_of_keys,
)
from fireiron.front.score_text import Function

PAGES, SINKS, SEED = "pages", "sinks", "seed"
SCALES = ("q_scale", "k_scale", "v_scale")
OF_PROGRAMS = (PAGES, SINKS, SEED, *SCALES)  # arrays that programs read themselves
MASK = 2**32 - 1  # the 32 bits of a word
WHOLE = "q (B, H, I, D), k (B, H, J, D) and v (B, H, J, E)"
SEQUENCES = "q (I, H, D), k (J, H, D) and v (J, H, E)"
PAGED = "q (B, H, I, D), and pages k (P, H, S, D) and v (P, H, S, E)"
PAGED_SEQUENCES = "q (I, H, D), and pages k (P, H, S, D) and v (P, H, S, E)"


def check_shapes(
    q: Sequence[int],
    k: Sequence[int],
    v: Sequence[int],
    gqa: bool,
    form: str = WHOLE,
    said: Sequence[Any] | None = None,
) -> int:
    """Return the number of heads of queries that share one head of keys.

    Args:
        q, k, v: shapes, of four dims.
        gqa: whether heads of queries may share heads of keys.
        form: for the error: the shapes that the call takes, in words.
        said: for the error: the shapes as the user gave them, where they differ from q, k and v here.

    Raises:
        CallError: `wrong-shape`; `attention-heads`.
    """
    fits = len(q) == len(k) == len(v) == 4 and q[3] == k[3] and k[:3] == v[:3]
    if not fits or (q[0] != k[0] and form not in (PAGED, PAGED_SEQUENCES)):
        shown = [list(shape) for shape in said or (q, k, v)]
        raise CallError("wrong-shape", f"attention of q {shown[0]}, k {shown[1]} and v {shown[2]}", fix=f"give {form}")
    if q[1] == k[1]:
        return 1
    if not gqa or k[1] == 0 or q[1] % k[1]:
        raise CallError(
            "attention-heads",
            f"{q[1]} heads of queries and {k[1]} of keys",
            fix="give as many, or enable_gqa=True where keys' heads divide queries'",
        )
    return q[1] // k[1]


class Lengths(NamedTuple):  # torch.compile traces named tuples, and no classes of attrs
    """Hold the arguments about lengths of a call of `attention`.

    Args:
        offsets, key_offsets, lengths, pages: arrays of integers, or None.
        debug: whether contents of arrays on a GPU are checked too.
        window: for sequences, a pair: how many keys before and behind its place a query sees; None to follow
            `is_causal`.
    """

    offsets: Any = None
    key_offsets: Any = None
    lengths: Any = None
    pages: Any = None
    debug: bool = False
    window: Window | None = None


class Noise(NamedTuple):
    """Hold the arguments about sinks and dropout of a call of `attention`."""

    sinks: Any = None
    dropout: float = 0.0
    seed: Any = None


class Options(NamedTuple):
    """Hold the arguments of a call of `attention` other than queries, keys and values.

    Args:
        how: the arguments about lengths.
        noise: the arguments about sinks and dropout.
        mask, score, scale, causal, gqa, lse, arrays, scales: the call's arguments; `causal` is `is_causal`, and `gqa`
            is `enable_gqa`.
    """

    how: Lengths = Lengths()
    noise: Noise = Noise()
    mask: Function | None = None
    score: Function | None = None
    scale: float | None = None
    causal: bool = False
    gqa: bool = False
    lse: bool = False
    arrays: Mapping[str, Any] = {}
    scales: Any = None


class Library(NamedTuple):
    """Hold the functions of an array library that a call of attention needs.

    Args:
        listed: converts an array to lists; gives None for an array on a GPU without `debug`.
        places: makes 0, 1, ..., n - 1 on an array's device.
        find: for each of some values, counts the elements of a sorted array that are at most this value.
        integers: converts to i32.
        kind: names an array's element type.
        drawn: draws a seed on an array's device.
        seed: makes a seed's array of three whole numbers, on an array's device.
    """

    listed: Callable[[Any, bool], Any]
    places: Callable[[int, Any], Any]
    find: Callable[[Any, Any], Any]
    integers: Callable[[Any], Any]
    kind: Callable[[Any], str]
    drawn: Callable[[Any], Any]
    seed: Callable[[Sequence[int], Any], Any]


class Prepared(NamedTuple):
    """Hold a call of attention on batches of heads.

    Args:
        q, k, v: queries, keys and values, of four dims.
        masks, by_keys: as `text_of` takes them.
        causal: whether query i sees keys 0 to i alone.
        arrays: by name, inputs of the programs beside q, k and v.
        group: number of heads of queries that share one head of keys.
    """

    q: Any
    k: Any
    v: Any
    masks: tuple[Function, ...]
    by_keys: tuple[Function, ...] | None
    causal: bool
    arrays: Mapping[str, Any]
    group: int


def check_given(q: Any, k: Any, v: Any, options: Options, fits: Callable[[Any], bool]) -> None:
    """Refuse arguments that should be arrays, and are not.

    Args:
        q, k, v: queries, keys and values.
        options: the other arguments.
        fits: a function that says whether a value is an array of the call's library.

    Raises:
        CallError: `not-an-array`.
    """
    how, given = options.how, options.scales
    scales = cast("Sequence[Any]", given if isinstance(given, tuple | list) else (given,))
    others = {name: getattr(how, name) for name in ("offsets", "key_offsets", "lengths", "pages")}
    others |= {"sinks": options.noise.sinks} | dict(zip(SCALES, scales, strict=False))
    read = {name: x for name, x in others.items() if x is not None}
    for name, x in ({"q": q, "k": k, "v": v} | read | dict(options.arrays)).items():
        if not fits(x):
            raise CallError(
                "not-an-array",
                f"{name} is a {type(x).__name__}, which is no array of the call's library",
                fix="give arrays of one library",
                link=here(),
            )


def number(name: str, x: Any) -> float:
    """Convert an option to a float.

    Raises:
        CallError: `argument-kind`.
    """
    if not hasattr(x, "__float__"):
        raise refused(name, ("a number", "0.5"), x, CallError)
    return float(x)


def prepared(
    q: Any, k: Any, v: Any, mask: Function | None, causal: bool, gqa: bool, how: Lengths, arrays: Mapping[str, Any],
    noise: Noise, library: Library, scales: Any = None,
) -> Prepared:  # fmt: skip
    """Check a call, and turn lengths into masks.

    Raises:
        CallError: `wrong-shape`, `attention-heads`, `attention-dtypes`, `attention-lengths`, `attention-offsets`,
            `attention-pages`, `attention-sinks`, `attention-dropout`, `attention-scales`.
    """
    said: list[tuple[int, ...]] = [tuple(x.shape) for x in (q, k, v)]
    sequences, paged = how.offsets is not None, how.pages is not None
    form = (PAGED_SEQUENCES if paged else SEQUENCES) if sequences else PAGED if paged else WHOLE
    shapes: list[tuple[int, ...]] = said
    if sequences:
        packed = said[:1] if paged else said
        shapes = [*((1, s[1], s[0], s[2]) if len(s) == 3 else () for s in packed), *said[len(packed) :]]
    group = check_shapes(shapes[0], shapes[1], shapes[2], gqa, form, said)
    check_kinds([(name, library.kind(x)) for name, x in (("q", q), ("k", k), ("v", v))])
    named = (how.offsets, how.key_offsets, how.lengths, how.pages)
    check_lengths(*(None if x is None else tuple(x.shape) for x in named), batch=shapes[0][0])
    for name, x in zip(("offsets", "key_offsets", "lengths", "pages"), named, strict=True):
        if x is not None:
            check_integers(name, library.kind(x))
    masks = () if mask is None else (mask,)
    arrays = dict(arrays) | _noise(noise, shapes[0][1], q, library) | _scales(scales, [s[1] for s in shapes], library)
    if how.lengths is not None and not sequences:
        masks, arrays["lengths"] = (*masks, within_length), library.integers(how.lengths)
    if how.pages is not None:
        arrays[PAGES] = library.integers(how.pages)
        listed = library.listed(how.pages, how.debug)
        if listed is not None:
            check_pages(listed, shapes[1][0])
    if not sequences:
        return Prepared(q, k, v, masks, None, causal, arrays, group)
    of_keys = how.offsets if how.key_offsets is None else how.key_offsets
    rows = shapes[0][2], shapes[1][2]
    for name, x, count in zip(("offsets", "key_offsets"), (how.offsets, of_keys), rows, strict=True):
        listed = library.listed(x, how.debug) if name == "offsets" or not paged else None
        if listed is not None:
            check_offsets(name if how.key_offsets is not None else "offsets", listed, count)
    window = how.window or (CAUSAL if causal else ALL)
    begins, ends = of_keys[:-1], of_keys[1:]
    if how.pages is not None and how.lengths is not None:  # the pages of all sequences are those of one batch
        lines = how.pages.shape[1] * shapes[1][2]
        rows = rows[0], how.pages.shape[0] * lines
        begins = library.places(how.pages.shape[0], how.offsets) * lines
        ends = begins + how.lengths.clip(0, lines)
        arrays[PAGES] = arrays[PAGES].reshape(1, -1)

    def places(n: int) -> Any:
        return library.places(n, how.offsets)

    found = bounds(how.offsets, begins, ends, *rows, window, places, library.find)
    arrays |= {name: library.integers(x) for name, x in found.items()}
    q = q.swapaxes(0, 1)[None]
    k, v = (x if paged else x.swapaxes(0, 1)[None] for x in (k, v))
    return Prepared(q, k, v, (*masks, within_sequences), (*masks, within_sequences_of_keys), False, arrays, group)


def _noise(noise: Noise, heads: int, q: Any, library: Library) -> dict[str, Any]:
    """Return the arrays of sinks and of a seed, by name.

    Raises:
        CallError: `attention-sinks`; `attention-dropout`.
    """
    found: dict[str, Any] = {}
    if noise.sinks is not None:
        if tuple(noise.sinks.shape) != (heads,) or library.kind(noise.sinks) != "float32":
            said = f"sinks {list(noise.sinks.shape)} of {library.kind(noise.sinks)}, and {heads} heads of queries"
            raise CallError("attention-sinks", said, fix="give a score of each head of queries, in float32")
        found[SINKS] = noise.sinks
    if not 0 <= noise.dropout < 1:
        raise CallError(
            "attention-dropout",
            f"dropout_p={noise.dropout} is no fraction of weights to drop",
            fix="give a number of at least 0 and below 1",
        )
    if noise.dropout:
        found[SEED] = _seed(noise.seed, q, library)
    return found


def _scales(scales: Any, heads: Sequence[int], library: Library) -> dict[str, Any]:
    """Return the factors of 8-bit q, k and v for each head, by name.

    Raises:
        CallError: `attention-scales`.
    """
    if scales is None:
        return {}
    given = cast("Sequence[Any]", scales if isinstance(scales, tuple | list) else (scales,))
    found: dict[str, Any] = dict(zip(SCALES, given, strict=False))
    fits = len(given) == len(SCALES) and all(
        tuple(x.shape) == (n,) and library.kind(x) == "float32" for x, n in zip(given, heads, strict=True)
    )
    if not fits:
        said = ", ".join(f"{list(x.shape)} of {library.kind(x)}" for x in given)
        raise CallError(
            "attention-scales",
            f"scales {said}, and {heads[0]} heads of queries and {heads[1]} of keys",
            fix="give three arrays of float32: a number for each head of queries, of keys and of values",
        )
    return found


def result_kind(kind: str) -> str:
    """Name the type of results: that of queries, but bfloat16 for queries of 8 bits.

    Args:
        kind: element type of queries.

    Example:
        >>> result_kind("float16"), result_kind("float8_e4m3fn")
        ('float16', 'bfloat16')
    """
    known = find_dtype(kind)
    return "bfloat16" if known.bits == 8 and known.kind == "float" else kind


def _seed(seed: Any, q: Any, library: Library) -> Any:
    """Return a seed as an array of three i32.

    Raises:
        CallError: `attention-dropout`.
    """
    if seed is None:
        return library.drawn(q)
    if hasattr(seed, "shape"):
        if tuple(seed.shape) != (3,) or library.kind(seed) != "int32":
            said = f"seed {list(seed.shape)} of {library.kind(seed)}"
            raise CallError("attention-dropout", said, fix="give a whole number, or three of int32")
        return seed
    given = cast("tuple[Any, ...]", seed if isinstance(seed, tuple) else (seed, 0))
    whole = len(given) == 2 and all(isinstance(x, int) for x in given)
    if not (whole and 0 <= given[0] < 2**64 and 0 <= given[1] < 2**32):
        raise CallError(
            "attention-dropout",
            f"seed={seed!r} is out of range",
            fix="give a whole number of at least 0 and below 2^64",
        )
    first, offset = given
    words = (first & MASK, first >> 32, offset)
    return library.seed([word - 2**32 if word >= 2**31 else word for word in words], q)
