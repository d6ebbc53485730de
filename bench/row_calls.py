"""Time calls of operators on rows of `fireiron.torch` beside torch's: the first, and the host's part of later ones.

`python -m bench row-calls [-o FILE.jsonl]`. First calls run in processes of their own, whose cache of kernels is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from .arrays import torch_module
from .lines import report
from .measure import why_not_timed

CALLS, ROUNDS = 1000, 11
ROWS, COLUMNS = 64, 1024
FIRST = """
import json, sys, time
import torch
made = {"device": "cuda", "dtype": torch.bfloat16}
given = [torch.randn(64, n, **made) for n in (1024, 1536, 4096, 16384)]
gains = [torch.randn(x.shape[-1], **made) for x in given]
for x, gain in zip(given, gains):
    torch.softmax(x, -1), torch.nn.functional.layer_norm(x, gain.shape, gain, gain)
torch.cuda.synchronize()
begin = time.perf_counter()
from fireiron.torch import layer_norm, softmax
found = {"import": time.perf_counter() - begin}
for name, call in (
    ("softmax, the first", lambda: softmax(given[0])),
    ("softmax, another width", lambda: softmax(given[1])),
    ("softmax, 4096 columns", lambda: softmax(given[2])),
    ("softmax, 16384 columns", lambda: softmax(given[3])),
    ("layer_norm", lambda: layer_norm(given[0], gains[0].shape, gains[0], gains[0])),
    ("layer_norm, another width", lambda: layer_norm(given[1], gains[1].shape, gains[1], gains[1])),
):
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    found[name] = time.perf_counter() - begin
print(json.dumps(found))
"""


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a call failed, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench row-calls", description="Time calls of operators on rows.")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    options = parser.parse_args(list(words))
    if why := why_not_timed():
        print(f"nothing was timed: {why}")
        return 0
    lines = [{"program": f"first call, {name}", "ms": found} for name, found in _first().items()]
    lines += [{"program": f"host part, {name}", "us": found} for name, found in _host().items()]
    return int(not report(lines, options.output, command, _words))


def _words(line: Any) -> str:
    unit = "ms" if "ms" in line else "us"
    return f"{line['program']}: " + ", ".join(f"{key} {found:.2f} {unit}" for key, found in line[unit].items())


def _first() -> dict[str, dict[str, float]]:
    """Give the milliseconds of first calls in new processes: with an empty cache, then with the kernels made there."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for how in ("empty cache", "kernels cached"):
            environment = {**os.environ, "FIREIRON_CACHE_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", FIRST], env=environment, check=True, capture_output=True, text=True
            )
            for name, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                found.setdefault(name, {})[how] = seconds * 1e3
    return found


def _host() -> dict[str, dict[str, float]]:
    """Give the microseconds that the host spends on a call, of calls that do not wait for the GPU."""
    torch, ours = torch_module(), import_module("fireiron.torch")
    functional = torch.nn.functional
    x = torch.randn(ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16)
    gain, shape = torch.randn(COLUMNS, device="cuda", dtype=torch.bfloat16), (COLUMNS,)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "softmax": (lambda: ours.softmax(x, -1), lambda: torch.softmax(x, -1)),
        "log_softmax": (lambda: ours.log_softmax(x, -1), lambda: torch.log_softmax(x, -1)),
        "layer_norm": (
            lambda: ours.layer_norm(x, shape, gain, gain),
            lambda: functional.layer_norm(x, shape, gain, gain),
        ),
        "rms_norm": (lambda: ours.rms_norm(x, shape, gain), lambda: functional.rms_norm(x, shape, gain)),
    }
    kernel, out = _kernel_of_softmax(x), torch.empty_like(x)
    pairs["softmax as a kernel with out="] = (lambda: kernel(x, out=out), lambda: torch.softmax(x, -1, out=out))
    found: dict[str, dict[str, float]] = {}
    with torch.no_grad():
        for name, (mine, other) in pairs.items():
            times: dict[str, list[float]] = {"fireiron": [], "torch": []}
            for _ in range(ROUNDS):
                for who, call in (("fireiron", mine), ("torch", other)):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(CALLS):
                        call()
                    times[who].append((time.perf_counter() - begin) / CALLS * 1e6)
            found[name] = {who: statistics.median(each) for who, each in times.items()}
    return found


def _kernel_of_softmax(x: Any) -> Any:
    from fireiron import Matrix
    from fireiron.schedules import rows

    return rows.row(rows.softmax(Matrix(*x.shape, "bf16"))).compile()
