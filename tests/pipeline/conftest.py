"""What several tests of this folder share."""

from __future__ import annotations

import os

import pytest

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
