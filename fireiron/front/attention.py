"""Attention of arrays, for those who have arrays and no wish to schedule: forward, and gradients for torch.

Arrays have torch's dims: batch, heads, sequence, elements of a head, in any order in memory whose elements of a head
lie together. Programs and schedules are those of `fireiron.schedules.attention` and `attention_gradients`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from math import prod
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, CheckError, FireironError
from fireiron.base.link import here
from fireiron.front.attention_call import (
    OF_PROGRAMS,
    PAGES,
    SEED,
    Lengths,
    Library,
    Noise,
    Options,
    prepared,
    result_kind,
)
from fireiron.front.cli.find import PRESETS
from fireiron.front.host import HostKernel, without_gpu
from fireiron.front.score_text import INDICES, Function, Place, array_name, functions_of, text_of
from fireiron.jit.arrays import describe, is_torch
from fireiron.language.tensor import Tensor, tensor

MOST_KERNELS = 1024
SIMULATED = "sm_89"  # copies by threads are simulated quickest
LINE_NBYTES = 16  # that vectors and tensor maps start at
FEW_ROWS = 32  # of which a simulated block has no more
FEW_QUERIES = 16  # of a head: rows of one instruction
LONG = 1024  # keys, from which on few queries share them among blocks
Role: TypeAlias = Literal["forward", "of_queries", "of_keys", "of_array"]
GROUPED = {"q": "b h g i d", "o": "b h g i e", "dy": "b h g i e", "lse": "b h g i", "delta": "b h g i"}


@attrs.frozen(cache_hash=True)
class Array:
    """Describe an array: shape, elements from one to the next along each dim, element type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def described(self, name: str) -> Tensor:
        """Describe the array as a tensor of a program."""
        return tensor(*self.shape, dtype=self.dtype, name=name, strides=self.strides)

    @functools.cached_property
    def taken(self) -> bool:
        """Say whether kernels take the array as it lies: elements of a line together, lines at whole vectors."""
        nbytes = find_dtype(self.dtype).nbytes
        steps = [s for s, n in zip(self.strides[:-1], self.shape[:-1], strict=True) if n > 1]
        together = self.strides[-1] == 1 or self.shape[-1] == 1
        return together and all(s > 0 and s * nbytes % LINE_NBYTES == 0 for s in steps)


@attrs.frozen(cache_hash=True)
class Attention:
    """Describe a call of attention.

    Args:
        q, k, v: queries, keys and values. Queries have five dims where several of their heads share one of keys.
        functions: mask and score function as text; "" for neither.
        arrays: what they read, and what else programs take, by name.
        scale: of the scores.
        causal: whether query i sees keys 0 to i alone.
    """

    q: Array
    k: Array
    v: Array
    functions: str
    arrays: tuple[tuple[str, Array], ...]
    scale: float
    causal: bool

    @property
    def grouped(self) -> bool:
        """Say whether several heads of queries share one of keys."""
        return len(self.q.shape) == 5

    def options(self, role: Role) -> dict[str, Any]:
        """Give a program's arguments beside queries, keys, values and pages.

        Args:
            role: what the program computes.
        """
        found = functions_of(self.functions)
        mask = found.by_keys if role == "of_keys" and found.by_keys is not None else found.mask
        given = {name: array for name, array in (self.arrays[n] for n in self.taken(role)) if name != PAGES}
        named = {name if name in OF_PROGRAMS else array_name(name): array for name, array in given.items()}
        arrays = {name: array.described(name) for name, array in named.items()}
        options = {"scale": self.scale, "score": found.score, "mask": _masked(mask, self.causal)}
        return options | arrays | ({"dropout": found.dropout} if found.dropout else {})

    def taken(self, role: Role) -> tuple[int, ...]:
        """Number the arrays that a program takes; pages come first."""
        beside = OF_PROGRAMS if role == "forward" else (SEED,)
        read = {*functions_of(self.functions).read(role != "of_keys"), *beside}
        found = (n for n, (name, _) in enumerate(self.arrays) if name in read)
        return tuple(sorted(found, key=lambda n: self.arrays[n][0] != PAGES))

    @property
    def pages(self) -> Array | None:
        """Give the table of pages, where keys and values lie in pages."""
        return dict(self.arrays).get(PAGES)

    @property
    def keys(self) -> int:
        """Count the keys of a head."""
        return self.k.shape[2] if self.pages is None else self.pages.shape[1] * self.k.shape[2]


def extents_at(at: Place, q: Sequence[int], k: Sequence[int]) -> tuple[int, ...]:
    """Give the shape of an array's gradient at one place: the extents of the place's indices in the order b h i j.

    Args:
        at: the place.
        q, k: shapes of queries and keys.

    Example:
        >>> extents_at(("j", "h"), (1, 2, 3, 10, 64), (1, 2, 20, 64))
        (2, 3, 20)
    """
    sizes = {"b": q[:1], "h": q[1:-2], "i": q[-2:-1], "j": k[2:3]}
    return tuple(n for name in INDICES if name in at for n in sizes[name])


def region(
    at: Place, q: Sequence[int], k: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int | slice, ...]]:
    """Say where the gradient of a place lies in that of its array.

    Args:
        at: the place.
        q, k: shapes of queries and keys.

    Returns:
        The gradient's shape with all heads of queries in one dim, its dims in the place's order, and subscripts.

    Example:
        >>> region(("j", 0, "h"), (1, 2, 3, 10, 64), (1, 2, 20, 64))
        ((6, 20), (1, 0), (slice(None, 20, None), 0, slice(None, 6, None)))
    """
    names = [name for name in INDICES if name in at]
    sizes = {name: prod(extents_at((name,), q, k)) for name in names}
    order = tuple(names.index(x) for x in at if isinstance(x, str))
    return tuple(sizes.values()), order, tuple(slice(sizes[x]) if isinstance(x, str) else x for x in at)


def strides_like(array: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """Give the strides of a whole array of a shape whose dims lie in the order of another's.

    Example:
        >>> strides_like(Array((2, 4, 10, 64), (2560, 64, 256, 1), "f16"), (2, 4, 10, 32))
        (1280, 32, 128, 1)
    """
    order = sorted(range(len(shape) - 1), key=lambda n: (array.strides[n], -n))
    found, step = [1] * len(shape), shape[-1]
    for n in order:
        found[n] = step
        step *= shape[n]
    return tuple(found)


def _masked(mask: Function | None, causal: bool) -> Function | None:
    """Join a mask and torch's causal one, in which query i sees keys 0 to i."""
    if not causal:
        return mask

    def seen(**known: Any) -> Any:
        below = known["j"] <= known["i"]
        return below if mask is None else below & mask(**known)

    return seen


@lru_cache(MOST_KERNELS)
def forward(what: Attention, y: Array, host: bool) -> Any:
    """Give the kernel of attention, whose outputs are the result y and the logarithm of each row's sum, in f32."""
    programs = _programs("attention")
    program = programs.attention if what.pages is None else programs.paged
    program = program.on(q=GROUPED["q"]) if what.grouped else program
    out = y.described("y"), tensor(*what.q.shape[:-1], dtype="f32")
    named = (("q", what.q), ("k", what.k), ("v", what.v), (PAGES, what.pages))
    given = (array.described(name) for name, array in named if array is not None)
    spec = program(*given, **what.options("forward"), lse=True, out=out, arch=_arch(host))
    few = {"simt": {"rows": FEW_ROWS}, "mma": {"warps": 1, "keys": FEW_ROWS}, "decode": {"ways": 2, "warps": 2}}
    shared = ("decode",) if what.q.shape[-2] <= FEW_QUERIES and what.keys >= LONG else ()
    return _kernel(programs, spec, host, (*shared, "wgmma", "mma", "simt"), few if host else {})


@lru_cache(MOST_KERNELS)
def gradient(what: Attention, dy: Array, made: tuple[Array, ...], host: bool) -> Any:
    """Give the kernel of one gradient, that of queries, or of two, those of keys and values.

    Args:
        what: attention.
        dy: the gradient of its result.
        made: describes the gradients.
        host: whether arrays lie in host memory.
    """
    programs = _programs("attention_gradients")
    program = programs.of_queries if len(made) == 1 else programs.of_keys
    if what.grouped:
        program = program.on(**{name: dims for name, dims in GROUPED.items() if name != "o"})
    rows = (tensor(*what.q.shape[:-1], dtype="f32", name=name) for name in ("lse", "delta"))
    named = (("q", what.q), ("k", what.k), ("v", what.v), ("dy", dy))
    given = (array.described(name) for name, array in named)
    out = tuple(x.described("y") for x in made)
    spec = program(*given, *rows, **what.options(role_of(made)), out=single(out), arch=_arch(host))
    few = {name: {"rows": FEW_ROWS} for name in ("squares", "simt")} | {"mma": {"warps": 1, "chunk": FEW_ROWS}}
    return _kernel(programs, spec, host, ("wgmma", "mma", "squares", "simt"), few if host else {})


@lru_cache(MOST_KERNELS)
def array_gradient(what: Attention, dy: Array, name: str, at: Place, host: bool) -> Any:
    """Give the kernel of the gradient of an array that the score function reads, at one place, in f32.

    Args:
        what: attention.
        dy: the gradient of its result.
        name: of the array.
        at: the place.
        host: whether arrays lie in host memory.
    """
    programs = _programs("attention_arrays")
    program = programs.of_array
    if what.grouped:
        program = program.on(**{name: dims for name, dims in GROUPED.items() if name != "o"})
    rows = (tensor(*what.q.shape[:-1], dtype="f32", name=name) for name in ("lse", "delta"))
    named = (("q", what.q), ("k", what.k), ("v", what.v), ("dy", dy))
    given = (array.described(name) for name, array in named)
    options = what.options("of_array") | {"array": array_name(name), "at": at}
    spec = program(*given, *rows, **options, out="f32", arch=_arch(host))
    return _kernel(programs, spec, host, ("mma", "squares"), {})


@lru_cache(MOST_KERNELS)
def delta(o: Array, dy: Array, host: bool) -> Any:
    """Give the kernel that adds up the products of the result and its gradient."""
    program = _programs("attention_gradients").delta
    if len(o.shape) == 5:
        program = program.on(o=GROUPED["o"], dy=GROUPED["o"])
    spec = program(o.described("o"), dy.described("dy"), out="f32", arch=_arch(host))
    return _kernel(_programs("rows"), spec, host, ("row",), {})


def role_of(gradients: Sequence[Any]) -> Role:
    """Name the program of one gradient, that of queries, or of two."""
    return "of_queries" if len(gradients) == 1 else "of_keys"


def places_of(functions: str, name: str) -> tuple[Place, ...] | None:
    """Give the places at which a call's score function reads an array; None where it has no gradient.

    It has one where the score function alone reads it, by indices and numbers.

    Args:
        functions: mask and score function as text.
        name: of the array.
    """
    found = functions_of(functions)
    masks = (found.reads.get(what, ()) for what in ("mask", "by_keys"))
    return None if any(name in read for read in masks) else found.places.get(name)


def check_learns(functions: str, names: Sequence[str], stopped: str = "{}.detach()") -> None:
    """Refuse gradients of arrays that have none.

    Args:
        functions: mask and score function as text.
        names: of the arrays whose gradients are asked for.
        stopped: the words by which a library's user says that an array has no gradient.

    Raises:
        CallError: `requires-grad`.
    """
    for name in names:
        if places_of(functions, name) is None:
            read = "a mask reads it" if name not in functions_of(functions).places else "it is read at no plain index"
            raise CallError(
                "requires-grad",
                f"no gradient goes to {name}: {read}",
                fix=f"read it by indices as {name}[h, i, j], or give {name}={stopped.format(name)}",
            )


def _programs(name: str) -> Any:
    return import_module(f"{PRESETS}.{name}")


def _arch(host: bool) -> str | None:
    return SIMULATED if host and without_gpu() else None


def _kernel(presets: Any, spec: Any, host: bool, names: Sequence[str], plans: Mapping[str, Mapping[str, int]]) -> Any:
    """Build the first preset that takes a program.

    Raises:
        CheckError: `nothing-legal`.
    """
    refused: list[str] = []
    for name in names:
        try:
            schedule = getattr(presets, name)(spec, **plans.get(name, {}))
            if host and without_gpu():
                return HostKernel(schedule.lowered())
            return schedule.compile()
        except FireironError as error:
            refused.append(f"{name}: {error.message}")
    said = "; ".join(refused)
    raise CheckError("nothing-legal", f"no preset takes {spec.computed.name}: {said}", fix="write a schedule for it")


def single(results: Sequence[Any]) -> Any:
    """Give a lone result, or several as they are."""
    return results if len(results) > 1 else results[0]


def entry(attend: Callable[[Any, Any, Any, Options], Any], words: str = ""):
    """Make the function `attention` of a library: its arguments are the same for all, and its options come as a record.

    Args:
        attend: computes attention of queries, keys and values.
        words: the function's docstring, where it says more than that of `fireiron.attention`.
    """

    def attention(
        q: Any,
        k: Any,
        v: Any,
        /,
        *,
        mask: Callable[..., Any] | None = None,
        score: Callable[..., Any] | None = None,
        scale: float | None = None,
        is_causal: bool = False,
        enable_gqa: bool = False,
        lengths: Any = None,
        offsets: Any = None,
        key_offsets: Any = None,
        pages: Any = None,
        sinks: Any = None,
        dropout_p: float = 0.0,
        seed: Any = None,
        scales: Any = None,
        lse: bool = False,
        debug: bool = False,
        **arrays: Any,
    ) -> Any:
        """Compute softmax(q k' * scale) v of each head, by one kernel.

        Tensors of torch go through an operator that torch.compile and torch.export trace, and that has gradients;
        arrays of NumPy are simulated where there is no GPU. A query that sees no key gives zeros. Where heads have few
        queries and many keys, blocks share the keys.

        Args:
            q: queries (B, H, I, D) of torch, CuPy or NumPy, in any order in memory.
            k, v: keys (B, H, J, D) and values (B, H, J, E).
            mask: says which keys a query sees: a function of indices (`b`, `h`, `i`, `j`) and of `arrays` by name,
                which gives a condition: `lambda i, j: (j <= i) & (i - j < 128)`. Blocks of keys that a mask of indices
                leaves out are not visited.
            score: makes another score of one: a function of it (`s`, scaled), of indices and of `arrays`:
                `lambda s, h, i, j, slope: s - slope[h] * (i - j)`.
            scale: of the products of queries and keys, 1 / sqrt(D) by default.
            is_causal: whether query i sees keys 0 to i alone, as in torch; of sequences, whether the last query sees
                the last key, and each one before it a key less.
            enable_gqa: whether several heads of queries may share one of keys and values.
            lengths: integers (B): how many keys of each batch are there. The others are loaded, and must be finite.
            offsets: integers (N + 1): N sequences lie behind each other in q (I, H, D), k (J, H, D) and v (J, H, E),
                and sequence n has queries offsets[n] to offsets[n + 1]. `i` and `j` count all rows, and `b` is 0.
            key_offsets: the same of keys and values; `offsets` by default.
            pages: integers (B, N): key j of batch b is line j % S of page pages[b, j // S]; k (P, H, S, D) and
                v (P, H, S, E) hold pages, and `lengths` says how many keys there are. With `offsets`, sequence n of q
                has row n of both. There are no gradients.
            sinks: a score of each head of queries, in f32, that no value belongs to: it joins the sum of exponentials.
            dropout_p: the part of the weights that is dropped at random; the others are divided by 1 - dropout_p.
            seed: of dropout: a whole number below 2^64, or a pair of it and an offset below 2^32, or an array of three
                i32 (the two halves of the number, and the offset). Equal seeds drop the same weights. None draws one.
            scales: of q, k and v of 8-bit floats: three arrays of f32, what a number of each head of queries, of keys
                and of values is worth. Results are bfloat16, weights have v's type, and there are no gradients.
            lse: whether the logarithm of each row's sum of exponentials is a second result, in f32; -inf of no key.
            debug: whether offsets and pages on a GPU are looked at first, which waits for it; in host memory they
                always are.
            arrays: what the functions read, by subscripts.

        Raises:
            CallError: `wrong-shape`, `attention-heads`, `attention-dtypes`, `attention-lengths`, `attention-offsets`,
                `attention-pages`, `attention-function`, `attention-dropout`, `attention-sinks`, `attention-scales`, and
                as a kernel's call does. CheckError: `nothing-legal`.

        Example:
            >>> import numpy as np
            >>> q, k = np.zeros((1, 2, 4, 8), np.float32), np.ones((1, 2, 6, 8), np.float32)
            >>> v = np.arange(6, dtype=np.float32)[:, None] * np.ones((1, 2, 6, 8), np.float32)
            >>> attention(q, k, v)[0, 0, :, 0].tolist()
            [2.5, 2.5, 2.5, 2.5]
            >>> attention(q, k, v, mask=lambda i, j: j <= i)[0, 0, :, 0].tolist()
            [0.0, 0.5, 1.0, 1.5]
            >>> attention(q, k, v, lengths=np.array([3], np.int32))[0, 0, :, 0].tolist()
            [1.0, 1.0, 1.0, 1.0]
        """
        how, noise = Lengths(offsets, key_offsets, lengths, pages, debug), Noise(sinks, float(dropout_p), seed)
        return attend(q, k, v, Options(how, noise, mask, score, scale, is_causal, enable_gqa, lse, arrays, scales))

    attention.__module__, attention.__qualname__ = attend.__module__, attention.__name__
    attention.__doc__ = words or attention.__doc__
    return attention


def _attend(q: Any, k: Any, v: Any, options: Options) -> Any:
    """Compute attention by the library of the arrays."""
    if is_torch(q) or is_torch(k):
        from fireiron.front.torch_attention import attend

        return attend(q, k, v, options)
    try:
        made = _of_arrays(q, k, v, options)
    except FireironError as error:
        raise error.located(here()) from None
    return made if options.lse else made[0]


attention = entry(_attend)


def _listed(array: Any, debug: bool) -> Any:
    return array.tolist() if debug or describe(array, "").is_host else None


def _of_library(array: Any) -> Library:
    """Give the functions of NumPy, or those of CuPy, which has its names."""
    root = type(array).__module__.partition(".")[0]
    np = import_module(root if root == "cupy" else "numpy")

    def places(n: int, like: Any) -> Any:
        return np.arange(n, dtype="int32")

    def find(edges: Any, at: Any) -> Any:
        return np.searchsorted(edges, at, side="right")

    def integers(x: Any) -> Any:
        return np.ascontiguousarray(x, dtype="int32")

    def drawn(_: Any) -> Any:
        return np.random.randint(-(2**31), 2**31, 3, dtype="int64").astype("int32")

    def seed(words: Sequence[int], _: Any) -> Any:
        return np.array(words, dtype="int32")

    return Library(_listed, places, find, integers, _name, drawn, seed)


def _name(array: Any) -> str:
    return describe(array, "").dtype


def _of_arrays(q: Any, k: Any, v: Any, options: Options) -> tuple[Any, Any]:
    """Attend with arrays of NumPy, CuPy and others that are like them."""
    how, noise, mask, score, scale, causal, gqa, _, read, scales = options
    arrays = {name: x.view("uint8") if str(getattr(x, "dtype", "")) == "bool" else x for name, x in read.items()}
    for name, x in (("q", q), ("k", k), ("v", v), *arrays.items()):
        describe(x, name)
    host = describe(q, "q").is_host
    given = prepared(q, k, v, mask, causal, gqa, how, arrays, noise, _of_library(q), scales)
    q, k, v, group = given.q, given.k, given.v, given.group
    named = tuple(
        (name, x.ndim, find_dtype(describe(x, name).dtype).name)
        for name, x in given.arrays.items()
        if name not in OF_PROGRAMS
    )
    text = text_of(given.masks, score, named, given.by_keys, noise.dropout)
    parted = q if group == 1 else q.reshape(q.shape[0], k.shape[1], group, *q.shape[2:])
    lines = [x if facts_of(x).taken else x.copy(order="C") for x in (parted, k, v)]
    beside = [x if x.flags.c_contiguous else x.copy(order="C") for x in given.arrays.values()]
    named_facts = tuple((name, facts_of(x)) for name, x in zip(given.arrays, beside, strict=True))
    factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
    what = Attention(
        facts_of(lines[0]), facts_of(lines[1]), facts_of(lines[2]), text, named_facts, factor, given.causal
    )
    shape = (*parted.shape[:-1], v.shape[-1])
    y = Array(
        shape, strides_like(Array(shape, (1,) * len(shape), ""), shape), find_dtype(result_kind(what.q.dtype)).name
    )
    o, sums = forward(what, y, host)(*lines, *(beside[n] for n in what.taken("forward")))
    o, sums = o.reshape(*q.shape[:-1], v.shape[-1]), sums.reshape(q.shape[:-1])
    return (o, sums) if how.offsets is None else (o[0].swapaxes(0, 1), sums[0].swapaxes(0, 1))


def facts_of(array: Any) -> Array:
    """Describe an array of NumPy's kind, or a tensor."""
    facts = describe(array, "")
    shape = tuple(facts.shape)
    strides = tuple(facts.strides)
    usual = strides_like(Array(shape, strides, ""), shape) if shape else ()
    strides = tuple(u if n == 1 else s for n, s, u in zip(shape, strides, usual, strict=True))
    return Array(shape, strides, find_dtype(facts.dtype).name)
