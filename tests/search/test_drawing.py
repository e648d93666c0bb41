"""Truncated sampling gives noise to likely tokens alone; these are the samples of noise for all tokens."""

from __future__ import annotations

import pytest
import torch

from beamsplit.model import Shortlist
from beamsplit.search import lists, noise
from beamsplit.search.shortlist import Scores
from beamsplit.search.truncation import Truncation
from beamsplit.strategies.sampling import Sampling

ROWS, WIDTH = 12, 4
TRUNCATIONS = (
    Truncation(1.0, None, 0.9, None),
    Truncation(0.7, None, 0.95, None),
    Truncation(1.3, 50, None, None),
    Truncation(1.0, 400, 0.99, None),
    Truncation(1.0, None, None, 0.01),
    Truncation(1.5, None, 0.98, 0.001),
)


def scores_of(spread: float, vocabulary: int) -> Scores:
    """Make rows of which the first are flat and the last are peaked."""
    logits = torch.randn(ROWS, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    log_prob = torch.log_softmax(logits * torch.linspace(0.01, spread, ROWS).unsqueeze(1), dim=-1)
    return Scores(log_prob, log_prob, log_prob)


def by_token(lists: Shortlist) -> list[dict[int, tuple[float, float]]]:
    """Return of each row the keys and gains of the tokens that may be drawn."""
    rows = zip(lists.tokens.tolist(), lists.key.tolist(), lists.gain.tolist(), strict=True)
    return [
        {token: (key, gain) for token, key, gain in zip(*row, strict=True) if key > -torch.inf}
        for row in rows
    ]


def drawn(truncation: Truncation, scores: Scores, monkeypatch: pytest.MonkeyPatch) -> tuple[Shortlist, int]:
    """Draw, and count the rows that had noise for all tokens."""
    rule = (
        Sampling(
            samples=1,
            temperature=truncation.temperature,
            top_k=truncation.top_k,
            top_p=truncation.top_p,
            min_p=truncation.min_p,
        )
        .plan()
        .rule
    )
    whole = 0
    of_all = lists._drawn_of_all

    def counted(rule: object, scores: Scores, keys: torch.Tensor, width: int) -> Shortlist:
        nonlocal whole
        whole += len(keys)
        return of_all(rule, scores, keys, width)  # type: ignore[arg-type]

    keys = noise.mix(torch.arange(ROWS))
    expected = of_all(rule, scores, keys, WIDTH)
    monkeypatch.setattr(lists, "_drawn_of_all", counted)
    found = lists._drawn(rule, scores, keys, WIDTH)
    for row, wanted in zip(by_token(found), by_token(expected), strict=True):
        assert row == {token: pytest.approx(values, abs=1e-4) for token, values in wanted.items()}
    return found, whole


@pytest.mark.parametrize("truncation", TRUNCATIONS, ids=str)
@pytest.mark.parametrize("spread", [0.02, 3.0, 6.0])
@pytest.mark.parametrize("vocabulary", [5_000, 20_000])
def test_the_same_are_drawn(
    truncation: Truncation, spread: float, vocabulary: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn(truncation, scores_of(spread, vocabulary), monkeypatch)


def test_few_rows_have_noise_for_all_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of which 256 tokens are not enough are tried with more, and only then with all."""
    peaked = scores_of(6.0, 20_000).rows(torch.arange(ROWS - 4, ROWS))
    peaked = Scores(*(peaked.log_prob.repeat(3, 1),) * 3)
    assert drawn(Truncation(1.0, None, 0.95, None), peaked, monkeypatch)[1] == 0
    monkeypatch.undo()
    assert drawn(Truncation(1.0, None, 0.95, None), scores_of(6.0, 20_000), monkeypatch)[1] > 0
    monkeypatch.undo()
    asked: list[int] = []

    def top_tokens(key: torch.Tensor, width: int) -> torch.Tensor:
        asked.append(width)
        return key.topk(width).indices

    monkeypatch.setattr(lists, "top_tokens", top_tokens)
    drawn(Truncation(1.0, 400, None, None), scores_of(6.0, 20_000), monkeypatch)
    assert asked == [256, 4096]
