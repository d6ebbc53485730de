"""Products of JAX arrays, traced by jit and vmap, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, cast, gelu, relu

jax: Any = pytest.importorskip("jax", reason="JAX is not installed")
jnp: Any = jax.numpy
gemm: Any = __import__("fireiron.jax", fromlist=["gemm"]).gemm
RNG = np.random.default_rng(0)


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


def test_errors_of_a_run_are_raised_by_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREIRON_SIMULATION_S", "soon")
    with pytest.raises(Exception, match="bad-limit"):
        jax.jit(gemm)(drawn(8, 16), drawn(16, 8)).block_until_ready()
