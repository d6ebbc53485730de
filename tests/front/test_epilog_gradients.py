"""Gradients of epilogs, computed on NumPy arrays in f64, against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fireiron import cast, gelu, normcdf, relu, silu, sqrt, where
from fireiron.algebra.dtypes import DType, f32
from fireiron.algebra.unary import FUNCTIONS
from fireiron.front.epilog_gradients import gradients, keeping, keeps, reads_product, results
from fireiron.front.epilog_text import text_of


class NumPy:
    """Compute on NumPy arrays in f64, whatever the type."""

    def function(self, op: str) -> Callable[..., Any]:
        names = {
            "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum", "min": "minimum",
            "lt": "less", "le": "less_equal", "eq": "equal", "pow": "power",
        }  # fmt: skip
        return FUNCTIONS[op].numpy if op in FUNCTIONS else getattr(np, names[op])

    def constant(self, value: float, dtype: DType, like: Any) -> Any:
        return np.float64(value)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def cast(self, x: Any, dtype: DType) -> Any:
        return np.asarray(x, np.float64)

    def summed(self, x: Any, shape: Sequence[int]) -> Any:
        x = x.sum(tuple(range(x.ndim - len(shape))))
        return x.sum(tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1), keepdims=True)


EPILOGS: dict[str, tuple[Any, Any]] = {
    "gelu": (lambda acc, c, n: gelu(acc + c) * n, lambda y, c: (0.5 * (y + c) * _twice_cdf(y + c) * 3,)),
    "gated": (lambda acc, c, n: silu(acc) * c + n, lambda y, c: (y / (1 + np.exp(-y)) * c + 3,)),
    "two": (lambda acc, c, n: (relu(acc - n), acc / (c * c + 1)), lambda y, c: (np.maximum(y - 3, 0), y / (c * c + 1))),
    "choice": (
        lambda acc, c, n: where(acc > c, sqrt(acc * acc + n), normcdf(c)),
        lambda y, c: (np.where(y > c, np.sqrt(y * y + 3), _twice_cdf(c) / 2),),
    ),
}  # fmt: skip


def _twice_cdf(x: Any) -> Any:
    return 2 * FUNCTIONS["normcdf"].numpy(np.asarray(x, np.float64))


@pytest.mark.parametrize("name", EPILOGS)
@pytest.mark.parametrize("shape", [(5,), (4, 1)], ids=["a row", "a column"])
def test_gradients_are_slopes(name: str, shape: tuple[int, ...]) -> None:
    epilog, meaning = EPILOGS[name]
    rng = np.random.default_rng(1)
    y, c = rng.standard_normal((4, 5)), rng.standard_normal(shape)
    weights = [rng.standard_normal((4, 5)) for _ in meaning(y, c)]
    text = text_of(epilog, (("c", "f32"),), (("n", float),), "f32")
    by_y, (by_c,) = gradients(text, f32, NumPy(), y, [c], {"n0": 3.0}, weights, [True])

    def slope(x: Any, at: Callable[[Any], Any]) -> Any:
        found = np.zeros_like(x)
        for place in np.ndindex(*x.shape):
            step = np.zeros_like(x)
            step[place] = 1e-6
            ahead, behind = (
                sum((w * one).sum() for w, one in zip(weights, at(x + s), strict=True)) for s in (step, -step)
            )
            found[place] = (ahead - behind) / 2e-6
        return found

    assert np.allclose(by_y, slope(y, lambda y: meaning(y, c)), rtol=1e-6, atol=1e-7)
    assert by_c.shape == shape
    assert np.allclose(by_c, slope(c, lambda c: meaning(y, c)), rtol=1e-6, atol=1e-7)


def test_what_is_0_or_not_wanted_is_none() -> None:
    text = text_of(lambda acc, c: acc + c, (("c", "f32"),), (), "f32")
    ones = np.ones((2, 3))
    assert gradients(text, f32, NumPy(), None, [ones], {}, [None], [True]) == (None, [None])
    by_y, by_c = gradients(text, f32, NumPy(), None, [ones], {}, [ones], [False])
    assert np.array_equal(by_y, ones)
    assert by_c == [None]
    assert gradients("", f32, NumPy(), None, [], {}, [ones], [])[0] is not None


def test_the_product_is_kept_where_a_gradient_reads_it() -> None:
    plain = text_of(lambda acc, c: acc * 2 + c, (("c", "f32"),), (), "f32")
    bent = text_of(lambda acc, c: gelu(acc + c), (("c", "f32"),), (), "f32")
    assert not reads_product(plain, 1)
    assert reads_product(bent, 1)
    assert not keeps(bent)
    assert keeps(keeping(bent))
    assert not keeps("")
    several = text_of(lambda acc: (acc, cast(acc > 0, "u8"), acc * 2), (), (), "f16")
    from fireiron.algebra.dtypes import dtype

    assert [kind.name for kind in results(several, dtype("f16"))] == ["f16", "u8", "f16"]
    assert [kind.name for kind in results("", dtype("f16"))] == ["f16"]
