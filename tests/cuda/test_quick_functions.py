"""tanh, divisions by constants and inverses on floats: without branches, and as near as their records say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import tensor, trace_graph
from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Arg, Binary, Constant, Unary
from fireiron.algebra.unary import FUNCTIONS, QUICK_ROUNDINGS
from fireiron.cuda.helpers import HELPERS
from fireiron.cuda.scalars import scalar
from fireiron.graph.nodes import Graph
from fireiron.jit.disassemble import disassemble

X = Arg(0, f32)


def fma(x: np.ndarray, y: np.ndarray | float, z: np.ndarray | float) -> np.ndarray:
    return (x.astype(np.float64) * y + z).astype(np.float32)


def printed(name: str, power: float = 1.0, inverse: float = 1.0) -> Callable[..., np.ndarray]:
    """Make a NumPy function of a printed one, each operation rounded to f32.

    Args:
        name: of the helper; its body has definitions of floats, and one choice at most.
        power: factor by which a power of 2 is off.
        inverse: factor by which an inverse is off.
    """
    known: dict[str, Any] = {
        "__fmul_rn": lambda x, y: np.float32(x) * np.float32(y),
        "fmaf": lambda x, y, z: fma(np.float32(x), np.float64(np.float32(y)), np.float64(np.float32(z))),
        "fabsf": np.abs,
        "copysignf": np.copysign,
        "exp2_approx": lambda x: (np.exp2(x.astype(np.float64)) * power).astype(np.float32),
        "inverse_quick": lambda x: (inverse / x.astype(np.float64)).astype(np.float32),
        "infinity": np.float32(np.inf),
        "where": np.where,
    }
    head, _, body = HELPERS[name].partition(") {\n")
    names = re.findall(r"float (\w+)[,)]", head + ")")
    body = re.sub(r"(\d)f\b", r"\1", body.replace("__int_as_float(0x7f800000)", "infinity"))
    body = re.sub(r"((?:fabsf\(\w+\)|\w+) < [\w.]+) \? (.+) : (.+?)(, x\))?;", r"where(\1, \2, \3)\4;", body)

    def call(*given: np.ndarray | np.float32) -> np.ndarray:
        values = known | dict(zip(names, given, strict=True))
        *lines, last = re.findall(r"(?:const float|return) (.+);", body)
        with np.errstate(all="ignore"):
            for line in lines:
                for name, text in re.findall(r"(\w+) = (.+?)(?=, \w+ = |$)", line):
                    values[name] = eval(text, values)
            return np.asarray(eval(last, values))

    return call


@pytest.mark.parametrize("power", [1 - 2**-22, 1.0, 1 + 2**-22])
@pytest.mark.parametrize("inverse", [1 - 2**-23, 1 + 2**-23])
def test_tanh_lies_as_near_as_its_record_says(power: float, inverse: float) -> None:
    x = np.concatenate([np.linspace(-20, 20, 400001), np.geomspace(1e-30, 1e38, 2001), [0.0]]).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    found = printed("tanh_fitted", power, inverse)(x).astype(np.float64)
    assert (np.abs(found - exact) <= FUNCTIONS["tanh"].roundings * 2.0**-24 * np.abs(exact)).all()
    near = np.abs(x) < 0.4
    assert (np.abs(found - exact)[near] <= 2.9 * 2.0**-24 * np.abs(exact[near])).all()


def test_ends_of_tanh() -> None:
    found = printed("tanh_fitted")(np.array([np.inf, -np.inf, -0.0, np.nan], np.float32))
    assert found[:3].tolist() == [1, -1, 0]
    assert np.signbit(found[2])
    assert np.isnan(found[3])


def test_tanh_is_as_long_as_its_record_says() -> None:
    def instructions(function: object) -> int:
        graph: Graph = trace_graph(function, tensor(1 << 20, dtype="f32"))  # type: ignore[arg-type]
        (kernel,) = graph.plan("sm_90a").kernels
        sass = disassemble(kernel.schedule.compile("sm_90a").cubin)
        return len(re.findall(r"\*/ +(?:@!?U?P\w+ )?(?:FFMA|FADD|FMUL|FSETP|FSEL|MUFU|FMNMX|LOP3|MOV)", sass))

    more = instructions(np.tanh) - instructions(lambda x: x * 3.0)
    each = 8  # elements of a thread
    assert each * (FUNCTIONS["tanh"].slots - 3) <= more <= each * FUNCTIONS["tanh"].slots


@pytest.mark.parametrize("by", [20.0, 3.0, -49.0, 0.1, 1e-20, 2.0**98 * 3])
def test_quotients_by_constants_are_rounded_once(by: float) -> None:
    text = scalar(Binary("div", X, Constant(by, f32)), ("x",))
    assert text.startswith("divide_by(x, ")
    y = np.float32(by)
    inverse = np.float32(1 / np.float64(y))
    x = np.random.default_rng(5).standard_normal(100_000).astype(np.float32) * np.float32(1000)
    x = np.concatenate([x, np.float32(by) * np.arange(1, 2000, dtype=np.float32), [0.0, np.inf]]).astype(np.float32)
    np.testing.assert_array_equal(printed("divide_by")(x, y, inverse), x / y)


def test_which_quotients_are_quick() -> None:
    one = Constant(1, f32)
    power = Binary("add", one, Unary("exp2", X))
    assert scalar(Binary("div", one, power), ("x",)).startswith("inverse_quick(")
    assert scalar(Binary("div", X, power), ("x",)).startswith("divide_quick(")
    assert scalar(Binary("div", X, Constant(8, f32)), ("x",)) == "x / 8.0f"
    assert scalar(Binary("div", X, Constant(2.0**120 * 3, f32)), ("x",)).startswith("x / ")
    assert QUICK_ROUNDINGS >= 2  # one unit in the last place, of an inverse
