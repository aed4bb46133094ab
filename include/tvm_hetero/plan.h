/*!
 * \file tvm_hetero/plan.h
 * \brief What the executor runs: steps on workers, tensors in slots.
 *
 * A plan is the JSON document "tvm-hetero/plan/1":
 *
 *   devices    places of memory and compute, as DLPack numbers them
 *   workers    threads, each with a device, the cores that it is pinned to, and a role
 *   slots      one tensor at one place
 *   inputs     slots that the caller fills (shape and dtype are checked), kept until replaced
 *   constants  slots that the caller fills once
 *   outputs    slots that the caller reads after a run, in a shape of their own if they have one
 *   steps      calls of a function, and copies between devices
 *
 * A worker takes its own steps in the order of the list. A step starts when all its in-slots are
 * full. Every slot is filled by an input, a constant or exactly one step. All numbers that name
 * something (worker, device, slot) are indices into the lists above.
 */
#ifndef TVM_HETERO_PLAN_H_
#define TVM_HETERO_PLAN_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tvm_hetero {

struct DevicePlan {
  std::string name;
  DLDevice device;
};

enum class Role { kCompute, kCopy };

struct WorkerPlan {
  std::string name;
  int device;
  std::vector<int> cores;  //!< empty: not pinned
  Role role;
};

struct SlotPlan {
  std::string name;
  int device;
};

struct InputPlan {
  std::string name;
  int slot;
  std::vector<int64_t> shape;
  DLDataType dtype;
};

struct ConstantPlan {
  std::string name;
  int slot;
};

struct OutputPlan {
  std::string name;
  int slot;
  //! If there: the output is the slot's tensor, its elements in order, in this shape.
  std::optional<std::vector<int64_t>> shape;
};

enum class StepKind { kCall, kCopy };

struct StepPlan {
  StepKind kind;
  std::string name;
  std::string function;  //!< call only; for people, the executor is given the functions themselves
  int worker;
  std::vector<int> ins;
  std::vector<int> outs;
  int to_device{-1};  //!< copy only
};

struct Plan {
  std::vector<DevicePlan> devices;
  std::vector<WorkerPlan> workers;
  std::vector<SlotPlan> slots;
  std::vector<InputPlan> inputs;
  std::vector<ConstantPlan> constants;
  std::vector<OutputPlan> outputs;
  std::vector<StepPlan> steps;

  DLDevice DeviceOfSlot(int slot) const { return devices[slots[slot].device].device; }
  DLDevice DeviceOfWorker(int worker) const { return devices[workers[worker].device].device; }
};

/*!
 * \brief Read a plan and check it.
 * \param json The document.
 * \throws ValueError naming the place in the document, what stands there and what is expected.
 */
Plan ParsePlan(const std::string& json);

/*!
 * \brief Check what the form of the document alone does not ensure: indices, each slot filled
 *        exactly once, tensors on the devices of their readers, and no deadlock.
 * \throws ValueError
 */
void CheckPlan(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_H_
