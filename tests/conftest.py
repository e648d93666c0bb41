"""Settings for all tests."""

from __future__ import annotations

import torch

# The tensors here are tiny: more threads only wait for each other.
torch.set_num_threads(1)
