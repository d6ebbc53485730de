"""Random bits in expressions: a function of a counter and a key."""

from __future__ import annotations

from fireiron.algebra.dtypes import i32
from fireiron.algebra.philox import PARAMETERS, SOURCE, word_bits
from fireiron.language.functions import custom
from fireiron.language.pointwise import Operand, Value

_random_bits = custom("philox", SOURCE, word_bits, parameters=PARAMETERS, dtype=i32)


def random_bits(
    counter: tuple[Operand, Operand, Operand, Operand], key: tuple[Operand, Operand], word: Operand = 0
) -> Value:
    """Give 24 random bits, a whole number from 0 to 2^24 - 1 in i32.

    Expressions that differ in `word` alone share the work, where a thread computes them one after another.

    Args:
        counter: four whole numbers: indices, elements of arrays, numbers.
        key: two: the seed.
        word: which of the four words of the counter, 0 to 3.

    Raises:
        SpecError: `bad-operand`.
    """
    return _random_bits(*counter, *key, word)
