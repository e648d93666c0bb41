"""The server is killed in the midst of votes: nothing that it acknowledged is lost, nothing counts twice."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beamsplit.study import create_study
from study.conftest import Studies
from study.live import Server, Visitor
from study.small import plan, votes_per_item

pytest.importorskip("uvicorn")

ITEMS, VOTES, PEOPLE = 15, 3, 5


def test_killed_in_the_midst(studies: Studies, tmp_path: Path) -> None:
    store = studies.create(plan(items=ITEMS, votes=VOTES, annotators=PEOPLE))
    server = Server(studies.location, tmp_path)
    visitors = [Visitor(server.port, each.token) for each in store.annotators()]
    server.start()
    try:
        with ThreadPoolExecutor(PEOPLE) as pool:
            visits = [pool.submit(each.visit) for each in visitors]
            enough = random.randrange(3, ITEMS * VOTES - 15)
            while sum(len(each.acknowledged) for each in visitors) < enough:
                time.sleep(0.005)
            server.kill()
            kept = {(vote.annotator, vote.item): vote for vote in store.votes()}
            for name, each in zip(("a1", "a2", "a3", "a4", "a5"), visitors, strict=True):
                for item, side in dict(each.acknowledged).items():
                    vote = kept[name, str(item - 1)]
                    assert side == ("left" if vote.choice == vote.left else "right")
            server.start()
            for visit in visits:
                visit.result(timeout=60)
    finally:
        server.kill()
    assert votes_per_item(store) == {str(number): VOTES for number in range(ITEMS)}
    pairs = [(vote.annotator, vote.item) for vote in store.votes()]
    assert len(set(pairs)) == len(pairs) == sum(len(each.acknowledged) for each in visitors)


def test_the_log_has_no_links(tmp_path: Path) -> None:
    """Links are printed once, at the start."""
    store = create_study(str(tmp_path / "study.db"), plan(items=2, votes=1, annotators=1))
    token = store.annotators()[0].token
    store.close()
    server = Server(str(tmp_path / "study.db"), tmp_path)
    server.start()
    try:
        Visitor(server.port, token).visit()
    finally:
        server.kill()
    assert server.log.read_text().count(token) == 1
