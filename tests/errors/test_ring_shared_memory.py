def test_ring_shared_memory(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "shared-memory",
        "load(B, SH, tma())",
        """\
DecompositionError[shared-memory]: the buffers of A 144 KiB and B 144 KiB need 288 KiB of shared memory, and a block of sm_90a has 227 KiB
  --> test_ring_shared_memory.py:21:10
21 |         .load(B, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 64 > load A to SH > load B to SH
fix: use smaller tiles, shorter chunks or fewer stages""",  # noqa: E501
    )
