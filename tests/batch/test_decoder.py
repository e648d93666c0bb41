"""A decoder of columns: what goes in, what comes out, and what is sent to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batch.jobs import MODEL, RememberingModel
from beamsplit import (
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    EngineError,
    Hamming,
    LateBranching,
    Sampling,
    decode,
)
from beamsplit.batch import COLUMNS, SPARK_COLUMNS, Decoder, decoder
from beamsplit.models import load
from beamsplit.models.scenes import painted
from engines.serving import Server
from research.chaos.small_model import SmallModel

TEXTS = ["one", "a longer text", "two", "three"]
MODELS: list[RememberingModel] = []


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """No model of another test is there."""
    decoder._KEPT.clear()
    MODELS.clear()


def make() -> RememberingModel:
    """A model that the tests can look at."""
    MODELS.append(RememberingModel(most_rows=3))
    return MODELS[-1]


def test_lists_are_those_of_decode() -> None:
    strategy = DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.5)
    found = Decoder(MODEL, strategy, max_length=4)({"text": np.array(TEXTS), "n": np.arange(4)})
    assert list(found) == ["text", "n", *COLUMNS]
    lists = decode(SmallModel(), TEXTS, strategy, max_length=4)
    assert found["texts"].tolist() == [list(each.texts) for each in lists]
    assert found["log_probs"].tolist() == [[h.log_prob for h in each] for each in lists]
    assert found["groups"].tolist() == [[h.group for h in each] for each in lists]
    assert found["tokens"].tolist() == [[list(h.tokens) for h in each] for each in lists]
    assert found["error"].tolist() == [None] * 4
    assert found["n"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("strategy", "same"),
    [
        (
            {"strategy": "dbs", "groups": 3, "beams_per_group": 1, "strength": 0.5, "diversity": "hamming"},
            None,
        ),
        (DiverseBeamSearch(groups=3, beams_per_group=1, strength=0.5, diversity=Hamming()), None),
        ("bs", BeamSearch(beams=6)),
        (None, LateBranching(outputs=6)),
    ],
)
def test_a_strategy_has_many_names(strategy: Any, same: Any) -> None:
    same = same or DiverseBeamSearch(groups=3, beams_per_group=1, strength=0.5)
    found = Decoder(MODEL, strategy, max_length=4)({"text": TEXTS})
    expected = decode(SmallModel(), TEXTS, same, max_length=4)
    assert found["tokens"].tolist() == [[list(h.tokens) for h in each] for each in expected]


def test_batches_of_all_kinds() -> None:
    """What comes out is what went in, with the same columns more."""
    pandas: Any = pytest.importorskip("pandas", reason="pip install '.[ray]'")
    arrow: Any = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    decoder = Decoder(MODEL, max_length=3)
    plain = decoder({"text": [*TEXTS, "bad"]})
    frame = pandas.DataFrame({"text": [*TEXTS, "bad"]}, index=[7, 6, 5, 4, 3])
    table = arrow.table({"text": [*TEXTS, "bad"]})
    as_frame, as_table = decoder(frame), decoder(table)
    assert isinstance(as_frame, pandas.DataFrame)
    assert as_frame.index.tolist() == [7, 6, 5, 4, 3]
    assert isinstance(as_table, arrow.Table)
    for name in COLUMNS:
        assert as_table[name].to_pylist() == plain[name].tolist()
        values = [None if value != value else value for value in as_frame[name].tolist()]  # NaN
        assert values == plain[name].tolist()
    assert plain["error"].tolist() == [None, None, None, None, "is refused"]
    assert plain["texts"][4] == plain["tokens"][4] == []
    with pytest.raises(ArgumentError, match="a batch is list: give a dictionary of columns"):
        decoder(TEXTS)


def test_tables_have_the_same_types_whatever_is_in_them() -> None:
    """Or batches could not be put together."""
    arrow: Any = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    decoder = Decoder(MODEL, max_length=3)
    tables = [decoder(arrow.table({"text": texts})) for texts in (["bad"], ["one"])]
    assert tables[0].schema == tables[1].schema
    spark = {"list<item: string>": "array<string>", "list<item: double>": "array<double>", "string": "string"}
    spark |= {"list<item: int32>": "array<int>", "list<item: list<item: int32>>": "array<array<int>>"}
    fields = [f"{name} {spark[str(tables[0].schema.field(name).type)]}" for name in COLUMNS]
    assert ", ".join(fields) == SPARK_COLUMNS


def test_frames_are_mapped_as_spark_gives_them() -> None:
    """`mapInPandas` calls a function with an iterator of DataFrames, and wants one."""
    pandas: Any = pytest.importorskip("pandas", reason="pip install '.[ray]'")
    mapped = Decoder(MODEL, max_length=3).frames(pandas.DataFrame({"text": [text]}) for text in TEXTS)
    found = [frame["texts"][0] for frame in mapped]
    assert found == Decoder(MODEL, max_length=3)({"text": TEXTS})["texts"].tolist()


def test_what_is_missing_has_no_list_and_no_error() -> None:
    found = Decoder(MODEL, max_length=3)({"text": [None, "one", float("nan"), 7]})
    assert [len(each) for each in found["texts"]] == [0, 6, 0, 0]
    assert found["error"].tolist() == [None, None, None, "is no text: 7"]


def test_the_column_is_found_or_named() -> None:
    decoder = Decoder(MODEL, max_length=3)
    assert (
        decoder({"id": [1], "text": ["one"], "input": ["two"]})["tokens"][0]
        == (Decoder(MODEL, max_length=3, column="q")({"q": ["two"]})["tokens"][0])
    )
    with pytest.raises(ArgumentError, match="none of the columns input, text, image, messages, but q: name "):
        decoder({"q": ["one"]})
    with pytest.raises(ArgumentError, match=r"^the batch has no column 'txt': did you mean 'text'\?$"):
        Decoder(MODEL, column="txt")({"text": ["one"]})
    with pytest.raises(ArgumentError, match=r"^the batch has a column 'tokens', which is one that the decod"):
        decoder({"text": ["one"], "tokens": [[1]]})


def test_tokens_go_in_as_lists() -> None:
    """Of a model that takes anything, such as an engine."""
    with Server() as server:
        found = Decoder(engine=server.url, engine_options={"tokenizer": False}, max_length=3, column="ids")(
            {"ids": np.array([[3, 4], [5, 6]])}
        )
        with pytest.raises(EngineError):
            Decoder(engine="http://127.0.0.1:9", engine_options={"kind": "vllm"})({"text": ["one"]})
    assert [len(each) for each in found["tokens"]] == [6, 6]
    assert found["error"].tolist() == [None, None]


def test_samples_depend_on_the_input_or_on_its_number() -> None:
    strategy = Sampling(samples=3)
    batch = {"text": ["one", "two", "one"], "n": [0, 1, 2]}
    found = Decoder(MODEL, strategy, max_length=4)(batch)["tokens"].tolist()
    alone = Decoder(MODEL, strategy, max_length=4)({"text": ["two"]})["tokens"].tolist()
    assert found[0] == found[2]
    assert found[1] == alone[0]
    assert decoder._number_of("one") == decoder._number_of(np.str_("one")) != decoder._number_of("two")
    assert Decoder(MODEL, strategy, max_length=4, seed=1)(batch)["tokens"].tolist() != found
    numbered = Decoder(MODEL, strategy, max_length=4, number_column="n")(batch)["tokens"].tolist()
    expected = decode(SmallModel(), batch["text"], strategy, max_length=4)
    assert numbered == [[list(h.tokens) for h in each] for each in expected]
    assert numbered[0] != numbered[2]
    with pytest.raises(ArgumentError, match="give its name as number_column"):
        Decoder(MODEL, numbers=[1])


def test_a_batch_that_does_not_fit_is_halved() -> None:
    found = Decoder(make, max_length=3, batch_size=4)({"text": [*TEXTS, "huge"]})
    assert found["texts"][:4].tolist() == Decoder(MODEL, max_length=3)({"text": TEXTS})["texts"].tolist()
    assert found["error"][4] == "does not fit into memory, even alone: no room for 1 texts"
    assert {len(batch) for batch in MODELS[0].batches} == {4, 2, 1}


def test_texts_of_like_length_go_together() -> None:
    Decoder(make, max_length=3, batch_size=2)({"text": ["aaa", "b", "cccc", "d"]})
    assert [batch for batch in MODELS[0].batches if batch] == [["b", "d"], ["aaa", "cccc"]]


def test_a_model_is_loaded_once_a_process() -> None:
    """Also if an engine sends the decoder anew, as Spark does with each task."""
    first = Decoder(make, max_length=3)
    for sent in (first, pickle.loads(pickle.dumps(first)), pickle.loads(pickle.dumps(first))):
        sent({"text": ["one"]})
    assert len(MODELS) == 1
    Decoder(make, max_length=4)({"text": ["one"]})
    assert len(MODELS) == 2
    assert len(decoder._KEPT) == 1, "two models may not fit into memory"


def test_it_is_small_to_send_and_loads_nothing_before() -> None:
    code = (
        "import pickle, sys; from beamsplit.batch import Decoder\n"
        "sent = pickle.dumps(Decoder('en-fr', max_length=20))\n"
        "assert len(sent) < 1000, len(sent)\n"
        "assert not [name for name in sys.modules if name.startswith(('ray', 'pandas', 'pyarrow'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_mistakes_are_known_before_anything_is_sent() -> None:
    with pytest.raises(ArgumentError, match="there is no option 'max_lenght': did you mean 'max_length'"):
        Decoder(MODEL, max_lenght=3)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="dbs has no setting 'beam'"):
        Decoder(MODEL, {"strategy": "dbs", "beam": 3})
    with pytest.raises(ArgumentError, match="batch_size must be a whole number of at least 1"):
        Decoder(MODEL, batch_size=0)
    with pytest.raises(ArgumentError, match="'much' is no amount of memory"):
        Decoder(MODEL, memory="much")
    with pytest.raises(ArgumentError, match=r"chat needs a model with a chat template, and .* has none"):
        Decoder(MODEL, chat=True)({"text": ["one"]})


def test_pictures_go_in_as_paths(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install '.[vision]'")
    (tmp_path / "boat.jpg").write_bytes(painted("boat"))
    found = Decoder("captioner")({"image": [str(tmp_path / "boat.jpg"), str(tmp_path / "no.jpg")]})
    captioner: Any = load("captioner")
    assert found["texts"][0] == list(captioner.caption(str(tmp_path / "boat.jpg")).texts)
    assert found["texts"][1] == []
    assert found["error"][1].startswith("cannot be read: No such file or directory")


def test_answers_of_a_chat_model_are_those_of_the_model_itself() -> None:
    """Questions, and messages as engines have them: arrays of dictionaries."""
    pytest.importorskip("transformers", reason="pip install '.[hf]'")
    from huggingface.test_chat import door, user

    asked = np.empty(3, dtype=object)
    asked[:] = ["fg", np.array([user("f")], dtype=object), [{"no": "message"}]]
    found = Decoder(door, chat=True, system="e", max_length=8)({"messages": asked})
    model = door()
    expected = [model.chat("fg", system="e", max_length=8), model.chat([user("f")], system="e", max_length=8)]
    assert found["tokens"][:2].tolist() == [[list(h.tokens) for h in each] for each in expected]
    assert "role" in found["error"][2]
