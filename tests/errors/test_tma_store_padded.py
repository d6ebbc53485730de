def test_tma_store_padded(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-storage",
        "epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup, pad=8))",
        """\
DecompositionError[bulk-storage]: tma.store.2d.128B writes rows of 128 bytes one after another, and acc_sh does not lie so
  --> test_tma_store_padded.py:16:10
16 |         .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup, pad=8))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x64 > load src to SH > tile 64x64 > tile 64x64 to Thread
fix: let tma() choose the buffer's layout: no pad, swizzle or storage_layout on this load""",  # noqa: E501
    )
