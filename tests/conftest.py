"""Settings for all tests."""

from __future__ import annotations

import os

import torch

# The tensors here are tiny: more threads only wait for each other. So do those of programs that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
