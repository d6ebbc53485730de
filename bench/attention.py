"""Time attention against torch's SDPA by cuDNN and by flash, in one process, launches interleaved.

`python -m bench attention --shape BxHxSxD ... [--causal] [-o FILE.jsonl]`; each result is compared with f64 first, in
chunks of queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fireiron import tensor
from fireiron.base.errors import FireironError
from fireiron.schedules import attention

from .arrays import torch_module
from .lines import compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 4.0
SHAPES = (
    (4, 16, 4096, 128),
    (1, 16, 16384, 128),
    (4, 16, 4096, 64),
    (32, 16, 384, 64),
)  # batch, heads, sequence, depth
CHECKED = 64  # queries of a head, its first and last ones
ERROR = 2.0**-6  # allowed error over the largest value: weights and results are rounded to 16 bits
PRESETS = {"mma": attention.mma, "simt": attention.simt, "wgmma": attention.wgmma}


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench attention", description="Time attention.")
    parser.add_argument("--shape", nargs="+", default=[], metavar="BxHxSxD", help="shapes instead of the default ones")
    parser.add_argument("--dtype", default="bf16", help="f16 or bf16 (bf16)")
    parser.add_argument("--causal", action="store_true", help="causal mask: a query sees no later keys")
    parser.add_argument("--preset", default="mma", choices=sorted(PRESETS), help="(mma)")
    parser.add_argument(
        "--plan", nargs="+", default=[], metavar="K=N", help="keywords of the preset: warps=4 keys=64 persistent=false"
    )
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    parser.add_argument("--arch", default="sm_90a", help="target where there is no GPU (sm_90a)")
    options = parser.parse_args(list(words))
    shapes: Sequence[tuple[int, ...]] = SHAPES
    if options.shape:
        shapes = [tuple(map(int, word.split("x"))) for word in options.shape]
    if any(len(shape) != 4 for shape in shapes):
        parser.error("a shape is BxHxSxD: batch, heads, sequence, depth")
    switches = {"true": True, "false": False}
    plan = {k: switches[v] if v in switches else int(v) for k, v in (word.split("=") for word in options.plan)}
    why = why_not_timed()

    def line(shape: Sequence[int]) -> dict[str, Any]:
        chosen = schedule(shape, options.dtype, options.causal, options.preset, plan)
        found = _planned(shape, chosen, options.arch) if why else _timed(shape, chosen, options.dtype, options.causal)
        return found | {"causal": options.causal, "dtype": options.dtype, "preset": options.preset, "plan": plan}

    right = report(map(line, shapes), options.output, command)
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def schedule(shape: Sequence[int], dtype: str, causal: bool, preset: str, plan: Mapping[str, int]) -> Any:
    """Return the schedule of attention on a batch of heads, by keywords of the preset."""
    q, k, v = (tensor(*shape, dtype=dtype) for _ in range(3))
    return PRESETS[preset](attention.attention(q, k, v, causal=causal), **plan)


def _named(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _planned(shape: Sequence[int], chosen: Any, arch: str) -> dict[str, Any]:
    kernel = chosen.compile(arch)
    return {"program": f"attention {_named(shape)}", "registers": kernel.resources.registers}


def _timed(shape: Sequence[int], chosen: Any, dtype: str, causal: bool) -> dict[str, Any]:
    """Check against f64, then time ours and the peers."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch = torch_module()
    batch, heads, length, depth = shape
    flops = 4 * batch * heads * length * length * depth // (2 if causal else 1)
    line: dict[str, Any] = {"program": f"attention {_named(shape)}", "flops": flops}
    try:
        kernel = chosen.compile()
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    q, k, v = (torch.randn(*shape, device="cuda").to(kind) for _ in range(3))
    out = torch.empty_like(q)
    kernel(q, k, v, out=out)
    line["registers"] = kernel.resources.registers
    for part in (slice(0, CHECKED), slice(length - CHECKED, length)):
        scores = q[:, :, part].double() @ k.double().transpose(-1, -2) / depth**0.5
        if causal:
            seen = torch.arange(length, device="cuda")[part, None] >= torch.arange(length, device="cuda")
            scores = scores.masked_fill(~seen, -torch.inf)
        wanted = scores.softmax(-1) @ v.double()
        error = float((out[:, :, part].double() - wanted).abs().max() / wanted.abs().max())
        if not error < ERROR:
            return {**line, "problem": f"wrong: an element differs by {error:.3g} of the largest"}
    launches: dict[str, Callable[[], object]] = {"fireiron": lambda: kernel(q, k, v, out=out)}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):

        def launch(backend: Any = backend) -> object:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        try:
            launch()
        except RuntimeError as error:
            line[f"without {name}"] = str(error).splitlines()[0]
            continue
        launches[name] = launch
    return line | compared(launches, ROUNDS, BUDGET_S)
