"""Time whole networks with random weights: plans of `torch.compile(backend=...)` against eager torch and its compiler.

`python -m bench networks [--network bert-base ...] [--batch 32] [--length 384] [--train] [-o FILE.jsonl]`. Transformers
come from the package of that name, other networks from `models.py`, blocks of networks from `blocks.py`. Each result is
first compared with eager f32; the error of eager torch in the same 16 bits sets the bound. With `--train` the gradients
of all parameters are compared.
`--captured` also times each peer's launches captured in a CUDA graph, as ours are; of training, a whole step of each,
and of ours. `--replaced` compiles nothing: ours is the eager network with this package's attention. A line has the peak
of memory beside weights and inputs, of calls that no graph captured, whose private memory the allocator does not count;
and our slowest kernels. The last line has the mean of all ratios.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .arrays import torch_module
from .lines import captured, compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 6.0
NAME = 70  # most letters of a kernel's name
ERROR = 1.5  # factor of eager's own error
SCALE = 2.0**14  # of the loss: without it, gradients in f16 are subnormal
ROUNDING = 2**-9  # of the largest result, for what other roundings to 16 bits change
# Layers, width, heads, width of the feed-forward part, words: the public configurations of the models.
NETWORKS = {
    "bert-base": ("Bert", 12, 768, 12, 3072, 30522),
    "bert-large": ("Bert", 24, 1024, 16, 4096, 30522),
    "distilbert": ("DistilBert", 6, 768, 12, 3072, 30522),
    "roberta-base": ("Roberta", 12, 768, 12, 3072, 50265),
    "gpt2": ("GPT2", 12, 768, 12, 3072, 50257),
}
# Networks of models.py: the class, and what it takes of a batch and a length.
MODELS = {
    "llama": ("Decoder", "rows of tokens"),
    "llama-decode": ("Decoding", "rows of tokens"),
    "vit-b16": ("ViT", "images"),
    "resnet-50": ("ResNet", "images"),
    "lstm": ("LSTM", "steps"),
    "dlrm": ("DLRM", "samples"),
}
# Blocks of blocks.py, which have their sizes, and transformers with their losses: of the next words, or of all words.
BLOCKS = (
    "unet", "unet-last", "convnext-last", "batch-norm", "batch-norm-last", "squeeze-last", "mixer", "t5", "contrastive",
    "head-32000", "head-50257", "variational", "conformer", "llama-layer", "vit-layer", "swin", "dit", "experts",
    "points", "linear-attention", "wider", "mirrored", "distilled", "gates",
    "recommender", "factors", "codes", "mixed", "joined-last", "segments-last", "routed", "neighbours", "edges",
    "latent", "weighted",
)  # fmt: skip
LOSSES = {"gpt2-loss": ("gpt2", "GPT2LMHeadModel"), "bert-base-loss": ("bert-base", "BertForMaskedLM")}
PEERS = ("eager", "sdpa", "compile", "max-autotune")


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench networks", description="Time networks.")
    parser.add_argument("--network", nargs="+", default=["bert-base"], choices=names(), help="(bert-base)")
    parser.add_argument("--batch", type=int, nargs="+", default=[32], help="(32)")
    parser.add_argument("--length", type=int, nargs="+", default=[384], help="tokens of a sequence (384)")
    parser.add_argument("--layers", type=int, default=0, help="number of layers instead of the network's own")
    parser.add_argument("--train", action="store_true", help="time a forward and a backward pass")
    parser.add_argument("--replaced", action="store_true", help="replace attention alone, and compile nothing")
    parser.add_argument("--freeze", action="store_true", help="compute what depends on parameters alone once")
    parser.add_argument("--apart", action="store_true", help="no kernel begins before the one before it has ended")
    parser.add_argument(
        "--captured", action="store_true", help="also time each peer captured in a CUDA graph; ours is in one graph"
    )
    parser.add_argument("--dtype", default="f16", choices=["f16", "bf16"], help="(f16)")
    parser.add_argument("--vs", nargs="+", default=list(PEERS[:3]), choices=PEERS, help="peers (eager sdpa compile)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    options = parser.parse_args(list(words))
    if why := why_not_timed():
        print(f"nothing was timed: {why}.")
        return 0
    cases = [(n, b, s) for n in options.network for b in options.batch for s in options.length]
    chosen = {
        "layers": options.layers,
        "train": options.train,
        "freeze": options.freeze,
        "apart": options.apart,
        "graphs": options.captured,
        "replaced": options.replaced,
    }
    ratios: list[float] = []
    lines = _noted((timed(*case, options.dtype, options.vs, **chosen) for case in cases), ratios)
    right = report(lines, options.output, command, said)
    if len(ratios) > 1:
        print(f"over the fastest peer: {_mean(ratios):.3f} in the geometric mean, {min(ratios):.3f} at the least")
    return int(not right)


def _noted(lines: Iterable[dict[str, Any]], ratios: list[float]) -> Iterator[dict[str, Any]]:
    """Record each line's ratio to the fastest peer."""
    for line in lines:
        ratios += [line["ratios"][line["fastest"]]] if "fastest" in line else []
        yield line


def _mean(ratios: Sequence[float]) -> float:
    """Give the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def names() -> list[str]:
    """List the networks."""
    return [*NETWORKS, *MODELS, *LOSSES, *BLOCKS]


def network(name: str, attention: str, layers: int = 0, length: int = 0) -> Any:
    """Make a network of random weights, in f32 on torch's default device.

    Args:
        name: of the network.
        attention: "eager" or "sdpa".
        layers: instead of the network's own number.
        length: most tokens of a sequence, where that is more than the configuration has.
    """
    torch = torch_module()
    torch.manual_seed(0)
    if name in MODELS:
        from . import models

        few = {"layers": layers} if layers and name in ("llama", "llama-decode", "vit-b16") else {}
        return getattr(models, MODELS[name][0])(**few).eval()
    if name in BLOCKS:
        from . import blocks

        return blocks.BLOCKS[name]().train()
    import transformers

    family, depth, width, heads, inner, vocabulary = NETWORKS[LOSSES[name][0] if name in LOSSES else name]
    made: Any = getattr(transformers, f"{family}Config")
    depth, most = layers or depth, max(512, length)
    if family == "GPT2":
        config = made(
            n_layer=depth,
            n_embd=width,
            n_head=heads,
            n_inner=inner,
            vocab_size=vocabulary,
            n_positions=max(1024, length),
        )
    elif family == "DistilBert":
        config = made(
            n_layers=depth,
            dim=width,
            n_heads=heads,
            hidden_dim=inner,
            vocab_size=vocabulary,
            max_position_embeddings=most,
        )
    else:
        config = made(
            num_hidden_layers=depth, hidden_size=width, num_attention_heads=heads, intermediate_size=inner,
            vocab_size=vocabulary, max_position_embeddings=most + 2,
        )  # fmt: skip
    config._attn_implementation = attention
    config.use_cache = False
    if name in LOSSES:
        return _with_loss(getattr(transformers, LOSSES[name][1])(config).eval())
    return getattr(transformers, f"{family}Model")(config).eval()


def _with_loss(model: Any) -> Any:
    """Let a language model compute the loss of the words that it is given."""
    forward = model.forward
    model.forward = lambda words: forward(input_ids=words, labels=words).loss
    return model


def given(name: str, batch: int, length: int) -> tuple[Any, ...]:
    """Draw a network's inputs on torch's default device, floats in f32: numbers of words for BERT, images for ViT."""
    torch = torch_module()
    if name in BLOCKS:
        from . import blocks

        return blocks.numbers(name)
    kind = MODELS[name][1] if name in MODELS else "words"
    if kind == "images":
        return (torch.randn(batch, 3, 224, 224),)
    if kind == "samples":
        return torch.randn(batch, 16), torch.randint(0, 10000, (batch, 26))
    if kind == "words":
        return (torch.randint(10, 20000, (batch, length)),)
    if name == "llama-decode":
        return torch.randn(batch, 1, 4096), torch.randn(batch, 2, 8, length, 128)
    return (torch.randn(batch, length, 4096 if kind == "rows of tokens" else 1024),)


def timed(
    name: str, batch: int, length: int, dtype: str, peers: Sequence[str], layers: int = 0, train: bool = False,
    freeze: bool = False, apart: bool = False, graphs: bool = False, replaced: bool = False, device: str = "cuda",
    gate: Callable[[], None] = lambda: None,
) -> dict[str, Any]:  # fmt: skip
    """Check ours against f32, then time it and the peers.

    Args:
        name: of the network.
        batch: sequences, images or samples.
        length: tokens of a sequence.
        dtype: f16 or bf16.
        peers: names of the peers.
        layers: instead of the network's own number.
        train: whether a forward and a backward pass is timed.
        freeze: whether values that depend on parameters alone are computed once.
        apart: whether no kernel begins before the one before it has ended.
        graphs: whether peers are also timed captured in CUDA graphs, and ours in one: a step of training is captured
            with its loss.
        replaced: whether ours is the network that runs operator by operator, with this package's attention.
        device: of the arrays; on "cpu" nothing is timed.
        gate: function that is called after all compilations, before the timing.
    """
    import fireiron.torch
    from fireiron.graph.torch_backend import plans

    torch = torch_module()
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    size = f"{batch}x{length}" if name not in MODELS or MODELS[name][1] in ("rows of tokens", "steps") else f"{batch}"
    line: dict[str, Any] = {
        "program": f"{name} {size} {dtype}{' training' if train else ''}{', attention' if replaced else ''}"
    }
    if name in BLOCKS:
        line["program"] = f"{name} {dtype}{' training' if train else ''}"
    line["layers"] = layers or (NETWORKS[name][1] if name in NETWORKS else 0)
    with torch.device(device):
        wide = given(name, batch, length)
        exact_model = network(name, "eager", layers, length)
        models = {how: network(name, how, layers, length).to(kind) for how in ("eager", "sdpa")}
    short = tuple(x.to(kind) if x.is_floating_point() else x for x in wide)

    def launch(model: Any, inputs: Sequence[Any] = short) -> Callable[[], Any]:
        def infer() -> Any:
            with torch.no_grad():
                return _first(model(*inputs))

        def step() -> None:
            model.zero_grad(set_to_none=True)
            (_first(model(*inputs)).float().square().mean() * SCALE).backward()

        return step if train else infer

    def result(model: Any, inputs: Sequence[Any], call: Callable[[], Any] | None = None) -> Any:
        """Call a model; return its result, or the gradients of all parameters."""
        made = (call or launch(model, inputs))()
        if not train:
            return made.float()
        # A parameter that the loss does not depend on has no gradient, or zeros.
        grads = (torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())
        return torch.cat([grad.float().flatten() for grad in grads])

    # Of a result the first lines are compared, of a step all gradients: those depend on the whole batch.
    some = len(short[0]) if train and short else 2
    exact = result(exact_model, [x[:some] for x in wide])
    theirs = float((result(models["eager"], [x[:some] for x in short]) - exact).abs().max())
    begin = time.perf_counter()
    chosen = {"freeze": freeze} | ({"dependent": False} if apart else {})
    mine, before = models["sdpa"], len(plans())
    fast = mine if replaced else torch.compile(mine, backend=fireiron.torch.backend, options=chosen)
    ours = _replaced(launch(mine)) if replaced else launch(fast)
    peaks: dict[str, float] = {}
    peaks_of(ours, "fireiron", peaks, device)  # the first call, which no graph captures
    ours()
    made = result(mine, short, ours)
    mine.zero_grad(set_to_none=True)
    if device == "cuda":
        torch.cuda.synchronize()
    line["compiled_s"] = time.perf_counter() - begin
    planned = plans()[before:]
    line |= {"kernels": sum(len(plan.kernels) for plan in planned)}
    line |= {"left": [_label(plan, x) for plan in planned for x in plan.foreign]}
    error, largest = float(((made if train else made[:2]) - exact).abs().max()), float(exact.abs().max())
    del made, exact
    line |= {"error": error, "error of eager": theirs, "largest": largest}
    if not error <= ERROR * theirs + ROUNDING * largest:
        return {**line, "problem": f"wrong: an element differs by {error:.3g} from f32, and eager's by {theirs:.3g}"}
    if device != "cuda":
        return line
    if graphs and (replaced or train):
        ours = _captured(ours, "fireiron", line) or ours
    launches = {"fireiron": ours} | {peer: launch(models[peer]) for peer in ("eager", "sdpa") if peer in peers}
    for peer, options in (("compile", {}), ("max-autotune", {"mode": "max-autotune"})):
        if peer in peers:
            models[peer] = network(name, "sdpa", layers, length).to(device, kind)
            launches[peer] = launch(torch.compile(models[peer], **options))
    for peer, call in list(launches.items())[1:]:
        call()
        models[peer].zero_grad(set_to_none=True)  # as ahead of ours: the gradients of a step count
        peaks_of(call, peer, peaks, device)
        if graphs and (replayed := _captured(call, peer, line)):
            launches[f"{peer} captured"] = replayed
    for call in launches.values():
        for _ in range(3):
            call()
    gate()
    line |= compared(launches, ROUNDS, BUDGET_S) | {"peak_mib": peaks, "kernels_us": slowest(ours)}
    return line | {"fastest": min(line["ratios"], key=line["ratios"].get)} if line["ratios"] else line


def slowest(call: Callable[[], Any], most: int = 6, calls: int = 5) -> dict[str, float]:
    """Give the kernels of a call that take most time: name and number of launches, and microseconds of all of them.

    The first entry is the sum over all kernels: more than the call's own time where kernels overlap, less where the GPU
    waits.
    """
    torch = torch_module()
    profiler = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profiled:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.device_time)
    found = {"all kernels": sum(map(sum, times.values())) / calls}
    for name in sorted(times, key=lambda n: -sum(times[n]))[:most]:
        found[f"{name[:NAME]} x{len(times[name]) / calls:.0f}"] = sum(times[name]) / calls
    return found


def peaks_of(call: Callable[[], Any], name: str, found: dict[str, float], device: str) -> Any:
    """Call, and record the peak of memory above the memory allocated before, in MiB."""
    if device != "cuda":
        return call()
    torch = torch_module()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    made = call()
    torch.cuda.synchronize()
    found[name] = (torch.cuda.max_memory_allocated() - before) / 2**20
    return made


def _replaced(call: Callable[[], Any]) -> Callable[[], Any]:
    """Replace torch's attention by this package's during a call."""
    import fireiron.torch

    functional = torch_module().nn.functional
    usual = functional.scaled_dot_product_attention

    def called() -> Any:
        functional.scaled_dot_product_attention = fireiron.torch.scaled_dot_product_attention
        try:
            return call()
        finally:
            functional.scaled_dot_product_attention = usual

    return called


def _captured(call: Callable[[], Any], name: str, line: dict[str, Any]) -> Callable[[], Any] | None:
    """Capture a call's launches in a CUDA graph; None, with the reason in the line, where that cannot be."""
    try:
        return captured(call)
    except RuntimeError as error:  # an operator that waits for the GPU
        line.setdefault("not captured", {})[name] = str(error).splitlines()[0]
        return None


def _first(result: Any) -> Any:
    """Give the tensor of a network's result: transformers give several."""
    return result if isinstance(result, torch_module().Tensor) else result[0]


def _label(plan: Any, launch: Any) -> str:
    node = plan.graph.nodes[launch.part.nodes[-1]]
    return str(node["label"]) if node.op == "foreign" else node.op


def said(line: Any) -> str:
    """Describe a network's result."""
    planned = f"{line['kernels']} kernels, {len(line['left'])} operators left to torch, "
    head = f"{line['program']}: {planned if line['kernels'] else ''}"
    head += f"compiled in {line['compiled_s']:.1f} s, error {line['error']:.2g} (eager {line['error of eager']:.2g})"
    if problem := line.get("problem"):
        return f"{head}; {problem}"
    ours = line["times"]["fireiron"]["median_us"] / 1e3
    peers = ", ".join(f"{key} {found:.3f}" for key, found in line["ratios"].items())
    memory = ", ".join(f"{key} {found:.0f}" for key, found in line.get("peak_mib", {}).items())
    return f"{head}; {ours:.3f} ms; over {peers}" + (f"; MiB at the peak: {memory}" if memory else "")
