"""The method beside transformers 4.55.4, the last release that had it: golden/make.py made the record."""

from __future__ import annotations

import pytest

from golden import models
from golden.cases import Case, as_returned, cases, checksum, emulated, golden


@pytest.mark.parametrize("name", models.NAMES)
def test_the_models_are_those_of_the_record(name: str) -> None:
    assert models.checksum(models.build_model(name)) == pytest.approx(checksum(name), abs=1e-3)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_emulator_finds_what_was_recorded(case: Case) -> None:
    """Same sequences in the same order: so where we differ from 4.55.4, the switches say all of it."""
    for found, recorded in zip(emulated(case), golden(case), strict=True):
        assert [as_returned(case, f.tokens) for f in found] == [r.tokens for r in recorded]
        assert [f.score for f in found] == pytest.approx([r.score for r in recorded], abs=1e-4)
