/*!
 * \file executor/stages.h
 * \brief Software pipelining: which batch each step works on while batches follow each other.
 *
 * The problem. A run executes a plan for one batch, and a worker idles wherever it waits for
 * another. When batches follow each other without end, that time belongs to other batches: what
 * counts is the time between two batches, and it cannot be less than the largest load
 *
 *   L = max over workers w of load(w),   load(w) = sum of the times of the steps of w.
 *
 * This file reaches L for every plan that CheckPlan accepts, whatever its steps take (modulo
 * scheduling, as compilers do it for loops: B. R. Rau, "Iterative modulo scheduling", MICRO 1994,
 * doi:10.1145/192724.192731; here the steps' places and order are given, and stages are whole).
 *
 * The stage of a step is the largest number of changes of worker on any way that leads to it:
 *
 *   stage(s) = max over the steps p that fill an in-slot of s of
 *              stage(p)         if p is on the worker of s
 *              stage(p) + 1     if not;              0 if there are none.             (Stages)
 *
 * In period t = 0, 1, 2, ... each worker goes through its steps in the plan's order, and runs step s
 * for batch t - stage(s). So batch k visits step s in period k + stage(s). (state.h tells how far the
 * executor departs from this: it takes what is of the earliest period, but does not wait for it.)
 *
 * 1. Order. What step s needs for batch k is made in period k + stage(p): by its own worker earlier
 *    in the same period (same stage; CheckPlan has refused plans in which p stands behind s there)
 *    or in an earlier period; by another worker always in an earlier period.
 *
 * 2. Throughput. Every worker has ended period t by (t + 1) L: by induction all workers have ended
 *    period t - 1 by t L, so everything made elsewhere is there, and the worker goes through its
 *    steps in load(w) <= L without a wait. So batch k is through by (k + S + 1) L, where S is the
 *    last stage, and the time between two batches tends to L. (Times vary from batch to batch in
 *    truth: then a period takes the largest load of that period, not of the average one.)
 *
 * 3. Frames. A batch's tensors are in a frame of its own. If there are D, batch k can begin when
 *    batch k - D has ended and its frame is free. By 2. that is so in time for period k, at k L, if
 *    D >= S + 1. One more frame gives the caller a period's time to bring the next inputs:
 *    D = S + 2 (Program::Frames).
 *
 * A step of a meeting counts for the thread that runs it. What its other threads give to it is no
 * load of theirs here, so 2. is not said of plans with meetings.
 *
 * Memory: a tensor made in stage a and last read in stage b is alive for up to b - a + 1 batches.
 * Where D batches' tensors would fill a memory, there are fewer frames (frames.h).
 */
#ifndef TVM_HETERO_EXECUTOR_STAGES_H_
#define TVM_HETERO_EXECUTOR_STAGES_H_

#include <tvm_hetero/plan.h>

#include <vector>

namespace tvm_hetero {

/*! \brief The stage of each step of a checked plan. */
std::vector<int> Stages(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_STAGES_H_
