"""Mathematics that knows no schedule: index and scalar expressions, layouts, swizzles, dtypes, architectures."""
