"""Time networks of many batches and lengths against eager torch and its compiler, and write one table.

`python -m bench networks-table [--network NAME ...] [--seed WORD] [--seconds S] [-o FILE.jsonl]`. The order of cases is
drawn and takes the networks in turn, so that a run that ends early has cases of each. Several processes compile; each
case is timed while the other processes of its GPU are stopped (`turns.py`). A case that fails, or takes too long, loses
its process, and its line says so. Peers are eager attention, SDPA and `torch.compile`, each also captured in a CUDA
graph; the table has the ratio to the fastest of them.
"""

from __future__ import annotations

import argparse
import gc
import os
import queue
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from fireiron.jit.process import Lost, Process

from . import networks
from .arrays import torch_module
from .lines import report
from .measure import why_not_timed
from .tables import geomean
from .turns import Turns

BATCHES, LENGTHS = (1, 8, 32), (128, 384, 512, 1024)
POSITIONS = {name: 512 for name in networks.NETWORKS} | {"gpt2": 1024}
# Other networks: batches and lengths.
SHAPES = {
    "llama": ((1, 512), (1, 2048), (1, 4096)),
    "llama-decode": ((1, 4096), (8, 4096), (32, 1024)),
    "vit-b16": ((1, 0), (8, 0), (32, 0)),
    "resnet-50": ((1, 0), (32, 0)),
    "lstm": ((32, 16),),
    "dlrm": ((2048, 0),),
    "gpt2-loss": ((4, 1024),),
    "bert-base-loss": ((32, 384),),
    **dict.fromkeys(networks.BLOCKS, ((0, 0),)),  # whose sizes are in blocks.py
}
LIMIT_S, SECONDS = 240.0, 600.0
SPARE = 2  # processes that may wait for their turn while every core has another one
# A process has one core: inductor would start a process for each core.
ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@attrs.frozen
class Work:
    """Hold one case.

    Args:
        network: its name.
        batch: sequences, images or samples.
        length: tokens of a sequence; 0 where a network has none.
        layers: number of layers instead of the network's own; 0 for its own.
        train: whether a forward and a backward pass is timed.
    """

    network: str
    batch: int
    length: int
    layers: int = 0
    train: bool = False

    def __str__(self) -> str:
        size = f"{self.batch}x{self.length}" if self.length else str(self.batch)
        few = f", {self.layers} layers" if self.layers else ""
        return f"{self.network}{f' {size}' if self.batch else ''}{' training' if self.train else ''}{few}"


Measure = Callable[[Work, str, tuple[str, ...], Callable[[], None]], dict[str, Any]]


def cases(names: Sequence[str], layers: int = 0, train: bool = False) -> list[Work]:
    """List the cases of networks."""
    found: list[Work] = []
    for name in names:
        most = POSITIONS.get(name, 0)
        shapes = SHAPES.get(name) or [(b, s) for b in BATCHES for s in LENGTHS if s <= most]
        found += [Work(name, *shape, layers, train) for shape in shapes]
    return found


def drawn(works: Sequence[Work], seed: str) -> list[Work]:
    """Put cases in a drawn order that takes the networks in turn.

    Example:
        >>> [str(work) for work in drawn([Work("a", 1, 8), Work("a", 2, 8), Work("b", 1, 8)], "y")]
        ['a 1x8', 'b 1x8', 'a 2x8']
    """
    chance = random.Random(seed)
    rows = [[w for w in works if w.network == name] for name in dict.fromkeys(w.network for w in works)]
    rows = [chance.sample(row, len(row)) for row in rows]
    return [row[turn] for turn in range(max(map(len, rows), default=0)) for row in rows if turn < len(row)]


def measured(work: Work, dtype: str, peers: tuple[str, ...], gate: Callable[[], None]) -> dict[str, Any]:
    """Check and time a case in this process."""
    torch = torch_module()
    torch._dynamo.reset()
    try:
        return networks.timed(
            work.network, work.batch, work.length, dtype, peers, work.layers, work.train, graphs=True, gate=gate
        )
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def in_turn(measure: Measure, work: Work, dtype: str, peers: tuple[str, ...], folder: str) -> dict[str, Any]:
    """Measure a case in a process of `lines`; it is alone on its GPU from the gate on."""
    turns = Turns(folder)
    turns.join()
    try:
        return measure(work, dtype, peers, turns.alone)
    finally:
        turns.over()


def lines(
    works: Sequence[Work], dtype: str, peers: Sequence[str], gpus: Sequence[str], jobs: int, seconds: float,
    limit_s: float = LIMIT_S, measure: Measure = measured,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Measure cases in processes until time is up, and yield each line once it is there.

    Args:
        works: in the order in which they begin.
        dtype: f16 or bf16.
        peers: names of the peers.
        gpus: the GPUs, as CUDA_VISIBLE_DEVICES names them.
        jobs: number of processes.
        seconds: after this time all processes are ended; cases without a line are left out.
        limit_s: seconds of one case, with those in which others are timed.
        measure: function that measures a case.
    """
    end = time.perf_counter() + seconds
    waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
    found: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for work in works:
        waiting.put(work)
    processes: list[Process] = []

    def serve(process: Process, folder: str) -> None:
        while time.perf_counter() < end:
            try:
                work = waiting.get_nowait()
            except queue.Empty:
                return
            line: dict[str, Any] = {"program": f"{work.network} {work.batch}x{work.length} {dtype}"}
            try:
                line |= process.call(in_turn, measure, work, dtype, tuple(peers), folder, limit_s=limit_s)
            except Lost as error:
                line["problem"] = str(error)
            except Exception as error:  # an error of CUDA may stay: the next case gets another process
                line["problem"] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                process.kill()
            if "problem" in line:
                Turns(folder).wake()
            found.put({"case": str(work), "network": work.network, **line})

    with tempfile.TemporaryDirectory() as folder:
        threads: list[threading.Thread] = []
        for gpu in gpus:
            os.mkdir(f"{folder}/{gpu}")
        for n in range(min(jobs, len(works))):
            gpu = gpus[n % len(gpus)]
            processes.append(Process(ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": gpu}))
            threads.append(threading.Thread(target=serve, args=(processes[-1], f"{folder}/{gpu}"), daemon=True))
            threads[-1].start()
        try:
            for _ in works:
                try:
                    line = found.get(timeout=max(0.0, end - time.perf_counter()))
                except queue.Empty:
                    return
                yield line
        finally:
            end = 0.0
            for process in processes:
                process.kill()
            for thread in threads:  # a thread that is starting a process now ends it
                thread.join(timeout=1.0)
            for process in processes:
                process.kill()


def said(line: Any) -> str:
    """Describe a line: our time, the ratios to peers, the fastest first; our slowest kernels where a peer is faster."""
    head = f"{line['case']}: "
    if "times" not in line:
        return head + str(line.get("problem", "checked"))
    ours = line["times"]["fireiron"]["median_us"] / 1e3
    over = ", ".join(f"{k} {r:.3f}" for k, r in sorted(line["ratios"].items(), key=lambda item: item[1]))
    text = f"{head}{ours:.3f} ms, {line['kernels']} kernels, compiled in {line['compiled_s']:.0f} s; over {over}"
    slow: dict[str, float] = line["kernels_us"] if min(line["ratios"].values(), default=1.0) < 1 else {}
    return "\n  ".join([text, *(f"{us:.1f} us {name}" for name, us in slow.items())])


def summary(found: Sequence[dict[str, Any]]) -> list[str]:
    """Write the table: for each network and for all the ratios to the fastest peer."""
    written = ["| network | cases | over the fastest peer | least | below 1.0 | failed |", "|---|---|---|---|---|---|"]
    names = list(dict.fromkeys(line["network"] for line in found))
    for name in (*names, "all"):
        of = [line for line in found if name in ("all", line["network"])]
        over = [min(line["ratios"].values()) for line in of if line.get("ratios")]
        failed = sum("problem" in line for line in of)
        numbers = [f"{geomean(over):.3f}", f"{min(over):.3f}", str(sum(r < 1 for r in over))] if over else ["-"] * 3
        written.append(f"| {' | '.join((name, str(len(over)), *numbers, str(failed)))} |")
    return written


def run(words: Sequence[str], command: str = "", measure: Measure | None = None) -> int:
    """Run the command line.

    Args:
        words: its arguments.
        command: the command, which is kept beside the results.
        measure: function that measures a case, instead of the one that needs a GPU.

    Returns:
        1 where a result of ours is wrong or a case fails, else 0.
    """
    o = _parsed(words)
    if measure is None and (why := why_not_timed()):
        print(f"nothing was timed: {why}.")
        return 0
    works = drawn(cases(o.network, o.layers, o.train), o.seed)
    found: list[dict[str, Any]] = []

    def kept() -> Iterator[dict[str, Any]]:
        for line in lines(works, o.dtype, o.vs, o.gpu, o.jobs, o.seconds, o.limit, measure or measured):
            found.append(line)
            yield line

    right = report(kept(), o.output, command, said)
    for text in summary(found):
        print(text)
    if len(found) < len(works):
        print(f"{o.seconds:.0f} s are over: {len(works) - len(found)} of {len(works)} cases are left out")
    return int(not right)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = [*networks.NETWORKS, *SHAPES]
    parser = argparse.ArgumentParser(prog="python -m bench networks-table", description="Time networks, one table.")
    parser.add_argument("--network", nargs="+", default=list(networks.NETWORKS), choices=known, help="(five)")
    parser.add_argument("--layers", type=int, default=0, help="number of layers instead of the network's own")
    parser.add_argument("--train", action="store_true", help="time a forward and a backward pass")
    parser.add_argument("--dtype", default="f16", choices=["f16", "bf16"], help="(f16)")
    parser.add_argument("--vs", nargs="+", default=list(networks.PEERS[:3]), choices=networks.PEERS)
    parser.add_argument("--seed", default="0", help="the order of cases follows from it (0)")
    gpus = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")
    parser.add_argument("--gpu", nargs="+", default=gpus, help="numbers of GPUs (those of CUDA_VISIBLE_DEVICES, or 0)")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores + SPARE, help="processes (two more than cores)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"budget ({SECONDS:.0f})")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help=f"seconds of one case ({LIMIT_S:.0f})")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    return parser.parse_args(list(words))
