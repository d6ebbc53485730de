"""Compile, cache, launch and time kernels."""
