"""When something begins to disturb a pipeline, and when it has ended: for who wants to be told.

    quiet        a stage is found slow (`online.detection`: several windows agree)   -> begun
    disturbed    as many windows in a row without a deviation, or a stage found fast  -> ended

A configuration that is switched to has a baseline of its own; what disturbed the one before is then
what it is measured with, and `ended` is told when it gets quicker than that. In quiet, a stage that
is found fast says that the baseline was taken while something disturbed: it is taken anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tvm_hetero.online.detection import Alarm, Detector, detect, make_detector
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.own_plan import Arrangement
from tvm_hetero.online.policy import Setting

Change = Literal["", "begun", "ended"]


@dataclass(frozen=True)
class InterferenceState:
    """What is known so far.

    Attributes
    ----------
    detector : of the configuration that runs; configuration : that one, None before any.
    disturbed : whether something disturbs it; calm : windows without a deviation since then.
    alarm : what was noticed last.
    """

    setting: Setting
    detector: Detector
    configuration: Arrangement | None = None
    disturbed: bool = False
    calm: int = 0
    alarm: Alarm | None = None


def begin_watching(setting: Setting) -> InterferenceState:
    """Nothing is known."""
    return InterferenceState(setting, make_detector(setting))


def watch_interference(
    state: InterferenceState, observation: Observation
) -> tuple[InterferenceState, Change]:
    """Look at one more window."""
    if observation.configuration != state.configuration:
        detector = make_detector(state.setting)
        state = replace(state, configuration=observation.configuration, detector=detector, calm=0)
    was_ready = state.detector.ready
    detector, alarm = detect(state.detector, observation)
    state = replace(state, detector=detector, alarm=alarm or state.alarm)
    if alarm is not None and alarm.direction == "fast":
        fresh = replace(state, detector=make_detector(state.setting), disturbed=False, calm=0)
        return fresh, "ended" if state.disturbed else ""
    if alarm is not None:
        return replace(state, disturbed=True, calm=0), "" if state.disturbed else "begun"
    if not state.disturbed or not was_ready:
        return state, ""
    calm = state.calm + 1 if detector.calm else 0
    if calm < detector.patience:
        return replace(state, calm=calm), ""
    return replace(state, disturbed=False, calm=0), "ended"
