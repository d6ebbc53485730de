def test_role_threads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "too-many-threads",
        "specialize(producers=7)",
        """\
DecompositionError[too-many-threads]: 896 threads that load and 256 that compute are 1152 threads a block, above 1024
  --> test_role_threads.py:19:10
19 |         .specialize(producers=7)
   |          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: specialize(producers=1): one thread starts all bulk copies""",
    )
