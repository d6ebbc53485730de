"""Graphs of tensor operations: traced, simplified, parted into programs, and run by a plan of kernels."""
