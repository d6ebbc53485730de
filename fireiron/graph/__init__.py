"""Graphs of tensor operations: traced, simplified, divided into programs, and run by a plan of kernels."""
