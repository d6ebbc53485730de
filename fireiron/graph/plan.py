"""Plans: the kernels that compute a graph, their order, and the memory of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.errors import FireironError, UsageError
from fireiron.base.link import here
from fireiron.base.text import count
from fireiron.front.verbs import Schedule
from fireiron.graph.aligned import aligned
from fireiron.graph.alike import Form, form_of, moved
from fireiron.graph.areas import Part
from fireiron.graph.crossed import in_one_order
from fireiron.graph.dims import free_nodes
from fireiron.graph.kept_launches import KeptLaunches, kept_launches
from fireiron.graph.lower import lowered
from fireiron.graph.lowered import Lowered, Misfit, Operand
from fireiron.graph.memory import Interval, Memory, most_alive, plan_memory
from fireiron.graph.nodes import BUNDLE, Graph
from fireiron.graph.pack import settled_nodes
from fireiron.graph.partition import apart, partition
from fireiron.graph.passes import Passed
from fireiron.graph.product_parts import SUMS, operands_of
from fireiron.graph.row_parts import over_several
from fireiron.graph.starts import at_vectors
from fireiron.graph.views import (
    View,
    base_of,
    held,
    materialised,
    outputs_apart,
    padded_lines,
    views_of,
    with_matrices,
)
from fireiron.graph.words import names_of
from fireiron.jit.choices import keep_choice, keep_choices, kept_choice, kept_together
from fireiron.kernel.ir.statements import Turn, walk

if TYPE_CHECKING:
    from fireiron.graph.run import Runner
    from fireiron.graph.sizes import Samples
    from fireiron.show.picture import Picture

BEFORE = -1  # the place before the first launch
ONCE = "computed once, by the library"
STRICT = "no kernel of fireiron computes it"
# Microseconds of an instruction of a function, for each element of a product's epilog: four warps wait for each result.
# On an H200 gelu by erf (29 of them) behind 12288x3072x768 in f16 took 172 us, where the product alone took 78, half of
# which ran under the epilog.
EPILOG_US = 1.2e-7
# What an epilog of wgmma adds to its products, in microseconds for each element, by 50 kernels of drawn sizes on an
# H200 (bf16, 10 epilogs): for each array that it reads or result that it writes beside the first; for each array that
# it reads where it writes several results; for each instruction beyond `SLOTS`. For a further product in the kernel
# PAIR_US is estimated from two kernels that were timed, less twice the time of one product: 424 us for 4096x5632x2048
# with three results, and 1476 us for 4096x14336x4096 with one.
STREAM_US = 0.95e-6
MIXED_US = 0.7e-6
SLOT_US = 0.12e-6
SLOTS = 22
DIVISION_SLOTS = 8
PAIR_US = 3.7e-6
LAUNCH_US = 3.0  # least cost of a further launch: functions that take less stay in the epilog
# A product with the norm of its rows in one kernel, by 38 shapes of 64 to 1024 columns on an H200: what the model says
# beyond ROWS_US takes ROWS_OVER_MODEL times as long, by a third less or more. The two kernels take OVERLAP_US less than
# the model says, since the norm begins while the product ends. In microseconds, one kernel and two: 3.7 and 4.3
# (512x64x64), 4.8 and 4.5 (512x128x128), 10.3 and 5.8 (128x768x768), 34.5 and 15.2 (4096x768x768).
ROWS_US = 4.4
ROWS_OVER_MODEL = 3.6
OVERLAP_US = 2.5


@attrs.frozen(eq=False)
class Launch:
    """Hold one step of a plan: a kernel, or operations that the library of the arrays (NumPy, torch) computes.

    Args:
        part: the operations of the step.
        kernel: the kernel's schedule and arrays; None where the library computes the operations.
        exposed_us: microseconds of functions in a product's epilog that do not overlap with products.
        why: the reason why there is no kernel or no fusion; "" without one.
        once: whether the step depends on numbers and fixed inputs alone, so that its results are kept from call to
            call.
        begun: the concatenations that launches write in place (`fireiron.graph.in_place`), if this launch is the first
            to write a part of them.
    """

    part: Part
    kernel: Lowered | None
    why: str = ""
    exposed_us: float = 0.0
    once: bool = False
    begun: tuple[int, ...] = ()

    def own(self, views: Mapping[int, View]) -> tuple[int, ...]:
        """List what gets memory for this launch: concatenations that it begins, and results.

        Results that are written in place lie in another array.
        """
        return (*self.begun, *(i for i in self.part.outputs if views[i].node == i))

    @property
    def cleared(self) -> tuple[int, ...]:
        """List the results that are filled with zeros first, since the kernel adds to them."""
        outputs = () if self.kernel is None else self.kernel.outputs
        return tuple(operand.view.node for operand in outputs if operand.cleared)

    @cached_property
    def modelled_us(self) -> float | None:
        """Return the modelled time of the kernel; None without a kernel, or where the model cannot estimate it."""
        if self.kernel is None:
            return None
        us = _modelled(self.kernel.schedule)
        return None if us is None else us + self.exposed_us


@attrs.frozen(eq=False)
class Plan:
    """Compute a graph by kernels, one after another; NumPy or torch computes operations without a kernel.

    With NumPy arrays and without a GPU, kernels are simulated.

    Args:
        passed: the graph before and after the passes, with their records.
        graph: the graph after the passes, with copies for views that strides cannot express.
        launches: the launches, in order.
        views: for each node, where its elements lie in memory.
        memory: offsets of the results between launches.
        arch: the target of the schedules.
        strict: whether a kernel that cannot be compiled or launched is an error; if not, the library computes its
            operations.
        samples: the numbers in the plan that stand for the batch or a length, which are symbols in kernels; None for a
            plan without symbols.
        sizes: values of the kernels' symbols, by name.
    """

    passed: Passed
    graph: Graph
    launches: tuple[Launch, ...]
    views: Mapping[int, View]
    memory: Memory
    arch: str
    strict: bool = False
    samples: Samples | None = None
    sizes: Mapping[str, int] = attrs.field(factory=dict[str, int])

    def sized(self, *sizes: int) -> Plan:
        """Return the plan for another batch or length, with the same kernels, if the plan has symbols for them.

        Args:
            sizes: a number for each symbol, the batch first.

        Raises:
            UsageError: `graph-sizes`.
        """
        from fireiron.graph.sizes import sized

        names = tuple(self.sizes)
        if len(sizes) != len(names):
            raise UsageError(
                "graph-sizes",
                f"the plan of {self.graph.name} has {count(len(names), 'size')} that may change"
                f"{': ' if names else ''}{', '.join(names)}; {len(sizes)} given",
                fix=f"write sized({', '.join(names)})" if names else "make the plan by symbolic(make, (batch, length))",
                link=here(),
            )
        if sizes not in self._others:
            self._others[sizes] = sized(self, sizes)
        return self._others[sizes]

    @cached_property
    def _others(self) -> dict[tuple[int, ...], Plan]:
        return {}

    def __call__(self, *arrays: Any) -> Any:
        """Compute the outputs: one array, or a tuple of arrays.

        Raises:
            CallError: `graph-inputs`; as kernels do.
        """
        try:
            return self.runner(list(arrays))
        except FireironError as error:
            raise error.located(here()) from None

    def spend(self, arrays: list[Any]) -> Any:
        """Compute the outputs as a call does, and empty the list, so that each array is released after its last reader.

        Each result between launches then has memory of its own until its last reader, instead of a place in one block,
        so that the library's allocator can reuse memory at once.

        Args:
            arrays: one for each input; the caller should hold no other references to them.

        Raises:
            CallError: `graph-inputs`; as kernels do.
        """
        try:
            return self.runner(arrays, spend=True)
        except FireironError as error:
            raise error.located(here()) from None

    @cached_property
    def runner(self) -> Runner:
        """Return the runner of the launches; the first access compiles the kernels."""
        from fireiron.graph.run import Runner

        return Runner(self)

    @cached_property
    def written(self) -> frozenset[int]:
        """List the positions of the inputs of which launches write elements, in place."""
        nodes = self.graph.nodes
        targets = {node.inputs[2] for node in nodes if node.op == "scatter"}
        return frozenset(place for place, i in enumerate(self.graph.inputs) if i in targets)

    @cached_property
    def joined(self) -> Mapping[int, tuple[int, ...]]:
        """List, by concatenation without a launch, the results that kernels write to its memory."""
        computed = {n for launch in self.launches for n in launch.part.nodes}
        found: dict[int, tuple[int, ...]] = {}
        for number, node in enumerate(self.graph.nodes):
            if node.op == "concatenate" and number not in computed:
                bases = [base_of(self.graph, i) for i in node.inputs]
                found[number] = tuple(n for base in bases for n in found.get(base, (base,)))
        return found

    @property
    def kernels(self) -> tuple[Lowered, ...]:
        """List the kernels in the order of their launches."""
        return tuple(launch.kernel for launch in self.launches if launch.kernel is not None)

    @property
    def foreign(self) -> tuple[Launch, ...]:
        """List the operations that NumPy or torch computes in each call."""
        return tuple(launch for launch in self.launches if launch.kernel is None and not launch.once)

    def explain(self) -> str:
        """Describe the plan: the operations of each kernel, the reasons, and modelled times."""
        from fireiron.graph.explain import explain

        return explain(self)

    def picture(self) -> Picture:
        """Draw the data flow: a box for each launch, its operations inside, and lines for the arrays between boxes."""
        from fireiron.graph.picture import picture

        return picture(self)

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Write the CUDA of each kernel to a file of its own; kernels that are launched several times are written once.

        Args:
            folder: path of a folder, which is created if it does not exist.
        """
        from fireiron.graph.explain import titles

        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        made: dict[str, Path] = {}
        for title, launch in zip(titles(self), self.launches, strict=True):
            if launch.kernel is None:
                continue
            text = launch.kernel.schedule.cuda()
            if text not in made:
                made[text] = target / f"{len(made):02d}_{title}.cu"
                made[text].write_text(text, encoding="utf-8")
        return tuple(made.values())

    def __repr__(self) -> str:
        left = f", {count(len(self.foreign), 'operation')} left to the library" if self.foreign else ""
        return f"<plan of {self.graph.name} for {self.arch}: {count(len(self.kernels), 'kernel')}{left}>"


def plan(
    graph: Graph, arch: str | None = None, strict: bool = False, dependent: bool = False,
    together: Sequence[int] = (), samples: Samples | None = None, gaps: Sequence[int] = (),
    spends: bool = False, **rules: bool,
) -> Plan:  # fmt: skip
    """Make the plan of a graph: passes, partition, a schedule for each part, memory.

    Args:
        graph: as traced.
        arch: the target; where None, the GPU's, or without a GPU sm_89, whose kernels are simulated fastest.
        strict: whether an operation without a kernel, or a kernel that cannot be compiled or launched, is an error.
        dependent: whether a kernel begins while the kernel before it ends, from sm_90 on.
        together: a number for each output; outputs with equal numbers may share memory. Empty if no outputs share
            memory.
        samples: the numbers in the graph that become symbols in kernels; see `fireiron.graph.sizes`. Lines of results
            are not padded then.
        gaps: positions of the outputs whose lines may be padded too.
        spends: whether calls release inputs (`Plan.spend`), so that choices that need memory count these too.
        rules: kinds of simplification that are off by default, see `Graph.passes`.

    Raises:
        UsageError: `graph-strict`, `graph-rules`.
    """
    target = arch or usual_target()
    passed = graph.passes(**rules)
    may = None if samples is not None else gaps
    made, views, parts = _parted(outputs_apart(passed.graph, together), may)
    copied = with_matrices(made, _alone(made, parts), views)
    if copied is not None:
        made, views, parts = _parted(copied, may)
    padded = aligned(made, _alone(made, parts), views) if may is not None else None
    if padded is not None:
        made, views, parts = _parted(padded, may)
    straight = in_one_order(made, parts, views, free_nodes(made))
    if straight is not None:
        made, views, parts = _parted(straight, may)
    whole = at_vectors(made, parts, views)
    if whole is not None:
        made, views, parts = _parted(whole, may)
    with kept_together():
        kernels = Kernels(made, target, samples, dependent)
        launches = [launch for part in parts for launch in kernels.of(part, views)]
        if samples is None:
            from fireiron.graph.in_place import in_place

            made, launches, views = in_place(made, launches, views, kernels, spends)
        kernels.keep()
    if strict and (left := next((x for x in launches if x.kernel is None and not x.once), None)) is not None:
        names = names_of(made)
        raise UsageError(
            "graph-strict",
            f"{names[left.part.nodes[-1]]} of {graph.name}, {made.nodes[left.part.nodes[-1]].op}: {left.why}",
            fix="leave strict out: NumPy or torch then computes operations without a kernel",
        )
    if dependent:
        from fireiron.graph.dependent import begun_early

        launches = list(begun_early(launches, target))
    memory = planned_memory(passed.given, made, launches, views)
    sizes = {} if samples is None else samples.named(samples.numbers)
    return Plan(passed, made, tuple(launches), views, memory, target, strict, samples, sizes)


class Kernels:
    """Give parts their launches: those of an equal part, those on disk, or new ones.

    Args:
        graph: the graph of the parts.
        arch: the target.
        samples: numbers that become symbols in kernels; None for a graph without symbols.
        early: whether kernels may begin while the kernel before them ends.
    """

    def __init__(self, graph: Graph, arch: str, samples: Samples | None, early: bool) -> None:
        self.graph, self.arch, self.samples, self.early = graph, arch, samples, early
        self.settled, self.free, self.given = settled_nodes(graph), free_nodes(graph), _given(graph)
        self.known: dict[object, tuple[Form, list[Launch]]] = {}  # parts of equal layers are alike
        self.new: list[tuple[KeptLaunches, list[Launch]]] = []

    def of(self, part: Part, views: Mapping[int, View]) -> list[Launch]:
        """Return the launches of a part.

        Args:
            part: the part.
            views: for each node, where its elements lie in memory.
        """
        if _once(self.graph, part, self.settled, self.given):
            return [Launch(part, None, ONCE, once=True)]
        form = form_of(self.graph, part, views, self.free)
        if form.key in self.known:
            return moved(self.known[form.key][1], self.known[form.key][0], form)
        kept = kept_launches(form, self.graph, part, views, self.arch, self.samples, self.early)
        found = None if kept is None else kept.read()
        if found is None:
            found = _launches(self.graph, part, views, self.arch, self.samples)
            self.new += [] if kept is None else [(kept, found)]
        self.known[form.key] = form, found
        return found

    def keep(self) -> None:
        """Keep the new launches on disk."""
        keep_choices({kept.key: kept.facts(found) for kept, found in self.new})


def _parted(graph: Graph, gaps: Sequence[int] | None) -> tuple[Graph, dict[int, View], tuple[Part, ...]]:
    """Return a graph with copies for views that strides cannot express, where its elements lie, and its parts.

    Args:
        graph: the graph.
        gaps: positions of the outputs that may have gaps; None if no result may.
    """
    made, orders = materialised(graph)
    dense = {i for place, i in enumerate(made.outputs) if place not in (gaps or ())}
    padded = {} if gaps is None else padded_lines(made, orders, dense)
    views = {i: view for i, view in views_of(made, orders, padded).items() if view is not None}
    return made, views, partition(made, views)


def _alone(graph: Graph, parts: Sequence[Part]) -> dict[int, tuple[int, ...]]:
    """Return the products that have kernels of their own, each with the results of its kernel."""
    mine = (part for part in parts if part.kind in ("product", "products"))
    return {n: part.outputs for part in mine for n in part.nodes if graph.nodes[n].op == "matmul"}


def planned_memory(given: Graph, graph: Graph, launches: Sequence[Launch], views: Mapping[int, View]) -> Memory:
    """Place the results of launches in memory, and compute the peaks of memory.

    Args:
        given: the traced graph.
        graph: the graph after the passes.
        launches: the launches, in order.
        views: for each node, where its elements lie in memory.
    """
    _, spent = peaks(graph, launches, views)
    found = plan_memory(_between(graph, launches, views))
    return attrs.evolve(found, eager=most_alive(_one_by_one(given)), spent=spent)


def _given(graph: Graph) -> frozenset[int]:
    """List the outputs, and the nodes that they are views of."""
    left, found = list(graph.outputs), set[int]()
    while left:
        number = left.pop()
        found.add(number)
        left += graph.nodes[number].inputs if graph.nodes[number].kind == "view" else ()
    return frozenset(found)


def _once(graph: Graph, part: Part, settled: frozenset[int], given: frozenset[int]) -> bool:
    """Say whether a part's results can be kept from call to call: all are settled, and no output shares memory."""
    if not settled.issuperset(part.nodes) or not given.isdisjoint(part.nodes):
        return False
    return not any(BUNDLE in dict(graph.nodes[i].attributes) for i in part.nodes)


def usual_target() -> str:
    """Return the target of a plan: the GPU's architecture, or without a GPU the one whose kernels simulate fastest."""
    from fireiron.front.host import SIMULATED, without_gpu

    if without_gpu():
        return SIMULATED
    from fireiron.tune.machine import machine

    return machine().arch


def _launches(
    graph: Graph, part: Part, views: Mapping[int, View], arch: str, samples: Samples | None = None
) -> list[Launch]:
    """Give a part its kernel; if no kernel computes the whole part, its operations get separate kernels."""
    why = STRICT
    if part.kind != "foreign":
        problem = _problem(graph, part, views, arch) if _doubtful(graph, part, views, arch) else ""
        problem = f"{problem} {samples}" if problem and samples is not None else problem
        kept = kept_choice(problem) if problem else None
        try:
            if kept is not None and kept.get("parted"):
                return [attrs.evolve(x, why=str(kept["parted"])) for x in _divided(graph, part, views, arch, samples)]
            kernel = lowered(graph, part, views, arch, samples)
            made = Launch(part, kernel, exposed_us=_exposed(graph, part, kernel))
            if not problem:
                return [made]
            if kept is not None:
                return [attrs.evolve(made, exposed_us=float(kept["exposed"]))]
            found = _faster(graph, made, _divided(graph, part, views, arch, samples), arch)
            whole = found[0].part is part
            keep_choice(problem, {"parted": "" if whole else found[0].why, "exposed": found[0].exposed_us})
            return found
        except Misfit as error:
            why = str(error)
        except FireironError as error:
            why = error.message
    smaller = apart(graph, part, views)
    if len(smaller) > 1:
        found = [launch for one in smaller for launch in _launches(graph, one, views, arch, samples)]
        return [attrs.evolve(x, why=x.why or f"not one kernel: {why}") for x in found]
    return [Launch(part, None, why)]


def _in_epilog(graph: Graph, part: Part) -> float:
    """Return the time of functions (exp, erf, ...) in the epilog of a product or convolution, in microseconds."""
    if part.kind not in ("product", "products", "convolution"):
        return 0.0
    behind = [graph.nodes[n] for n in _behind(graph, part)]
    known = [(node.size, FUNCTIONS[node.op].slots) for node in behind if node.op in FUNCTIONS]
    return sum(size * slots * EPILOG_US for size, slots in known if slots > 1)


def _epilog_us(graph: Graph, part: Part, arch: str) -> float:
    """Return the time that an epilog of wgmma adds to its products, in microseconds, by kernels that were timed."""
    products = [n for n in part.nodes if graph.nodes[n].op == "matmul"]
    if part.kind not in ("product", "products") or not arch.startswith("sm_90") or not products:
        return 0.0
    size = graph.nodes[products[0]].size
    operands = {i for n in products for i in graph.nodes[n].inputs}
    behind = [graph.nodes[n] for n in _behind(graph, part)]
    if not any(node.op != "cast" for node in behind) or (len(products) > 1 and not _combines(graph, part)):
        return 0.0
    read = sum(graph.nodes[i].size == size and i not in operands for i in part.inputs)
    more = len(part.outputs) - 1
    slots = sum(_slots(node.op) for node in behind)
    each = STREAM_US * (read + more) + MIXED_US * (read if more else 0) + SLOT_US * max(0, slots - SLOTS)
    return size * (each + PAIR_US * (len(products) - 1))


def _combines(graph: Graph, part: Part) -> bool:
    """Say whether an operation of a part reads several of its products, directly or through others."""
    read: dict[int, set[int]] = {}
    for number in sorted(part.nodes):
        node = graph.nodes[number]
        mine = {number} if node.op == "matmul" else set[int]()
        read[number] = mine.union(*(read.get(i, set[int]()) for i in node.inputs))
    return any(len(products) > 1 for products in read.values())


def _slots(op: str) -> int:
    """Return the number of instructions of an operation on an element."""
    if op in FUNCTIONS:
        return FUNCTIONS[op].slots
    return DIVISION_SLOTS if op == "div" else int(op != "cast")


def _behind(graph: Graph, part: Part) -> list[int]:
    """List the pointwise operations behind the products of a part."""
    products = [n for n in part.nodes if graph.nodes[n].op in SUMS]
    ahead = {n for product in products for n in operands_of(graph, product, set(part.nodes))}
    return [n for n in part.nodes if n not in ahead and graph.nodes[n].kind == "pointwise"]


def _exposed(graph: Graph, part: Part, kernel: Lowered) -> float:
    """Return the part of `_in_epilog`'s time that does not overlap with products.

    In staggered schedules, loops of other units run during an epilog.
    """
    functions = _in_epilog(graph, part)
    if functions <= LAUNCH_US:
        return functions
    turns = any(isinstance(s, Turn) for s in walk(kernel.schedule.lowered().body))
    return max(0.0, functions - (_modelled(kernel.schedule) or 0.0) / 2) if turns else functions


@lru_cache(maxsize=256)
def _modelled(schedule: Schedule) -> float | None:
    """Return the modelled time of a schedule in microseconds; equal schedules are modelled once."""
    try:
        return schedule.estimate().time_us
    except FireironError:
        return None


def _doubtful(graph: Graph, part: Part, views: Mapping[int, View], arch: str) -> bool:
    """Say whether the model must decide between one kernel and several.

    It decides for merged products, prologs, functions and what else takes time in an epilog, and for rows over several
    dims whose last lies apart.
    """
    if part.kind == "rows" and over_several(graph, part.nodes):
        return any(_lies_apart(views[i]) for i in (*part.inputs, *part.outputs))
    first = next((n for n in part.nodes if graph.nodes[n].kind != "view"), -1)
    prolog = part.kind == "product" and graph.nodes[first].op != "matmul"
    slow = max(_in_epilog(graph, part), _epilog_us(graph, part, arch)) > LAUNCH_US
    return part.kind in ("products", "product rows") or prolog or slow


def _lies_apart(view: View) -> bool:
    """Say whether neighbours along the last dim do not follow each other in memory."""
    return bool(view.shape) and view.shape[-1] > 1 and view.strides[-1] > 1


def _problem(graph: Graph, part: Part, views: Mapping[int, View], arch: str) -> str:
    """Write a text that identifies the model's decision, which is kept on disk."""
    measured = f"{EPILOG_US} {LAUNCH_US} {ROWS_US} {ROWS_OVER_MODEL} {OVERLAP_US} {STREAM_US} {PAIR_US}"
    return f"{arch} {measured} {form_of(graph, part, views, free_nodes(graph)).key!r}"


def _divided(
    graph: Graph, part: Part, views: Mapping[int, View], arch: str, samples: Samples | None = None
) -> list[Launch]:
    """Divide a part, and give the smaller parts their kernels."""
    return [launch for one in apart(graph, part, views) for launch in _launches(graph, one, views, arch, samples)]


def _faster(graph: Graph, whole: Launch, parted: list[Launch], arch: str) -> list[Launch]:
    """Return one kernel or several, whichever the model finds faster."""
    times, mine = [launch.modelled_us for launch in parted], whole.modelled_us
    total = sum(t for t in times if t is not None)
    if mine is not None and whole.part.kind == "product rows":
        mine += (ROWS_OVER_MODEL - 1) * max(0.0, mine - ROWS_US)
        total -= OVERLAP_US
    products = sum(graph.nodes[n].op == "matmul" for n in whole.part.nodes)
    alone = [
        x.modelled_us for x in parted if any(graph.nodes[n].op == "matmul" for n in x.part.nodes) and x.modelled_us
    ]
    if mine is not None and alone and (epilog := _epilog_us(graph, whole.part, arch)):
        measured = max(mine, products * min(alone) - (products - 1) * LAUNCH_US + epilog)
        whole = attrs.evolve(whole, exposed_us=whole.exposed_us + measured - mine)
        mine = measured
    if mine is None or None in times or mine <= total:
        return [whole]
    said = f"one kernel would take {mine:.1f} us, these {total:.1f} us by the model"
    return [attrs.evolve(x, why=said) for x in parted]


def last_reads(graph: Graph, launches: Sequence[Launch], views: Mapping[int, View]) -> dict[int, int]:
    """Return, for each input and result, the number of the last launch that reads it; `BEFORE` where no launch does.

    Outputs and results that are kept from call to call are left out.
    """
    nodes = graph.nodes
    last = dict.fromkeys(graph.inputs, BEFORE)
    kept = {views[i].node for i in graph.outputs}
    for place, launch in enumerate(launches):
        if launch.once:
            kept |= set(launch.part.outputs)
            continue
        part, kernel = launch.part, launch.kernel
        read = {views[i].node for i in (*part.inputs, *part.outputs, *(i for n in part.nodes for i in nodes[n].inputs))}
        read |= {operand.view.node for operand in kernel.inputs.values()} if kernel is not None else set()
        last |= dict.fromkeys(read, place)
    return {owner: place for owner, place in last.items() if owner not in kept}


def _spent(graph: Graph, launches: Sequence[Launch], views: Mapping[int, View]) -> list[Interval]:
    """Return the lifetimes of inputs and results in `Plan.spend`, which releases each after its last reader."""
    nodes, last = graph.nodes, last_reads(graph, launches, views)
    first = dict.fromkeys(graph.inputs, BEFORE)
    for place, launch in enumerate(launches):
        if not launch.once:
            first |= {i: place for i in launch.own(views)}
    for number in first:  # the call of a library makes all its results at once
        bundle = next((i for i in nodes[number].inputs if BUNDLE in dict(nodes[i].attributes)), number)
        first[number] = min(first[number], first.get(bundle, first[number]))
    return [Interval(_nbytes(graph, views, i), at, last.get(i, len(launches))) for i, at in first.items()]


def peaks(graph: Graph, launches: Sequence[Launch], views: Mapping[int, View]) -> tuple[int, int]:
    """Return the most bytes alive at once in `Plan.spend`: of results, and of results and inputs."""
    alive = _spent(graph, launches, views)
    return most_alive(x for x in alive if x.first != BEFORE), most_alive(alive)


def _between(graph: Graph, launches: Sequence[Launch], views: Mapping[int, View]) -> dict[int, Interval]:
    """Return the lifetimes of results that are not outputs, which share one block of memory."""
    owned = {views[i].node for i in graph.outputs}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, launch in enumerate(launches):
        for i in launch.part.inputs:
            last[views[i].node] = place
        if launch.kernel is not None:
            first |= {i: place for i in launch.own(views)}
    return {i: Interval(_nbytes(graph, views, i), at, last.get(i, at)) for i, at in first.items() if i not in owned}


def _nbytes(graph: Graph, views: Mapping[int, View], number: int) -> int:
    """Return the bytes of a result's memory."""
    return graph.nodes[number].dtype.nbytes_of(held(views[number]))


def _one_by_one(graph: Graph) -> list[Interval]:
    """Return the lifetimes of results if operators ran one by one; a view keeps the memory that it shows."""
    owners = list(range(len(graph.nodes)))
    last = dict[int, int]()
    for number, node in enumerate(graph.nodes):
        if node.kind == "view":
            owners[number] = owners[node.inputs[0]]
        else:
            last |= {owners[i]: number for i in node.inputs}
    kept = {owners[i] for i in graph.outputs}
    made = (n for n, node in enumerate(graph.nodes) if node.kind not in ("source", "view") and n not in kept)
    return [Interval(graph.nodes[n].nbytes, n, last.get(n, n)) for n in made]


__all__ = ["Launch", "Operand", "Plan", "plan"]
