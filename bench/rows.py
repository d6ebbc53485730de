"""Time row programs: softmax, the norms and their gradients, in bf16.

`python -m bench rows [NAME ...] [--shape MxN ...] [--seed N --count N] [-o FILE.jsonl]`
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

from fireiron import Matrix, Vector
from fireiron.schedules import rows

from .memory import Work, shapes_of
from .memory import run as run_suite

ELEMENTS = 1 << 26
EPS = 1e-6
# By program: number of matrices, and of vectors with one value per column, that it reads.
GIVEN = {
    "softmax": (1, 0),
    "log_softmax": (1, 0),
    "layernorm": (1, 2),
    "rms_norm": (1, 1),
    "add_layernorm": (2, 2),
    "add_rms_norm": (2, 1),
    "softmax_backward": (2, 0),
    "rms_norm_backward": (2, 1),
    "layernorm_backward": (2, 1),
    "rms_norm_gradients": (2, 1),
    "layernorm_gradients": (2, 1),
    "cross_entropy": (1, 0),
    "cross_entropy_with_gradient": (1, 0),
    "top": (1, 0),
    "cumsum": (1, 0),
}
NATIVE = (
    "rms_norm_backward", "layernorm_backward", "rms_norm_gradients", "layernorm_gradients",
    "cross_entropy", "cross_entropy_with_gradient",
)  # fmt: skip
LARGEST = 8  # number of values that `top` finds in a row
USUAL = ("softmax", "layernorm", "rms_norm")
SHAPES = (
    (12288, 768),
    (12288, 1024),
    (196608, 384),
    *((ELEMENTS // n, n) for n in (64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)),
)


def drawn(seed: int, count: int) -> tuple[tuple[int, int], ...]:
    """Draw shapes: rows of 64 to 262,144 columns, multiples of 8, and as many rows as make 8M to 1G elements.

    Logarithms are drawn evenly: half of the rows have less than 4096 columns, and half of the arrays less than 90M
    elements.
    """
    chance = random.Random(seed)
    found: list[tuple[int, int]] = []
    for _ in range(count):
        columns = 8 * round(2 ** chance.uniform(3, 15))
        found.append((max(1, round(2 ** chance.uniform(23, 30)) // columns), columns))
    return tuple(found)


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line."""

    def make(options: Any, names: Sequence[str]) -> list[Work]:
        chosen = names if options.names else USUAL
        return [work(name, m, n) for m, n in shapes_of(options, SHAPES, drawn) for name in chosen]

    return run_suite(words, command, "rows", "Time programs of rows, in bf16.", tuple(GIVEN), make)


def work(name: str, m: int, n: int) -> Work:
    """Describe a program on m rows of n columns."""
    matrices, vectors = GIVEN[name]
    whole = ((m, n), "bfloat16")
    inputs = (whole,) * matrices + (((n,), "bfloat16"),) * vectors
    losses, sums = ((m,), "float32"), ((n,), "float32")
    outs = {
        "add_layernorm": (whole, whole),
        "add_rms_norm": (whole, whole),
        "cross_entropy": (losses,),
        "cross_entropy_with_gradient": (losses, whole),
        "top": (((m, LARGEST), "bfloat16"), ((m, LARGEST), "int32")),
        "rms_norm_gradients": (whole, sums),
        "layernorm_gradients": (whole, sums, sums),
    }.get(name, (whole,))
    if name.startswith("cross"):
        inputs = (*inputs, ((m,), "int32"))
    # A gradient is a difference of sums that may cancel, as a loss is; a residual's sum is rounded before its norm.
    slack = 2.0**-7 if name.endswith(("backward", "gradient", "gradients")) or name.startswith("add") else 0.0
    slack = 2.0**-18 if name in ("cross_entropy", "cumsum") else slack
    by_rows = () if name.endswith("gradients") else (*(True,) * matrices, *(False,) * vectors)
    by_rows += (True,) if name.startswith("cross") else ()
    bound = partial(_native, name) if name in NATIVE else None
    sizes = partial(_eager, name, sized=True) if name.endswith("gradients") else None
    return Work(
        f"{name} {m}x{n}", partial(schedule, name, m, n), inputs, outs, partial(_eager, name), slack, sizes, most=n,
        by_rows=by_rows, native=bound, places=1 if name == "top" else None,
    )  # fmt: skip


def schedule(name: str, m: int, n: int, plan: Mapping[str, int]) -> Any:
    """Give the schedule of a program on m rows of n columns, by keywords of the preset."""
    matrices, vectors = GIVEN[name]
    given: list[Any] = [Matrix(m, n, "bf16") for _ in range(matrices)]
    given += [Vector(n, "bf16", name=word) for word in ("gain", "bias")[:vectors]]
    named: dict[str, Any] = {"eps": EPS} if "norm" in name else {}
    if name == "top":
        named = {"k": LARGEST, "out": ("bf16", "i32")}
    if name.startswith("cross"):
        given.append(Vector(m, "i32", name="target"))
        named = {"out": "f32" if name == "cross_entropy" else ("f32", "bf16")}
    if name.endswith("gradients"):
        named |= {"out": ("bf16", *("f32",) * (2 if name.startswith("layernorm") else 1))}
    switches = [key for key, p in signature(rows.row).parameters.items() if isinstance(p.default, bool)]
    options: dict[str, Any] = {key: bool(value) if key in switches else value for key, value in plan.items()}
    return rows.row(getattr(rows, name)(*given, **named), **options)


def _eager(name: str, torch: Any, sized: bool = False) -> Callable[..., Any]:
    """Give torch's expression.

    Args:
        name: of the program.
        torch: the module.
        sized: whether sums over rows add the absolute values of their terms.
    """
    functional = torch.nn.functional

    def term(x: Any) -> Any:
        return x.abs() if sized else x

    def wide(x: Any) -> Any:
        return x if x.dtype == torch.float64 else x.float()

    def softmax(x: Any) -> Any:
        return functional.softmax(x, -1)

    def log_softmax(x: Any) -> Any:
        return functional.log_softmax(x, -1)

    def layernorm(x: Any, gain: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (x.shape[-1],), gain, bias, EPS)

    def rms_norm(x: Any, gain: Any) -> Any:
        return functional.rms_norm(x, (x.shape[-1],), gain, EPS)

    def add_layernorm(x: Any, residual: Any, gain: Any, bias: Any) -> Any:
        total = x + residual
        return layernorm(total, gain, bias), total

    def add_rms_norm(x: Any, residual: Any, gain: Any) -> Any:
        total = x + residual
        return rms_norm(total, gain), total

    def softmax_backward(y: Any, dy: Any) -> Any:
        return torch._softmax_backward_data(dy, y, -1, y.dtype)

    def of_norm(normed: Any, deviation: Any, g: Any, centred: bool) -> Any:
        g = g - g.mean(-1, keepdim=True) if centred else g
        return (g - normed * (g * normed).mean(-1, keepdim=True)) * deviation

    def rms_norm_backward(x: Any, dy: Any, gain: Any) -> Any:
        deviation = torch.rsqrt((wide(x) * wide(x)).mean(-1, keepdim=True) + EPS)
        return of_norm(wide(x) * deviation, deviation, wide(dy) * gain, False).to(x.dtype)

    def layernorm_backward(x: Any, dy: Any, gain: Any) -> Any:
        away = wide(x) - wide(x).mean(-1, keepdim=True)
        deviation = torch.rsqrt((away * away).mean(-1, keepdim=True) + EPS)
        return of_norm(away * deviation, deviation, wide(dy) * gain, True).to(x.dtype)

    def rms_norm_gradients(x: Any, dy: Any, gain: Any) -> Any:
        normed = wide(x) * torch.rsqrt((wide(x) * wide(x)).mean(-1, keepdim=True) + EPS)
        return rms_norm_backward(x, dy, gain), term(wide(dy) * normed).sum(0)

    def layernorm_gradients(x: Any, dy: Any, gain: Any) -> Any:
        normed = functional.layer_norm(wide(x), (x.shape[-1],), eps=EPS)
        return layernorm_backward(x, dy, gain), term(wide(dy) * normed).sum(0), wide(dy).sum(0)

    def cross_entropy(x: Any, target: Any) -> Any:
        return functional.cross_entropy(wide(x), target.long(), reduction="none")

    def cross_entropy_with_gradient(x: Any, target: Any) -> Any:
        logs = functional.log_softmax(wide(x), -1)
        chosen = target.long()[:, None]
        loss = -logs.gather(-1, chosen)[:, 0]
        return loss, logs.exp().scatter_add(-1, chosen, -torch.ones_like(loss)[:, None]).to(x.dtype)

    def cumsum(x: Any) -> Any:
        return torch.cumsum(x, -1)

    def top(x: Any) -> Any:
        found = torch.topk(x, LARGEST, -1)
        return found.values, found.indices

    made: dict[str, Callable[..., Any]] = {
        "softmax": softmax,
        "log_softmax": log_softmax,
        "layernorm": layernorm,
        "rms_norm": rms_norm,
        "add_layernorm": add_layernorm,
        "add_rms_norm": add_rms_norm,
        "softmax_backward": softmax_backward,
        "rms_norm_backward": rms_norm_backward,
        "layernorm_backward": layernorm_backward,
        "rms_norm_gradients": rms_norm_gradients,
        "layernorm_gradients": layernorm_gradients,
        "cross_entropy": cross_entropy,
        "cross_entropy_with_gradient": cross_entropy_with_gradient,
        "top": top,
        "cumsum": cumsum,
    }
    return made[name]


def _native(name: str, torch: Any, given: Sequence[Any]) -> Callable[[], object]:
    """Bind the kernels that torch's autograd runs; statistics and types of a forward pass are made here."""
    functional, aten = torch.nn.functional, torch.ops.aten
    x, *others = given
    if name.startswith("cross"):
        target = others[0].long()
        if name == "cross_entropy":
            return lambda: functional.cross_entropy(x, target, reduction="none")
        x = x.detach().requires_grad_()
        return lambda: torch.autograd.grad(functional.cross_entropy(x, target, reduction="sum"), x)
    dy, gain = others
    shape, sums = (x.shape[-1],), name.endswith("gradients")
    if name.startswith("layernorm"):
        _, middle, deviation = aten.native_layer_norm(x, shape, gain, gain, EPS)
        parts = [True, sums, sums]
        return lambda: aten.native_layer_norm_backward(dy, x, shape, middle, deviation, gain, gain, parts)
    _, deviation = aten._fused_rms_norm(x, shape, gain, EPS)
    return lambda: aten._fused_rms_norm_backward(dy, x, shape, deviation, gain, [True, sums])
