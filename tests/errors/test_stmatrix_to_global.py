def test_stmatrix_to_global(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=stmatrix())",
        """\
DecompositionError[no-atom]: no atom of a Warp executes Move(16, 16)(FR, GL)(Warp): stmatrix.x4 stores to SH, not to GL; stmatrix.x4.trans stores to SH, not to GL
  --> test_stmatrix_to_global.py:16:10
16 |         .epilog(memory=FR, store=stmatrix())
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > tile 16x128 to Warp > tile 16x16
fix: tile to the atom's shape, or store by conform(), which moves each thread's own elements""",  # noqa: E501
    )
