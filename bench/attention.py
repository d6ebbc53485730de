"""Time attention, and torch's SDPA by cuDNN and by flash, or flex-attention compiled, in one process, interleaved.

`python -m bench attention --shape BxHxSxD ... [--causal] [--score soft-cap] [--mask window] [-o FILE.jsonl]`, or
`--table` for all forward rows of the table in notebooks/numbers.md, or `--seed WORD --count N` for drawn shapes. Each
result is compared with f64 first, in chunks of queries. Score functions and masks are compared with flex-attention,
which compiles them, and others with SDPA.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import attrs

import fireiron
from fireiron import Value, equal, tanh, tensor
from fireiron.base.errors import FireironError
from fireiron.schedules import attention

from .arrays import torch_module
from .lines import captured, compared, report
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
EIGHT_ERROR = 2.0**-3  # the same where weights are rounded to e4m3
PRESETS = {"mma": attention.mma, "simt": attention.simt, "volta": attention.volta, "wgmma": attention.wgmma}
SCORES, MASKS = ("soft-cap", "alibi"), ("window", "documents")
CAP, WINDOW, DOCUMENTS = 20.0, 512, 8
# What drawn shapes have: columns, powers of 2 of the sequence, batch and heads, and the least and most scores.
DRAWN, LENGTHS, LEADS, SCORED = (32, 64, 64, 64, 80, 96, 128, 128, 128), (7.0, 12.0), (1, 2, 4, 8, 16, 32), (27, 32)
# Each row of the table in notebooks/numbers.md, as words of the command line.
TABLE = (
    "--shape 4x16x4096x128 1x16x16384x128 4x16x4096x64 1x16x16384x64 32x16x384x64",
    "--shape 4x16x4096x128 1x16x16384x128 4x16x4096x64 1x16x16384x64 --causal",
    "--shape 4x16x4096x128 --times 4",
    "--shape 4x16x4096x128 --times 10",
    "--shape 4x16x4096x128 --times 30",
    "--shape 4x16x4096x128 --grow 0.02",
    "--shape 4x8x4096x256 4x8x4096x192x128",
    "--shape 4x8x4096x256 4x8x4096x192x128 --causal",
    "--shape 4x16x4096x128 --score soft-cap",
    "--shape 4x16x4096x128 --score alibi",
    "--shape 4x16x4096x128 --score alibi --causal",
    "--shape 4x16x4096x128 --mask window --causal",
    "--shape 4x16x4096x128 --mask documents",
    "--shape 4x16x8192x128 --dtype e4m3",
    "--shape 4x16x8192x128 --dtype e4m3 --causal",
    "--shape 4x16x4096x128 --preset mma",
)


@attrs.frozen
class Work:
    """Describe what is timed.

    Args:
        shape: batch, heads, sequence, columns of keys, columns of values.
        dtype: element type: f16, bf16 or e4m3.
        causal: whether a query sees no later keys.
        score: name of a score function, or "".
        mask: name of a mask, or "".
        times: factor of the queries: scores are sharp above 1.
        grow: by what each key's scores exceed those of the key before it.
        preset: name of our preset.
    """

    shape: tuple[int, int, int, int, int]
    dtype: str = "bf16"
    causal: bool = False
    score: str = ""
    mask: str = ""
    times: float = 1.0
    grow: float = 0.0
    preset: str = "wgmma"

    @property
    def named(self) -> str:
        """Name the work."""
        *shape, depth, width = self.shape
        words = [f"attention {'x'.join(map(str, (*shape, depth) if depth == width else self.shape))}"]
        words += ["causal"] * self.causal + [x for x in (self.score, self.mask) if x]
        words += [f"queries times {self.times:g}"] * (self.times != 1) + [f"growing by {self.grow:g}"] * (
            self.grow != 0
        )
        return ", ".join(words)


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = _parser()
    options = parser.parse_args(list(words))
    switches = {"true": True, "false": False}
    plan = {k: switches[v] if v in switches else int(v) for k, v in (word.split("=") for word in options.plan)}
    if options.table:
        rows = [parser.parse_args([*row.split(), *_preset_of(row)]) for row in TABLE]
        works = [work for row in rows for work in _works(row, parser)]
    else:
        works = _works(options, parser)
    why = why_not_timed()

    def line(work: Work) -> dict[str, Any]:
        found = _planned(work, plan, options.arch) if why else _timed(work, plan)
        return found | {"causal": work.causal, "dtype": work.dtype, "preset": work.preset, "plan": plan}

    right = report(map(line, works), options.output, command, mean=bool(options.seed))
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def drawn_shapes(seed: str, count: int) -> list[tuple[int, int, int, int]]:
    """Draw shapes: batch, heads, sequence, depth; three in five sequences have any length, others multiples of 64."""
    chance = random.Random(seed)
    found: list[tuple[int, int, int, int]] = []
    while len(found) < count:
        length = int(2 ** chance.uniform(*LENGTHS))
        length = length if chance.random() < 0.6 else length // 64 * 64
        shape = chance.choice(LEADS), chance.choice((4, 8, 12, 16, 32)), length, chance.choice(DRAWN)
        if 2 ** SCORED[0] < shape[0] * shape[1] * length**2 < 2 ** SCORED[1]:
            found.append(shape)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench attention", description="Time attention.")
    parser.add_argument(
        "--shape", nargs="+", default=[], metavar="BxHxSxD", help="shapes instead of the default ones; BxHxSxDxE too"
    )
    parser.add_argument("--seed", default="", metavar="WORD", help="draw shapes by this seed")
    parser.add_argument("--count", type=int, default=12, metavar="N", help="number of drawn shapes (12)")
    parser.add_argument("--table", action="store_true", help="all forward rows of the table in notebooks/numbers.md")
    parser.add_argument("--dtype", default="bf16", choices=("f16", "bf16", "e4m3"), help="(bf16)")
    parser.add_argument("--causal", action="store_true", help="causal mask: a query sees no later keys")
    parser.add_argument("--score", default="", choices=SCORES, help="score function, against flex-attention")
    parser.add_argument("--mask", default="", choices=MASKS, help="mask, against flex-attention")
    parser.add_argument("--times", type=float, default=1.0, metavar="X", help="queries are multiplied by X (1)")
    parser.add_argument("--grow", type=float, default=0.0, metavar="X", help="scores grow by X from key to key (0)")
    parser.add_argument("--preset", default="mma", choices=sorted(PRESETS), help="(mma)")
    parser.add_argument(
        "--plan", nargs="+", default=[], metavar="K=N", help="keywords of the preset: warps=4 keys=64 persistent=false"
    )
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    parser.add_argument("--arch", default="sm_90a", help="target where there is no GPU (sm_90a)")
    return parser


def _preset_of(row: str) -> tuple[str, ...]:
    return () if "--preset" in row else ("--preset", "wgmma")


def _works(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Work]:
    """Read the shapes of a command line."""
    shapes: Sequence[tuple[int, ...]] = SHAPES
    if options.seed:
        shapes = drawn_shapes(options.seed, options.count)
    if options.shape:
        shapes = [tuple(map(int, word.split("x"))) for word in options.shape]
    if any(len(shape) not in (4, 5) for shape in shapes):
        parser.error("a shape is BxHxSxD: batch, heads, sequence, depth; or BxHxSxDxE with columns of values")
    made: list[Work] = []
    for shape in shapes:
        batch, heads, length, depth, *more = shape
        sizes = batch, heads, length, depth, more[0] if more else depth
        how = (getattr(options, name) for name in ("dtype", "causal", "score", "mask", "times", "grow", "preset"))
        made.append(Work(sizes, *how))
    return made


def schedule(work: Work, plan: Mapping[str, Any]) -> Any:
    """Return the schedule of attention on a batch of heads, by keywords of the preset."""
    batch, heads, length, depth, width = work.shape
    q, k = (tensor(batch, heads, length, depth, dtype=work.dtype) for _ in range(2))
    strides = None
    options: dict[str, Any] = {"causal": work.causal}
    if work.dtype == "e4m3":
        options |= {name: tensor(heads, name=name) for name in ("q_scale", "k_scale", "v_scale")} | {"out": "bf16"}
        strides = (heads * width * length, width * length, 1, length) if work.preset == "wgmma" else None
    v = tensor(batch, heads, length, width, dtype=work.dtype, strides=strides)
    if work.score == "soft-cap":
        options["score"] = _soft_cap
    elif work.score == "alibi":
        options |= {"score": _alibi, "slope": tensor(heads, name="slope")}
    if work.mask == "window":
        options["mask"] = _window
    elif work.mask == "documents":
        options |= {"mask": _documents, "documents": tensor(batch, length, dtype="i32", name="documents")}
    return PRESETS[work.preset](attention.attention(q, k, v, **options), **plan)


def _soft_cap(s: Value) -> Value:
    return CAP * tanh(s / CAP)


def _alibi(s: Value, h: Value, i: Value, j: Value, slope: Value) -> Value:
    return s - slope[h] * (i - j)


def _window(i: Value, j: Value) -> Value:
    return (i - j < WINDOW) & (j - i < WINDOW)


def _documents(b: Value, i: Value, j: Value, documents: Value) -> Value:
    return equal(documents[b, i], documents[b, j])


def _planned(work: Work, plan: Mapping[str, Any], arch: str) -> dict[str, Any]:
    try:
        return {"program": work.named, "registers": schedule(work, plan).compile(arch).resources.registers}
    except FireironError as error:
        return {"program": work.named, "problem": str(error).splitlines()[0]}


@attrs.define
class Drawn:
    """Hold the arrays of a work on a device.

    Args:
        q, k, v: queries, keys and values, of 16 bits or of 8.
        scales: of heads of 8-bit floats: of q, k and v.
        slope: of each head, for `alibi`.
        documents: the number of each token's document.
    """

    q: Any
    k: Any
    v: Any
    scales: tuple[Any, ...]
    slope: Any
    documents: Any

    def beside(self, work: Work) -> tuple[Any, ...]:
        """Give the arrays that our kernel takes behind q, k and v."""
        more = (self.slope,) * (work.score == "alibi") + (self.documents,) * (work.mask == "documents")
        return (*self.scales, *more)


def drawn(work: Work, torch: Any, device: str = "cuda") -> Drawn:
    """Draw the arrays of a work."""
    batch, heads, length, depth, width = work.shape
    q, k, v = (torch.randn(batch, heads, length, n, device=device) for n in (depth, depth, width))
    q = q * work.times
    if work.grow:  # every key lies further along a direction that all queries share
        q[..., 0], k[..., 0] = depth**0.5, torch.arange(length, device=device) * work.grow
    kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}
    q, k, v = (x.to(kinds[work.dtype]) for x in (q, k, v))
    scales = tuple(torch.rand(heads, device=device) + 0.5 for _ in range(3)) if work.dtype == "e4m3" else ()
    slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)
    cuts = torch.randint(length, (batch, DOCUMENTS - 1), device=device).sort().values
    documents = torch.searchsorted(cuts, torch.arange(length, device=device).expand(batch, -1).contiguous(), right=True)
    return Drawn(q, k, v, scales, slope.float(), documents.int())


def wanted(work: Work, given: Drawn, part: slice, torch: Any) -> Any:
    """Compute the results of some queries in f64."""
    q, k, v = (x.double() for x in (given.q[:, :, part], given.k, given.v))
    if given.scales:
        q, k, v = (x * s.double()[:, None, None] for x, s in zip((q, k, v), given.scales, strict=True))
    scores = q @ k.transpose(-1, -2) / work.shape[3] ** 0.5
    away = torch.arange(work.shape[2], device=q.device)[part, None] - torch.arange(work.shape[2], device=q.device)
    if work.score == "soft-cap":
        scores = CAP * torch.tanh(scores / CAP)
    elif work.score == "alibi":
        scores = scores - given.slope.double()[:, None, None] * away
    scores = scores.masked_fill(~_seen(work, given, part, torch), -torch.inf)
    return scores.softmax(-1) @ v


def _seen(work: Work, given: Drawn, part: slice, torch: Any) -> Any:
    """Say which keys some queries see."""
    length, device = work.shape[2], given.q.device
    away = torch.arange(length, device=device)[part, None] - torch.arange(length, device=device)
    seen = away >= 0 if work.causal else torch.ones_like(away, dtype=torch.bool)
    if work.mask == "window":
        seen = seen & (away.abs() < WINDOW)
    elif work.mask == "documents":
        seen = seen & (given.documents[:, None, part, None] == given.documents[:, None, None, :])
    return seen


def peers(work: Work, given: Drawn, torch: Any) -> dict[str, Callable[[], Any]]:
    """Give the peers' launches: flex-attention where there is a score function or a mask, else torch's SDPA.

    torch has no attention of 8-bit floats, so its peers take bf16 then.
    """
    q, k, v = (x.bfloat16() if given.scales else x for x in (given.q, given.k, given.v))
    if work.score or work.mask:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
            found = i >= j if work.causal else i >= 0
            if work.mask == "window":
                return found & (i - j < WINDOW) & (j - i < WINDOW)
            return found & (given.documents[b, i] == given.documents[b, j]) if work.mask else found

        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return CAP * torch.tanh(s / CAP) if work.score == "soft-cap" else s - given.slope[h] * (i - j)

        hides = work.causal or work.mask
        blocks: Any = (
            create_block_mask(mask, work.shape[0], None, *work.shape[2:3] * 2, device=q.device) if hides else None
        )
        compiled = torch.compile(flex_attention)
        return {"flex": lambda: compiled(q, k, v, score_mod=score if work.score else None, block_mask=blocks)}
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def of(backend: Any) -> Callable[[], Any]:
        def launch() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=work.causal)

        return launch

    return {"cudnn": of(SDPBackend.CUDNN_ATTENTION), "flash": of(SDPBackend.FLASH_ATTENTION)}


def _timed(work: Work, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Check against f64, then time ours and the peers."""
    torch = torch_module()
    batch, heads, length, depth, width = work.shape
    given = drawn(work, torch)
    chunks = [slice(n, min(n + 1024, length)) for n in range(0, length, 1024)]
    counts = [_seen(work, given, part, torch) for part in chunks]
    seen = sum(float(x.sum()) / prod(x.shape[:-2]) for x in counts)  # scores of a head that count
    line: dict[str, Any] = {"program": work.named, "flops": int(2 * batch * heads * seen * (depth + width))}
    try:
        launch, registers = _launch(work, plan, given, torch)
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    line |= {} if registers is None else {"registers": registers}
    out = launch()
    for part in (slice(0, CHECKED), slice(length - CHECKED, length)):
        want = wanted(work, given, part, torch)
        error = float((out[:, :, part].double() - want).abs().max() / want.abs().max())
        if not error < (EIGHT_ERROR if given.scales else ERROR):
            return {**line, "problem": f"wrong: an element differs by {error:.3g} of the largest"}
    launches: dict[str, Callable[[], object]] = {"fireiron": launch}
    for name, launch in peers(work, given, torch).items():
        try:
            launch()
        except RuntimeError as error:
            line[f"without {name}"] = str(error).splitlines()[0]
            continue
        launches[name] = launch
    return line | compared(launches, ROUNDS, BUDGET_S)


def _launch(work: Work, plan: Mapping[str, Any], given: Drawn, torch: Any) -> tuple[Callable[[], Any], int | None]:
    """Give our launch, which returns the result, and the kernel's registers.

    Documents are timed as the call `fireiron.attention`, captured in a CUDA graph: kernels of their own find the bounds
    of its loops first.
    """
    if work.mask == "documents" and not plan and work.preset == "wgmma":
        q, k, v, causal, documents = given.q, given.k, given.v, work.causal, given.documents
        call = captured(lambda: fireiron.attention(q, k, v, mask=_documents, is_causal=causal, documents=documents))
        return call, None
    kernel = schedule(work, plan).compile()
    batch, heads, length, _, width = work.shape
    v = given.v if work.dtype != "e4m3" or work.preset != "wgmma" else given.v.mT.contiguous()  # as memory holds it
    taken = (given.q, given.k, v, *given.beside(work))
    kind = torch.bfloat16 if given.scales else given.q.dtype
    out = torch.empty(batch, heads, length, width, device="cuda", dtype=kind)

    def launch() -> Any:
        kernel(*taken, out=out)
        return out

    return launch, kernel.resources.registers
