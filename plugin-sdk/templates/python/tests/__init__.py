"""Unit tests in plain Python: `python3 -m unittest`, or pytest."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "perpend" / "python"))
