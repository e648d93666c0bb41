"""The attention of a step of many beams: plain torch and the kernels against one softmax over all keys."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from beamsplit.huggingface.reading import Scoring, read_beams
from huggingface.beam_cases import CASES, Case, check, make, random_case

PROGRAM = Path(__file__).with_name("beam_cases.py")


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_reads_what_one_softmax_does(case: Case) -> None:
    check(case)


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("seed", range(40))
def test_torch_reads_steps_of_any_size(seed: int) -> None:
    check(random_case(seed))


@pytest.mark.parametrize("cases", ["cases", "12"])
def test_kernels_read_what_one_softmax_does(cases: str) -> None:
    pytest.importorskip("triton", reason="needs Triton, which has no release for this system")
    interpreter = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", str(PROGRAM), cases],
        env={**os.environ, **interpreter, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_no_row_need_have_a_target() -> None:
    step = make(Case())
    assert step.table.own is not None
    assert step.store.pool is not None
    own = replace(step.table.own, target=torch.full_like(step.table.own.target, -1))
    before = step.store.pool[0].clone()
    read_beams(step.query, step.store, replace(step.table, own=own), step.scoring, step.new)
    torch.testing.assert_close(step.store.pool[0], before, rtol=0, atol=0, equal_nan=True)


def test_a_prompt_read_alone_has_no_window() -> None:
    step = make(Case(cross=True))
    with pytest.raises(ValueError, match="window is 4, but prompts read alone have no window"):
        read_beams(step.query, step.store, step.table, Scoring(1.0, window=4))
