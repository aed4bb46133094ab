/*!
 * \file executor/frames.h
 * \brief How many batches of a plan may be in flight: as many as help and fit.
 *
 * stages.h shows that D = S + 2 of them keep the busiest worker busy; more are of no use. Each has
 * tensors of its own, though, and a memory has to hold for all of them
 *
 *   weights + scratch arenas + outputs that callers hold + D * (all other slots)  <=  its size.
 *
 * So D is the smallest quotient of any memory, where the plan says how large that is, but at least
 * 1: a plan that does not fit at all is run all the same. With few frames workers wait for each
 * other, but nothing gets stuck (state.h).
 *
 * States are not counted: whoever calls has made them, as many sets as he has use for.
 *
 * Where the plan does not say, and in a CPU's memory, the slots of all D batches may take 2 GiB:
 * all of main memory is no measure there, as others use it, and a platform that was detected gives
 * all of it to each CPU device. This alone never asks for less than 2 frames, so that one comes in
 * while the other is worked on.
 */
#ifndef TVM_HETERO_EXECUTOR_FRAMES_H_
#define TVM_HETERO_EXECUTOR_FRAMES_H_

#include <tvm_hetero/plan.h>

#include <vector>

#include "executor/slot_use.h"

namespace tvm_hetero {

/*! \brief Buffers that each output has beside those of the batches: one waits, one is looked at. */
constexpr int kHeldOutputs = 2;

/*! \brief Frames for a plan with these slots and this last stage; at least 1. */
int Frames(const Plan& plan, const std::vector<SlotUse>& slots, int last_stage);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_FRAMES_H_
