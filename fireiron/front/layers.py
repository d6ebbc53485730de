"""Layers: several MatMuls one after another in one kernel; activations stay on chip, and weights are loaded."""
# pyright: reportPrivateUsage=false
# Functions of links are methods of chains, in a file of their own.

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import checked
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.check import layers as layer_rules
from fireiron.front import links
from fireiron.front.chain import Chain, FoldChain, LayerChain, LayersChain, LayerStrategy, Strategy
from fireiron.front.moves import conform, vector
from fireiron.front.roles import Role
from fireiron.front.state import link_of
from fireiron.language import programs
from fireiron.language.decompositions import Decomposition, Each, Load
from fireiron.language.levels import Memory
from fireiron.language.pointwise import Op, accumulator, expression
from fireiron.language.residual import layer_of, result_of, start
from fireiron.language.specs import task_of
from fireiron.language.tensor import Tensor

_PLAIN: tuple[Op, ...] = ()


@link_of
def tile(chain: LayersChain, m: int) -> tuple[tuple[str, int], ...]:
    """Cut the rows into tiles; all columns of a row stay together."""
    return (("M", m),)


def load(
    chain: LayersChain, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None, dtype: object
) -> Load:
    """Load X to on-chip memory, where each layer reads its A and stores its result.

    Raises:
        DecompositionError: `layers-too-wide`, and those of other loads.
    """
    link = links.load(chain, operand, memory, strategy, dtype)
    chain._check(layer_rules.wide, chain.program.spec, chain.residual, memory, chain.program.arch)
    return link


@link_of
def each(chain: LayersChain, layer: LayerStrategy, store: Strategy | None = None, prefetch: bool = False) -> Each:
    """Schedule every layer by a chain of its own.

    Raises:
        FireironError: located at the wrong link; `layers-on-chip`, `layers-prefetch`, `unfinished-layer`.
    """
    chain._check(layer_rules.on_chip, chain.residual)
    chain._check(layer_rules.has_next, chain.links, prefetch)
    made: list[tuple[Decomposition, ...]] = []
    for one in chain.layers.layers:
        name = one.weights.name
        part: LayerChain = chain._nested(layer_of(one.weights, chain.residual), name, FoldChain)
        said = f"the chain of layer {name} leaves {{}}"
        made.append(chain._ended(layer, part, ("layer strategy", "unfinished-layer"), said, "end it by .done()"))
    moved = result_of(chain.residual)
    usual = conform() if moved.operands[0].memory.registers else vector()
    stored = links.stored(chain, moved, store or usual)
    hold = next(x for x in chain.links if isinstance(x, Load))
    return Each(tuple(made), stored, hold, prefetch, link=here())


@checked
def layers(
    out: Tensor, x: Tensor, *stack: tuple[Tensor, Op | Sequence[Op]] | Tensor, acc: object = None,
    arch: str | None = None,
) -> LayersChain:  # fmt: skip
    """Start a schedule of layers that follow each other: out = f(... f(x @ W[0]) @ W[1] ...).

    Args:
        out: the last layer's result.
        x: the first layer's input, with a row for each sample.
        stack: weights K x N, or pairs of weights and an op (or several) from the accumulator's expression to the
            layer's result. A batch of L square weights counts as L layers; tensors that its op reads may have the same
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
    return Chain(program, (), start(program.spec))
