"""Layer 6: print kernel IR as readable CUDA C++ without includes; no decision is made here."""
