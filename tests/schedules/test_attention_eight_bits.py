"""Attention of 8-bit floats with scales: weights stay where scores were summed, by rows that count keys so."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fireiron as fi
from fireiron.atoms.regroup import REGROUP
from fireiron.atoms.table import find, regrouping
from fireiron.front import attention as front
from fireiron.schedules import attention as schedules

NUMPY = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
PLANS = {"mma": {"warps": 2}, "decode": {"ways": 2}, "simt": {"rows": 32}, "wgmma": {}}


def spec_of(
    lead: tuple[int, ...], sizes: tuple[int, int, int, int], dtype: str, turned: bool = False, **options: Any
) -> Any:
    """Build attention of heads with a scale each; three numbers lead where queries share keys.

    Turned values have the keys of a column together.
    """
    queries, keys, depth, width = sizes
    shapes = (*lead, queries, depth), (*lead[:2], keys, depth), (*lead[:2], keys, width)
    strides = (lead[1] * keys * width, keys * width, 1, keys) if turned else None
    q, k, v = (fi.tensor(*s, dtype=dtype, strides=strides if s is shapes[2] else None) for s in shapes)
    scales = {"q_scale": fi.tensor(prod(lead[1:])), "k_scale": fi.tensor(lead[1]), "v_scale": fi.tensor(lead[1])}
    program = schedules.attention.on(q="b h g i d") if len(lead) == 3 else schedules.attention
    return program(q, k, v, lse=True, out=("bf16", "f32"), **scales, **options)


@pytest.mark.parametrize(
    ("preset", "lead", "sizes", "dtype", "options"),
    [
        ("mma", (1, 2), (40, 100, 64, 64), "e4m3", {"causal": True}),
        ("mma", (1, 1), (35, 70, 128, 128), "e4m3", {}),
        ("mma", (1, 2), (20, 40, 32, 64), "e5m2", {"sinks": fi.tensor(2)}),
        ("decode", (1, 2, 4), (2, 300, 64, 64), "e4m3", {}),
        ("decode", (1, 2, 4), (2, 304, 64, 64), "e4m3", {"turned": True}),
        ("simt", (1, 2), (10, 20, 32, 32), "e4m3", {}),
        ("wgmma", (1, 1), (150, 304, 64, 64), "e4m3", {}),
        ("wgmma", (1, 2), (130, 256, 128, 128), "e4m3", {"causal": True}),
        ("wgmma", (1, 1), (64, 160, 128, 64), "e5m2", {"sinks": fi.tensor(1)}),
    ],
)
def test_values(preset: str, lead: Any, sizes: Any, dtype: str, options: Any) -> None:
    """A weight is off by half a unit of its type, or by half the smallest one; so a result has a bound of its own."""
    options = dict(options)
    turned = options.pop("turned", preset == "wgmma")
    spec, rng = spec_of(lead, sizes, dtype, turned, **options), np.random.default_rng(0)
    given = {}
    for array in spec.computed.inputs:
        drawn = rng.normal(size=array.shape)
        given[array.name] = (drawn * 2).astype(NUMPY[dtype]) if array.name in "qkv" else abs(drawn).astype(np.float32)
    group = prod(lead[2:])
    q, k, v, *_ = (x.astype(float) for x in given.values())
    q, worth = q.reshape(*lead[:2], group, *q.shape[-2:]), {n: x.astype(float) for n, x in given.items()}
    factor = (worth["q_scale"].reshape(-1, group) * worth["k_scale"][:, None])[..., None, None] * sizes[2] ** -0.5
    scores = np.einsum("bhgid,bhjd->bhgij", q, k) * factor
    if options.get("causal"):
        scores[..., np.arange(sizes[1]) > np.arange(sizes[0])[:, None] + sizes[1] - sizes[0]] = -np.inf
    top = scores.max(-1, keepdims=True)
    part = np.exp(scores - top)
    total = part.sum(-1, keepdims=True)
    if "sinks" in options:
        total += np.exp(worth["sinks"].reshape(-1, group)[..., None, None] - top)
    values = v[:, :, None] * worth["v_scale"][:, None, None, None]
    want, unit, least = (
        part / total @ values,
        {"e4m3": fi.e4m3, "e5m2": fi.e5m2}[dtype].epsilon,
        {"e4m3": 2.0**-10, "e5m2": 2.0**-17}[dtype],
    )
    bound = (unit * part + least / 2**8) / total @ abs(values) * 1.001 + abs(want) * 2.0**-8
    given["v"] = np.ascontiguousarray(given["v"].swapaxes(-1, -2)) if turned else given["v"]  # as memory holds it
    made, sums = list(getattr(schedules, preset)(spec, **PLANS[preset]).simulate(*given.values()).arrays.values())[:2]
    assert made.dtype == np.dtype(ml_dtypes.bfloat16)
    assert (abs(made.astype(float) - want.reshape(made.shape)) <= bound.reshape(made.shape)).all()
    assert abs(made.astype(float) - want.reshape(made.shape)).max() > 0
    np.testing.assert_allclose(sums, (np.log(total) + top).reshape(sums.shape), rtol=1e-5, atol=1e-5)


def test_rows_of_sums() -> None:
    """A holds, register for register, the columns that C of four instructions gives to a thread."""
    atom, sums = find("mma.m16n8k32.f32.e4m3.of_sums"), find("mma.m16n8k32.f32.e4m3").operand("C").layout
    held = [[(int(at) % 16, int(at) // 16) for at in map(sums, range(t, 128, 32))] for t in range(32)]
    for t in range(32):
        want = {(row, column + 8 * n) for n in range(4) for row, column in held[t]}
        a = atom.operand("A").layout
        assert {(int(at) % 16, int(at) // 16) for at in map(a, range(t, 512, 32))} == want


@pytest.mark.parametrize(
    ("preset", "lead", "sizes"), [("wgmma", (1, 3), (64, 96, 64, 64)), ("decode", (1, 3, 4), (2, 64, 64, 64))]
)
def test_scales_of_zero_and_below(preset: str, lead: Any, sizes: Any) -> None:
    """A head whose scale is 0 has equal weights; a head whose scale is below 0 has NaN, which nobody overlooks."""
    spec, rng = spec_of(lead, sizes, "e4m3", preset == "wgmma"), np.random.default_rng(1)
    given = {}
    for array in spec.computed.inputs:
        drawn = rng.normal(size=array.shape)
        given[array.name] = (
            (drawn * 2).astype(NUMPY["e4m3"]) if array.name in "qkv" else np.ones(array.shape, np.float32)
        )
    given["k_scale"][:] = 1.0, 0.0, -1.0
    means = given["v"].astype(float)[0, 1].mean(0)
    given["v"] = np.ascontiguousarray(given["v"].swapaxes(-1, -2)) if preset == "wgmma" else given["v"]
    with np.errstate(invalid="ignore"):
        made, *_ = getattr(schedules, preset)(spec, **PLANS[preset]).simulate(*given.values()).arrays.values()
    made = made.astype(float).reshape(3, -1, sizes[3])
    assert np.isfinite(made[0]).all()
    np.testing.assert_allclose(made[1], np.broadcast_to(means, made[1].shape), rtol=0.01, atol=1e-3)
    assert np.isnan(made[2]).all()


def test_golden(golden: Any) -> None:
    """No shuffle stands between both products, and values are exchanged within registers on their way."""
    source = schedules.mma(spec_of((4, 16), (1024, 1024, 128, 128), "e4m3"), warps=8).cuda("sm_89")
    golden(source, "schedules/attention_e4m3_mma.cu")


def test_lanes_exchange_weights() -> None:
    """Between registers of sums and of a factor, words of four lanes hold the same elements."""
    src, dst = (REGROUP.operand(role).layout for role in ("src", "dst"))
    for lane in range(32):
        four = range(lane // 4 * 4, lane // 4 * 4 + 4)
        held = {int(src(t + 32 * r)) for t in four for r in range(8)}
        assert {int(dst(lane + 32 * r)) for r in range(8)} <= held
    plain, summed = (find(f"mma.m16n8k32.f32.e4m3{of}").operand("A") for of in ("", ".of_sums"))
    assert regrouping(plain) == (REGROUP, summed.layout)


def test_golden_of_hopper(golden: Any) -> None:
    """Eight exchanges of two words stand between the softmax and the products of 128 keys."""
    source = schedules.wgmma(spec_of((4, 16), (1024, 1024, 128, 128), "e4m3", turned=True)).cuda("sm_90a")
    assert source.count("regroup_bytes(&") == 2  # ahead of the loop over chunks, and in it
    golden(source, "schedules/attention_e4m3_wgmma.cu")


@pytest.mark.parametrize(("columns", "causal"), [(64, False), (128, True), (128, False)])
def test_hopper_compiled(columns: int, causal: bool) -> None:
    spec = spec_of((4, 16), (4096, 4096, columns, columns), "e4m3", turned=True, causal=causal)
    assert not schedules.wgmma(spec).compile("sm_90a").resources.spills


def test_what_goes_by_warps_on_hopper_is_noted() -> None:
    schedule = schedules.mma(spec_of((1, 2), (128, 128, 64, 64), "e4m3"))
    (note,) = (f for f in schedule.check("sm_90a") if f.code == "slower-path")
    assert "mma.m16n8k32.f32.e4m3 multiplies at about half the rate of wgmma" in note.message
    assert "values whose keys have stride 1" in note.fix


@pytest.mark.product
@pytest.mark.parametrize(("turned", "named"), [(True, "wgmma_m64"), (False, "mma_m16n8k32")])
@pytest.mark.parametrize("heads", [(1, 4), (1, 2, 2)])
def test_calls_take_wgmma_where_values_lie_as_it_takes_them(turned: bool, named: str, heads: tuple[int, ...]) -> None:
    """Without a GPU, calls compile for Hopper."""
    shapes = (*heads, 256, 64), (*heads[:2], 512, 64), (*heads[:2], 512, 64)
    q, k, v = (front.Array(s, front.strides_like(front.Array(s, (1,) * len(s), ""), s), "e4m3") for s in shapes)
    if turned:
        v = front.Array(v.shape, (heads[1] * 512 * 64, 512 * 64, 1, 512), "e4m3")
    assert (v.taken, v.taken_as_values) == (not turned, True)
    worth = tuple(
        (f"{n}_scale", front.Array((m,), (1,), "f32")) for n, m in (("q", 4), ("k", heads[1]), ("v", heads[1]))
    )
    what = front.Attention(q, k, v, "", worth, 0.125, True)
    kernel = front.forward(what, front.Array(q.shape, q.strides, "bf16"), False)
    assert named in kernel.source


def test_values_whose_columns_start_anywhere_are_copied() -> None:
    assert not front.Array((1, 2, 40, 64), (2 * 40 * 64, 40 * 64, 1, 40), "e4m3").taken_as_values
    assert not front.Array((1, 2, 64, 64), (2 * 64 * 64, 64 * 64, 1, 64), "f16").taken_as_values


def test_values_lie_as_wgmma_takes_them() -> None:
    with pytest.raises(fi.FireironError, match="keys of a column together") as caught:
        schedules.wgmma(spec_of((1, 1), (64, 64, 64, 64), "e4m3"))
    assert caught.value.code == "attention-dtypes"


@pytest.mark.parametrize(("arch", "columns"), [("sm_89", 128), ("sm_90a", 64), ("sm_120", 128)])
def test_compiled(arch: str, columns: int) -> None:
    spec = spec_of((4, 16), (4096, 4096, columns, columns), "e4m3", causal=True)
    assert not schedules.mma(spec).compile(arch).resources.spills


@pytest.mark.parametrize(("columns", "causal"), [(64, False), (96, True)])
def test_chunks_of_few_keys_do_not_spill(columns: int, causal: bool) -> None:
    """Chunks of 64 keys spill with one version of NVRTC or another, of these sizes and their like."""
    shapes = [(2, 3, n, columns) for n in (77, 300, 300)]
    scales = {name: fi.tensor(3, name=name) for name in ("q_scale", "k_scale", "v_scale")}
    spec = schedules.attention(*(fi.tensor(*s, dtype="e4m3") for s in shapes), out="bf16", causal=causal, **scales)
    assert not schedules.mma(spec).compile("sm_90a").resources.spills
