"""The examples of docs/transformers.md run, on a small model. (That of a pipeline is in test_sampling.)"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from huggingface.models import case, tokenizer

PAGE = (Path(__file__).parents[2] / "docs" / "transformers.md").read_text(encoding="utf-8")
AFTER, PIPELINE, BRANCHING, CHUNKS, OURS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def ran(code: str) -> dict[str, Any]:
    """Run code with a model, its tokenizer and inputs, and return the names that it has bound."""
    words = tokenizer(pad_token="<pad>", padding_side="left")
    inputs = dict(words(["ag", "if"], return_tensors="pt"))
    names: dict[str, Any] = {"model": case("gpt2").model, "tokenizer": words, "inputs": inputs}
    exec(code, names)
    return names


@pytest.mark.parametrize("example", [AFTER.partition("# after")[2].partition("\n")[2], BRANCHING, CHUNKS])
def test_the_examples_of_generate_return_six_sequences_for_each_prompt(example: str) -> None:
    names = ran(example.replace("model.generate(", "found = model.generate("))
    sequences = [tuple(row) for row in names["found"].tolist()]
    assert len(sequences) == 12
    if example == BRANCHING:
        assert len(set(sequences[:6])) == len(set(sequences[6:])) == 6


def test_the_example_of_our_own_interface_decodes_a_text() -> None:
    names = ran(OURS)
    (found,) = names["out"]
    assert [len(group) for group in found.groups] == [2, 2, 2]
    assert names["step"].hypotheses[0].best.text == found.best.text
