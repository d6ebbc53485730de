"""Time kernels of several products against calls of libraries: sums of two, LSTM, SwiGLU, MLP, ReLU first.

`python -m bench programs [NAME ...] [-o FILE.jsonl]`; each is checked against f64 before it is timed: on random
numbers, and on whole ones bit by bit where its functions are exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from fireiron import matmul
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import FireironError
from fireiron.schedules import fused, hopper
from fireiron.verify.verification import make

from .arrays import Arrays, tensor, torch_module
from .cases import Case
from .lines import report
from .measure import why_not_timed

Tensors = Mapping[str, Any]
Launch = Callable[[], object]
Bind = Callable[[Any, Tensors, Any, Any], Sequence[Launch]]

ROUNDS, BUDGET_S = 15, 2.0
L2_NBYTES = 150 << 20  # least bytes of all sets of operands, so that none stays in the L2
MOST_SETS = 8
EPSILON = 2.0**-11  # of f16
GROUPS, ROWS = 64, 32768


@attrs.frozen(eq=False)
class Program:
    """Hold one kernel and its peers.

    Args:
        name: name in the table.
        make: function that builds our schedule.
        exact: function that computes the result from f64 tensors.
        peers: by name, functions that bind a peer's launch: called with torch, operands, the result's tensor and a
            rough timer.
        flops: number of operations of a run.
        roundings: number of roundings to f16 before the result.
        equal_work: by name, peers that do as much work and compute another result.
        given: by name, functions that make operands other than normal numbers.
        smooth: whether the kernel computes functions that round (silu), so that no run is exact.
    """

    name: str
    make: Callable[[], Any]
    exact: Callable[[Any, Tensors], Any]
    peers: Mapping[str, Bind]
    flops: float
    roundings: int = 1
    equal_work: Mapping[str, Bind] = attrs.field(factory=dict[str, Bind])
    given: Mapping[str, Callable[[Any], Any]] = attrs.field(factory=dict[str, Callable[[Any], Any]])
    smooth: bool = False

    @property
    def kind(self) -> str:
        """Return the name without sizes."""
        return self.name.split()[0]


def _lt(case: Case, left: Any, right: Any, out: Any, rough: Any, *, add: bool = False, bias: Any = None) -> Launch:
    """Bind cublasLtMatmul of X times a transposed weight, with the fastest algorithm that its heuristic has."""
    from .cublas import bound

    return bound(case, Arrays(left, right, left, right.T, out, bias), rough, add=add)


def _two_products(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
    del rough
    return [
        lambda: torch.mm(t["X"], t["W"].T, out=out),
        lambda: torch.addmm(out, t["H"], t["U"].T, out=out),
    ]


def _two_by_lt(ops: str) -> Bind:
    def bind(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
        m, n, k = *out.shape, t["X"].shape[1]
        bias = t["bias"].to(torch.float16) if ops else None
        return [
            _lt(Case(m, n, k, "f16", "TN"), t["X"], t["W"], out, rough),
            _lt(Case(m, n, t["H"].shape[1], "f16", "TN", ops=ops), t["H"], t["U"], out, rough, add=True, bias=bias),
        ]

    return bind


def _five_kernels(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
    del rough
    other, bias = torch.empty_like(out), t["bias"].to(torch.float16)
    return [
        lambda: torch.mm(t["X"], t["W"].T, out=out),
        lambda: torch.mm(t["H"], t["U"].T, out=other),
        lambda: torch.add(out, other, out=out),
        lambda: torch.add(out, bias, out=out),
        lambda: torch.relu_(out),
    ]


def _relu_first(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
    del rough
    room = torch.empty_like(t["A"])
    return [lambda: torch.clamp_min(t["A"], 0, out=room), lambda: torch.mm(room, t["B"].T, out=out)]


def _gated(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
    del rough
    gate = torch.empty_like(out)
    silu_, mul = torch.nn.functional.silu, torch.mul
    return [
        lambda: torch.mm(t["X"], t["Wg"].T, out=gate),
        lambda: torch.mm(t["X"], t["Wu"].T, out=out),
        lambda: silu_(gate, inplace=True),
        lambda: mul(gate, out, out=out),
    ]


def _layers_by_lt(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
    rows, width = out.shape
    case = Case(rows, width, width, "f16", "TN", ops="bias+relu")
    biases = t["b"].to(torch.float16).reshape(-1, width)
    turns, given = (torch.empty_like(out), torch.empty_like(out)), t["X"]
    found: list[Launch] = []
    for i, weight in enumerate(t["W"]):
        made = out if i + 1 == len(t["W"]) else turns[i % 2]
        found.append(_lt(case, given, weight, made, rough, bias=biases[i]))
        given = made
    return found


def _ends(torch: Any) -> Any:
    """Draw the end rows of 64 groups among 32768 rows; some groups are empty."""
    cuts = torch.randint(0, ROWS + 1, (GROUPS - 1,), generator=torch.Generator().manual_seed(0)).sort().values
    return torch.cat([cuts, torch.tensor([ROWS])]).to(torch.int32).cuda()


def _each_group(torch: Any, t: Tensors) -> Any:
    counts = torch.diff(t["offsets"].long(), prepend=t["offsets"].new_zeros(1).long()).tolist()
    return torch.cat([x @ w.T for x, w in zip(t["A"].split(counts), t["B"], strict=True)])


def _dense(torch: Any, t: Tensors, out: Any, rough: Any) -> list[Launch]:
    del rough
    return [lambda: torch.mm(t["A"], t["B"][0].T, out=out)]


def _stack(torch: Any, t: Tensors) -> Any:
    value = t["X"]
    for weight, bias in zip(t["W"], t["b"], strict=True):
        value = torch.relu(value @ weight.T + bias)
    return value


def _sum(t: Tensors) -> Any:
    return t["X"] @ t["W"].T + t["H"] @ t["U"].T


def _programs() -> list[Program]:
    found: list[Program] = []
    for n in (4096, 8192):
        found.append(
            Program(
                f"add_gemm_gemm {n}",
                lambda n=n: fused.add_gemm_gemm(n, n, n),
                lambda torch, t: _sum(t),
                {"torch, two kernels": _two_products, "cublaslt, two kernels": _two_by_lt("")},
                4.0 * n**3,
            )
        )
    found += [
        Program(
            "lstm_pattern 4096",
            lambda: fused.lstm_pattern(4096, 4096, 4096),
            lambda torch, t: torch.relu(_sum(t) + t["bias"]),
            {"torch, five kernels": _five_kernels, "cublaslt, two kernels": _two_by_lt("bias+relu")},
            4.0 * 4096**3,
        ),
        *(
            Program(
                f"relu_gemm {n}",
                lambda n=n: fused.relu_gemm(matmul(n, n, n, "f16", layout="TN")),
                lambda torch, t: torch.relu(t["A"]) @ t["B"].T,
                {"torch, two kernels": _relu_first},
                2.0 * n**3,
            )
            for n in (2048, 4096, 8192)
        ),
        Program(
            "swiglu 4096x14336x4096",
            lambda: fused.swiglu(4096, 14336, 4096),
            lambda torch, t: torch.nn.functional.silu(t["X"] @ t["Wg"].T) * (t["X"] @ t["Wu"].T),
            {"torch, four kernels": _gated},
            4.0 * 4096 * 14336 * 4096,
            smooth=True,
        ),
    ]
    found.append(
        Program(
            f"grouped {GROUPS} groups of {ROWS} rows, 4096x4096",
            lambda: hopper.gemm(matmul(ROWS, 4096, 4096, "bf16", layout="TN", groups=GROUPS)),
            _each_group,
            {},
            2.0 * ROWS * 4096 * 4096,
            roundings=64,  # bf16 has three bits fewer than f16
            equal_work={"torch.mm, one group": _dense},
            given={"offsets": _ends},
        )
    )
    for m in (4096, 65536):
        found.append(
            Program(
                f"mlp {m}x128, 20 layers",
                lambda m=m: fused.mlp(m, 128, 20),
                _stack,
                {"cublaslt, twenty kernels": _layers_by_lt},
                20 * 2.0 * m * 128 * 128,
                roundings=20,
            )
        )
    return found


PROGRAMS = tuple(_programs())


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench programs", description="Time kernels of several products.")
    names = sorted({program.kind for program in PROGRAMS})
    parser.add_argument("names", nargs="*", help=", ".join(names))
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    parser.add_argument("--arch", default=None, help="target where there is no GPU (sm_90a)")
    options = parser.parse_args(list(words))
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"there is no program {unknown[0]}: use {', '.join(names)}")
    why = why_not_timed()
    chosen = [program for program in PROGRAMS if not options.names or program.kind in options.names]
    lines = (_planned(p, options.arch or "sm_90a") if why else _timed(p) for p in chosen)
    right = report(lines, options.output, command, _words)
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled and estimated; a modelled time is no measurement.")
    return int(not right)


def _planned(program: Program, arch: str) -> dict[str, Any]:
    made = program.make()
    kernel = made.compile(arch)
    return {"program": program.name, "registers": kernel.resources.registers}


def _timed(program: Program) -> dict[str, Any]:
    """Check against f64, then time ours and the peers by graphs, interleaved, over sets of operands in turn."""
    from .timer import TorchTimer

    torch, timer = torch_module(), TorchTimer()
    line: dict[str, Any] = {"program": program.name}
    try:
        schedule = program.make()
        kernel = schedule.compile()
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    if not program.smooth and (count := _differing(torch, schedule, kernel, program)):
        return {**line, "problem": f"wrong: {count} elements of a run on whole numbers differ from the exact result"}
    sets = _sets(torch, kernel, program)
    given, out = sets[0]
    kernel(*given.values(), out=out)
    wanted = program.exact(torch, {name: x.double() if x.is_floating_point() else x for name, x in given.items()})
    error = float((out.double() - wanted).norm() / wanted.norm())
    bound = 2 * EPSILON * program.roundings**0.5
    line |= {"error": error, "registers": kernel.resources.registers}
    if not error <= bound:
        return {**line, "problem": f"wrong: the error's norm is {error:.1e} of the result's, {bound:.1e} is allowed"}
    launches: dict[str, list[Launch]] = {"fireiron": [_call(kernel, given, out) for given, out in sets]}
    for name, bind in {**program.peers, **program.equal_work}.items():
        each = [bind(torch, given, out, timer.quick) for given, out in sets]
        launches[name] = [_together(x) for x in each]
        launches[name][0]()
        if name in program.peers and float((sets[0][1].double() - wanted).norm() / wanted.norm()) > 4 * bound:
            return {**line, "problem": f"{name} computes something else"}
    del wanted
    times, refused = timer.graphs(launches, ROUNDS, BUDGET_S)
    line["times"] = {name: attrs.asdict(found) for name, found in times.items()}
    if refused:
        line["refused"] = refused
    ours = times["fireiron"].median_us
    line["tflops"] = program.flops / ours * 1e-6
    line["ratios"] = {name: found.median_us / ours for name, found in times.items() if name != "fireiron"}
    return line


def _differing(torch: Any, schedule: Any, kernel: Any, program: Program) -> int:
    """Run on whole numbers, and count the elements that differ from f64."""
    data = make("exact", schedule, kernel.interface, {})
    given = {
        p.name: program.given[p.name](torch)
        if p.name in program.given
        else tensor(data.arrays[p.name], find_dtype(p.dtype), "cuda")
        for p in kernel.interface.inputs
    }
    (output,) = kernel.interface.outputs
    out = tensor(data.arrays[output.name], find_dtype(output.dtype), "cuda")
    kernel(*given.values(), out=out)
    wanted = program.exact(torch, {name: x.double() if x.is_floating_point() else x for name, x in given.items()})
    return int((out != wanted.to(out.dtype)).sum())


def _sets(torch: Any, kernel: Any, program: Program) -> list[tuple[dict[str, Any], Any]]:
    """Make sets of random operands and a result for each, in the order of a call; products keep their size."""

    def one() -> tuple[dict[str, Any], Any]:
        made: dict[str, Any] = {}
        for pointer in kernel.interface.inputs:
            if pointer.name in program.given:
                made[pointer.name] = program.given[pointer.name](torch)
                continue
            shape, kind = [int(str(extent)) for extent in pointer.shape], _kind(torch, pointer)
            scale = 1.0 if shape[-1] == 1 or len(shape) == 1 else (2.0 / shape[-1]) ** 0.5
            is_weight = pointer.name[0] in "WUB"
            made[pointer.name] = (torch.randn(shape, device="cuda") * (scale if is_weight else 1.0)).to(kind)
        (output,) = kernel.interface.outputs
        return made, torch.empty([int(str(x)) for x in output.shape], dtype=_kind(torch, output), device="cuda")

    first = one()
    nbytes = sum(x.nbytes for x in (*first[0].values(), first[1]))
    return [first, *(one() for _ in range(max(0, min(MOST_SETS, -(-L2_NBYTES // nbytes)) - 1)))]


def _kind(torch: Any, pointer: Any) -> Any:
    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[str(pointer.dtype)]


def _call(kernel: Any, given: Tensors, out: Any) -> Launch:
    operands = tuple(given.values())
    return lambda: kernel(*operands, out=out)


def _together(launches: Sequence[Launch]) -> Launch:
    def once() -> None:
        for launch in launches:
            launch()

    return once


def _words(line: Mapping[str, Any]) -> str:
    if problem := line.get("problem"):
        return f"{line['program']}: {problem}"
    if "times" not in line:
        return f"{line['program']}: {line['registers']} registers"
    ours = line["times"]["fireiron"]
    peers = "; ".join(
        f"{name} {found['median_us']:.1f} us, ratio {line['ratios'][name]:.3f}"
        for name, found in line["times"].items()
        if name != "fireiron"
    )
    return (
        f"{line['program']}: {ours['median_us']:.1f} us ({ours['p20']:.1f} to {ours['p80']:.1f}), "
        f"{line['tflops']:.1f} TFLOP/s, error {line['error']:.1e}; {peers}"
    )
