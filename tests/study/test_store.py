"""Laws of votes: on SQLite always, on PostgreSQL where there is one."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from beamsplit.errors import ArgumentError
from beamsplit.study import Store, create_study, database, open_study
from study.conftest import Studies
from study.small import CHECK, Clock, answer_all, item, plan, votes_per_item

# Exactly so many votes


def check_votes(store: Store, votes: int, items: int) -> None:
    assert votes_per_item(store) == {str(number): votes for number in range(items)}
    pairs = Counter((vote.item, vote.annotator) for vote in store.votes())
    assert set(pairs.values()) == {1}


def test_one_after_the_other(studies: Studies) -> None:
    store = studies.create(plan(items=4))
    assert [answer_all(store, each) for each in store.annotators()] == [4, 4, 0]
    check_votes(store, votes=2, items=4)


def test_threads_at_once(studies: Studies) -> None:
    store = studies.create(plan(items=5, votes=3, annotators=8, checks=(CHECK,)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: answer_all(store, each), store.annotators()))
    check_votes(store, votes=3, items=5)


def test_threads_of_one_server_wait_for_their_turn_and_not_for_luck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite refuses a second writer, here at once: nobody of the same server ever gets that far."""
    tried_again: list[int] = []

    def wait(most: int) -> int:
        tried_again.append(most)
        return 0

    monkeypatch.setattr(database, "_TIMEOUT", 0)
    monkeypatch.setattr("secrets.randbelow", wait)
    store = create_study(str(tmp_path / "study.db"), plan(items=8, votes=4, annotators=8))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: answer_all(store, each), store.annotators()))
    store.close()
    assert tried_again == []


def test_two_windows_of_everybody_at_once(studies: Studies) -> None:
    """Both may show the same item; it is counted once."""
    store = studies.create(plan(items=4, votes=2, annotators=3))

    def insist(window: int) -> int:
        annotator, counted = store.annotators()[window % 3], 0
        while (given := store.give(annotator)) is not None:
            fate = store.vote(annotator, given.item, "left")
            assert fate in ("counted", "before")
            counted += fate == "counted"
        return counted

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(insist, range(6))) == 4 * 2
    check_votes(store, votes=2, items=4)


def vote_alone(location: str, number: int) -> None:
    store = open_study(location)
    answer_all(store, store.annotators()[number])
    store.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # nothing else runs here by then
def test_processes_at_once(studies: Studies) -> None:
    studies.create(plan(items=4, votes=2, annotators=3)).close()
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=vote_alone, args=(studies.location, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    check_votes(studies.open(), votes=2, items=4)


def test_nobody_is_asked_more_than_their_share(studies: Studies) -> None:
    store = studies.create(plan(items=4, votes=2, annotators=4, share=2))
    assert [answer_all(store, each) for each in store.annotators()] == [2, 2, 2, 2]
    check_votes(store, votes=2, items=4)


# An item is held


def test_the_same_item_until_it_is_answered(studies: Studies) -> None:
    store = studies.create(plan())
    first, *_ = store.annotators()
    given = store.give(first)
    assert given is not None
    assert store.give(first) == given
    assert studies.open().give(first) == given
    store.vote(first, given.item, "right")
    assert store.give(first) != given


def test_a_vote_sent_twice_counts_once_and_the_first_stands(studies: Studies) -> None:
    store = studies.create(plan())
    first, *_ = store.annotators()
    given = store.give(first)
    assert given is not None
    assert [store.vote(first, given.item, side) for side in ("left", "left", "right")] == [
        "counted",
        "before",
        "before",
    ]
    (vote,) = store.votes()
    assert vote.choice == vote.left


def test_a_choice_is_of_the_list_that_was_shown_there(studies: Studies) -> None:
    store = studies.create(plan(items=6, votes=3, annotators=3))
    for annotator in store.annotators():
        while (given := store.give(annotator)) is not None:
            side = "left" if given.left[0].startswith("dbs") else "right"
            store.vote(annotator, given.item, side)
    assert {vote.choice for vote in store.votes()} == {"second"}
    assert {vote.left for vote in store.votes()} == {"first", "second"}  # 18 draws: else, a chance of 2^-17


def test_nobody_votes_on_what_they_were_not_given(studies: Studies) -> None:
    store = studies.create(plan())
    first, second, _ = store.annotators()
    given = store.give(first)
    assert given is not None
    assert store.vote(second, given.item, "left") == "foreign"
    assert store.vote(first, 99, "left") == "foreign"
    assert store.votes() == []


# Time passes


def test_an_item_left_lying_goes_to_someone_else(studies: Studies) -> None:
    clock = Clock()
    store = studies.create(plan(items=1, votes=1, annotators=2, patience=60), clock=clock)
    slow, other = store.annotators()
    given = store.give(slow)
    assert given is not None
    assert store.give(other) is None
    assert store.standing(other).busy
    clock.now += 61
    assert store.give(other) is not None
    assert store.vote(slow, given.item, "left") == "late"
    assert store.give(slow) is None  # nobody is shown an item twice
    assert store.vote(other, given.item, "left") == "counted"
    check_votes(store, votes=1, items=1)


def test_a_late_vote_counts_while_nobody_else_has_the_item(studies: Studies) -> None:
    clock = Clock()
    store = studies.create(plan(items=1, votes=1, annotators=2, patience=60), clock=clock)
    slow, other = store.annotators()
    given = store.give(slow)
    assert given is not None
    clock.now += 1000
    assert store.vote(slow, given.item, "left") == "counted"
    assert store.give(other) is None


def test_who_lost_an_item_may_be_given_it_back(studies: Studies) -> None:
    """Otherwise an item could end with fewer votes than asked for, with someone there who would vote."""
    clock = Clock()
    store = studies.create(plan(items=1, votes=1, annotators=2, patience=60), clock=clock)
    slow, away = store.annotators()
    given = store.give(slow)
    assert given is not None
    clock.now += 61
    assert store.give(away) is not None
    assert store.give(slow) is None  # it is the other's now
    clock.now += 61
    assert store.give(slow) == given  # the same sides as before
    assert store.vote(away, given.item, "left") == "late"
    assert store.vote(slow, given.item, "left") == "counted"
    assert (store.give(slow), store.give(away)) == (None, None)
    assert len(store.votes()) == 1


def test_to_look_at_an_item_again_is_to_hold_it_longer(studies: Studies) -> None:
    clock = Clock()
    store = studies.create(plan(items=1, votes=1, annotators=2, patience=60), clock=clock)
    slow, other = store.annotators()
    store.give(slow)
    clock.now += 50
    store.give(slow)
    clock.now += 50
    assert store.give(other) is None


def test_takers_at_once_of_one_item_left_lying(studies: Studies) -> None:
    clock = Clock()
    store = studies.create(plan(items=1, votes=1, annotators=6, patience=60), clock=clock)
    slow, *others = store.annotators()
    store.give(slow)
    clock.now += 61
    with ThreadPoolExecutor(5) as pool:
        given = list(pool.map(store.give, others))
    assert sum(each is not None for each in given) == 1


# Checks of attention


def test_everybody_is_checked_and_never_first(studies: Studies) -> None:
    second = item("check 2", answer="second")
    store = studies.create(plan(items=6, votes=3, annotators=3, checks=(CHECK, second)))
    for annotator in store.annotators():
        total = store.standing(annotator).left
        assert answer_all(store, annotator) == total == 8
    votes = store.votes()
    for annotator in store.annotators():
        theirs = [vote for vote in votes if vote.annotator == annotator.name]
        assert sorted(vote.item for vote in theirs if vote.check) == ["check", "check 2"]
        assert not theirs[0].check


def test_a_check_is_passed_by_the_right_list(studies: Studies) -> None:
    store = studies.create(plan(items=1, votes=2, annotators=2, checks=(CHECK,)))
    for annotator, wanted in zip(store.annotators(), (True, False), strict=True):
        while (given := store.give(annotator)) is not None:
            right = given.left == CHECK.first or given.right == CHECK.second
            store.vote(annotator, given.item, "left" if right is wanted else "right")
    assert [(each.checks, each.failed) for each in store.progress()] == [(1, 0), (1, 1)]


# People


def test_links_lead_to_their_people_alone(studies: Studies) -> None:
    store = studies.create(plan())
    people = store.annotators()
    assert [store.annotator(each.token) for each in people] == people
    assert store.annotator("x" * 24) is None
    assert store.annotator(store.study.admin_token) is None
    assert store.is_admin(store.study.admin_token)
    assert not store.is_admin(people[0].token)
    assert len({each.token for each in people} | {store.study.admin_token}) == 4


def test_more_people(studies: Studies) -> None:
    store = studies.create(plan())
    assert [each.name for each in store.add_annotators(2)] == ["a4", "a5"]
    assert [each.name for each in store.annotators()] == ["a1", "a2", "a3", "a4", "a5"]


def test_a_picture_is_for_those_who_were_shown_the_item(studies: Studies) -> None:
    shown = plan(items=1, votes=1, annotators=2)
    store = studies.create(replace(shown, items=(item("0", picture=b"jpeg"),)))
    first, second = store.annotators()
    given = store.give(first)
    assert given is not None
    assert given.picture
    assert store.picture(first, given.item) == b"jpeg"
    assert store.picture(second, given.item) is None


# The database itself


def test_a_study_is_never_overwritten(studies: Studies) -> None:
    studies.create(plan()).close()
    with pytest.raises(ArgumentError, match=r"already exists: give another name|already has a study"):
        studies.create(plan())
    assert len(studies.open().items()) == 4


def test_the_database_itself_refuses_a_vote_too_many(tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    store = create_study(str(file), plan(items=2, votes=2))
    first, _, third = store.annotators()
    answer_all(store, first)
    held = store.give(third)
    store.close()
    assert held is not None
    connection = sqlite3.connect(file)
    columns = "item, annotator, slot, left, shown, expires, choice"
    slot_twice, person_twice = "1, 2, 1, 'first', 0, 0, 'first'", "1, 1, 2, 'first', 0, 0, 'first'"
    two_at_once = f"{3 - held.item}, 3, 2, 'first', 0, 0, NULL"
    for row in (slot_twice, person_twice, two_at_once):
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            connection.execute(f"INSERT INTO study_showings ({columns}) VALUES ({row})")
    connection.close()


def test_what_is_committed_is_on_the_disk(tmp_path: Path) -> None:
    store = create_study(str(tmp_path / "study.db"), plan())
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    store.close()


def test_a_study_that_fails_leaves_nothing(tmp_path: Path) -> None:
    twice = plan(items=1, votes=1, checks=(item("0"),))
    with pytest.raises((ArgumentError, IntegrityError)):
        create_study(str(tmp_path / "study.db"), twice)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("none.db", "there is no study none.db: make one with beamsplit study create"),
        ("mysql://x/y", "'mysql' databases cannot hold studies: give a file such as pilot.db"),
        ("://", "'://' is not the address of a database: give a file such as pilot.db"),
        (
            "postgresql://u:secret@localhost:1/x",
            r"postgresql://u:\*\*\*@localhost:1/x cannot be used",
        ),
    ],
)
def test_no_study_there(location: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as error:
        open_study(location)
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all" * 100)
    with pytest.raises(ArgumentError, match=r"text\.db cannot be used: file is not a database"):
        open_study(str(tmp_path / "text.db"))
    sqlite3.connect(tmp_path / "other.db").close()
    (tmp_path / "other.db").touch()
    with pytest.raises(ArgumentError, match=r"other\.db has no study: make one with"):
        open_study(str(tmp_path / "other.db"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"votes": 0}, "votes must be a whole number of at least 1, not 0"),
        ({"annotators": 1}, "annotators is 1 and votes is 2, and nobody votes twice on an item: give 2"),
        ({"items": ()}, "a study of no items has nothing to ask"),
        ({"second": "BS"}, "both lists are called 'BS'"),
        ({"share": 2}, "3 annotators with a share of 2 give 6 votes, and 4 items need 8: raise annotators"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"patience": 0}, "patience must be a finite number above 0, not 0"),
    ],
)
def test_plans_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        replace(plan(), **changes)


def test_nobody_loses_an_item_to_someone_who_could_have_another(studies: Studies) -> None:
    clock = Clock()
    store = studies.create(plan(items=2, votes=1, annotators=2, patience=60), clock=clock)
    slow, other = store.annotators()
    given = store.give(slow)
    clock.now += 1000
    another = store.give(other)
    assert given is not None
    assert another is not None
    assert another.item != given.item
