"""lm-eval's client for completions: likelihoods of continuations, and a text.

Run by the Python of ``build/lm_eval`` (``make lm-eval``): URL, and pairs of texts as JSON.
"""

from __future__ import annotations

import json
import sys

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI


def main(url: str, pairs: str) -> None:
    """Print what it finds as JSON."""
    model = LocalCompletionsAPI(
        base_url=f"{url}/v1/completions", model="chat", max_length=128, num_concurrent=4
    )
    asked = [
        Instance(request_type="loglikelihood", doc={}, arguments=tuple(pair), idx=place)
        for place, pair in enumerate(json.loads(pairs))
    ]
    settings = {"until": ["\n\n\n\n"], "max_gen_toks": 8, "temperature": 0}
    text = Instance(request_type="generate_until", doc={}, arguments=("the lazy", settings), idx=0)
    likelihoods = model.loglikelihood(asked, disable_tqdm=True)
    print(json.dumps({"likelihoods": likelihoods, "text": model.generate_until([text])[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
