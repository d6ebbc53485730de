"""Lines that are read at numbers in an array, and added up there, against torch."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from torch_compared import compared  # noqa: E402


def left(plans: Any) -> list[str]:
    """Name the operators that torch runs."""
    return [n["label"] for plan in plans for n in plan.graph.nodes if n.op == "foreign"]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(5,), (3, 2)])
def test_lines_at_numbers_some_of_them_from_behind(axis: int, shape: tuple[int, ...]) -> None:
    x = torch.randn(6, 8, 7)
    ids = torch.randint(-x.shape[axis], x.shape[axis], shape)
    before = (slice(None),) * axis
    assert not left(compared(lambda x, ids: (x * 2)[(*before, ids)] + 1, x, ids))


def test_lines_of_a_graph_are_read_and_added() -> None:
    """The gradient of sums over edges reads their lines."""

    def layer(x: Any, first: Any, last: Any) -> Any:
        return torch.zeros_like(x).index_add(0, last, x[first] * 2)

    plans = compared(layer, torch.randn(9, 8), torch.randint(0, 9, (30,)), torch.randint(0, 9, (30,)))
    assert not left(plans)
    assert [len(plan.kernels) for plan in plans] == [1, 1]  # lines are read, scaled and added at once


@pytest.mark.parametrize("axis", [0, 1])
def test_lines_are_selected(axis: int) -> None:
    x, ids = torch.randn(6, 8), torch.randint(0, 6, (5,))
    assert not left(compared(lambda x, ids: torch.index_select(x * 2, axis, ids) + 1, x, ids))


@pytest.mark.parametrize(("rows", "padding"), [(40, None), (40, 3), (6, None), (6, 3)])
def test_gradients_of_tables(rows: int, padding: int | None) -> None:
    ids = torch.randint(0, rows, (4, 30))
    plans = compared(lambda t, ids: torch.nn.functional.embedding(ids, t, padding) * 3, torch.randn(rows, 16), ids)
    assert not left(plans)


def test_numbers_are_sorted_where_sums_must_be_deterministic() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        plans = compared(
            lambda t, ids: torch.nn.functional.embedding(ids, t), torch.randn(40, 16), torch.randint(0, 40, (30,))
        )
        assert left(plans) == ["embedding_dense_backward"]
        plans = compared(lambda x, ids: x[:, ids] * 2, torch.randn(6, 40), torch.randint(0, 40, (30,)))
        assert "index_put" in left(plans)
    finally:
        torch.use_deterministic_algorithms(False)


def test_numbers_are_sorted_for_large_tables() -> None:
    """Zeros, and a conversion of the table, take longer and hold twice the memory."""
    table, ids = torch.zeros(70_000, 128), torch.randint(0, 70_000, (8,))
    plans = compared(lambda t, ids: torch.nn.functional.embedding(ids, t) * 2, table, ids)
    assert left(plans) == ["embedding_dense_backward"]


def test_lines_are_added_to_an_array() -> None:
    def added(x: Any, ids: Any, lines: Any) -> Any:
        return torch.index_put(x * 2, (ids,), lines, accumulate=True)

    x, ids, lines = torch.randn(9, 5), torch.randint(-9, 9, (20,)), torch.randn(20, 5)
    assert not left(compared(added, x, ids, lines))
    assert not left(compared(added, x, ids, torch.randn(5)))  # one line for all numbers


def test_masks_and_several_arrays_stay_with_torch() -> None:
    x, ids = torch.randn(9, 5), torch.randint(0, 5, (4,))
    assert "index" in left(compared(lambda x, ids: x[ids, ids] * 2, x, ids))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_few_elements_of_each_line(axis: int, width: int) -> None:
    """The numbers of a line differ, so that the gradient writes each element once or adds several, as they fall."""
    x = torch.randn(6, 9)
    ids = torch.randint(0, x.shape[axis], (6, width) if axis else (width, 9))
    plans = compared(lambda x, ids: torch.log_softmax(x, axis).gather(axis, ids) * 2, x, ids)
    assert not left(plans)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_many_elements_of_a_line(axis: int) -> None:
    """They are read where the array lies, and their gradients are added there."""
    x = torch.randn(6, 40, 3)
    ids = torch.randint(0, 3, [5 if a == axis % 3 else n for a, n in enumerate(x.shape)])
    assert not left(compared(lambda x, ids: (x * 2).gather(axis, ids) + 1, x, ids))
    for given in (lambda x: x, lambda x: x.reshape(3, 2, 120).reshape(6, 40, 3), lambda x: x @ x.mT @ x):
        assert not left(compared(lambda x, ids, g=given: g(x).gather(axis, ids) * 2, x, ids, within=1e-3))


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_of_whole_lines(axis: int) -> None:
    """One number for all elements of a line, as libraries of graphs repeat them."""

    def layer(x: Any, ids: Any) -> Any:
        numbers = ids.unsqueeze(1 - axis).expand_as(x)
        return torch.zeros(7, 7).scatter_add(axis, numbers, x * 2) + (x + 1).gather(axis, numbers)

    assert not left(compared(layer, torch.randn(7, 7), torch.randint(0, 7, (7,))))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_lines_are_put_into_zeros(axis: int, shape: tuple[int, ...]) -> None:
    """As a router of experts puts each token in its place; the kernel that computes the lines writes them."""
    whole, before = (6, 8, 7), (slice(None),) * axis
    ids = torch.randperm(whole[axis])[:4].reshape(shape) - torch.tensor([0, whole[axis], 0, 0]).reshape(shape)
    x = torch.randn(*whole[:axis], *shape, *whole[axis + 1 :])

    def layer(x: Any, ids: Any, first: float = 0.0) -> Any:
        made = torch.full(whole, first)
        made[(*before, ids)] = x * 2 + 1
        return made

    plans = compared(layer, x, ids)
    assert not left(plans)
    assert len(plans[0].kernels) == 1
    assert left(compared(lambda x, ids: layer(x, ids, 1.0), x, ids)) == ["index_put"], "zeros alone are written at once"


def test_one_value_is_put_into_zeros_at_numbers() -> None:
    def layer(x: Any, ids: Any) -> Any:
        made = torch.zeros_like(x)
        made[ids] = 1.5
        return made * x

    assert not left(compared(layer, torch.randn(9, 8), torch.tensor([3, -1, 0])))


def test_elements_are_added_at_their_numbers() -> None:
    """There may be fewer numbers than elements, the rest of which is not added."""
    x, v, ids = torch.randn(6, 9, 4), torch.randn(7, 12, 4), torch.randint(0, 9, (6, 11, 4))
    assert not left(compared(lambda x, ids, v: (x * 2).scatter_add(1, ids, v.detach()), x, ids, v))


def test_elements_are_replaced() -> None:
    def replaced(x: Any, ids: Any, values: Any) -> Any:
        return (x * 2).scatter(1, ids, values) + torch.zeros_like(x).scatter(1, ids, 1.5)

    x, ids = torch.randn(6, 9), torch.tensor([[0, 4], [3, 2], [8, 1], [5, 6], [2, 0], [7, 8]])
    assert "scatter" not in left(compared(replaced, x, ids, torch.randn(6, 2)))


def test_elements_are_added() -> None:
    x, ids = torch.randn(6, 9), torch.randint(0, 9, (6, 2))
    plans = compared(lambda x, ids, v: (x * 2).scatter_add(1, ids, v), x, ids, torch.randn(6, 2))
    assert "scatter_add" not in left(plans)


@pytest.mark.parametrize("axis", [0, 1, -3])
def test_lines_in_the_opposite_order(axis: int) -> None:
    assert not left(compared(lambda x: x * 2 + x.flip(axis), torch.randn(4, 5, 6)))


def test_lines_whose_elements_are_turned_stay_with_torch() -> None:
    assert "flip" in left(compared(lambda x: x.flip(-1) * 2, torch.randn(4, 5)))
