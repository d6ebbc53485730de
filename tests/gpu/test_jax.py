"""Products and attention of JAX arrays on a GPU, in XLA's memory and on its stream: values and gradients."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fireiron import cast, gelu, relu, tanh

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other processes of these tests need memory too
jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
fj = __import__("fireiron.jax", fromlist=["gemm"])
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def exact_products():
    """Let JAX multiply f32 as f32 is; by default it takes tf32 on these GPUs. Skip where JAX sees no GPU."""
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX has no GPU: {error}")
    with jax.default_device(device), jax.default_matmul_precision("highest"):
        yield


def whole(*shape, dtype="float16", limit=4):
    return jnp.asarray(RNG.integers(-limit, limit + 1, shape)).astype(dtype)


def drawn(*shape, dtype="float32", scale=1.0):
    return jnp.asarray(RNG.standard_normal(shape) * scale).astype(dtype)


def product(a, b):
    """Multiply whole numbers exactly."""
    return np.asarray(a).astype(np.float64) @ np.asarray(b).astype(np.float64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 384), (200, 72, 136), (33, 17, 65), (128, 128, 16384)])
def test_products_of_whole_numbers(m, n, k, dtype):
    a, b = whole(m, k, dtype=dtype, limit=1), whole(k, n, dtype=dtype, limit=1)
    c = whole(n, dtype="float32")

    @jax.jit
    def function(a, b, c):
        return fj.gemm(a, b, epilog=lambda acc, c: (relu(cast(acc, "f32") + cast(c, "f32")), cast(acc > 3, "u8")), c=c)

    made = function(a, b, c)
    right = product(a, b)
    assert np.array_equal(np.asarray(made[0]), np.maximum(right + np.asarray(c), 0).astype(made[0].dtype))
    assert np.array_equal(np.asarray(made[1]), right > 3)


def test_kernels_stand_in_the_order_of_xlas_own():
    x, w = whole(512, 512, dtype="float16", limit=1), whole(512, 512, limit=1)

    @jax.jit
    def chain(x, w):
        for _ in range(6):  # each waits for XLA's kernel ahead of it, and XLA's waits for it
            x = jnp.sin(x.astype(jnp.float32)) > 0
            x = fj.gemm(x.astype(jnp.float16), w, epilog=lambda acc: cast(acc, "f32")) % 3
        return x

    def usual(x, w):
        for _ in range(6):
            x = (jnp.sin(x.astype(jnp.float32)) > 0).astype(jnp.float32) @ w.astype(jnp.float32) % 3
        return x

    want = np.asarray(usual(x, w))
    for _ in range(50):
        assert np.array_equal(np.asarray(chain(x, w)), want)


def test_scan_vmap_and_donated_arrays():
    x, w = whole(4, 64, 64, limit=1), whole(64, 64, limit=1)
    mapped = jax.jit(jax.vmap(lambda x: fj.gemm(x, w)))(x)
    assert np.array_equal(np.asarray(mapped).astype(np.float64), product(x, w))

    def step(x, _):
        made = jnp.sign(fj.gemm(x, w))
        return made, made.sum()

    scanned, sums = jax.jit(lambda x: jax.lax.scan(step, x, None, length=5))(x[0])
    want = x[0]
    for one in np.asarray(sums):
        want = jnp.sign(want @ w)
        assert one == want.sum()
    assert np.array_equal(scanned, want)
    held = np.asarray(x[1])
    given = jax.jit(lambda x: fj.gemm(x, w), donate_argnums=0)(x[1].copy())
    assert np.array_equal(np.asarray(given).astype(np.float64), product(held, w))


def agree(ours, theirs, *given, within):
    """Compare values and gradients with JAX's own in f32: within a part of the largest value."""
    wide = [x.astype(jnp.float32) for x in given]
    weight = None

    def loss(function):
        return lambda *x: (function(*x).astype(jnp.float32) * weight).sum()

    made, want = jax.jit(ours)(*given), theirs(*wide)
    weight = drawn(*want.shape)
    places = tuple(range(len(given)))
    pairs = [(made, want)]
    pairs += zip(jax.jit(jax.grad(loss(ours), places))(*given), jax.grad(loss(theirs), places)(*wide), strict=True)
    for got, want in pairs:
        got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
        assert np.abs(got - want).max() <= within * np.abs(want).max()


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_gradients_of_products(dtype, within):
    x, w, c = drawn(256, 384, dtype=dtype), drawn(512, 384, dtype=dtype, scale=0.05), drawn(512, dtype=dtype)
    agree(
        lambda x, w, c: fj.gemm(x, w, layout="TN", epilog=lambda acc, c: gelu(acc + c), c=c),
        lambda x, w, c: jax.nn.gelu(x @ w.T + c, approximate=False),
        x, w, c, within=within,
    )  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [64, 128])
def test_attention_and_its_gradients(width, causal):
    q = drawn(2, 8, 320, width, dtype="bfloat16")
    k, v = (drawn(2, 2, 320, width, dtype="bfloat16") for _ in range(2))
    seen = np.arange(320)[:, None] >= np.arange(320) if causal else True

    def usual(q, k, v):
        k, v = (jnp.repeat(x, 4, 1) for x in (k, v))
        scores = 30 * jnp.tanh(jnp.einsum("bhid,bhjd->bhij", q, k) * width**-0.5 / 30)
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1) @ v

    def ours(q, k, v):
        return fj.attention(q, k, v, is_causal=causal, enable_gqa=True, score=lambda s: 30 * tanh(s / 30))

    agree(ours, usual, q, k, v, within=3e-2)
