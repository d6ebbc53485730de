"""Small kernels written in IR by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fireiron.algebra.dtypes import DType, f32
from fireiron.algebra.expr import Expr, Index, Var, as_expr, floordiv_by, lt  # noqa: F401
