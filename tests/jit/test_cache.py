import os
import subprocess
import sys
import time
import types
import warnings

import attrs
import pytest
from tiny_kernel import SOURCE, make_kernel

from fireiron.algebra.arch import arch
from fireiron.cuda.printer import source
from fireiron.jit import build as jit_build
from fireiron.jit import cache, folder, identity
from fireiron.jit import compile as compiling
from fireiron.jit.build import build
from fireiron.jit.cache import Entry, cache_key, entry_path, load, store
from fireiron.jit.compile import CompileOptions, compile_source
from fireiron.jit.interface import Interface

KEY = "k" * 40


@pytest.fixture(scope="module")
def entry():
    return Entry(compile_source(SOURCE, "axpy", arch(80)), Interface.of(make_kernel()))


@pytest.fixture
def lowered():
    calls = []

    def lower():
        calls.append(1)
        return make_kernel()

    lower.calls = calls
    return lower


def test_a_warm_build_lowers_nothing(lowered):
    first = build("digest", lowered, arch(80))
    second = build("digest", lowered, arch(80))
    assert len(lowered.calls) == 1
    assert second.binary == first.binary
    assert second.interface == first.interface


def test_everything_that_matters_makes_another_entry(lowered):
    build("digest", lowered, arch(80))
    build("other", lowered, arch(80))
    build("digest", lowered, arch(86))
    build("digest", lowered, arch(80), CompileOptions(max_registers=64))
    assert len(lowered.calls) == 4
    assert cache.usage()[0] == 4


def test_both_names_of_hopper_share_an_entry(lowered):
    first = build("digest", lowered, arch("sm_90"))
    assert build("digest", lowered, arch("sm_90a")).binary == first.binary
    assert len(lowered.calls) == 1


def test_without_the_cache(lowered):
    build("digest", lowered, arch(80), cache=False)
    build("digest", lowered, arch(80), cache=False)
    assert len(lowered.calls) == 2
    assert cache.usage() == (0, 0)


def test_a_hit_is_quick_and_imports_no_cuda(entry, cache_dir):
    store(KEY, entry)
    load(KEY)
    best = min(_seconds(lambda: load(KEY)) for _ in range(5))
    assert best < 3e-3
    code = f"import sys; from fireiron.jit.cache import load; assert load({KEY!r}); print('cuda' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "False"


def test_the_library_digest_is_quick():
    assert min(_seconds(cache.library_digest) for _ in range(5)) < 30e-3  # hashing takes about 100 ms


def test_looking_for_edits_is_quick():
    cache.first_digest()
    assert min(_seconds(cache.is_edited) for _ in range(40)) < 5e-3  # some of them beside no other work of the machine


def _seconds(work):
    start = time.process_time()  # nearly the same on a machine that others share
    work()
    return time.process_time() - start


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-7], "checksum"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "checksum"),
        (lambda data: b"", "not a file of this cache"),
        (lambda data: b"somebody else's file", "not a file of this cache"),
        (lambda data: data[:16] + b"\x63\0\0\0" + data[20:], "format is 99"),
    ],
)
def test_damaged_entries_are_rebuilt_with_a_warning(lowered, damage, reason):
    build("digest", lowered, arch(80))
    path = entry_path(cache_key("digest", "sm_80", CompileOptions()))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=reason):
        again = build("digest", lowered, arch(80))
    assert len(lowered.calls) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build("digest", lowered, arch(80)).binary == again.binary
    assert len(lowered.calls) == 2


def test_an_entry_under_another_name_is_foreign(entry):
    store(KEY, entry)
    entry_path("f" * 40).write_bytes(entry_path(KEY).read_bytes())
    with pytest.warns(UserWarning, match="another name"):
        assert load("f" * 40) is None


def made_by(entry, library):
    files = compiling._files(str(library))
    compiler = attrs.evolve(
        entry.binary.compiler, path=str(library), digest=identity.content(files), stamp=identity.stamp(files)
    )
    return attrs.evolve(entry, binary=attrs.evolve(entry.binary, compiler=compiler))


def test_another_nvrtc_is_a_quiet_miss(entry, tmp_path):
    library = tmp_path / "libnvrtc.so"
    library.write_bytes(b"one")
    os.utime(library, ns=(10**18, 10**18))
    store(KEY, made_by(entry, library))
    assert load(KEY) is not None
    library.write_bytes(b"two")  # of the same size, at the same time
    os.utime(library, ns=(10**18, 10**18))
    assert load(KEY) is None
    library.write_bytes(b"one")  # installed again
    assert load(KEY) is not None
    (tmp_path / "libnvrtc-builtins.so").write_bytes(b"three")
    assert load(KEY) is None
    store(KEY, made_by(entry, library))
    (tmp_path / "libnvrtc-builtins.so").write_bytes(b"other")
    assert load(KEY) is None
    library.unlink()
    assert load(KEY) is None


def test_a_library_is_read_once_for_all_processes(tmp_path, cache_dir, monkeypatch):
    library = tmp_path / "libnvrtc.so"
    library.write_bytes(b"one")
    first = identity.content((str(library),), keep=True)
    (kept,) = cache_dir.glob("*.library")

    def refused(paths):
        raise AssertionError("read again")

    monkeypatch.setattr(identity, "_digested", refused)
    identity._known.clear()  # as another process
    assert identity.content((str(library),), keep=True) == first
    identity._known.clear()
    kept.write_text("0" * 64 + " " + kept.read_text().partition(" ")[2])  # a digest that was not ours
    with pytest.raises(AssertionError, match="read again"):
        identity.content((str(library),), keep=True)


def test_an_interrupted_write_leaves_nothing(entry, cache_dir, monkeypatch):
    def interrupted(path, data):
        path.write_bytes(data[: len(data) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store(KEY, entry)
    assert list(cache_dir.iterdir()) == []
    assert load(KEY) is None


def test_an_interrupted_rename_keeps_the_older_entry(entry, cache_dir, monkeypatch):
    store(KEY, entry)

    def interrupted(a, b):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store(KEY, entry)
    assert [p.name for p in cache_dir.iterdir()] == [f"{KEY}.kernel"]
    assert load(KEY) == entry


def test_an_unwritable_cache_costs_a_warning(lowered, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.warns(UserWarning, match="cannot"):
        assert build("digest", lowered, arch(80)).name == "axpy"


WRITER = """
import sys, warnings
sys.path[:0] = sys.argv[1:]
warnings.simplefilter("error")
from fireiron.algebra.arch import arch
from fireiron.jit.build import build
from fireiron.jit.cache import entry_path, load, store
from tiny_kernel import make_kernel
kernel = build("digest", make_kernel, arch(80))
from fireiron.jit.cache import Entry
for i in range(60):
    store("c" * 40, Entry(kernel.binary, kernel.interface))
    assert load("c" * 40) is not None
"""


def test_two_processes_write_at_once(cache_dir):
    paths = [os.path.dirname(os.path.abspath(__file__)), os.getcwd()]
    both = [
        subprocess.Popen([sys.executable, "-c", WRITER, *paths], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert sorted(p.suffix for p in cache_dir.iterdir()) == [".kernel", ".kernel", ".library"]


def test_clear_takes_entries_and_leftovers_alone(entry, cache_dir):
    store(KEY, entry)
    (cache_dir / f".{KEY}.1.aa.tmp").write_bytes(b"half")
    (cache_dir / "notes.txt").write_text("mine")
    assert cache.clear() == 2
    assert [p.name for p in cache_dir.iterdir()] == ["notes.txt"]


def test_lineinfo_keeps_the_source_for_profilers(lowered, cache_dir):
    kernel = build("digest", lowered, arch(80), CompileOptions(lineinfo=True))
    (kept,) = (cache_dir / "sources").iterdir()
    assert kept.read_text() == source(make_kernel())
    assert str(kept) in kernel.ptx


def test_default_path(monkeypatch):
    monkeypatch.delenv("FIREIRON_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform == "linux":
        assert str(cache.cache_path()) == "/somewhere/fireiron"


def test_an_edited_library_has_another_digest(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "a.py"

    def written(text):
        file.write_text(text)
        os.utime(file, ns=(10**18, 10**18))  # as archives and copies do
        monkeypatch.setattr(cache, "_IMPORTED_NS", time.time_ns() + 10**9)
        return cache.library_digest()

    monkeypatch.setattr(cache, "__file__", str(tmp_path / "jit" / "cache.py"))
    first = written("x = 1")
    assert cache.library_digest() == first
    assert written("x = 2") != first
    assert written("x = 1") == first  # what files hold counts, and not when
    # Edited after this process imported the library: nothing that it compiles may be shared.
    monkeypatch.setattr(cache, "_IMPORTED_NS", file.stat().st_ctime_ns - 1)
    ours = cache.library_digest()
    assert ours != first
    monkeypatch.setattr(cache, "_PROCESS", "another process")
    assert cache.library_digest() != ours


def test_an_edit_of_code_that_runs_is_seen(tmp_path, monkeypatch):
    package = tmp_path / "fireiron"
    for name in ("jit", "bench"):
        (package / name).mkdir(parents=True)
    used, unused, beside = package / "used.py", package / "unused.py", package / "bench" / "cases.py"
    for file in (used, unused, beside, package / "jit" / "cache.py"):
        file.write_text("x = 1")
    monkeypatch.setattr(cache, "__file__", str(package / "jit" / "cache.py"))
    monkeypatch.setattr(cache, "_first", {})
    monkeypatch.setattr(cache, "_IMPORTED_NS", time.time_ns() + 10**9)
    for name, file in (("fireiron.used", used), ("fireiron.bench.cases", beside)):
        module = types.ModuleType(name)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, module)
    cache.first_digest.cache_clear()
    try:
        assert not cache.is_edited()
        unused.write_text("x = 2")
        beside.write_text("x = 2")
        assert not cache.is_edited()  # neither makes a kernel here
        unused.write_text("x = 1")
        os.utime(used, ns=(10**18, 10**18))
        assert not cache.is_edited()  # written again, with the same text
        used.write_text("x = 2")
        assert cache.is_edited()
        used.unlink()
        assert cache.is_edited()
    finally:
        cache.first_digest.cache_clear()


def test_an_edit_while_compiling_is_not_stored(lowered, monkeypatch):
    monkeypatch.setattr(jit_build, "is_edited", lambda: True)
    build("digest", lowered, arch(80))
    assert cache.usage() == (0, 0)
