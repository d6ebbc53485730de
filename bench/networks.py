"""Time whole networks with random weights: plans of `torch.compile(backend=...)` against eager torch and its compiler.

`python -m bench networks [--network bert-base ...] [--batch 32] [--length 384] [-o FILE.jsonl]`. Networks come from the
package transformers. Each result is first compared with eager f32; the error of eager torch in the same 16 bits sets
the bound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from .arrays import torch_module
from .lines import compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 6.0
ERROR = 1.5  # factor of eager's own error, and what rounding to 16 bits adds
# Layers, width, heads, width of the feed-forward part, words: the public configurations of the models.
NETWORKS = {
    "bert-base": ("Bert", 12, 768, 12, 3072, 30522),
    "bert-large": ("Bert", 24, 1024, 16, 4096, 30522),
    "distilbert": ("DistilBert", 6, 768, 12, 3072, 30522),
    "roberta-base": ("Roberta", 12, 768, 12, 3072, 50265),
    "gpt2": ("GPT2", 12, 768, 12, 3072, 50257),
}
PEERS = ("eager", "sdpa", "compile", "max-autotune")


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench networks", description="Time networks.")
    parser.add_argument("--network", nargs="+", default=["bert-base"], choices=sorted(NETWORKS), help="(bert-base)")
    parser.add_argument("--batch", type=int, nargs="+", default=[32], help="(32)")
    parser.add_argument("--length", type=int, nargs="+", default=[384], help="tokens of a sequence (384)")
    parser.add_argument("--layers", type=int, default=0, help="number of layers instead of the network's own")
    parser.add_argument("--dtype", default="f16", choices=["f16", "bf16"], help="(f16)")
    parser.add_argument("--vs", nargs="+", default=list(PEERS[:3]), choices=PEERS, help="peers (eager sdpa compile)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    options = parser.parse_args(list(words))
    if why := why_not_timed():
        print(f"nothing was timed: {why}.")
        return 0
    cases = [(n, b, s) for n in options.network for b in options.batch for s in options.length]
    lines = (timed(*case, options.dtype, options.vs, options.layers) for case in cases)
    return int(not report(lines, options.output, command, said))


def network(name: str, attention: str, layers: int = 0) -> Any:
    """Make a network of random weights, in f32 on the CPU."""
    import transformers

    family, depth, width, heads, inner, vocabulary = NETWORKS[name]
    made: Any = getattr(transformers, f"{family}Config")
    depth = layers or depth
    if family == "GPT2":
        config = made(n_layer=depth, n_embd=width, n_head=heads, n_inner=inner, vocab_size=vocabulary)
    elif family == "DistilBert":
        config = made(n_layers=depth, dim=width, n_heads=heads, hidden_dim=inner, vocab_size=vocabulary)
    else:
        config = made(
            num_hidden_layers=depth, hidden_size=width, num_attention_heads=heads, intermediate_size=inner,
            vocab_size=vocabulary, max_position_embeddings=514,
        )  # fmt: skip
    config._attn_implementation = attention
    config.use_cache = False
    torch_module().manual_seed(0)
    return getattr(transformers, f"{family}Model")(config).eval()


def timed(name: str, batch: int, length: int, dtype: str, peers: Sequence[str], layers: int = 0) -> dict[str, Any]:
    """Check ours against f32, then time it and the peers."""
    import fireiron.torch
    from fireiron.graph.torch_backend import plans

    torch = torch_module()
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    line: dict[str, Any] = {"program": f"{name} {batch}x{length} {dtype}", "layers": layers or NETWORKS[name][1]}
    ids = torch.randint(10, 20000, (batch, length), device="cuda")

    def launch(model: Any) -> Callable[[], object]:
        def call() -> Any:
            with torch.no_grad():
                return model(ids)[0]

        return call

    few = ids[:2]
    with torch.no_grad():
        exact = network(name, "eager", layers).cuda()(few)[0]
        eager, sdpa = (network(name, how, layers).cuda().to(kind) for how in ("eager", "sdpa"))
        theirs = float((eager(few)[0].float() - exact).abs().max())
    begin = time.perf_counter()
    ours = launch(torch.compile(sdpa, backend=fireiron.torch.backend))
    made: Any = None
    for _ in range(3):
        made = ours()
    torch.cuda.synchronize()
    line["compiled_s"] = time.perf_counter() - begin
    plan = plans()[-1]
    line |= {"kernels": len(plan.kernels), "left": [x.part.nodes and _label(plan, x) for x in plan.foreign]}
    error = float((made[:2].float() - exact).abs().max())
    line |= {"error": error, "error of eager": theirs}
    if not error <= ERROR * theirs + 1e-2:
        return {**line, "problem": f"wrong: an element differs by {error:.3g} from f32, and eager's by {theirs:.3g}"}
    launches = {"fireiron": ours}
    if "eager" in peers:
        launches["eager"] = launch(eager)
    if "sdpa" in peers:
        launches["sdpa"] = launch(sdpa)
    for peer, options in (("compile", {}), ("max-autotune", {"mode": "max-autotune"})):
        if peer in peers:
            launches[peer] = launch(torch.compile(network(name, "sdpa", layers).cuda().to(kind), **options))
    for call in launches.values():
        for _ in range(3):
            call()
    return line | compared(launches, ROUNDS, BUDGET_S)


def _label(plan: Any, launch: Any) -> str:
    node = plan.graph.nodes[launch.part.nodes[-1]]
    return str(node["label"]) if node.op == "foreign" else node.op


def said(line: Any) -> str:
    """Say a network's result."""
    head = f"{line['program']}: {line['kernels']} kernels, {len(line['left'])} operators left to torch"
    head += f", compiled in {line['compiled_s']:.1f} s, error {line['error']:.2g} (eager {line['error of eager']:.2g})"
    if problem := line.get("problem"):
        return f"{head}; {problem}"
    ours = line["times"]["fireiron"]["median_us"] / 1e3
    peers = ", ".join(f"{key} {found:.3f}" for key, found in line["ratios"].items())
    return f"{head}; {ours:.3f} ms; over {peers}"
