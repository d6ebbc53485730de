"""The presets for tensor cores on the GPU, in every dtype and layout, against NumPy in f64 or int64."""

from __future__ import annotations

import random

import numpy as np
import pytest
from compiling import compiled
from verified import verified

from fireiron import conform, matmul, saturate, scale, through_shared
from fireiron.algebra.elements import pack, read
from fireiron.jit.driver import driver
from fireiron.jit.interface import Interface
from fireiron.schedules import ada, ampere, turing
from fireiron.verify.random_data import random_arrays

LAYOUTS = ("NN", "NT", "TN", "TT")
PRESETS = [
    *((ampere.gemm, d, x) for d in ("f16", "bf16", "tf32", "i8", "u8", "f64") for x in LAYOUTS),
    *((ada.gemm, d, x) for d in ("e4m3", "e5m2") for x in LAYOUTS),
    *((turing.gemm, d, x) for d in ("f16", "i8", "u8") for x in LAYOUTS),
    *((preset, d, "TN") for preset in (ampere.gemm, turing.gemm) for d in ("i4", "u4", "b1")),
]


@pytest.mark.parametrize(
    ("preset", "dtype", "layout"), PRESETS, ids=lambda x: x if isinstance(x, str) else x.__module__
)
def test_gemm(preset, dtype, layout):
    if dtype in ("e4m3", "e5m2") and driver().compute_capability(0) < 89:
        pytest.skip("8-bit floats need sm_89")
    for shape in ((256, 384, 160), (130, 76, 56), (61, 45, 40)):
        verified(preset(matmul(*shape, dtype, layout=layout)))


# The sizes of TVM's tutorial on tensor cores, and what they are permuted.
@pytest.mark.parametrize("shape", [(512, 32, 512), (32, 512, 512), (512, 512, 32)])
@pytest.mark.parametrize("preset", [ampere.gemm, turing.gemm], ids=["ampere", "turing"])
@pytest.mark.parametrize(
    ("dtype", "layout"), [*((d, x) for d in ("f16", "i8") for x in LAYOUTS), ("i4", "TN"), ("b1", "TN")]
)
def test_sizes_of_the_tutorial(preset, dtype, layout, shape):
    m, n = min(shape[0], 128), min(shape[1], 128)
    verified(preset(matmul(*shape, dtype, layout=layout), m=m, n=n, warp=(32, 32)))


@pytest.mark.parametrize("product", ["xor", "and"])
@pytest.mark.parametrize("preset", [ampere.gemm, turing.gemm], ids=["ampere", "turing"])
def test_products_of_bits(preset, product):
    verified(preset(matmul(128, 128, 1024, "b1", layout="TN", product=product)))


def test_f16_sums_in_f16():
    verified(ampere.gemm(matmul(128, 128, 64, "f16", layout="TN", acc="f16")))


def test_unpacked_arrays_are_packed_on_the_way():
    import ml_dtypes

    schedule = ampere.gemm(matmul(128, 128, 256, "i4", layout="TN"))
    kernel = schedule.compile()
    a, b = np.random.default_rng(0).integers(-8, 8, (2, 128, 256))
    wanted = a @ b.T
    assert np.array_equal(kernel(a.astype(ml_dtypes.int4), b.astype(ml_dtypes.int4)), wanted)
    i4 = schedule.matmul.A.dtype
    packed = pack(a.astype(np.int8), i4), pack(b.astype(np.int8), i4)
    assert np.array_equal(kernel(*packed), wanted)
    assert np.array_equal(read(packed[0], i4), a)


@pytest.mark.parametrize(
    "more",
    [
        {}, {"slots": 1}, {"slots": 3}, {"ring": 3}, {"stages": 2}, {"stages": 4, "k": 32, "ring": 4},
        {"m": 64, "n": 64, "warp": (32, 32), "k": 16},
        {"n": 128, "store": conform()}, {"n": 128, "fragments": conform()},
        {"store": through_shared(panel=(32, 256), pad=8)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(512, 512, 1024), (200, 328, 136)])
def test_pipelines_and_stores(shape, more):
    verified(ampere.gemm(matmul(*shape, "f16", layout="TN"), **more), seed=2)


@pytest.mark.parametrize(("dtype", "low", "high"), [("i8", -128, 127), ("u8", 0, 255)])
def test_scaled_and_saturated_integers(dtype, low, high):
    schedule = ampere.gemm(matmul(256, 512, 320, dtype, layout="TN", out=dtype), ops=(scale(0.03125), saturate(dtype)))
    arrays = random_arrays(Interface.of(schedule.lowered()), {}, seed=3)
    total = arrays["A"].astype("i8") @ arrays["B"].astype("i8").T
    got = compiled(schedule)(arrays["A"], arrays["B"], out=arrays["C"])
    assert np.array_equal(got, np.clip(np.rint(total * 0.03125), low, high).astype(got.dtype))


@pytest.mark.parametrize("step", [4, 8, 16])
def test_f64_by_sixteen_rows(step):
    verified(ampere.gemm(matmul(256, 192, 160, "f64"), k=16, stages=3, step=step, slots=1), seed=4)


@pytest.mark.parametrize("seed", range(10))
def test_random_sizes(seed):
    """Ten sizes a seed, multiples of 8 up to 4096 that no tile divides, of integers whose sums are exact."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    drawn = random.Random(seed)

    def size():
        return next(n for n in iter(lambda: 8 * drawn.randint(1, 512), None) if n % 64)

    for _ in range(10):
        m, n, k = size(), size(), size()
        layout = drawn.choice(("NN", "NT", "TN", "TT"))
        kernel = compiled(ampere.gemm(matmul(m, n, k, "f16", out="f32", layout=layout)))
        a, b = (
            torch.randint(-4, 5, [int(str(x)) for x in p.shape], device="cuda").half() for p in kernel.interface.inputs
        )
        left, right = a if layout[1] == "N" else a.T, b if layout[0] == "N" else b.T
        assert torch.equal(kernel(a, b), (left.double() @ right.double()).float()), (m, n, k, layout)


@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
@pytest.mark.parametrize("shape", [(512, 768, 640), (255, 129, 1003), (64, 64, 8)])
def test_f32_by_three_products_of_tf32_is_within_its_bound(shape, layout):
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
    schedule = ampere.gemm_tf32x3(matmul(m, n, k, "f32", layout=layout))
    given = (a.T.copy() if layout[1] == "T" else a), (b.T.copy() if layout[0] == "T" else b)
    found = np.asarray(schedule.compile()(*given))
    left, right = a.astype(np.float64), b.astype(np.float64)
    room = (20 + 6 * -(-k // 8)) * 2.0**-24 * (np.abs(left) @ np.abs(right))
    assert (np.abs(found - left @ right) <= room).all()


@pytest.mark.parametrize("layout", ["TN", "NN", "NT", "TT"])
@pytest.mark.parametrize("given", [{}, {"m": 64, "n": 64, "k": 16, "warp": (32, 32), "split_k": 3}])
def test_f32_on_cuda_cores_by_asynchronous_copies(layout, given):
    for m, n, k in ((512, 768, 640), (255, 129, 1003), (64, 64, 8)):
        rng = np.random.default_rng(k)
        a, b = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
        stored = (a.T.copy() if layout[1] == "T" else a), (b.T.copy() if layout[0] == "T" else b)
        found = np.asarray(ampere.sgemm(matmul(m, n, k, "f32", layout=layout), **given).compile()(*stored))
        left, right = a.astype(np.float64), b.astype(np.float64)
        assert (np.abs(found - left @ right) <= (k + 2) * 2.0**-24 * (np.abs(left) @ np.abs(right))).all()
