"""Row programs on the GPU, against their references: every carrier of a fold."""

from __future__ import annotations

import numpy as np
import pytest
from verified import verified

import fireiron as fi
from fireiron import RF, Block, Matrix, Vector, Warp, inplace, tensor, vector
from fireiron.schedules import normed_products, pointwise, rows


@pytest.mark.parametrize("width", [8, 48, 384, 1000, 3000, 8192, 16384])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_layernorm(gpu: int, width: int, dtype: str) -> None:
    gain, bias = Vector(width, dtype, name="gain"), Vector(width, dtype, name="bias")
    verified(rows.row(rows.layernorm(Matrix(37, width, dtype), gain, bias)))


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_a_cluster_shares_a_row(gpu: int, blocks: int) -> None:
    verified(rows.row(rows.softmax(Matrix(37, 8000, "f16")), blocks=blocks, warps=4))


@pytest.mark.parametrize("width", [8000, 65536, 262144])
def test_warps_of_a_cluster_meet_at_once(gpu: int, width: int) -> None:
    gain, bias = Vector(width, "bf16", name="gain"), Vector(width, "bf16", name="bias")
    blocks = 0 if width > 8000 else 2
    verified(rows.row(rows.softmax(Matrix(200, width, "bf16")), blocks=blocks, at_once=True), repeats=3)
    verified(rows.row(rows.layernorm(Matrix(200, width, "bf16"), gain, bias), blocks=blocks, at_once=True))


@pytest.mark.parametrize("shape", [(70, 136, 96), (1000, 1024, 768)])
def test_products_of_normed_rows(gpu: int, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    gain, bias = (Vector(k, "bf16", name=name) for name in ("gain", "bias"))
    verified(normed_products.mma(normed_products.rms_norm_matmul(Matrix(m, k, "bf16"), gain, Matrix(n, k, "bf16"))))
    x, w = Matrix(m, k, "bf16"), Matrix(n, k, "bf16")
    verified(normed_products.mma(normed_products.layernorm_matmul(x, gain, bias, w)))


@pytest.mark.parametrize("width", [768, 8192, 50000])
def test_gradients_and_losses(gpu: int, width: int) -> None:
    x, y, gain = Matrix(300, width, "bf16"), Matrix(300, width, "bf16"), Vector(width, "bf16", name="gain")
    verified(rows.row(rows.layernorm_backward(x, y, gain)))
    verified(rows.row(rows.cross_entropy_with_gradient(x, Vector(300, "i32", name="target"), out=("f32", "bf16"))))
    verified(rows.row(rows.quantised_rms_norm(x, gain, out=("i8", "f32"))))


@pytest.mark.parametrize(("places", "width"), [(3136, 96), (130, 24), (196, 768), (200, 2000)])
@pytest.mark.parametrize("apart", ["all", "some"])
def test_columns_may_lie_apart(gpu: int, apart: str, places: int, width: int) -> None:
    """As channels of pixels do: of all inputs, or of one."""
    lying = (width * places, 1, places)
    x = tensor(3, places, width, dtype="bf16", strides=lying)
    y = tensor(3, places, width, dtype="bf16", strides=lying if apart == "all" else (width * places, width, 1))
    gain, bias = Vector(width, "bf16", name="gain"), Vector(width, "bf16", name="bias")
    verified(rows.row(rows.add_layernorm.on(x="a p n", residual="a p n")(x, y, gain, bias, out=(x, y))))


def test_groups_of_channels(gpu: int) -> None:
    gain, bias = (tensor(32, 16, dtype="bf16", name=name) for name in ("gain", "bias"))
    verified(rows.row(rows.group_norm(tensor(8, 32, 16, 1024, dtype="bf16"), gain, bias)))


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("blocks", [1, 2])
def test_rows_on_their_way(gpu: int, blocks: int, stages: int) -> None:
    """Blocks loop over rows: there are more of them than run at once."""
    gain, bias = Vector(8200, "bf16", name="gain"), Vector(8200, "bf16", name="bias")
    verified(rows.row(rows.layernorm(Matrix(2000, 8200, "bf16"), gain, bias), blocks=blocks, stages=stages))


@pytest.mark.parametrize("width", [32768, 262144])
def test_rows_of_the_widest(gpu: int, width: int) -> None:
    verified(rows.row(rows.rms_norm(Matrix(200, width, "bf16"), Vector(width, "bf16", name="gain"))))


@pytest.mark.parametrize("blocks", [2, 4])
def test_sums_so_far_of_a_cluster(gpu: int, blocks: int) -> None:
    verified(rows.row(rows.cumsum(Matrix(300, 20000)), blocks=blocks))


def test_sums_so_far_of_blocks(gpu: int) -> None:
    """Each block waits for the one ahead of it; there are more blocks than run at once."""
    parts = rows.cumsum(Matrix(40, 300000)).tile(m=1).to(Block).split("n", ways=75, multiple_of=4).parallel(Block)
    parts = parts.split("n", ways=8, multiple_of=4).parallel(Warp)
    verified(parts.load("x", RF, vector()).epilog(memory=RF).done(), repeats=3)


@pytest.mark.parametrize("width", [384, 8192, 40000, 131072])
def test_an_output_over_its_input(gpu: int, width: int) -> None:
    """Rings and a cluster copy a row to shared memory before others of its threads write over it."""
    verified(rows.row(rows.softmax(Matrix(300, width, "bf16"), out=inplace("x"))))


def test_a_wide_row(gpu: int) -> None:
    verified(rows.row(rows.softmax(Matrix(5, 100000, "f16"))))


@pytest.mark.parametrize("width", [8, 100, 1024])
def test_lines_of_a_table(gpu: int, width: int) -> None:
    ids, table = Vector(3000, "i32", name="ids"), Matrix(5000, width, "bf16", name="table")
    verified(pointwise.pointwise(rows.embedding(ids, table)))


@pytest.mark.parametrize("width", [64, 768, 8192])
def test_gradients_of_what_all_rows_share(gpu: int, width: int) -> None:
    x, dy, gain = (
        Matrix(3000, width, "bf16"),
        Matrix(3000, width, "bf16", name="dy"),
        Vector(width, "bf16", name="gain"),
    )
    verified(rows.row(rows.layernorm_gradients(x, dy, gain, out=("bf16", "f32", "f32"))))
    verified(rows.row(rows.layernorm_gradients(x, dy, gain, out=("bf16", "f32", "f32")), two_levels=True))


@pytest.mark.parametrize(("m", "n"), [(300, 4000), (4000, 2056), (3, 100000)])
@pytest.mark.parametrize("k", [2, 8])
def test_the_largest_of_rows(gpu: int, k: int, m: int, n: int) -> None:
    """By two warps of a block, one warp, and 16, which pass by most columns."""
    verified(rows.row(rows.top(Matrix(m, n, "bf16"), k, out=("bf16", "i32"))))


@pytest.mark.parametrize("width", [8, 384, 1000, 8192, 70000])
def test_running_sums(gpu: int, width: int) -> None:
    verified(rows.row(rows.cumsum(Matrix(300, width, "bf16"))))


@pytest.mark.parametrize("width", [64, 80, 128])
def test_rotary_embeddings(gpu: int, width: int) -> None:
    cos, sin = (tensor(100, width // 2, name=name) for name in ("cos", "sin"))
    verified(pointwise.pointwise(rows.rotary_pairs(tensor(2, 100, 8, width, dtype="bf16", name="x"), cos, sin)))


def test_rows_without_elements(gpu: int) -> None:
    """They give what no points give; columns are a size that the call says."""
    x = fi.Matrix(fi.symbol("M"), fi.symbol("N", minimum=0), name="x")
    program = fi.program(x="m n")(lambda x: fi.logsumexp(x, "n", once=True))(x)
    chain = program.tile(m=1).to(fi.Block).split(n=1024).split("n", ways=4).parallel(fi.Warp)
    kernel = chain.load("x", fi.RF, fi.vector(4)).epilog(memory=fi.RF).done().compile()
    for width in (0, 5, 3000):
        given = np.random.default_rng(width).standard_normal((7, width)).astype(np.float32)
        wanted = np.log(np.exp(given.astype(np.float64)).sum(1)) if width else np.full(7, -np.inf)
        assert np.allclose(kernel(given), wanted, 1e-5, 1e-6)
