"""Policies compared: one stream a policy, disturbed in the same way, and the figures beside them.

spans       which requests are disturbed
outcome     what came of a stream, and its figures
recorded    streams replayed from a recording
live        streams of an executor, disturbed by processes of ours
"""
