"""Thread-value layouts of mma's operands: ((thread), (register)) -> row + rows * column.

With g = lane / 4 and t = lane % 4, a thread holds rows g (and g + 8) of A and of C, and column g of B. A register of 32
bits holds as many neighbours along K as fit. Along K, the registers of threads t = 0 to 3 follow each other, then each
thread's next register. So one rule gives the fragments of every element type.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout

REGISTER_BITS = 32
GROUP = 4  # threads that share a row


def together(bits: int) -> int:
    """Return how many neighbours along K one register holds.

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
        of_sums: whether a thread's columns of A are the columns that it holds of C, two of every eight. A and B may
            number K in any common order; with this order, the sums of one instruction are A of the next one without
            moving between threads.

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
        of_sums: see `fragment_a`.

    Example:
        >>> print(fragment_b(32, 8, 8))
        ((4,8),(4,2)):((4,32),(1,16))
        >>> print(fragment_b(32, 8, 8, of_sums=True))
        ((4,8),(2,2,2)):((2,32),(1,8,16))
    """
    word = together(bits)
    pair, groups = _neighbours(word, of_sums)
    return _layout((pair, k), [(pair, 1), (groups, 8), (k // (GROUP * word), GROUP * word), (n // 8, 8 * k)])


def of_sums(layout: Layout, m: int) -> Layout | None:
    """Lay out a factor so that each thread holds the same columns of the factor as of a sum; None for other layouts.

    Args:
        layout: the factor's layout: registers of four 8-bit neighbours along K. Other layouts give None.
        m: rows of the factor.

    Example:
        >>> print(of_sums(fragment_a(16, 32, 8), 16))
        ((4,8),(2,2,2,2)):((32,1),(16,128,8,256))
    """
    threads, registers = layout.modes
    lanes, words = (list(mode.leaves) for mode in (threads, registers))
    if lanes[:1] != [(GROUP, 4 * m)] or words[:2] != [(4, m), (2, 8)]:
        return None
    modes = [(GROUP, 2 * m), *lanes[1:]], [(2, m), (2, 8 * m), *words[1:]]
    shape, stride = (tuple(tuple(x[i] for x in part) for part in modes) for i in range(2))
    return Layout(shape, stride)


def _neighbours(word: int, of_sums: bool) -> tuple[int, int]:
    """Return how many elements of a register are neighbours along K, and the number of such runs, 8 columns apart."""
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
