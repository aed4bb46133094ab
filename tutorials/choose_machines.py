"""Which machines should tag photos? A question in plain words, and a picture at the end.

    "Photos come in at 900 a second while people look on, and each should have its tags within
     15 ms, 99 times out of 100. At night 400 a second more are worked off in bursts; half a second
     is fine, but the tags have to be better. What shall we rent, and what would better tags cost?"

Run it from the repository, after ``make setup``; TVM is not needed:

    .venv/bin/python tutorials/choose_machines.py

The same on the command line: ``tvm-hetero choose photos.yaml --html choice.html``.
"""

from __future__ import annotations

from pathlib import Path

from tvm_hetero.planning.choosing import ChoiceAnswer, choose, parse_choice_request
from tvm_hetero.report.planning.choice import (
    binding_lines,
    neighbour_lines,
    replica_words,
    worth_of,
)
from tvm_hetero.report.planning.choice_page import choice_page
from tvm_hetero.report.schedule.html import report_html
from tvm_hetero.util.documents import parse_document, write_atomic

# Accuracies are ImageNet top-1 of torchvision's first weights; prices are dollars an hour, on
# demand in us-east-1 in 2024 (a quarter of AWS g4dn.12xlarge and of g6.12xlarge).
QUESTION = """
format: tvm-hetero/choice-request/1
name: photos
variants:
  - {name: small, model: resnet18, accuracy: 69.76}
  - {name: large, model: resnet50, accuracy: 76.13}
machines:
  - {name: t4, platform: t4x4, devices: [cpu, gpu0], available: 4, price: 0.978}
  - {name: l4, platform: l4x4, devices: [cpu, gpu0], available: 2, price: 1.151}
load:
  seconds: 2
  classes:
    - {name: by day, rate: 900, slo: {latency: {p99: 15ms}}}
    - {name: by night, rate: 400, bursts: {factor: 6, every: 1s, length: 200ms},
       slo: {latency: {p99: 500ms}}, accuracy: 75}
goal: price
batches: [1, 8]
"""


def main(page: Path = Path("choice.html")) -> ChoiceAnswer:
    """Tell the story, write the picture; returns the answer."""
    # ---------------------------------------------------------------- 1. the question as a document
    # Two variants of the model, two kinds of machines, two classes of requests with an SLO each.
    request = parse_choice_request(parse_document(QUESTION, "photos", as_yaml=True))
    counts = [f"{len(each.requests)} {each.name}" for each in request.classes]
    print(f"1. requests that will be played: {', '.join(counts)}")

    # ---------------------------------------------------------------- 2. the answer
    # Each variant is planned on each machine, each plan is tried with the requests themselves, and
    # an integer program chooses how many of which. It comes with a bound: nothing is cheaper.
    answer = choose(request)
    print(f"2. {replica_words(request, answer.choice)}")
    for line in worth_of(request, answer.choice).splitlines():
        print(f"   {line}")

    # ---------------------------------------------------------------- 3. does it hold?
    # All requests were played on those machines, one by one, before the answer was given.
    for played in answer.choice.played:
        for limit, seconds in played.reached.items():
            name = request.classes[played.served].name
            print(f"3. {name}: {limit.name} {1e3 * seconds:.1f} of {1e3 * limit.seconds:.0f} ms")

    # ---------------------------------------------------------------- 4. what else?
    # What is cheaper gives up accuracy, what is better costs more, and what binds has its price.
    for line in (*neighbour_lines(answer), *binding_lines(answer)):
        print(f"4. {line}")

    # ---------------------------------------------------------------- 5. the picture
    # The cheapest choice of each accuracy; a point tells its machines to whoever hovers over it.
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(page, report_html(choice_page(answer)))
    print(f"5. {len(answer.front)} choices are worth their price: {page}")
    return answer


if __name__ == "__main__":
    main()
