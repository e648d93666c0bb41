"""Readers of files, against files that are spoilt: each is read, or refused in one line that says why."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beamsplit import Hypotheses, Results
from beamsplit.evaluation.datasets import read_described_lines, read_pair_lines
from beamsplit.evaluation.experiment import experiment_of, read_toml
from beamsplit.evaluation.features import read_features
from beamsplit.evaluation.saved import read_lists
from beamsplit.evaluation.tasks import read_task
from beamsplit.files import json_object, read_json_objects, read_text, stream_lines
from beamsplit.jobs.lines import parse_lines
from beamsplit.loading import load_model
from beamsplit.models import storage
from beamsplit.recording import Recording
from fuzz.making import ODD_TEXTS, fuzzed, read_or_refused, spoilt, spoilt_bytes, texts, values


def lines_of(entries: list[Any]) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in entries).encode("utf-8", "surrogatepass")


INPUTS = [
    {"id": "a", "input": "Hello.", "references": ["Bonjour.", "Salut."], "difficulty": 1.5},
    {"id": "b", "input": "Bye.", "references": ["Salut."], "difficulty": 2},
]
LISTS = [
    {"id": "a", "hypotheses": [{"text": "Salut.", "log_prob": -1.0, "tokens": [1]}, {"text": "Bonjour."}]},
    {"id": "b", "hypotheses": ["Salut.", "Au revoir."]},
]
MESSAGES = [{"id": "a", "messages": [{"role": "user", "content": "Hello."}]}]
PAIRS = [{"en": "Go!", "fr": ["Va !"]}]
DESCRIBED = [{"image": 9, "captions": ["A cat."], "difficulty": 3.1}]


def task(path: Path) -> Any:
    return read_task(str(path), Path)


def lists(path: Path) -> Any:
    return read_lists(path, ["a", "b"], [(), ()])


def sources(path: Path) -> Any:
    reading = pytest.importorskip("beamsplit.study.reading", reason="studies need '.[study]'")
    return reading.read_sources(path)


def ids(path: Path) -> Any:
    reading = pytest.importorskip("beamsplit.study.reading", reason="studies need '.[study]'")
    return reading.read_ids(path)


READERS: list[tuple[Callable[[Path], Any], list[Any]]] = [
    (task, INPUTS),
    (lists, LISTS),
    (sources, INPUTS),
    (ids, LISTS),
    (read_pair_lines, PAIRS),
    (read_described_lines, DESCRIBED),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file.jsonl"


@pytest.mark.parametrize(("read", "right"), READERS, ids=lambda given: getattr(given, "__name__", ""))
def test_lines_of_json(read: Callable[[Path], Any], right: list[Any], path: Path) -> None:
    path.write_bytes(lines_of(right))
    assert read(path)

    @fuzzed
    @given(spoilt(right))
    def holds(entries: Any) -> None:
        path.write_bytes(lines_of(entries if isinstance(entries, list) else [entries]))
        read_or_refused(read, path)

    holds()


@fuzzed
@given(spoilt_bytes(lines_of(INPUTS)) | spoilt_bytes(gzip.compress(lines_of(INPUTS), mtime=0)))
def test_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    read_or_refused(lambda: list(read_json_objects(path, "{}")))
    read_or_refused(read_text, path)
    lines = read_or_refused(lambda: list(stream_lines(io.BytesIO(content), "it")))
    assert lines is None or [line.number for line in lines] == list(range(1, len(lines) + 1))


@fuzzed
@given(content=spoilt_bytes(b"\x28\xb5\x2f\xfd\x24\x06\x31\x00\x00hello\n\x5c\x35\x2d\x5e"))
def test_bytes_of_zstd(content: bytes) -> None:
    pytest.importorskip("zstandard")
    read_or_refused(lambda: list(stream_lines(io.BytesIO(content), "it")))


@pytest.mark.parametrize("kind", ["texts", "pictures", "anything"])
@pytest.mark.parametrize("right", [INPUTS, MESSAGES], ids=["inputs", "messages"])
def test_inputs_to_decode(kind: Any, right: list[Any]) -> None:
    """A line that is wrong has a fault, and none is lost."""

    @fuzzed
    @given(spoilt(right), st.booleans(), st.sampled_from([None, True]))
    def holds(entries: Any, chat: bool, is_json: bool | None) -> None:
        entries = entries if isinstance(entries, list) else [entries]
        given = list(stream_lines(io.BytesIO(lines_of(entries)), "it"))
        found = read_or_refused(lambda: list(parse_lines(given, "it", kind, chat=chat, is_json=is_json)))
        assert found is not None
        assert [line.number for line in found] == list(range(len(entries)))
        for line in found:
            assert len(line.given.fault.splitlines()) <= 1

    holds()


@fuzzed
@given(st.text(max_size=30) | values.map(json.dumps))
def test_one_line_of_json(line: str) -> None:
    found = read_or_refused(json_object, line, "it", "{}")
    assert found is None or isinstance(found, dict)


# Arrays and weights


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, image=["a", "b"], feature=np.ones((2, 3), np.float32), scale=np.ones(3, np.float32))
    return buffer.getvalue()


@fuzzed
@given(spoilt_bytes(npz()))
def test_features(path: Path, content: bytes) -> None:
    file = path.with_name("file.npz")
    file.write_bytes(content)
    found = read_or_refused(read_features, file)
    assert found is None or found.values.dim() == 2


@pytest.fixture(scope="module")
def weights(path: Path) -> bytes:
    file = path.with_name("right.safetensors")
    tensors = {"matrix": torch.ones(64, 64), "packed": torch.ones(64, 64), "bias": torch.ones(3)}
    storage.write(file, tensors, {"kind": "translator", "sizes": {"hidden": 3}, "words": ["a"]}, bits=6)
    return file.read_bytes()


def test_weights(path: Path, weights: bytes) -> None:
    """The header alone is spoilt: all else are numbers."""
    file, header = path.with_name("file.safetensors"), weights.index(b"}}") + 2

    @fuzzed
    @given(spoilt_bytes(weights[8:header]))
    def holds(begin: bytes) -> None:
        file.write_bytes(len(begin).to_bytes(8, "little") + begin + weights[header:])
        read_or_refused(storage.read, file)
        read_or_refused(load_model, str(file))

    holds()


@fuzzed
@given(spoilt({"kind": "translator", "sizes": {"hidden": 3}, "pieces": "", "words": ["a"]}))
def test_descriptions_of_weights(path: Path, description: Any) -> None:
    from safetensors.torch import save

    file = path.with_name("file.safetensors")
    file.write_bytes(save({"bias": torch.ones(3)}, {"beamsplit": json.dumps(description)}))
    read_or_refused(load_model, str(file))


# Experiments

EXPERIMENT: dict[str, Any] = {
    "task": "coco.test",
    "model": "captioner",
    "title": "a title",
    "metrics": ["bleu"],
    "lists": ["unique"],
    "oracle": [1, 5],
    "distinct": [1, 2],
    "seeds": [0, 1],
    "split": ["length"],
    "show": ["a"],
    "cost": {"inputs": 3, "turns": 2},
    "max_length": 9,
    "methods": {
        "BS": {"strategy": "bs", "beams": 4},
        "DBS": {"strategy": "dbs", "groups": 4, "vary": {"strength": [0.2, 0.5]}},
        "terms": {"strategy": "dbs", "groups": 2, "diversity": {"term": "cumulative", "temperature": 2}},
        "chosen": {"strategy": "sampling", "samples": 9, "select": {"count": 3, "by": "dpp"}},
        "mmi": {"strategy": "mmi", "beams": 3, "mmi": {"strength": 0.3}},
        "branching": {"strategy": "branching", "outputs": 4, "strength": 1},
        "chunks": {"strategy": "chunks", "groups": 4, "proposals": 2, "similarity": "content"},
        "saved": {"file": "lists.jsonl"},
    },
}


@fuzzed
@given(spoilt(EXPERIMENT))
def test_experiments(content: Any) -> None:
    if isinstance(content, dict):  # as TOML always is
        read_or_refused(experiment_of, content, "it")


def test_an_experiment_that_is_right() -> None:
    assert len(experiment_of(EXPERIMENT).methods) == 9


TOML = b"""task = "in.jsonl"
seeds = [1, 2]
[methods.BS]
strategy = "bs"
vary = { beams = [1, 2] } # two
"""


@fuzzed
@given(
    spoilt_bytes(TOML) | st.sampled_from([b"a = " + b"[" * 100_000, b"a = " + b"9" * 9_999, b"a." * 9_999])
)
def test_toml(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    found = read_or_refused(read_toml, path)
    if found is not None:
        read_or_refused(experiment_of, found, str(path))


# What we have written ourselves

FOUND: dict[str, Any] = {
    "tokens": [1, 2],
    "log_prob": -1.0,
    "score": -1.0,
    "group": 0,
    "finished": True,
    "text": "a b",
    "certified": True,
}
BRANCH: dict[str, Any] = {
    "parent": -1,
    "group": 0,
    "time": 0,
    "token": 1,
    "text": "a",
    "log_prob": -0.5,
    "score": -0.5,
    "cost": 0.0,
    "fate": "lives",
}
RECORDING: dict[str, Any] = {
    "title": "a search",
    "branches": [BRANCH, {**BRANCH, "parent": 0, "time": 1, "token": 2, "text": " b", "fate": "ended"}],
    "asked": 1,
    "hypotheses": [FOUND],
    "one_tree": False,
}


@fuzzed
@given(spoilt([FOUND]))
def test_lists_of_ours(content: Any) -> None:
    found = read_or_refused(Hypotheses.from_json, json.dumps(content))
    if found is not None:
        assert len(repr(found)) > 0
        assert Hypotheses.from_json(found.to_json()) == found or "NaN" in found.to_json()
    read_or_refused(Results.from_json, json.dumps([content]))


@fuzzed
@given(spoilt(RECORDING))
def test_recordings(content: Any) -> None:
    found = read_or_refused(Recording.from_json, json.dumps(content))
    if found is not None:
        assert found.svg().startswith("<svg ")


@fuzzed
@given(st.sampled_from(ODD_TEXTS) | texts | spoilt_bytes(json.dumps(RECORDING).encode()).map(repr))
def test_what_is_no_json_of_ours(text: str) -> None:
    for read in (Hypotheses.from_json, Results.from_json, Recording.from_json):
        read_or_refused(read, text)


@pytest.mark.parametrize("read", [Hypotheses.from_json, Results.from_json, Recording.from_json])
def test_nesting_without_end(read: Callable[[str], Any]) -> None:
    assert read_or_refused(read, "[" * 100_000) is None
    assert read_or_refused(read, '{"branches":' * 100_000) is None
