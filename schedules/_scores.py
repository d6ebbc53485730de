"""Scores of attention and its gradients: products of queries and keys, score functions, masks and dropout.

The parameters of a mask or a score function name their values: `b`, `h`, `i` and `j` are the indices of batch, query's
head, query and key, and `s` is the score. Other names are arrays, which the functions read by subscripts:
`lambda s, h, i, j, slope: s - slope[h] * (i - j)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import e as EULER
from math import log2, nan, prod, sqrt
from typing import TypeAlias

import attrs

from fireiron import (
    FireironError,
    ProgramChain,
    Value,
    as_exponent,
    derivative,
    einsum,
    exp2,
    extent,
    index,
    maximum,
    minimum,
    random_bits,
    rounded,
    where,
)

Function: TypeAlias = Callable[..., Value]
SINKS, SEED = "sinks", "seed"  # arrays that programs read themselves
Q_SCALE, K_SCALE, V_SCALE = "q_scale", "k_scale", "v_scale"  # likewise: scales of 8-bit queries, keys and values
BITS = 24  # bits of a random number
LEAST, MOST = 1e-30, 1e30  # of a head's factor of scores that is above 0
LOG2E = log2(EULER)  # scores are in units of log2, so that their exponentials are powers of 2
LOWEST = -3.0e38  # no sum of exponentials of finite scores has a logarithm below


@attrs.frozen
class Scores:
    """Hold how scores are computed, and which of them count.

    Args:
        scale: factor of the products of queries and keys; 1 / sqrt(d) where None.
        causal: whether the last query sees all keys, and each query before sees one key less.
        mask: function that returns the condition under which a query sees a key.
        score: function from a score to another score.
        grouped: whether several heads of queries, along a dim g, share one head of keys and values.
        arrays: by name, arrays that the functions read, and `seed`, `sinks` and factors of 8-bit arrays.
        dropout: fraction of the weights that are set to 0.
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
        """Return the scale.

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
        """Multiply queries and keys: step s, with a row for each query, or for each key if `turned`."""
        rows = self.rows
        if turned:
            return einsum(f"bhjd,{rows}d->{rows[:-1]}ji", k, q, name="s")
        return einsum(f"{rows}d,bhjd->{rows}j", q, k, name="s")

    def logarithms(self, products: Value) -> Value:
        """Return the scores multiplied by log2(e), for exponentials of base 2."""
        if self.score is None:
            return products * self.worth(self.factor * LOG2E)
        # Rounded, since a fused multiply-add of a score of -1e9 and its rounded maximum gave 2^64 for 1.
        made = rounded(as_exponent(self.called(self.score, products * self.worth(self.factor)) * LOG2E))
        return made if made.number is None else where(index("j") < 0, products, made)  # folds need the products' dims

    def worth(self, factor: float) -> Value | float:
        """Multiply a factor by the scales of a head's 8-bit queries and keys, if the program has such arrays.

        The product becomes a step, computed once for each head; not if a row's threads have different heads
        (`grouped`). It is NaN below 0, and else a finite number above 0, so that it can leave a maximum of scores.
        """
        of = [self.arrays[n][head] for n, head in ((Q_SCALE, self.head), (K_SCALE, index("h"))) if n in self.arrays]
        if not of:
            return factor
        worth = prod(of, start=factor)
        worth = where(worth >= 0.0, minimum(maximum(worth, LEAST), MOST), nan)
        return worth if self.grouped else worth.named("worth")

    def weights(self, products: Value, lse: Value) -> Value:
        """Compute weights again, as gradients do, from the logarithms of the rows' sums.

        A query whose scores are all -inf, by a function of scores, has the weights 0.

        Args:
            products: products of queries and keys.
            lse: the natural logarithm of each query's sum of exponentials, as attention stores it.
        """
        finite = lse if self.score is None else where(lse < LOWEST, 0.0, lse)
        powers = self.logarithms(products) - finite * LOG2E
        return exp2(powers if self.score is None else minimum(powers, 0.0))  # sums of -1e9 and below are rounded too

    def slopes(self, products: Value) -> Value | float:
        """Return the derivative of scores with respect to the scaled products of queries and keys."""
        score = self.score
        if score is None:
            return 1.0
        return as_exponent(derivative(lambda s: self.called(score, s), products * self.factor))

    def seen(self) -> Value | None:
        """Return the condition under which a score counts; None where all scores count.

        A condition that never holds is still an index's, not a number: each step keeps its dims.
        """
        seen = index("j") <= index("i") + (extent("j") - extent("i")) if self.causal else None
        if self.mask is None:
            return seen
        masked = self.called(self.mask, None)
        seen = masked if seen is None else seen & masked
        return index("j") < 0 if seen.number == 0 else seen

    def counted(self, values: Value) -> Value:
        """Replace the values of points whose score does not count by zeros."""
        seen = self.seen()
        return values if seen is None else where(seen, values, 0.0)

    @property
    def head(self) -> Value:
        """Return the index of a query's head."""
        return index("h") * extent("g") + index("g") if self.grouped else index("h")

    @property
    def indices(self) -> dict[str, Value]:
        """Return the indices that functions may name: of batch, query's head, query and key."""
        return {"b": index("b"), "h": self.head, "i": index("i"), "j": index("j")}

    def sink(self) -> Value | None:
        """Return the sink of a query's head (a score without a key), times log2(e); None without sinks."""
        return self.arrays[SINKS][self.head] * LOG2E if SINKS in self.arrays else None

    def dropped(self, weight: Value, name: str) -> Value:
        """Set weights to 0 at random, and divide the others by 1 - dropout.

        In Philox's counter, c0 stands for the keys, c1 for the query, c2 for batch and head, and c3 is the offset. Four
        keys share a counter, which a thread holds together in an accumulator: j, j + 1, j + 8 and j + 9.

        Args:
            weight: weight of each point.
            name: name of the step.

        Raises:
            FireironError: `attention-dropout` for a fraction that is not below 1, or without a seed.
        """
        if not self.dropout:
            return weight
        if not 0 < self.dropout < 1 or SEED not in self.arrays:
            what = f"dropout={self.dropout}" if SEED in self.arrays else "dropout without a seed"
            raise FireironError(
                "attention-dropout", what, fix="give a number of at least 0 and below 1, and seed= of three i32"
            )
        seed, j = self.arrays[SEED], index("j")
        heads = extent("h") * extent("g") if self.grouped else extent("h")
        counter = j // 16 * 4 + j % 8 // 2, index("i"), index("b") * heads + self.head, seed[2]
        drawn = random_bits(counter, (seed[0], seed[1]), j // 8 % 2 * 2 + j % 2)
        left = 1.0 - self.dropout
        return where(drawn >= round(self.dropout * 2**BITS), weight * (1.0 / left), 0.0).named(name)

    def called(self, function: Function, s: Value | None) -> Value:
        """Call a mask or a score function with the values that its parameters name.

        Raises:
            FireironError: `attention-function` for a parameter with an unknown name.
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
                f"{what}= has the parameter {missing[0]}, and may read {', '.join(known)}",
                fix=f"pass {missing[0]}=array too, or rename the parameter",
            )
        return function(**{name: known[name] for name in names})


def grouped(q: Value) -> bool:
    """Say whether queries have a dim of heads that share keys and values."""
    return len(q.tensors[0].shape) == 5


def draws(spec: ProgramChain) -> bool:
    """Say whether weights are dropped at random."""
    return any(tensor.name == SEED for tensor in spec.computed.inputs)


def joins(spec: ProgramChain) -> bool:
    """Say whether a mask joins comparisons of indices, as a window does; two chunks' weights then exceed registers."""
    return any(step.comparisons > 1 for step in spec.computed.steps)


def needs_registers(spec: ProgramChain) -> bool:
    """Say whether a mask reads arrays along queries or keys, or a score function reads floats or takes exponentials."""
    return has_many_values(spec) or any(floats for floats, _ in _read(spec))


def has_many_values(spec: ProgramChain) -> bool:
    """Say whether functions read arrays along queries or keys, or take exponentials: a value of each point."""
    return any(step.fold is not None and step.functions for step in spec.computed.steps) or reads_points(spec)


def reads_points(spec: ProgramChain) -> bool:
    """Say whether functions read arrays along queries or keys."""
    return any(dims & {"i", "j"} for _, dims in _read(spec))


def _read(spec: ProgramChain) -> list[tuple[bool, set[str]]]:
    """List for each array that functions read whether it has floats, and the dims that its subscripts name."""
    own = {"q", "k", "v", "dy", "lse", "delta", SINKS, SEED, Q_SCALE, K_SCALE, V_SCALE}
    given = {t.name for t in spec.computed.inputs if t.name not in own}
    refs = (ref for step in spec.computed.steps for ref in step.reads if ref.name in given)
    return [(ref.dtype.kind == "float", {d.name for d in ref.dims}) for ref in refs]


def columns(spec: ProgramChain) -> tuple[int, int]:
    """Return the numbers of columns of keys and of values.

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
