"""One kernel for one step of beam search in groups: what `settle` and its callers do in a hundred small ones.

A program handles one input. It lets group after group pick from its candidate lists, penalised by how often
earlier groups have picked the token (the Hamming term) or by a table of what each candidate pays for each
other (other terms), sorts out what ends and what lives on, and checks the certificate. Groups come one after
another here, so there are no rounds; the results are those of the rounds.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from beamsplit.model import Shortlist
from beamsplit.search.kernels import Chosen, Costs, Outcome, on_device_of, power_of_two
from beamsplit.search.state import Beams

__all__ = ["choose", "choose_into", "fits", "is_quick"]

_MOST_PAIRS = 1 << 14  # numbers that one program compares at once
_MOST_BEAMS = 32  # of a group, which picks them one after another


def fits(groups: int, per_group: int, width: int) -> bool:
    """Tell whether the kernel can be used for so many beams in each group, and lists of this width."""
    return power_of_two(per_group * width) * _said_by(groups, per_group) <= _MOST_PAIRS


def is_quick(per_group: int) -> bool:
    """Tell whether picking one after another is quicker than sorting, for so many beams in each group."""
    return per_group <= _MOST_BEAMS


def _said_by(groups: int, per_group: int) -> int:
    """Return room for all that groups before the last may say."""
    return power_of_two(max((groups - 1) * per_group, 1))


def choose(
    beams: Beams, lists: Shortlist, costs: Costs | None, is_end: Tensor, count: int, keep: int
) -> Chosen:
    """Return `count` picks for each group; of those that do not end, the first `keep` live on.

    Without costs nobody pays.
    """
    outcome = Outcome.like(beams.score, lists.tokens, count, keep)
    choose_into(outcome, beams.score, beams.log_prob, lists, costs, is_end)
    return outcome.read()


def choose_into(
    outcome: Outcome,
    score: Tensor,
    log_prob: Tensor,
    lists: Shortlist,
    costs: Costs | None,
    is_end: Tensor,
) -> None:
    """Let groups pick, whose beams have this score and log_prob [batch group beam], without waiting."""
    batch, groups, per_group = score.shape
    width, count, keep = lists.tokens.shape[-1], outcome.picked.shape[3], outcome.live.shape[3]
    with on_device_of(score):
        _choose_kernel[(batch,)](
            *(values.contiguous() for values in (score, log_prob)),
            *(values.contiguous() for values in (lists.tokens, lists.log_prob, lists.gain, lists.rest)),
            is_end,
            *_given(costs, unused=score),
            *outcome,
            batch,
            groups,
            has_cost=costs is not None,
            has_table=costs is not None and costs.table is not None,
            has_settled=costs is not None and costs.settled is not None,
            has_least=costs is not None and costs.least is not None,
            beams=per_group,
            width=width,
            count=count,
            keep=keep,
            block=power_of_two(per_group * width),
            beam_block=power_of_two(per_group),
            keep_block=power_of_two(keep),
            said_block=_said_by(groups, per_group),
            num_warps=1 if per_group * width <= 256 else 4,
            enable_fp_fusion=False,  # round as the twin does
        )


def _given(costs: Costs | None, unused: Tensor) -> list[Tensor]:
    """Return the tensors of costs, with another in place of those that there are not."""
    tensors = [None] * 4 if costs is None else list(costs)
    return [unused if each is None else each.contiguous() for each in tensors]


@triton.jit
def _reach(score, rest, first, beam, wanted):  # type: ignore[no-untyped-def]  # the types are Triton's
    """Return two parts of the most that beams can reach by what is not listed."""
    nothing = -float("inf")
    return (
        tl.load(score + first + beam, mask=wanted, other=nothing),
        tl.load(rest + first + beam, mask=wanted, other=nothing),
    )


@triton.jit  # type: ignore[untyped-decorator]
def _choose_kernel(  # type: ignore[no-untyped-def]
    score,  # [batch group beam] of the beams
    log_prob,
    tokens,  # [batch group beam k] the candidates
    token_log_prob,
    gain,
    rest,  # [batch group beam]
    is_end,  # [vocab]
    strength,  # [group]
    table,  # [batch c c] in float64, what the second candidate pays for the first; without it, Hamming
    settled,  # [batch c] in float64, what candidates pay whatever is picked
    table_least,  # [batch c group*beam] in float64, what any token pays for a candidate at least
    picked,  # [3 batch group count] to be filled with parent, token, ends
    picked_scores,  # [3 batch group count] log_prob, score, cost
    live,  # [2 batch group keep] parent, token
    live_scores,  # [3 batch group keep] as above
    flags,  # [batch]
    batch,
    groups,
    has_cost: tl.constexpr,
    has_table: tl.constexpr,
    has_settled: tl.constexpr,
    has_least: tl.constexpr,
    beams: tl.constexpr,
    width: tl.constexpr,
    count: tl.constexpr,
    keep: tl.constexpr,
    block: tl.constexpr,
    beam_block: tl.constexpr,
    keep_block: tl.constexpr,
    said_block: tl.constexpr,
):
    nothing = -float("inf")
    place = tl.arange(0, block)
    listed = place < beams * width
    beam = tl.arange(0, beam_block)
    slot = tl.arange(0, keep_block)
    turn = tl.arange(0, said_block)
    said = tl.full([said_block], -1, tl.int64)  # what earlier groups say
    held = tl.full([said_block], -1, tl.int64)  # and its slot among all candidates
    candidates = groups * beams * width
    spoken = 0
    found = 0
    picked_size = batch * groups * count
    live_size = batch * groups * keep
    # What a group has is asked for while the group before it picks, since memory takes as long as picking.
    first = tl.program_id(0).to(tl.int64) * groups * beams
    next_before = tl.load(score + first + place // width, mask=listed, other=nothing)
    next_token = tl.load(tokens + first * width + place, mask=listed, other=-2)
    next_gain = tl.load(gain + first * width + place, mask=listed, other=nothing)
    next_reach, next_rest = _reach(score, rest, first, beam, beam < beams)
    next_ends = tl.load(is_end + next_token, mask=listed, other=0).to(tl.int32)
    for group in range(groups):
        at = tl.program_id(0).to(tl.int64) * groups + group
        first = at * beams
        token, ends = next_token, next_ends
        order = next_before + next_gain
        reach = next_reach + next_rest
        later = first + beams
        wanted = tl.where(listed, group + 1, groups) < groups
        next_before = tl.load(score + later + place // width, mask=wanted, other=nothing)
        next_token = tl.load(tokens + later * width + place, mask=wanted, other=-2)
        next_gain = tl.load(gain + later * width + place, mask=wanted, other=nothing)
        next_reach, next_rest = _reach(
            score, rest, later, beam, tl.where(beam < beams, group + 1, groups) < groups
        )
        found |= tl.max(tl.where(order != order, 1, 0), 0)  # NaN is never certain
        cost = tl.zeros_like(order)
        floor = tl.zeros([beam_block], order.dtype)
        if has_table:
            row = tl.program_id(0).to(tl.int64) * candidates + held
            own = group * beams * width + place
            heard = listed[:, None] & (held >= 0)[None, :]
            paid = tl.sum(tl.load(table + row[None, :] * candidates + own[:, None], mask=heard, other=0.0), 1)
            if has_settled:
                paid += tl.load(settled + first * width + place, mask=listed, other=0.0)
            cost = tl.load(strength + group) * paid.to(order.dtype)
            order = order - cost
            if has_least:
                own = group * beams + beam
                heard = (beam < beams)[:, None] & (held >= 0)[None, :]
                least = tl.load(
                    table_least + row[None, :] * (groups * beams) + own[:, None], mask=heard, other=0.0
                )
                floor = tl.load(strength + group) * tl.sum(least, 1).to(order.dtype)
        elif has_cost:
            times = tl.sum((token[:, None] == said[None, :]).to(order.dtype), 1)
            cost = tl.load(strength + group) * times
            order = order - cost
        bound = tl.max(reach - floor, 0)
        worst = tl.where(bound == bound, nothing, bound)
        last = worst
        alive = 0
        for pick in range(count):
            best, taken = tl.max(order, 0, return_indices=True, return_indices_tie_break_left=True)
            taken = tl.minimum(taken, beams * width - 1)
            parent = taken // width
            says = tl.load(tokens + first * width + taken)
            pays = tl.sum(tl.where(place == taken, cost, 0.0), 0)
            total = tl.load(log_prob + first + parent) + tl.load(token_log_prob + first * width + taken)
            ending = tl.max(tl.where(place == taken, ends, 0), 0) != 0
            out = at * count + pick
            tl.store(picked + out, parent.to(tl.int64))
            tl.store(picked + picked_size + out, says)
            tl.store(picked + 2 * picked_size + out, ending.to(tl.int64))
            tl.store(picked_scores + out, total)
            tl.store(picked_scores + picked_size + out, best)
            tl.store(picked_scores + 2 * picked_size + out, pays)
            lives = (ending == 0) & (alive < keep)
            out = at * keep + alive
            tl.store(live + out, parent.to(tl.int64), mask=lives)
            tl.store(live + live_size + out, says, mask=lives)
            tl.store(live_scores + out, total, mask=lives)
            tl.store(live_scores + live_size + out, best, mask=lives)
            tl.store(live_scores + 2 * live_size + out, pays, mask=lives)
            found |= tl.where(lives & ((parent != alive) | (keep != beams)), 8, 0)  # MOVES
            found |= tl.where(lives & (best == nothing), 4, 0)  # GAPS
            found |= tl.where(ending & (pick < keep) & (best != nothing), 2, 0)  # ENDS
            alive += tl.where(lives, 1, 0)
            worst = tl.where(lives & (alive == keep), best, worst)
            last = best
            word = tl.where(best == nothing, -1, says)
            slot_of_word = tl.where(pick < beams, spoken + pick, said_block)
            said = tl.where(turn == slot_of_word, word, said)
            candidate = tl.where(best == nothing, -1, group * beams * width + taken)
            held = tl.where(turn == slot_of_word, candidate, held)
            order = tl.where(place == taken, nothing, order)
        spoken += beams
        gap = (slot >= alive) & (slot < keep)
        none = tl.zeros([keep_block], order.dtype)
        out = at * keep + slot
        tl.store(live + out, tl.zeros_like(slot).to(tl.int64), mask=gap)
        tl.store(live + live_size + out, tl.zeros_like(slot).to(tl.int64), mask=gap)
        tl.store(live_scores + out, none, mask=gap)
        tl.store(live_scores + live_size + out, none + nothing, mask=gap)
        tl.store(live_scores + 2 * live_size + out, none, mask=gap)
        found |= tl.where(alive < keep, 4, 0)
        worst = tl.maximum(worst, last)
        found |= tl.where((worst > bound) | (bound == nothing), 0, 1)  # UNCERTAIN
        next_ends = tl.load(is_end + next_token, mask=wanted, other=0).to(tl.int32)
    tl.store(flags + tl.program_id(0), found)
