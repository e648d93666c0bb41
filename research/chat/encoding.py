"""Vectors of texts by a sentence encoder: texts that say the same have like vectors."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

__all__ = ["Encoder"]

_BATCH = 200


class Encoder:
    """A sentence encoder of the kind of all-MiniLM-L6-v2: the mean over a text's tokens."""

    def __init__(self, folder: str, device: str | None = None) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder, dtype=torch.float32).to(device or "cpu").eval()

    @torch.no_grad()
    def __call__(self, texts: list[str]) -> Tensor:
        """Return a vector of length 1 for each text: [texts dimensions]."""
        return torch.cat(
            [self._encode(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        )

    def _encode(self, texts: list[str]) -> Tensor:
        batch = self._tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        batch = batch.to(self._model.device)
        hidden, mask = self._model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1)).cpu()
