/*!
 * \file executor/slot_use.h
 * \brief What a plan does with each of its slots.
 */
#ifndef TVM_HETERO_EXECUTOR_SLOT_USE_H_
#define TVM_HETERO_EXECUTOR_SLOT_USE_H_

namespace tvm_hetero {

/*! \brief How a slot is filled and for how long it stays so. */
struct SlotUse {
  bool made_by_step{false};
  bool is_constant{false};
  bool is_state{false};
  bool is_output{false};
  int readers{0};  //!< steps that read it, each counted once
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_EXECUTOR_SLOT_USE_H_
