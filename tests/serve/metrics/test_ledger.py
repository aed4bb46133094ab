"""What each query adds; which series stay."""

from __future__ import annotations

import pytest

from tvm_hetero.serve.metrics.histogram import BOUNDS, TimeHistogram
from tvm_hetero.serve.metrics.ledger import Ledger, judge
from tvm_hetero.serve.metrics.token_ledger import TokenLedger
from tvm_hetero.serve.models.statistics import EndedGeneration, EndedQuery


def ended(outcome: str = "success", whole: float = 0.03, slo: float | None = 0.02) -> EndedQuery:
    return EndedQuery("net", "1", outcome, "", 0.01, 0.015, whole, 2, slo)


def test_an_answered_query_is_in_all_three_histograms():
    ledger = Ledger()
    ledger.end_query(ended())
    row = ledger.version("net", "1")
    assert (row.whole.total, row.queued.total, row.computed.total) == (0.03, 0.01, 0.015)
    assert (row.items, row.outcomes["success"]) == (2, 1)


def test_a_batch_is_one_run_of_all_that_were_in_it():
    ledger = Ledger()
    for runs in (1, 0, 0):
        ledger.end_query(EndedQuery("net", "1", "success", "", 0, 1, 1, 1, None, runs, 3))
    ledger.end_query(EndedQuery("net", "1", "success", "", 0, 1, 1, 1, None, 1, 1))
    row = ledger.version("net", "1")
    assert (row.joined, row.batches, row.executions) == (3, 1, 2)
    now = ledger.recent("net").at(ledger.second)
    assert (now.joined, now.batches) == (3, 1)


def test_times_of_what_was_not_answered_are_in_none():
    ledger = Ledger()
    for outcome in ("refused", "deadline", "failed", "cancelled"):
        ledger.end_query(ended(outcome))
    row = ledger.version("net", "1")
    assert row.whole.count == row.queued.count == row.computed.count == row.items == 0
    assert sum(row.outcomes.values()) == 4


@pytest.mark.parametrize(
    ("query", "met"),
    [
        (ended(whole=0.02), True),
        (ended(whole=0.021), False),
        (ended("deadline"), False),
        (ended("failed"), False),
        (ended("refused"), None),
        (ended("cancelled"), None),
        (ended("failed", slo=None), None),
        (ended(slo=None), None),
    ],
)
def test_an_objective_is_met_missed_or_not_judged(query, met):
    assert judge(query) is met


def test_a_server_whose_models_are_loaded_again_and_again_does_not_grow():
    ledger = Ledger()
    tokens = TokenLedger(ledger, lambda _: 0.2)
    for version in map(str, range(50)):
        ledger.end_query(EndedQuery("net", version, "success"))
        tokens.first_token("net", version, 1, 0.1)
    assert [version for _, version, _ in ledger] == ["46", "47", "48", "49"]
    assert [version for _, version, _ in tokens] == ["46", "47", "48", "49"]


def test_a_histogram_adds_up_as_prometheus_wants_it():
    times = TimeHistogram()
    for seconds in (0.0, 1e-4, 1.1e-4, 7.0, 1e9):
        times.add(seconds)
    rows = dict(times.cumulative())
    assert (rows["0.0001"], rows["0.00025"], rows["60.0"], rows["+Inf"]) == (2, 3, 4, 5)
    assert list(rows.values()) == sorted(rows.values())
    assert len(rows) == len(BOUNDS) + 1


def test_tokens_are_counted_as_they_come():
    now = [100.0]
    ledger = Ledger(lambda: now[0])
    tokens = TokenLedger(ledger, lambda _: 0.2)
    tokens.first_token("gpt", "1", 12, 0.2)
    now[0] = 101.5
    tokens.next_token("gpt", "1", 0.03)
    tokens.next_token("gpt", "1", 0.04)
    tokens.generation_ended(EndedGeneration("gpt", "1", 12, 0, 3, 0.1, 0.2, 0.27, "stop"))
    ((_, _, row),) = tokens
    assert (row.prompt, row.generated, row.first.count, row.between.count) == (12, 3, 1, 2)
    assert [second.tokens for second in ledger.recent("gpt").before(102)][-2:] == [1, 2]
    assert row.finished == {"stop": 1}
    assert row.whole.total == 0.27
    assert row.prefill.total == pytest.approx(0.1)
    assert row.decode.total == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("reason", "outcome", "refused"),
    [
        ("stop", "success", {}),
        ("length", "success", {}),
        ("deadline", "deadline", {}),
        ("cancelled", "cancelled", {}),
        ("failed", "failed", {}),
        ("refused: queue_full", "refused", {"queue_full": 1}),
    ],
)
def test_a_text_that_is_over_counts_as_a_query(reason, outcome, refused):
    ledger = Ledger()
    tokens = TokenLedger(ledger, lambda _: 0.2)
    tokens.generation_ended(EndedGeneration("gpt", "1", 12, 0, 3, 0.1, 0.2, 0.27, reason))
    row = ledger.version("gpt", "1")
    assert row.outcomes == {outcome: 1}
    assert row.refused == refused
    assert row.missed == (outcome in ("success", "deadline", "failed"))
