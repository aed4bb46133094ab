/*!
 * \file program.h
 * \brief A plan worked out for each worker: whom a step waits for, whom it wakes, what it frees.
 */
#ifndef TVM_HETERO_PROGRAM_H_
#define TVM_HETERO_PROGRAM_H_

#include <tvm_hetero/plan.h>

#include <vector>

namespace tvm_hetero {

/*! \brief One step, as its worker sees it. */
struct Instruction {
  int step;                    //!< index into Plan::steps
  std::vector<int> waits_for;  //!< steps of other workers that must have ended
  std::vector<int> wakes;      //!< workers that wait for this step
  std::vector<int> reads;      //!< the in-slots made by steps, each once: to be released after it
};

/*! \brief How a slot is filled and for how long it stays so. */
struct SlotUse {
  bool made_by_step{false};
  bool is_output{false};
  int readers{0};  //!< steps that read it, each counted once
};

struct Program {
  std::vector<std::vector<Instruction>> workers;  //!< in each worker's order
  std::vector<SlotUse> slots;
};

/*! \brief Work out a checked plan. */
Program MakeProgram(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PROGRAM_H_
