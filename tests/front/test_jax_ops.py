"""Products of JAX arrays, traced by jit, grad and vmap, on the simulator: values and gradients against JAX's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, cast, custom, gelu, relu, silu, sqrt, tanh
from fireiron.jit.driver import probe

jax: Any = pytest.importorskip("jax", reason="JAX is not installed")
jnp: Any = jax.numpy
gemm: Any = __import__("fireiron.jax", fromlist=["gemm"]).gemm
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Simulate, where JAX sees a GPU too: what runs there is tested in tests/gpu/test_jax.py."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def drawn(*shape: int) -> Any:
    return jnp.asarray(RNG.standard_normal(shape).astype(np.float32))


def test_jit_computes_what_jax_does() -> None:
    x, w, bias = drawn(20, 24), drawn(32, 24), drawn(32)

    @jax.jit
    def layer(x: Any, w: Any, bias: Any, s: Any) -> Any:
        return gemm(2 * x, w, layout="TN", epilog=lambda acc, bias, s: gelu(acc + bias) * s, bias=bias, s=s)

    wanted = jax.nn.gelu(2 * x @ w.T + bias, approximate=False) * 0.5
    assert np.allclose(layer(x, w, bias, 0.5), wanted, rtol=1e-4, atol=1e-4)
    several = jax.jit(lambda x, w: gemm(x, w.T, epilog=lambda acc: (relu(acc), cast(acc > 0, "u8"))))(x, w)
    assert [y.dtype.name for y in several] == ["float32", "uint8"]
    assert np.array_equal(several[1], x @ w.T > 0)


def test_vmap_and_half_precision() -> None:
    xs, w = drawn(3, 8, 16).astype(jnp.bfloat16), drawn(16, 8).astype(jnp.bfloat16)
    found = jax.vmap(lambda x: gemm(x, w))(xs)
    assert found.dtype == jnp.bfloat16
    assert np.allclose(found.astype(np.float32), (xs @ w).astype(np.float32), rtol=2e-2, atol=2e-2)


def test_shapes_are_checked_where_it_is_traced() -> None:
    with pytest.raises(FireironError) as caught:
        jax.eval_shape(lambda x: gemm(x, x), drawn(8, 16))
    assert caught.value.code == "wrong-shape"


def test_a_call_is_a_foreign_function_of_xla() -> None:
    lowered = jax.jit(lambda x, w: gemm(x, w, layout="TN", epilog=relu)).lower(drawn(8, 16), drawn(8, 16)).as_text()
    assert "fireiron_gemm" in lowered
    assert "callback" not in lowered


@pytest.mark.skipif(not probe().problem, reason="where there is a GPU, nothing is simulated")
def test_errors_of_a_run_are_raised_by_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREIRON_SIMULATION_S", "soon")
    with pytest.raises(Exception, match="bad-limit"):
        jax.jit(gemm)(drawn(8, 16), drawn(16, 8)).block_until_ready()


def agree(ours: Callable[..., Any], theirs: Callable[..., Any], *given: Any, within: float = 1e-4) -> None:
    """Compare values and all gradients with JAX's own."""

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        def of(*given: Any) -> Any:
            made = function(*given)
            parts = made if isinstance(made, tuple) else (made,)
            return sum((x.astype(jnp.float32) * jnp.linspace(-1, 1, x.size).reshape(x.shape)).sum() for x in parts)

        return of

    for got, want in zip(jax.tree.leaves(jax.jit(ours)(*given)), jax.tree.leaves(theirs(*given)), strict=True):
        assert got.dtype == want.dtype
        assert np.allclose(got.astype(np.float32), want.astype(np.float32), rtol=within, atol=within)
    places = tuple(range(len(given)))
    pairs = zip(*(jax.jit(jax.grad(loss(f), places))(*given) for f in (ours, theirs)), strict=True)
    for got, want in pairs:
        assert got.dtype == want.dtype
        assert np.allclose(got.astype(np.float32), want.astype(np.float32), rtol=within, atol=within)


EPILOGS: dict[str, Any] = {
    "gelu": (lambda acc, c: gelu(acc + c), lambda y, c: jax.nn.gelu(y + c, approximate=False)),
    "bias": (lambda acc, c: acc + c, lambda y, c: y + c),
    "gated": (lambda acc, c: silu(acc) * c, lambda y, c: jax.nn.silu(y) * c),
    "several": (lambda acc, c: (relu(acc + c), acc * c), lambda y, c: (jax.nn.relu(y + c), y * c)),
    "product kept": (lambda acc, c: (tanh(acc) * c, acc), lambda y, c: (jnp.tanh(y) * c, y)),
    "root": (lambda acc, c: sqrt(acc * acc + 1) ** 1.5 / (c * c + 1), lambda y, c: (y * y + 1) ** 0.75 / (c * c + 1)),
}


@pytest.mark.parametrize("name", EPILOGS)
def test_gradients_of_epilogs(name: str) -> None:
    epilog, wanted = EPILOGS[name]

    def ours(x: Any, w: Any, c: Any) -> Any:
        return gemm(x, w, layout="row,col", epilog=epilog, c=c)

    agree(ours, lambda x, w, c: wanted(x @ w.T, c), drawn(6, 8), drawn(16, 8), drawn(16))
    agree(ours, lambda x, w, c: wanted(x @ w.T, c), drawn(6, 8), drawn(16, 8), drawn(6, 1))


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("batches", [((), ()), ((2,), ()), ((2,), (2,))], ids=["one", "b serves all", "batches"])
def test_gradients_of_layouts_and_batches(layout: str, batches: Any) -> None:
    first, second = batches
    a = drawn(*first, 8, 4) if layout[1] == "T" else drawn(*first, 4, 8)
    b = drawn(*second, 12, 8) if layout[0] == "T" else drawn(*second, 8, 12)

    def theirs(a: Any, b: Any) -> Any:
        return (a.swapaxes(-1, -2) if layout[1] == "T" else a) @ (b.swapaxes(-1, -2) if layout[0] == "T" else b)

    agree(lambda a, b: gemm(a, b, layout=layout), theirs, a, b)


@pytest.mark.parametrize("lead", [(2, 1), (1, 3), (3,), (1, 1)], ids=str)
def test_operands_are_broadcast_over_leading_dimensions(lead: tuple[int, ...]) -> None:
    agree(
        lambda a, b, c: gemm(a, b, epilog=lambda acc, c: acc * c, c=c), lambda a, b, c: a @ b * c,
        drawn(2, 3, 4, 8), drawn(8, 12), drawn(*lead, 4, 12),
    )  # fmt: skip


def test_gradients_in_half_precision_by_number_and_scalar() -> None:
    x, w, s = drawn(8, 16).astype(jnp.bfloat16), drawn(16, 8).astype(jnp.bfloat16), jnp.float32(0.5)
    agree(
        lambda x, w, s: gemm(x, w, epilog=lambda acc, s, t: relu(acc * s) * t, s=s, t=3),
        lambda x, w, s: (jax.nn.relu(jnp.matmul(x, w, preferred_element_type=jnp.float32) * s) * 3).astype(x.dtype),
        x, w, s, within=3e-2,
    )  # fmt: skip
    agree(jax.vmap(gemm), jnp.matmul, drawn(2, 4, 8), drawn(2, 8, 4))


def test_only_what_is_needed_is_computed() -> None:
    def products(*places: int) -> int:
        text = jax.jit(jax.grad(lambda x, w: gemm(x, w, epilog=relu).sum(), places)).lower(drawn(4, 8), drawn(8, 4))
        return text.as_text().count("@fireiron_gemm(")

    assert [products(0), products(1), products(0, 1)] == [2, 2, 3]


def test_what_has_no_gradient_is_refused() -> None:
    x = drawn(8, 8)
    ints = jnp.ones((8, 8), jnp.int8)
    twice = custom("twice", "x * 2.0f", lambda x: 2 * x)

    def code(function: Callable[[Any], Any], given: Any) -> str:
        with pytest.raises(FireironError) as caught:
            jax.grad(function)(given)
        return caught.value.code

    assert code(lambda x: gemm(x, x, epilog=lambda acc: twice(acc)).sum(), x) == "no-derivative"
    assert code(lambda s: gemm(ints, ints, epilog=lambda acc, s: cast(acc, "f32") * s, s=s).sum(), x) == "requires-grad"
    signs = jax.grad(lambda x: gemm(x, x, epilog=lambda acc: (acc, cast(acc > 0, "u8")))[0].sum())(x)
    assert np.allclose(signs, jax.grad(lambda x: (x @ x).sum())(x), rtol=1e-4, atol=1e-4)


def test_floats_beside_sums_of_integers_stay_floats() -> None:
    a, c = jnp.ones((16, 16), jnp.int8), jnp.full(16, 0.5)
    made = jax.jit(lambda a, c: gemm(a, a, epilog=lambda acc, c, s: cast(acc, "f32") * c + s, c=c, s=0.25))(a, c)
    assert made.dtype == jnp.float32
    assert (made == 8.25).all()
    assert (jax.jit(lambda a: gemm(a, a, epilog=lambda acc, s: acc * s, s=2))(a) == 32).all()
