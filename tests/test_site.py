"""The site has every public name once, its links are those of the site, and a broken one ends the build."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import get_origin

import pytest

import fireiron
from fireiron.front.cli.find import presets

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """Load the script that writes the site."""
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / ".ci/site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_has_its_place(site: ModuleType, tmp_path: Path) -> None:
    navigation = site.write(tmp_path / "pages", {"hopper.gemm"})
    listed = set(re.findall(r'"([\w/]+\.md)"', json.dumps(navigation)))
    assert listed == {path.relative_to(tmp_path / "pages").as_posix() for path in (tmp_path / "pages").rglob("*.md")}
    page = (tmp_path / "pages/04_hopper_ladder.md").read_text(encoding="utf-8")
    # Pictures stand inside the pages: an image would not see the page's theme, nor the mouse.
    assert page.count("<svg ") > 4
    assert "<svg " in (tmp_path / "pages/index.md").read_text(encoding="utf-8")
    assert not list((tmp_path / "pages").rglob("*.svg"))
    for picture in re.findall(r"<svg [^>]*>", page):
        width, least, most = (
            float(re.findall(rf"{key}([0-9.]+)", picture)[-1]) for key in (' width="', "min-width:", "max-width:")
        )
        assert most == round(width)  # never larger than it is
        assert 0.84 * width < least < 0.86 * width  # nor so small that its text cannot be read
    chains = (tmp_path / "pages/api/chains.md").read_text(encoding="utf-8")
    assert "### FoldChain.tile\n" in chains
    assert "### FoldChain.compile\n" in chains  # of a class that it extends
    framed = (tmp_path / "pages/api/presets.md").read_text(encoding="utf-8")
    assert 'src="../../studio/hopper.gemm.html"' in framed
    assert framed.count("<iframe") == 1
    assert "### hopper.gemm\n" in (tmp_path / "pages/api/presets.md").read_text(encoding="utf-8")
    # Every preset of `fireiron list` is there, programs such as softmax too, and has a studio.
    headings = {line.removeprefix("### ") for line in framed.splitlines()}
    # One heading of the first level: with several, the theme leaves the page's table of contents out.
    assert len(re.findall(r"^# ", re.sub(r"^```.*?^```$", "", framed, flags=re.M | re.S), re.M)) == 1
    assert "ada.gemm(\n    spec: MatMulChain,\n" in framed  # long signatures take a line a parameter
    assert {target.reference for target in presets()} <= headings
    assert "`x` over m n" in framed
    assert "## level-nests\n" in (tmp_path / "pages/api/codes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["conv.max_pool2d", "conv_gradients.conv2d_filter_gradient", "pointwise.move", "volta.tvm"]
)
def test_presets_with_needs_of_their_own_have_a_studio(site: ModuleType, name: str) -> None:
    (target,) = (target for target in presets() if target.reference == name)
    assert "<svg" in (site.studio(target) or "")


def test_the_reference_has_public_names_alone(site: ModuleType) -> None:
    found = [name for names in site.public().values() for name in names]
    aliases = {"Op", "Strategy", *(name for name in fireiron.__all__ if get_origin(getattr(fireiron, name)))}
    assert set(fireiron.__all__) - aliases <= set(found)
    assert len(found) == len(set(found))
    assert not [name for name in found if name.startswith("_")]


def test_links_are_those_of_the_site(site: ModuleType) -> None:
    text = (
        "[a](notebooks/cli.md#verbs) [b](LICENSE) ![c](notebooks/pictures/tree.svg) [d](https://e.org/x.md) [f](#g)\n"
    )
    there = "[a](cli.md#verbs) [b](license.md) ![c](pictures/tree.svg) [d](https://e.org/x.md) [f](#g)\n"
    assert site.moved(text, "README.md") == there
    assert site.moved("[a](../schedules) [b](01_first_schedule.ipynb)", "notebooks/start.md") == (
        "[a](api/presets.md) [b](01_first_schedule.md)"
    )


@pytest.mark.parametrize("link", ["nowhere.md", "index.md#nowhere"])
def test_a_broken_link_ends_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/index.md").write_text(f"# Home\n\n[there]({link})\n")
    settings = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "pages", "nav": [{"Home": "index.md"}]}
    (tmp_path / "mkdocs.yml").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert built.returncode != 0
    assert "nowhere" in built.stderr


@pytest.mark.parametrize("name", ["simt.listing2", "hopper.split_k", "rows.softmax"])
def test_presets_have_a_studio(site: ModuleType, name: str) -> None:
    (target,) = (each for each in site.listed() if each.reference == name)
    page = site.studio(target)
    assert page is not None
    assert 'id="slider"' in page
    assert 'id="cuda"' in page
