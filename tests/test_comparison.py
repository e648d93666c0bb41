"""Lists side by side, worked by hand."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from beamsplit import Hypotheses, Hypothesis
from beamsplit.comparison import compare_lists, differences


def said(*texts: str) -> Hypotheses:
    return Hypotheses([Hypothesis((i,), -float(i), -float(i), text=text) for i, text in enumerate(texts)])


def test_where_texts_differ_word_by_word() -> None:
    assert differences("a b c", "a b c") == ()
    assert differences("a b c", "a x c") == ((2, 3),)
    assert differences("a b c", "x y a b c") == ((0, 3),)
    assert differences("a b c", "a c") == ()  # a word less is nothing to mark
    assert differences("", "a b") == ((0, 3),)
    assert differences("one two", "One two") == ((0, 3),)
    assert differences("l'été.", "l'hiver.") == ((2, 7),)
    assert differences("今日は晴れ", "今日は雨") == ((3, 4),)  # no spaces, so letter by letter


@given(st.text("ab \n'é日", max_size=12), st.text("ab \n'é日", max_size=12))
def test_differences_are_spans_of_the_text_without_its_margins(first: str, other: str) -> None:
    end = 0
    for start, stop in differences(first, other):
        assert end <= start < stop <= len(other)
        assert other[start:stop] == other[start:stop].strip()
        end = stop
    assert not differences(other, other)


def test_two_lists_compared() -> None:
    left, right = compare_lists([("BS", said("a b", "a c", "a b")), ("DBS", said("a b", "d e"))])
    assert (left.title, right.title) == ("BS", "DBS")
    assert left.hypotheses.texts == ("a b", "a c")  # each text once
    assert (left.repeats, right.repeats) == (1, 0)
    assert left.differs == ((), ((2, 3),))
    assert right.differs == ((), ((0, 3),))
    assert left.alone == (False, True)
    assert right.alone == (False, True)
    # Of four words: a, b, c are three different; "a b", "a c" two different pairs; there are no threes.
    assert left.distinct == {1: 0.75, 2: 0.5, 3: 0.0, 4: 0.0}
    assert right.distinct == {1: 1.0, 2: 0.5, 3: 0.0, 4: 0.0}


def test_a_model_without_words_has_numbers() -> None:
    (column,) = compare_lists(
        [("BS", Hypotheses([Hypothesis((4, 5), -1.0, -1.0), Hypothesis((4, 6), -2.0, -2.0)]))]
    )
    assert column.differs == ((), ((2, 3),))
    assert column.alone == (True, True)


def test_lists_may_be_empty() -> None:
    (nothing,) = compare_lists([("BS", Hypotheses())])
    assert nothing.differs == ()
    assert nothing.distinct == dict.fromkeys((1, 2, 3, 4), 0.0)
    (silent,) = compare_lists([("BS", said(""))])
    assert silent.distinct == dict.fromkeys((1, 2, 3, 4), 0.0)


def test_a_column_as_json() -> None:
    (column,) = compare_lists([("BS", said("a b", "a c"))])
    found = json.loads(json.dumps(column.as_dict()))
    assert found["title"] == "BS"
    assert found["hypotheses"][1]["text"] == "a c"
    assert found["hypotheses"][1]["differs"] == [[2, 3]]
    assert found["hypotheses"][1]["alone"] is True


def test_hypotheses_are_a_table_in_a_notebook() -> None:
    unfinished = Hypothesis((7,), -2.0, -2.0, group=1, finished=False)
    shown = Hypotheses([Hypothesis((4,), -1.234, -1.0, text="<b>bold</b> & so"), unfinished])._repr_html_()
    output = '<td style="text-align: left; white-space: pre-wrap">'
    assert f"<td>-1.23</td><td>0</td>{output}&lt;b&gt;bold&lt;/b&gt; &amp; so</td>" in shown
    assert f"<td>-2.00</td><td>1</td>{output}7 …</td>" in shown
