def test_staggered_part(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) lets units of Warpgroup take whole tiles of MatMul 128x128x64 in turn, and this tile is MatMul 64x128x64
  --> test_staggered_part.py:24:10
24 |         .staggered(2)
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64 > load A to SH > load B to SH > tile 64x128 to Warpgroup
fix: tile(m, n).to(Warpgroup).staggered(2) with the block's own m and n""",  # noqa: E501
    )
