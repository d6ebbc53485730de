def test_stmatrix_trans(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=through_shared(stmatrix(trans=True), tma(), panel=(64, 64), at=Warpgroup))",
        """\
DecompositionError[no-atom]: no atom of a Warp executes Move(16, 16)(FR, SH)(Warp): stmatrix.x4.trans: its rows run along M, along which acc_sh is not contiguous
  --> test_stmatrix_trans.py:16:10
16 |         .epilog(memory=FR, store=through_shared(stmatrix(trans=True), tma(), panel=(64, 64), at=Warpgroup))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x64 > load src to SH > tile 16x64 to Warp > tile 16x16
fix: tile to the atom's shape, or store by conform(), which moves each thread's own elements""",  # noqa: E501
    )
