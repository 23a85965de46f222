"""Unit tests in plain Python: `python3 -m unittest` in this folder, with the packages of requirements.txt."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(HERE), str(HERE / "../../plugin-sdk/python")]
