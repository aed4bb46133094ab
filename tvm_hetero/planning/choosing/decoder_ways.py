"""The ways in which a decoder may run on a machine: what makes most tokens, and pipelines.

filled      what `tvm_hetero.planning.decoding` plans: most tokens a second, layers wherever the
            busiest device has least to do, and as many batches in flight as that wants
pipelines   layers in stages that follow each other, with the fewest batches in flight that keep the
            busiest stage at work, and one more

The first one's batches cross each other's ways, and a token waits for all of them: a limit of the
time from token to token may leave little of it. A pipeline makes nearly as many tokens with few
batches in flight. Which one carries more within an SLO, the simulation says; and a stage is one leg
of a route, so that it says it soon (Llama 2 70B on four GPUs: 11 legs where the first one has 117).
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption, is_decoder, plan_replica
from tvm_hetero.planning.choosing.request import MachineOffer, ModelVariant
from tvm_hetero.planning.decoder_plan import DecoderPlan, DecoderRequest, one_pass
from tvm_hetero.planning.decoding import plan_decoder
from tvm_hetero.planning.services import context_of, service_of
from tvm_hetero.solvers import Options, solve

_CHUNK = 256
# Batches in flight beside the fewest that keep the busiest stage at work.
_MORE = 1


def plan_ways(
    variant: ModelVariant, machine: MachineOffer, batch: int, options: Options
) -> tuple[ReplicaOption, ...]:
    """All ways to run a variant on a machine with batches of up to `batch`; of a network one.

    Raises
    ------
    UsageError, InfeasibleError, SolverError
        As `plan_replica`: only where no way is left.
    """
    if not is_decoder(variant):
        return (plan_replica(variant, machine, batch, options),)
    if variant.precision != "float16":
        raise UsageError(
            f"variant {variant.name!r}: decoders of the zoo compute in float16, got "
            f"{variant.precision}; the format of weights is a parameter, weights: int8"
        )
    asked = DecoderRequest(
        variant.model, machine.platform, "throughput", batch, parameters=variant.parameters
    )
    pipelines = tuple(_option(variant, machine, p, "in stages") for p in _pipelines(asked, options))
    try:
        return (_option(variant, machine, plan_decoder(asked, options), ""), *pipelines)
    except (InfeasibleError, SolverError):
        if not pipelines:
            raise
        return pipelines


def _pipelines(asked: DecoderRequest, options: Options) -> Iterator[DecoderPlan]:
    """Stages with the fewest batches in flight that keep the busiest one at work, and one more."""
    lone = _stages(asked, 1, options)
    if lone is None:
        return
    fitting = None
    for in_flight in range(lone.needed, lone.needed + _MORE + 1):
        found = _stages(asked, in_flight, options)
        if found is not None:
            fitting = found
            yield found
    if fitting is None:  # caches of so many have no room
        yield lone


def _stages(asked: DecoderRequest, in_flight: int, options: Options) -> DecoderPlan | None:
    """The best pipeline with caches for so many batches; None if there is none."""
    problem = asked.problem(in_flight)
    try:
        schedule = solve(problem, "linear-dp", options)
    except (InfeasibleError, SolverError):
        return None
    return DecoderPlan(
        asked, problem, schedule, in_flight, one_pass(problem, schedule), schedule.value
    )


def _option(
    variant: ModelVariant, machine: MachineOffer, plan: DecoderPlan, way: str
) -> ReplicaOption:
    context = context_of(plan.wish)
    service = service_of(plan, min(_CHUNK, context))
    return ReplicaOption(
        variant, machine, plan.wish.batch, service, plan.schedule, context=context, way=way
    )
