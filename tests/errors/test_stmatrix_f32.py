def test_stmatrix_f32(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 32), at=Warpgroup))",
        """\
DecompositionError[no-atom]: no atom of a Warp executes Move(16, 16)(FR, SH)(Warp): stmatrix.x4 moves 16x16 elements of 16 bits; stmatrix.x4.trans moves 16x16 elements of 16 bits
  --> test_stmatrix_f32.py:16:10
16 |         .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 32), at=Warpgroup))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x32 > load src to SH > tile 16x32 to Warp > tile 16x16
fix: tile to the atom's shape, or store by conform(), which moves each thread's own elements""",  # noqa: E501
    )
