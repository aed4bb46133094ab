"""What is served: models, and what lets them run on shares of the cores.

open_model, verify            from a folder to what runs it; whether it may follow an older version
tensor_model, decoder_model   what answers queries, and what generates texts
share_plans, share_instances  plans and executors of a model on any share of the cores
adapted_share                 the pipeline on all cores, watched and adapted (--adapt)
served_times, statistics      what a model takes, for predictions; what it has done, for reports
dispatcher, pool_dispatcher   who is next: the interface, and a policy at work
batch_plans, batch_gain       plans for several queries at once, and when they pay
batching_dispatcher           queries that wait (query_groups) are computed together
gated_stepper                 a decoder's steps take their turns in the same pool
served_model, repository      what stands behind names, and how versions come and go
model_pool                    who has to know which models there are
load_thread                   where loads are waited for
"""
