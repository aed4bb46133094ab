/*!
 * \file executor/program.h
 * \brief A plan worked out for each worker: whom a step waits for, whom it wakes, what it frees.
 */
#ifndef TVM_HETERO_EXECUTOR_PROGRAM_H_
#define TVM_HETERO_EXECUTOR_PROGRAM_H_

#include <tvm_hetero/plan.h>

#include <cstddef>
#include <vector>

#include "executor/slot_use.h"

namespace tvm_hetero {

/*! \brief One step, as the worker sees it that runs it. */
struct Instruction {
  int step;                    //!< index into Plan::steps
  int stage;                   //!< of the step (stages.h)
  std::vector<int> waits_for;  //!< steps of other threads that must have ended
  std::vector<int> wakes;      //!< workers that may run a step which waits for this one
  std::vector<int> reads;      //!< the in-slots made by steps, each once: to be released after it
};

/*! \brief The instructions of each worker's thread, in its order; none of meetings. */
using Instructions = std::vector<std::vector<Instruction>>;

struct Program {
  Instructions workers;
  std::vector<int> stages;  //!< of each step (stages.h)
  int last_stage{0};
  int busy_workers{0};      //!< threads that have steps
  std::vector<SlotUse> slots;
  std::vector<size_t> first_call;  //!< of each step, counted over the calls of kernels; and the end

  int frames{2};  //!< how many batches may be in flight (frames.h)
};

/*! \brief Work out a checked plan. */
Program MakeProgram(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_PROGRAM_H_
