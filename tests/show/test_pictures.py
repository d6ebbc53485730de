"""Pictures: each one is well-formed, small, told in words, and says what the kernel does."""

from __future__ import annotations

import gc
import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    Layout,
    Matrix,
    QuadPair,
    Swizzle,
    Thread,
    Vector,
    Warp,
    matmul,
    symbol,
    tensor,
)
from fireiron.atoms.table import TABLE, find
from fireiron.atoms.wgmma import wgmma
from fireiron.jit.timing import Timing
from fireiron.kernel.analysis.access import accesses
from fireiron.kernel.ir.statements import Let, walk
from fireiron.language.atom import Atom, Operand
from fireiron.schedules import akg, ampere, conv, fused, hopper, rows, simt, volta
from fireiron.schedules.hopper import Plan
from fireiron.show import pictures
from fireiron.show.banks import groups
from fireiron.show.clock import time_of
from fireiron.show.cutting import dims, parts_of, pieces
from fireiron.show.fragment import NOBODY, drawable, owners, unit_of
from fireiron.show.halo import halos
from fireiron.show.panel import chunks
from fireiron.show.picture import Picture
from fireiron.show.placement import placement
from fireiron.show.steps import steps
from fireiron.simulate.trace import trace

LIMIT_S = 1.0  # of processor time: other work makes the clock on the wall say more
COLUMNS = 80
ATOMS = (*TABLE, *(atom for n in (8, 96, 256) for atom in wgmma(n)))
WIDEST = 1000.0  # of a notebook's output


def well_formed(picture: Picture) -> str:
    """Check what holds of every picture, and give its SVG."""
    svg = picture.svg()
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.attrib["width"]) <= WIDEST
    assert "prefers-color-scheme:dark" in svg
    assert not re.search(r"<script|<image|href|@import|url\(", svg)
    words = str(picture)
    assert words
    assert max(map(len, words.splitlines())) <= COLUMNS
    assert repr(picture) == words
    return svg


def examples() -> dict[str, Any]:
    """List a call for each picture."""
    small, tuned = simt.listing2(matmul(256, 256, 64)), simt.sgemm(matmul(512, 512, 4096))
    return {
        "decomposition": lambda: pictures.decomposition(tuned),
        "unfinished": lambda: pictures.decomposition(matmul(64, 64, 64).tile(32, 32).to(Block)),
        "banks": lambda: pictures.banks(small, tuned),
        "cuts": lambda: pictures.cuts(tuned),
        "timeline": lambda: pictures.timeline(tuned),
        "modelled": lambda: pictures.timeline(ampere.gemm(matmul(512, 512, 4096, "f16")), "modelled"),
        "roofline": lambda: pictures.roofline(tuned, on="sm_90", measured={tuned.name: 40.0}, peers={"other": 45.0}),
        "compare": lambda: pictures.compare(small, tuned),
    }


@pytest.fixture(autouse=True)
def collected_later() -> Iterator[None]:
    """Collect no garbage while a picture is timed: a whole collection takes a second where other tests left much."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", examples())
def test_a_picture_is_well_formed_and_quick(name: str) -> None:
    make = examples()[name]
    make()  # lowering is kept, and is not what is timed
    began = time.process_time()
    picture = make()
    picture.svg()
    assert time.process_time() - began < LIMIT_S
    well_formed(picture)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_every_atom_has_a_fragment_picture(atom: Atom) -> None:
    began = time.process_time()
    svg = well_formed(pictures.fragment(atom))
    assert time.process_time() - began < LIMIT_S
    assert atom.name in svg


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_the_drawn_part_and_its_steps_tell_every_element(atom: Atom) -> None:
    for operand in atom.operands:
        whole = owners(operand, atom)
        found = drawable(whole)
        unit = unit_of(found)
        assert unit.whole
        inside = np.indices(whole.shape)
        rows, cols = inside[0] // found.run[0], inside[1] // found.run[1]
        down, right = unit.down or (0, 0), unit.right or (0, 0)
        told = [
            array[rows % unit.rows, cols % unit.cols] + rows // unit.rows * down[i] + cols // unit.cols * right[i]
            for i, array in enumerate((found.thread, found.register))
        ]
        assert (told[0] == whole.thread).all()
        assert (told[1] + inside[0] % found.run[0] + inside[1] % found.run[1] == whole.register).all()


def test_a_fragment_names_who_the_layout_names() -> None:
    atom = find("mma.m16n8k16.f32.f16")
    assert atom is not None
    found = owners(atom.operand("A"), atom)
    for thread in range(32):
        for register in range(8):
            place = atom.operand("A").layout((thread, register))
            assert (found.thread[place % 16, place // 16], found.register[place % 16, place // 16]) == (
                thread,
                register,
            )


def large(layout: Layout, shape: tuple[int, int]) -> Atom:
    """Make an atom whose accumulator is too large to draw."""
    atom = find("mma.m16n8k16.f32.f16")
    assert atom is not None
    return Atom("large", "Move", (0,), Warp, (Operand("C", FR, None, shape, layout),), 90, "", "", "")


def test_a_large_fragment_draws_its_repeating_unit_and_says_so() -> None:
    # The accumulator of wgmma m64n256: a warp has 16 rows of it, and every 8 columns repeat.
    atom = large(Layout(((4, 8, 4), (2, 2, 32)), ((128, 1, 16), (64, 8, 512))), (64, 256))
    picture = pictures.fragment(atom)
    assert "16x16 of 64x256; 16 columns on: element +8; 16 rows down: thread +32" in str(picture)
    assert "16 columns on" in well_formed(picture)


def test_a_fragment_without_repetition_says_that_only_a_corner_is_drawn() -> None:
    # 17 x 19 has no part of at most 16 x 16 that divides it but single elements, and 3 threads do not step evenly.
    atom = large(Layout((3, 85), (100, 1)), (17, 19))
    assert "has no simple repetition" in str(pictures.fragment(atom))


def test_threads_of_a_quad_pair_are_named_as_lanes() -> None:
    atom = Atom("q", "Move", (0,), QuadPair, (Operand("C", FR, None, (8, 2), Layout((8, 2), (1, 8))),), 70, "", "", "")
    assert owners(atom.operands[0], atom).thread[:, 0].tolist() == [0, 1, 2, 3, 16, 17, 18, 19]


def test_an_operand_that_nobody_holds_is_drawn_empty() -> None:
    atom = Atom("d", "Move", (0,), Warp, (Operand("A", SH, None, (64, 16), Layout(1024, 1)),), 90, "", "", "")
    assert (owners(atom.operands[0], atom).thread == NOBODY).all()
    assert "not dealt out to threads" in str(pictures.fragment(atom))


def listing2(load: Any) -> Any:
    """Give Listing 2 with another load of A."""
    chunk = matmul(256, 256, 64).tile(128, 128).to(Block).epilog(memory=RF).split(8)
    return (
        load(chunk).load(B, SH).tile(64, 32).to(Warp).tile(8, 8).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip


LOADS = {
    "plain": lambda chunk: chunk.load(A, SH),
    "columns": lambda chunk: chunk.load(A, SH).storage_layout(ColMajor),
    "pad": lambda chunk: chunk.load(A, SH).storage_layout(ColMajor).pad(4),
    "swizzle": lambda chunk: chunk.load(A, SH).swizzle(Swizzle(1, 2, 4)),
    "layout": lambda chunk: chunk.load(A, SH).storage_layout(Layout((128, 8), (1, 132))),
}


@pytest.mark.parametrize("name", LOADS)
def test_banks_marks_conflicts_where_the_static_analysis_counts_them(name: str) -> None:
    schedule = listing2(LOADS[name])
    kernel = schedule.lowered()
    (buffer,) = (b for b in kernel.buffers if b.name == "a_sh")
    rows = [row for row in accesses(kernel) if row.buffer == "a_sh"]
    found = groups(kernel, buffer)
    assert len(found) == len(rows)
    for group, row in zip(found, rows, strict=True):
        assert (group.wavefronts > 1) == (row.degree > 1)
        assert group.wavefronts >= row.degree
    svg = well_formed(pictures.banks(schedule))
    assert ('"fi-none fi-red"' in svg) == any(row.degree > 1 for row in rows)


@pytest.mark.parametrize("name", LOADS)
def test_every_word_that_a_lane_asks_for_is_an_element_of_the_drawing(name: str) -> None:
    schedule = listing2(LOADS[name])
    kernel = schedule.lowered()
    (buffer,) = (b for b in kernel.buffers if b.name == "a_sh")
    (step,) = (s for s in steps(schedule) if "load A to SH" in s.path.rsplit(" > ", 1)[-1])
    places = placement(step).offsets
    assert len(np.unique(places)) == places.size
    for group in groups(kernel, buffer):
        assert np.isin(group.words[group.words >= 0], places).all()


def test_banks_of_a_buffer_that_is_not_there() -> None:
    with pytest.raises(FireironError) as caught:
        pictures.banks(simt.listing2(matmul(256, 256, 64)), buffer="c_sh")
    assert (caught.value.code, caught.value.fix) == ("no-such-buffer", "the schedule's are: a_sh, b_sh")


def on_hopper(plan: Plan) -> Any:
    return (hopper.pingpong if plan.pingpong else hopper.cooperative)(
        matmul(512, 512, 512, "f16", out="f16", layout="TN"), plan
    )


def test_buffers_that_the_hardware_swizzles_have_banks() -> None:
    picture = pictures.banks(on_hopper(Plan(128, 128)), buffer="b_sh")
    words = " ".join(str(picture).split())
    assert "in rows of 128 B, Swizzle(3, 3, 3)" in words
    assert "8 rows of 16 bytes, a core matrix, take 1 wavefront" in words
    assert "written by tma.load.2d.128B as a whole" in words
    well_formed(picture)
    stored = well_formed(pictures.banks(on_hopper(Plan(128, 128)), buffer="acc_sh"))
    assert "written by stmatrix" in stored
    assert "read by tma.store.2d.128B as a whole" in stored


def test_whole_operands_are_drawn_as_they_lie() -> None:
    (step,) = (s for s in steps(on_hopper(Plan(128, 128))) if s.path.endswith("load A to SH"))
    offsets = placement(step).offsets
    for row, line in enumerate(chunks(128)):
        for place, (r, c) in enumerate(line):
            assert (offsets[r, 8 * c : 8 * c + 8] == row * 64 + place * 8 + np.arange(8)).all()
    assert [len(row) for row in chunks(64)] == [4] * 8
    picture = pictures.fragment("wgmma.m64n64k16.f32.f16")
    assert str(picture).count("taken as a whole, in rows of 128 B in SH") == 2
    assert "stands in for the hardware's" in " ".join(str(pictures.fragment("wmma.m16n16k16")).split())


def test_links_of_hopper_are_whole_in_every_picture() -> None:
    one, other = on_hopper(Plan(128, 128, cluster=(2, 1))), on_hopper(Plan(128, 96, pingpong=True))
    tree = well_formed(pictures.decomposition(one))
    assert "role load: 128 threads" in tree
    for picture in (tree, well_formed(pictures.compare(one, other)), well_formed(pictures.cuts(one))):
        assert "…" not in picture
        assert "persistent" in picture
    assert "0 2" in " ".join(str(pictures.cuts(one)).split())
    assert "staggered none → 2" in str(one.diff(other))


@pytest.mark.parametrize("policy", ["simulated", "modelled"])
def test_roles_have_rows_in_a_timeline(policy: Any) -> None:
    svg = well_formed(pictures.timeline(on_hopper(Plan(128, 128, stages=3)), policy))
    for said in (">load</text>", ">math 0</text>", ">math 1</text>", ">tile 0</text>", "a_sh[2]", "acc_sh[0] math 1"):
        assert said in svg


@pytest.mark.parametrize("policy", ["simulated", "modelled"])
def test_the_last_chunk_is_computed_and_the_epilogue_takes_few_boxes(policy: Any) -> None:
    # The pipeline of fragments leaves the products of the last chunk behind the loop.
    found = time_of(trace(ampere.gemm(matmul(256, 256, 256, "f16", layout="TN"), stages=3).lowered()), policy)
    rows = [box.row for box in found.boxes if box.row in ("compute", "put", "store")]
    assert rows[-4:] == ["compute", "store", "put", "store"]
    assert not any("mma" in box.label for box in found.boxes if box.row != "compute")


def test_the_groups_of_a_timeline_share_the_rows_equally() -> None:
    picture = pictures.timeline(hopper.gemm(matmul(1024, 512, 128, "f16", groups=4)), "modelled")
    assert "tile 0" in well_formed(picture)
    assert "wgmma" in str(picture)


def title(picture: Picture) -> list[str]:
    """Give the lines above the rows of a timeline."""
    return str(picture).partition("issue clocks")[0].splitlines()


@pytest.mark.parametrize("chunks", [1, 4, 20, 200])
def test_the_clocks_of_a_title_are_those_of_all_iterations(chunks: int) -> None:
    schedule = simt.listing2(matmul(256, 256, 8 * 100))
    said = title(pictures.timeline(schedule, "modelled", chunks=chunks))
    estimate = schedule.estimate()
    assert said[0] == f"the whole kernel: {estimate.time_us * 1980:,.0f} clocks by the model"
    assert said == title(pictures.timeline(schedule, "modelled"))


def test_an_operand_that_is_read_at_computed_subscripts_is_named_as_it_is_read() -> None:
    x, target = Matrix(64, 256, name="x"), Vector(64, "i32", name="target")
    svg = well_formed(pictures.decomposition(rows.row(rows.cross_entropy(x, target))))
    assert ">x[m, target[m]] GL<" in svg


def test_emulated_products_take_the_time_that_the_estimate_gives_them() -> None:
    """Without the clocks of CUDA cores that stand in for mma.m8n8k4, one block took a sixth of the kernel."""
    schedule = volta.gemm(matmul(256, 256, 128, "f16"))
    for arch in ("sm_70", "sm_90a"):
        picture = str(pictures.timeline(schedule, "modelled", on=arch))
        whole, drawn = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) clocks by the model", picture))
        assert 0.8 < drawn / whole < 1.25
        assert ("the drawing adds up waits" in picture) == (drawn > 1.05 * whole)


def test_a_block_that_is_drawn_with_more_tiles_than_it_takes_says_so() -> None:
    small, large = (hopper.gemm(matmul(n, n, 512, "bf16", layout="TN")) for n in (256, 4096))
    assert ", as if it took 4 tiles, not 1: " in str(pictures.timeline(small, "modelled"))
    assert ", its first 4 tiles: " in str(pictures.timeline(large, "modelled"))


def test_a_measurement_stands_beside_the_model() -> None:
    schedule = simt.listing2(matmul(256, 256, 64))
    for measured in (1234.5, Timing(1234.5, 1200, 1300, 9, 1.0, 1.0, "events")):
        picture = pictures.timeline(schedule, "modelled", measured=measured)
        assert f"clocks by the model, {1234.5 * 1980:,.0f} measured" in str(picture)
        assert "1,234 us measured" in well_formed(picture)


def test_a_timeline_has_an_axis_with_breaks_where_iterations_are_left_out() -> None:
    picture = pictures.timeline(simt.listing2(matmul(256, 256, 8 * 100)), "modelled")
    svg = well_formed(picture)
    ticks = [
        int(n.replace(",", "")) for n in re.findall(r'class="fi-faint" font-size="9" x="\S+" y="\S+">([\d,]+)<', svg)
    ]
    ticks += [int(n.replace(",", "")) for n in re.findall(r'<text x="\S+" y="\S+">([\d,]+)</text>', svg)]
    found = re.search(r"threads: ([\d,]+) clocks", str(picture))
    assert found is not None
    total = int(found[1].replace(",", ""))
    assert 0.9 * total < max(ticks) <= total
    assert "break: 94 of 100 iterations of k left out" in svg
    assert ">clocks</text>" in svg


def test_what_waits_and_what_is_in_flight_have_colours_of_their_own() -> None:
    svg = pictures.timeline(on_hopper(Plan(128, 128, stages=3)), "modelled").svg("light")
    colours = dict(re.findall(r"\.fi-(\w+)\{fill:(#\w+)\}", svg))
    meant = ("flight", "held", "wait", "bad", "load", "put", "math", "store")
    assert len({colours[name] for name in meant}) == len(meant)
    for said in ("data in flight", "held until its last reader", "a wait", "a role that computes waits"):
        assert f">{said}</text>" in svg


def test_moves_stand_to_the_right_of_every_spec() -> None:
    svg = well_formed(pictures.decomposition(fused.swiglu(512, 256, 128)))
    boxes = [
        (float(x), float(wide)) for x, wide in re.findall(r'fi-spec fi-edge" x="(\S+)" y="\S+" width="(\S+)"', svg)
    ]
    assert len(boxes) > 8
    moves = min(x for x, _ in boxes if x > 0)
    assert max(wide for x, wide in boxes if x == 0) < moves


def test_banks_without_a_name_are_those_of_the_first_load() -> None:
    batched = hopper.gemm(matmul(512, 512, 128, "f16", layout="TN", batch=3), hopper.Plan(n=48, swapped=True))
    assert str(pictures.banks(batched)).startswith("b_sh: 128x64 f16")  # swapped: B is the left operand
    assert str(pictures.banks(batched, buffer="acc_sh")).startswith("acc_sh: 64x48 f16")
    assert str(pictures.banks(fused.swiglu(512, 256, 128))).startswith("x_sh")
    with pytest.raises(FireironError, match="no load fills a buffer in SH"):
        pictures.banks(simt.listing1(matmul(64, 64, 64)))


def test_the_store_buffer_has_banks_too() -> None:
    from fireiron import conform, through_shared, vector

    spec = matmul(128, 128, 32).tile(128, 128).to(Block)
    schedule = (
        spec.epilog(memory=RF, store=through_shared(conform(), vector())).split(8).load(A, SH).load(B, SH)
        .tile(64, 32).to(Warp).tile(8, 8).to(Thread)
        .split(1).unroll().load(A, RF).load(B, RF).tile(1, 1).unroll().done()
    )  # fmt: skip
    (name,) = (b.name for b in schedule.lowered().buffers if b.name not in ("a_sh", "b_sh") and b.memory == SH)
    assert "wavefront" in str(pictures.banks(schedule, buffer=name))


@pytest.mark.parametrize("preset", [simt.listing2, simt.listing4, simt.sgemm], ids=lambda preset: preset.__name__)
def test_cuts_give_tiles_to_the_units_that_the_kernel_gives_them_to(preset: Any) -> None:
    schedule = preset(matmul(1152, 1024, 64))
    kernel = schedule.lowered()
    lets = {s.var.name: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    (grid,) = (s for s in steps(schedule) if "to Block" in s.path.rsplit(" > ", 1)[-1])
    found = pieces(grid)
    assert found.unit.shape == (9, 8)
    assert sorted(found.unit.reshape(-1).tolist()) == list(range(72))
    from fireiron.algebra.expr import evaluate

    blocks = np.arange(72)
    env: dict[str, Any] = {"block": blocks}
    for name, value in lets.items():
        if name.startswith("block"):
            env[name] = evaluate(value, env)
    assert (found.unit[env["block_m"], env["block_n"]] == blocks).all()


def lines_of(svg: str, stroke: str) -> list[list[tuple[float, float]]]:
    """Give the points of the lines of one stroke."""
    found = re.findall(rf'<path class="fi-none fi-{stroke}" d="([^"]+)"', svg)
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML](\S+) (\S+)", d)] for d in found]


def test_a_large_grid_shows_waves_and_the_order_of_visits() -> None:
    schedule = ampere.gemm(matmul(8192, 8192, 64, "f16", layout="TN"))
    picture = pictures.cuts(schedule)
    svg = well_formed(picture)
    estimate = schedule.estimate()
    slots = 132 * estimate.blocks_per_sm
    assert f"{estimate.waves} waves of {slots} tiles" in " ".join(str(picture).split())
    found = pieces(steps(schedule)[0])
    rows, cols = found.unit.shape
    (line,) = lines_of(svg, "order")
    # The line begins in tile 0 and ends in the last tile of the first wave.
    ends = [tuple(np.argwhere(found.unit == n)[0].tolist()) for n in (0, min(slots, 600) - 1)]
    down = 250 / rows
    for (x, y), (i, j) in zip((line[0], line[-1]), ends, strict=True):
        assert (x, y) == pytest.approx(((j + 0.5) * 250 / cols, line[0][1] + i * down), abs=0.6)
    waves = {int(n) for n in (found.unit // slots).reshape(-1)}
    colours = set(re.findall(r'class="fi-(h\d+) fi-crisp"', svg))
    assert len(waves) == estimate.waves
    assert len(colours) == min(len(waves), 32)


def test_cuts_of_rows_are_drawn() -> None:
    schedule = rows.row(rows.softmax(Matrix(64, 256, name="x")))
    picture = pictures.cuts(schedule)
    assert "Kernel: 64 in " in str(picture)
    assert "to Warp" in well_formed(picture)
    first = pieces(steps(schedule)[0])
    assert first.unit[:, 0].tolist() == list(range(first.units))


def test_halos_are_what_several_tiles_read() -> None:
    spec = conv.conv2d(tensor(1, 20, 20, 8, name="x"), tensor(8, 3, 3, 8, name="f"), pad=1)
    schedule = conv.simt(spec)
    grid = steps(schedule)[0]
    tile = dict(grid.link.sizes)  # type: ignore[union-attr]
    found = halos(grid, ("p", "q"), parts_of(grid))
    assert found is not None
    for side, size in ((found.rows, tile["p"]), (found.cols, tile["q"])):
        # A tile of `size` outputs reads one row more on each side: two rows at each border have two readers.
        readers = np.concatenate([[many] * length for _, length, _, many in side.runs])
        expected = np.zeros(20, int)
        for start in range(0, 20, size):  # pyright: ignore[reportArgumentType]
            expected[max(start - 1, 0) : start + size + 1] += 1
        assert readers.tolist() == expected.tolist()
    picture = pictures.cuts(schedule)
    assert "fi-halo" in well_formed(picture)
    assert "is read by several tiles" in str(picture)
    assert "fi-halo" not in pictures.cuts(simt.sgemm(matmul(256, 256, 64))).svg()


@pytest.mark.parametrize("preset", [conv.mma, conv.wgmma, akg.conv])
def test_every_schedule_of_a_convolution_shows_its_halo(preset: Any) -> None:
    """Rows and columns of pixels are drawn, also where a tile cuts filters last."""
    x, f = tensor(32, 28, 28, 64, dtype="f16", name="x"), tensor(64, 3, 3, 64, dtype="f16", name="f")
    spec = conv.conv2d(x, f, pad=1)
    schedule = conv.wgmma(spec, runs=False) if preset is conv.wgmma else preset(spec)
    assert dims(steps(schedule)[0]) == ("p", "q")
    picture = pictures.cuts(schedule)
    assert "fi-halo" in well_formed(picture)
    assert "28x28 of x" in str(picture)


def test_the_lines_of_loads_do_not_lie_on_each_other() -> None:
    for schedule in (ampere.gemm(matmul(512, 512, 64, "f16")), fused.swiglu(512, 256, 128), fused.mlp(256, 64, 3)):
        drawn = [line for line in lines_of(pictures.decomposition(schedule).svg(), "edge") if len(line) == 3]
        upright = [(line[1][0], *sorted((line[1][1], line[2][1]))) for line in drawn if line[0][1] == line[1][1]]
        assert len(upright) > 2
        for i, (x, top, bottom) in enumerate(upright):
            for other, above, below in upright[i + 1 :]:
                assert x != other or bottom <= above or below <= top
            # Nor does a line cross one that leads to an earlier Move.
            for start, _, end in drawn[i + 1 :]:
                crosses = start[0] < x < end[0] and top < start[1] < bottom
                assert not crosses


def test_a_fragment_of_wgmma_draws_what_one_instruction_takes() -> None:
    picture = pictures.fragment("wgmma.m64n64k16.f32.f16")
    words = " ".join(str(picture).split())
    assert "A 64x16 f16 in SH, 8 of its 64 rows, 128 B of K each" in words
    assert "B 16x64 f16 in SH, 8 of its 64 columns, 128 B of K each" in words
    assert words.count("in colour: the 2 of 8 chunks of a row that one instruction takes") == 2
    svg = well_formed(picture)
    panel = svg[: svg.index("C 64x64")]
    cells = re.findall(r'<rect class="fi-(\w+) fi-hair"[^>]*><title>chunk (\d) of row', panel)
    assert len(cells) == 2 * 64
    assert {int(chunk) for fill, chunk in cells if fill != "empty"} == {0, 1}  # 16 elements of 2 B
    assert all(fill == "empty" for fill, chunk in cells if int(chunk) > 1)


def test_banks_draw_all_rows_that_a_group_asks_for() -> None:
    svg = well_formed(pictures.banks(simt.sgemm(matmul(256, 256, 64))))
    for row in range(32):
        assert re.search(rf">{row}</text>", svg)
    assert "drawn: 32 of 128 rows" in svg


def test_a_picture_follows_the_theme_of_its_page() -> None:
    picture = pictures.fragment("fma.f32")
    html = picture._repr_mimebundle_()["text/html"]
    assert html == picture.html()
    assert "<img" not in html  # an image would not see the page
    sheet = html[html.index("<style>") : html.index("</style>")]
    light, dark = (
        re.search(rf'\[data-jp-theme-light="{said}"\] \.fi-auto[^{{]*\{{([^}}]+)\}}', sheet)
        for said in ("true", "false")
    )
    assert light is not None
    assert dark is not None
    assert "--fi-ground:#ffffff" in light[1]
    assert "--fi-ground:#161b22" in dark[1]
    assert ".fi-auto .fi-ground{fill:var(--fi-ground)}" in sheet
    # What the page says is more specific than what the system prefers.
    assert "@media (prefers-color-scheme:dark){.fi-auto{" in sheet
    assert "var(" not in picture.svg("dark")


def test_values_can_be_looked_at() -> None:
    schedule = simt.listing2(matmul(128, 128, 16))
    found = schedule.simulate(blocks=1, keep=["a_sh", "acc"])
    acc = found.kept["acc"]
    svg = well_formed(pictures.values(acc))
    value, thread, register = float(acc.values[3, 9]), acc.threads[3, 9], acc.registers[3, 9]  # type: ignore[index]
    assert f"<title>acc[3, 9] = {value:.9g}, thread {thread}, register {register}</title>" in svg
    assert "the first 32x24 of 128x128" in svg
    shared = found.kept["a_sh"]
    banks = pictures.banks(schedule, values=shared).svg()
    assert f"<title>a_sh[1, 2] = {float(shared.values[1, 2]):.9g}, bank 10, lane 2 asks for it</title>" in banks
    with pytest.raises(FireironError) as caught:
        pictures.values(acc, 1)
    assert caught.value.code == "no-such-tile"


def test_text_lets_the_mouse_through_to_the_shape_below() -> None:
    svg = pictures.fragment("mma.m16n8k8.f32.f16").svg()
    assert ".fi-ink{pointer-events:none}" in svg
    assert "<title>C(0, 1): thread 0, its element 1, register 1</title>" in svg


def test_a_strided_tile_stands_in_all_its_places() -> None:
    schedule = simt.sgemm(matmul(256, 256, 64))
    thread = next(s for s in steps(schedule) if s.after.level == Thread and s.before.level == Warp)
    found = pieces(thread)
    assert [run[2] for run in found.rows] == [0, 1, 2, 3] * 4
    assert found.extents == (64, 64)


@pytest.mark.parametrize("preset", [ampere.gemm, hopper.gemm], ids=lambda preset: preset.__module__)
def test_cuts_of_a_batch_draw_its_first_matrix(preset: Any) -> None:
    schedule = preset(matmul(512, 512, 128, "f16", layout="TN", batch=3))
    grid = next(s for s in steps(schedule) if "to Block" in s.path.rsplit(" > ", 1)[-1])
    found = pieces(grid)
    assert sorted(found.unit.reshape(-1).tolist()) == list(range(found.unit.size))
    assert "the first of 3 along batch drawn" in str(pictures.cuts(schedule))


def test_cuts_of_a_symbol_say_how_many_tiles_are_drawn() -> None:
    picture = pictures.cuts(matmul(symbol("M"), 256, 64).tile(128, 128).to(Block))
    assert "M is known at the call: 4 tiles drawn" in str(picture)


def test_a_spec_without_tiles_has_a_picture() -> None:
    assert "no tile yet" in str(pictures.cuts(matmul(8, 8, 8)))


def test_a_comparison_marks_what_came_and_went() -> None:
    svg = well_formed(pictures.compare(listing2(LOADS["plain"]), listing2(LOADS["pad"])))
    assert "fi-changed" in svg
    assert "conflicts 8 → 1" in svg
    same = well_formed(pictures.compare(listing2(LOADS["plain"]), listing2(LOADS["plain"])))
    assert not re.search('class="fi-(added|removed|changed)"', same)
    halves = pictures.compare(matmul(64, 64, 64).tile(32, 32), matmul(64, 64, 64).tile(32, 32).to(Block))
    assert "to loops → Block" in str(halves)


def test_a_roofline_keeps_models_and_measurements_apart() -> None:
    schedule = simt.sgemm(matmul(2048, 2048, 2048))
    picture = pictures.roofline(schedule, on="sm_90", measured={schedule.name: 40.0}, peers={"other": 45.0})
    words = " ".join(str(picture).split())
    assert f"modelled {schedule.name}" in words
    assert f"measured {schedule.name}: 40 TFLOP/s" in words
    assert "peer other: 45 TFLOP/s" in words
    assert "modelled, " not in words


def test_saving(tmp_path: Path) -> None:
    picture = pictures.fragment("fma.f32")
    assert picture.save(tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg() == picture._repr_svg_()
    pytest.importorskip("resvg_py", reason="PNG needs resvg_py, which the extra `png` installs")
    assert picture.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert picture.png("dark") != picture.png("light")


def test_a_picture_of_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(FireironError) as caught:
        pictures.fragment("fma.f32").save(tmp_path / "a.jpeg")
    assert caught.value.code == "picture-format"


def test_png_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(FireironError) as caught:
        pictures.fragment("fma.f32").png()
    assert (caught.value.code, caught.value.fix) == ("no-converter", 'pip install "fireiron[png]"')


def test_unfinished_schedules_have_no_kernel_to_draw() -> None:
    unfinished = matmul(64, 64, 64).tile(32, 32).to(Block)
    for draw in (pictures.banks, pictures.timeline, pictures.roofline):
        with pytest.raises(FireironError) as caught:
            draw(unfinished)
        assert caught.value.code == "unfinished"
    with pytest.raises(FireironError) as caught:
        pictures.timeline(simt.listing2(matmul(256, 256, 64)), "guessed")  # type: ignore[arg-type]
    assert caught.value.code == "unknown-policy"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mma.m16n8k16.f32.f16", "A 16x16 f16 in FR, 8 elements a thread, in 4 registers"),
        ("mma.m16n8k32.i32.i8", "A 16x32 i8 in FR, 16 elements a thread, in 4 registers"),
        ("mma.m16n8k64.i32.i4", "B 64x8 i4 in FR, 16 elements a thread, in 2 registers"),
        ("mma.m8n8k4.f64.f64", "C 8x8 f64 in FR, 2 elements a thread, in 4 registers"),
    ],
)
def test_a_fragment_tells_elements_from_registers(name: str, said: str) -> None:
    assert said in str(pictures.fragment(name))


def test_what_is_so_of_each_element_is_said_once() -> None:
    picture = pictures.fragment("wmma.m16n16k16.row.col.f32.f16")
    assert str(picture).count("each element is held by 2 threads, the first is named") == 2
    assert "+</text>" not in picture.svg()


def test_what_nobody_holds_has_no_legend_of_threads() -> None:
    assert "thread.element" not in pictures.fragment("tma.load.2d.128B").svg()
    assert "a cell: thread.element; threads 0, 4 outlined" in str(pictures.fragment("ldmatrix.x4.A.b16", lanes=(0, 4)))


def test_layers_are_drawn() -> None:
    stack = fused.mlp()
    assert "<svg" in pictures.decomposition(stack).svg()
