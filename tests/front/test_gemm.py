"""Products of arrays: views, batches, epilogues by name, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, MatMulChain, Vector, cast, gelu, gemm, i32, maximum, relu, where
from fireiron.front import fused
from fireiron.language.pointwise import accumulator
from fireiron.schedules import simt

RNG = np.random.default_rng(0)


def small(spec: MatMulChain) -> MatMulChain:
    return simt.listing2(spec, 32, 32)


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def near(got: Any, wanted: Any) -> None:
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=1e-4, atol=1e-4)


A, B, BIAS = drawn(20, 24), drawn(24, 36), drawn(36)
BATCHES = drawn(2, 3, 20, 24)


def test_an_epilogue_reads_its_operands_by_name() -> None:
    near(gemm(A, B, epilog=lambda acc, bias: relu(acc + bias), bias=BIAS, schedule=small), np.maximum(A @ B + BIAS, 0))
    near(gemm(A, B, epilog=lambda acc, alpha: acc * alpha, alpha=2.0, schedule=small), 2 * (A @ B))
    mask = (BIAS > 0).astype(np.uint8)
    near(gemm(A, B, epilog=lambda acc, mask: where(mask, acc, 0), mask=mask, schedule=small), A @ B * mask)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_layouts_and_transposed_views(layout: str) -> None:
    stored = A.T.copy() if layout[1] == "T" else A, B.T.copy() if layout[0] == "T" else B
    near(gemm(*stored, layout=layout, schedule=small), A @ B)
    views = tuple(x.T if turned == "T" else x for x, turned in zip(stored, reversed(layout), strict=True))
    near(gemm(*views, schedule=small), A @ B)


def test_leading_dimensions() -> None:
    near(gemm(BATCHES, B, epilog=lambda acc, bias: acc + bias, bias=BIAS, schedule=small), BATCHES @ B + BIAS)
    many, rest = drawn(2, 3, 24, 36), drawn(2, 3, 20, 36)
    near(gemm(BATCHES, many, epilog=lambda acc, rest: acc - rest, rest=rest, schedule=small), BATCHES @ many - rest)
    rows = drawn(20, 1)
    near(gemm(BATCHES, B, epilog=lambda acc, rows: acc * rows, rows=rows, schedule=small), BATCHES @ B * rows)


LEADING = [(2, 1), (1, 3), (3,), (1, 1), (1,), (2, 3)]


@pytest.mark.product
@pytest.mark.parametrize("lead", LEADING, ids=str)
@pytest.mark.parametrize("one", [True, False], ids=["one B", "many"])
def test_operands_are_broadcast_over_leading_dimensions(lead: tuple[int, ...], one: bool) -> None:
    b = B if one else drawn(2, 3, 24, 36)
    for x in (drawn(*lead, 20, 36), drawn(*lead, 1, 36), drawn(*lead, 20, 1), drawn(*lead, 36, 20).swapaxes(-1, -2)):
        near(gemm(BATCHES, b, epilog=lambda acc, x: acc * x, x=x, schedule=small), BATCHES @ b * x)


def test_an_operand_may_be_a_number_in_an_array_or_repeat_itself() -> None:
    number, rest = np.array(3, np.float32), np.broadcast_to(drawn(2, 1, 20, 36), (2, 3, 20, 36))
    found = gemm(BATCHES, B, epilog=lambda acc, n, rest: acc * n + rest, n=number, rest=rest, schedule=small)
    near(found, BATCHES @ B * 3 + rest)
    for shape in ((2, 20, 36), (1, 1, 1, 20, 36), (2, 2, 20, 36)):
        with pytest.raises(FireironError, match="does not broadcast"):
            gemm(BATCHES, B, epilog=lambda acc, x: acc + x, x=drawn(*shape), schedule=small)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_batches_that_share_b_with_an_operand_of_the_results_shape(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of all batches follow each other, those of the operand too: no bulk copy meets a stride of 0."""
    monkeypatch.setattr("fireiron.front.host.SIMULATED", arch)
    shapes = ((2, 64, 64), (64, 64), (2, 64, 64), (64,))
    a, b, rest, column = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in shapes)
    found = gemm(a, b, epilog=lambda acc, rest, column: acc + rest * column, rest=rest, column=column)
    assert np.array_equal(found, a @ b + rest * column)


SHARING = {
    "gaps between matrices": lambda a, b: (a[::2], b),
    "gaps between rows": lambda a, b: (a[:2, ::2], b),
    "columns contiguous": lambda a, b: (a.swapaxes(-1, -2), b.T),
    "one A": lambda a, b: (np.broadcast_to(b, a.shape), a),
    "repeated rows": lambda a, b: (np.broadcast_to(a[:, :1], a.shape), np.broadcast_to(b[:1], b.shape)),
}


@pytest.mark.parametrize("views", SHARING.values(), ids=SHARING)
def test_bulk_copies_of_matrices_that_batches_share(views: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor map does without dimensions of stride 0; repeated lines have no map and are loaded by other copies."""
    monkeypatch.setattr("fireiron.front.host.SIMULATED", "sm_90a")
    a, b = views(*(RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((4, 64, 64), (64, 64))))
    assert np.array_equal(gemm(a, b), a @ b)


def test_views_with_gaps() -> None:
    wide, into = drawn(40, 60), np.zeros((20, 50), np.float32)
    out = gemm(wide[::2, :24], B, out=into[:, :36], schedule=small)
    near(out, wide[::2, :24] @ B)
    assert not into[:, 36:].any()
    gaps = drawn(4, 20, 24)[::2]
    near(gemm(gaps, B, schedule=small), gaps @ B)


def test_the_result_goes_where_it_should() -> None:
    out = np.zeros((2, 3, 20, 36), np.float16)
    assert gemm(BATCHES, B, out=out, schedule=small) is out
    assert np.allclose(out, BATCHES @ B, rtol=1e-2, atol=1e-2)


def test_presets_are_chosen_for_the_machine() -> None:
    half = [x.astype(np.float16) for x in (A[:, :16], B[:16, :32])]
    assert gemm(*half, epilog=gelu, schedule=lambda s: simt.listing2(s, 32, 32)).dtype == np.float16
    near(gemm(A, B, epilog=relu), np.maximum(A @ B, 0))


def test_equal_epilogues_share_a_kernel() -> None:
    before = len(fused._kernels)
    for _ in range(3):
        gemm(A, B, epilog=lambda acc: relu(acc * 3), schedule=small)
    assert len(fused._kernels) == before + 1


def test_an_epilogue_may_give_several_outputs() -> None:
    def epilog(acc: Any, bias: Any) -> Any:
        return relu(acc + bias), acc, cast(acc > 0, "u8"), (acc + bias) ** 2

    wanted = (np.maximum(A @ B + BIAS, 0), A @ B, A @ B > 0, (A @ B + BIAS) ** 2)
    found = gemm(A, B, epilog=epilog, bias=BIAS, schedule=small)
    assert [x.dtype.name for x in found] == ["float32", "float32", "uint8", "float32"]
    for got, want in zip(found, wanted, strict=True):
        near(got, want)
    into = tuple(np.zeros((2, 3, 20, 36), kind) for kind in (np.float32, np.float16))
    assert gemm(BATCHES, B, epilog=lambda acc: (acc, acc * 2), out=into, schedule=small) is into
    assert np.allclose(into[1], 2 * (BATCHES @ B), rtol=1e-2, atol=1e-2)
    empty = gemm(A[:0], B, epilog=epilog, bias=BIAS, schedule=small)
    assert [x.shape for x in empty] == [(0, 36)] * 4


def test_floats_beside_sums_of_integers_stay_floats() -> None:
    a, c = np.ones((16, 16), np.int8), np.full(16, 0.5, np.float32)
    made = gemm(a, a, epilog=lambda acc, c, s: cast(acc, "f32") * c + s, c=c, s=0.25)
    assert made.dtype == np.float32
    assert (made == 8.25).all()
    assert (gemm(a, a, epilog=lambda acc, s: acc * s, s=2) == 32).all()
    assert (gemm(a, a, epilog=lambda acc, s: cast(acc, "f32") * s, s=2.5) == 40).all()
    for function in (lambda acc, c: acc + c, lambda acc, c: maximum(acc, c), lambda acc, c: where(acc > c, acc, 0)):
        with pytest.raises(FireironError) as caught:  # and no fraction is dropped without a word
            gemm(a, a, epilog=function, c=c)
        assert caught.value.code == "dtype-mismatch"
    with pytest.raises(FireironError) as caught:
        accumulator(i32) + Vector(16, "f32", name="c")
    assert caught.value.code == "fraction-of-integer"
    wide = gemm(a, a, epilog=lambda acc, c: cast(acc, "f64") + c, c=np.full(16, 1 / 3))
    assert wide.dtype == np.float64
    assert (wide == 16 + 1 / 3).all()


def test_an_output_has_the_type_that_the_epilog_converts_it_to() -> None:
    a = np.ones((16, 16), np.float16)
    assert gemm(a, a, epilog=lambda acc: acc * 2).dtype == np.float16
    assert gemm(a, a, epilog=lambda acc: cast(acc, "i8")).dtype == np.int8
    first, second = gemm(a, a, epilog=lambda acc: (cast(acc, "bf16"), acc))
    assert (first.dtype.name, second.dtype) == ("bfloat16", np.float16)


@pytest.mark.parametrize("name", ["a", "b", "A", "out1", "int", "block", "operand0", "self", "_x", "x__y", "blocks"])
def test_operands_may_have_any_name(name: str) -> None:
    def epilog(acc: Any, **given: Any) -> Any:
        return acc * given[name] + given["operand_1"]

    near(gemm(A, B, epilog=epilog, schedule=small, **{name: BIAS, "operand_1": 2.0}), A @ B * BIAS + 2)
    near(gemm(A, B, epilog=epilog, schedule=small, **{name: 2.0, "operand_1": BIAS}), A @ B * 2 + BIAS)


REFUSED = {
    "wrong-shape": lambda: gemm(A, B[:-1]),
    "wrong-stride": lambda: gemm(drawn(40, 48)[::2, ::2], B),
    "wrong-stride ": lambda: gemm(drawn(4, 3, 20, 24)[::2], B, schedule=small),
    "bad-layout": lambda: gemm(A, B, layout="XX"),
    "bad-epilog": lambda: gemm(A, B, epilog=lambda acc: acc, bias=BIAS),
    "bad-op": lambda: gemm(A, B, epilog=lambda acc: acc[0]),
    "shape-mismatch": lambda: gemm(A, B, epilog=lambda acc, bias: acc + bias, bias=BIAS[:-1], schedule=small),
    "not-an-array": lambda: gemm(A, "B"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_misuse(code: str) -> None:
    with pytest.raises(FireironError) as caught:
        REFUSED[code]()
    assert caught.value.code == code.strip()
    assert caught.value.fix


def test_an_epilogue_that_lacks_its_operand() -> None:
    with pytest.raises(FireironError, match="does not take its operands"):
        gemm(A, B, epilog=lambda acc, bias: acc + bias)


def test_gradients_are_refused_of_what_is_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    class Tensor:
        requires_grad = True
        shape = (4, 4)

    torch = ModuleType("torch")
    torch.Tensor = Tensor  # pyright: ignore[reportAttributeAccessIssue]
    torch.is_grad_enabled = lambda: True  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(FireironError) as caught:
        gemm(Tensor(), Tensor(), out=Tensor())
    assert caught.value.code == "requires-grad"
    assert "detach" in (caught.value.fix or "")
