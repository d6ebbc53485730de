"""The presets import as `fireiron.schedules` from a checkout, a wheel, and a checkout without symlinks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fireiron.base.presets_path import presets_path

ROOT = Path(__file__).resolve().parent.parent
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")


# An editable install finds `fireiron.schedules` for every copy of the package, and would hide what a copy lacks.
ALONE = (
    "import sys; sys.meta_path[:] = [f for f in sys.meta_path if '__editable__' not in getattr(f, '__module__', '')]\n"
)


def run_python(script: str, path: Path, cwd: Path) -> str:
    """Run a script that finds `path` before anything installed, and no editable install."""
    env = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, "-c", ALONE + script], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WHERE = "import fireiron, fireiron.schedules as s; print(fireiron.__file__, s.__file__, sep='\\n')"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy what a clone holds, links as links."""
    root = tmp_path / "clone"
    for name in ("fireiron", "schedules", "bench", "tests/errors"):
        shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=IGNORED)
    for name in ("setup.cfg", ".ci/backend.py", "pyproject.toml", "LICENSE", "README.md"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


def without_links(checkout: Path) -> Path:
    """Write the links as git does where it cannot make them."""
    for name in ("schedules", "bench"):
        link = checkout / "fireiron" / name
        link.unlink()
        link.write_text(f"../{name}")
    return checkout


@pytest.mark.parametrize("name", ["schedules", "bench"])
def test_the_link_is_committed_as_a_link(name: str) -> None:
    link = ROOT / "fireiron" / name
    if link.is_symlink():
        assert os.readlink(link) == f"../{name}"
    else:
        assert link.read_text().strip() == f"../{name}"


def test_presets_import_from_a_checkout(checkout: Path, tmp_path: Path) -> None:
    package, presets = run_python(WHERE, checkout, tmp_path).splitlines()
    assert Path(package) == checkout / "fireiron/__init__.py"
    assert Path(presets) == checkout / "fireiron/schedules/__init__.py"


def test_presets_import_where_the_link_is_a_text_file(checkout: Path, tmp_path: Path) -> None:
    package, presets = run_python(WHERE, without_links(checkout), tmp_path).splitlines()
    assert Path(package) == checkout / "fireiron/__init__.py"
    assert Path(presets) == checkout / "schedules/__init__.py"
    where = "import fireiron.bench.suites as b; print(b.__file__)"
    assert Path(run_python(where, checkout, tmp_path)) == checkout / "bench/suites.py"


def test_without_the_hook_the_text_file_is_no_package(checkout: Path, tmp_path: Path) -> None:
    (without_links(checkout) / "fireiron/base/presets_path.py").write_text(
        "def presets_path(package):\n    return ()\n"
    )
    with pytest.raises(AssertionError, match=r"No module named 'fireiron\.schedules'"):
        run_python(WHERE, checkout, tmp_path)


def test_a_file_that_names_no_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "schedules").write_text("../nowhere")
    assert presets_path(str(tmp_path)) == ()


def test_the_wheel_holds_the_presets_as_files(checkout: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(checkout)]
    subprocess.run(build, check=True, env={**os.environ, "FIREIRON_HOME": "https://example.org/tree/v1"})
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    about = zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "](https://example.org/tree/v1/notebooks/cli.md)" in about
    assert not re.search(r"\]\((?!https?://)[^)]+\)", about)  # an index has no other files
    assert "Classifier: Typing :: Typed" in about
    folders = (ROOT / "schedules", ROOT / "bench")
    sources = {p.relative_to(ROOT).as_posix() for folder in folders for p in folder.rglob("*.py")}
    assert {f"fireiron/{name}" for name in sources} | {"fireiron/py.typed"} <= names
    assert not [name for name in names if name.startswith(("schedules/", "tests/", "bench/"))]
    mistakes = {f"fireiron/front/mistakes/{p.name}" for p in (ROOT / "tests/errors").glob("*.py")}
    assert mistakes <= names

    site = tmp_path / "site"
    subprocess.run(
        [*pip, "install", "-q", "--no-deps", "--no-index", "--no-compile", "--target", str(site), str(wheel)],
        check=True,
    )
    package, presets = run_python(WHERE, site, tmp_path).splitlines()
    assert Path(package) == site / "fireiron/__init__.py"
    assert Path(presets) == site / "fireiron/schedules/__init__.py"
    told = run_python("from fireiron.front.catalogue import why; print(why('level-nests').title)", site, tmp_path)
    assert told == "A tile to Thread without a tile to Block."


def test_an_editable_install_is_a_path_that_editors_follow(checkout: Path, tmp_path: Path) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        "--no-deps",
        "--ignore-installed",
    ]
    # Without --ignore-installed, pip removes the package from the environment that runs this test.
    subprocess.run([*pip, "--prefix", str(tmp_path / "env"), "-e", str(checkout)], check=True)
    (path,) = (tmp_path / "env").rglob("*.pth")
    assert path.read_text().splitlines() == [str(checkout)]  # an import hook would be a line of Python
