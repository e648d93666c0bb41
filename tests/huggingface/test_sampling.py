"""A warning where a config makes a search sample, and none where the call does."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig, pipeline

from beamsplit.huggingface import diverse_beam_search, sampling, uninstall
from huggingface.calls import GROUPS, assert_same, ours, own
from huggingface.models import OLD, case, tokenizer

_SAMPLES = "GPT2LMHeadModel draws random samples in this search, because"
_WAY_OUT = (
    "do_sample=True: give do_sample=False in the call to search with beams, "
    "or do_sample=True if you want samples"
)
BY_CONFIG = f"{_SAMPLES} the model's generation config says {_WAY_OUT}"
BY_PIPELINE = f"{_SAMPLES} the settings of TextGenerationPipeline say {_WAY_OUT}"


@pytest.fixture(autouse=True)
def never_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_warned", set())


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose generation config samples, as those of many chat models do."""
    tried = case("gpt2")
    config = copy.deepcopy(tried.model.generation_config)
    config.do_sample = True
    monkeypatch.setattr(tried.model, "generation_config", config)
    return tried


@pytest.fixture(params=["install", "custom_generate"])
def search(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Both ways to a search in groups."""
    if request.param == "install":
        request.getfixturevalue("installed")
        yield own
    else:
        yield ours


def said(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in caught]


def test_a_models_config_that_samples_is_named_once(sampler: Any, search: Any) -> None:
    with pytest.warns(UserWarning, match="random samples") as caught:
        search(sampler, **GROUPS)
    assert said(list(caught)) == [BY_CONFIG]
    assert caught[0].filename.endswith("calls.py")  # the line that called generate, not one in transformers
    search(sampler, **GROUPS)  # a second time would be an error


@pytest.mark.parametrize("wanted", [True, False])
def test_what_the_call_says_needs_no_warning(sampler: Any, search: Any, wanted: bool) -> None:
    search(sampler, **GROUPS, do_sample=wanted)


def test_a_call_that_samples_needs_no_warning(search: Any) -> None:
    search(case("gpt2"), **GROUPS, do_sample=True)


def test_a_call_with_a_config_that_samples_needs_no_warning(search: Any) -> None:
    config = GenerationConfig(num_beams=4, max_new_tokens=3, do_sample=True, pad_token_id=3)
    tried = case("gpt2")
    given = {"custom_generate": diverse_beam_search} if search is ours else {}
    tried.model.generate(**tried.inputs, generation_config=config, **GROUPS, **given)


def test_without_sampling_nothing_is_said(search: Any) -> None:
    search(case("gpt2"), **GROUPS)


def test_the_same_is_drawn_with_the_warning_and_without(sampler: Any) -> None:
    with pytest.warns(UserWarning, match="random samples"):
        found = ours(sampler, **GROUPS, seed=7)
    assert_same(found, ours(sampler, **GROUPS, seed=7, do_sample=True))


def test_who_calls_the_loop_in_another_way_is_warned_by_the_models_config(sampler: Any) -> None:
    with pytest.warns(UserWarning, match="because the model's generation config says"):
        sampling.warn_of_unasked_sampling(sampler.model)


# Pipelines


def write(**settings: Any) -> Any:
    words = tokenizer(pad_token="<pad>", padding_side="left")
    return pipeline("text-generation", model=case("gpt2").model, tokenizer=words, **settings)


ASKED = {"num_beams": 4, **GROUPS, "max_new_tokens": 3}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("inputs", ["ag", ["ag", "iq"]])
def test_a_pipeline_samples_by_default_and_is_named(inputs: Any) -> None:
    with pytest.warns(UserWarning, match="random samples") as caught:
        write()(inputs, **ASKED)
    assert said(list(caught)) == [BY_PIPELINE]
    assert caught[0].filename == __file__


def test_a_pipeline_with_a_custom_loop_is_named_too() -> None:
    with pytest.warns(UserWarning, match="random samples") as caught:
        write()("ag", **ASKED, custom_generate=diverse_beam_search)
    assert said(list(caught)) == [BY_PIPELINE]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("wanted", [True, False])
def test_what_the_call_of_a_pipeline_says_needs_no_warning(wanted: bool) -> None:
    write()("ag", **ASKED, do_sample=wanted)
    write()(["ag", "iq"], **ASKED, do_sample=wanted, batch_size=2)
    if not (OLD and wanted):  # before 5, what a pipeline is made with is part of its defaults
        write(do_sample=wanted)("ag", **ASKED)


@pytest.mark.usefixtures("installed", "sampler")
def test_a_pipeline_of_a_model_whose_config_samples() -> None:
    with pytest.warns(UserWarning, match="random samples") as caught:
        write()("ag", **ASKED)
    assert said(list(caught)) == [BY_CONFIG]


# The page


def test_the_example_of_a_pipeline_searches_without_a_warning() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transformers.md").read_text(encoding="utf-8")
    (example,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "pipeline(" in each]
    words = tokenizer(pad_token="<pad>", padding_side="left")
    inputs = dict(words(["ag"], return_tensors="pt"))
    names: dict[str, Any] = {"model": case("gpt2").model, "tokenizer": words, "inputs": inputs}
    try:
        exec(example, names)
    finally:
        uninstall()
    prompt = dict(words(["Once upon a time"], return_tensors="pt"))
    asked = {**names["groups"], "max_new_tokens": 30, "pad_token_id": words.pad_token_id}
    expected = case("gpt2").model.generate(**prompt, **asked, custom_generate=diverse_beam_search)
    outputs = words.batch_decode(expected[:, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    assert [each["generated_text"].removeprefix("Once upon a time") for each in names["said"]] == outputs
    assert len(outputs) == len(set(outputs)) == 6
