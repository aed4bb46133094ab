"""Asking a server for more and more, and saying what it did: ``tvm-hetero load-test``.

arrivals    when requests are due: Poisson, or a trace
bodies      what is asked, made of the models' own metadata
client      connections that are kept, and replies
run         open loop (by a clock that waits for no one) or closed (so many at once)
records     what became of each request; rows of the table
charts, page    throughput, latency over time, histogram
"""
