"""Gradients of arrays of floats that attention's score function reads, such as biases.

A score reads one element of such an array. The gradient of an element is the sum of the gradients of all scores that
read it, added in order, so that results are the same in every run. Weights are computed again from the logarithms that
attention stored (`lse=True`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, prod
from typing import TypeAlias

import attrs

from fireiron import (
    FR,
    RF,
    SH,
    Block,
    FireironError,
    ProgramChain,
    Schedule,
    StepChain,
    Thread,
    Value,
    Warp,
    cast,
    derivative,
    einsum,
    ldmatrix,
    preset,
    program,
    vector,
)
from fireiron import sum as summed
from fireiron.schedules._heads import ROWS, SHARED, VECTOR_NBYTES, WIDE, array, tile_to_shared
from fireiron.schedules._scores import Function, Scores, columns, grouped

At: TypeAlias = tuple[str | int, ...]
ALONG = ((("q", "dy"), "bhgi"), (("k", "v"), "bhj"))  # operands, and the dims that they have of a score's
MOST_BLOCKS = 264  # most blocks of a grid that shares queries: two on each SM of an H200
MOST_WAYS = 32  # most blocks that share the queries of a tile


@program(q="b h i d", k="b h j d", v="b h j e", dy="b h i e", lse="b h i", delta="b h i")
def of_array(
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    lse: Value,
    delta: Value,
    array: str | None = None,
    at: At = ("b", "h", "i", "j"),
    scale: float | None = None,
    causal: bool = False,
    mask: Function | None = None,
    score: Function | None = None,
    dropout: float = 0.0,
    **arrays: Value,
) -> Value:
    """Compute the gradient of an array that the score function reads, for one place of the function that reads it.

    The result has those dims of `b`, `h`, `i` and `j`, in this order, that the place names. Example: for a read
    `bias[h, 0, j]`, `at=("h", 0, "j")` gives a gradient with dims h and j, summed over batches and queries.

    Args:
        q, k, v: as attention takes them.
        dy: the gradient of attention's result.
        lse: attention's second output, in f32.
        delta: result of `attention_gradients.delta`, minus the gradient of `lse` if there is one, in f32.
        array: name of the array, one of `arrays`; None for the gradient of a value added to each score.
        at: the subscripts of the place: names of indices, each once, and numbers.
        scale, causal, mask, score, dropout: as attention takes them.
        arrays: arrays that the functions read, and `seed`.

    Raises:
        FireironError: as attention does; `attention-function` where the score function does not read the array at the
            place.
    """
    scores = Scores(scale, causal, mask, score, grouped(q), arrays, dropout)
    rows = scores.rows
    products = scores.products(q, k)
    weight = scores.weights(products, lse)
    by_weight = scores.dropped(einsum(f"{rows}e,bhje->{rows}j", dy, v, name="dp"), "kept_dp")
    slope = 1.0 if array is None else _slope(scores, products, array, at)
    by_score = (weight * (by_weight - delta) * slope).named("ds")
    folded = [name for name in f"{rows}j" if (name if name != "g" else "h") not in at]
    if folded:
        return summed(by_score, " ".join(folded), where=scores.seen())
    return scores.counted(by_score)


@attrs.define
class _Reads:
    """Stand for an array whose value at one place is replaced, so that a function can be derived by that value.

    Args:
        array: the array.
        at: subscripts of the place.
        value: the value that is read at the place.
        found: whether the place was read.
    """

    array: Value
    at: tuple[Value | int, ...]
    value: Value
    found: bool = False

    def __getitem__(self, subscripts: Value | int | tuple[Value | int, ...]) -> Value:
        given = subscripts if isinstance(subscripts, tuple) else (subscripts,)
        if list(map(_told_apart, given)) == list(map(_told_apart, self.at)):
            self.found = True
            return self.value
        return self.array[subscripts]


def _told_apart(subscript: Value | int) -> str:
    """Return a text by which subscripts are compared; a number may be an int or an expression."""
    return str(subscript)


def _slope(scores: Scores, products: Value, array: str, at: At) -> Value:
    """Return the derivative of scores with respect to an array's element at a place.

    Raises:
        FireironError: `attention-function` where the score function does not read the array at the place.
    """
    score, read = scores.score, scores.arrays.get(array)
    indices = scores.indices
    place = tuple(indices[x] if isinstance(x, str) else x for x in at)
    found = False

    def of_element(x: Value) -> Value:
        nonlocal found
        assert score is not None
        assert read is not None
        reads = _Reads(read, place, x)
        made = attrs.evolve(scores, arrays={**scores.arrays, array: reads}).called(score, products * scores.factor)
        found = reads.found
        return made

    if score is not None and read is not None:
        made = derivative(of_element, cast(read[place], "f32"))
        if found:
            return made
    shown = ", ".join(map(str, at))
    raise FireironError(
        "attention-function",
        f"score= does not read {array}[{shown}]",
        fix="name an array that it reads, and subscripts as the function writes them",
    )


@preset
def mma(
    spec: ProgramChain,
    rows: int | None = None,
    keys: int | None = None,
    stages: int | None = None,
    ways: int | None = None,
) -> Schedule:
    """Schedule the gradient of a bias for tensor cores by mma.sync, from sm_80 on: scores stay in registers.

    A block has a tile of the bias's dims, and loops over the other dims; four warps share its queries, or its keys if
    queries are summed.

    Args:
        spec: `of_array` of 16-bit floats.
        rows: number of queries of a tile; by default 64, or 32 where those of heads wider than 64 are summed.
        keys: number of keys of a tile; by default 64, or 32 for wide heads.
        stages: number of slots in shared memory for the innermost loop's loads; by default 2 if they fit, else 1.
        ways: number of blocks that share the queries of a tile, if queries are summed; by default as many as fill an
            H200.
    """
    depth, width = columns(spec)
    nbytes = array(spec, "q").dtype.nbytes
    sizes, warps = {"q": depth, "dy": width, "k": depth, "v": width}, 4
    summed = all(dim.name != "i" for dim in spec.computed.steps[-1].kept)
    rows = rows or (32 if summed and depth + width > 2 * WIDE else 64)
    keys = keys or (64 if depth + width <= 4 * WIDE else 32)
    stages = stages or (2 if 2 * (rows + keys) * (depth + width) * nbytes <= SHARED else 1)
    tile, loops = _tiled(spec, {"i": rows, "j": keys})

    def load(chain: ProgramChain, name: str) -> ProgramChain:
        return tile_to_shared(chain, name, sizes[name], nbytes)

    chain = _looped(spec, tile, loops, load, stages, ways)
    if "i" in tile:
        chain = chain.tile(i=rows // warps).to(Warp)
    elif "j" in tile:
        chain = chain.tile(j=keys // warps).to(Warp)
    else:
        chain = chain.split("i", ways=warps).parallel(Warp)

    def products(over: str, left: str, right: str) -> Callable[[StepChain], Schedule]:
        def made(s: StepChain) -> Schedule:
            s = s.split(**{over: gcd(ROWS, sizes[left])}).unroll()
            return s.load(left, FR, ldmatrix()).load(right, FR, ldmatrix()).tile(i=ROWS, j=8).unroll().done()

        return made

    return chain.each(s=products("d", "q", "k"), dp=products("e", "dy", "v"))


@preset
def squares(spec: ProgramChain, rows: int = 32, keys: int = 32, piece: int = 4, ways: int | None = None) -> Schedule:
    """Schedule the gradient of a bias on CUDA cores, for all architectures: each thread computes squares of scores.

    Args:
        spec: `of_array`.
        rows: number of queries of a tile.
        keys: number of keys of a tile.
        piece: rows and columns of a thread's square.
        ways: number of blocks that share the queries of a tile, if queries are summed; by default as many as fill an
            H200.
    """
    tile, loops = _tiled(spec, {"i": rows, "j": keys})
    pad = VECTOR_NBYTES // array(spec, "q").dtype.nbytes  # rows that threads read together lie in other banks

    def load(chain: ProgramChain, name: str) -> ProgramChain:
        return chain.load(name, SH, vector()).pad(pad)

    chain = _looped(spec, tile, loops, load, 1, ways)

    def products(over: str, left: str, right: str) -> Callable[[StepChain], Schedule]:
        def made(s: StepChain) -> Schedule:
            s = s.tile(i=piece, j=piece).to(Thread).split(**{over: 1}).load(left, RF).load(right, RF)
            return s.tile(i=1, j=1).unroll().done()

        return made

    return chain.each(s=products("d", "q", "k"), dp=products("e", "dy", "v"))


def _tiled(spec: ProgramChain, sizes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return a tile of the result's dims, and chunks of the other dims, which are summed."""
    extents = spec.residual.extents
    sizes = {name: sizes.get(name, 1) for name in "bhgij" if name in extents}
    kept = {dim.name for dim in spec.computed.steps[-1].kept}
    return {n: s for n, s in sizes.items() if n in kept} or {"all": 1}, {
        n: s for n, s in sizes.items() if n not in kept
    }


def _looped(
    spec: ProgramChain,
    tile: Mapping[str, int],
    loops: Mapping[str, int],
    load: Callable[[ProgramChain, str], ProgramChain],
    stages: int,
    ways: int | None,
) -> ProgramChain:
    """Tile a gradient, and loop over the summed dims: batches and heads, then queries, then keys."""
    chain: ProgramChain = spec.tile(**tile).to(Block)
    extents = spec.residual.extents
    sizes = [(extents[name], size) for name, size in tile.items()]
    if "i" in loops and ways is None:
        queries = extents["i"]
        tiles = prod(-(-n // size) if isinstance(n, int) else MOST_BLOCKS for n, size in sizes)
        most = -(-queries // loops["i"]) if isinstance(queries, int) else 1
        ways = max(1, min(MOST_BLOCKS // tiles, most, MOST_WAYS))
    if "i" in loops and ways is not None and ways > 1:
        chain = chain.split("i", ways=ways, multiple_of=loops["i"]).parallel(Block)
    chain = chain.epilog(memory=FR)
    deepest = {names: max((n for n, name in enumerate(loops, 1) if name in dims), default=0) for names, dims in ALONG}
    for n, (name, size) in enumerate([("", 0), *loops.items()]):
        if name:
            chain = chain.split(**{name: size})
            chain = chain.pipeline(stages) if n == len(loops) and stages > 1 else chain
        for operand in (operand for names, depth in deepest.items() if depth == n for operand in names):
            chain = load(chain, operand)
    return chain
