"""Records what transformers 4.55.4, the last release with group beam search, returns.

    PYTHONPATH=tests python -m golden.make

Random models, inputs and settings, a spread sample of the grid of settings. End tokens are chosen so that
in some cases no sequence ends, in some they end late and in some early. A case is kept if its result, and
what the emulator makes of it with other switches, is the same with a little noise on the log-probabilities:
so that it does not hang on the rounding of one machine.
"""

from __future__ import annotations

import datetime
import itertools
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from golden import cases, models
from golden.cases import Case
from golden.emulator import LogProbs, Switches, Tokens

VERSION = "4.55.4"
COMMAND = "PYTHONPATH=tests python -m golden.make"
CASES_A_MODEL = 32
GRID: dict[str, list[Any]] = {
    "batch": [1, 3],
    "num_beams, num_beam_groups": [(2, 2), (4, 2), (6, 3), (6, 2)],
    "diversity_penalty": [0.3, 1.0, 5.0],
    "length_penalty": [0.0, 1.0, -0.5, 2.0],
    "early_stopping": [False, True, "never"],
    "max_new_tokens": [6, 9, 12],
}
EXTRAS_WITH_ENDS = [
    "two ends",
    "min_new_tokens",
    "forced_eos_token_id",
    "pad is end, and felt",
    "pad is felt",
]

SWITCHES = [
    Switches(later_groups_see=see, finished_groups_say_pad=pad, penalty_comes=comes)
    for see in ("live", "best")
    for pad in (True, False)
    for comes in ("first", "last")
]
NOISE = 3e-5

T = TypeVar("T")


def main() -> None:
    """Writes one file a model."""
    if models.transformers.__version__ != VERSION:
        sys.exit(f"golden.make needs transformers {VERSION}, this is {models.transformers.__version__}")
    torch.set_num_threads(1)
    models.transformers.logging.set_verbosity_error()
    for name in models.NAMES:
        made = [make(name, number, wish) for number, wish in enumerate(wishes(name))]
        write(name, made)
        print(f"{name}: {len(made)} cases")


def wishes(name: str) -> list[dict[str, Any]]:
    """What the cases of a model shall be like: every value of every setting about equally often."""
    rng = random.Random(f"wishes/{name}")
    extras = [
        *["two ends"] * 2,
        *["min_new_tokens"] * 2,
        *["repetition_penalty"] * 2,
        *["no_repeat_ngram_size"] * 2,
        *["bad_words_ids"] * 2,
        *["forced_eos_token_id"] * 2,
        *["pad is end"] * 2,
        *["pad is end, and felt"] * 2,
        "pad is felt",
    ]
    columns: dict[str, list[Any]] = {
        "extra": extras + [None] * (CASES_A_MODEL - len(extras)),
        "ending": spread(rng, ["never", "late", "early", "some"]),
        **{key: spread(rng, values) for key, values in GRID.items()},
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def spread(rng: random.Random, values: Sequence[T]) -> list[T]:
    """One for each case, each value as often as the others, in disorder."""
    shuffled = (rng.sample(values, len(values)) for _ in itertools.count())
    return list(itertools.islice(itertools.chain.from_iterable(shuffled), CASES_A_MODEL))


def make(name: str, number: int, wish: dict[str, Any]) -> Case:
    """The first case drawn that is what was wished for, and is stable."""
    rng = random.Random(f"case/{name}/{number}")
    for attempt in range(1000):
        if attempt > 40:  # the settings may rule out the ending or the extra
            wish = wish | {key: rng.choice(values) for key, values in GRID.items()}
        case = recorded(draw(rng, name, number, wish))
        if rng.random() < 0.5:  # what it says is likelier to be an end than any token
            said = [token for hypotheses in cases.golden(case) for token in hypotheses[-1].tokens if token]
            case = recorded(replace(case, settings=case.settings | {"eos_token_id": rng.choice(said or [1])}))
        case = recorded(add_extra(rng, case, wish["extra"]))
        if ends_as_wished(case, wish) and extra_matters(case, wish["extra"]) and stable(case):
            return case
    raise RuntimeError(f"no case of {name} is like {wish}")


def draw(rng: random.Random, name: str, number: int, wish: dict[str, Any]) -> Case:
    """A case without its extra."""
    beams, groups = wish["num_beams, num_beam_groups"]
    settings = {
        "num_beams": beams,
        "num_beam_groups": groups,
        **{
            key: wish[key]
            for key in ("diversity_penalty", "length_penalty", "early_stopping", "max_new_tokens")
        },
        "pad_token_id": 0,
        "eos_token_id": rng.randrange(1, models.VOCABULARY),
    }
    config = models.build_model(name).config
    if config.is_encoder_decoder:
        settings["decoder_start_token_id"] = config.decoder_start_token_id
    inputs = rng.sample(prompts(name), wish["batch"])
    return Case(f"{name}-{number:02}", name, inputs, settings, [], [])


def prompts(name: str) -> list[list[int]]:
    """A few inputs of different lengths."""
    rng = random.Random(f"prompts/{name}")
    return [[rng.randrange(1, models.VOCABULARY) for _ in range(length)] for length in (1, 2, 3, 4, 5, 6)]


def add_extra(rng: random.Random, case: Case, extra: str | None) -> Case:
    """The case with the setting that the extra asks for, fitted to what it returns without."""
    end = case.settings["eos_token_id"]
    said = cases.golden(case)[0][0].tokens
    longest = case.settings["max_new_tokens"]
    settings: dict[str | None, dict[str, Any]] = {
        None: {},
        "two ends": {"eos_token_id": rng.sample([end, rng.randrange(1, end) if end > 1 else 2], 2)},
        "min_new_tokens": {"min_new_tokens": rng.randrange(3, longest)},
        "repetition_penalty": {"repetition_penalty": rng.choice([1.3, 2.0])},
        "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
        "bad_words_ids": {"bad_words_ids": [list(said[:1]), list(said[1:3]) or [end - 1]]},
        "forced_eos_token_id": {"forced_eos_token_id": end},
        "pad is end": {"pad_token_id": end},
        "pad is end, and felt": {"pad_token_id": end},
        "pad is felt": {"pad_token_id": rng.choice(cases.golden(case)[0][-1].tokens)},
    }
    return replace(case, settings=case.settings | settings[extra])


def recorded(case: Case) -> Case:
    """The case with what `generate` returns."""
    run = cases.build(case)
    out = run.model.generate(**run.inputs, **run.kwargs)
    scores = [round(score, 6) for score in out.sequences_scores.tolist()]
    return replace(case, sequences=out.sequences.tolist(), scores=scores)


def ends_as_wished(case: Case, wish: dict[str, Any]) -> bool:
    """Whether its sequences end as was wished for."""
    ends = case.settings["eos_token_id"]
    ends = [ends] if isinstance(ends, int) else ends
    found = [returned.tokens for hypotheses in cases.golden(case) for returned in hypotheses]
    lengths = [len(tokens) for tokens in found if tokens[-1] in ends]
    half = case.settings["max_new_tokens"] / 2
    if wish["extra"] in EXTRAS_WITH_ENDS:
        return bool(lengths)
    if wish["ending"] == "never":
        return not lengths
    if wish["ending"] == "late":
        return bool(lengths) and min(lengths) > half
    if wish["ending"] == "some":
        return 0 < len(lengths) < len(found)
    return bool(lengths) and min(lengths) <= half and len(lengths) > len(found) / 2


def extra_matters(case: Case, extra: str | None) -> bool:
    """Whether the result would be another without it."""
    if extra is None or extra == "pad is end":
        return True
    if extra.startswith("pad is"):  # a group has finished, and a later one would like to say what pads
        return _sequences(case, Switches()) != _sequences(case, Switches(finished_groups_say_pad=False))
    if extra == "two ends":
        without = case.settings | {"eos_token_id": case.settings["eos_token_id"][0]}
    else:
        without = {key: value for key, value in case.settings.items() if key != extra}
    return cases.golden(recorded(replace(case, settings=without))) != cases.golden(case)


def stable(case: Case) -> bool:
    """Whether a little noise changes no sequence, nor their order, whatever the switches."""
    return all(
        _sequences(case, switches) == _sequences(case, switches, seed)
        for switches in SWITCHES
        for seed in range(3)
    )


def _sequences(case: Case, switches: Switches, seed: int | None = None) -> list[list[tuple[Tokens, int]]]:
    def noisy(log_probs: LogProbs) -> LogProbs:
        def rows(number: int, prefixes: Sequence[Tokens]) -> Tensor:
            noise = [_noise((seed, case.inputs[number], prefix)) for prefix in prefixes]
            return log_probs(number, prefixes) + torch.stack(noise)

        return rows

    found = cases.emulated(case, switches) if seed is None else cases.emulated(case, switches, noisy)
    return [[(hypothesis.tokens, hypothesis.group) for hypothesis in hypotheses] for hypotheses in found]


def _noise(key: object) -> Tensor:
    generator = torch.Generator().manual_seed(random.Random(repr(key)).getrandbits(60))
    return (torch.rand(models.VOCABULARY, generator=generator) * 2 - 1) * NOISE


def write(name: str, made: list[Case]) -> None:
    """One line a case, so that differences can be read."""
    head = {
        "made by": {
            "transformers": models.transformers.__version__,
            "torch": torch.__version__,
            "command": COMMAND,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        },
        "checksum": models.checksum(models.build_model(name)),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines.append('"cases": [\n' + ",\n".join(json.dumps(cases.entry(case)) for case in made) + "\n]")
    (cases.HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
