"""Folds over any dims, and pointwise programs, by the presets that schedule them; blocks of the grid share a fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import fireiron as fi
from fireiron import RF, Block, ColMajor, FireironError, Matrix, Move, RowMajor, Vector, Warp, program, tensor, vector
from fireiron.base.errors import SimulationError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.rewrite import rewrite
from fireiron.kernel.ir.statements import Call, CountIn, If, Kernel, Statement, Sync, walk
from fireiron.schedules import pointwise, reductions, rows
from fireiron.simulate import simulate
from fireiron.verify.comparison import compare
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import references
from fireiron.verify.verification import Data, verify


def right(schedule: Any) -> None:
    """Simulate on whole numbers and on random ones, and hold all outputs against the reference."""

    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def folded(dims: str, over: str, shape: tuple[int, ...], dtype: str, fold: Any = fi.sum, out: str = "f32") -> Any:
    return program(x=dims)(lambda x: fold(x, over))(tensor(*shape, dtype=dtype), out=out)


# Rows, columns, all, outer and middle dims; lengths that nothing divides.
FORMS = [
    ("a b c", "a b", (32, 64, 32), "bf16"),
    ("a b c", "c", (6, 12, 1024), "f16"),
    ("u a b c", "a b c", (1, 8, 12, 256), "bf16"),
    ("m n", "n", (80, 1024), "bf16"),
    ("m n", "n", (3, 20000), "f32"),
    ("m n", "m", (600, 512), "bf16"),
    ("m n", "m", (900, 12), "bf16"),
    ("m n", "m", (100, 33), "bf16"),
    ("a b c d", "d", (4, 4, 16, 128), "f32"),
    ("a b c", "b", (4, 100, 70), "f16"),
    ("a b c", "a c", (20, 16, 100), "f32"),
    ("m n", "n", (500, 7), "f32"),
    ("u n", "n", (1, 32786), "f32"),
    ("m n", "m n", (64, 96), "f32"),
    ("a b c", "a b c", (9, 12, 256), "bf16"),
    ("n", "n", (5000,), "f16"),
]


@pytest.mark.parametrize(("dims", "over", "shape", "dtype"), FORMS)
def test_sums(dims: str, over: str, shape: tuple[int, ...], dtype: str) -> None:
    right(reductions.reduction(folded(dims, over, shape, dtype)))


@pytest.mark.parametrize(
    ("dims", "over", "shape", "dtype"),
    [
        ("a b c", "b", (130, 3, 24), "bf16"),
        ("a b c", "b", (301, 1, 12), "f32"),
        ("a b c", "b", (9, 16, 300), "f16"),
        ("a b c d", "b", (7, 2, 5, 96), "f32"),
        ("a b c", "b", (40, 5, 63), "f16"),
    ],
)
def test_threads_fold_few_points(
    dims: str, over: str, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where many results fold few points each, a thread has the results of its vectors, and no units combine parts."""
    monkeypatch.setattr(reductions, "BLOCKS", 1)
    monkeypatch.setattr(reductions, "THREADS", 64)
    for fold in (fi.sum, fi.argmax) if dtype == "f32" else (fi.sum,):
        schedule = reductions.reduction(folded(dims, over, shape, dtype, fold, "i32" if fold is fi.argmax else "f32"))
        assert " to Thread " in str(schedule)
        right(schedule)


def test_a_fold_of_every_dim_has_one_element() -> None:
    mean = folded("m n", "m n", (40, 30), "f32", fi.mean)
    assert mean.computed.outputs[0].shape == (1,)
    right(reductions.reduction(mean))
    place = program(x="n")(lambda x: fi.argmax(x, "n"))(Vector(3000, name="x"))
    assert reductions.reduction(place).simulate().comparison.word == "right"  # pyright: ignore[reportOptionalMemberAccess]
    whole = fi.Reduction("max", tensor(3, 5, 64), Vector(1, name="y"), over=(0, 1, 2))
    right(fi.best(whole))


@pytest.mark.parametrize("fold", [fi.max, fi.min, fi.prod])
def test_other_folds(fold: Any) -> None:
    right(reductions.reduction(folded("a b c", "b", (4, 64, 32), "f32", fold)))
    right(reductions.reduction(folded("a b c", "a b", (4, 128, 64), "f32", fold), ways=3))


def test_a_thread_folds_registers_of_several_dims() -> None:
    """Registers go through two folded dims and the kept one, with rows that not every warp has."""
    right(reductions.reduction(folded("a b c", "a b", (4, 24, 512), "bf16"), ways=5))


def test_blocks_share_the_dim_that_has_enough_pieces() -> None:
    schedule = reductions.reduction(folded("u a b c", "a b c", (1, 1, 8192, 1024), "bf16"))
    assert "split b 256 ways to Block" in str(schedule)


@pytest.mark.parametrize("shape", [(4, 20, 48), (4, 18, 64), (3, 7, 40), (5, 3, 96)])
def test_what_some_folded_dims_lack_is_read_by_all_of_them(shape: tuple[int, int, int]) -> None:
    """A lane's pieces may meet a row of `y` several times: it has one register."""

    @program(x="a b c", m="a b", y="b c")
    def shifted(x: Any, m: Any, y: Any) -> Any:
        return fi.sum((x - m) * y, "a b")

    a, b, c = shape
    right(reductions.reduction(shifted(tensor(a, b, c), tensor(a, b), tensor(b, c))))


def test_a_fold_that_lacks_a_dim_of_another_is_refused() -> None:
    """Threads along the dim would fold the same points, and one thread would meet a point several times."""

    @program(x="a b c", y="b c")
    def both(x: Any, y: Any) -> Any:
        return fi.sum(x * y, "a b"), fi.sum(y, "b")

    spec = both(tensor(4, 20, 48), tensor(20, 48))
    with pytest.raises(FireironError, match="has fold sum2 without a") as caught:
        reductions.reduction(spec)
    assert caught.value.code == "reduction-dims"
    with pytest.raises(FireironError, match="has fold sum2 without a") as caught:
        rows.row(spec)
    assert caught.value.code == "row-columns"
    chain = spec.tile(c=64).to(Block).split("b", ways=8).parallel(Warp).load("x", RF, vector(16)).epilog(memory=RF)
    with pytest.raises(FireironError, match="several times, and sum2 would count them each time") as caught:
        chain.done()
    assert caught.value.code == "fold-registers"


def test_folds_of_all_dims_beside_rows_are_refused() -> None:
    both = program(x="a b")(lambda x: (fi.sum(x, "a b"), fi.sum(x, "b")))
    with pytest.raises(FireironError, match="folds every dim") as caught:
        rows.row(both(tensor(8, 7)))
    assert caught.value.code == "row-columns"


def test_a_warp_has_a_result_of_its_own_where_results_are_many() -> None:
    schedule = reductions.reduction(folded("a b c", "c", (1, 8192, 4096), "bf16"))
    assert ".tile 1x16 to Block .tile 1x1 to Warp .split c" in str(schedule)
    right(reductions.reduction(folded("a b c", "c", (1, 5000, 1100), "bf16")))
    # Rows of which each warp of a block has two vectors a lane go to blocks.
    wide = reductions.reduction(folded("a b c", "c", (1, 8192, 8192), "bf16"))
    assert ".tile 1x1 to Block .split c 16 ways to Warp" in str(wide)


def test_several_folds_meet_once() -> None:
    """One exchange of the blocks serves all folds, and what is made of their results is computed by the last one."""
    spec = program(x="m n", y="m n")(
        lambda x, y: (fi.sum(x * y, "m"), fi.max(x, "m") - fi.min(y, "m"), fi.mean(x, "m"))
    )
    schedule = reductions.reduction(spec(Matrix(200, 96, "f16"), Matrix(200, 96, "f16"), out=("f32",) * 3), ways=4)
    assert sum(isinstance(s, CountIn) for s in walk(schedule.lowered().body)) == 1
    right(schedule)


def test_gradients_of_columns() -> None:
    """The gradients of a norm's gain and bias: sums over rows of products of two arrays and a value a row."""
    spec = program(x="m n", dy="m n", rstd="m")(lambda x, dy, rstd: (fi.sum(dy * x * rstd, "m"), fi.sum(dy, "m")))
    x, dy, rstd = Matrix(300, 128, "bf16"), Matrix(300, 128, "bf16"), Vector(300, "f32", name="rstd")
    right(reductions.reduction(spec(x, dy, rstd, out=("f32", "f32"))))


def test_blocks_that_loop_over_rows() -> None:
    spec = folded("m n", "n", (9, 1000), "f32")
    chain = spec.tile(m=1).to(Block).persistent().split("n", ways=2, multiple_of=4).parallel(Block)
    right(chain.split("n", ways=2, multiple_of=4).parallel(Warp).load("x", RF, vector()).epilog().done())


def test_atomics_leave_zeros_for_the_next_launch() -> None:
    schedule = reductions.reduction(folded("m n", "m", (300, 64), "f32"), ways=5, atomics=True)
    assert any(isinstance(s, Call) and "red.add" in s.atom.name for s in walk(schedule.lowered().body))
    right(schedule)  # several launches, whose workspaces are the same


def test_atomics_add_vectors_where_the_architecture_has_them() -> None:
    def rows(arch: str) -> set[str]:
        schedule = reductions.reduction(folded("m n", "m", (300, 1024), "f32"), ways=5, atomics=True)
        return {s.atom.name for s in walk(schedule.lowered(arch).body) if isinstance(s, Call) and s.atom.kind == "Add"}

    assert (rows("sm_80"), rows("sm_90")) == ({"red.add.f32"}, {"red.add.f32x4"})


def case(atomics: bool) -> tuple[Any, Kernel]:
    schedule = reductions.reduction(folded("m n", "m", (200, 64), "f32"), ways=4, atomics=atomics)
    return schedule, schedule.lowered()


def unchanged(s: Statement) -> tuple[Statement, ...]:
    return (s,)


def outcome(schedule: Any, kernel: Kernel, change: Callable[[Statement], tuple[Statement, ...]]) -> str:
    body = rewrite(kernel.body, change)
    assert change is unchanged or body != kernel.body
    arrays = random_arrays(Interface.of(kernel), {})
    expected = references(schedule, arrays, {})
    try:
        simulate(attrs.evolve(kernel, body=body), arrays)
    except SimulationError as error:
        return error.code
    found = [compare(t.name, arrays[t.name], expected[t.name], t.dtype) for t in schedule.computed.outputs]
    return "right" if all(x.passed for x in found) else "wrong"


def of_grid(kernel: Kernel) -> list[Call]:
    return [s for s in walk(kernel.body) if isinstance(s, Call) and any("_parts" in v.buffer.name for v in s.views)]


@pytest.mark.parametrize("atomics", [False, True])
def test_mistakes_planted_in_the_grid(atomics: bool) -> None:
    schedule, kernel = case(atomics)
    assert outcome(schedule, kernel, unchanged) == "right"
    for call in of_grid(kernel):  # each leaves, takes, or clears a part
        clears = atomics and call.views[0].buffer.name.startswith("zero")
        if not clears:
            assert outcome(schedule, kernel, lambda s, c=call: () if s is c else (s,)) in (
                "uninitialised-read",
                "wrong",
            )
    (counts,) = [s for s in walk(kernel.body) if isinstance(s, CountIn)]
    early = attrs.evolve(counts, count=counts.count - 1)
    assert outcome(schedule, kernel, lambda s: (early,) if s is counts else (s,)) in ("uninitialised-read", "race")

    def by_all(s: Statement) -> tuple[Statement, ...]:
        return s.body if isinstance(s, If) and s.condition == counts.var else (s,)

    assert outcome(schedule, kernel, by_all) in ("uninitialised-read", "race")
    (met,) = [s for s in walk(kernel.body) if isinstance(s, Sync) and "all threads have written" in s.reason]
    assert outcome(schedule, kernel, lambda s: () if s is met else (s,)) == "race"


def test_sums_are_taken_by_all_before_they_become_zeros() -> None:
    """Where one thread clears what all have read, a barrier is derived; a place of each thread's own needs none."""
    schedule = reductions.reduction(folded("m n", "n", (4, 4096), "f32"), ways=4, atomics=True)
    kernel = schedule.lowered()
    assert outcome(schedule, kernel, unchanged) == "right"
    (met,) = [s for s in walk(kernel.body) if isinstance(s, Sync) and "_parts is read before" in s.reason]
    assert outcome(schedule, kernel, lambda s: () if s is met else (s,)) == "race"


def test_the_same_bits_whoever_is_last() -> None:
    """The order of the ways does not depend on the order in which blocks arrive: the kernel has no other."""
    _, kernel = case(False)
    assert not any("red." in s.atom.name for s in of_grid(kernel))


def test_no_spills() -> None:
    for dims, over, shape in (
        ("a b c", "a b", (64, 128, 1024)),
        ("m n", "n", (8192, 1024)),
        ("u n", "n", (1, 1 << 26)),
    ):
        for arch in ("sm_80", "sm_90a"):
            assert not reductions.reduction(folded(dims, over, shape, "bf16")).compile(arch).resources.spills


def test_other_programs_are_refused() -> None:
    for wrong, text in (
        (lambda: program(x="m n")(lambda x: x * 2.0)(Matrix(8, 8)), "folds no dim"),
        (lambda: program(x="m n")(lambda x: fi.softmax(x, "n"))(Matrix(8, 8)), "keeps n"),
        (lambda: program(x="m n")(lambda x: fi.sum(x, "n"))(Matrix(8, fi.symbol("N"))), "how many n are"),
    ):
        with pytest.raises(FireironError, match=text) as caught:
            reductions.reduction(wrong())
        assert caught.value.code == "reduction-dims"
    with pytest.raises(FireironError, match="folds n") as caught:
        pointwise.pointwise(folded("m n", "n", (8, 8), "f32"))
    assert caught.value.code == "pointwise-dims"


@program(x="m n", y="m n", b="n", c="m")
def chain(x: Any, y: Any, b: Any, c: Any) -> Any:
    return fi.relu(x + b) * y * c, x + y


@pytest.mark.parametrize(
    ("m", "n", "dtype"), [(37, 1000, "bf16"), (300, 33, "f32"), (5, 7, "f16"), (64, 64, "e4m3"), (9, 4096, "f64")]
)
def test_pointwise(m: int, n: int, dtype: str) -> None:
    b, c = Vector(n, dtype, name="b"), Vector(m, dtype, name="c")
    right(pointwise.pointwise(chain(Matrix(m, n, dtype), Matrix(m, n, dtype), b, c)))


@pytest.mark.parametrize(("m", "n", "dtype"), [(37, 100, "f16"), (128, 64, "f32"), (130, 8, "bf16")])
def test_results_may_lie_across_all_inputs(m: int, n: int, dtype: str) -> None:
    doubled = program(x="m n")(lambda x: x * 2.0 + 1.0)
    right(pointwise.pointwise(doubled(Matrix(m, n, dtype), out=Matrix(m, n, dtype, ColMajor))))


@pytest.mark.parametrize("rank", range(1, 7))
def test_pointwise_of_any_rank(rank: int) -> None:
    spec = program(x=" ".join("abcdef"[:rank]))(lambda x: fi.exp(x) * 2.0)
    right(pointwise.pointwise(spec(tensor(*(3, 4, 2, 5, 3, 24)[-rank:], dtype="f16"))))


@pytest.mark.parametrize("strides", [(64, 2), (96, 2), (3, 33)])
def test_pointwise_of_elements_that_lie_apart(strides: tuple[int, int]) -> None:
    def twice(x: Any) -> Any:
        return x * 2

    x = fi.Tensor("x", (8, 32), fi.f16, strides, fi.GL)
    right(pointwise.pointwise(program(x="m n")(twice)(x)))
    right(pointwise.pointwise(program(x="m n", y="m n")(lambda x, y: x * 2 + y)(x, Matrix(8, 32, "f16", name="y"))))


def test_pointwise_of_several_types() -> None:
    right(
        pointwise.pointwise(
            program(x="m n", y="m n")(lambda x, y: x * y)(Matrix(33, 80, "i8"), Matrix(33, 80), out="f16")
        )
    )
    small = program(x="m n", y="m n")(lambda x, y: fi.where(x < y, x, y))
    right(pointwise.pointwise(small(Matrix(33, 80, "i32"), Matrix(33, 80, "i32"))))


def test_pointwise_moves_vectors_of_16_bytes() -> None:
    kernel = pointwise.pointwise(
        program(x="m n", y="m n")(lambda x, y: x + y)(*[Matrix(4096, 4096, "bf16")] * 2)
    ).lowered()
    moved = {s.atom.nbytes for s in walk(kernel.body) if isinstance(s, Call)}
    assert moved == {16}


def conflicts(schedule: Any) -> list[str]:
    """List the accesses of shared memory that take more wavefronts than they could."""
    told = str(schedule.facts("sm_90a")).splitlines()
    return [line for line in told if "wavefronts" in line and not line.endswith("; the fewest")]


TURNED = [(128, 192, "bf16"), (100, 72, "bf16"), (33, 65, "f16"), (64, 96, "f32"), (256, 128, "i8"), (48, 32, "f64")]


@pytest.mark.parametrize(("m", "n", "dtype"), TURNED)
@pytest.mark.parametrize("orders", [(ColMajor, RowMajor), (RowMajor, ColMajor), (RowMajor, RowMajor)])
def test_moves(m: int, n: int, dtype: str, orders: Any) -> None:
    """Transposes go through shared memory without conflicts where lines are whole vectors; copies do not."""
    src, dst = (Matrix(m, n, dtype, order, name=name) for order, name in zip(orders, ("src", "dst"), strict=True))
    schedule = pointwise.move(Move(src, dst))
    right(schedule)
    assert (schedule.lowered().shared_nbytes > 0) == (orders[0] is not orders[1])
    assert m % 2 or m == 100 or not conflicts(schedule)


def test_moves_of_batches() -> None:
    right(pointwise.move(Move(Matrix(64, 96, "f16", ColMajor, name="src", batch=3), Matrix(64, 96, "f16", batch=3))))


@pytest.mark.parametrize(("m", "n", "dtype"), [(64, 80, "f32"), (64, 192, "bf16")])
def test_pointwise_of_a_transposed_input(m: int, n: int, dtype: str) -> None:
    spec = program(x="m n", y="n m")(lambda x, y: x * y)
    schedule = pointwise.pointwise(spec(Matrix(m, n, dtype), Matrix(n, m, dtype)))
    right(schedule)
    assert not conflicts(schedule)


@pytest.mark.parametrize(("m", "n", "dtype"), [(264, 136, "bf16"), (128, 144, "f32"), (512, 512, "i8")])
def test_transposes_of_many_tiles_have_long_lines(m: int, n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a tile has 256 bytes where all blocks have tiles, and a tile takes 32 KiB at most."""
    monkeypatch.setattr(pointwise, "BLOCKS", 1)
    turned = pointwise.move(Move(Matrix(m, n, dtype, name="src"), Matrix(m, n, dtype, ColMajor, name="dst")))
    right(turned)
    # 16 lines a vector apart are in two wavefronts: stores of whole lines gain more than that costs.
    assert not any("4 wavefronts" in told or "8 wavefronts" in told for told in conflicts(turned))
    side = {"bf16": 128, "f32": 64, "i8": 128}[dtype]
    assert f".tile {side}x{side} to Block" in str(turned)


def test_golden(golden: Callable[..., None]) -> None:
    golden(reductions.reduction(folded("m n", "m", (8192, 8192), "bf16")).cuda("sm_90a"), "kernel/columns_in_order.cu")


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("sizes", [(8, 8), (70, 33), (3, 520)])
def test_no_input_has_all_dims(dtype: str, sizes: tuple[int, int]) -> None:
    """Each thread reads the elements of its vectors apart, as in an outer sum."""
    m, n = sizes
    outer = program(x="m", y="n")(lambda x, y: fi.relu(x) + y * 2)
    right(pointwise.pointwise(outer(Vector(m, dtype, name="x"), Vector(n, dtype, name="y"))))


@pytest.mark.parametrize("sizes", [(2, 2, 16, 16), (4, 3, 5, 24), (2, 12, 7, 64)])
def test_inputs_with_other_orders_of_dims(sizes: tuple[int, ...]) -> None:
    """Such as heads before places, and places before heads: lanes have the same points of both."""
    a, b, c, n = sizes

    @program(x="a b c n", y="a c b n", z="b a c n")
    def product(x: fi.Value, y: fi.Value, z: fi.Value) -> fi.Value:
        return x * y + z

    given = tensor(a, b, c, n, dtype="f16"), tensor(a, c, b, n, dtype="f16"), tensor(b, a, c, n, dtype="f16")
    right(pointwise.pointwise(product(*given, out="f16")))

    @program(x="a b c n", y="a c b n", z="b a c n")
    def total(x: fi.Value, y: fi.Value, z: fi.Value) -> fi.Value:
        return fi.sum(x * y + z, "a b c")

    right(reductions.reduction(total(*given)))
