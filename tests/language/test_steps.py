"""Programs made by hand: what the checks of a program refuse that no traced function makes."""

from __future__ import annotations

import attrs
import pytest

from fireiron import FireironError, Matrix, Value, exp, tensor
from fireiron import program as traced
from fireiron import sum as summed
from fireiron.algebra.dtypes import f32, i32
from fireiron.algebra.expr import Var, and_, lt
from fireiron.algebra.scalar import Arg, Binary, Constant, Coordinate, Select
from fireiron.language.folds import Fold, add_of, max_of, min_of, mul_of
from fireiron.language.levels import GL, RF
from fireiron.language.steps import Program, Ref, Step, check_program, dense
from fireiron.language.tensor import Tensor
from fireiron.language.trace import step_named

M, N = Var("m", 4), Var("n", 8)
X = Matrix(4, 8, "f32", name="x")


def ref(tensor: Tensor, *index: Var) -> Ref:
    return Ref(tensor.name, tensor.shape, tensor.dtype, tensor.strides, tensor.memory, tuple(index))


SUM, Y = dense("sum", (4,), f32, RF), dense("y", (4,), f32, GL)
FOLD = Step("sum", (ref(SUM, M),), (ref(X, M, N),), Arg(0, f32), add_of(f32), (N,))
COPY = Step("y", (ref(Y, M),), (ref(SUM, M),), Arg(0, f32))


def program(*steps: Step, inputs: tuple[Tensor, ...] = (X,)) -> Program:
    return Program("f", inputs, steps, (Y,))


def refused(wrong: Program, code: str, message: str) -> None:
    with pytest.raises(FireironError) as caught:
        check_program(wrong)
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.fix


def test_a_program_that_is_right() -> None:
    check_program(program(FOLD, COPY))


def test_two_steps_of_one_name() -> None:
    refused(program(FOLD, attrs.evolve(COPY, name="sum")), "same-step", "two steps of f are named sum")


def test_two_tensors_of_one_name() -> None:
    again = attrs.evolve(FOLD, name="again")
    refused(program(FOLD, again, COPY), "same-name", "step again writes sum, which another array is called already")
    refused(program(FOLD, COPY, inputs=(X, X)), "same-name", "two inputs are named x")


def test_a_read_of_a_later_step() -> None:
    refused(program(COPY, FOLD), "step-order", "step y reads sum, which no step before it makes")
    refused(program(FOLD, COPY, inputs=()), "step-order", "step sum reads x, which no step before it makes")


def test_a_cycle() -> None:
    back = attrs.evolve(FOLD, name="back", outs=(attrs.evolve(FOLD.outs[0], name="back"),), reads=COPY.outs)
    round_ = attrs.evolve(COPY, reads=(attrs.evolve(COPY.reads[0], name="back"),))
    refused(program(back, round_), "step-order", "step back reads y, which no step before it makes")


def test_folds_and_their_dims() -> None:
    nothing = attrs.evolve(FOLD, over=())
    no_fold = attrs.evolve(FOLD, fold=None)
    kept = attrs.evolve(FOLD, over=(M, N))
    refused(program(nothing, COPY), "fold-over", "step sum folds over nothing")
    refused(program(no_fold, COPY), "fold-over", "step sum has dims to fold and no fold")
    refused(program(kept, COPY), "fold-over", "step sum folds m, which its output keeps")


def test_one_dim_of_two_extents() -> None:
    wide = attrs.evolve(COPY, reads=(ref(SUM, Var("m", 5)),))
    refused(program(FOLD, wide), "dim-extents", "dim m has the extents 4 and 5")


@pytest.mark.parametrize(
    ("fold", "op", "identity"),
    [(add_of(f32), "add", 0.0), (max_of(f32), "max", -float("inf")), (min_of(f32), "min", float("inf")),
     (mul_of(f32), "mul", 1.0)],
)  # fmt: skip
def test_folds_of_one_scalar(fold: Fold, op: str, identity: float) -> None:
    assert (fold.plain, fold.identity) == (op, (identity,))


def test_comparisons_of_indices_are_counted() -> None:
    near = Coordinate(and_(lt(M, N + 2), lt(N, M + 2)))
    alike = Binary("eq", Arg(0, f32), Arg(0, f32))
    counts = {None: 0, Coordinate(lt(M, N)): 1, near: 2, alike: 0, Select(near, alike, Constant(0, i32)): 2}
    assert [attrs.evolve(FOLD, where=where).comparisons for where in counts] == [*counts.values()]


def test_two_results_of_one_operation_have_different_names() -> None:
    """Results are called like the steps that the language names itself."""

    @traced(x="m n", y="m n")
    def both(x: Value, y: Value) -> tuple[Value, ...]:
        one, other = (step_named(exp(summed(z, "n")), "power") for z in (x, y))
        return x * one + y * other, one, other

    computed = both(tensor(8, 64), tensor(8, 64)).computed
    assert [out.name for out in computed.outputs] == ["y0", "power", "power2"]
