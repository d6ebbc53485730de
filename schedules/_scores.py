"""Scores of attention, shared with its gradients: the product of queries and keys, score functions, and masks.

The parameters of a mask or a score function name their values: `b`, `h`, `i` and `j` are the indices of batch, query's
head, query and key, and `s` is the score. Other names are arrays, which the functions read by subscripts:
`lambda s, h, i, j, slope: s - slope[h] * (i - j)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import e as EULER
from math import log2, sqrt
from typing import TypeAlias

import attrs

from fireiron import FireironError, ProgramChain, Value, derivative, einsum, extent, index, random_bits, where

Function: TypeAlias = Callable[..., Value]
SINKS, SEED = "sinks", "seed"  # arrays that programs read themselves
Q_SCALE, K_SCALE, V_SCALE = "q_scale", "k_scale", "v_scale"  # likewise: what 8-bit queries, keys and values are worth
BITS = 24  # of a random number
LOG2E = log2(EULER)  # scores are in units of log2, so that their exponentials are powers of 2


@attrs.frozen
class Scores:
    """Say how scores are computed, and which of them count.

    Args:
        scale: what the products of queries and keys are multiplied by; 1 / sqrt(d) where None.
        causal: whether the last query sees the last key, and each one before it a key less.
        mask: a condition on points, by a function.
        score: makes another score of one.
        grouped: whether several heads of queries, along a dim g, share one head of keys and values.
        arrays: what the functions read; `seed` and `sinks` beside.
        dropout: the part of the weights that is dropped.
    """

    scale: float | None
    causal: bool
    mask: Function | None
    score: Function | None
    grouped: bool = False
    arrays: Mapping[str, Value] = {}
    dropout: float = 0.0

    @property
    def rows(self) -> str:
        """Name the dims of a query."""
        return "bhgi" if self.grouped else "bhi"

    @property
    def factor(self) -> float:
        """Give the scale.

        Raises:
            FireironError: `attention-scale`.
        """
        if self.scale is not None:
            return self.scale
        depth = extent("d")
        if not isinstance(depth, int):
            raise FireironError("attention-scale", f"heads of {depth} elements have no known scale", fix="give scale=")
        return 1 / sqrt(depth)

    def products(self, q: Value, k: Value, turned: bool = False) -> Value:
        """Multiply queries and keys: step s, a row for each query, or for each key where turned."""
        rows = self.rows
        if turned:
            return einsum(f"bhjd,{rows}d->{rows[:-1]}ji", k, q, name="s")
        return einsum(f"{rows}d,bhjd->{rows}j", q, k, name="s")

    def logarithms(self, products: Value) -> Value:
        """Give the scores in units of log2."""
        if self.score is None:
            return self.scaled(products * (self.factor * LOG2E))
        return self.called(self.score, self.scaled(products * self.factor)) * LOG2E

    def scaled(self, products: Value) -> Value:
        """Multiply by what a head's 8-bit queries and keys are worth, where arrays say it."""
        for name, head in ((Q_SCALE, self.head), (K_SCALE, index("h"))):
            products = products * self.arrays[name][head] if name in self.arrays else products
        return products

    def slopes(self, products: Value) -> Value | float:
        """Give the derivative of scores with respect to the scaled products of queries and keys."""
        score = self.score
        return 1.0 if score is None else derivative(lambda s: self.called(score, s), products * self.factor)

    def seen(self) -> Value | None:
        """Give the condition under which a score counts; None where all do."""
        seen = index("j") <= index("i") + (extent("j") - extent("i")) if self.causal else None
        if self.mask is None:
            return seen
        masked = self.called(self.mask, None)
        return masked if seen is None else seen & masked

    @property
    def head(self) -> Value:
        """Give the index of a query's head."""
        return index("h") * extent("g") + index("g") if self.grouped else index("h")

    @property
    def indices(self) -> dict[str, Value]:
        """Give the indices that functions may name: of batch, query's head, query and key."""
        return {"b": index("b"), "h": self.head, "i": index("i"), "j": index("j")}

    def sink(self) -> Value | None:
        """Give the score of a query's head that no value belongs to, in units of log2; None without sinks."""
        return self.arrays[SINKS][self.head] * LOG2E if SINKS in self.arrays else None

    def dropped(self, weight: Value, name: str) -> Value:
        """Replace weights by zeros at random, and scale the others by what is left of 1.

        Of Philox's counter, c0 says which keys, c1 the query, c2 batch and head, and c3 is the offset. Four keys share
        a counter: two neighbours, and those 8 further, which threads hold together in an accumulator.

        Args:
            weight: of each point.
            name: of the step.

        Raises:
            FireironError: `attention-dropout` for a part that is not below 1, or without a seed.
        """
        if not self.dropout:
            return weight
        if not 0 < self.dropout < 1 or SEED not in self.arrays:
            what = f"dropout={self.dropout}" if SEED in self.arrays else "dropout without a seed"
            raise FireironError("attention-dropout", what, fix="give a part from 0 up to 1, and seed=, three of i32")
        seed, j = self.arrays[SEED], index("j")
        heads = extent("h") * extent("g") if self.grouped else extent("h")
        counter = j // 16 * 4 + j % 8 // 2, index("i"), index("b") * heads + self.head, seed[2]
        drawn = random_bits(counter, (seed[0], seed[1]), j // 8 % 2 * 2 + j % 2)
        left = 1.0 - self.dropout
        return where(drawn >= round(self.dropout * 2**BITS), weight * (1.0 / left), 0.0).named(name)

    def called(self, function: Function, s: Value | None) -> Value:
        """Call a mask or a score function with what its parameters name.

        Raises:
            FireironError: `attention-function` where it names what is not there.
        """
        known = {**self.indices, **self.arrays}
        known |= {} if s is None else {"s": s}
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return function(**known)
        names = [p.name for p in parameters if p.default is p.empty]
        missing = [name for name in names if name not in known]
        if missing:
            what = "mask" if s is None else "score"
            raise FireironError(
                "attention-function",
                f"{what}= names {missing[0]}, and it may read {', '.join(known)}",
                fix=f"give {missing[0]}=array beside it, or another name",
            )
        return function(**{name: known[name] for name in names})


def grouped(q: Value) -> bool:
    """Say whether queries have a dim of heads that share keys and values."""
    return len(q.tensors[0].shape) == 5


def draws(spec: ProgramChain) -> bool:
    """Say whether weights are dropped at random."""
    return any(tensor.name == SEED for tensor in spec.computed.inputs)


def columns(spec: ProgramChain) -> tuple[int, int]:
    """Give the columns of keys and of values.

    Raises:
        FireironError: `attention-program` for another program, or symbolic columns.
    """
    extents = spec.residual.extents
    depth, width = extents.get("d"), extents.get("e")
    if not extents.keys() >= {"i", "j"} or not isinstance(depth, int) or not isinstance(width, int):
        raise FireironError(
            "attention-program",
            f"{spec.computed.name} is no attention over i, j, d and e with numbers for d and e",
            fix="give attention(q, k, v) of arrays of four dimensions",
        )
    return depth, width
