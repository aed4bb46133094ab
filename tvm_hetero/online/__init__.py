"""Policies that tune and rebalance pipelines while they run: Pipe-search, Shisha, ODIN, `resolve`.

They watch what stages really take and move blocks of tasks between execution places; that is not
what `cost_models.tuning` and `kernels.tuning` do, which tune kernels before a model is built. May
import every room below floor 12 (tests/test_floors.py): solvers, executor, pipeline and all
beneath. In the order in which a run meets them:

    configuration     contiguous stages of blocks on execution places, and moves between them
    own_plan          the artifact's own plan, which may be any division, among configurations
    observation       what was seen of a configuration for some requests
    policy            the interface: pure functions from observations to the next configuration
    chain             a problem's tasks as a chain of blocks; a configuration as its schedule
    optimum           the exact best configuration for given seconds
    detection         whether stages take longer, or shorter again, than they did
    interference      when something begins to disturb a pipeline, and when it has ended
    slowdown          how much slower each place is, by what bounds its blocks
    search            what searches count; `adaptation` makes policies of them, `slots` empty stages
    policies/         one file each, and the registry of their names
    table, stream     recorded seconds of blocks, alone and disturbed, and what is replayed of them
    simulator         a saturated pipeline replayed from such a table

None of these starts anything: the same functions decide live, in the simulator and in tests. What
the papers' policies are "after", and what is our own, is said in docs/online.md.
"""
