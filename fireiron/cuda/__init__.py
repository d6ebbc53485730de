"""Layer 6: kernel IR printed as header-free CUDA C++ that a person can read; decides nothing."""
