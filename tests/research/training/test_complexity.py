"""Training of image complexity: as scikit-learn has it, the same each time, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.extras import install_line
from beamsplit.models.complexity import SHIPPED, Complexity
from research.data import Projection, data_folder
from research.training import complexity

WIDTH = 6


def made_up(count: int = 60) -> tuple[Tensor, Tensor, Projection]:
    """Non-negative features, of which the score is a curve, and a projection that loses some."""
    draw = torch.Generator().manual_seed(1)
    features = torch.rand(count, WIDTH, generator=draw) * 2
    axes = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=draw)).Q[:4]
    return features, 3 + features[:, 0] * features[:, 1], Projection(features.mean(0), axes)


def test_prediction_is_scikit_learns() -> None:
    """The machine that was trained, asked through scikit-learn, says the same of the pictures it knows."""
    svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is absent: pip install '.[dev]'")
    features, difficulty, projection = made_up()
    settings = complexity.Settings(components=4, cost=3.0)
    made = complexity.fit(features, difficulty, projection, settings)
    kept = made.projection
    steps = (kept.project(features) / made.scale).round() * made.scale
    remembered = kept.undo(steps)
    seen = remembered.clamp(min=0).sqrt().double().numpy()
    theirs = svm.NuSVR(kernel="rbf", gamma=made.gamma, C=3.0, nu=settings.nu).fit(seen, difficulty.numpy())
    expected = torch.from_numpy(theirs.predict(seen)).float()
    assert len(made.support) == len(theirs.support_)
    assert torch.allclose(made.predict(remembered), expected, atol=5e-3)  # where their solver stops is 1e-3


def test_training_is_refused_without_a_score_a_picture() -> None:
    features, difficulty, projection = made_up()
    with pytest.raises(ArgumentError) as caught:
        complexity.fit(features, difficulty[:3], projection)
    assert str(caught.value) == "difficulty has shape [3], not [60]: give one score a picture"


def test_training_needs_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(ImportError) as caught:
        complexity.fit(*made_up())
    assert str(caught.value) == f"research.training.complexity needs scikit-learn: {install_line('dev')}"


@pytest.fixture(scope="module")
def folder() -> Path:
    if not os.environ.get("BEAMSPLIT_DATA"):
        pytest.skip("BEAMSPLIT_DATA is not set to a folder of real data")
    return data_folder()


def test_training_again_gives_the_same(folder: Path, tmp_path: Path) -> None:
    """The same bytes each time; on another machine's arithmetic the same scores, nearly."""
    pytest.importorskip("sklearn", reason="scikit-learn is absent: pip install '.[dev]'")
    known, test, projection = complexity.held_out(folder)
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for path in paths:
        complexity.fit(*known, projection).save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    again, shipped = (Complexity.load(path).predict(test.features) for path in (paths[0], SHIPPED))
    assert torch.allclose(again, shipped, atol=0.01)
