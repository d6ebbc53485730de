"""Traced programs: the steps that a function leaves, exactly as they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fireiron as fi
from fireiron import FireironError, Matrix, Vector, symbol
from fireiron.language.steps import Program

X = Matrix(64, 32, "f16")


@fi.program(x="m n")
def softmax(x: Any) -> Any:
    return fi.softmax(x, "n")


@fi.program(x="m n", gain="n", bias="n")
def layernorm(x: Any, gain: Any, bias: Any = None, eps: Any = 1e-5) -> Any:
    mean, variance = fi.mean_and_variance(x, over="n")
    result = (x - mean) * fi.rsqrt(variance + eps) * gain
    return result if bias is None else result + bias


def traced(dims: dict[str, str], function: Callable[..., Any], *arrays: Any, **others: Any) -> Program:
    """Trace a function that has no name."""
    return fi.program(**dims)(function)(*arrays, **others).computed


def of_x(function: Callable[[Any], Any], x: Any = X, **others: Any) -> Program:
    return traced({"x": "m n"}, function, x, **others)


def test_softmax() -> None:
    assert str(softmax(X).computed) == (
        """\
softmax(x[64, 32].f16.GL) over m 64, n 32
  top[m]     = max over n of x[m, n]
  part[m, n] = exp2((x[m, n] - top[m]) * 1.4427)
  total[m]   = add over n of part[m, n]
  inverse[m] = 1 / total[m]
  y[m, n]    = f16(part[m, n] * inverse[m])"""
    )


def test_layernorm() -> None:
    """Distances are summed in a step of their own, and the pointwise end is one step."""
    gain, bias = Vector(32, "f32", name="gain"), Vector(32, "f16", name="bias")
    assert str(layernorm(X, gain, bias).computed) == (
        """\
layernorm(x[64, 32].f16.GL, gain[32].f32.GL, bias[32].f16.GL) over m 64, n 32
  mean_sum[m]   = add over n of x[m, n]
  mean[m]       = mean_sum[m] * 0.03125
  square_sum[m] = add over n of (x[m, n] - mean[m]) * (x[m, n] - mean[m])
  y[m, n]       = f16((x[m, n] - mean[m]) * rsqrt(square_sum[m] * 0.03125 + 1e-05) * gain[n] + bias[n])"""
    )


def test_an_array_that_is_left_out() -> None:
    program = layernorm(X, Vector(32, "f32", name="gain")).computed
    assert [t.name for t in program.inputs] == ["x", "gain"]
    assert str(program.steps[-1]) == (
        "y[m, n] = f16((x[m, n] - mean[m]) * rsqrt(square_sum[m] * 0.03125 + 1e-05) * gain[n])"
    )


def test_a_scalar_by_its_name_and_one_that_is_baked_in() -> None:
    gain = Vector(32, "f32", name="gain")
    at_call, baked = (layernorm(X, gain, eps=eps).computed for eps in ("eps", 0.5))
    assert "square_sum[m] * 0.03125 + eps)" in str(at_call)
    assert "square_sum[m] * 0.03125 + 0.5)" in str(baked)
    assert at_call != baked


def test_logsumexp_and_log_softmax() -> None:
    assert str(of_x(lambda x: fi.logsumexp(x, "n"))).splitlines()[1:] == [
        "  top[m]   = max over n of x[m, n]",
        "  total[m] = add over n of exp2((x[m, n] - top[m]) * 1.4427)",
        "  y[m]     = f16(log(total[m]) + top[m])",
    ]
    assert str(of_x(lambda x: fi.log_softmax(x, "n"))).splitlines()[1:] == [
        "  top[m]   = max over n of x[m, n]",
        "  total[m] = add over n of exp2((x[m, n] - top[m]) * 1.4427)",
        "  y[m, n]  = f16(x[m, n] - top[m] - log(total[m]))",
    ]


def test_equal_functions_leave_equal_programs() -> None:
    first, second = softmax(X).computed, softmax(Matrix(64, 32, "f16")).computed
    assert first == second
    assert hash(first) == hash(second)
    assert first != softmax(Matrix(64, 32, "f32")).computed
    assert first != of_x(lambda x: fi.softmax(x, "m"))


def test_dims_that_no_step_keeps_come_last() -> None:
    w = Matrix(32, 16, "f16")
    program = traced({"x": "m k", "w": "k n"}, lambda x, w: fi.einsum("mk,kn->mn", x, w), X, w)
    assert [d.name for d in program.dims] == ["m", "n", "k"]
    assert [d.name for d in softmax(X).computed.dims] == ["m", "n"]


def test_einsum_renames_the_dims_of_an_array_that_it_reads_twice() -> None:
    gram = traced({"x": "i k"}, lambda x: fi.einsum("ik,jk->ij", x, x), Matrix(64, 32))
    assert str(gram) == ("program(x[64, 32].f32.GL) over i 64, j 64, k 32\n  y[i, j] = add over k of x[i, k] * x[j, k]")
    (step,) = gram.steps
    assert step.is_product


def test_einsum_orders_the_dims_of_its_result() -> None:
    """Also where nothing is folded: a transposition is a step with its own order of dims."""
    turned = of_x(lambda x: fi.einsum("mn->nm", x), Matrix(64, 32))
    assert str(turned.steps[0]) == "product[n, m] = x[m, n]"
    assert turned.outputs[0].shape == (32, 64)
    outer = traced(
        {"a": "m", "b": "n"}, lambda a, b: fi.einsum("m,n->nm", a, b), Vector(8, name="a"), Vector(4, name="b")
    )
    assert str(outer.steps[0]) == "product[n, m] = a[m] * b[n]"


def test_einsum_by_dims_of_several_letters() -> None:
    w = Matrix(32, 16, "f16")
    program = traced({"x": "row k", "w": "k col"}, lambda x, w: fi.einsum("row k,k col->row col", x, w), X, w)
    assert str(program.steps[0]) == "product[row, col] = add over k of x[row, k] * w[k, col]"


def test_einsum_of_an_expression_names_its_dims() -> None:
    w = Matrix(32, 16, "f16")
    program = traced({"x": "m k", "w": "k n"}, lambda x, w: fi.einsum("mk,kn->mn", x * 2.0, w, name="p"), X, w)
    assert str(program.steps[0]) == "p[m, n] = add over k of x[m, k] * 2 * w[k, n]"


@pytest.mark.parametrize(
    ("dtype", "state", "result"),
    [("f16", "f32", "f16"), ("bf16", "f32", "bf16"), ("f32", "f32", "f32"), ("f64", "f64", "f64"), ("i8", "i32", "i32"),
     ("i32", "i32", "i32")],
)  # fmt: skip
def test_sums_are_wide_and_outputs_have_the_type_of_the_first_array(dtype: str, state: str, result: str) -> None:
    program = of_x(lambda x: fi.sum(x, "n"), Matrix(8, 8, dtype))
    fold = program.steps[0].fold
    assert fold is not None
    assert [str(x) for x in fold.dtypes] == [state]
    assert str(program.outputs[0].dtype) == result


def test_out_gives_the_types_of_outputs() -> None:
    two = lambda x: (fi.sum(x, "n"), fi.max(x, "n"))  # noqa: E731
    assert [str(t.dtype) for t in of_x(two).outputs] == ["f16", "f16"]
    assert [str(t.dtype) for t in of_x(two, out="f32").outputs] == ["f32", "f32"]
    assert [str(t.dtype) for t in of_x(two, out=("f32", "bf16")).outputs] == ["f32", "bf16"]


def test_a_fold_writes_the_output_itself_where_the_types_agree() -> None:
    assert str(of_x(lambda x: fi.sum(x, "n"), out="f32")).splitlines()[1:] == ["  y[m] = add over n of x[m, n]"]
    assert str(of_x(lambda x: fi.sum(x, "n"))).splitlines()[1:] == [
        "  sum[m] = add over n of x[m, n]",
        "  y[m]   = f16(sum[m])",
    ]


def test_an_output_that_another_step_reads() -> None:
    def function(x: Any) -> Any:
        total = fi.sum(x, "n")
        return total, x / total

    assert str(of_x(function, out="f32")).splitlines()[1:] == [
        "  y0[m]    = add over n of x[m, n]",
        "  y1[m, n] = x[m, n] / y0[m]",
    ]


def test_named() -> None:
    """The name of a fold's result is its step's; an expression with a name is a step."""
    program = of_x(lambda x: fi.sum((x * x).named("square"), "n").named("total") * 0.5)
    assert [s.name for s in program.steps] == ["square", "total", "y"]
    assert [t.name for t in program.temps] == ["square", "total"]
    total = program.step("total")
    assert total is not None
    assert [d.name for d in total.over] == ["n"]
    assert program.step("sum") is None


def test_names_that_a_function_gives_are_kept_and_other_steps_yield() -> None:
    program = of_x(lambda x: fi.softmax(x, "n") * fi.max(x, "n").named("total"))
    assert [s.name for s in program.steps] == ["top", "part", "total2", "inverse", "total", "y"]
    assert str(program.step("total")) == "total[m] = max over n of x[m, n]"
    twice = of_x(lambda x: fi.softmax(fi.softmax(x, "n"), "n"))
    assert [s.name for s in twice.steps][4:] == ["top2", "part2", "total2", "inverse2", "y"]


def test_a_name_that_nothing_reads_may_be_given_again() -> None:
    def function(x: Any) -> Any:
        fi.max(x, "n").named("a")
        return fi.sum(x, "n").named("b").named("a") * 2

    assert [s.name for s in of_x(function).steps] == ["a", "y"]


def test_an_array_may_have_the_name_of_an_output() -> None:
    program = traced({"x": "m n", "y": "m n"}, lambda x, y: x + y, X, X)
    assert [t.name for t in (*program.inputs, *program.outputs)] == ["x", "y", "out_y"]


def test_what_nothing_reads_is_no_step() -> None:
    def function(x: Any) -> Any:
        fi.max(x, "n")
        return fi.sum(x, "n")

    assert [s.name for s in of_x(function, out="f32").steps] == ["sum"]


def test_extents_of_dims() -> None:
    assert str(of_x(lambda x: x * (1.0 / fi.extent("n"))).steps[0]) == "y[m, n] = f16(x[m, n] * 0.03125)"
    with pytest.raises(FireironError, match="outside-program"):
        fi.extent("n")


def test_dims_may_be_sizes_of_the_call() -> None:
    program = softmax(Matrix(symbol("M"), symbol("N"), "f16")).computed
    assert str(program).splitlines()[0] == "softmax(x[M, N].f16.GL) over m M, n N"


def test_a_trace_that_failed_leaves_no_dims_behind() -> None:
    with pytest.raises(FireironError, match="fold-over"):
        of_x(lambda x: fi.sum(x, "k"))
    with pytest.raises(FireironError, match="outside-program"):
        fi.dim("m", 8)
