def test_ring_shared_memory_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))",
        """\
CheckError[shared-memory]: a block takes 240.1 KiB of shared memory, sm_90a gives 227 KiB: a_sh 112 KiB (7 slots), b_sh 112 KiB (7 slots), acc_sh 16 KiB
  --> test_ring_shared_memory_check.py:16:10
16 |         .epilog(memory=FR, store=through_shared(stmatrix(), tma(), panel=(64, 64), at=Warpgroup))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > store > own Warpgroup > tile 64x64 > load src to SH
fix: pipeline(6) fits; or use smaller tiles""",  # noqa: E501
    )
