"""Launches that a process kept on disk: the same plan again without a schedule; damaged files are not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fireiron import nn, trace_graph
from fireiron.front import best
from fireiron.graph import lower
from fireiron.graph import plan as planning
from fireiron.graph.dependent import dependent
from fireiron.graph.kept_schedule import KeptSchedule
from fireiron.graph.nodes import Graph
from fireiron.graph.plan import Plan
from fireiron.jit import cache
from fireiron.kernel.lower import kernel
from tests.graph.test_plan import close, half

ARCH = "sm_80"


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FIREIRON_RECORDS", str(tmp_path / "records.jsonl"))
    best.forget()
    yield
    best.forget()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the parts that are lowered."""
    found: list[str] = []
    real = lower.lowered

    def counted(graph: Graph, part: Any, *rest: Any) -> Any:
        found.append(part.kind)
        return real(graph, part, *rest)

    monkeypatch.setattr(planning, "lowered", counted)
    monkeypatch.setattr(lower, "lowered", counted)
    return found


def network() -> Graph:
    def made(x: Any, w: Any, u: Any, g: Any) -> Any:
        return nn.softmax(nn.relu(nn.layer_norm(x @ w.T, g) @ u.T).T)

    return trace_graph(made, half(16, 64), half(64, 64), half(64, 64), half(64))


def files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").glob("*.choice") if b'"launches"' in path.read_bytes()]


def same(one: Plan, other: Plan) -> None:
    assert one.memory == other.memory
    for a, b in zip(one.launches, other.launches, strict=True):
        assert (a.part, a.why, a.exposed_us, a.once) == (b.part, b.why, b.exposed_us, b.once)
        assert (a.kernel is None) == (b.kernel is None)
        if a.kernel is not None and b.kernel is not None:
            assert (repr(a.kernel.inputs), repr(a.kernel.outputs)) == (repr(b.kernel.inputs), repr(b.kernel.outputs))
            assert a.kernel.schedule.cuda() == b.kernel.schedule.cuda()
    assert one.explain() == other.explain()


@pytest.mark.parametrize("dependent", [False, True])
def test_the_plan_from_disk_is_equal_and_lowers_nothing(calls: list[str], dependent: bool) -> None:
    arch = "sm_90a" if dependent else ARCH
    first = network().plan(arch, dependent=dependent)
    assert calls
    assert not any(isinstance(k.source, KeptSchedule) for k in first.kernels)
    calls.clear()
    again = network().plan(arch, dependent=dependent)
    assert not calls
    assert all(isinstance(k.source, KeptSchedule) for k in again.kernels)
    same(first, again)
    assert 0 < len(calls) <= len(again.kernels)  # explain() builds each schedule once


def test_it_computes_the_same() -> None:
    network().plan(ARCH)
    close(network().plan(ARCH), network(), 3e-3)


def test_kernels_come_from_the_disk_too(calls: list[str]) -> None:
    first = [k.source.compile() for k in network().plan(ARCH).kernels]
    calls.clear()
    again = network().plan(ARCH)
    assert [k.source.compile().binary for k in again.kernels] == [each.binary for each in first]
    assert not calls


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"launches": [{}], "check": ""}', "an offset", "a digest"])
def test_a_damaged_file_is_written_again(calls: list[str], damage: bytes | str, tmp_path: Path) -> None:
    first = network().plan(ARCH)
    kept = files(tmp_path)
    assert kept
    before = {path: path.read_bytes() for path in kept}
    for path, data in before.items():
        if isinstance(damage, bytes):
            path.write_bytes(damage)
        elif damage == "an offset":
            path.write_bytes(
                data.replace(b'"lies": [0, 0,', b'"lies": [0, 8,').replace(b'"lies": [1,', b'"lies": [99,')
            )
        else:
            place = data.index(b'"schedules": [["') + 16
            path.write_bytes(data[:place] + b"0" * 8 + data[place + 8 :])
    calls.clear()
    again = network().plan(ARCH)
    assert calls
    same(first, again)
    assert {path: path.read_bytes() for path in kept} == before


def test_other_options_do_not_read_it(calls: list[str], tmp_path: Path) -> None:
    network().plan("sm_90a")
    for options in ({"arch": ARCH}, {"arch": "sm_90a", "dependent": True}):
        calls.clear()
        network().plan(**options)
        assert calls


def test_other_records_do_not_read_it(calls: list[str], tmp_path: Path) -> None:
    network().plan(ARCH)
    calls.clear()
    (tmp_path / "records.jsonl").write_text("\n")
    best.forget()
    network().plan(ARCH)
    assert calls


def test_other_code_does_not_read_it(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    network().plan(ARCH)
    calls.clear()
    for name in ("first_digest", "library_digest"):
        monkeypatch.setattr(f"fireiron.jit.cache.{name}", lambda: "edited")
    network().plan(ARCH)
    assert calls


def test_a_schedule_that_is_refused_since_is_not_kept(tmp_path: Path) -> None:
    network().plan(ARCH)
    again = network().plan(ARCH)
    before = len(files(tmp_path))
    source = again.kernels[0].source
    assert isinstance(source, KeptSchedule)
    other = KeptSchedule("0" * 64, source.name, source.arch, source.make, source.forget)
    assert other.compile().binary == source.schedule.compile().binary
    assert len(files(tmp_path)) == before - 1


def test_what_has_no_text_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fireiron.language.meaning.text", lambda value: repr(object()))
    network().plan(ARCH)
    assert not files(tmp_path)


def test_the_digest_of_the_library_covers_the_presets() -> None:
    root = Path(cache.__file__).parent.parent
    listed = {path for path, _ in cache._sources(str(root))}
    presets = [str(path) for path in (root / "schedules").glob("*.py")]
    assert presets
    assert listed.issuperset(presets)


def test_a_dependent_launch_is_lowered_from_the_last_passes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lowerings: list[str] = []
    real = kernel.assemble

    def counted(program: Any, links: Any, name: str, *rest: Any) -> Any:
        lowerings.append(name)
        return real(program, links, name, *rest)

    monkeypatch.setattr(kernel, "assemble", counted)
    made = network().plan("sm_90a")
    before = len(lowerings)
    for each in made.kernels:
        early = dependent(each.schedule)
        assert early.lowered().dependent
        assert not each.schedule.lowered().dependent
        fresh = kernel.lower(early.program, early.links, early.name, 90)
        assert early.lowered() == fresh
    assert len(lowerings) == before + len(made.kernels)  # the fresh ones
