"""Tests of the Python package. What is not installed is skipped, and said."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if "KVREPLAY_LIBRARY" in os.environ:  # a build that is not installed
    sys.path.insert(0, str(ROOT / "capture" / "python"))
