"""Our diverse beam search for transformers beside what transformers 4.55.4 did, case by recorded case.

The emulator in golden/ finds what was recorded (test_golden.py) if its switches are set as in 4.55.4. Set our
way, it must find what we find: so these three decisions are all that sets our sequences apart. The others
(docs/transformers.md) are about scores and order, and are undone here by comparing what belongs together.
"""

from __future__ import annotations

import pytest

from beamsplit.huggingface import diverse_beam_search
from golden.cases import Case, build, cases, emulated
from golden.emulator import Switches

OURS = Switches(later_groups_see="best", finished_groups_say_pad=False, penalty_comes="last")


def decoded(case: Case) -> list[list[tuple[int, tuple[int, ...], float]]]:
    """Group, generated tokens and score of everything we return, for each input."""
    run = build(case)
    output = run.model.generate(**run.inputs, **run.kwargs, custom_generate=diverse_beam_search)
    lengths = (output.beam_indices >= 0).sum(1).tolist()
    rows = output.sequences[:, run.prompt :].tolist()
    entries = [
        (group, tuple(row[:length]), score)
        for group, row, length, score in zip(
            output.groups.tolist(), rows, lengths, output.sequences_scores.tolist(), strict=True
        )
    ]
    beams = run.kwargs["num_beams"]
    return [entries[at : at + beams] for at in range(0, len(entries), beams)]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_we_find_what_4_55_4_would_have_found_but_for_three_decisions(case: Case) -> None:
    for ours, theirs in zip(decoded(case), emulated(case, OURS), strict=True):
        expected = sorted((f.group, f.tokens) for f in theirs)
        assert sorted((group, tokens) for group, tokens, _ in ours) == expected
        scores = {(f.group, f.tokens): f.log_prob for f in theirs}
        assert [score for *_, score in ours] == pytest.approx(
            [scores[group, tokens] for group, tokens, _ in ours], abs=1e-4
        )
        assert [score for *_, score in ours] == sorted((score for *_, score in ours), reverse=True)
