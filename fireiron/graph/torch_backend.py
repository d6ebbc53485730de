"""The backend of `torch.compile`: torch's graphs become plans, for inference and, through AOTAutograd, for training.

    import fireiron.torch

    fast = torch.compile(model, backend="fireiron")

Each set of shapes gets a plan. On a GPU, launches without gradients are captured in a CUDA graph. For tensors on the
CPU, kernels that take less than a second to simulate are simulated; torch's operators compute the rest.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingImports=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from fireiron.base.errors import UsageError
from fireiron.base.link import here
from fireiron.graph.captured import Captured
from fireiron.graph.from_torch import Stays, imported
from fireiron.graph.plan import Plan, plan

torch: Any = import_module("torch")

OPTIONS = {
    "arch": "the target, the GPU's by default",
    "freeze": "whether what depends on parameters alone is computed once, until torch counts a write to them",
    "capture": "whether launches are captured in a CUDA graph, True by default for inference",
    "dependent": "whether each kernel begins while the one before it ends, True by default for inference",
    "strict": "whether an operator that is left to torch is an error",
    "rounding": "whether simplifications may change roundings",
    "range": "whether simplifications may change what overflows or is NaN",
    "windows": "whether convolutions and pooling of 16-bit floats run by this package's operators, False by default",
}
WHOLE = ("scaled_dot_product", "embedding_dense_backward")  # torch's operators that are not parted into others
_plans: list[Plan] = []


def plans() -> tuple[Plan, ...]:
    """List the plans that the backend made in this process, in order."""
    return tuple(_plans)


def backend(module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Compile a graph for `torch.compile`.

    Args:
        module: what Dynamo traced.
        inputs: examples.
        options: `torch.compile(options=...)`: arch, freeze, capture, dependent, strict, rounding, range,
            windows.

    Raises:
        UsageError: `backend-options`.
    """
    chosen = dict(options or {})
    unknown = [name for name in chosen if name not in OPTIONS]
    if unknown:
        raise UsageError(
            "backend-options",
            f"the backend has no option {unknown[0]!r}",
            fix="options: " + ", ".join(OPTIONS),
            link=here(),
        )
    if not torch.is_grad_enabled():
        keep_attention(module)
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    table = {op: f for op, f in core_aten_decompositions().items() if not any(name in str(op) for name in WHOLE)}

    def training(made: Any, examples: Sequence[Any]) -> Any:
        return Compiled(made, chosen, False, spend=True)

    def inference(made: Any, examples: Sequence[Any]) -> Any:
        return Compiled(made, chosen, bool(chosen.get("capture", True)))

    compiler: Any = aot_autograd(
        fw_compiler=_boxed(training),
        bw_compiler=_boxed(training),
        inference_compiler=_boxed(inference),
        decompositions=table,
        partition_fn=partial(
            min_cut_rematerialization_partition, compiler="inductor"
        ),  # else every view and cast is kept for the backward pass
    )
    return compiler(module, inputs)


def _attend(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: float | None, grouped: bool) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def _attended(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool) -> Any:
    same = grouped or q.shape[:-2] == v.shape[:-2]
    lead = q.shape[:-2] if same else torch.broadcast_shapes(q.shape[:-2], v.shape[:-2])
    return q.new_empty((*lead, q.shape[-2], v.shape[-1]))


_kept = torch.library.custom_op(
    "fireiron::kept_attention",
    _attend,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor? mask, float dropout, bool causal, float? scale, bool grouped)"
    " -> Tensor",
)
_kept.register_fake(_attended)


def keep_attention(module: Any) -> None:
    """Keep torch's attention one operator, which AOTAutograd would otherwise expand."""
    wanted = (torch.nn.functional.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention)
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target not in wanted:
            continue
        given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        node.args = (
            given["query"], given["key"], given["value"], given.get("attn_mask"), float(given.get("dropout_p", 0.0)),
            given.get("is_causal", False), given.get("scale"), given.get("enable_gqa", False),
        )  # fmt: skip
        node.kwargs = {}
        node.target = torch.ops.fireiron.kept_attention.default
    module.recompile()


def _boxed(compiler: Callable[..., Compiled]) -> Callable[..., Any]:
    """Let a compiled graph take its arguments in a list, which it may empty, as AOTAutograd offers."""

    def made(module: Any, examples: Sequence[Any]) -> Any:
        run = compiler(module, examples)

        def call(arguments: list[Any]) -> Any:
            return run(arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return made


class Compiled:
    """Run a graph of torch's by plans, one for each set of shapes.

    Args:
        module: the graph.
        options: of the backend.
        capture: whether launches are captured in a CUDA graph.
        spend: whether a call releases its arguments behind their last readers: what the backward pass reads of the
            forward pass is then freed while it runs.
    """

    def __init__(self, module: Any, options: Mapping[str, Any], capture: bool, spend: bool = False) -> None:
        self.module = module
        self.options = options
        self.capture = capture
        self.spend = spend
        self.made: dict[Any, Any] = {}

    def __call__(self, inputs: list[Any]) -> Any:
        """Compute the results; the list is emptied."""
        key = tuple((tuple(x.shape), x.dtype, x.device) if isinstance(x, torch.Tensor) else x for x in inputs)
        run = self.made.get(key)
        if run is None:
            run = self.made[key] = self._made(inputs)
        return run(inputs)

    def _made(self, inputs: Sequence[Any]) -> Any:
        devices = {x.device for x in inputs if isinstance(x, torch.Tensor)}
        if len(devices) != 1 or any(isinstance(x, torch.Tensor) and 0 in x.shape for x in inputs):
            return self._by_torch
        (device,) = devices
        try:
            module = self._with_numbers(inputs)
            fixed = [n for n, x in enumerate(inputs) if isinstance(x, torch.nn.Parameter)]
            windows = bool(self.options.get("windows"))
            graph, places, together, _ = imported(
                module, fixed=fixed if self.options.get("freeze") else (), windows=windows
            )
        except Stays as error:
            warnings.warn(f"fireiron leaves a graph to torch: {error}", stacklevel=2)
            return self._by_torch
        switched = {k: bool(self.options[k]) for k in ("rounding", "range") if k in self.options}
        # On an H200 BERT-base of 1x128 tokens took 0.38 ms so, 0.43 without, and 32x384 4.17 and 4.30.
        early = bool(self.options.get("dependent", self.capture))
        strict = bool(self.options.get("strict", False))
        made = plan(graph, self.options.get("arch"), strict, early, together, **switched)
        _plans.append(made)
        tensors = [n for n, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        run: Any = Captured(made) if self.capture and device.type == "cuda" else made

        def call(given: list[Any]) -> list[Any]:
            seen = {place: p(given) for place, p in enumerate(places) if callable(p)}
            read = [given[n] for n in tensors]
            given.clear()
            results = made.spend(read) if self.spend else run(*read)
            several = results if isinstance(results, tuple) else (results,)
            return [
                _typed(several[p[0]], t) if isinstance(p, tuple) else seen.get(place, p)
                for place, (p, t) in enumerate(zip(places, types, strict=True))
            ]

        output = next(n for n in module.graph.nodes if n.op == "output")
        types = [getattr(getattr(r, "meta", {}).get("val"), "dtype", None) for r in output.args[0]]
        return call

    def _by_torch(self, inputs: list[Any]) -> Any:
        return self.module(*inputs)

    def _with_numbers(self, inputs: Sequence[Any]) -> Any:
        """Compute the result's shape of each node for these inputs, of a graph that was traced with symbolic shapes."""
        module = self.module
        if all(not isinstance(x, torch.SymInt | int) for x in inputs) and not _symbolic(module):
            return module
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        copied = torch.fx.GraphModule(module, module.graph)
        given = [mode.from_tensor(x.detach(), static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
        FakeTensorProp(copied, mode).propagate_dont_convert_inputs(*given)
        return copied


def _symbolic(module: Any) -> bool:
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape):
            return True
    return False


def _typed(x: Any, dtype: Any) -> Any:
    """Convert a result to the type that torch expects: conditions are bytes in a plan."""
    return x if dtype is None or x.dtype == dtype else x.to(dtype)
