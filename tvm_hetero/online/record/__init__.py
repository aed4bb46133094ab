"""What blocks take on each kind of place, alone and disturbed: measured into a recording.

places       kinds of cores and widths, as devices of this machine
scenarios    what disturbs, and on which core
measure      a network on one place, in all scenarios in turns
recorder     all places of a model: a `tvm_hetero.online.table.Recording`
"""
