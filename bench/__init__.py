"""Benchmarks: `python -m bench gemm|overhead|build`, each printing a table and what it was measured on."""
