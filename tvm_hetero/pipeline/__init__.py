"""The main job from end to end: measure, schedule, place, compile, compare."""
