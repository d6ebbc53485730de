"""Index expressions, layouts, swizzles, dtypes, scalar expressions, architectures: mathematics that knows no schedule."""
