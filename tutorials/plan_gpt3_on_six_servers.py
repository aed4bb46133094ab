"""Plan GPT-3 175B on six servers that you do not have, and read the plan.

Run it from the repository, after ``make setup``; TVM is not needed:

    .venv/bin/python tutorials/plan_gpt3_on_six_servers.py

The same on the command line: ``tvm-hetero plan gpt3-175b --platform platforms/gpt3-6node.yaml``
and ``tvm-hetero simulate gpt3-175b --arrivals 0.01``.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_hetero import zoo
from tvm_hetero.check import check_schedule
from tvm_hetero.planning import DecoderPlan, DecoderRequest, plan_decoder
from tvm_hetero.planning.layers import list_holdings
from tvm_hetero.planning.requests import parse_lengths, poisson
from tvm_hetero.planning.service import play
from tvm_hetero.planning.services import service_of
from tvm_hetero.planning.symmetry_counts import symmetry_counts
from tvm_hetero.report.planning.service import explain_saturation
from tvm_hetero.solvers import Options


def main() -> tuple[DecoderPlan, DecoderPlan]:
    """Tell the story; returns the plan for latency and the one for throughput."""
    # ---------------------------------------------------------------- 1. a model and a cluster
    # Weights in 16 bits and the keys and values of one sequence of 2048 tokens. No GPU of the
    # cluster holds more than a few layers, and all GPUs together do not hold the model.
    network = zoo.work_graph("gpt3-175b")
    platform = zoo.platform("gpt3-6node")
    memory = sum(device.memory or 0 for device in platform.devices)
    print(f"1. weights {network.weight_bytes / 1e9:.0f} GB, caches of a sequence "
          f"{sum(work.cache for work in network.works) / 1e9:.1f} GB")  # fmt: skip
    print(f"   {len(platform.devices)} devices in 6 servers have {memory / 1e9:.0f} GB together")

    # ---------------------------------------------------------------- 2. a plan for latency
    # The answer comes with a bound: no plan of this problem is quicker by more than the gap. The
    # judge of schedules shares no code with the solver that found it.
    plan = plan_decoder(DecoderRequest("gpt3-175b", platform))
    assert check_schedule(plan.problem, plan.schedule) == []
    print(f"2. {plan.seconds_per_token:.3f} s a token; gap {100 * plan.schedule.gap:.2f} %, "
          f"found by {plan.schedule.solver} in {plan.seconds:.1f} s")  # fmt: skip

    # ---------------------------------------------------------------- 3. read it
    # Layers as ranges. GPUs are filled to the brim, as each byte there is read several times as
    # quickly; what is left stays with the processors, which are what the sequence waits for.
    for holding in list_holdings(plan.problem, plan.schedule)[:3]:
        full = 100 * holding.memory / (holding.capacity or holding.memory)
        print(f"3. {holding.device:8} {holding.holds}; memory {full:.0f} % full, "
              f"{1e3 * holding.seconds:.0f} ms")  # fmt: skip

    # ---------------------------------------------------------------- 4. why it was quick
    # Servers that are alike can change places, so the solver counts them and does not name them.
    counts = symmetry_counts(plan.problem)
    print(f"4. {counts.exchanges} exchanges of servers leave the problem as it is: "
          f"10^{counts.placements:.0f} placements are 10^{counts.classes:.0f} classes")  # fmt: skip

    # ---------------------------------------------------------------- 5. many sequences
    # One sequence keeps one device busy at a time. With several in flight the busiest device
    # decides; caches for all of them have to fit, so the plan is another one.
    many = plan_decoder(replace(plan.wish, kind="throughput"), Options(time_limit=20.0, gap=0.01))
    print(f"5. {many.in_flight} sequences in flight: {many.tokens_per_second:.2f} tokens a second "
          f"instead of {plan.tokens_per_second:.2f}, each after "
          f"{many.seconds_per_token:.2f} s")  # fmt: skip

    # ---------------------------------------------------------------- 6. requests
    # A plan says nothing of queues. Let requests come for five minutes, few and many, and see:
    # processors prefill slowly, and prompts stand in the way of everybody's next token.
    lengths = parse_lengths("uniform:50:200"), parse_lengths("uniform:10:30")
    service = service_of(many, chunk=64)
    for rate in (0.02, 0.15):
        outcome = play(service, poisson(rate, 300.0, *lengths, seed=1), 300.0)
        first = sorted(served.to_first for served in outcome.served)
        print(f"6. {rate:g} requests a second: half of them have their first token after "
              f"{first[len(first) // 2]:.0f} s")  # fmt: skip
        print(f"   {explain_saturation(service, outcome)}")
    return plan, many


if __name__ == "__main__":
    main()
