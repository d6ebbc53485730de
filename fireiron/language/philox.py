"""Random bits in expressions, computed by Philox from a counter and a key."""

from __future__ import annotations

from fireiron.algebra.dtypes import i32
from fireiron.algebra.philox import PARAMETERS, SOURCE, word_bits
from fireiron.language.functions import custom
from fireiron.language.pointwise import Operand, Value

_random_bits = custom("philox", SOURCE, word_bits, parameters=PARAMETERS, dtype=i32)


def random_bits(
    counter: tuple[Operand, Operand, Operand, Operand], key: tuple[Operand, Operand], word: Operand = 0
) -> Value:
    """Return 24 random bits, a whole number from 0 to 2^24 - 1 in i32.

    Expressions that differ only in `word` share one computation, where the same thread computes them in succession.

    Args:
        counter: four integers, each an index, an element of an array, or a number.
        key: two integers, the seed.
        word: which of the four words of the counter, 0 to 3.

    Raises:
        SpecError: `bad-operand`.
    """
    return _random_bits(*counter, *key, word)
