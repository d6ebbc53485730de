"""Mathematics without schedules: index and scalar expressions, layouts, swizzles, dtypes, architectures."""
