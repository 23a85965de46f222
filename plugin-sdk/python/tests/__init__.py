"""Unit tests of the SDK: `python3 -m unittest` in the folder above."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
