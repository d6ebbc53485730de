"""Draw kernels, compile them in several processes, and run them on the GPU with integer data.

Called as a program it runs some of them, for compute-sanitizer:
`compute-sanitizer --tool memcheck python tests/gpu/drawn.py --kernels 50`.
"""

from __future__ import annotations

import argparse
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parent.parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from fireiron.base.errors import FireironError  # noqa: E402
from fireiron.jit.interface import Interface  # noqa: E402
from fireiron.jit.maps import recipes  # noqa: E402
from fireiron.verify.reference import references  # noqa: E402
from tests.fuzz.draw import drawn  # noqa: E402
from tests.fuzz.judge import built, integers, judge, results, sizes_of  # noqa: E402

MOST_WORKERS = 12
MOST_DRAWN = 40  # chains for each kernel, of which some three are refused and one is right


def for_arch(source: str, arch: str) -> str:
    """Let a chain's text name another architecture."""
    return re.sub(r"arch=(['\"])sm_\d+\1", f"arch='{arch}'", source)


def prepared(seed: str, count: int, arch: str) -> list[tuple[str, str]]:
    """Draw chains until so many are right bit by bit on the simulator, and compile them into the disk cache.

    Args:
        seed: of all of them.
        count: how many.
        arch: the GPU's architecture.

    Returns:
        Each chain's seed and text.
    """
    found: list[tuple[str, str]] = []
    for i in range(count * MOST_DRAWN):
        if len(found) == count:
            break
        source = for_arch(drawn(f"{seed}/{i}"), arch)
        if judge(source).kind != "right":
            continue
        try:
            schedule = built(source)
            schedule.compile()
            interface = Interface.of(schedule.lowered())
            recipes(interface, sizes_of(interface))
        except FireironError:  # more registers or shared memory than there are, or sizes of symbols that no map takes
            continue
        found.append((f"{seed}/{i}", source))
    return found


def in_processes(seeds: list[str], count: int, arch: str) -> dict[str, list[tuple[str, str]]]:
    """Prepare the kernels of several seeds at once."""
    workers = min(MOST_WORKERS, cpu_count() or 1, len(seeds))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        made = {seed: pool.submit(prepared, seed, count, arch) for seed in seeds}
        return {seed: future.result() for seed, future in made.items()}


def differs(source: str) -> str:
    """Run a chain's kernel on the GPU, and say where its results are not those of the simulator; nothing if nowhere."""
    schedule = built(source)
    interface = Interface.of(schedule.lowered())
    sizes = sizes_of(interface)
    arrays = integers(interface, sizes)
    before = {name: array.copy() for name, array in arrays.items()}
    numbers: dict[str, Any] = {p.name: 2 for p in interface.numbers}
    outs = tuple(arrays[p.name] for p in interface.outputs)
    inputs = [arrays[p.name] for p in interface.inputs]
    schedule.compile()(*inputs, out=outs if len(outs) > 1 else outs[0], **numbers)
    exact, wrong = results(schedule, arrays, before, numbers)
    if wrong:
        return ": ".join(wrong)
    # Bits are proved where the reference has no bound; rsqrt of two devices may differ in the last one.
    bounds = (x.error for x in references(schedule, {**arrays, **before}, numbers).values())
    return "" if exact or any(error.any() for error in bounds) else "not bit by bit what the simulator gives"


def main() -> int:
    """Run some kernels in this process."""
    from fireiron.jit.driver import driver

    parser = argparse.ArgumentParser("drawn.py")
    parser.add_argument("--kernels", type=int, default=50)
    parser.add_argument("--seed", default="sanitizer")
    asked = parser.parse_args()
    found = prepared(asked.seed, asked.kernels, f"sm_{driver().compute_capability(0)}")
    wrong = {f"{name}: {source}": text for name, source in found if (text := differs(source))}
    print(f"{len(found)} kernels, {len(wrong)} wrong", *(f"{text}\n  {name}" for name, text in wrong.items()), sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
