"""Layer 8: verify kernels: references with error bounds, input data, and the comparison with a kernel's results."""
