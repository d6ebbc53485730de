"""Outputs beside C, rows, prologs: every path computes what the reference says, in bounds that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    MatMul,
    Matrix,
    Thread,
    Vector,
    Warp,
    add,
    cast,
    clamp,
    conform,
    cp_async,
    custom,
    dequantise,
    dropout,
    equal,
    erf,
    exp,
    expm1,
    gelu,
    gelu_tanh,
    ldmatrix,
    log,
    log1p,
    matmul,
    maximum,
    normalise,
    normcdf,
    quantise,
    relu,
    row_max,
    row_sum,
    rsqrt,
    save,
    scale,
    sigmoid,
    silu,
    sqrt,
    staged,
    symbol,
    tanh,
    through_shared,
    vector,
    where,
)
from fireiron.language.decompositions import Epilog
from fireiron.verify.comparison import compare
from fireiron.verify.reference import mathematical, references

SIZES = ((64, 64, 32), (45, 36, 20))


@pytest.fixture
def held() -> Callable[..., Any]:
    """Simulate a schedule, and hold all that it writes against the reference."""

    def check(schedule: Any, sizes: dict[str, int] | None = None, **numbers: float) -> Any:
        found = schedule.simulate(**(sizes or {}), **numbers)
        expected = references(schedule, found.arrays, numbers)
        beside = [o.tensor for link in schedule.links if isinstance(link, Epilog) for o in link.outputs]
        for tensor in (schedule.matmul.C, *beside):
            array = mathematical(tensor, found.arrays[tensor.name])
            result = compare(tensor.name, array, expected[tensor.name], tensor.dtype)
            assert result.passed, str(result)
        return found

    return check


def plain(spec: Any, *ops: Any, put: Any = None, k: int = 8, prologs: Any = (), **epilog: Any) -> Any:
    """Give a block 32x32 elements: 128 threads in warps of 16x16."""
    chain = spec.tile(32, 32).to(Block)
    for operand, its in prologs:
        chain = chain.prolog(operand, *its)
    chain = chain.epilog(*ops, memory=RF, **epilog).split(k).pipeline(2)
    return (
        chain.load(A, SH, put or staged()).load(B, SH, put or staged())
        .tile(16, 16).to(Warp).tile(4, 2).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


def fragments(spec: Any, *ops: Any, prologs: Any = (), put: Any = None, take: Any = None, **epilog: Any) -> Any:
    """Give a block 64x64 elements: four warps of 32x32, by mma.sync."""
    chain = spec.tile(64, 64).to(Block)
    for operand, its in prologs:
        chain = chain.prolog(operand, *its)
    chain = chain.epilog(*ops, memory=FR, **epilog).split(32).pipeline(3)
    chain = chain.load(A, SH, put or cp_async()).pad(8).load(B, SH, put or cp_async()).pad(8)
    chain = chain.tile(32, 32).to(Warp).split(16).unroll()
    return chain.load(A, FR, take or ldmatrix()).load(B, FR, take or ldmatrix()).tile(16, 8).unroll().done()


def tensors(m: int, n: int) -> dict[str, Any]:
    return {
        "bias": Vector(n, name="bias"),
        "rows": Vector(m, name="rows", along=ColMajor),
        "full": Matrix(m, n, "f16", ColMajor, name="full"),
        "mask": Matrix(m, n, "u8", name="mask"),
    }


FUNCTIONS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
    "normcdf": normcdf,
    "clamp": lambda x: clamp(x, -1, 0.5),
    "exp": lambda x: exp(x * 0.1),
    "roots": lambda x: sqrt(abs(x)) + rsqrt(abs(x) + 1) + log(abs(x) + 1),
    "near one": lambda x: log1p(exp(x * 0.1)) + expm1(x * 0.1),
    "leaky": lambda x: where(x > 0, x, x * 0.01),
    "powers": lambda x: x**3 + 1.3 ** (x * 0.1) + (abs(x) + 1) ** -0.7 + abs(x) ** 0.5,
    "compared": lambda x: where(x >= 1, 1, where(x < -1, -1, equal(x, 0))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(held: Any, name: str) -> None:
    held(plain(matmul(45, 36, 20), FUNCTIONS[name]))


@pytest.mark.parametrize("size", SIZES)
def test_operands_of_every_shape(held: Any, size: tuple[int, int, int]) -> None:
    t = tensors(*size[:2])
    held(plain(matmul(*size), lambda x: (x + t["bias"]) * t["rows"] + t["full"]))
    held(plain(matmul(*size), dropout(t["mask"], 0.5)))
    held(plain(matmul(*size), scale("gamma"), add(Matrix(1, 1, name="one"))), gamma=2.5)
    held(fragments(matmul(*size, "f16"), lambda x: (x + t["bias"]) * t["rows"] + t["full"]))


def test_neighbours_are_read_as_vectors() -> None:
    m, n = symbol("M"), symbol("N", multiple_of=8)
    text = fragments(matmul(m, n, 64, "f16"), add(Vector(n, "f16", name="bias"))).cuda("sm_80")
    assert "bias_vec[e_in]" in text or "bias_vec[" in text
    assert "half bias_vec[2]" in text


@pytest.mark.parametrize("size", SIZES)
def test_outputs_beside(held: Any, size: tuple[int, int, int]) -> None:
    m, n, _ = size
    t = tensors(m, n)
    before, wide = Matrix(m, n, name="before"), Matrix(m, n, "f16", ColMajor, name="wide")
    held(plain(matmul(*size), add(t["bias"]), save(before), gelu, save(wide), relu))
    held(plain(matmul(*size), save(before), relu, store=through_shared(reuse=True)))
    held(plain(matmul(*size), save(wide, store=through_shared()), relu))
    found = held(fragments(matmul(*size, "f16"), save(before), silu, store=through_shared(reuse=True)))
    assert len(found.out) == 2
    apart = save(before, of=lambda x: relu(x) * t["bias"])  # the ops behind it do not see it
    held(plain(matmul(*size), add(t["bias"]), apart, save(wide), gelu, store=through_shared(reuse=True)))
    held(fragments(matmul(*size, "f16"), apart, save(wide, of=lambda x: x > 0), silu))


@pytest.mark.parametrize("size", SIZES)
def test_results_of_8_bits_saturate(held: Any, size: tuple[int, int, int]) -> None:
    held(plain(matmul(*size, out="i8"), quantise("i8", 40.0, 3.0)))
    held(plain(matmul(*size, out="u8"), quantise("u8", "inverse")), inverse=8.0)
    held(plain(matmul(*size, "i8", out="f16"), lambda x: cast(x, "f32") * tensors(*size[:2])["bias"]))
    ones = np.full(size[:1] + size[2:], 100.0, np.float32)
    found = plain(matmul(*size, out="i8"), quantise("i8", 1.0)).simulate(ones, np.ones(size[2:0:-1], np.float32))
    assert (found.out == 127).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("swapped", [False, True])
def test_rows(held: Any, size: tuple[int, int, int], swapped: bool) -> None:
    m, n, _ = size
    spec = matmul(*size).swap() if swapped else matmul(*size)
    sums, most = (Matrix(m, -(-n // 32), name=name) for name in ("sums", "most"))
    held(plain(spec, add(tensors(m, n)["bias"]), row_max(most), lambda x: x * x, row_sum(sums)))
    whole = Vector(m, "f64", name="sums", along=ColMajor)
    held(fragments(matmul(m, 60, 40, "f16"), relu, row_sum(whole), store=through_shared(reuse=True)))


def test_sums_of_rows_are_the_same_in_every_order() -> None:
    sums = Vector(64, name="sums", along=ColMajor)
    schedule = fragments(matmul(64, 64, 64, "f16"), row_sum(sums))
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float16)
    first, second = (schedule.simulate(a, b).arrays["sums"] for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("size", SIZES)
def test_ops_of_a_swapped_product_mean_the_same(held: Any, size: tuple[int, int, int]) -> None:
    m, n, k = size
    t = tensors(m, n)
    before = Matrix(m, n, name="before")
    held(plain(matmul(*size).swap(), lambda x: x * t["rows"] + t["bias"] + t["full"], save(before), relu))
    inner = Vector(k, name="inner")
    its = ((A, (scale(t["bias"]),)), (B, (scale(t["rows"]), scale(inner))))
    held(plain(matmul(*size).swap(), prologs=its))
    held(plain(matmul(*size).prolog(B, scale(t["bias"])).swap()))


def test_custom_functions(held: Any) -> None:
    mish = custom("mish", "x * tanhf(log1pf(expf(x)))", lambda x: x * np.tanh(np.log1p(np.exp(x))))
    schedule = plain(matmul(45, 36, 20), mish, mish)
    assert schedule.cuda().count("float custom_mish(float x)") == 1
    held(schedule)
    blend = custom("blend", "return x + t * (y - x);", lambda x, y, t: x + t * (y - x), parameters=("x", "y", "t"))
    held(plain(matmul(45, 36, 20), lambda x: blend(x, Vector(36, name="bias"), 0.25)))


PUTS = {"staged": staged, "vector": vector}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("put", PUTS)
def test_prologs(held: Any, size: tuple[int, int, int], put: str) -> None:
    m, n, k = size
    its = ((A, (relu, lambda x: x + 1)), (B, (scale(Vector(n, name="s")), lambda x: x + 2)))
    held(plain(matmul(*size), prologs=its, put=PUTS[put]()))
    mean, rstd = (Vector(m, name=name, along=ColMajor) for name in ("mean", "rstd"))
    norm = normalise(mean, rstd, Vector(k, name="gain"), Vector(k, name="shift"))
    held(plain(matmul(*size), relu, prologs=((A, (norm,)),), put=PUTS[put]()))


def test_a_prolog_may_wait_for_the_registers_of_the_atoms(held: Any) -> None:
    chain = matmul(45, 36, 20).tile(32, 32).to(Block).prolog(A, lambda x: x + 1).epilog(memory=RF).split(8)
    chain = chain.load(A, SH, cp_async()).load(B, SH).tile(16, 16).to(Warp).tile(4, 2).to(Thread).split(1).unroll()
    held(chain.load(A, RF).load(B, RF).tile(1, 1).unroll().done())


@pytest.mark.parametrize(("size", "layout"), [(SIZES[0], x) for x in ("NN", "NT", "TN", "TT")] + [((45, 36, 40), "TN")])
def test_prologs_of_fragments(held: Any, size: tuple[int, int, int], layout: str) -> None:
    its = ((A, (relu,)), (B, (lambda x: x + 1,)))
    held(fragments(matmul(*size, "f16", layout=layout), prologs=its))
    held(fragments(matmul(*size, "f16", layout=layout), prologs=its, take=conform()))


@pytest.mark.parametrize("weights", ["i8", "u8", "i4", "u4"])
@pytest.mark.parametrize("size", [(64, 64, 64), (45, 36, 40)])
def test_quantised_weights(held: Any, size: tuple[int, int, int], weights: str) -> None:
    m, n, k = size
    b = Matrix(k, n, weights, ColMajor, name="B")
    scales, zeros = (Matrix(k // 8, n, "f16", name=name) for name in ("scales", "zeros"))
    spec = MatMul(Matrix(m, k, "f16"), b, Matrix(m, n, "f16"))
    its = ((B, (dequantise("f16", scales, zeros),)),)
    held(plain(spec, prologs=its, k=16))
    held(fragments(spec, prologs=its, put=staged()))
    if weights == "i8":
        held(plain(MatMul(spec.matmul.A, Matrix(k, n, "i8"), spec.matmul.C), prologs=its))


def test_what_does_not_exist_is_zero_behind_a_prolog(held: Any) -> None:
    """Both operands get values where K has ended, whose products must not count."""
    its = ((A, (lambda x: x + 1,)), (B, (lambda x: maximum(x, 1),)))
    found = held(plain(matmul(32, 32, 5), prologs=its))
    a, b = found.arrays["A"].astype(np.float64), found.arrays["B"].astype(np.float64)
    assert np.allclose(found.out, (a + 1) @ np.maximum(b, 1), rtol=1e-4, atol=1e-4)


def test_then_is_applied_first(held: Any) -> None:
    spec = matmul(45, 36, 20).then(relu)
    found = held(plain(spec, lambda x: x + 1))
    assert (found.out >= 1).all()
