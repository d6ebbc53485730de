"""What can be said of a kernel without running it: sites, traffic, ownership."""
