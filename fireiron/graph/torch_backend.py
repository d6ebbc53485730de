"""The backend of `torch.compile`: torch's graphs become plans, for inference and, through AOTAutograd, for training.

    import fireiron.torch

    fast = torch.compile(model, backend="fireiron")

Each set of shapes gets a plan. On a GPU, launches are captured in CUDA graphs. For tensors on the CPU, kernels that
take less than 0.1 s to simulate are simulated; torch's operators compute the rest.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingImports=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import attrs

from fireiron.algebra.arch import arch as target
from fireiron.base.errors import UsageError
from fireiron.base.link import here
from fireiron.front.dynamic import bucket
from fireiron.graph.captured import Captured
from fireiron.graph.captured_training import CapturedPass, Shared
from fireiron.graph.from_torch import imported
from fireiron.graph.nodes import Graph
from fireiron.graph.plan import Plan, plan, usual_target
from fireiron.graph.sizes import NAMES, symbolic
from fireiron.graph.torch_attention import keep_attention, simplify_positions
from fireiron.graph.torch_decompositions import decompositions
from fireiron.graph.torch_depthwise import keep_depthwise
from fireiron.graph.torch_moves import repeat_pixels
from fireiron.graph.torch_nodes import Stays
from fireiron.graph.torch_updates import copied, results_for_inputs
from fireiron.graph.torch_views import Seen

torch: Any = import_module("torch")

OPTIONS = {
    "arch": "the target, the GPU's by default",
    "freeze": "whether what depends on parameters alone is computed once, until torch counts a write to them",
    "capture": "whether launches are captured in a CUDA graph, True by default, in training for shapes without symbols",
    "dependent": "whether each kernel begins while the one before it ends, by default where launches are captured",
    "strict": "whether an operator that is left to torch is an error",
    "rounding": "whether simplifications may change roundings",
    "range": "whether simplifications may change what overflows or is NaN",
}
_plans: list[Plan] = []


def plans() -> tuple[Plan, ...]:
    """List the plans that the backend has made in this process, in order."""
    return tuple(_plans)


def backend(module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Compile a graph for `torch.compile`.

    Args:
        module: the graph that Dynamo traced.
        inputs: example inputs.
        options: `torch.compile(options=...)`: arch, freeze, capture, dependent, strict, rounding, range.

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
    keep_attention(module, torch.is_grad_enabled())
    repeat_pixels(module)
    if torch.is_grad_enabled() and target(chosen.get("arch") or usual_target()).number >= 80:
        keep_depthwise(module)
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    shared: dict[Any, Shared] = {}
    returned: list[int] = []  # how many results of the forward pass are not for the backward pass

    def training(made: Any, examples: Sequence[Any]) -> Any:
        return Compiled(made, chosen, bool(chosen.get("capture", True)), Training(shared, returned))

    def backward(made: Any, examples: Sequence[Any]) -> Any:
        return Compiled(made, chosen, bool(chosen.get("capture", True)), Training(shared))

    def inference(made: Any, examples: Sequence[Any]) -> Any:
        simplify_positions(made)
        return Compiled(made, chosen, bool(chosen.get("capture", True)))

    def parted(joint: Any, *given: Any, **named: Any) -> Any:
        simplify_positions(joint)
        returned[:] = [named["num_fwd_outputs"]]
        # Without "inductor" every view and cast is kept for the backward pass.
        return min_cut_rematerialization_partition(joint, *given, compiler="inductor", **named)

    compiler: Any = aot_autograd(
        fw_compiler=_boxed(training),
        bw_compiler=_boxed(backward),
        inference_compiler=_boxed(inference),
        decompositions=decompositions(torch.is_grad_enabled()),
        partition_fn=parted,
        keep_inference_input_mutations=not torch.is_grad_enabled(),
    )
    return compiler(module, inputs)


def _boxed(compiler: Callable[..., Compiled]) -> Callable[..., Any]:
    """Let a compiled graph take its arguments as a list that it may empty, which AOTAutograd allows."""

    def made(module: Any, examples: Sequence[Any]) -> Any:
        run = compiler(module, examples)

        def call(arguments: list[Any]) -> Any:
            return run(arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return made


@attrs.frozen(eq=False)
class Training:
    """Hold the data that a forward and a backward pass share.

    Args:
        shared: streams and memory for captures, by device.
        returned: for a forward pass, the number of results (the first ones) that the caller gets; the other results are
            only for the backward pass.
    """

    shared: dict[Any, Shared]
    returned: Sequence[int] | None = None

    @property
    def first(self) -> int | None:
        """Return the number of results that the caller gets; None for all, of a backward pass."""
        return None if self.returned is None else self.returned[0]

    def captured(self, made: Plan, places: Sequence[Any], device: Any) -> CapturedPass:
        """Capture the launches of a pass.

        Args:
            made: plan of the pass.
            places: for each result of the pass, a tuple with its position among the plan's results; other values for
                results that the plan does not compute.
            device: device of the tensors.
        """
        if device not in self.shared:
            self.shared[device] = Shared.on(device)
        if self.returned is None:
            return CapturedPass(made, self.shared[device], None)
        results = [p[0] if isinstance(p, tuple) else None for p in places]
        first = self.first
        saved = {n for n in results[first:] if n is not None and n not in results[:first]}
        return CapturedPass(made, self.shared[device], saved)


class Compiled:
    """Run a graph of torch by plans, one for each set of shapes.

    Args:
        module: the graph.
        options: options of the backend.
        capture: whether launches are captured in a CUDA graph.
        training: the data that the passes of training share; None for inference. In training, a call releases each
            argument after its last reader, so that results of the forward pass are freed during the backward pass.
    """

    def __init__(
        self, module: Any, options: Mapping[str, Any], capture: bool, training: Training | None = None
    ) -> None:
        self.written = () if training is not None else results_for_inputs(module)
        self.module = module
        self.said = tuple(
            n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"
        )  # before it has numbers
        self.dynamic = _symbolic(module)
        self.fixed = not self.dynamic and all(isinstance(x, torch.Tensor) for x in self.said)
        self.options = options
        # Each captured set of shapes keeps the memory of its passes: 0.7 GiB for two layers of BERT-base, 32x384.
        many = training is not None and self.dynamic and "capture" not in options
        self.capture = capture and not many
        self.training = training
        self.made: dict[Any, Any] = {}
        self.symbolic: dict[Any, tuple[Plan, list[Any]] | None] = {}

    def __call__(self, inputs: list[Any]) -> Any:
        """Compute the results, and empty the list of inputs."""
        key: Any = None  # without symbols, torch has the shapes in its guards
        if not self.fixed:
            key = tuple((tuple(x.shape), x.dtype, x.device) if isinstance(x, torch.Tensor) else x for x in inputs)
        run = self.made.get(key)
        if run is None:
            run = self.made[key] = self._made(inputs)
        if not self.written:
            return run(inputs)
        targets = [inputs[n] for n in self.written]
        results = list(run(inputs))
        first = len(results) - len(targets)
        copied(targets, results[first:])
        return results[:first]

    def _made(self, inputs: Sequence[Any]) -> Any:
        devices = {x.device for x in inputs if isinstance(x, torch.Tensor)}
        if len(devices) != 1 or any(isinstance(x, torch.Tensor) and 0 in x.shape for x in inputs):
            return self._by_torch
        try:
            found = self._symbolic(inputs)
            if found is not None:
                return found
            module = self._with_numbers(inputs)
            graph, places, together = self._imported(module, inputs)
        except Stays as error:
            warnings.warn(f"fireiron leaves a graph to torch: {error}", stacklevel=2)
            return self._by_torch
        strict, early, switched = self._asked
        gaps = self._only_saved(places)
        spends = self.training is not None and self.training.first is None  # callers of forward passes hold the inputs
        made = plan(graph, self.options.get("arch"), strict, early, together, None, gaps, spends, **switched)
        _plans.append(made)
        return self._call(made, places, inputs)

    def _only_saved(self, places: Sequence[Any]) -> list[int]:
        """List the positions of the plan's results that only a backward pass reads."""
        first = len(places) if self.training is None else self.training.first
        given, saved = ([p[0] for p in some if isinstance(p, tuple)] for some in (places[:first], places[first:]))
        return [place for place in dict.fromkeys(saved) if place not in given]

    def _imported(self, module: Any, inputs: Sequence[Any]) -> tuple[Graph, list[Any], list[int]]:
        fixed = [n for n, x in enumerate(inputs) if isinstance(x, torch.nn.Parameter)]
        # In training, sums over images follow a convolution, so that nothing would be fused into it; its gradients are
        # torch's, except for depthwise ones. Kernels for GPUs before sm_80 have not been timed against torch's.
        windows = self.training is None and target(self.options.get("arch") or usual_target()).number >= 80
        graph, places, together, _ = imported(
            module, fixed=fixed if self.options.get("freeze") else (), windows=windows, examples=inputs
        )
        return graph, places, together

    @property
    def _asked(self) -> tuple[bool, bool, dict[str, bool]]:
        """Return the plan's options: strict, dependent, and the rules that are switched on."""
        switched = {k: bool(self.options[k]) for k in ("rounding", "range") if k in self.options}
        # On an H200 BERT-base of 1x128 tokens took 0.38 ms so, 0.43 without, and 32x384 4.17 and 4.30.
        early = bool(self.options.get("dependent", self.capture))
        return bool(self.options.get("strict", False)), early, switched

    def _call(self, made: Plan, places: Sequence[Any], inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
        """Return the function that runs a plan for arguments of the shapes of `inputs`."""
        tensors = [n for n, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        device = inputs[tensors[0]].device
        run = self._runner(made, places, device if self.capture and device.type == "cuda" else None)
        output = next(n for n in self.module.graph.nodes if n.op == "output")
        types = [getattr(getattr(r, "meta", {}).get("val"), "dtype", None) for r in output.args[0]]

        def call(given: list[Any]) -> list[Any]:
            seen = {place: p(given) for place, p in enumerate(places) if callable(p)}
            read = [given[n] for n in tensors]
            given.clear()
            results = run(read)
            several = results if isinstance(results, tuple) else (results,)
            return [
                _typed(several[p[0]], t) if isinstance(p, tuple) else seen.get(place, p)
                for place, (p, t) in enumerate(zip(places, types, strict=True))
            ]

        return call

    def _runner(self, made: Plan, places: Sequence[Any], device: Any) -> Callable[[list[Any]], Any]:
        """Return the function that runs a plan for a list of tensors; with a device, its launches are captured.

        In training, the function empties the list.
        """
        if self.training is None:
            call: Any = made if device is None else Captured(made)
            return lambda given: call(*given)
        if device is None:
            return lambda given: made.spend(given)
        return self.training.captured(made, places, device)

    def _symbolic(self, inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]] | None:
        """Return the function that runs a plan for all sizes of a bucket; None without symbols or such a plan."""
        sizes = Sizes.of(self.said, inputs)
        if sizes is None:
            return None
        key = *(bucket(n).maximum for n in sizes.numbers), *sizes.others
        if key not in self.symbolic:
            self.symbolic[key] = self._of_all_sizes(sizes, inputs)
            if (made := self.symbolic[key]) is not None:
                _plans.append(made[0])
        if (found := self.symbolic[key]) is None:
            return None
        made, places = found
        assert made.samples is not None
        there = [made.samples.at(p, sizes.numbers) if isinstance(p, int) else p for p in places]
        return self._call(made.sized(*sizes.numbers), there, inputs)

    def _of_all_sizes(self, sizes: Sizes, inputs: Sequence[Any]) -> tuple[Plan, list[Any]] | None:
        known: dict[tuple[int, ...], list[Any]] = {}
        groups: list[int] = []

        def make(*numbers: int) -> Graph:
            graph, known[numbers], groups[:] = self._imported(sizes.at(self.module, numbers), inputs)
            return graph

        strict, early, rules = self._asked
        asked = {"strict": strict, "dependent": early, "together": groups} | rules
        made = symbolic(make, sizes.numbers, self.options.get("arch"), sizes.names, **asked)
        if made is None or made.samples is None:
            return None
        samples = made.samples
        places = known.pop(samples.numbers)
        for numbers, others in list(known.items())[-1:]:
            if any(isinstance(p, int) and q != samples.at(p, numbers) for p, q in zip(places, others, strict=True)):
                return None
        return None if any(isinstance(p, Seen) and p.sized for p in places) else (made, places)

    def _by_torch(self, inputs: list[Any]) -> Any:
        # What our forward pass gave may have padded lines; operators of torch may need tensors that lie as traced.
        given = [
            x.contiguous() if isinstance(x, torch.Tensor) and said.is_contiguous() else x
            for x, said in zip(inputs, self.said, strict=True)
        ]
        return self.module(*given)

    def _with_numbers(self, inputs: Sequence[Any]) -> Any:
        """Return a graph that was traced with symbolic shapes, with the shapes of its nodes for these inputs."""
        module = self.module
        if all(not isinstance(x, torch.SymInt | int) for x in inputs) and not self.dynamic:
            return module
        from torch._subclasses.fake_tensor import FakeTensorMode

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        given = [mode.from_tensor(x.detach(), static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
        return propagated(module, mode, given)


def propagated(module: Any, mode: Any, given: Sequence[Any]) -> Any:
    """Compute the shapes of a graph's nodes from inputs without contents; nodes then describe their results."""
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    walk: Any = FakeTensorProp(module, mode)
    run = walk.run_node

    def noted(node: Any) -> Any:
        found = run(node)
        if isinstance(found, int):  # torch 2.11 leaves a number's symbol
            node.meta["val"] = found
        return found

    walk.run_node = noted
    walk.propagate_dont_convert_inputs(*given)
    return module


@attrs.frozen(eq=False)
class Sizes:
    """Hold values for the symbols in the shapes of a graph's inputs.

    Args:
        said: descriptions of the graph's inputs, whose shapes have symbols.
        values: by symbol, its value in the call.
        symbols: the symbols that kernels take: the batch (the first symbol that is an input's outermost extent) and the
            length (the first symbol that is another extent).
        names: names of `symbols` in kernels.
    """

    said: tuple[Any, ...]
    values: Mapping[Any, int]
    symbols: tuple[Any, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, given: tuple[Any, ...], inputs: Sequence[Any]) -> Sizes | None:
        """Read the symbols' values from the inputs of a call; None where no extent of a shape is a symbol alone."""
        values: dict[Any, int] = {}
        outer, inner = list[Any](), list[Any]()
        for said, x in zip(given, inputs, strict=True):
            tensor = isinstance(said, torch.Tensor)
            for axis, (n, real) in enumerate(zip(said.shape, x.shape, strict=True) if tensor else [(said, x)]):
                if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol:
                    values[n.node.expr] = int(real)
                    if tensor:
                        (inner if axis else outer).append(n.node.expr)
        lengths = [n for n in inner if n not in outer[:1]]
        found = {name: each[0] for name, each in zip(NAMES, (outer, lengths), strict=True) if each}
        return cls(given, values, tuple(found.values()), tuple(found)) if found else None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the values of `symbols` in the call."""
        return tuple(self.values[symbol] for symbol in self.symbols)

    @property
    def others(self) -> tuple[tuple[str, int], ...]:
        """List the other symbols and their values."""
        return tuple(sorted((str(k), n) for k, n in self.values.items() if k not in self.symbols))

    def at(self, module: Any, numbers: Sequence[int]) -> Any:
        """Compute the shapes of a graph's nodes at other sizes."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        values = {**self.values, **dict(zip(self.symbols, numbers, strict=True))}

        def number(n: Any) -> Any:
            return int(n.node.expr.subs(values)) if isinstance(n, torch.SymInt) else n

        given: list[Any] = []
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            for said in self.said:
                if isinstance(said, torch.Tensor):
                    shape, strides = ([number(n) for n in each] for each in (said.shape, said.stride()))
                    given.append(torch.empty_strided(shape, strides, dtype=said.dtype, device=said.device))
                else:
                    given.append(number(said))
        return propagated(module, mode, given)


def _symbolic(module: Any) -> bool:
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape):
            return True
    return False


def _typed(x: Any, dtype: Any) -> Any:
    """Convert a result to torch's type for it; a plan's bytes for booleans are 0 and 1, so they need no conversion."""
    if dtype is None or x.dtype == dtype:
        return x
    return x.view(dtype) if (x.dtype, dtype) == (torch.uint8, torch.bool) else x.to(dtype)
