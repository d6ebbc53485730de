def test_staggered_once(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) shares out the trips of a persistent loop, and there is none
  --> test_staggered_once.py:23:10
23 |         .staggered(2)
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH
fix: refine the grid's tile by .persistent()""",
    )
