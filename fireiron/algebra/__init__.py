"""Index expressions, layouts, swizzles, dtypes, scalar expressions and architectures: mathematics that knows no schedule."""
