"""The GPU kernels, in Triton's interpreter where there is no GPU. It must be switched on before Triton is
imported, and would slow down everything else, so each check has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton, which has no release for this system")

CASES = Path(__file__).with_name("kernel_cases.py")


CHECKS = [
    "choose",
    "terms",
    "groups_that_end_one_by_one",
    "staggered",
    "groups_that_are_added",
    "ties",
    "ahead",
    "wide_ahead",
    "sorting",
    "shortlist",
    "long_lists",
    "masked_rows",
    "width_does_not_matter",
    "errors",
]


@pytest.mark.parametrize("check", CHECKS)
def test_kernels_do_what_their_twins_do(check: str) -> None:
    interpreter = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", str(CASES), check],
        env={**os.environ, **interpreter, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
