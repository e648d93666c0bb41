"""The recorded cases: settings, inputs, what transformers 4.55.4 returned, and how to run each again."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from golden import models
from golden.emulator import AS_4_55_4, Found, LogProbs, Process, Settings, Switches, Tokens, emulate

__all__ = [
    "Case",
    "Returned",
    "Run",
    "as_returned",
    "build",
    "cases",
    "checksum",
    "emulated",
    "golden",
    "processors",
    "read",
]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One call of `generate` on a batch of inputs, and what came back."""

    name: str
    model: str
    inputs: list[list[int]]  # without padding
    settings: dict[str, Any]  # what `generate` was given besides
    sequences: list[list[int]]  # num_beams for each input; prompt, end and padding as returned
    scores: list[float]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Run:
    """All that it takes to call `run.model.generate(**run.inputs, **run.kwargs)`."""

    model: Any
    inputs: dict[str, Tensor]  # padded: on the left for a decoder, on the right for an encoder
    kwargs: dict[str, Any]
    prompt: int  # how many tokens of a returned sequence were not generated


@dataclass(frozen=True)
class Returned:
    """One returned sequence."""

    tokens: Tokens  # generated ones; the end, if it ended, is the first end token whichever it was
    score: float


@functools.cache
def read(model: str) -> dict[str, Any]:
    """The file for this model."""
    contents: dict[str, Any] = json.loads((HERE / f"{model}.json").read_text())
    return contents


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases of all models."""
    return tuple(Case(model=model, **entry) for model in models.NAMES for entry in read(model)["cases"])


def entry(case: Case) -> dict[str, Any]:
    """What is written of a case."""
    return {key: value for key, value in asdict(case).items() if key != "model"}


def checksum(model: str) -> list[float]:
    """A few logits of the model that the cases were made with."""
    values: list[float] = read(model)["checksum"]
    return values


def build(case: Case) -> Run:
    """The model, its inputs and the rest of what `generate` takes."""
    model = models.build_model(case.model)
    longest = max(map(len, case.inputs))
    pad = case.settings["pad_token_id"]
    ids, mask = [], []
    for tokens in case.inputs:
        fill, ones = [pad] * (longest - len(tokens)), [1] * len(tokens)
        left = not model.config.is_encoder_decoder
        ids.append(fill + tokens if left else tokens + fill)
        mask.append([0] * len(fill) + ones if left else ones + [0] * len(fill))
    return Run(
        model=model,
        inputs={"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)},
        kwargs={
            **case.settings,
            "do_sample": False,
            "num_return_sequences": case.settings["num_beams"],
            "return_dict_in_generate": True,
            "output_scores": True,
        },
        prompt=1 if model.config.is_encoder_decoder else longest,
    )


def golden(case: Case) -> list[list[Returned]]:
    """What 4.55.4 returned for each input, in its order."""
    prompt = build(case).prompt
    returned = [
        Returned(_generated(case, sequence[prompt:]), score)
        for sequence, score in zip(case.sequences, case.scores, strict=True)
    ]
    beams = case.settings["num_beams"]
    return [returned[at : at + beams] for at in range(0, len(returned), beams)]


def _ends(case: Case) -> Tokens:
    ends = case.settings["eos_token_id"]
    return (ends,) if isinstance(ends, int) else tuple(ends)


def _generated(case: Case, tokens: Sequence[int]) -> Tokens:
    """Up to the end: what follows is padding. What has no end has no padding either."""
    ends = _ends(case)
    until = next((place for place, token in enumerate(tokens, 1) if token in ends), len(tokens))
    return tuple(tokens[:until])


def as_returned(case: Case, tokens: Tokens) -> Tokens:
    """The same with the first end token in place of whichever it was, which is how 4.55.4 returns it."""
    ends = _ends(case)
    return (*tokens[:-1], ends[0]) if tokens[-1] in ends else tokens


def emulated(
    case: Case, switches: Switches = AS_4_55_4, disturb: Callable[[LogProbs], LogProbs] = lambda rows: rows
) -> list[list[Found]]:
    """What the emulator finds for each input; `disturb` may change what the model says."""
    given = case.settings
    settings = Settings(
        groups=given["num_beam_groups"],
        beams=given["num_beams"] // given["num_beam_groups"],
        strength=given["diversity_penalty"],
        length_penalty=given["length_penalty"],
        early_stopping=given["early_stopping"],
        max_new_tokens=given["max_new_tokens"],
        pad=given["pad_token_id"],
        ends=_ends(case),
    )
    return emulate(len(case.inputs), disturb(_log_probs(case)), _process(case), settings, switches)


_known: dict[tuple[str, Tokens, Tokens], Tensor] = {}


def _log_probs(case: Case) -> LogProbs:
    """The model's, remembered, since searches meet the same prefixes again and again."""
    start = (case.settings["decoder_start_token_id"],) if "decoder_start_token_id" in case.settings else None

    def rows(number: int, prefixes: Sequence[Tokens]) -> Tensor:
        source = tuple(case.inputs[number])
        whole = [(start or source) + prefix for prefix in prefixes]
        new = [tokens for tokens in dict.fromkeys(whole) if (case.model, source, tokens) not in _known]
        if new:
            computed = models.log_probs(models.build_model(case.model), source, torch.tensor(new))
            _known.update(
                ((case.model, source, tokens), row) for tokens, row in zip(new, computed, strict=True)
            )
        return torch.stack([_known[case.model, source, tokens] for tokens in whole])

    return rows


def _process(case: Case) -> Process:
    """The other logits processors, with the prompt in front of what was generated, padding and all."""
    run = build(case)
    process = processors(case)
    prompts = (
        [[case.settings["decoder_start_token_id"]]] * len(case.inputs)
        if run.model.config.is_encoder_decoder
        else run.inputs["input_ids"].tolist()
    )

    def apply(number: int, prefixes: Sequence[Tokens], rows: Tensor) -> Tensor:
        ids = torch.tensor([[*prompts[number], *prefix] for prefix in prefixes])
        for processor in process:
            rows = processor(ids, rows)
        return rows

    return apply


def processors(case: Case) -> list[Any]:
    """The logits processors that the settings ask for, the penalty for sameness left out, in their order."""
    given, hf = case.settings, models.transformers
    prompt, ends = build(case).prompt, list(_ends(case))
    made: list[Any] = []
    if "repetition_penalty" in given:
        made.append(hf.RepetitionPenaltyLogitsProcessor(given["repetition_penalty"]))
    if "no_repeat_ngram_size" in given:
        made.append(hf.NoRepeatNGramLogitsProcessor(given["no_repeat_ngram_size"]))
    if "bad_words_ids" in given:
        made.append(hf.NoBadWordsLogitsProcessor(given["bad_words_ids"], ends))
    if "min_new_tokens" in given:
        made.append(hf.MinNewTokensLengthLogitsProcessor(prompt, given["min_new_tokens"], ends))
    if "forced_eos_token_id" in given:
        longest = prompt + given["max_new_tokens"]
        made.append(hf.ForcedEOSTokenLogitsProcessor(longest, given["forced_eos_token_id"]))
    return made
