"""Training of the translator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from beamsplit.data import Pair
from beamsplit.models import storage
from beamsplit.models.text import Pieces
from beamsplit.models.translator import Translator, TranslatorSizes
from beamsplit.training.loop import Recipe
from beamsplit.training.sentences import Sentences, learn_pieces
from beamsplit.training.teachers import Apprenticeship, Stage

__all__ = ["TranslatorSettings", "apprenticeship"]


@dataclass(frozen=True, kw_only=True)
class TranslatorSettings:
    """What the translator that ships was trained with."""

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
    """The training of a translator."""
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
    """Learned once: teachers and student must agree on them."""
    content = hashlib.sha256(repr((count, pairs)).encode()).hexdigest()[:16]
    path = work / f"pieces-{content}.model"
    if not path.exists():
        storage.write_bytes(path, learn_pieces(pairs, count).model)
    return Pieces(path.read_bytes())
