"""Chains of layers: MatMuls in a row in one kernel, whose activations stay on chip while their weights stream by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import asked, checked
from fireiron.base.errors import DecompositionError, FireironError, SpecError
from fireiron.base.link import here
from fireiron.check import layers as layer_rules
from fireiron.check import links as rules
from fireiron.front.chain import Chain, LoadRefinements, SplitRefinements, Strategy, TileRefinements
from fireiron.front.moves import MoveChain, conform, vector
from fireiron.front.roles import Role
from fireiron.front.verbs import Verbs
from fireiron.language import programs
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Decomposition, Each, Epilog, Load, Microkernel, Split, Strided
from fireiron.language.levels import FR, Memory
from fireiron.language.pointwise import Op, Value, accumulator, expression
from fireiron.language.residual import layer_of, move_of, result_of, start
from fireiron.language.specs import BATCH, task_of
from fireiron.language.tensor import Tensor

LayerStrategy: TypeAlias = "Callable[[LayerChain], LayerChain]"


_PLAIN: tuple[Op, ...] = ()


class LayerChain(Chain):
    """Decompose one layer inside a block: a MatMul whose A lies on chip, and whose result goes there."""

    def tile(self, *sizes: int | Strided) -> TiledLayer:
        """Cut the layer's result into tiles, and with it the rows of A and the columns of B.

        Shapes:
            (m, N, K) -> (m', n, K)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `tile-gaps`, `chain-closed`.
        """
        return self._as(TiledLayer, self._tile_link(self._sizes(sizes, None, ("M", "N"))))

    def split(self, k: int) -> SplitLayer:
        """Cut K into chunks that one loop visits; a pipeline of their loads runs on from layer to layer.

        Shapes:
            (m, N, K) -> (m, N, k)

        Raises:
            DecompositionError: `split-extent`, `chain-closed`.
        """
        self._check(rules.still_open, self.residual, "split")
        self._check(rules.split_size, self.residual, k, self.links)
        return self._as(SplitLayer, Split(k, link=here()))

    def load(
        self, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None = None, dtype: object = None
    ) -> LoadedLayer:
        """Move an operand to another memory by a chain of its own: the weights `B`, or the activations `A`.

        Raises:
            DecompositionError: `unknown-operand`, `already-there`, `load-memory`, `load-output`, `unfinished-move`.
        """
        return self._as(LoadedLayer, self._load_link(operand, memory, strategy, dtype))

    def epilog(self, *, store: Strategy | None = None) -> LayerChain:
        """Accumulate in registers; at the end compute the layer's function, and put the result where A lies.

        Args:
            store: how it goes there, conform() by default.

        Raises:
            DecompositionError: `second-epilog`.
        """
        self._check(rules.still_open, self.residual, "epilog")
        self._check(layer_rules.one_epilog, self.residual, self.links)
        value = self.function
        kind = value.dtype
        c = self.residual.operand("C")
        assert c is not None
        moved = move_of(self.residual, "C", c.memory, c.dtype)
        src, dst = moved.operands
        moved = attrs.evolve(moved, operands=(attrs.evolve(src, memory=FR, dtype=kind), dst))
        move = MoveChain(self.program, (), moved, (), f"{self.where} > store")
        links = self._finished(store or conform(), move).links
        return self._as(LayerChain, Epilog(value, FR, kind, 0.0, links, link=here()))

    def done(self, atom: Atom | Microkernel | str | None = None) -> LayerChain:
        """Close the layer's chain: the first atom of the table that executes its residual, or a chosen one.

        Raises:
            DecompositionError: `no-epilog` where nothing holds the sums.
        """
        self._check(layer_rules.has_epilog, self.residual, self.links)
        return self._as(LayerChain, self._done_link(atom))

    @property
    def function(self) -> Value:
        """Give the layer's function of its accumulator."""
        b = self.origin.operand("B")
        assert b is not None
        spec = self.program.spec
        assert isinstance(spec, programs.Layers)
        return next(layer.value for layer in spec.layers if layer.weights == b.tensor)

    @property
    def weights(self) -> Tensor:
        """Give the layer's weights: K x N, or a batch of them."""
        b = self.origin.operand("B")
        assert b is not None
        return b.tensor

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Give rows of a block, width of the result, and width of A."""
        found = tuple(size for dim, size in self.origin.sizes if dim != BATCH)
        return cast("tuple[int, int, int]", found)


class TiledLayer(TileRefinements, LayerChain):
    """A layer whose last link is a tile."""


class SplitLayer(SplitRefinements, LayerChain):
    """A layer whose last link is a split."""


class LoadedLayer(LoadRefinements, LayerChain):
    """A layer whose last link is a load."""


class LayersChain(Verbs, Chain):
    """Decompose layers: tiles cut rows, which stay in their block from the first layer to the last."""

    def tile(self, m: int) -> TiledLayers:
        """Cut the rows into tiles; all columns of a row stay together.

        Shapes:
            (M, K) -> (m, K)

        Raises:
            DecompositionError: `tile-extent`, `chain-closed`.
        """
        return self._as(TiledLayers, self._tile_link((("M", m),)))

    def load(self, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None = None) -> LoadedLayers:
        """Bring X on chip, where every layer then finds its A and leaves its result.

        Args:
            operand: `A`, the tensor X, or its name.
            memory: SH, or FR: then a layer's accumulators must lie as the next one's A does.
            strategy: how, vector() or conform() by default.

        Raises:
            DecompositionError: `layers-too-wide`, `unknown-operand`, `already-there`, `load-memory`, `load-output`,
                `load-level`, `unfinished-move`.
        """
        link = self._load_link(operand, memory, strategy, None)
        spec = self.program.spec
        self._check(layer_rules.wide, spec, self.residual, memory, self.program.arch)
        return self._as(LoadedLayers, link)

    def each(self, layer: LayerStrategy, store: Strategy | None = None, prefetch: bool = False) -> LayersChain:
        """Schedule every layer by a chain of its own, and close the schedule.

        Args:
            layer: a function from a layer to its finished chain; a stack of equal layers asks once.
            store: how the last result goes to Y, vector() or conform() by default.
            prefetch: whether persistent blocks ask the L2 cache for their next rows of X before they store these: those
                are loaded once the registers or buffers of X are free, and would come from DRAM.

        Raises:
            FireironError: located at the link that is wrong; `layers-on-chip` where X was not loaded;
                `layers-prefetch` where blocks take one tile each; `unfinished-layer`.
        """
        self._check(rules.still_open, self.residual, "each")
        self._check(layer_rules.on_chip, self.residual)
        self._check(layer_rules.has_next, self.links, prefetch)
        spec = self.program.spec
        assert isinstance(spec, programs.Layers)
        chains: list[tuple[Decomposition, ...]] = []
        for one in spec.layers:
            path = f"{self.where} > {one.weights.name}"
            made = LayerChain(self.program, (), layer_of(one.weights, self.residual), (), path)
            # The strategy is a user's function: nothing but this check holds it to its type.
            result = cast(object, asked(layer, made, said="layer strategy"))
            if not isinstance(result, LayerChain) or not result.residual.closed:
                raise DecompositionError(
                    "unfinished-layer",
                    f"the chain of layer {one.weights.name} leaves "
                    f"{result.residual if isinstance(result, Chain) else repr(result)}",
                    fix="end it by .done()",
                    link=here(),
                    path=self.where,
                )
            chains.append(result.links)
        moved = result_of(self.residual)
        move = MoveChain(self.program, (), moved, (), f"{self.where} > store")
        usual = conform() if moved.operands[0].memory.registers else vector()
        stored = self._finished(store or usual, move)
        hold = next(x for x in self.links if isinstance(x, Load))
        closed = self._as(LayersChain, Each(tuple(chains), stored.links, hold, prefetch, link=here()))
        closed.lowered()
        return closed

    @property
    def layers(self) -> programs.Layers:
        """Give the spec that the chain decomposes."""
        spec = self.program.spec
        assert isinstance(spec, programs.Layers)
        return spec


class TiledLayers(TileRefinements, LayersChain):
    """Layers whose last link is a tile."""


class LoadedLayers(LoadRefinements, LayersChain):
    """Layers whose last link is a load."""


@checked
def layers(
    out: Tensor, x: Tensor, *stack: tuple[Tensor, Op | Sequence[Op]] | Tensor, acc: object = None,
    arch: str | None = None,
) -> LayersChain:  # fmt: skip
    """Start a schedule of layers that follow each other: out = f(... f(x @ W[0]) @ W[1] ...).

    Args:
        out: the last layer's result.
        x: the first one's input, a row each sample.
        stack: weights K x N, each with an op (or several) from the accumulator's expression to the layer's result, or
            alone. A batch of square weights is a stack of as many layers; tensors that its op reads may have the same
            batch (`Matrix(1, N, batch=L)` for biases).
        acc: the accumulators' element type; f32 for floats of 16 and fewer bits by default.
        arch: the architecture whose rules links must obey at once.

    Raises:
        SpecError: `shape-mismatch`, `same-name`, `symbolic-width`, `layer-rows`, `bad-op`, `unknown-dtype`.

    Example:
        >>> from fireiron import Matrix, relu
        >>> x, y = Matrix(256, 64, "f16", name="X"), Matrix(256, 64, "f16", name="Y")
        >>> w, b = Matrix(64, 64, "f16", name="W", batch=20), Matrix(1, 64, name="b", batch=20)
        >>> print(layers(y, x, (w, lambda acc: relu(acc + b))))
        Layers(256, 64)(GL, GL)(Kernel)
          for l0 of 20, h = X at first:
            acc[m, d1] = add over d0 of h[m, d0] * W[l0, d0, d1]
            h[m, d1]   = f16(max(acc[m, d1] + b[l0, 0, d1], 0))
          Y[m, d1]   = h[m, d1]
    """
    try:
        kind = None if acc is None else find_dtype(acc)
        spec = programs.Layers(x, (), out, kind)
        made: list[programs.Layer] = []
        for one in stack:
            weights, ops = (one, _PLAIN) if isinstance(one, Tensor) else one
            several = tuple(cast("Sequence[Op]", ops)) if isinstance(ops, Sequence) else (ops,)
            made.append(programs.Layer(weights, expression(several, accumulator(spec.accumulator))))
        if not made:
            raise SpecError("no-layers", "no layer leads from x to out", fix="give weights: layers(y, x, w)")
        program = task_of(attrs.evolve(spec, layers=tuple(made)), arch)
    except FireironError as error:
        raise error.located(here()) from None
    return LayersChain(program, (), start(program.spec))
