"""Where the candidates of a tuning come from: two spaces of schedules, searched one by one.

`RuleSpace`      what our rule would do under other facts
(`tvm_hetero.kernels.tuning.search_space`): few
                 schedules, nearly all of them good. It learns nothing.
`GeneralSpace`   MetaSchedule's own space for the target, searched by its evolutionary strategy.
                 Large; what was measured to be good is what it mutates next.

MetaSchedule is asked for candidates and told what they took; its builders, runners and task
scheduler are not used (the stock ones wait for a pool of processes and timed out here). Its
learned cost model needs xgboost, which is no requirement of ours: the random one stands in, so
candidates of a generation are mutations of the best measured ones, picked at random.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tvm.target import Target
    from tvm.tirx import PrimFunc

# Seconds of each trace that was tried, None where it gave no time.
Known = Mapping[str, float | None]

_GENERATION = 8  # candidates between two looks at what was measured
_POPULATION = 64
# Generations in a row in which MetaSchedule had nothing that was not tried before.
_FRUITLESS = 3
_MANY = 1 << 30
# What a failed candidate is said to have taken, s: the last to be mutated.
_FAILED_SECONDS = 1e10


class TuningSpace(Protocol):
    """Something that proposes schedules."""

    def propose(self, known: Known) -> Iterator[str]:
        """Traces to try, one at a time, none that is `known`.

        `known` is a live view: before the next trace is asked for, the last one has been tried
        and is in it.
        """
        ...


class RuleSpace:
    """Our own rule under other facts; at most `most` schedules in all."""

    def __init__(self, func: PrimFunc, target: Target, most: int) -> None:
        self._func, self._target, self._most = func, target, most

    def propose(self, known: Known) -> Iterator[str]:
        """The variations that are not known."""
        from tvm_hetero.kernels.tuning.search_space import find_variations
        from tvm_hetero.kernels.tuning.trace import facts_text

        for rule, facts in islice(find_variations(self._func, self._target), self._most):
            text = facts_text(rule, facts)
            if text not in known:
                yield text


class GeneralSpace:
    """MetaSchedule's space for a target, searched from what is known already."""

    def __init__(self, func: PrimFunc, target: Target, seed: int) -> None:
        self._func, self._target, self._seed = func, target, seed

    def propose(self, known: Known) -> Iterator[str]:
        """One generation after the other, until the strategy ends or finds nothing new."""
        from tvm_hetero.kernels.tuning.trace import trace_text

        try:
            search = _TuningSearch(self._func, self._target, self._seed + len(known), known)
        except (RuntimeError, ValueError, TypeError):
            return  # a kernel of which MetaSchedule can make nothing
        fruitless = 0
        while fruitless < _FRUITLESS:
            candidates = search.next_generation()
            if candidates is None:
                return
            texts = [trace_text(candidate.sch) for candidate in candidates]
            new = [text for text in dict.fromkeys(texts) if text not in known]
            fruitless = 0 if new else fruitless + 1
            yield from new
            search.learn(candidates, [known[text] for text in texts])


class _TuningSearch:
    """One run of MetaSchedule's evolutionary strategy, with a database in memory."""

    def __init__(self, func: PrimFunc, target: Target, seed: int, known: Known) -> None:
        import tvm
        from tvm.s_tir import meta_schedule as ms

        main = func.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
        module = tvm.IRModule({"main": main})
        self._target = target
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(module)
        strategy = ms.SearchStrategy.create(
            "evolutionary", population_size=_POPULATION, genetic_num_iters=2, max_fail_count=10
        )
        with _no_intrinsics():
            self._context = ms.TuneContext(
                module,
                target=target,
                space_generator=_space_generator(ms),
                search_strategy=strategy,
                rand_state=1 + seed % (2**31 - 2),
                num_threads=1,
            )
        self._remember(func, known)
        self._context.pre_tuning(
            _MANY,
            _GENERATION,
            self._context.generate_design_space(),
            self._database,
            ms.CostModel.create("random"),
        )

    def next_generation(self) -> Sequence[Any] | None:
        """Candidates to measure, None where the strategy has no more."""
        found = self._context.generate_measure_candidates()
        return list(found) if found else None

    def learn(self, candidates: Sequence[Any], seconds: Sequence[float | None]) -> None:
        """Take note of what the candidates of a generation took."""
        from tvm.s_tir import meta_schedule as ms

        for candidate, taken in zip(candidates, seconds, strict=True):
            self._add(candidate.sch.trace, taken)
        results = [ms.runner.RunnerResult([taken or _FAILED_SECONDS], None) for taken in seconds]
        self._context.notify_runner_results(list(candidates), results)

    def _remember(self, func: PrimFunc, known: Known) -> None:
        """Fill the database with what was measured in earlier runs, of this space."""
        from tvm_hetero.kernels.tuning.trace import replay_trace

        for text, seconds in known.items():
            sch = replay_trace(func, text, self._target)
            if sch is not None:
                self._add(sch.trace, seconds)

    def _add(self, trace: Any, seconds: float | None) -> None:
        from tvm.s_tir.meta_schedule.database import TuningRecord

        taken = [seconds or _FAILED_SECONDS]
        self._database.commit_tuning_record(
            TuningRecord(trace, self._workload, taken, self._target)
        )


def _space_generator(ms: Any) -> Any:
    """MetaSchedule's space for CPUs, without the rule that warns of every operator by name."""
    rules = [
        rule
        for rule in ms.ScheduleRule.create("llvm")
        if not isinstance(rule, ms.schedule_rule.ApplyCustomRule)
    ]
    return ms.space_generator.PostOrderApply(
        sch_rules=rules,
        postprocs=ms.Postproc.create("llvm"),
        mutator_probs=ms.Mutator.create("llvm"),
    )


@contextmanager
def _no_intrinsics() -> Iterator[None]:
    """Keep a `TuneContext` from importing TVM's intrinsics of tensor units.

    That import parses hundreds of functions for GPUs, for seconds; schedules of CPUs that
    `_space_generator` knows use none of them.
    """
    name = "tvm.s_tir.tensor_intrin"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        del sys.modules[name]
