"""What simulations keep of tiles at a moment: values, the threads that hold them, and where simulations stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fireiron import At, FireironError, matmul, tensor
from fireiron.atoms.table import find
from fireiron.schedules import ampere, attention, hopper, simt
from fireiron.schedules import rows as row_presets


def arrays(m: int, n: int, k: int, kind: str = "float32") -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)


def test_a_tile_of_shared_memory_holds_the_chunk_of_its_trip() -> None:
    a, b = arrays(256, 128, 32)
    found = simt.listing2(matmul(256, 128, 32)).simulate(a, b, break_at=At("fma", block=1, trips={"k": 2}))
    assert found.stopped
    assert found.moment is not None
    assert (found.moment.block, found.moment.what, found.moment.trips) == (1, "fma.f32", {"k": 2, "k2": 0})
    tile = found.kept["a_sh"]
    assert (tile.values == a[128:, 16:24]).all()
    assert tile.written.all()
    assert (found.kept["b_sh"].values == b[16:24]).all()
    assert np.allclose(found.kept["acc"].values, a[128:, :16] @ b[:16], atol=1e-5)
    assert "stopped before fma.f32" in str(found)
    assert found.comparison is None


def test_a_swizzled_ring_of_slots_is_read_back_by_coordinates() -> None:
    a, b = arrays(128, 256, 192, "float16")
    schedule = ampere.gemm(matmul(128, 256, 192, "f16"))
    found = schedule.simulate(a, b, break_at=At("ldmatrix", trips={"k": 1}))
    tile, other = found.kept["a_sh"], found.kept["b_sh"]
    assert tile.outer == ("slot",)
    assert (tile.values[1] == a[:, 64:128]).all()
    assert (other.values[1] == b[64:128]).all()


def test_owners_of_registers_are_those_of_the_instruction() -> None:
    a, b = arrays(128, 256, 64, "float16")
    schedule = ampere.gemm(matmul(128, 256, 64, "f16"))
    found = schedule.simulate(a, b, keep="acc")
    tile = found.kept["acc"]
    assert found.moment is not None
    assert str(found.moment) == "the block's end: block 0"  # steps were not counted
    assert tile.threads is not None
    assert np.allclose(tile.values, a.astype("f4") @ b.astype("f4"), atol=1e-3)
    # Warp 0, as the figure of C in the PTX ISA says: thread 4 r + c/2 holds row r, columns c and c + 1.
    lane = np.arange(16)[:, None] % 8 * 4 + np.arange(8) // 2
    assert (tile.threads[:16, :8] == lane).all()
    (holder,) = tile.holders(9, 3)
    assert (holder.thread, holder.value) == (5, tile.values[9, 3])
    assert find("mma.m16n8k16.f32.f16").operand("C").shape == (16, 8)


def test_each_warp_holds_fragments_of_its_own() -> None:
    a, b = arrays(128, 256, 128, "float16")
    found = ampere.gemm(matmul(128, 256, 128, "f16")).simulate(a, b, break_at=At("mma.", trips={"k": 0}))
    tile = found.kept["a_fr"]
    assert tile.outer == ("Warp", "slot")
    assert tile.threads is not None
    assert [int(tile.threads[warp].min()) // 32 for warp in range(8)] == list(range(8))
    first = tile.values[0, 0]
    assert any((first == a[row : row + 64, :16]).all() for row in (0, 64))


def test_wgmma_in_roles_keeps_the_accumulators_of_all_warpgroups() -> None:
    schedule = hopper.gemm(matmul(256, 128, 128, "f16", layout="TN", arch="sm_90"))
    found = schedule.simulate(keep="acc", blocks=1)
    tile = found.kept["acc"].values.T  # this preset computes the transpose of narrow products
    assert np.allclose(tile, found.out[: tile.shape[0], : tile.shape[1]], atol=2e-2)
    assert found.kept["acc"].written.all()


def test_a_step_ends_at_a_barrier() -> None:
    schedule = simt.listing2(matmul(128, 128, 16))
    first = schedule.simulate(break_at=At(step=0))
    assert first.moment is not None
    assert first.moment.what == "barrier of the Block: a_sh is written before it is read"
    assert any(title.startswith("load A to a_sh") for title in first.moment.did)
    assert (first.kept["acc"].values == 0).all()
    assert first.kept["a_sh"].written.all()
    assert not first.kept["a_rf"].written.any()
    assert "not written yet" in first.kept["a_rf"].title
    later = schedule.simulate(break_at=At(step=2))
    assert later.moment is not None
    assert (later.moment.step, later.moment.trips["k"]) == (2, 1)
    assert (later.kept["acc"].values != 0).any()


def test_keeping_changes_nothing_else() -> None:
    a, b = arrays(192, 160, 24)
    schedule = simt.listing2(matmul(192, 160, 24))
    plain, kept = schedule.simulate(a, b), schedule.simulate(a, b, keep="acc", at=At("fma", trips={"k": 1}))
    assert (plain.out == kept.out).all()
    assert plain.report.sites == kept.report.sites
    assert not kept.stopped
    assert kept.comparison is not None
    assert kept.comparison.passed
    assert "kept before fma.f32" in str(kept)


def test_programs_keep_tiles_too() -> None:
    x = tensor(4, 256, name="x")
    found = row_presets.row(row_presets.softmax(x)).simulate(break_at=At(step=0))
    assert any(tile.threads is not None for tile in found.kept.values())
    q, k, v = (tensor(1, 1, 128, 64, dtype="f16", name=name) for name in "qkv")
    assert attention.mma(attention.attention(q, k, v)).simulate(break_at=At("mma")).stopped


def test_an_unreached_moment_is_refused() -> None:
    schedule = simt.listing2(matmul(128, 128, 16))
    with pytest.raises(FireironError) as caught:
        schedule.simulate(at=At("fma", trips={"k": 7}))
    assert caught.value.code == "no-such-moment"
    with pytest.raises(FireironError):
        schedule.simulate(at=At("fma", block=1))
