"""Kernels write operands of concatenations in place: results, memory, and which concatenations are still copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fireiron.graph.in_place as placing
from fireiron import nn, tensor
from fireiron.algebra.dtypes import f16
from fireiron.graph import plan as plans
from fireiron.graph.areas import Part
from fireiron.graph.in_place import Search
from fireiron.graph.lowered import Misfit
from fireiron.graph.nodes import Builder, Graph
from fireiron.graph.plan import Plan, plan
from fireiron.graph.run import NumPy
from fireiron.graph.trace import trace_graph
from fireiron.graph.views import views_of
from tests.graph.test_repeat import Runs, aligned


@pytest.fixture(autouse=True)
def spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill memory with bytes of NaN, which no result may read."""
    monkeypatch.setattr(NumPy, "empty", lambda self, nbytes, like: np.full(max(1, nbytes), 0xFF, np.uint8))


def traced(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    return trace_graph(function, *(tensor(*shape, dtype="f16") for shape in shapes))


def checked(made: Plan, within: float = 2e-3) -> None:
    """Compare results of a call, and of one that spends its arrays, with those in f64."""
    draw, graph = np.random.default_rng(0), made.passed.given
    given = [draw.standard_normal(graph.nodes[i].shape).astype("f2") for i in graph.inputs]
    wanted = graph.evaluate(*(x.astype("f8") for x in given))
    for results in (made(*given), made.spend(list(given))):
        pairs = zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]
        for found, right in pairs:
            np.testing.assert_allclose(found.astype("f8"), right, rtol=0, atol=within * max(1.0, np.abs(right).max()))


def copies(made: Plan) -> int:
    """Count the launches that concatenate."""
    return sum(made.graph.nodes[n].op == "concatenate" for x in made.launches for n in x.part.nodes)


def before(graph: Graph, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Plan:
    """Make the plan that copies all operands."""
    with monkeypatch.context() as patch:
        patch.setattr(placing, "in_place", lambda graph, launches, views, *_: (graph, list(launches), views))
        return plan(graph, "sm_89", **options)


def along(axis: int) -> Callable[..., Any]:
    """Return a function that concatenates rows and a product, multiplies the result, and returns it too."""

    def function(x: Any, y: Any, w: Any, u: Any) -> Any:
        whole = np.concatenate([nn.softmax(x), y @ w, nn.softmax(x + 1)], axis=axis)
        return whole @ u, whole

    return function


ALONG = {
    0: ((16, 64), (32, 32), (32, 64), (64, 32)),
    1: ((32, 64), (32, 32), (32, 48), (176, 32)),
}


@pytest.mark.parametrize("axis", ALONG)
def test_three_kernels_write_an_array(axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = traced(along(axis), *ALONG[axis])
    made, old = graph.plan("sm_89"), before(graph, monkeypatch)
    assert (copies(made), copies(old)) == (0, 1)
    assert len(made.launches) == len(old.launches) - 1
    assert made.memory.nbytes <= old.memory.nbytes
    (whole,) = made.joined
    assert [made.views[i].offset for i in made.joined[whole]] == ([0, 1024, 3072] if axis == 0 else [0, 64, 112])
    assert {made.views[i].node for i in made.joined[whole]} == {whole}
    checked(made)


def test_operands_along_a_middle_dim_are_written_in_place() -> None:
    graph = traced(
        lambda x, y: np.concatenate([nn.softmax(x), nn.softmax(y) * 2], axis=1).sum(2), (3, 8, 32), (3, 16, 32)
    )
    made = graph.plan("sm_89")
    assert copies(made) == 0
    (parts,) = made.joined.values()
    assert [made.views[i].strides for i in parts] == [(24 * 32, 32, 1)] * 2
    checked(made)


def test_other_readers_read_operands_in_the_whole() -> None:
    """Sums, products and points read an operand, or a view of it, by the strides of the whole."""

    def function(x: Any, y: Any, w: Any) -> Any:
        a, b = nn.softmax(x), nn.softmax(y)
        return np.concatenate([a, b], 1) @ w, b.sum(0), a @ w[:64], np.tanh(b.T) + 1

    made = traced(function, (64, 64), (64, 128), (192, 64)).plan("sm_89")
    assert copies(made) == 0
    ((whole, parts),) = made.joined.items()
    read = {made.views[i].node for x in made.launches[1:] for i in x.part.inputs if made.views[i].strides[:1] == (192,)}
    assert read == {whole}
    assert all(made.views[i].strides == (192, 1) for i in parts)
    checked(made)


def test_heads_are_written_to_columns() -> None:
    """What transposes and reshapes show of a result lies in the whole: gradients of stacked heads have this form."""

    def function(q: Any, k: Any, v: Any, w: Any) -> Any:
        seen = [nn.attention(q, k, v), nn.attention(k, q, v)]
        whole = np.concatenate([x.transpose(0, 2, 1, 3).reshape(2, 32, 128) for x in seen], 2)
        return whole.reshape(64, 256) @ w

    made = traced(function, *[(2, 2, 32, 64)] * 3, (256, 32)).plan("sm_89")
    assert copies(made) == 0, made.explain()
    (parts,) = made.joined.values()
    assert [(made.views[i].offset, made.views[i].strides) for i in parts] == [
        (0, (32 * 256, 64, 256, 1)), (128, (32 * 256, 64, 256, 1))
    ]  # fmt: skip
    checked(made)


def test_concatenations_of_concatenations_are_one_array() -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        inner = np.concatenate([nn.softmax(x), nn.softmax(y)], 1)
        return np.concatenate([inner, nn.softmax(x + y)], 1) @ w, inner.sum(0)

    made = traced(function, (32, 64), (32, 64), (192, 16)).plan("sm_89")
    assert copies(made) == 0
    inner, outer = made.joined
    assert made.views[inner].node == outer
    assert [x.begun for x in made.launches if x.begun] == [(outer,)]
    checked(made)


COPIED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "an input": (lambda x, y: np.concatenate([nn.softmax(x), y], 1).sum(0), ((32, 64), (32, 64))),
    "an operand used twice": (
        lambda x, y: np.concatenate([nn.softmax(x), nn.softmax(x), nn.softmax(y)], 1).sum(0), ((32, 64), (32, 64))
    ),
    "an operand that is returned": (
        lambda x, y: (np.concatenate([a := nn.softmax(x), nn.softmax(y)], 1).sum(0), a), ((32, 64), (32, 64))
    ),
    "a part of a result": (
        lambda x, y: np.concatenate([nn.softmax(x)[:, :32], nn.softmax(y)], 1).sum(0), ((32, 64), (32, 64))
    ),
    "another order of axes": (
        lambda x, y: np.concatenate([nn.softmax(x).T, nn.softmax(y)], 1).sum(0), ((64, 64), (64, 64))
    ),
    "between sectors": (
        lambda x, y: np.concatenate([nn.softmax(x), nn.softmax(y)], 1) .T @ y, ((64, 72), (64, 40))
    ),
    "short lines": (
        lambda x, y: np.concatenate([nn.softmax(x), nn.softmax(y)], 1).T @ y, ((64, 112), (64, 16))
    ),
    "numbers": (
        lambda x, y: np.concatenate([nn.softmax(x), np.zeros((8, 64), "float16")], 0) @ y, ((56, 64), (64, 64))
    ),
    "another type": (
        lambda x, y: np.concatenate([nn.softmax(x).astype("float32"), nn.softmax(y)], 1).sum(0), ((64, 64), (64, 64))
    ),
    "a matrix for each batch": (  # with gaps between batches, which the product with one matrix would take for one
        lambda x, y: (np.concatenate([a := nn.softmax(x), nn.softmax(y)], 1).sum(1), a @ y[0].T),
        ((2, 16, 64), (2, 48, 64)),
    ),
    "sums at numbers": (
        lambda x, y: np.concatenate([nn.segment_sum(x, (y[:, 0] > 0).astype("int32"), 2), nn.softmax(y)], 0).sum(0),
        ((32, 64), (32, 64)),
    ),
    "one that two concatenations share": (
        lambda x, y: tuple(
            np.concatenate([a, nn.softmax(x + n)], 1) for a in [np.concatenate([nn.softmax(x), y], 1)] for n in (1, 2)
        ),
        ((32, 64), (32, 64)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIED)
def test_what_is_copied(name: str) -> None:
    """For small arrays, a kernel for one operand takes as long as one for all."""
    function, shapes = COPIED[name]
    made = traced(function, *shapes).plan("sm_89")
    assert copies(made) or name == "sums at numbers", made.explain()
    checked(made)


@pytest.mark.parametrize("name", sorted(COPIED.keys() - {"another type", "a matrix for each batch"}))
def test_one_operand_is_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_pays", lambda *_: True)
    function, shapes = COPIED[name]
    graph = traced(function, *shapes)
    made, old = graph.plan("sm_89"), before(graph, monkeypatch)
    assert copies(made) == copies(old) - len(made.joined) < copies(old)
    assert sum(made.graph.nodes[n].op == "copy" for x in made.launches for n in x.part.nodes) == 1
    assert len(made.launches) == len(old.launches) - len(made.joined) + 1
    checked(made)


@pytest.mark.parametrize(("widths", "found"), [((512, 512, 1024), 0), ((512, 256, 1024), 1)])
def test_at_most_half_of_a_concatenation_is_copied(widths: tuple[int, ...], found: int) -> None:
    """Large parts take longer to copy than a launch."""
    graph = traced(
        lambda x, y, z, w: np.concatenate([nn.softmax(x), nn.softmax(y), z], 1) @ w,
        *[(8192, width) for width in widths], (sum(widths), 64),
    )  # fmt: skip
    made = graph.plan("sm_90a")
    assert copies(made) == found, made.explain()
    assert made.memory.nbytes <= 2 * 8192 * sum(widths)


def test_two_operands_are_copied_with_all() -> None:
    graph = traced(
        lambda x, y, z, w: np.concatenate([nn.softmax(x), y, z], 1) @ w,
        (8192, 1024), (8192, 256), (8192, 256), (1536, 64),
    )  # fmt: skip
    assert copies(graph.plan("sm_90a")) == 1


def called(reads: bool) -> Graph:
    """Make a graph of a concatenation whose first operand a library computes, or reads too."""
    b = Builder()
    x, y = (b.input(name, (32, 64), f16) for name in "xy")
    call = {"label": "twice", "call": lambda x: x * 2, "shape": (32, 64), "dtype": f16}
    first = b.add("tanh", x) if reads else b.add("foreign", b.add("tanh", x), **call)
    whole = b.add("concatenate", first, b.add("tanh", b.add("sum", y, axes=(0,), keepdims=True)), axis=0)
    others = [b.add("foreign", first, **call)] if reads else []
    return b.graph("called", [b.add("sum", whole, axes=(0,), keepdims=False), *others])


@pytest.mark.parametrize("reads", [False, True])
def test_a_library_reads_and_writes_arrays_of_their_own(reads: bool) -> None:
    made = called(reads).plan("sm_89")
    assert copies(made) == 1
    checked(made)


def test_a_part_that_computes_more_is_kept() -> None:
    b = Builder()
    inputs = [b.input(name, (32, 64), f16) for name in "wxyz"]
    first, second, *others = (b.add("tanh", x) for x in inputs)
    wholes = b.add("concatenate", first, second, axis=0), b.add("concatenate", *others, axis=0)
    graph = b.graph("two", wholes)
    views = {i: view for i, view in views_of(graph, {}).items() if view is not None}
    alone = [Part("pointwise", (n,), graph.nodes[n].inputs, (n,)) for n in (first, second, *others)]
    several, one = (
        Search(graph, [*alone, Part("pointwise", joined, (first, second, *others), joined)])
        for joined in (wholes, wholes[1:])
    )
    assert one.places(wholes[1], views) is not None
    assert several.places(wholes[1], views) is None


@pytest.mark.parametrize("fixed", [("w",), ("x", "w")])
def test_what_is_computed_once_has_memory_of_its_own(fixed: tuple[str, ...]) -> None:
    graph = trace_graph(
        lambda x, w, y: np.concatenate([nn.softmax(w), nn.softmax(x)], 1).sum(0) + y.sum(),
        tensor(32, 64, dtype="f16"), tensor(32, 64, dtype="f16"), tensor(8, 8, dtype="f16"), fixed=fixed,
    )  # fmt: skip
    made = graph.plan("sm_89")
    assert copies(made) == 1
    assert sum(x.once for x in made.launches) >= len(fixed)
    checked(made)


def test_operands_that_no_kernel_computes_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = plans.lowered

    def without_slices(graph: Graph, part: Any, views: Any, *rest: Any) -> Any:
        if any(views[i].node != i for i in part.outputs):
            raise Misfit("the test takes no kernel that writes slices")
        return lowered(graph, part, views, *rest)

    monkeypatch.setattr(plans, "lowered", without_slices)
    monkeypatch.setattr(plans, "kept_launches", lambda *_: None)
    made = traced(along(1), *ALONG[1]).plan("sm_89")
    assert copies(made) == 1
    assert all(x.kernel is not None for x in made.launches)
    checked(made)


def test_the_model_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels would write slices in more time than the copy takes, operands are copied."""
    times = placing._times

    def slower(graph: Graph, launches: Any, arch: str) -> tuple[int, float]:
        unknown, us = times(graph, launches, arch)
        copied = any(graph.nodes[n].op == "concatenate" for x in launches for n in x.part.nodes)
        return unknown, us + (0 if copied else 5)

    monkeypatch.setattr(placing, "_times", slower)
    monkeypatch.setattr(placing, "kept_choice", lambda problem: None)
    monkeypatch.setattr(placing, "keep_choice", lambda problem, facts: None)
    assert copies(traced(along(1), *ALONG[1]).plan("sm_89")) == 1


def early(x: Any, y: Any, w: Any) -> Any:
    """Concatenate a row that is computed first and a large product that follows a larger one."""
    first = nn.softmax(x)
    wide = np.exp(-np.abs(first @ w))  # 8 times the bytes of the whole
    return np.concatenate([first, nn.softmax(wide @ w.T + y)], 0).sum(1)


def test_no_more_memory_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole would be allocated ahead of larger results that are gone before the second operand is computed."""
    graph = traced(early, (256, 64), (256, 64), (64, 1024))
    made, old = graph.plan("sm_89"), before(graph, monkeypatch)
    assert copies(made) == 1, made.explain()
    assert made.memory == old.memory
    monkeypatch.setattr(placing, "MOST_MORE", 2.0)
    more = graph.plan("sm_89")
    assert copies(more) == 0
    assert more.memory.nbytes > 1.01 * old.memory.nbytes


def test_inputs_count_where_calls_release_them() -> None:
    """Where all inputs are still in use, the whole takes more than its first operand."""
    graph = traced(lambda x, y, w: np.concatenate([x @ x.T, y @ y.T], 1) @ w, (64, 256), (64, 256), (128, 16))
    made, held = plan(graph, "sm_89", spends=True), plan(graph, "sm_89")
    assert (copies(made), copies(held)) == (1, 0)
    assert held.memory.spent > made.memory.spent
    assert held.memory.nbytes < made.memory.nbytes
    checked(made)
    checked(held)


def test_a_copy_of_an_operand_runs_behind_what_it_copies() -> None:
    """What it copies is released then, ahead of the other operands' kernels."""

    def function(x: Any, y: Any, w: Any) -> Any:
        product, rows = x @ x.transpose(0, 2, 1), nn.softmax(y)
        turned = product.reshape(2, 2, 32, 32).transpose(0, 2, 1, 3).reshape(2, 32, 64)
        return np.concatenate([rows, turned], 2).reshape(64, 128) @ w

    made = traced(function, (4, 32, 64), (2, 32, 64), (128, 16)).plan("sm_89")
    assert copies(made) == 0, made.explain()
    ops = [[made.graph.nodes[n].op for n in x.part.nodes] for x in made.launches]
    assert ops.index(["copy"]) == ops.index(["matmul"]) + 1
    checked(made)


@pytest.mark.parametrize("read", [False, True])
def test_a_copy_of_an_operand_runs_behind_the_peak_of_memory(read: bool) -> None:
    """Before larger results are gone, the whole would be one array more; other readers of the copy do not wait."""

    def function(x: Any, y: Any, w: Any) -> Any:
        product = x @ x.transpose(0, 2, 1)
        if read:
            turned = product.reshape(2, 2, 32, 32).transpose(0, 2, 1, 3).reshape(2, 32, 64)
            others = [turned @ w[:, :16]]
        wide = np.exp(-np.abs(y @ w))  # 16 times the bytes of the whole
        if not read:
            turned = product.reshape(2, 2, 32, 32).transpose(0, 2, 1, 3).reshape(2, 32, 64)
            others = []
        return np.concatenate([turned, nn.softmax(wide @ w.T).reshape(2, 32, 64)], 2).sum(0), *others

    made = traced(function, (4, 32, 64), (64, 64), (64, 2048)).plan("sm_89")
    assert copies(made) == read, made.explain()
    ops = [[made.graph.nodes[n].op for n in x.part.nodes if made.graph.nodes[n].kind != "view"] for x in made.launches]
    assert read or ops[-2:] == [["copy"], ["sum"]]
    checked(made)


def test_kernels_do_not_write_into_the_gaps_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of padded lines are computed with their padding, which a slice does not have."""
    monkeypatch.setattr(placing, "_fits", lambda *_: True)

    def function(x: Any, w: Any, y: Any, u: Any) -> Any:
        behind = nn.softmax(y)
        return np.concatenate([nn.softmax(x @ w), behind], 1) @ u

    graph = traced(function, (1024, 16), (16, 37), (1024, 91), (128, 16))
    made = graph.plan("sm_89")
    assert copies(made) == 0
    checked(made)


def test_the_explanation_and_the_picture_say_it() -> None:
    made = traced(along(1), *ALONG[1]).plan("sm_89")
    assert "%19[32, 176].f16 needs no copy: kernels write %8, %9, %18 to their places in it" in made.explain()
    written = made.picture().svg()
    assert "%8[32, 64].f16 in %19" in written
    assert ">returned: %19[32, 176].f16<" in written


@pytest.mark.parametrize("spend", [False, True])
def test_repeated_calls_write_in_place(monkeypatch: pytest.MonkeyPatch, spend: bool) -> None:
    run = Runs(monkeypatch, traced(along(1), *ALONG[1]))
    draw = np.random.default_rng(0)
    arrays = [aligned(draw.standard_normal(shape).astype("f2")) for shape in ALONG[1]]
    wanted = run.plan(*arrays)
    for _ in range(3):
        for found, right in zip(run(arrays, spend), wanted, strict=True):
            np.testing.assert_array_equal(found, right)
    assert run.counts == (len(run.plan.kernels), 2 * len(run.plan.kernels))


def test_repeated_calls_release_the_whole_behind_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = (400, 64), (400, 64), (64, 64)
    run = Runs(monkeypatch, traced(lambda x, y, w: np.concatenate([x @ w, y @ w], 0) @ w, *shapes))
    draw = np.random.default_rng(0)
    for _ in range(2):
        run([aligned(draw.standard_normal(shape).astype("f2")) for shape in shapes], spend=True)
    (repeat,), (whole,) = filter(None, run.runner.repeats.values()), run.plan.joined
    assert [whole in step.dead for step in repeat.steps] == [False, False, True]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_library_computes_what_a_failed_kernel_would_write(failing: int) -> None:
    graph = traced(along(1), *ALONG[1])
    made = graph.plan("sm_89")
    made.runner.failed.add(failing)
    checked(made)
