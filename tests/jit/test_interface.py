import json

import pytest
from tiny_kernel import make_kernel

from fireiron.algebra.expr import and_, ceil_div, eq, lt, maximum, minimum, select, symbol
from fireiron.algebra.expr import evaluate as evaluate_tree
from fireiron.jit.expression import evaluate, names_in, text_of
from fireiron.jit.interface import Interface, NumberParameter, PointerParameter, SizeParameter, SizeSymbol

M, N = symbol("M"), symbol("N")
EXPRESSIONS = [
    M,
    M * 0 + 7,
    ceil_div(M, 128) * ceil_div(N, 64),
    M * N * 3 - 5,
    -M + 4 * N,
    (M * 5 + 3) % 7,
    (M // 3) ^ (N // 2),
    (M & 12) | (N % 3),
    minimum(M, N) + maximum(M, 40),
    select(lt(M, N), M, N * 2),
    and_(lt(M, 100), eq(N % 2, 0)),
    M << (N % 3),
]


@pytest.mark.parametrize("e", EXPRESSIONS, ids=str)
def test_text_means_the_same_everywhere(e):
    text = text_of(e)
    for m in (1, 2, 7, 63, 128, 1000):
        for n in (1, 2, 9, 64, 77):
            assert evaluate(text, {"M": m, "N": n}) == evaluate_tree(e, {"M": m, "N": n})


@pytest.mark.parametrize(
    "text", ["__import__('os')", "M.real", "[1][0]", "'a'", "1.5", "print(M)", "lambda: 1", "M +", "f(M)"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="not an index expression"):
        evaluate(text, {"M": 1})


def test_a_missing_name():
    assert names_in("min(M, (K // 2))") == ("M", "K")
    with pytest.raises(KeyError, match="K"):
        evaluate("min(M, (K // 2))", {"M": 1})


def test_derived_from_the_kernel():
    interface = Interface.of(make_kernel())
    assert interface.entry == "axpy"
    assert interface.threads == 128
    assert evaluate(interface.grid, {"M": 3, "N": 100}) == 3
    x, y, m, n, alpha = interface.parameters
    assert x == PointerParameter("X", "f32", ("M", "N"), ("N", "1"), "input")
    assert y.role == "output"
    assert (m, n) == (SizeParameter("M"), SizeParameter("N"))
    assert alpha == NumberParameter("alpha", "f32", 2.0)
    assert SizeSymbol("N", multiple_of=4, maximum=2**30) in interface.symbols
    assert interface.signature == "kernel(X, *, out=None, stream=None, alpha=2.0)"


def test_round_trip_through_json():
    interface = Interface.of(make_kernel())
    data = json.loads(json.dumps(interface.to_json()))
    assert Interface.from_json(data) == interface
    assert data["parameters"][0]["kind"] == "pointer"
    assert data["block"] == [128, 1, 1]
    assert data["tensor_maps"] == []


def test_nonsense_is_no_interface():
    data = Interface.of(make_kernel()).to_json()
    for field in ("grid", "parameters", "symbols"):
        with pytest.raises(KeyError):
            Interface.from_json({k: v for k, v in data.items() if k != field})
