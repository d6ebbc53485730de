"""Draw kernels, compile them in several processes, and run them on the GPU with integer data.

Called as a program it draws, compiles and runs some, each where a kernel that hangs or faults ends no other:
`python tests/gpu/drawn.py --kernels 500 --save drawn.jsonl`. For compute-sanitizer it runs them in its own process:
`compute-sanitizer --tool memcheck python tests/gpu/drawn.py --saved drawn.jsonl --kernels 50`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
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
from tests.fuzz.apart import apart  # noqa: E402
from tests.fuzz.draw import drawn  # noqa: E402
from tests.fuzz.judge import built, integers, judge, results, sizes_of  # noqa: E402

MOST_WORKERS = 16
BATCH = 10  # kernels that one process draws and compiles
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
    arrays = integers(schedule, interface, sizes)
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


def drawn_kernels(seed: str, count: int, arch: str) -> list[tuple[str, str]]:
    """Prepare so many kernels in several processes."""
    seeds = [f"{seed} {i}" for i in range(-(-count // BATCH))]
    return [one for found in in_processes(seeds, BATCH, arch).values() for one in found][:count]


def in_turn(found: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Run kernels in this process; gives each one's name, first with `runs`, then with what is wrong, if anything."""
    for name, source in found:
        yield name, "runs"
        try:
            yield name, differs(source)
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"


def on_gpu(found: list[tuple[str, str]]) -> dict[str, str]:
    """Run kernels in processes of their own, and give what is wrong by name."""
    return apart(found, [sys.executable, __file__, "--saved", "-", "--lines"])


def saved(path: str) -> list[tuple[str, str]]:
    """Read kernels that were drawn."""
    text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    return [tuple(json.loads(line)) for line in text.splitlines()]


def main() -> int:
    """Run some kernels."""
    from fireiron.jit.driver import driver

    parser = argparse.ArgumentParser("drawn.py")
    parser.add_argument("--kernels", type=int, default=50)
    parser.add_argument("--seed", default="sanitizer")
    parser.add_argument("--save", type=Path, help="write the kernels that are drawn to this file")
    parser.add_argument("--saved", help="run the first kernels of this file, in this process")
    parser.add_argument("--lines", action="store_true", help="end at a kernel that is wrong, and answer in JSON")
    asked = parser.parse_args()
    arch = f"sm_{driver().compute_capability(0)}"  # without a GPU a call would simulate
    if asked.lines:
        for name, text in in_turn(saved(asked.saved)):
            print(json.dumps((name, text)), flush=True)
            if text not in ("", "runs"):
                return 1
        return 0
    if asked.saved:
        found = saved(asked.saved)[: asked.kernels]
        wrong: dict[str, str] = {}
        for i, (name, text) in enumerate(in_turn(found)):
            if text == "runs":
                print(f"{i // 2}: {name}", flush=True)  # what a sanitizer says stands below the kernel's name
            elif text:
                wrong[name] = text
    else:
        found = drawn_kernels(asked.seed, asked.kernels, arch)
        if asked.save:
            asked.save.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
        wrong = on_gpu(found)
    texts = dict(found)
    for name, text in wrong.items():
        print(f"WRONG {name}: {text}\n  {texts[name]}")
    print(f"{len(found)} kernels, {len(wrong)} wrong")
    return int(bool(wrong) or len(found) < asked.kernels)


if __name__ == "__main__":
    sys.exit(main())
