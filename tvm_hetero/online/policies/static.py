"""Static: the plan that was made in quiet, whatever happens; a baseline.

What equal cores do by themselves (an idle one takes what is another's and ready) is the executor's
and goes on under every policy, this one included.
"""

from __future__ import annotations

from tvm_hetero.online.adaptation import keep
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Policy, Setting, Turn


def begin(setting: Setting) -> Turn:
    """Run the artifact's own plan, or the static configuration where it has none."""
    return setting, keep(setting, setting.first, "static")


def step(state: Setting, observation: Observation) -> Turn:
    """Run it on; what was seen makes no difference."""
    return begin(state)


POLICY = Policy("static", begin, step)
