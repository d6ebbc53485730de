"""Attention of arrays, without writing a schedule: forward, and gradients for torch.

Arrays have torch's dims: batch, heads, sequence, elements of a head. The dims may have any order in memory, except that
the elements of a head are contiguous. Programs and schedules stand in `fireiron.schedules.attention` and
`attention_gradients`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from math import prod
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, CheckError, FireironError
from fireiron.base.link import here
from fireiron.front.attention_bounds import FEW_QUERIES, of_arrays
from fireiron.front.attention_call import (
    OF_PROGRAMS,
    PAGES,
    SEED,
    Lengths,
    Library,
    Noise,
    Options,
    check_given,
    number,
    prepared,
    result_kind,
)
from fireiron.front.cli.find import PRESETS
from fireiron.front.host import HostKernel, arch_of, without_gpu
from fireiron.front.score_text import INDICES, Function, Place, array_name, functions_of, text_of
from fireiron.front.verbs import target
from fireiron.jit.arrays import describe, is_torch
from fireiron.language.tensor import Tensor, tensor

MOST_KERNELS = 1024
F32_NBYTES = 4
LINE_NBYTES = 16  # vectors and tensor maps start at multiples of this number of bytes
FEW_ROWS = 32  # most rows of a simulated block
NO_ROOM = ("registers", "spills", "stack", "shared-memory")  # errors of schedules whose tensors a block does not hold
FEWER_KEYS = {"wgmma": ({"keys": 80}, {"keys": 64}, {"keys": 48})}
# Of mma: ptxas has registers for one of these where it has none for the other, in either order.
OTHER_ROWS = {"wgmma": ({"chunk": 48}, {"chunk": 32}), "mma": ({"chunk": 32}, {"chunk": 16, "warps": 8})}
WARP_PRODUCTS = 80  # the first architecture of `attention.mma`; those before it multiply by quad-pairs
LONG = 1024  # fewest keys that blocks share for few queries
WIDEST = 128  # columns: registers do not hold gradients of wider keys and of wider values together
Role: TypeAlias = Literal["forward", "of_queries", "of_keys", "of_keys_alone", "of_values", "of_array"]
BY_KEYS: tuple[Role, ...] = ("of_keys", "of_keys_alone", "of_values")  # programs whose results have a row for each key
# What programs read of q, k, v, dy, lse and delta, and what they compute of the gradients of q, k and v.
GIVEN = ("q", "k", "v", "dy", "lse", "delta")
ALL = tuple(range(len(GIVEN)))
READS: dict[Role, tuple[int, ...]] = {"of_values": (0, 1, 3, 4)}
RESULTS: dict[Role, tuple[int, ...]] = {"of_queries": (0,), "of_keys": (1, 2), "of_keys_alone": (1,), "of_values": (2,)}
GROUPED = {"q": "b h g i d", "o": "b h g i e", "dy": "b h g i e", "lse": "b h g i", "delta": "b h g i"}


@attrs.frozen(cache_hash=True)
class Array:
    """Describe an array.

    Args:
        shape: extents of the dims.
        strides: strides in elements.
        dtype: name of the element type.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def described(self, name: str) -> Tensor:
        """Describe the array as a tensor of a program."""
        return tensor(*self.shape, dtype=self.dtype, name=name, strides=self.strides)

    @functools.cached_property
    def taken(self) -> bool:
        """Say whether kernels read the array without a copy: dense lines that start at multiples of 16 bytes."""
        nbytes = find_dtype(self.dtype).nbytes
        steps = [s for s, n in zip(self.strides[:-1], self.shape[:-1], strict=True) if n > 1]
        together = self.strides[-1] == 1 or self.shape[-1] == 1
        return together and all(s > 0 and s * nbytes % LINE_NBYTES == 0 for s in steps)

    @functools.cached_property
    def taken_as_values(self) -> bool:
        """Say whether kernels read the array without a copy as values: of 8 bits, keys may have stride 1 too."""
        if self.taken or len(self.shape) < 2 or find_dtype(self.dtype).bits != 8:
            return self.taken
        *shape, keys, width = self.shape
        *strides, along, across = self.strides
        return Array((*shape, width, keys), (*strides, across, along), self.dtype).taken


@attrs.frozen(cache_hash=True)
class Attention:
    """Describe a call of attention.

    Args:
        q, k, v: queries, keys and values. Queries have five dims (B, H, G, I, D) where G heads of queries share a head
            of keys.
        functions: mask and score function as text; "" for neither.
        arrays: by name, the arrays that the functions read, and other inputs of the programs (pages, sinks, seed).
        scale: factor of the scores.
        causal: whether query i sees keys 0 to i only.
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
        """Say whether several heads of queries share one head of keys."""
        return len(self.q.shape) == 5

    def options(self, role: Role) -> dict[str, Any]:
        """Return a program's arguments beside queries, keys, values and pages.

        Args:
            role: what the program computes.
        """
        found = functions_of(self.functions)
        mask = found.by_keys if role in BY_KEYS and found.by_keys is not None else found.mask
        given = {name: array for name, array in (self.arrays[n] for n in self.taken(role)) if name != PAGES}
        named = {name if name in OF_PROGRAMS else array_name(name): array for name, array in given.items()}
        arrays = {name: array.described(name) for name, array in named.items()}
        options = {"scale": self.scale, "score": found.score, "mask": _masked(mask, self.causal)}
        return options | arrays | ({"dropout": found.dropout} if found.dropout else {})

    def taken(self, role: Role) -> tuple[int, ...]:
        """Return the positions of the arrays that a program takes; pages come first."""
        beside = OF_PROGRAMS if role == "forward" else (SEED,)
        read = {*functions_of(self.functions).read(role not in BY_KEYS), *beside}
        found = (n for n, (name, _) in enumerate(self.arrays) if name in read)
        return tuple(sorted(found, key=lambda n: self.arrays[n][0] != PAGES))

    @property
    def pages(self) -> Array | None:
        """Return the table of pages where keys and values lie in pages, else None."""
        return dict(self.arrays).get(PAGES)

    @property
    def keys(self) -> int:
        """Count the keys of a head."""
        return self.k.shape[2] if self.pages is None else self.pages.shape[1] * self.k.shape[2]


def extents_at(at: Place, q: Sequence[int], k: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an array's gradient at one place: the extents of the place's indices in the order b h i j.

    Args:
        at: the place: its subscripts. Example: ("h", 0, "j").
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
    """Say which part of an array's gradient the gradient of one place is.

    Args:
        at: the place: its subscripts. Example: ("h", 0, "j").
        q, k: shapes of queries and keys.

    Returns:
        The shape of the place's gradient with all heads of queries in one dim, the order of its dims in the place, and
        the subscripts of the part.

    Example:
        >>> region(("j", 0, "h"), (1, 2, 3, 10, 64), (1, 2, 20, 64))
        ((6, 20), (1, 0), (slice(None, 20, None), 0, slice(None, 6, None)))
    """
    names = [name for name in INDICES if name in at]
    sizes = {name: prod(extents_at((name,), q, k)) for name in names}
    order = tuple(names.index(x) for x in at if isinstance(x, str))
    return tuple(sizes.values()), order, tuple(slice(sizes[x]) if isinstance(x, str) else x for x in at)


def strides_like(array: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense array of a shape, whose dims have the order in memory of another array's.

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
    """Combine a mask with torch's causal mask, in which query i sees keys 0 to i."""
    if not causal:
        return mask

    def seen(**known: Any) -> Any:
        below = known["j"] <= known["i"]
        return below if mask is None else below & mask(**known)

    return seen


@lru_cache(MOST_KERNELS)
def forward(what: Attention, y: Array, host: bool) -> Any:
    """Return the kernel of attention, with two outputs: the result y, and in f32 the logarithm of each row's sum."""
    programs = _programs("attention")
    program = programs.attention if what.pages is None else programs.paged
    program = program.on(q=GROUPED["q"]) if what.grouped else program
    out = y.described("y"), tensor(*what.q.shape[:-1], dtype="f32")
    named = (("q", what.q), ("k", what.k), ("v", what.v), (PAGES, what.pages))
    given = (array.described(name) for name, array in named if array is not None)
    spec = program(*given, **what.options("forward"), lse=True, out=out, arch=arch_of(host))
    few = {"simt": {"rows": FEW_ROWS}, "mma": {"warps": 1, "keys": FEW_ROWS}, "decode": {"ways": 2, "warps": 2}}
    shared = ("decode",) if what.q.shape[-2] <= FEW_QUERIES and what.keys >= LONG else ()
    first = ("volta",) if not host and target(spec).number < WARP_PRODUCTS else ()
    return _kernel(programs, spec, host, (*shared, *first, "wgmma", "mma", "simt"), few if host else {}, FEWER_KEYS)


@attrs.frozen
class Gradient:
    """Hold a kernel of gradients.

    Args:
        role: what it computes.
        kernel: the kernel.
    """

    role: Role
    kernel: Any

    @property
    def reads(self) -> tuple[int, ...]:
        """Return the positions of what the kernel reads among q, k, v, dy, lse and delta."""
        return READS.get(self.role, ALL)

    @property
    def results(self) -> tuple[int, ...]:
        """Return the positions of what the kernel computes among the gradients of q, k and v."""
        return RESULTS[self.role]


@lru_cache(MOST_KERNELS)
def gradients(
    what: Attention, dy: Array, made: tuple[Array, ...], host: bool, sums: Array | None = None
) -> tuple[Gradient, ...]:
    """Return the kernels of the gradients of queries, keys and values.

    Gradients of keys and values are one kernel, or two where registers do not hold both.

    Args:
        what: the call of attention.
        dy: the gradient of the result.
        made: descriptions of the three gradients.
        host: whether arrays lie in host memory.
        sums: the rows' sums and their products with gradients, which both lie so; None for arrays without gaps.
    """

    def kernels(*roles: Role) -> tuple[Gradient, ...]:
        return tuple(
            Gradient(role, _gradient(what, dy, tuple(made[n] for n in RESULTS[role]), role, host, sums))
            for role in roles
        )

    alone: tuple[Role, ...] = ("of_keys_alone", "of_values")
    of_queries = kernels("of_queries")
    if min(what.q.shape[-1], what.v.shape[-1]) > WIDEST:
        return of_queries + kernels(*alone)
    try:
        return of_queries + kernels("of_keys")
    except CheckError:
        return of_queries + kernels(*alone)


def _gradient(what: Attention, dy: Array, made: tuple[Array, ...], role: Role, host: bool, sums: Array | None) -> Any:
    programs = _programs("attention_gradients")
    program = getattr(programs, role)
    reads = [GIVEN[n] for n in READS.get(role, ALL)]
    if what.grouped:
        program = program.on(**{name: dims for name, dims in GROUPED.items() if name in reads})
    arrays = {name: array.described(name) for name, array in zip(GIVEN, (what.q, what.k, what.v, dy), strict=False)}
    arrays |= {name: _sums_of(what, sums, name) for name in GIVEN[4:]}
    out = tuple(x.described("y") for x in made)
    spec = program(*(arrays[n] for n in reads), **what.options(role), out=single(out), arch=arch_of(host))
    few = {name: {"rows": FEW_ROWS} for name in ("squares", "simt")} | {"mma": {"warps": 1, "chunk": FEW_ROWS}}
    return _kernel(programs, spec, host, ("wgmma", "mma", "squares", "simt"), few if host else {}, OTHER_ROWS)


def _sums_of(what: Attention, sums: Array | None, name: str) -> Tensor:
    shape = what.q.shape[:-1]
    return tensor(*shape, dtype="f32", name=name) if sums is None else sums.described(name)


def padded(extent: int) -> int:
    """Return the elements of f32 from one line of sums to the next, so that bulk copies can read lines."""
    return -(-extent * F32_NBYTES // LINE_NBYTES) * LINE_NBYTES // F32_NBYTES


@lru_cache(MOST_KERNELS)
def array_gradient(what: Attention, dy: Array, name: str, at: Place, host: bool, sums: Array | None = None) -> Any:
    """Return the kernel of one gradient in f32: of an array at one place where the score function reads it.

    Args:
        what: the call of attention.
        dy: the gradient of the result.
        name: name of the array.
        at: the place: its subscripts. Example: ("h", 0, "j").
        host: whether arrays lie in host memory.
        sums: as `gradients` takes them.
    """
    programs = _programs("attention_arrays")
    program = programs.of_array
    if what.grouped:
        program = program.on(**{name: dims for name, dims in GROUPED.items() if name != "o"})
    rows = (_sums_of(what, sums, name) for name in ("lse", "delta"))
    named = (("q", what.q), ("k", what.k), ("v", what.v), ("dy", dy))
    given = (array.described(name) for name, array in named)
    options = what.options("of_array") | {"array": array_name(name), "at": at}
    spec = program(*given, *rows, **options, out="f32", arch=arch_of(host))
    return _kernel(programs, spec, host, ("mma", "squares"), {})


@lru_cache(MOST_KERNELS)
def delta(o: Array, dy: Array, host: bool, sums: Array | None = None) -> Any:
    """Return the kernel that adds up the products of the result and its gradient; `sums` is where they go."""
    program = _programs("attention_gradients").delta
    if len(o.shape) == 5:
        program = program.on(o=GROUPED["o"], dy=GROUPED["o"])
    out = "f32" if sums is None else sums.described("y")
    spec = program(o.described("o"), dy.described("dy"), out=out, arch=arch_of(host))
    return _kernel(_programs("rows"), spec, host, ("row",), {})


def places_of(functions: str, name: str) -> tuple[Place, ...] | None:
    """Return the places at which a score function reads an array; None where the array has no gradient.

    An array has a gradient where only the score function reads it, by subscripts that are indices and numbers.

    Args:
        functions: mask and score function as text.
        name: name of the array.
    """
    found = functions_of(functions)
    masks = (found.reads.get(what, ()) for what in ("mask", "by_keys"))
    return None if any(name in read for read in masks) else found.places.get(name)


def check_learns(functions: str, names: Sequence[str], stopped: str = "{}.detach()") -> None:
    """Refuse to compute gradients of arrays that have none.

    Args:
        functions: mask and score function as text.
        names: names of the arrays whose gradients the caller needs.
        stopped: for the fix: how users of the library exclude an array from gradients. Example: `x.detach()`.

    Raises:
        CallError: `requires-grad`.
    """
    for name in names:
        if places_of(functions, name) is None:
            read = (
                "a mask reads it"
                if name not in functions_of(functions).places
                else "its subscripts are not all indices and numbers"
            )
            raise CallError(
                "requires-grad",
                f"{name} has no gradient: {read}",
                fix=f"read it by indices as {name}[h, i, j], or give {name}={stopped.format(name)}",
            )


def _programs(name: str) -> Any:
    return import_module(f"{PRESETS}.{name}")


def _kernel(
    presets: Any,
    spec: Any,
    host: bool,
    names: Sequence[str],
    plans: Mapping[str, Mapping[str, int]],
    others: Mapping[str, Sequence[Mapping[str, int]]] = MappingProxyType({}),
) -> Any:
    """Return the kernel of the first preset that takes a program.

    Args:
        presets: the module of presets.
        spec: the program.
        host: whether arrays lie in host memory.
        names: names of the presets.
        plans: keywords of presets, where they differ from the default ones.
        others: keywords with which presets are tried too, where registers or shared memory do not suffice.

    Raises:
        CheckError: `nothing-legal`.
    """
    refused: list[str] = []
    for name in names:
        for plan in (plans.get(name, {}), *others.get(name, ())):
            try:
                schedule = getattr(presets, name)(spec, **plan)
                if host and without_gpu():
                    return HostKernel(schedule.lowered())
                return schedule.compile()
            except FireironError as error:
                refused.append(f"{name}: {error.message}")
                if error.code not in NO_ROOM:
                    break
    said = "; ".join(refused)
    raise CheckError("nothing-legal", f"no preset takes {spec.computed.name}: {said}", fix="write a schedule for it")


def single(results: Sequence[Any]) -> Any:
    """Return a single result without its tuple, and several results as they are."""
    return results if len(results) > 1 else results[0]


def entry(attend: Callable[[Any, Any, Any, Options], Any], words: str = ""):
    """Make a library's function `attention`: arguments are the same for all libraries; `attend` gets them as a record.

    Args:
        attend: a function that computes attention of queries, keys and values.
        words: the function's docstring; that of `fireiron.attention` by default.
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
            q: queries (B, H, I, D) of torch, CuPy or NumPy, with dims in any order in memory.
            k, v: keys (B, H, J, D) and values (B, H, J, E).
            mask: says which keys a query sees: a function from indices (`b`, `h`, `i`, `j`) and `arrays`, by name, to a
                condition: `lambda i, j: (j <= i) & (i - j < 128)`. Blocks of hidden keys are not visited where the mask
                reads indices only, or integer arrays by `i` or `j` (numbers of documents) or by groups of 64 or more
                (`blocks[i // 128, j // 128] > 0`).
            score: changes scores: a function from a scaled score `s`, indices and `arrays` to another score:
                `lambda s, h, i, j, slope: s - slope[h] * (i - j)`.
            scale: factor of the products of queries and keys, 1 / sqrt(D) by default.
            is_causal: whether query i sees keys 0 to i only, as in torch. With `offsets`, the last query of a sequence
                sees all its keys, and each query before sees one key less.
            enable_gqa: whether several heads of queries may share one head of keys and values.
            lengths: integers (B): the number of valid keys of each batch. Others are loaded too, and must be finite.
            offsets: integers (N + 1): N sequences are concatenated in q (I, H, D), k (J, H, D) and v (J, H, E), and
                sequence n has rows offsets[n] to offsets[n + 1] of q. `i` and `j` count all rows, and `b` is 0.
            key_offsets: likewise for the rows of k and v; `offsets` by default.
            pages: integers (B, N): k (P, H, S, D) and v (P, H, S, E) hold pages of S keys, and key j of batch b is line
                j % S of page pages[b, j // S]; `lengths` (B) is needed. With `offsets`, row n of `pages` and of
                `lengths` belongs to sequence n. There are no gradients.
            sinks: for each head of queries a score in f32 without a key, whose exponential is added to the row's sum
                and to nothing else.
            dropout_p: the fraction of weights that are set to 0 at random; the others are divided by 1 - dropout_p.
            seed: the seed of dropout: a whole number below 2^64, or a pair of such a number and an offset below 2^32,
                or an array of three i32 (the two halves of the number, and the offset). Equal seeds drop the same
                weights. None draws a seed.
            scales: for q, k and v of 8-bit floats: three arrays of f32, with a factor for each head of q, of k and of
                v. Results are bfloat16, weights have v's type, and there are no gradients. Where the product of the
                factors of q and k is below 0, results are NaN. On Hopper, values whose keys have stride 1 are
                multiplied about four times as fast: `v.mT.contiguous().mT` in torch.
            lse: whether to return a second result in f32: the logarithm of each query's sum of exponentials, -inf where
                it sees no key.
            debug: whether to check the contents of offsets and pages on a GPU, which waits for the GPU. Offsets and
                pages in host memory are always checked.
            arrays: arrays that the functions read by subscripts.

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
        how = Lengths(offsets, key_offsets, lengths, pages, debug)
        noise = Noise(sinks, number("dropout_p=", dropout_p), seed)
        scale = None if scale is None else number("scale=", scale)
        return attend(q, k, v, Options(how, noise, mask, score, scale, is_causal, enable_gqa, lse, arrays, scales))

    attention.__module__, attention.__qualname__ = attend.__module__, attention.__name__
    attention.__doc__ = words or attention.__doc__
    return attention


def _attend(q: Any, k: Any, v: Any, options: Options) -> Any:
    """Compute attention with the functions of the arrays' library."""
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
    """Return the functions for NumPy arrays, or those for CuPy arrays, which have the same names."""
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


def _is_array(x: object) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and not is_torch(x)


def _name(array: Any) -> str:
    return describe(array, "").dtype


def _of_arrays(q: Any, k: Any, v: Any, options: Options) -> tuple[Any, Any]:
    """Compute attention of arrays of NumPy, CuPy and similar libraries."""
    check_given(q, k, v, options, _is_array)
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
    held: Mapping[str, Any] = given.arrays
    if how.offsets is None and how.pages is None:
        text, held = of_arrays(text, given.causal, q.shape, k.shape[2], held, named, host)
    parted = q if group == 1 else q.reshape(q.shape[0], k.shape[1], group, *q.shape[2:])
    lines = [x if facts_of(x).taken else x.copy(order="C") for x in (parted, k)]
    lines.append(v if facts_of(v).taken_as_values else v.copy(order="C"))
    beside = [x if x.flags.c_contiguous else x.copy(order="C") for x in held.values()]
    named_facts = tuple((name, facts_of(x)) for name, x in zip(held, beside, strict=True))
    factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
    what = Attention(
        facts_of(lines[0]), facts_of(lines[1]), facts_of(lines[2]), text, named_facts, factor, given.causal
    )
    shape = (*parted.shape[:-1], v.shape[-1])
    y = Array(
        shape, strides_like(Array(shape, (1,) * len(shape), ""), shape), find_dtype(result_kind(what.q.dtype)).name
    )
    if what.v.taken_as_values and not what.v.taken:  # kernels take column-major matrices as memory holds them
        lines[2] = lines[2].swapaxes(-1, -2)
    o, sums = forward(what, y, host)(*lines, *(beside[n] for n in what.taken("forward")))
    o, sums = o.reshape(*q.shape[:-1], v.shape[-1]), sums.reshape(q.shape[:-1])
    return (o, sums) if how.offsets is None else (o[0].swapaxes(0, 1), sums[0].swapaxes(0, 1))


def facts_of(array: Any) -> Array:
    """Describe an array like NumPy's, or a tensor of torch."""
    facts = describe(array, "")
    shape = tuple(facts.shape)
    strides = tuple(facts.strides)
    usual = strides_like(Array(shape, strides, ""), shape) if shape else ()
    strides = tuple(u if n == 1 else s for n, s, u in zip(shape, strides, usual, strict=True))
    return Array(shape, strides, find_dtype(facts.dtype).name)
