"""Arrays of CuPy on a GPU: kernels, products, convolutions, attention and plans; on CuPy's stream, in its memory."""

from __future__ import annotations

import numpy as np
import pytest

import fireiron
from fireiron import cast, matmul, nn, relu
from fireiron.schedules import ampere

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")


def whole(*shape, dtype="float16", limit=2):
    return cupy.asarray(np.random.default_rng(sum(shape)).integers(-limit, limit + 1, shape)).astype(dtype)


def wide(x):
    return cupy.asnumpy(x).astype(np.float64)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 384), (33, 17, 65)])
def test_products_of_whole_numbers(m, n, k, dtype):
    a, b, c = whole(m, k, dtype=dtype), whole(k, n, dtype=dtype), whole(n, dtype="float32")
    made, many = fireiron.gemm(
        a, b, epilog=lambda acc, c: (relu(cast(acc, "f32") + cast(c, "f32")), cast(acc > 3, "u8")), c=c
    )
    right = wide(a) @ wide(b)
    assert isinstance(made, cupy.ndarray)
    assert np.array_equal(wide(made), np.maximum(right + wide(c), 0))
    assert np.array_equal(cupy.asnumpy(many), right > 3)


def test_views_are_read_where_they_lie():
    a, b = whole(3, 96, 208)[1, :, 8:].T, whole(128, 160)[32:, :].T[::-1][::-1]  # 200 x 96, 160 x 96
    assert not a.flags.c_contiguous
    assert not b.flags.c_contiguous
    assert np.array_equal(wide(fireiron.gemm(a, b.T)), wide(a) @ wide(b.T))
    assert np.array_equal(wide(fireiron.gemm(a, b, layout="TN")), wide(a) @ wide(b).T)
    assert np.array_equal(wide(fireiron.gemm(b, a.T)), wide(b) @ wide(a).T)


def test_streams_and_given_outputs():
    a, b = whole(512, 512), whole(512, 512)
    right = wide(a) @ wide(b)
    out = cupy.empty((512, 512), np.float16)
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(50):
        with stream:  # the kernel stands behind the kernels that write its operand, and ahead of those that read it
            late = cupy.sqrt(cupy.square(a.astype(np.float32))) * cupy.sign(a.astype(np.float32))
            fireiron.gemm(late.astype(np.float16), b, out=out)
            read = out + 1
        stream.synchronize()
        assert np.array_equal(wide(read), right + 1)
        out.fill(0)
        cupy.cuda.Device().synchronize()


def test_a_kernel_makes_its_output():
    kernel = ampere.gemm(matmul(256, 256, 64, "f16", out="f32")).compile("sm_90")
    a, b = whole(256, 64), whole(64, 256)
    made = kernel(a, b)
    assert isinstance(made, cupy.ndarray)
    assert np.array_equal(wide(made), wide(a) @ wide(b))
    assert kernel.time(a, b).median_us > 0


def test_convolutions_pooling_and_attention():
    x, w = whole(2, 64, 14, 14, limit=1), whole(64, 64, 3, 3, limit=1)
    made = fireiron.conv2d(x, w, padding=1)
    padded, right = np.pad(wide(x), ((0, 0), (0, 0), (1, 1), (1, 1))), np.zeros((2, 64, 14, 14))
    for r in range(3):
        for s in range(3):
            right += np.einsum("nchw,kc->nkhw", padded[:, :, r : r + 14, s : s + 14], wide(w)[:, :, r, s])
    assert isinstance(made, cupy.ndarray)
    assert np.array_equal(wide(made), right)
    pooled = fireiron.max_pool2d(x, 2)
    assert np.array_equal(wide(pooled), wide(x).reshape(2, 64, 7, 2, 7, 2).max((3, 5)))
    q, k, v = (cupy.random.default_rng(n).standard_normal((1, 4, 160, 64), dtype=np.float32) for n in range(3))
    attended = fireiron.attention(*(x.astype(np.float16) for x in (q, k, v)))
    scores = np.einsum("bhid,bhjd->bhij", wide(q), wide(k)) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ wide(v)
    assert np.abs(wide(attended) - wanted).max() < 5e-3


def test_plans_of_graphs():
    def network(x, w, v):
        return nn.softmax(nn.relu(x @ w) @ v)

    x, w, v = whole(96, 64), whole(64, 128, limit=1), whole(128, 64, limit=1) / 16
    plan = fireiron.trace_graph(network, *(fireiron.tensor(*t.shape, dtype="f16") for t in (x, w, v))).plan("sm_90a")
    made = plan(x, w, v.astype(np.float16))
    scores = np.maximum(wide(x) @ wide(w), 0) @ wide(v)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert isinstance(made, cupy.ndarray)
    assert np.abs(wide(made) - weights / weights.sum(-1, keepdims=True)).max() < 5e-3


def test_what_no_kernel_computes_goes_by_the_host():
    x = whole(32, 48)
    plan = fireiron.trace_graph(
        lambda x: nn.relu(x) + x.sum(1, keepdims=True), fireiron.tensor(32, 48, dtype="f16")
    ).plan()
    plan.runner.failed = set(range(len(plan.launches)))
    made = plan(x)
    assert isinstance(made, cupy.ndarray)
    assert np.array_equal(wide(made), np.maximum(wide(x), 0) + wide(x).sum(1, keepdims=True))
