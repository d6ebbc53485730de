"""Lines of results: times, ratios, the printed words, and the file that keeps them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from .arrays import torch_module
from .measure import here
from .results import write
from .tables import geomean


def compared(launches: Mapping[str, Callable[[], object]], rounds: int, budget_s: float) -> dict[str, Any]:
    """Time launches, interleaved, each behind a flush of the L2.

    Args:
        launches: the launches by name; ours is `fireiron`.
        rounds: the most samples of each launch.
        budget_s: seconds for all launches together.

    Returns:
        The times, and the other medians divided by ours.
    """
    from .timer import TorchTimer

    times = TorchTimer().burst(launches, rounds, budget_s)
    ours = times["fireiron"].median_us
    return {
        "times": {key: attrs.asdict(found) for key, found in times.items()},
        "ratios": {key: found.median_us / ours for key, found in times.items() if key != "fireiron"},
    }


def words(line: Mapping[str, Any]) -> str:
    """Describe a line's result, by its rate of operations or of bytes."""
    if problem := line.get("problem"):
        return f"{line['program']}: {problem}"
    if "times" not in line:
        return f"{line['program']}: {line['registers']} registers"
    ours = line["times"]["fireiron"]["median_us"]
    peers = ", ".join(f"{key} {found:.3f}" for key, found in line["ratios"].items())
    if "flops" in line:
        rate = f"{line['flops'] / ours * 1e-6:.1f} TFLOP/s"
    else:
        rate = f"{line['nbytes'] / ours * 1e-3:.0f} GB/s"
    return f"{line['program']}: {ours:.1f} us, {rate}; over {peers}"


def report(
    lines: Iterable[dict[str, Any]],
    output: str | None,
    command: str,
    said: Callable[[Mapping[str, Any]], str] = words,
    mean: bool = False,
) -> bool:
    """Print each line once it is measured, and append it to a file.

    Args:
        lines: one for each work.
        output: the file to append to, or None.
        command: the command, which is kept beside the result.
        said: function that describes a line.
        mean: whether to print the geometric mean of the fastest peers' times over ours at the end.

    Returns:
        Whether no result was wrong.
    """
    machine, right, over = here(), True, list[float]()
    for line in lines:
        right &= not line.get("problem")
        over += [min(line["ratios"].values())] if mean and line.get("ratios") else []
        print(said(line), flush=True)
        if output:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            write(output, [{**line, "machine": attrs.asdict(machine), "command": command, "when": when}])
    if over:
        print(f"{len(over)} works: over the fastest peer {geomean(over):.3f} in the mean, {min(over):.3f} at least")
    return right


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """Capture a call's launches in a CUDA graph; its result stays at one place."""
    torch = torch_module()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()

    def replay() -> Any:
        graph.replay()
        return result

    return replay
