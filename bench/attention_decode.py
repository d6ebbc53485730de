"""Time attention of few queries against long caches, and torch's SDPA by cuDNN and by flash beside it.

`python -m bench attention-decode --shape BxHxGxIxJxD ... [--pages 64] [-o FILE.jsonl]`: sequences, heads of keys, heads
of queries that share one, queries, keys, elements of a head. Each result is compared with f64 first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from fireiron import tensor
from fireiron.base.errors import FireironError
from fireiron.schedules import attention

from .arrays import torch_module
from .attention import ERROR
from .lines import compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 4.0
NBYTES = 2  # of an element
SHAPES = (
    (8, 8, 4, 1, 8192, 128),
    (8, 8, 4, 1, 131072, 128),
    (32, 8, 4, 1, 8192, 128),
    (128, 8, 4, 1, 2048, 128),
    (128, 8, 4, 1, 8192, 128),
    (8, 8, 4, 4, 32768, 128),
)


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench attention-decode", description="Time attention of few queries."
    )
    parser.add_argument("--shape", nargs="+", default=[], metavar="BxHxGxIxJxD", help="instead of the usual ones")
    parser.add_argument("--dtype", default="bf16", choices=("f16", "bf16"), help="(bf16)")
    parser.add_argument("--pages", type=int, default=0, metavar="S", help="keys and values lie in pages of S lines")
    parser.add_argument(
        "--plan", nargs="+", default=[], metavar="K=N", help="what attention.decode takes: ways=4 keys=16"
    )
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results there")
    parser.add_argument("--arch", default="sm_90a", help="what to compile for without a GPU (sm_90a)")
    options = parser.parse_args(list(words))
    shapes: Sequence[tuple[int, ...]] = SHAPES
    if options.shape:
        shapes = [tuple(map(int, word.split("x"))) for word in options.shape]
    if any(len(shape) != 6 for shape in shapes):
        parser.error("a shape is BxHxGxIxJxD: sequences, heads of keys, heads that share one, queries, keys, depth")
    if options.pages and any(shape[4] % options.pages for shape in shapes):
        parser.error(f"pages of {options.pages} lines do not divide the keys")
    plan = {name: int(value) for name, value in (word.split("=") for word in options.plan)}
    why = why_not_timed()

    def line(shape: Sequence[int]) -> dict[str, Any]:
        chosen = schedule(shape, options.dtype, options.pages, plan)
        said = {"program": f"attention-decode {'x'.join(map(str, shape))}"}
        if why:
            found: dict[str, Any] = {"registers": chosen.compile(options.arch).resources.registers}
        else:
            found = _timed(shape, chosen, options.dtype, options.pages)
        return said | found | {"dtype": options.dtype, "pages": options.pages, "plan": plan}

    right = report(map(line, shapes), options.output, command)
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def schedule(shape: Sequence[int], dtype: str, lines: int, plan: dict[str, int]) -> Any:
    """Return the schedule for few queries; keys lie in pages if pages have lines."""
    batch, heads, sharing, queries, keys, depth = shape
    q = tensor(batch, heads, sharing, queries, depth, dtype=dtype)
    if not lines:
        k, v = (tensor(batch, heads, keys, depth, dtype=dtype) for _ in range(2))
        return attention.decode(attention.attention.on(q="b h g i d")(q, k, v), **plan)
    each = keys // lines
    k, v = (tensor(batch * each, heads, lines, depth, dtype=dtype) for _ in range(2))
    return attention.decode(attention.paged.on(q="b h g i d")(q, k, v, tensor(batch, each, dtype="i32")), **plan)


def _timed(shape: Sequence[int], chosen: Any, dtype: str, lines: int) -> dict[str, Any]:
    """Compare with f64, then time ours and the peers, which read keys without pages."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch = torch_module()
    batch, heads, sharing, queries, keys, depth = shape
    found: dict[str, Any] = {"nbytes": 2 * batch * heads * (keys + sharing * queries) * depth * NBYTES}
    try:
        kernel = chosen.compile()
    except FireironError as error:
        return {**found, "problem": str(error).splitlines()[0]}
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    q = torch.randn(batch, heads, sharing, queries, depth, device="cuda").to(kind)
    k, v = (torch.randn(batch, heads, keys, depth, device="cuda").to(kind) for _ in range(2))
    given = (k, v)
    if lines:
        each = keys // lines
        pages = torch.randperm(batch * each, device="cuda").reshape(batch, each).int()
        cut = (x.unflatten(2, (each, lines)).transpose(1, 2).reshape(-1, heads, lines, depth) for x in (k, v))
        given = (*(torch.empty_like(x).index_copy_(0, pages.flatten().long(), x) for x in cut), pages)
    out = torch.empty_like(q)
    kernel(q, *given, out=out)
    for b in {0, batch - 1}:
        scores = q[b].double() @ k[b, :, None].double().transpose(-1, -2) / depth**0.5
        wanted = scores.softmax(-1) @ v[b, :, None].double()
        error = float((out[b].double() - wanted).abs().max() / wanted.abs().max())
        if not error < ERROR:
            return {**found, "problem": f"wrong: an element differs by {error:.3g} of the largest"}
    launches: dict[str, Callable[[], object]] = {"fireiron": lambda: kernel(q, *given, out=out)}
    flat = q.flatten(1, 2)
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):

        def launch(backend: Any = backend) -> object:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(flat, k, v, enable_gqa=sharing > 1)

        try:
            launch()
        except RuntimeError as error:
            found[f"without {name}"] = str(error).splitlines()[0]
            continue
        launches[name] = launch
    return found | {"registers": kernel.resources.registers} | compared(launches, ROUNDS, BUDGET_S)
