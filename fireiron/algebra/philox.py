"""Random bits by Philox 4x32-10: a function of a counter and a key, so that no state is kept anywhere.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011); also curand's and torch's generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the key
BITS = 24  # bits of a word that kernels use
PARAMETERS = ("c0", "c1", "c2", "c3", "k0", "k1", "word")

SOURCE = f"""\
    unsigned a = c0, b = c1, c = c2, d = c3, k = k0, l = k1;
    #pragma unroll
    for (int round = 0; round < {ROUNDS}; ++round) {{
        const unsigned long long x = {MULTIPLIERS[0]:#x}ull * a, y = {MULTIPLIERS[1]:#x}ull * c;
        a = (unsigned)(y >> 32) ^ b ^ k;
        c = (unsigned)(x >> 32) ^ d ^ l;
        b = (unsigned)y;
        d = (unsigned)x;
        k += {WEYL[0]:#x}u;
        l += {WEYL[1]:#x}u;
    }}
    const unsigned found = word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
    return (int)(found >> {32 - BITS});"""


def philox(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, ...]:
    """Compute four words of 32 bits by NumPy.

    Args:
        counter: four arrays or numbers; only their low 32 bits count.
        key: two arrays or numbers.

    Example:
        >>> [hex(int(word)) for word in philox((0, 0, 0, 0), (0, 0))]
        ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    import numpy as np

    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)

    def words(x: Any) -> Any:
        return np.asarray(x).astype(np.int64).astype(np.uint64) & low

    a, b, c, d = map(words, counter)
    k, m = map(words, key)
    for _ in range(ROUNDS):
        x, y = a * np.uint64(MULTIPLIERS[0]), c * np.uint64(MULTIPLIERS[1])
        a, b, c, d = (y >> half) ^ b ^ k, y & low, (x >> half) ^ d ^ m, x & low
        k, m = (k + np.uint64(WEYL[0])) & low, (m + np.uint64(WEYL[1])) & low
    return tuple(x.astype(np.uint32) for x in np.broadcast_arrays(a, b, c, d))


def word_bits(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, word: Any) -> Any:
    """Select a word, element by element, and return its highest bits."""
    import numpy as np

    found = philox((c0, c1, c2, c3), (k0, k1))
    chosen = np.asarray(word).astype(np.int64)
    made = np.select([chosen == n for n in range(3)], found[:3], found[3])
    return (made >> np.uint32(32 - BITS)).astype(np.int32)
