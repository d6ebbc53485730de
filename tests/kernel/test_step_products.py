"""Steps of programs by atoms, and folds that follow each other in one loop: right in all sizes, and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import FR, RF, SH, Block, Matrix, Thread, Warp, vector
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, Compute, Kernel, Region, Statement, walk
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references
from fireiron.verify.verification import Data, verify


@fi.program(x="m k", w="k n", u="n e")
def two_products(x: Any, w: Any, u: Any) -> Any:
    hidden = fi.relu(fi.einsum("mk,kn->mn", x, w, name="s"))
    return fi.einsum("mn,ne->me", hidden.cast(u.dtype), u, name="o")


@fi.program(q="b h i d", k="b h j d", v="b h j e")
def attention(q: Any, k: Any, v: Any, scale: float = 0.25) -> Any:
    s = fi.einsum("bhid,bhjd->bhij", q, k, name="s") * scale
    return fi.einsum("bhij,bhje->bhie", fi.softmax(s, over="j").cast(v.dtype), v, name="o")


@fi.program(q="b h i d", k="b h j d", v="b h j e")
def masked(q: Any, k: Any, v: Any) -> Any:
    s = fi.einsum("bhid,bhjd->bhij", q, k, name="s")
    i, j = fi.index("i"), fi.index("j")
    seen = (j <= i) & ((j < 5) | (j > 5)) & ((i < 3) | (i > 3)) & (i < 28)
    return fi.einsum("bhij,bhje->bhie", fi.softmax(s, over="j", where=seen).cast(v.dtype), v, name="o")


@fi.program(x="m n")
def rows(x: Any) -> Any:
    return fi.logsumexp(x, "n"), fi.softmax(x, "n"), fi.max(x, "n"), fi.mean(x, "n") * 2.0


def right(schedule: Any) -> None:
    """Simulate on whole numbers and on random ones, and hold all outputs against the reference."""

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def by_mma(left: str, right: str, memory: Any = FR) -> Callable[[Any], Any]:
    """Multiply by mma.sync, factors loaded from where they lie; one that registers hold already is not."""

    def chain(step: Any) -> Any:
        step = step.split(16).unroll()
        for name in (left, right):
            step = step.load(name, memory) if name else step
        return step.tile(16, 8).unroll().done()

    return chain


@pytest.mark.parametrize(("m", "k", "n", "e"), [(64, 32, 48, 16), (50, 40, 33, 21)])
def test_two_products(m: int, k: int, n: int, e: int) -> None:
    spec = two_products(Matrix(m, k, "f16"), Matrix(k, n, "f16"), Matrix(n, e, "f16")).tile(m=32).to(Block)
    if n % 16:
        spec = spec.epilog(memory=FR).split(n=48)
    right(spec.tile(m=16).to(Warp).each(s=by_mma("x", "w"), o=by_mma("", "u")))


def heads(queries: int, keys: int, depth: int, values: int, dtype: str = "f16") -> Any:
    q, k, v = (fi.tensor(2, 1, n, d, dtype=dtype) for n, d in ((queries, depth), (keys, depth), (keys, values)))
    return attention(q, k, v).tile(b=1, h=1, i=32).to(Block).epilog(memory=FR)


ATTENTION: dict[str, Callable[[Any], Any]] = {
    "warps": lambda s: s.split(j=32).online().tile(i=16).to(Warp).each(s=by_mma("q", "k"), o=by_mma("", "v")),
    "warps above": lambda s: (
        s.tile(i=16).to(Warp).split(j=16).online().each(s=by_mma("q", "k"), o=by_mma("", "v"))
    ),
    "warps share keys": lambda s: (
        s.split(j=64).online().split("j", ways=2).parallel(Warp).each(s=by_mma("q", "k"), o=by_mma("", "v"))
    ),
    "shared": lambda s: (
        s.load("q", SH, fi.cp_async()).split(j=32).online().load("k", SH, fi.cp_async()).load("v", SH, vector())
        .tile(i=16).to(Warp)
        .each(s=lambda s: s.split(d=16).unroll().load("q", FR, fi.ldmatrix()).load("k", FR, fi.ldmatrix())
              .tile(i=16, j=8).unroll().done(),
              o=lambda o: o.split(j=16).unroll().load("v", FR, fi.ldmatrix()).tile(i=16, e=8).unroll().done())
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ATTENTION)
def test_attention(way: str) -> None:
    right(ATTENTION[way](heads(40, 75, 32, 16)))


def test_attention_in_sizes_that_divide() -> None:
    right(ATTENTION["shared"](heads(64, 96, 32, 16)))


ROWS: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: s.tile(m=4).to(Block).tile(m=1).to(Warp).split(n=64).online().load("x", RF, vector()).done(),
    "warps": lambda s: (
        s.tile(m=1).to(Block).split(n=128).online().split("n", ways=2).parallel(Warp).load("x", RF, vector()).done()
    ),
    "warps above": lambda s: (
        s.tile(m=1).to(Block).split("n", ways=2).parallel(Warp).split(n=64).online().load("x", RF, vector()).done()
    ),
    "thread": lambda s: s.tile(m=32).to(Block).tile(m=1).to(Thread).split(n=1).online().done(),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("width", [33, 200])
@pytest.mark.parametrize("way", ROWS)
def test_folds_of_rows_in_one_loop(way: str, width: int) -> None:
    right(ROWS[way](rows(Matrix(9, width, "f16"))))


def test_x_is_read_once_a_loop() -> None:
    """The largest value, the sums and the mean share a loop; what is divided by the sum needs a second one."""
    schedule = ROWS["lanes"](rows(Matrix(8, 256, "f16")))
    loads = [s for s in walk(schedule.lowered().body) if isinstance(s, Region) and s.kind == "load"]
    assert len(loads) == 2


@pytest.mark.parametrize("way", ["warps share keys", "shared"])
def test_masked_attention(way: str) -> None:
    """Points that a mask leaves out are not folded; rows without points, whole chunks of them too, are 0."""
    tensors = (fi.tensor(2, 1, n, d, dtype="f16") for n, d in ((40, 16), (75, 16), (75, 8)))
    right(ATTENTION[way](masked(*tensors).tile(b=1, h=1, i=32).to(Block).epilog(memory=FR)))


def test_attention_of_single_threads() -> None:
    right(heads(32, 20, 8, 8).tile(i=1).to(Thread).split(j=8).online().done())


def test_rows_that_outgrow_what_was_folded() -> None:
    """Each chunk's values are far above those before it: what was summed under the old value must vanish, or shrink."""
    schedule = ATTENTION["warps"](heads(32, 128, 16, 16))
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 1, n, 16)).astype(np.float16) for n in (32, 128, 128))
    q[..., 0], k[..., 0] = 8, np.repeat([0, 4, 8, 60], 32) / 2
    k[0, 0, :32] = -np.inf  # no score of the first chunk is a number above -inf
    q[0] = np.abs(q[0])
    out = np.zeros((2, 1, 32, 16), np.float16)
    schedule.simulate(q, k, v, out=out)
    s = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) * 0.25
    p = np.exp(s - s.max(-1, keepdims=True))
    wanted = np.einsum("bhij,bhje->bhie", p / p.sum(-1, keepdims=True), v.astype(np.float64))
    np.testing.assert_allclose(out, wanted, atol=4e-3)


def outcome(schedule: Any, kernel: Kernel) -> str:
    """Run a kernel: the code of its fault, else whether its output is right."""
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(kernel, arrays)
    except SimulationError as error:
        return error.code
    return "right" if compare("y", arrays["y"], expected["y"], schedule.computed.outputs[0].dtype).passed else "wrong"


def corrections(kernel: Kernel) -> list[Statement]:
    """Find what multiplies sums by a factor."""
    return [
        s
        for s in walk(kernel.body)
        if isinstance(s, Compute) and any("factor" in v.buffer.name for v in s.inputs) and s.dst in s.inputs
    ]


def test_planted_mistakes_are_found() -> None:
    schedule = ATTENTION["shared"](heads(32, 75, 32, 16))
    kernel = schedule.lowered()
    assert outcome(schedule, kernel) == "right"
    dropped = corrections(kernel)
    assert len(dropped) == 2  # of the sum, and of the product with the values
    dropped += [s for s in walk(kernel.body) if isinstance(s, Call) and s.lane is not None]
    dropped += [s for s in walk(kernel.body) if isinstance(s, Call) and s.atom.completion]
    assert len(dropped) == 2 + 4 + 2
    for statement in dropped:
        body = rewrite(kernel.body, lambda s, statement=statement: () if s is statement else s)
        assert outcome(schedule, attrs.evolve(kernel, body=body)) != "right"


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_compiles_without_spills(arch: str) -> None:
    kernel = ATTENTION["shared"](heads(4096, 4096, 64, 64, "bf16")).compile(arch)
    assert kernel.resources.spills == 0


@fi.program(q="i d", k="j d", v="j e")
def through_shared(q: Any, k: Any, v: Any) -> Any:
    p = fi.softmax(fi.einsum("id,jd->ij", q, k, name="s"), over="j").cast("f16").named("p")
    return fi.einsum("ij,je->ie", p, v, name="o")


def from_shared(o: Any) -> Any:
    return o.split(16).load("p", FR, fi.ldmatrix()).load("v", FR).tile(16, 8).unroll().done()


PLACED: dict[str, Callable[[Any], Any]] = {
    "of a block": lambda s: (
        s.load("p", SH).pad(8).tile(i=16).to(Warp)
        .each(s=by_mma("q", "k"), o=from_shared)
    ),
    "of a warp": lambda s: (
        s.tile(i=16).to(Warp).load("p", SH, fi.stmatrix()).pad(8)
        .each(s=by_mma("q", "k"), o=from_shared)
    ),
}  # fmt: skip


@pytest.mark.parametrize("loop", ["online", "two loops"])
@pytest.mark.parametrize("way", PLACED)
def test_a_result_in_shared_memory(way: str, loop: str) -> None:
    """Weights go through shared memory to the second product: rows that do not exist are 0 there."""
    arrays = Matrix(40, 32, "f16"), Matrix(75, 32, "f16"), Matrix(75, 16, "f16")
    split = through_shared(*arrays).tile(i=32).to(Block).epilog(memory=FR).split(j=32)
    right(PLACED[way](split.online() if loop == "online" else split))


def test_a_factor_that_threads_store_for_atoms() -> None:
    """A named step in 16 bits is a factor as it is: its registers lie as the atom takes them."""

    @fi.program(x="m k", w="k n")
    def scaled(x: Any, w: Any) -> Any:
        small = (x * 0.5).cast("f16").named("small")
        return fi.einsum("mk,kn->mn", small, w, name="s")

    spec = scaled(Matrix(32, 24, "f16"), Matrix(24, 16, "f16")).tile(m=32).to(Block).tile(m=16).to(Warp)
    right(spec.each(s=by_mma("", "w")))


@fi.program(x="m k", w="k n")
def softmax_of_product(x: Any, w: Any) -> Any:
    return fi.softmax(fi.einsum("mk,kn->mn", x, w, name="s"), "n")


@fi.program(x="m k", w="k n", gain="n")
def norm_of_product(x: Any, w: Any, gain: Any) -> Any:
    s = fi.einsum("mk,kn->mn", x, w, name="s")
    middle, variance = fi.mean_and_variance(s, "n")
    return (s - middle) * fi.rsqrt(variance + 1e-5) * gain


def _over_cluster(s: Any) -> Any:
    shared = s.tile(m=16).to(Block).split("n", ways=2, multiple_of=8).parallel(Block, reduce=fi.by_cluster())
    return shared.epilog(memory=FR).split("n", ways=2, multiple_of=8).parallel(Warp)


EPILOGS: dict[str, Callable[[Any], Any]] = {
    "a warp has rows": lambda s: s.tile(m=32).to(Block).epilog(memory=FR).tile(m=16).to(Warp),
    "warps share rows": lambda s: (
        s.tile(m=16).to(Block).epilog(memory=FR).split("n", ways=2, multiple_of=8).parallel(Warp)
    ),
    "a cluster shares rows": _over_cluster,
}


@pytest.mark.parametrize("way", EPILOGS)
def test_rows_of_a_product_are_folded_in_its_epilog(way: str) -> None:
    x, w, gain = Matrix(40, 32, "f16"), Matrix(32, 64, "f16"), fi.Vector(64, "f16", name="gain")
    right(EPILOGS[way](softmax_of_product(x, w)).each(s=by_mma("x", "w")))
    right(EPILOGS[way](norm_of_product(x, w, gain)).each(s=by_mma("x", "w")))


def test_rows_of_a_product_on_hopper() -> None:
    turned = fi.program(x="m k", w="n k")(lambda x, w: fi.softmax(fi.einsum("mk,nk->mn", x, w, name="s"), "n"))
    tiles = turned(Matrix(64, 64, "bf16"), Matrix(64, 64, "bf16")).tile(m=64).to(Block).persistent()
    chain = tiles.epilog(memory=FR).split(k=64).pipeline(2).specialize().load("x", SH, fi.tma()).load("w", SH, fi.tma())
    right(chain.tile(m=64).to(fi.Warpgroup).each(s=lambda s: s.split(k=16).unroll().done("wgmma")))


@fi.program(x="m k", w="k n", gain="k")
def product_of_norm(x: Any, w: Any, gain: Any) -> Any:
    middle, variance = fi.mean_and_variance(x, "k")
    normed = ((x - middle) * fi.rsqrt(variance + 1e-5) * gain).cast("f16").named("normed")
    return fi.einsum("mk,kn->mn", normed, w, name="o")


NORMED: dict[str, Callable[[Any], Any]] = {
    "in registers": lambda s: s.tile(m=16).to(Warp).load("x", FR).each(o=by_mma("", "w")),
    "in shared memory": lambda s: (
        s.load("x", SH, fi.cp_async()).load("normed", SH).pad(8).tile(m=16).to(Warp).load("x", RF, vector())
        .each(o=lambda o: o.split(16).load("normed", FR, fi.ldmatrix()).load("w", FR).tile(16, 8).unroll().done())
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", NORMED)
def test_rows_are_normalised_on_their_way_into_a_product(way: str) -> None:
    """Statistics and product are one kernel: a row of x is read once."""
    arrays = Matrix(40, 64, "f16"), Matrix(64, 48, "f16"), fi.Vector(64, "f16", name="gain")
    right(NORMED[way](product_of_norm(*arrays).tile(m=32).to(Block).epilog(memory=FR)))
