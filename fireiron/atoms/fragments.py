"""Thread-value layouts of mma's operands: ((thread), (register)) -> row + rows * column.

With g = lane / 4 and t = lane % 4, a thread holds rows g (and g + 8) of A and of C, and column g of B. Along K its
registers of 32 bits follow its neighbours': each holds as many elements as fit, and the next one lies four registers
on. So one rule gives the fragments of every element type.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout

REGISTER_BITS = 32
GROUP = 4  # threads that share a row


def together(bits: int) -> int:
    """Count the neighbours along K that one register holds.

    Example:
        >>> together(16), together(32), together(1)
        (2, 1, 32)
    """
    return max(1, REGISTER_BITS // bits)


def fragment_a(m: int, k: int, bits: int, of_sums: bool = False) -> Layout:
    """Lay out A: a register's elements, rows g and g + 8, then the next registers along K.

    Args:
        m, k: rows and columns.
        bits: of an element.
        of_sums: whether a register's elements are those that its thread holds of C, two of every eight columns. A sum
            of products has no order of its own, so A and B may count K by any permutation; by this one, what an
            instruction has summed is A of the next one where it is.

    Example:
        >>> print(fragment_a(16, 16, 16))
        ((4,8),(2,2,2)):((32,1),(16,8,128))
        >>> print(fragment_a(16, 32, 8, of_sums=True))
        ((4,8),(2,2,2,2)):((32,1),(16,128,8,256))
    """
    word = together(bits)
    pair, groups = _neighbours(word, of_sums)
    elements = [(pair, m), (groups, 8 * m)]
    return _layout((pair * m, 1), [*elements, (m // 8, 8), (k // (GROUP * word), GROUP * word * m)])


def fragment_b(k: int, n: int, bits: int, of_sums: bool = False) -> Layout:
    """Lay out B: a register's elements, the next registers along K, then columns g + 8.

    Args:
        k, n: rows and columns.
        bits: of an element.
        of_sums: as `fragment_a` takes it.

    Example:
        >>> print(fragment_b(32, 8, 8))
        ((4,8),(4,2)):((4,32),(1,16))
        >>> print(fragment_b(32, 8, 8, of_sums=True))
        ((4,8),(2,2,2)):((2,32),(1,8,16))
    """
    word = together(bits)
    pair, groups = _neighbours(word, of_sums)
    return _layout((pair, k), [(pair, 1), (groups, 8), (k // (GROUP * word), GROUP * word), (n // 8, 8 * k)])


def _neighbours(word: int, of_sums: bool) -> tuple[int, int]:
    """Give how many elements of a register lie beside each other along K, and how often such a run comes, 8 on."""
    return (2, word // 2) if of_sums else (word, 1)


def fragment_c(m: int) -> Layout:
    """Lay out C and D of eight columns: two neighbours along a row, then row g + 8.

    Example:
        >>> print(fragment_c(16))
        ((4,8),(2,2)):((32,1),(16,8))
    """
    return _layout((2 * m, 1), [(2, m), (m // 8, 8)])


def _layout(threads: tuple[int, int], registers: list[tuple[int, int]]) -> Layout:
    modes = [(extent, stride) for extent, stride in registers if extent != 1] or [(1, 0)]
    if len(modes) == 1:
        ((extent, stride),) = modes
        return Layout(((GROUP, 8), extent), (threads, stride))
    return Layout(((GROUP, 8), tuple(e for e, _ in modes)), (threads, tuple(s for _, s in modes)))
