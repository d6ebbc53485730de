"""Programs of products and pointwise steps: each form of the Volta generator has a schedule that computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, best, einsum, program, relu, sigmoid, tensor


@program(a="m k", b="k n")
def plain(a: Any, b: Any) -> Any:
    return einsum("mk,kn->mn", a, b)


@program(a="m k", b="n k")
def ahead(a: Any, b: Any) -> Any:
    return einsum("mk,nk->mn", relu(a), b)


@program(a="m k", b="k n", bias="n", c="m n")
def behind(a: Any, b: Any, bias: Any, c: Any) -> Any:
    return relu(einsum("mk,kn->mn", a, b) + bias) - c


@program(a="m k", b="k n", c="m j", d="j n", bias="n")
def two(a: Any, b: Any, c: Any, d: Any, bias: Any) -> Any:
    return sigmoid(einsum("mk,kn->mn", a, b) + einsum("mj,jn->mn", c, d) + bias)


@program(bias="n", a="m k", b="k n")
def turned(bias: Any, a: Any, b: Any) -> Any:
    return einsum("mk,kn->mn", a, b) + bias


@program(a="m k", b="k n", c="n j")
def chained(a: Any, b: Any, c: Any) -> Any:
    return einsum("mn,nj->mj", einsum("mk,kn->mn", a, b), c)


FORMS: dict[str, tuple[Any, list[tuple[int, ...]], Any]] = {
    "a product": (plain, [(64, 32), (32, 48)], lambda a, b: a @ b),
    "pointwise ahead": (ahead, [(64, 32), (48, 32)], lambda a, b: np.maximum(a, 0) @ b.T),
    "pointwise behind": (
        behind, [(64, 32), (32, 48), (48,), (64, 48)], lambda a, b, v, c: np.maximum(a @ b + v, 0) - c,
    ),
    "two products": (
        two, [(64, 32), (32, 48), (64, 16), (16, 48), (48,)],
        lambda a, b, c, d, v: 1 / (1 + np.exp(-(a @ b + c @ d + v))),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "arch"),
    [
        ("a product", "sm_70"), ("pointwise ahead", "sm_90a"), ("pointwise behind", "sm_70"), ("two products", "sm_70"),
        ("two products", "sm_90a"),
    ],
)  # fmt: skip
def test_a_form_of_the_volta_generator(form: str, arch: str) -> None:
    function, shapes, wanted = FORMS[form]
    schedule = best(function(*(tensor(*shape, dtype="f16") for shape in shapes)), arch)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float16") for shape in shapes]
    made = np.asarray(schedule.simulate(*arrays).out, "float64")
    np.testing.assert_allclose(made, wanted(*(x.astype("float64") for x in arrays)), rtol=4e-3, atol=4e-3)


def test_products_of_f32() -> None:
    schedule = best(plain(tensor(32, 16), tensor(16, 24)), "sm_80")
    a, b = np.arange(512, dtype="f").reshape(32, 16) % 7, np.arange(384, dtype="f").reshape(16, 24) % 5
    np.testing.assert_array_equal(schedule.simulate(a, b).out, a @ b)


def test_another_order_of_arrays_and_another_shape_are_refused() -> None:
    square = tensor(32, 32, dtype="f16")
    with pytest.raises(FireironError, match="another order"):
        best(turned(tensor(32, dtype="f16"), square, square), "sm_80")
    with pytest.raises(FireironError, match="nothing-legal"):
        best(chained(square, square, square), "sm_80")
