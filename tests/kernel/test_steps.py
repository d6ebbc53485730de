"""Programs of several steps on CUDA cores: right on the simulator for every carrier of a fold, in all sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import fireiron as fi
from fireiron import RF, SH, Block, Matrix, Thread, Vector, Warp, Warpgroup, conform, vector
from fireiron.kernel.lower.kernel import lower
from fireiron.language.decompositions import Chunks
from fireiron.verify.verification import Data, verify


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


@fi.program(x="m n", gain="n", bias="n")
def layernorm(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    mean, variance = fi.mean_and_variance(x, over="n")
    return (x - mean) * fi.rsqrt(variance + eps) * gain + bias


@fi.program(x="m k", w="k n", gain="k")
def normed_product(x: Any, w: Any, gain: Any) -> Any:
    square = fi.mean(x * x, over="k")
    return fi.einsum("mk,kn->mn", x * fi.rsqrt(square + 1e-5) * gain, w)


@fi.program(x="m n")
def statistics(x: Any) -> Any:
    return fi.sum(x, "n"), fi.max(x, "n"), fi.exp(x)


@fi.program(x="m n")
def rows(x: Any) -> Any:
    return fi.logsumexp(x, "n"), fi.softmax(x, "n"), fi.mean(x, "n") * 2.0


@fi.program(x="a b c")
def middle(x: Any) -> Any:
    return fi.sum(x, "b")


def right(schedule: Any, sizes: dict[str, int] | None = None) -> Any:
    """Simulate on whole numbers and on random ones, and hold all outputs against the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, sizes or {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


# Ways to fold a row: lanes of a warp; warps of a block; both under a loop over chunks; one thread; single elements.
ROWS: dict[str, Callable[[Any], Any]] = {
    "lanes": lambda s: s.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done(),
    "warps": lambda s: (
        s.tile(m=1).to(Block).persistent().split("n", ways=4).parallel(Warp).load("x", RF, vector()).epilog().done()
    ),
    "warpgroups": lambda s: (
        s.tile(m=2).to(Block).tile(m=1).to(Warpgroup).split("n", ways=4).parallel(Warp).load("x", RF, vector()).done()
    ),
    "chunks": lambda s: (
        s.tile(m=1).to(Block).split(n=512).split("n", ways=2).parallel(Warp).load("x", RF, vector()).done()
    ),
    "thread": lambda s: s.tile(m=32).to(Block).tile(m=1).to(Thread).split(n=1).done(),
    "threads": lambda s: s.tile(m=1).to(Block).split("n", ways=128).parallel(Thread).done(),
    "shared": lambda s: (
        s.tile(m=4).to(Block).load("x", SH).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done()
    ),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("width", [8, 33, 100, 512, 1000])
@pytest.mark.parametrize("way", ROWS)
def test_softmax(way: str, width: int) -> None:
    right(ROWS[way](softmax(Matrix(9, width, "f16"))))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("way", ["lanes", "warps", "chunks"])
def test_layernorm(way: str, dtype: str) -> None:
    gain, bias = Vector(264, "f32", name="gain"), Vector(264, dtype, name="bias")
    right(ROWS[way](layernorm(Matrix(9, 264, dtype), gain, bias)))


@pytest.mark.parametrize("way", ROWS)
def test_outputs_of_rows_are_stored_once(way: str) -> None:
    right(ROWS[way](statistics(Matrix(9, 200, "f32"))))


@pytest.mark.parametrize("way", [*ROWS, "chunks of lanes", "chunks of a warp", "chunks of a cluster"])
def test_what_is_computed_of_a_folded_row_is_stored_once(way: str) -> None:
    """One thread stores it, also behind a loop over chunks, where all threads of the row hold it."""
    ways = ROWS | {
        "chunks of lanes": lambda s: s.tile(m=1).to(Block).split(n=64).load("x", RF, vector()).epilog().done(),
        "chunks of a warp": lambda s: (
            s.tile(m=4).to(Block).tile(m=1).to(Warp).split(n=64).load("x", RF, vector()).done()
        ),
        "chunks of a cluster": lambda s: (
            s.tile(m=1).to(Block).split("n", ways=2).parallel(Block, fi.by_cluster())
            .split(n=64).split("n", ways=2).parallel(Warp).load("x", RF, vector()).done()
        ),
    }  # fmt: skip
    right(ways[way](rows(Matrix(9, 200, "f16"))))


@pytest.mark.parametrize("way", ["lanes", "warps"])
def test_two_dims_folded_at_once(way: str) -> None:
    spec = fi.program(x="b m n")(lambda x: fi.softmax(x, "m n"))(fi.tensor(2, 8, 64)).tile(b=1).to(Block)
    parted = spec.split("m", ways=4).parallel(Warp) if way == "warps" else spec
    right(parted.load("x", RF, vector()).done())


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (50, 60, 100)])
def test_product_with_a_normalised_operand(m: int, n: int, k: int) -> None:
    spec = normed_product(Matrix(m, k), Matrix(k, n), Vector(k, name="gain"))
    schedule = (
        spec.tile(m=32, n=32).to(Block).epilog(memory=RF).split(k=8).load("x", SH).load("w", SH)
        .tile(m=4, n=4).to(Thread).split(k=1).unroll().load("x", RF, conform()).load("w", RF).done()
    )  # fmt: skip
    right(schedule)


def test_lanes_share_the_k_of_a_product() -> None:
    spec = normed_product(Matrix(16, 96), Matrix(96, 8), Vector(96, name="gain"))
    schedule = spec.tile(m=4, n=4).to(Block).tile(m=1, n=1).to(Warp).split("k", ways=32).parallel(Thread).done()
    right(schedule)


def test_a_dim_in_the_middle() -> None:
    spec = middle(fi.tensor(3, 40, 64, dtype="f16"))
    right(spec.tile(a=1, c=64).to(Block).tile(a=1, c=1).to(Thread).split(b=1).done())


def test_one_barrier_a_fold() -> None:
    simulated = right(ROWS["warps"](softmax(Matrix(9, 1024, "f16"))))
    assert simulated.report.barriers == 2 * 9


def test_equal_programs_are_equal_schedules() -> None:
    first, second = (ROWS["lanes"](softmax(Matrix(9, 64, "f16"))) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(("link", "tensor"), [(0, "y"), (1, "y"), (3, "x_rf")])
def test_strided_tiles_that_no_method_writes_are_refused(link: int, tensor: str) -> None:
    """Of points in chunks, above a load or below it, nothing says yet which of them a thread holds."""
    spec = fi.program(x="m n")(lambda x: fi.sum(x, "n"))(Matrix(64, 64))
    chain = spec.tile(m=8).to(Block).tile(m=2).to(Warp).load("x", RF, vector()).tile(m=2).unroll().done()
    right(chain)
    links = list(chain.links)
    links[link] = attrs.evolve(links[link], sizes=(("m", Chunks(1, 2)),))
    with pytest.raises(fi.FireironError) as caught:
        lower(chain.program, links, "strided")
    assert caught.value.code == "own-strided"
    assert caught.value.message == f"the points of {tensor} along m lie in chunks of a strided tile"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_compiles_without_spills(arch: str) -> None:
    for way in ("lanes", "warps", "chunks"):
        kernel = ROWS[way](softmax(Matrix(64, 1024, "bf16"))).compile(arch)
        assert kernel.resources.spills == 0


@fi.program(x="h i j", slope="h")
def alibi(x: Any, slope: Any, window: int) -> Any:
    i, j = fi.index("i"), fi.index("j")
    away = i + fi.extent("j") - fi.extent("i") - j
    return fi.softmax(x - slope * away, "j", where=(away >= 0) & (away < window))


@pytest.mark.parametrize("way", ["lanes", "warps", "chunks", "thread"])
def test_masks_of_indices(way: str) -> None:
    """Causal, a sliding window, a bias of the distance; the first rows have no points, and are 0."""
    spec = alibi(fi.tensor(2, 40, 33, dtype="f16"), Vector(2, "f32", name="slope"), 9)
    schedule = {
        "lanes": lambda: spec.tile(h=1, i=4).to(Block).tile(i=1).to(Warp).load("x", RF, vector()).epilog().done(),
        "warps": lambda: (
            spec.tile(h=1, i=1).to(Block).split("j", ways=2).parallel(Warp).load("x", RF, vector()).epilog().done()
        ),
        "chunks": lambda: spec.tile(h=1, i=1).to(Block).split(j=8).load("x", RF, vector()).epilog().done(),
        "thread": lambda: spec.tile(h=1, i=32).to(Block).tile(i=1).to(Thread).split(j=1).done(),
    }[way]()
    assert not right(schedule).out[:, :7].any()


@fi.program(x="m n", mask="m n")
def masked(x: Any, mask: Any) -> Any:
    n, count = fi.index("n"), fi.extent("n")
    even = ~(n % 2) | (n // 4 >= count)
    return (
        fi.sum(x, "n", where=mask), fi.max(x, "n", where=even), fi.min(x, "n", where=even & (mask > 0)),
        fi.logsumexp(x, "n", where=mask), fi.where(n * 2 < count, x, fi.cast(fi.index("m"), "f32")),
    )  # fmt: skip


@pytest.mark.parametrize("way", ["lanes", "warps", "thread"])
def test_folds_of_some_points(way: str) -> None:
    N = fi.symbol("N", maximum=4096) if way == "thread" else 72
    schedule = ROWS[way](masked(Matrix(9, N, "f32"), Matrix(9, N, "i8", name="mask")))
    right(schedule, {"N": 50} if way == "thread" else {})


@pytest.mark.parametrize("out", ["nm", "mn"])
def test_outputs_in_another_order_than_registers(out: str) -> None:
    spec = fi.program(x="m k", w="k n")(lambda x, w: fi.einsum(f"mk,kn->{out}", x, w))(Matrix(40, 24), Matrix(24, 36))
    right(spec.tile(m=16, n=8).to(Block).tile(m=4, n=2).to(Thread).epilog().split(k=8).done())


@fi.program(x="m n")
def found(x: Any) -> Any:
    odd = fi.index("n") % 2
    spread = fi.fold_by(x, "n", (math.inf, -math.inf), lambda a, b, c, d: (fi.minimum(a, c), fi.maximum(b, d)),
                        finish=lambda low, high: high - low, name="spread")  # fmt: skip
    return fi.argmax(x, "n"), fi.argmin(x, "n", where=odd), spread


@pytest.mark.parametrize("way", ["lanes", "warps", "chunks", "thread", "threads"])
def test_indices_of_extremes_and_folds_of_users(way: str) -> None:
    """Equal values: the first counts, whichever lanes, warps and chunks hold them."""
    x = np.random.default_rng(1).integers(-3, 4, size=(9, 200)).astype(np.float32)
    out = tuple(np.zeros(9, dtype) for dtype in (np.int32, np.int32, np.float32))
    schedule = ROWS[way](found(Matrix(9, 200), out=("i32", "i32", "f32")))
    top, low, spread = schedule.simulate(x, out=out).out
    np.testing.assert_array_equal(top, x.argmax(1))
    np.testing.assert_array_equal(low, x[:, 1::2].argmin(1) * 2 + 1)
    np.testing.assert_array_equal(spread, np.ptp(x, axis=1))
    if way == "lanes":
        right(schedule)
