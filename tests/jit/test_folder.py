"""The cache's folder: of a limited size, of its owner alone, and never a reason not to compile."""

from __future__ import annotations

import os
import stat
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from tiny_kernel import SOURCE, make_kernel

from fireiron.algebra.arch import arch
from fireiron.front.cli import main
from fireiron.jit import cache, folder
from fireiron.jit.build import build
from fireiron.jit.cache import Entry, load, store
from fireiron.jit.compile import CompileOptions, compile_source
from fireiron.jit.interface import Interface

KEY = "k" * 40


@pytest.fixture(scope="module")
def entry() -> Entry:
    return Entry(compile_source(SOURCE, "axpy", arch(80)), Interface.of(make_kernel()))


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    cache._memory.clear()
    cache._told.clear()
    folder._unseen.clear()
    yield
    cache._memory.clear()
    cache._told.clear()


def stored(entry: Entry, count: int) -> None:
    for i in range(count):
        store(key(i), entry)


def key(i: int) -> str:
    return f"{i:040d}"


def test_what_was_not_used_for_longest_is_evicted(entry: Entry, cache_dir: Path, monkeypatch: Any) -> None:
    store(key(0), entry)
    nbytes = (cache_dir / f"{key(0)}.kernel").stat().st_size
    monkeypatch.setenv("FIREIRON_CACHE_LIMIT", str(5 * nbytes))
    for i in range(1, 5):
        store(key(i), entry)
    hour = time.time_ns() - 3600 * 10**9
    for i in range(5):  # used in this order; of late, so that reading alone changes no time
        os.utime(cache_dir / f"{key(i)}.kernel", ns=(hour + i * 10**9, hour - 3600 * 10**9))
    assert load(key(0)) is not None  # used now
    store(key(9), entry)
    left = sorted(p.stem for p in cache_dir.glob("*.kernel"))
    assert left == [key(0), key(3), key(4), key(9)]  # 4 of 5: nine tenths of the limit
    assert cache.usage()[1] <= 5 * nbytes
    assert load(key(1)) is None


def test_the_cache_stays_below_its_limit_whatever_is_stored(entry: Entry, monkeypatch: Any) -> None:
    store(KEY, entry)
    nbytes = cache.usage()[1]
    monkeypatch.setenv("FIREIRON_CACHE_LIMIT", f"{nbytes * 3 // 1024}K")
    for i in range(12):
        store(key(i), entry)
        assert cache.usage()[1] <= 3 * nbytes
        assert load(key(i)) is not None
    monkeypatch.setenv("FIREIRON_CACHE_LIMIT", "1")  # less than one entry: the newest stays
    store(KEY, entry)
    assert cache.usage()[0] == 1


@pytest.mark.parametrize(
    ("text", "nbytes"), [("", 1 << 30), ("100", 100), ("2k", 2048), ("3 MiB", 3 << 20), ("1G", 1 << 30), ("x", 1 << 30)]
)
def test_the_limit_is_read(text: str, nbytes: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_LIMIT", text)
    assert folder.limit() == nbytes


def test_what_killed_writers_left_is_deleted(entry: Entry, cache_dir: Path, monkeypatch: Any) -> None:
    store(KEY, entry)
    old, new = cache_dir / f".{KEY}.kernel.1.aa.tmp", cache_dir / f".{KEY}.kernel.2.bb.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    hours = time.time_ns() - 2 * 3600 * 10**9
    os.utime(old, ns=(hours, hours))
    monkeypatch.setattr(folder, "UNSEEN_S", 0.0)
    store(key(1), entry)
    assert not old.exists()
    assert new.exists()  # its writer may be at it


def test_the_folder_is_not_looked_at_for_every_file(entry: Entry, cache_dir: Path, monkeypatch: Any) -> None:
    looked: list[Path | None] = []
    listed = folder.kept

    def kept(place: Path | None) -> Any:
        looked.append(place)
        return listed(place)

    monkeypatch.setattr(folder, "kept", kept)
    stored(entry, 5)
    assert len(looked) == 1
    monkeypatch.setenv("FIREIRON_CACHE_LIMIT", str((cache_dir / f"{key(0)}.kernel").stat().st_size * 64 * 2))
    folder._unseen.clear()
    stored(entry, 5)
    assert len(looked) == 3  # each look leaves room for two
    monkeypatch.setattr(folder, "UNSEEN_S", 0.0)
    stored(entry, 5)
    assert len(looked) == 8


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_enter(entry: Entry, cache_dir: Path) -> None:
    store(KEY, entry)
    assert mode(cache_dir) == 0o700
    assert mode(cache_dir / f"{KEY}.kernel") == 0o600
    os.chmod(cache_dir, 0o755)  # as older versions made it
    store(KEY, entry)
    assert mode(cache_dir) == 0o700
    build("digest", make_kernel, arch(80), CompileOptions(lineinfo=True))
    assert mode(cache_dir / "sources") == 0o700


def test_entries_of_others_are_refused(entry: Entry, cache_dir: Path, monkeypatch: Any) -> None:
    store(KEY, entry)
    path = cache_dir / f"{KEY}.kernel"
    os.chmod(path, 0o666)
    with pytest.warns(UserWarning, match="others may write it"):
        assert load(KEY) is None
    os.chmod(path, 0o600)
    assert load(KEY) is not None
    me, real = os.geteuid(), os.fstat

    class Theirs:
        def __init__(self, found: os.stat_result) -> None:
            self.found = found

        def __getattr__(self, name: str) -> Any:
            return me + 1 if name == "st_uid" else getattr(self.found, name)

    with monkeypatch.context() as patch:
        patch.setattr(folder.os, "fstat", lambda d: Theirs(real(d)))
        with pytest.warns(UserWarning, match=f"belongs to user {me + 1}"):
            assert load(KEY) is None


def test_a_folder_of_someone_else_is_not_used(entry: Entry, cache_dir: Path, monkeypatch: Any) -> None:
    store(KEY, entry)
    before = sorted(p.name for p in cache_dir.iterdir())
    me = os.geteuid()
    monkeypatch.setattr(folder.os, "geteuid", lambda: me + 1)
    assert load(KEY) is None
    with pytest.warns(UserWarning, match=f"memory alone.*belongs to user {me}") as told:
        stored(entry, 3)
    assert len(told) == 1
    assert load(key(2)) == entry
    assert sorted(p.name for p in cache_dir.iterdir()) == before
    assert cache.clear() == 0


def test_nothing_is_written_or_deleted_through_links(entry: Entry, cache_dir: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a.cu").write_text("mine")
    cache_dir.mkdir(mode=0o700)
    path = cache_dir / f"{KEY}.kernel"
    path.symlink_to(victim)
    with pytest.warns(UserWarning, match="does not read its cache entry"):
        assert load(KEY) is None
    store(KEY, entry)
    assert victim.read_text() == "mine"
    assert not path.is_symlink()
    (cache_dir / "sources").symlink_to(tmp_path / "theirs")
    cache.clear()
    assert (tmp_path / "theirs" / "a.cu").exists()


def test_strange_entries_are_survived(entry: Entry, cache_dir: Path, capsys: Any) -> None:
    store(KEY, entry)
    (cache_dir / "folder.kernel").mkdir()
    (cache_dir / "folder.kernel" / "inside").write_text("mine")
    (cache_dir / "broken.kernel").symlink_to("nowhere")
    os.mkfifo(cache_dir / "pipe.kernel")
    (cache_dir / ".odd.tmp").mkdir()
    (cache_dir / "sources").write_text("no folder")
    begin = time.perf_counter()
    with pytest.warns(UserWarning, match="no regular file"):
        assert load("pipe") is None
    assert cache.usage()[0] >= 1
    store(key(1), entry)
    assert main(["cache", "path", "--json"]) == 0
    assert main(["cache", "clear"]) == 0
    assert time.perf_counter() - begin < 30
    assert "4 files deleted" in capsys.readouterr().out
    assert sorted(p.name for p in cache_dir.iterdir()) == [".odd.tmp", "folder.kernel", "sources"]


def no_home(monkeypatch: Any) -> None:
    def refused() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("FIREIRON_CACHE_DIR", "XDG_CACHE_HOME", "FIREIRON_RECORDS", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(refused))


def test_without_a_home_kernels_stay_in_memory(entry: Entry, monkeypatch: Any, capsys: Any) -> None:
    no_home(monkeypatch)
    assert folder.cache_path() is None
    assert load(KEY) is None
    calls: list[int] = []

    def lower() -> Any:
        calls.append(1)
        return make_kernel()

    with pytest.warns(UserWarning, match="there is no home folder") as told:
        [build(f"digest {i % 2}", lower, arch(80)) for i in range(4)]
    assert len(told) == 1
    assert len(calls) == 2
    assert main(["cache", "path"]) == 0
    assert main(["cache", "clear"]) == 0
    assert main(["doctor"]) in (0, 1)
    assert "in memory" in capsys.readouterr().out


def test_without_a_home_products_are_computed(monkeypatch: Any) -> None:
    import numpy as np

    from fireiron import gemm
    from fireiron.base.errors import FireironError
    from fireiron.front import best as choosing
    from fireiron.tune.records import default_path

    no_home(monkeypatch)
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    choosing.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (gemm(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)) == 8).all()
    choosing.forget()
    with pytest.raises(FireironError) as raised:
        default_path()
    assert raised.value.code == "cannot-write"


def test_memory_holds_a_few_kernels(entry: Entry, monkeypatch: Any) -> None:
    no_home(monkeypatch)
    with pytest.warns(UserWarning, match="memory alone"):
        stored(entry, cache.MOST_IN_MEMORY + 10)
    assert len(cache._memory) == cache.MOST_IN_MEMORY
    assert load(key(0)) is None
    assert load(key(cache.MOST_IN_MEMORY + 9)) == entry


def test_a_full_disk_costs_a_notice(entry: Entry, cache_dir: Path, monkeypatch: Any) -> None:
    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "_write", full)
    with pytest.warns(UserWarning, match="No space left") as told:
        stored(entry, 2)
    assert len(told) == 1
    assert list(cache_dir.iterdir()) == []
    assert load(key(1)) == entry


def test_kernels_of_products_are_bounded() -> None:
    from fireiron.front import multiply

    assert multiply._kernel.cache_parameters()["maxsize"] == multiply.MOST_KERNELS < 10_000
