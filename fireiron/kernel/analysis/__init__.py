"""Analysis of a kernel without running it: sites, traffic, ownership."""
