"""Calls of `generate`, and what to compare of what they return."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from beamsplit.huggingface import diverse_beam_search
from huggingface.models import EOS, Case, cut

__all__ = ["GROUPS", "assert_same", "ours", "outputs", "own"]

GROUPS: dict[str, Any] = {"num_beam_groups": 2, "diversity_penalty": 0.7}
_SEARCH: dict[str, Any] = {
    "num_beams": 4,
    "num_return_sequences": 4,
    "max_new_tokens": 10,
    "return_dict_in_generate": True,
    "output_scores": True,
}


def own(case: Case, **settings: Any) -> Any:
    """What transformers' own search returns: four beams, all of them returned."""
    return case.model.generate(**{**case.inputs, **_SEARCH, **settings})


def ours(case: Case, **settings: Any) -> Any:
    """What ours returns with the same settings."""
    return own(case, custom_generate=diverse_beam_search, **settings)


def assert_same(found: Any, expected: Any) -> None:
    """The same sequences with the same scores."""
    assert found.sequences.tolist() == expected.sequences.tolist()
    assert found.sequences_scores.tolist() == pytest.approx(expected.sequences_scores.tolist(), abs=1e-4)


def outputs(case: Case, found: Any, ends: tuple[int, ...] = (EOS,)) -> list[tuple[int, ...]]:
    """What was said after each prompt, without what fills it up."""
    sequences = found if isinstance(found, torch.Tensor) else found.sequences
    return [cut(row[case.start :], ends) for row in sequences]
