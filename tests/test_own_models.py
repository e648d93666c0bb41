"""Models that are not torch: the examples of docs/own-models.md run, and the page shows what is in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import BeamSearch, DiverseBeamSearch, decode
from beamsplit.testing import MarkovModel

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "own-models.md").read_text(encoding="utf-8")


def output_of(example: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / example), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


SHOWN: list[tuple[str, str]] = re.findall(r"<!-- from (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_piece_of_code_on_the_page_is_from_an_example() -> None:
    assert len(SHOWN) == PAGE.count("```python")
    for path, code in SHOWN:
        assert code in (ROOT / path).read_text(encoding="utf-8")
    assert {path for path, _ in SHOWN} == {
        f"examples/{name}_model.py" for name in ("numpy", "onnx", "remote")
    }


def test_the_model_in_numpy_prints_what_the_page_shows() -> None:
    shown = re.search(r"<!-- output of examples/numpy_model.py -->\n```\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert output_of("numpy_model.py") == shown[1]


@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript")),
    reason="needs pip install onnx onnxruntime onnxscript",
)
def test_the_model_in_onnx_finds_what_torch_finds() -> None:
    exported = [line.split() for line in output_of("onnx_model.py").splitlines()]
    native = [line.split() for line in output_of("own_model.py").splitlines()]
    assert [[word.rstrip(".") for word in group] for group in exported] == native
    assert len(native) == 5


# A stand-in for a server

VOCABULARY, END = 60, 2
TABLE = torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(3)) * 2
PROMPT = "17 4 33"  # whose words are token ids


class Server(ThreadingHTTPServer):
    """Answers completions as vLLM does, from a model whose next token depends on the last one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rows: list[int] = []  # of each request for completions

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked.pop("model") == "stand-in"
        answer = {"/v1/completions": self.complete, "/tokenize": tokenize, "/detokenize": detokenize}[
            self.path
        ]
        body = json.dumps(answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def complete(self, asked: dict[str, Any]) -> Any:
        prompts = asked.pop("prompt")
        assert asked == {
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 20,
            "return_tokens_as_token_ids": True,
        }
        self.server.rows.append(len(prompts))
        choices = [{"index": index, "logprobs": _top(prompt)} for index, prompt in enumerate(prompts)]
        return {"object": "text_completion", "choices": choices[::-1]}  # in no order: `index` tells

    def log_message(self, *_: Any) -> None:
        pass


def _top(prompt: list[int]) -> Any:
    best = torch.log_softmax(TABLE[prompt[-1]], -1).topk(20)
    named = [f"token_id:{token}" for token in best.indices.tolist()]
    return {"tokens": named[:1], "top_logprobs": [dict(zip(named, best.values.tolist(), strict=True))]}


def tokenize(asked: dict[str, Any]) -> Any:
    return {"tokens": [int(word) for word in asked["prompt"].split()]}


def detokenize(asked: dict[str, Any]) -> Any:
    return {"prompt": " ".join(map(str, asked["tokens"]))}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


def test_a_remote_model_finds_what_the_same_model_finds_here(server: Server) -> None:
    lines = output_of("remote_model.py", server.url, "stand-in", PROMPT, "--end", str(END)).splitlines()
    expected = []
    for name, strategy in (
        ("beam search", BeamSearch(beams=4)),
        ("diverse", DiverseBeamSearch(groups=4, strength=1.0)),
    ):
        (found,) = decode(MarkovModel(TABLE), [33], strategy, max_length=12, end=END)
        expected.append(f"{name}: 4 of 4 certified")
        expected += [f"{each.log_prob:7.2f} {' '.join(map(str, each.tokens))}" for each in found]
    assert lines == expected
    assert max(server.rows) == 4  # all beams in one request
    assert len(server.rows) <= 2 * 12  # one request a step and search
