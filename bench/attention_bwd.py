"""Time the gradients of attention, and those of torch's SDPA by cuDNN and by flash beside them.

`python -m bench attention-bwd --shape BxHxSxD ... [--causal] [-o FILE.jsonl]`: ours are three kernels, one of which
computes the sums of each row, or with `--preset at_once` one kernel for all gradients beside the sums and a conversion;
torch's are the kernels that autograd launches. Each gradient is first compared with f64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from fireiron import inplace, tensor
from fireiron.base.errors import FireironError
from fireiron.schedules import attention, attention_gradients, rows
from fireiron.schedules.pointwise import pointwise

from .arrays import torch_module
from .attention import drawn_shapes
from .lines import compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 4.0
SHAPES = ((4, 16, 4096, 128), (1, 16, 16384, 128), (4, 16, 4096, 64))  # batch, heads, sequence, depth
ERROR = 2.0**-5  # the share of the largest value by which 16 bits of weights and of results may move a gradient
CHECKED = 1024  # queries and keys of the gradients in f64, which have all scores in memory
AT_ONCE = "at_once"
PRESETS = {"mma": attention_gradients.mma, "wgmma": attention_gradients.wgmma}


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench attention-bwd", description="Time gradients of attention.")
    parser.add_argument("--shape", nargs="+", default=[], metavar="BxHxSxD", help="instead of the usual ones")
    parser.add_argument("--seed", default="", metavar="WORD", help="draw shapes by this seed")
    parser.add_argument("--count", type=int, default=12, metavar="N", help="number of drawn shapes (12)")
    parser.add_argument("--dtype", default="bf16", choices=("f16", "bf16"), help="(bf16)")
    parser.add_argument("--causal", action="store_true", help="a query sees no later keys")
    parser.add_argument("--preset", default="wgmma", choices=sorted((*PRESETS, AT_ONCE)), help="(wgmma)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results there")
    parser.add_argument("--arch", default="sm_90a", help="what to compile for without a GPU (sm_90a)")
    options = parser.parse_args(list(words))
    shapes: Sequence[tuple[int, ...]] = SHAPES
    if options.seed:
        shapes = drawn_shapes(options.seed, options.count)
    if options.shape:
        shapes = [tuple(map(int, word.split("x"))) for word in options.shape]
    if any(len(shape) != 4 for shape in shapes):
        parser.error("a shape is BxHxSxD: batch, heads, sequence, depth")
    why = why_not_timed()

    def line(shape: Sequence[int]) -> dict[str, Any]:
        said = {"program": f"attention-bwd {'x'.join(map(str, shape))}"}
        if why:
            kernels = [
                each.compile(options.arch) for each in schedules(shape, options.dtype, options.causal, options.preset)
            ]
            found: dict[str, Any] = {"registers": max(kernel.resources.registers for kernel in kernels)}
        else:
            found = _timed(shape, options.dtype, options.causal, options.preset)
        return said | found | {"causal": options.causal, "dtype": options.dtype, "preset": options.preset}

    right = report(map(line, shapes), options.output, command, mean=bool(options.seed))
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def schedules(shape: Sequence[int], dtype: str, causal: bool, preset: str) -> tuple[Any, ...]:
    """Give the schedules of each row's sum, of the queries' gradient, and of those of keys and values.

    With `at_once`, the second one computes all gradients, and the third rounds that of queries.
    """
    heads = [tensor(*shape, dtype=dtype) for _ in range(4)]
    sums = [tensor(*shape[:3], dtype="f32") for _ in range(2)]
    first = rows.row(attention_gradients.delta(*heads[:2], out="f32"))
    if preset == AT_ONCE:
        held = tensor(*shape, dtype="f32", name="sums")
        of_all = attention_gradients.of_all(*heads, *sums, held, causal=causal, out=(dtype, dtype, inplace("sums")))
        scaled = pointwise(attention_gradients.scaled(held, scale=shape[3] ** -0.5, out=dtype))
        return first, attention_gradients.at_once(of_all), scaled
    programs = (attention_gradients.of_queries, attention_gradients.of_keys)
    gradients = (PRESETS[preset](program(*heads, *sums, causal=causal)) for program in programs)
    return first, *gradients


class _Ours:
    """Hold our kernels, forward and backward, and the arrays that they write."""

    def __init__(self, shape: Sequence[int], dtype: str, causal: bool, preset: str, torch: Any) -> None:
        kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
        heads = [tensor(*shape, dtype=dtype) for _ in range(3)]
        spec = attention.attention(*heads, causal=causal, lse=True, out=(dtype, "f32"))
        forward = attention.wgmma if preset == AT_ONCE else getattr(attention, preset)
        self.kernels, self.at_once = [forward(spec).compile()], preset == AT_ONCE
        self.kernels += [each.compile() for each in schedules(shape, dtype, causal, preset)]
        self.q, self.k, self.v, self.dy = (torch.randn(*shape, device="cuda").to(kind) for _ in range(4))
        self.o, self.dq, self.dk, self.dv = (torch.empty_like(self.q) for _ in range(4))
        self.sums = torch.empty(*shape, device="cuda") if self.at_once else None
        self.lse, self.delta = (torch.empty(*shape[:3], device="cuda") for _ in range(2))

    def forward(self) -> None:
        self.kernels[0](self.q, self.k, self.v, out=(self.o, self.lse))

    def backward(self) -> None:
        given = self.q, self.k, self.v, self.dy, self.lse, self.delta
        self.kernels[1](self.o, self.dy, out=self.delta)
        if self.sums is not None:
            self.kernels[2](*given, out=(self.dk, self.dv, self.sums.zero_()))
            self.kernels[3](self.sums, out=self.dq)
            return
        self.kernels[2](*given, out=self.dq)
        self.kernels[3](*given, out=(self.dk, self.dv))

    def error(self, causal: bool, torch: Any) -> float:
        """Return the largest error of the first head's gradients, divided by the gradient's largest value."""
        q, k, v = (x[:1, :1].double().requires_grad_() for x in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        wanted = torch.autograd.grad(scores.softmax(-1) @ v, (q, k, v), self.dy[:1, :1].double())
        pairs = zip((self.dq, self.dk, self.dv), wanted, strict=True)
        return max(float((got[:1, :1].double() - want).abs().max() / want.abs().max()) for got, want in pairs)


def _timed(shape: Sequence[int], dtype: str, causal: bool, preset: str) -> dict[str, Any]:
    """Compare with f64 on shorter sequences, then time ours and the peers."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch = torch_module()
    batch, heads, length, depth = shape
    found: dict[str, Any] = {"flops": 10 * batch * heads * length * length * depth // (2 if causal else 1)}
    try:
        short = _Ours((1, 1, min(length, CHECKED), depth), dtype, causal, preset, torch)
        ours = _Ours(shape, dtype, causal, preset, torch)
    except FireironError as error:
        return {**found, "problem": str(error).splitlines()[0]}
    short.forward()
    short.backward()
    error = short.error(causal, torch)
    if not error < ERROR:
        return {**found, "problem": f"wrong: an element differs by {error:.3g} of the largest"}
    ours.forward()
    launches: dict[str, Callable[[], object]] = {"fireiron": ours.backward}
    q, k, v = (x.detach().requires_grad_() for x in (ours.q, ours.k, ours.v))
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                made = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            def launch(made: Any = made) -> object:
                return torch.autograd.grad(made, (q, k, v), ours.dy, retain_graph=True)

            launch()
        except RuntimeError as error:
            found[f"without {name}"] = str(error).splitlines()[0]
            continue
        launches[name] = launch
    registers = max(kernel.resources.registers for kernel in ours.kernels[1:])
    return found | {"registers": registers} | compared(launches, ROUNDS, BUDGET_S)
