"""Train the translator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from beamsplit.files import write_bytes
from beamsplit.models.text import Pieces
from beamsplit.models.translator import Translator, TranslatorSizes
from research.data import Pair
from research.training.loop import Recipe
from research.training.sentences import Sentences, learn_pieces
from research.training.teachers import Apprenticeship, Stage

__all__ = ["TranslatorSettings", "apprenticeship"]


@dataclass(frozen=True, kw_only=True)
class TranslatorSettings:
    """Settings of a translator; the defaults are those of the one that ships."""

    pieces: int = 7000
    smoothing: float = 0.1
    student: Stage = field(
        default=Stage(
            sizes=TranslatorSizes(),
            recipe=Recipe(epochs=36, batch=512, learning_rate=2e-3, dropout=0.2),
        )
    )
    teachers: int = 2
    teacher: Stage = field(
        default=Stage(
            sizes=TranslatorSizes(embedding=512, encoder=512, decoder=1024),
            recipe=Recipe(epochs=32, batch=512, learning_rate=2e-3, dropout=0.35),
        )
    )


def apprenticeship(
    train: Sequence[Pair],
    valid: Sequence[Pair],
    settings: TranslatorSettings,
    *,
    work: Path,
    seed: int,
    device: torch.device,
) -> Apprenticeship[Translator]:
    """Return the training of a translator and its teachers."""
    pieces = _pieces(work, train, settings.pieces)
    return Apprenticeship(
        name="translator",
        build=lambda stage: Translator(pieces, stage.sizes, dropout=stage.recipe.dropout),
        load=Translator.from_file,
        examples=lambda recipe, drawn: Sentences(train, valid, pieces, batch=recipe.batch, seed=drawn),
        student=settings.student,
        teacher=settings.teacher,
        teachers=settings.teachers,
        smoothing=settings.smoothing,
        seed=seed,
        device=device,
        work=work,
    )


def _pieces(work: Path, pairs: Sequence[Pair], count: int) -> Pieces:
    """Return the word pieces, learned once: teachers and student have to share them."""
    content = hashlib.sha256(repr((count, pairs)).encode()).hexdigest()[:16]
    path = work / f"pieces-{content}.model"
    if not path.exists():
        write_bytes(path, learn_pieces(pairs, count).model)
    return Pieces(path.read_bytes())
