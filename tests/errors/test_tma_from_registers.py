def test_tma_from_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        "epilog(memory=FR, store=tma())",
        """\
DecompositionError[no-atom]: tma.store.2d.128B does not execute Move(128, 32)(FR, GL)(Thread): it moves between a tensor in GL and a buffer in SH
  --> test_tma_from_registers.py:16:10
16 |         .epilog(memory=FR, store=tma())
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > tile 128x32 > tile 128x32 to Thread
fix: load by tma(), store by through_shared(..., tma())""",  # noqa: E501
    )
