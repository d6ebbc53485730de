"""Run one size of every preset on the GPU, for compute-sanitizer, and kernels that bugs are planted in.

Call it as `compute-sanitizer --tool racecheck python tests/gpu/one_size.py`. `--part 2/5` runs every fifth kernel from
the second on; `--compile` compiles only, so that the disk cache has the kernels when a sanitizer runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

ROOT = str(Path(__file__).resolve().parent.parent.parent)
if ROOT not in sys.path:  # as a script, where the package is not installed
    sys.path.insert(0, ROOT)

from compiling import compiled  # noqa: E402
from verified import verified  # noqa: E402

from fireiron import matmul  # noqa: E402
from fireiron.base.errors import FireironError, UsageError  # noqa: E402
from fireiron.front.cli.find import presets  # noqa: E402
from fireiron.front.cli.problem import Problem  # noqa: E402
from fireiron.kernel.ir.declarations import Size  # noqa: E402
from fireiron.schedules import ampere, hopper, simt, turing, volta  # noqa: E402
from fireiron.schedules.hopper import Plan  # noqa: E402
from tests.mutate.cases import CASES, INPUTS  # noqa: E402

PRESETS = (simt.listing1, simt.listing2, simt.listing4, simt.sgemm)
PLANS = (
    Plan(128, 256),
    Plan(128, 128, cluster=(2, 1)),
    Plan(64, 64, 1, cluster=(2, 2)),
    Plan(128, 192, pingpong=True, cluster=(2, 1)),
    Plan(128, 192, pingpong=True, swapped=True),
    Plan(192, 128, 3),
    Plan(256, 128, swapped=True),
)
KEYWORDS: dict[str, Any] = {"window": 2, "taps": 1, "width": 2}  # what some presets have no default for

# Another chip's kernel, a compiler that is not installed, and a program that has arguments beside its arrays.
NOT_HERE = ("wrong-arch", "no-nvrtc", "program-arguments")


@attrs.frozen
class Kernel:
    """Hold one kernel that is run.

    Args:
        name: of the preset or case.
        schedule: builds it.
        given: arrays that are used as they are.
        bits: whether operands are of one bit, which NumPy multiplies here.
    """

    name: str
    schedule: Callable[[], Any]
    given: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    bits: bool = False


def products() -> Iterator[Kernel]:
    """List products whose tiles the sizes cut."""
    for preset in PRESETS:
        yield Kernel(preset.__name__, lambda preset=preset: preset(matmul(130, 140, 40)))
    spec = matmul(130, 140, 40, "f16")
    yield Kernel("ampere.gemm", lambda: ampere.gemm(spec))
    yield Kernel("ampere.gemm, split K", lambda: ampere.gemm(spec, m=64, n=64, warp=(32, 32), ways=2, split_k=2))
    yield Kernel("volta.gemm", lambda: volta.gemm(spec))
    for preset in (ampere.gemm, turing.gemm):
        name = f"{preset.__module__}, bits"
        yield Kernel(name, lambda preset=preset: preset(matmul(130, 130, 520, "b1", layout="TN")), bits=True)


def hopper_products() -> Iterator[Kernel]:
    """List each kind of plan on tiles that the sizes cut, with more of them than a ring has slots."""
    cases = [("bf16", None, plan) for plan in PLANS]
    cases += [("f16", "f32", PLANS[0]), ("e4m3", None, PLANS[0]), ("i8", None, PLANS[3]), ("tf32", None, PLANS[1])]
    for dtype, out, plan in cases:
        spec = matmul(520, 400, 592, dtype, out=out, layout="TN")
        yield Kernel(f"hopper.gemm {dtype} {plan}", lambda spec=spec, plan=plan: hopper.gemm(spec, plan))


def everything() -> Iterator[Kernel]:
    """List all kernels: of every preset at the size where nothing is said, and those that bugs are planted in."""
    yield from products()
    yield from hopper_products()
    for target in presets():
        names = (keyword.name for keyword in target.keywords)
        values = {name: KEYWORDS[name] for name in names if name in KEYWORDS}
        yield Kernel(target.reference, lambda target=target, values=values: target.build(Problem(), values))
    for name, schedule in CASES.items():
        given = {k: np.asarray(v, np.int32) for k, v in INPUTS.get(name, {}).items() if not callable(v)}
        yield Kernel(name, schedule, given)


def run(kernel: Kernel) -> None:
    """Run a kernel on whole numbers, then on random ones, and compare with its reference."""
    schedule = kernel.schedule()
    if kernel.bits:
        x, y = np.random.default_rng(0).integers(0, 2, (2, 130, 520)).astype(bool)
        assert np.array_equal(compiled(schedule)(x, y), (x[:, None] ^ y).sum(-1))
        return
    verified(schedule, given=kernel.given, **sizes_of(schedule))


def sizes_of(schedule: Any) -> dict[str, int]:
    """Give each symbol the size that its name says, as `M_70`."""
    names = [p.symbol.name for p in schedule.lowered().parameters if isinstance(p, Size)]
    return {name: int(name.rpartition("_")[2]) for name in names}


def main() -> int:
    """Run, and say what is right."""
    from fireiron.jit.driver import driver

    parser = argparse.ArgumentParser("one_size.py")
    parser.add_argument("--part", default="1/1", help="i/n: every n-th kernel from the i-th on")
    parser.add_argument("--compile", action="store_true", help="compile only")
    asked = parser.parse_args()
    first, step = map(int, asked.part.split("/"))
    wrong = 0
    no_hopper = driver().compute_capability(0) != 90
    for i, kernel in enumerate(everything()):
        if i % step != first - 1:
            continue
        try:
            if asked.compile:
                kernel.schedule().compile(allow_spills=True)
                continue
            print(f"{i}: {kernel.name}", flush=True)  # what a sanitizer says stands below the kernel's name
            run(kernel)
        except UsageError as error:  # a preset that wants more than a problem
            print(f"{i}: {kernel.name} is not run: {error.message}")
        except (AssertionError, FireironError, ValueError, TypeError) as error:
            if no_hopper and "sm_90" in str(error):
                continue
            if isinstance(error, FireironError) and error.code in NOT_HERE:
                print(f"{i}: {kernel.name} is not run: {error.message}")
                continue
            wrong += 1
            print(f"WRONG {kernel.name}: {type(error).__name__}: {str(error)[:400]}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
