"""Let tests of this layer, and those on the GPU, import the kernels around rows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
