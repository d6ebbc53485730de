"""Run command lines that are wrong in a word or two, and report those that end in a traceback.

    python -m tests.fuzz.lines --seconds 60 --seed 7

Lines run in one process, in a folder of their own that has schedules, broken files and records. A line may work, or be
refused in words. A finding is an exception, another exit code than 0, 1 and 2, a refusal without a word, output under
`--json` that is no JSON, or a minute without an answer.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shlex
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import attrs

from fireiron.front.cli import RIGHT, USAGE, WRONG, main
from tests.fuzz.calls import FIREIRON, SCHEDULES, Slow, limited

MOST_S = 60.0  # of a line, of processor time: simulations may take 30

FILES = {
    "mine.py": "from fireiron import matmul\nfrom fireiron.schedules import simt\n\n"
    "def f(m: int = 64, name: str = 'x', warp: tuple[int, int] = (32, 32), on: bool = True):\n"
    "    return simt.listing2(matmul(m, 64, 32))\n\n"
    "def spec(spec):\n    return simt.sgemm(spec)\n\n"
    "def nothing():\n    return None\n\n"
    "def fails():\n    return 1 // 0\n\n"
    "number = 7\n",
    "broken.py": "def f(:\n",
    "raises.py": "raise ValueError('no')\n",
    "leaves.py": "raise SystemExit(3)\n",
    "empty.py": "",
    "bad.jsonl": '{"format": 99}\nnot json\n{"a": [[[[]]]]}\n\x00\xff\n',
    "deep.jsonl": "[" * 5000 + "\n",
    "empty.jsonl": "",
}
SPEC = ("--shape 128x128x32", "--dtype f16", "--dtype f16:f32:f16", "--layout TN", "--batch 2", "--alpha 2",
        "--beta b", "--shape Mx64x32", "--layout row,col", "--arch sm_80", "--arch sm_90", "--json")  # fmt: skip
# Lines that work, or that this machine refuses.
LINES = (
    *(f"{verb} simt.listing2 --shape 64x64x16" for verb in ("show", "check", "explain", "estimate", "emit")),
    *(f"{verb} simt.sgemm --shape 64x64x16 --m 64 --n 64 --warp 32x32 --thread 4x8" for verb in ("simulate", "run")),
    *(f"{verb} ampere.gemm --dtype f16 --shape 64x64x64 --m 64 --n 64 --warp 32x32" for verb in ("show", "simulate")),
    *(f"{verb} rows.softmax" for verb in ("show", "check")),
    *(f"{verb} mine.py:f --m 64 --name x --no-on" for verb in ("show", "simulate", "check", "emit")),
    "show conv.conv2d --n 1 --h 6 --w 8 --channel 16 --k 16 --c 16 --r 3 --s 3 --dtype f16 --schedule mma --stages 2",
    "simulate conv.conv2d --n 1 --h 6 --w 8 --channel 4 --k 4 --c 4 --stride 2 --pad 1",
    "simulate conv.max_pool2d --window 2",
    "check attention.attention --dtype f16 --i 64 --j 64 --d 32 --e 32 --causal --schedule mma --warps 2",
    "show conv_gradients.conv2d_filter_gradient --taps 2 --schedule filters_mma --dtype f16",
    "run rows.top --m 4 --n 64",
    "studio simt.listing1 --shape 16x16x16 -o page.html",
    "export simt.listing1 --shape 16x16x16 --arch sm_80 --no-cache -o out",
    "emit hopper.gemm --dtype f16 --layout TN --shape 256x256x128 -o out.cu",
    "compile simt.listing1 --shape 64x64x16 --arch sm_80 --no-cache -o out.cubin",
    "compile simt.listing1 --shape 64x64x16 --arch sm_80 --ptx --lineinfo --max-registers 64 --allow-spills",
    "diff simt.listing1 --shape 64x64x16 simt.listing2 --shape 64x64x16",
    "estimate simt.sgemm --shape Mx64x32 --set M=64 --arch sm_80",
    "simulate simt.sgemm --shape Mx64x32 --set M=64 --alpha a --set a=2 --blocks 1 --seed 3 --no-track",
    "list --json",
    "why",
    "why no-atom",
    "best --shape 64x64x64 --arch sm_80",
    "tune simt.sgemm --shape 64x64x64 --space m=64,128 --budget 1",
    "records merge out.jsonl bad.jsonl empty.jsonl",
    "records show bad.jsonl",
    "records check bad.jsonl deep.jsonl",
    "records repair bad.jsonl",
    "cache path",
    "cache clear",
    "--version",
    "--help",
)
ODD = (
    "", " ", "-", "--", "-1", "0", "1e9", "nan", "inf", "2147483648", "99999999999999999999", "1.5", "x", "é",
    "\x1b[31m",
    "None", "True", "--json", "--arch", "sm_99", "sm_1", "90a", "--shape", "0x0x0", "-1x2x3", "1x2", "MxNxK", "1x2x3x4",
    "AxAxA", "intx4x4", "--dtype", "f99", "f16:f16:f16:f16", "::", "--layout", "XX", "row,", "--batch", "--groups",
    "--alpha", "int", "--beta", "C", "--set", "M", "M=", "=1", "M=x", "M=-1", "a=nan", "--blocks", "--seed", "--m",
    "--warp", "32x", "x32", "0x0", "32x32x32", "--stages", "--space", "m=", "m=1,x", "warp=3x", "-o", "mine.py:f",
    "mine.py:g", "mine.py", "mine.py:number", "mine.py:nothing", "mine.py:fails", "mine.py:spec", "broken.py:f",
    "raises.py:f", "leaves.py:f", "empty.py:f", "nowhere.py:f", ":f", ":", ".", "..", "simt", "simt.", "simt.nothing",
    "simt.listing1", "simt.sgemm", "hopper.gemm", "fused.mlp", "rows.layernorm", "volta.listing3", "os.system",
    "bad.jsonl",
    "deep.jsonl", "nowhere/out.jsonl", "folder", "pipe\0", "--help", "--ptx", "--sass", "--width", "--max-registers",
    "--budget", "--device", "--effort", "--suite", "--records", "fully", "a" * 3000,
)  # fmt: skip


@attrs.frozen
class Found:
    """Hold a line that ended badly.

    Args:
        site: what is wrong with its end, and where it was raised.
        line: the words.
        text: what was said.
    """

    site: str
    line: str
    text: str


def drawn(draw: random.Random) -> list[str]:
    """Draw a line that works, and make one word or several of it wrong."""
    words = shlex.split(draw.choice(LINES))
    if draw.random() < 0.4:
        words += shlex.split(draw.choice(SPEC))
    for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))):
        i = draw.randrange(len(words)) if words else 0
        match draw.choice(("drop", "double", "exchange", "odd", "odd", "odd", "insert", "other", "number", "number")):
            case "drop":
                del words[i : i + 1]
            case "double":
                words[i:i] = words[i : i + 1]
            case "exchange":
                words[i : i + 2] = words[i : i + 2][::-1]
            case "odd":
                words[i : i + 1] = [draw.choice(ODD)]
            case "insert":
                words.insert(draw.randrange(len(words) + 1), draw.choice(ODD))
            case "other":
                words[i : i + 1] = [draw.choice(shlex.split(draw.choice(LINES)))]
            case _:
                digits = [j for j, word in enumerate(words) if any(c.isdigit() for c in word)]
                if digits:
                    j = draw.choice(digits)
                    old = next(c for c in words[j] if c.isdigit())
                    words[j] = words[j].replace(old, str(draw.choice((0, 1, 3, 7, 64, -1, 10**6, 2**31))), 1)
    return words


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Work in a folder of its own, with its own cache and records."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        own = {"FIREIRON_CACHE_DIR": f"{name}/cache", "FIREIRON_RECORDS": f"{name}/records.jsonl", "COLUMNS": "80"}
        with mock.patch.dict(os.environ, own):
            os.chdir(name)
            try:
                yield Path(name)
            finally:
                os.chdir(before)


def restore(path: Path) -> None:
    """Write the files that lines name, as they were before any line ran."""
    (path / "folder").mkdir(exist_ok=True)
    for name, text in FILES.items():
        (path / name).write_text(text, encoding="latin-1")


def attempt(words: list[str]) -> tuple[str, Found | None]:
    """Run a line; say how it ended (`worked`, `wrong`, `usage`, `finding`), and what was found."""
    out, err = io.StringIO(), io.StringIO()
    line = f"fireiron {shlex.join(words)}"
    known = set(sys.modules)
    try:
        with (
            limited(MOST_S),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            warnings.simplefilter("ignore")
            code = main(words)
    except (Exception, Slow, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if f.filename.startswith((FIREIRON, SCHEDULES))]
        last = (ours or frames)[-1]
        where = f"{Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno} {last.name}"
        return "finding", Found(f"{type(error).__name__} {where}", line, str(error)[:300])
    finally:
        for name in set(sys.modules) - known:
            if getattr(sys.modules[name], "__file__", None) in FILES:
                del sys.modules[name]
    said = err.getvalue()
    if "Traceback (most recent call last)" in said + out.getvalue():
        return "finding", Found("a traceback is printed", line, (said or out.getvalue())[-300:])
    if code not in (RIGHT, WRONG, USAGE):
        return "finding", Found(f"exit code {code}", line, said[-300:])
    if code != RIGHT and not (said or out.getvalue()).strip():
        return "finding", Found(f"exit code {code} without a word", line, "")
    if "\x1b" in said and "\x1b" in line:
        return "finding", Found("a control character reaches the terminal", line, repr(said)[:300])
    if (
        code == RIGHT
        and "--json" in words
        and not {"--help", "-h", "--version"} & {*words}
        and not _json(out.getvalue())
    ):
        return "finding", Found("no JSON", line, out.getvalue()[:300])
    return {RIGHT: "worked", WRONG: "wrong", USAGE: "usage"}[code], None


def _json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@attrs.frozen
class Outcome:
    """Hold what many lines came to: how they ended, and the first finding of each site."""

    counts: Counter[str] = attrs.field(factory=Counter)
    found: dict[str, Found] = attrs.field(factory=dict)

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {how}" for how, count in self.counts.most_common())
        each = "".join(f"\n  {one.site}\n    {one.line[:500]}\n    {one.text}" for one in self.found.values())
        return f"{self.counts.total()} lines: {ends}{each}"


def fuzz(seed: Any, most: int, seconds: float) -> Outcome:
    """Run lines until enough are run or the time is over."""
    draw, end, outcome = random.Random(seed), time.monotonic() + seconds, Outcome()
    with folder() as path:
        for _ in range(most):
            if time.monotonic() > end:
                break
            restore(path)
            how, found = attempt(drawn(draw))
            outcome.counts[how] += 1
            if found is not None:
                outcome.found.setdefault(found.site, found)
    return outcome


def command() -> int:
    """Read the options, run, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.lines", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--most", type=int, default=10**9)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    outcome = fuzz(options.seed, options.most, options.seconds)
    print(outcome)
    return int(bool(outcome.found))


if __name__ == "__main__":
    sys.exit(command())
