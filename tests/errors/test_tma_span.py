def test_tma_span(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-span",
        "tma(48)",
        """\
DecompositionError[bulk-span]: tma(48): no bulk copy swizzles rows of 48 bytes
  --> test_tma_span.py:20:22
20 |         .load(A, SH, tma(48))
   |                      ^^^^^^^
fix: use rows of 128, 64 or 32 bytes, or 0 for plain ones""",
    )
