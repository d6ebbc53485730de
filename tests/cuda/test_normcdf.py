"""The normal distribution's integral on floats: a polynomial, as far off and as long as its record says."""

from __future__ import annotations

import re

import numpy as np

from fireiron import tensor, trace_graph
from fireiron.algebra.unary import FUNCTIONS
from fireiron.cuda.helpers import HELPERS
from fireiron.graph.nodes import Graph
from fireiron.jit.disassemble import disassemble
from fireiron.nn import gelu


def fitted(x: np.ndarray) -> np.ndarray:
    """Compute what the printed function does, each step rounded to f32."""
    text = HELPERS["normcdf_fitted"]
    first, *rest = re.findall(r"(-?\d\.\d+(?:e-?\d+)?)f[;)]", text.partition("beyond")[0])
    a, p = np.abs(x).astype(np.float64), np.full(x.shape, np.float32(first))
    for number in rest:
        with np.errstate(over="ignore"):  # far out the polynomial is -infinity
            p = (p * a + np.float64(np.float32(number))).astype(np.float32)
    beyond = np.exp2(p.astype(np.float64)).astype(np.float32)
    return np.where(x < 0, beyond, np.float32(1) - beyond)


def test_it_lies_as_near_as_its_record_says() -> None:
    x = np.concatenate([np.linspace(-40, 40, 160001), np.geomspace(1e-38, 1e38, 2001)]).astype(np.float32)
    record = FUNCTIONS["normcdf"]
    exact = record.numpy(x.astype(np.float64))
    found = fitted(x).astype(np.float64)
    least = np.finfo(np.float32).smallest_normal
    assert (np.abs(found - exact) <= record.roundings * 2.0**-24 * exact + record.stray + least).all()
    assert np.abs(found - exact).max() < 2.0**-22  # two units in the last place of 1


def test_ends_of_the_line() -> None:
    with np.errstate(all="ignore"):
        found = fitted(np.array([np.inf, -np.inf, np.nan], np.float32))
    assert found[:2].tolist() == [1, 0]
    assert np.isnan(found[2])


def instructions(function: object) -> int:
    graph: Graph = trace_graph(function, tensor(1 << 20, dtype="f32"))  # type: ignore[arg-type]
    (kernel,) = graph.plan("sm_90a").kernels
    sass = disassemble(kernel.schedule.compile("sm_90a").cubin)
    return len(re.findall(r"\*/ +(?:@!?U?P\w+ )?(?:FFMA|FADD|FMUL|FSETP|FSEL|MUFU|FMNMX|HFMA2)", sass))


def test_it_is_as_long_as_its_record_says() -> None:
    each = 8  # elements of a thread
    more = instructions(gelu) - instructions(lambda x: x * 3.0)
    assert each * (FUNCTIONS["normcdf"].slots - 1) <= more <= each * FUNCTIONS["normcdf"].slots


def test_its_meaning_in_f64_is_right_in_the_tail() -> None:
    """Far below 0 a rounding of x / sqrt(2) counts x * x times: 1e-13 at -37. Values by a continued fraction."""
    known = {
        -10.0: "0x1.26c75e84fb10dp-77", -12.3: "0x1.e1932138a6191p-115", -20.0: "0x1.c0bd0f1880783p-295",
        -30.0: "0x1.7795ad05ea397p-656", -37.0: "0x1.eaccc6bfeb0afp-995",
    }  # fmt: skip
    x, exact = np.array([*known]), np.array([float.fromhex(value) for value in known.values()])
    found = FUNCTIONS["normcdf"].numpy(x)
    assert (np.abs(found - exact) <= 4 * 2.0**-53 * exact).all()
    np.testing.assert_array_equal(FUNCTIONS["normcdf"].numpy(np.array([-np.inf, 0.0, np.inf])), [0.0, 0.5, 1.0])
