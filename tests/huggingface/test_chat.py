"""Chat models: messages in, answers out, by the tokenizer's own template."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from beamsplit import (
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    DiverseChunks,
    LengthNormalised,
    cli,
    decode,
)
from beamsplit.cli.chat_options import ChatOptions
from beamsplit.huggingface import from_transformers, load
from beamsplit.huggingface.chat import end_of_turn, render
from beamsplit.strategies.defaults import DEFAULTS, defaults_of
from cli.commands import entries, refusal
from huggingface.models import BOS, EOS, WORDS, build, tokenizer

TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ {'user': 'a', 'system': 'b', 'assistant': 'c'}[m['role']] }}{{ m['content'] }}t"
    "{% endfor %}{% if add_generation_prompt %}c{% endif %}"
)
TURN = WORDS.index("t")
GROUPS = DiverseBeamSearch(groups=3, strength=0.7)


def chat_tokenizer(template: str = TEMPLATE, **special: str) -> Any:
    made = tokenizer(**special)
    made.add_special_tokens({"additional_special_tokens": ["t"]})
    made.chat_template = template
    return made


def door(**special: str) -> Any:
    return from_transformers(build("llama"), chat_tokenizer(**special))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def ids(text: str) -> torch.Tensor:
    """What the template writes, token by token."""
    return torch.tensor([[WORDS.index(letter) for letter in text]])


# What the model reads


def test_messages_are_written_by_the_template_and_no_token_is_added() -> None:
    messages = [{"role": "system", "content": "e"}, user("fg")]
    (found,) = decode(door(), [messages], GROUPS, max_length=6)
    (expected,) = decode(door(), ids("betafgtc"), GROUPS, max_length=6)
    assert found == expected
    assert found.best.text is not None


@pytest.mark.parametrize("special", [{"pad_token": "<pad>"}, {}], ids=["padding", "no padding"])
def test_the_token_that_begins_texts_is_the_templates_to_write(special: dict[str, str]) -> None:
    made = chat_tokenizer(**special)
    begins = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    made.backend_tokenizer.post_processor = begins
    assert made("f")["input_ids"] == [BOS, WORDS.index("f")]
    found = decode(from_transformers(build("llama"), made), [[user("fg")], [user("h")]], GROUPS, max_length=6)
    expected = decode(door(), [[user("fg")], [user("h")]], GROUPS, max_length=6)
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in expected]


def test_one_conversation_is_a_batch_of_one() -> None:
    messages = [user("fg")]
    assert decode(door(), messages, GROUPS, max_length=6) == decode(door(), [messages], GROUPS, max_length=6)


@pytest.mark.parametrize("special", [{"pad_token": "<pad>"}, {}], ids=["padding", "no padding"])
def test_conversations_get_together_what_they_get_alone(special: dict[str, str]) -> None:
    several = [[user("f")], [user("ghij"), {"role": "assistant", "content": "k"}, user("l")], [user("mm")]]
    model = door(**special)
    together = decode(model, several, GROUPS, max_length=6)
    alone = [decode(model, [each], GROUPS, max_length=6)[0] for each in several]
    assert [[h.tokens for h in found] for found in together] == [[h.tokens for h in found] for found in alone]


def test_an_answer_that_is_begun_goes_on() -> None:
    begun = [user("f"), {"role": "assistant", "content": "gh"}]
    (found,) = decode(door(), [begun], GROUPS, max_length=5)
    (expected,) = decode(door(), ids("aftcgh"), GROUPS, max_length=5)
    assert found == expected


def test_texts_are_read_as_before() -> None:
    (found,) = decode(door(), ["fg"], GROUPS, max_length=5)
    (expected,) = decode(door(), ids("fg"), GROUPS, max_length=5)
    assert found == expected


# Where answers end


def test_the_end_of_a_turn_is_an_end_beside_the_models() -> None:
    assert door().end == [EOS, TURN]
    assert from_transformers(build("llama"), tokenizer()).end == [EOS]  # as before, without a template
    own = from_transformers(build("llama"), chat_tokenizer(), eos_token_id=5)
    assert own.end == [5]  # who names an end means that one
    found = decode(door(), [[user(c)] for c in "fghijk"], BeamSearch(beams=8), max_length=6)
    ended = {h.tokens[-1] for each in found for h in each if h.finished}
    assert ended == {EOS, TURN}


def test_a_template_that_ends_turns_by_no_special_token_adds_no_end() -> None:
    plain = "{% for m in messages %}a{{ m['content'] }}b{% endfor %}"
    assert from_transformers(build("llama"), chat_tokenizer(plain)).end == [EOS]
    silent = "{{ eos_token }}{% for m in messages %}a{% endfor %}"  # the answer is nowhere
    assert end_of_turn(chat_tokenizer(silent)) is None
    spaced = "{% for m in messages %}{{ m['content'] }}\n t{% endfor %}"
    assert end_of_turn(chat_tokenizer(spaced)) == TURN
    broken = "{{ raise_exception('never') }}"
    assert from_transformers(build("llama"), chat_tokenizer(broken)).end == [EOS]


def ended(template: str, *words: str) -> Any:
    made = chat_tokenizer(template)
    made.add_special_tokens({"additional_special_tokens": ["t", *words]})
    return made.convert_ids_to_tokens(end_of_turn(made))


def test_the_longest_token_ends_a_turn_as_the_tokenizer_reads_it() -> None:
    template = "{% for m in messages %}{{ m['content'] }}<end>{% endfor %}"
    assert ended(template, "<e", "<end>", "<end>x") == "<end>"


STYLES = {
    "Llama 3": (
        "{{ bos_token }}{% for m in messages %}<head>{{ m['role'] }}</head>\n\n{{ m['content'] | trim }}<eot>"
        "{% endfor %}{% if add_generation_prompt %}<head>assistant</head>\n\n{% endif %}",
        "<eot>",
        "<s><head>user</head>\n\nfg<eot><head>assistant</head>\n\n",
        "h",
    ),
    "Gemma": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{% for m in messages %}<turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
        "{{ m['content'] | trim }}<eot>\n{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}",
        "<eot>",
        "<s><turn>user\nfg<eot>\n<turn>model\n",
        "h",
    ),
    "Mistral": (  # which has no prompt for an answer
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
        "{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}",
        "</s>",
        "<s>[INST] fg [/INST]",
        "h ",
    ),
    "parts alone": (  # to which a text is nothing
        "{{ bos_token }}{% for m in messages %}a{% for part in m['content'] %}{% if part['type'] == 'text' %}"
        "{{ part['text'] }}{% endif %}{% endfor %}<eot>{% endfor %}"
        "{% if add_generation_prompt %}c{% endif %}",
        "<eot>",
        "<s>afg<eot>c",
        None,
    ),
}


@pytest.mark.parametrize("style", STYLES)
def test_templates_of_many_styles(style: str) -> None:
    template, end, asked, begun = STYLES[style]
    words = ("<head>", "</head>", "<eot>", "<turn>")
    assert ended(template, *words) == end
    made = chat_tokenizer(template)
    assert render(made, [user("fg")]) == asked
    assert render(made, [user([{"type": "text", "text": "f"}, {"type": "text", "text": "g"}])]) == asked
    if begun is not None:  # white space at the end stays, unless the template takes it away
        said = render(made, [user("fg"), {"role": "assistant", "content": "h "}])
        assert said == asked + begun


def test_templates_by_name_have_a_default() -> None:
    made = chat_tokenizer()
    made.chat_template = {"default": TEMPLATE, "tool_use": "{{ raise_exception('not this one') }}"}
    assert end_of_turn(made) == TURN
    assert render(made, [user("f")]) == "aftc"


def test_an_end_outside_the_vocabulary_is_none() -> None:
    made = chat_tokenizer("{% for m in messages %}{{ m['content'] }}<new>{% endfor %}")
    made.add_special_tokens({"additional_special_tokens": ["<new>"]})
    assert end_of_turn(made) == len(WORDS)
    assert from_transformers(build("llama"), made).end == [EOS]


def test_another_strategy_has_the_limits_of_chats() -> None:
    model, strategy = door(), DiverseChunks(groups=3, chunk=2, similarity="content")
    found = model.chat("f", strategy=strategy, max_length=5)
    limits = {**DEFAULTS["chat"].decode_options(), "max_length": 5, "return_per_group": None}
    assert found == decode(model, [[user("f")]], strategy, **limits)[0]
    assert [each.group for each in found] == [0, 1, 2]
    assert len(model.chat("f", strategy=GROUPS, max_length=4)) == GROUPS.groups * GROUPS.beams_per_group


# What is refused

REFUSED: list[tuple[Any, str]] = [
    ([[user("f")], "text"], "input 1 is 'text', and others are lists of messages"),
    ([[user("f")], []], "input 1 is [], and others are lists of messages"),
    ([[user("f"), "g"]], "input 0, message 1 is 'g': give {\"role\": "),
    ([[{"role": "user"}]], "input 0, message 0 has the content None: give a text"),
    ([[{"role": "user", "content": 3}]], "input 0, message 0 has the content 3: give a text"),
    ([[{"role": 1, "content": "f"}]], "input 0, message 0 is {'role': 1"),
    (
        [[{"role": "tool", "content": "f"}]],
        "the model's chat template refuses these messages: no tools here",
    ),
    (user("f"), "the input is one message, {'role': 'user', 'content': 'f'}: give a list, [{"),
    (
        [[user("f"), {"role": "assistant", "content": None, "tool_calls": [{}]}]],
        "the last message is the assistant's and has no text to go on with",
    ),
]


@pytest.mark.parametrize(("inputs", "line"), REFUSED)
def test_what_is_no_conversation_is_refused(inputs: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        decode(door(), inputs, GROUPS, max_length=4)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


CHATS: list[tuple[Any, dict[str, Any], str]] = [
    (None, {}, "the conversation is None: give [{"),
    ([], {"system": "e"}, "the conversation is []: give [{"),
    (["f", "g"], {}, "the conversation is ['f', 'g']: give [{"),
    ([[user("f")]], {}, "the conversation is [[{'role': 'user', 'content': 'f'}]]: give [{"),
    ([{"role": "system", "content": "e"}, user("f")], {"system": "g"}, "a system message of their own"),
    ("f", {"answers": 0}, "answers must be a whole number of at least 1, not 0"),
    ("f", {"strategy": GROUPS, "answers": 2}, "answers=2 is for the default strategy: DiverseBeamSearch has"),
]


@pytest.mark.parametrize(("messages", "options", "line"), CHATS)
def test_what_is_no_chat_is_refused(messages: Any, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        door().chat(messages, **{"max_length": 4, **options})
    assert line in str(raised.value)


def test_messages_need_a_template() -> None:
    model = from_transformers(build("llama"), tokenizer())
    assert not model.chats
    with pytest.raises(ArgumentError, match="has no chat template: give texts, a model that was trained to"):
        decode(model, [[user("f")]], GROUPS, max_length=4)


class _Pictures:
    """A processor whose template places pictures among words."""

    chat_template = "..."

    def __init__(self) -> None:
        self.tokenizer = tokenizer(pad_token="<pad>")
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    def __call__(self, **_: Any) -> Any:
        raise AssertionError("the template does it all")

    def apply_chat_template(self, conversations: Any, **options: Any) -> Any:
        if not options["tokenize"]:  # to see how an answer ends
            return "afgtc" + conversations[-1]["content"] + "</s>"
        self.asked.append((conversations, options))
        return self.tokenizer(["afg"] * len(conversations), return_tensors="pt")


def test_pictures_in_messages_are_left_to_the_processor() -> None:
    processor = _Pictures()
    model = from_transformers(build("llama"), processor)
    parts = [{"type": "image", "url": "cat.jpg"}, {"type": "text", "text": "What is it?"}]
    messages = [{"role": "user", "content": parts}]
    (found,) = decode(model, [messages], GROUPS, max_length=4)
    (expected,) = decode(model, ids("afg"), GROUPS, max_length=4)
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    conversations, options = processor.asked[-1]
    assert conversations == [messages]
    assert (options["add_generation_prompt"], options["continue_final_message"]) == (True, False)
    assert options["padding_side"] == "left"
    begun = [*messages, {"role": "assistant", "content": "f"}]
    decode(model, [begun, begun], GROUPS, max_length=4)
    _, options = processor.asked[-1]
    assert (options["add_generation_prompt"], options["continue_final_message"]) == (False, True)
    with pytest.raises(ArgumentError, match="input 1 ends with a message of the assistant, and input 0 does"):
        decode(model, [messages, begun], GROUPS, max_length=4)


# Answers by the defaults


def test_chat_returns_the_best_answer_of_each_group_by_the_defaults() -> None:
    model, defaults = door(), DEFAULTS["chat"]
    found = model.chat("fg", max_length=8)
    strategy = DiverseBeamSearch(groups=8, beams_per_group=2, strength=1.5)
    (expected,) = decode(
        model,
        [[user("fg")]],
        strategy,
        max_length=8,
        min_length=2,
        no_repeat_ngram=4,
        return_per_group=1,
        scorer=LengthNormalised(stop="first"),
    )
    assert found == expected
    assert len(found) == defaults.widths.groups
    assert sorted(h.group for h in found) == list(range(8))
    mean = [h.log_prob / len(h.tokens) for h in found]
    assert mean == sorted(mean, reverse=True)
    assert all(len(h.tokens) >= 2 for h in found)


def test_chat_takes_messages_a_system_message_and_options() -> None:
    model = door()
    spoken = model.chat([user("f")], system="e", answers=3, max_length=5)
    (expected,) = decode(
        model,
        [[{"role": "system", "content": "e"}, user("f")]],
        DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.5),
        **{**DEFAULTS["chat"].decode_options(), "max_length": 5},
    )
    assert spoken == expected
    with pytest.raises(ArgumentError, match="there is no option 'max_lenght'"):
        model.chat("f", max_lenght=5)


def test_answers_may_be_one_token_long() -> None:
    assert {len(h.tokens) for h in door().chat("f", max_length=1)} == {1}
    with pytest.raises(ArgumentError, match="min_length=3 is more than max_length=2"):
        door().chat("f", max_length=2, min_length=3)


def test_a_model_with_another_template_is_another(folder: str) -> None:
    origin = load(folder).origin
    chat_tokenizer(TEMPLATE + "g", pad_token="<pad>").save_pretrained(folder)
    assert load(folder).origin != origin


def test_language_models_and_encoder_decoders_have_their_own_defaults() -> None:
    assert defaults_of(door()) is DEFAULTS["text"]
    assert defaults_of(from_transformers(build("t5"), tokenizer())) is DEFAULTS["other"]


# The command


@pytest.fixture
def folder(tmp_path: Path) -> str:
    build("llama").save_pretrained(tmp_path)
    chat_tokenizer(pad_token="<pad>").save_pretrained(tmp_path)
    return str(tmp_path)


def test_generate_asks_a_chat_model(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("generate", "-m", folder, "--chat", "--system", "e", "fg", "--alone", "--max-length", "6")
    (line,) = entries(capsys, *asked)
    expected = load(folder).chat("fg", system="e", max_length=6)
    assert [each["text"] for each in line["hypotheses"]] == list(expected.distinct().texts)
    assert line["input"] == "fg"
    assert line["order"] == "score"
    assert line["strategy"].endswith("8 groups of 2, strength 1.5, hamming, the best of each group")


def test_a_model_that_can_chat_is_told_apart(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["generate", "-m", folder, "fg", "--max-length", "4"]
    hint = "This model has a chat template: with --chat it answers instead of going on.\n"
    for more, said in ((["--table"], True), (["--table", "--chat"], False), ([], False)):
        assert cli.main([*asked, *more]) == 0
        assert (hint in capsys.readouterr().err) == said


def test_beam_search_beside_it_has_as_many_answers(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = entries(capsys, "generate", "-m", folder, "--chat", "fg", "-g", "4", "--max-length", "6")
    assert line["beside"]["strategy"] == "beam search: 8 beams, the best 4"
    assert len(line["beside"]["hypotheses"]) + line["beside"]["repeats"] == 4


def test_what_chat_needs(
    folder: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--system is for --chat, which is not given" in refusal(
        capsys, "generate", "-m", folder, "--system", "e", "fg"
    )
    bare = tmp_path_factory.mktemp("bare")
    build("llama").save_pretrained(bare)
    tokenizer().save_pretrained(bare)
    assert cli.main(["generate", "-m", str(bare), "--chat", "fg"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]  # after the bars of transformers
    assert "--chat needs a model with a chat template" in line
    assert "leave --chat out" in line


def test_decode_asks_a_chat_model_line_by_line(folder: str, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"input": "fg"},
        {"id": "x", "messages": [user("h"), {"role": "assistant", "content": "i"}, user("j")]},
        {"messages": [{"role": "nobody"}]},
        {"messages": "fg"},
        {"messages": [{"role": "system", "content": "k"}, user("h")]},
        {"input": "h", "messages": [user("fg")]},  # a conversation says more
    ]
    (tmp_path / "asked.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    options = ("--chat", "--system", "e", "--max-length", "6")
    arguments = ["decode", str(tmp_path / "asked.jsonl"), "-m", folder, *options]
    assert cli.main([*arguments, "-o", str(tmp_path / "out.jsonl")]) == 2
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    model = load(folder)
    for entry, asked in zip([*found[:2], found[5]], ["fg", lines[1]["messages"], "fg"], strict=True):
        expected = model.chat(asked, system="e", max_length=6)
        assert [each["tokens"] for each in entry["hypotheses"]] == [list(h.tokens) for h in expected]
    assert [entry["id"] for entry in found] == ["0", "x", "2", "3", "4", "5"]
    assert found[4]["error"].startswith("the messages have a system message of their own, and another is ")
    assert found[1]["messages"] == lines[1]["messages"]
    assert 'line 3, "messages", message 0 has the content None: give a text' in found[2]["error"]
    assert "line 4, \"messages\" is 'fg': give [{" in found[3]["error"]


def test_messages_in_a_file_need_chat(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.jsonl").write_text(json.dumps({"messages": [user("f")]}) + "\n")
    assert cli.main(["decode", str(tmp_path / "asked.jsonl"), "-m", folder]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert 'line 1 has "messages", which are for a chat: ask for one (--chat)' in line


def test_with_chat_a_line_is_a_question(folder: str, tmp_path: Path) -> None:
    asked, out = tmp_path / "asked.txt", tmp_path / "out.jsonl"
    asked.write_text("fg\nh\n")
    same = ["decode", str(asked), "-m", folder, "-o", str(out), "--max-length", "4"]
    settings = ["-g", "8", "-b", "2", "-s", "1.5", "--return-per-group", "1"]
    assert cli.main([*same, *settings]) == 0
    without = out.read_bytes()
    assert cli.main([*same, "--chat", "--force"]) == 0
    assert out.read_bytes() != without  # the same settings, but the template makes a question of the line
    assert ChatOptions(True, "e").description != ChatOptions(True, None).description  # kept with a part
    assert ChatOptions(False, None).description == {}


# Arguments of the template's own

THINKING = TEMPLATE + "{% if enable_thinking is not defined or enable_thinking %}o{% endif %}"


def test_a_template_is_given_its_own_arguments() -> None:
    quiet = from_transformers(
        build("llama"), chat_tokenizer(THINKING), chat_template_kwargs={"enable_thinking": False}
    )
    thinking = from_transformers(build("llama"), chat_tokenizer(THINKING))
    for model, text in ((quiet, "aftc"), (thinking, "aftco")):
        (found,) = decode(model, [[user("f")]], GROUPS, max_length=5)
        (expected,) = decode(model, ids(text), GROUPS, max_length=5)
        assert found == expected


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("enable_thinking", "chat_template_kwargs must be a dictionary such as {'enable_thinking': False}"),
        ({1: 2}, "chat_template_kwargs must be a dictionary such as {'enable_thinking': False}, not {1: 2}"),
        ({"tokenize": True}, "chat_template_kwargs has tokenize, which is set here: leave it out"),
    ],
)
def test_arguments_of_a_template_that_are_none(template: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        from_transformers(build("llama"), chat_tokenizer(), chat_template_kwargs=template)
    assert str(raised.value).startswith(line)


def test_the_command_gives_a_template_its_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build("llama").save_pretrained(tmp_path)
    chat_tokenizer(THINKING, pad_token="<pad>").save_pretrained(tmp_path)
    asked = ("generate", "-m", str(tmp_path), "--chat", "f", "--alone", "--max-length", "6")
    quiet = '{"enable_thinking": false}'
    (line,) = entries(capsys, *asked, "--chat-template-kwargs", quiet)
    expected = load(tmp_path, chat_template_kwargs={"enable_thinking": False}).chat("f", max_length=6)
    capsys.readouterr()
    assert [each["tokens"] for each in line["hypotheses"]] == [list(h.tokens) for h in expected.distinct()]
    assert line["hypotheses"] != entries(capsys, *asked)[0]["hypotheses"]
    for given, said in (("{", "is not JSON"), ("[1]", 'is not a JSON object: give {"enable_thinking"')):
        assert f"--chat-template-kwargs {said}" in refusal(capsys, *asked, "--chat-template-kwargs", given)
    assert "--chat-template-kwargs is for --chat" in refusal(
        capsys, "generate", "-m", str(tmp_path), "f", "--chat-template-kwargs", quiet
    )


def test_a_template_with_other_arguments_is_another_model(tmp_path: Path) -> None:
    build("llama").save_pretrained(tmp_path)
    chat_tokenizer(THINKING).save_pretrained(tmp_path)
    plain, quiet = (load(tmp_path, chat_template_kwargs=each) for each in (None, {"enable_thinking": False}))
    assert plain.origin != quiet.origin


# The page


def test_the_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamsplit.huggingface.load", lambda name: door())
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"questions": ["f", "gh"], "my_reward_model": lambda texts: [0.0] * len(texts)}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        if "from_transformers" in block:
            names |= {"model": build("llama"), "tokenizer": chat_tokenizer()}
        exec(block, names)
    assert [len(found) for found in names["found"]] == [8, 8]
    assert [len(names[name]) for name in ("answers", "ideas")] == [5, 6]
