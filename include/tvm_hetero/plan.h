/*!
 * \file tvm_hetero/plan.h
 * \brief What the executor runs: steps on workers, tensors in slots.
 *
 * A plan is the JSON document "tvm-hetero/plan/2":
 *
 *   batch      elements that one run works through; each has inputs and outputs of its own
 *   devices    places of memory and compute, as DLPack numbers them, and how large the memory is
 *   workers    threads, each with a device, the cores that it is pinned to, and a role; those that
 *              are alike run each other's steps where one is idle and the other is not. A worker
 *              may be a meeting of others instead, whose threads run its steps together
 *   slots      one tensor at one place, of a type known beforehand where kernels fill it
 *   inputs     slots that the caller fills (shape and dtype are checked), kept until replaced;
 *              a state is one that the kernel which reads it writes in place
 *   constants  slots that the caller fills once
 *   outputs    slots that the caller reads after a run, in a shape of their own if they have one;
 *              where the length of an axis is known only then, another slot holds it
 *   steps      kernels one after the other, calls of a function, and copies between devices
 *
 * The steps of a worker are taken in the order of the list, those of a meeting in that of its first
 * thread; a thread that helps with a step goes on with its own behind it when that has ended. A step
 * starts when all its in-slots are full. Every slot is filled by an input, a constant or exactly one step. All numbers that name
 * something (worker, device, slot) are indices into the lists above.
 *
 * A kernels step lists calls of compiled kernels that write into memory given to them
 * ("destination passing"). An argument is a view, of a shape of its own, of the bytes of an in-slot
 * or out-slot of the step (by its position in `ins` or `outs`), or of the worker's scratch arena
 * (by its offset): there live the tensors that nobody outside the step sees, where the storage
 * planning of the partitioner has put them. Arguments that a call reads stand first, those that it writes last.
 */
#ifndef TVM_HETERO_PLAN_H_
#define TVM_HETERO_PLAN_H_

#include <dlpack/dlpack.h>
#include <tvm_hetero/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tvm_hetero {

struct DevicePlan {
  std::string name;
  DLDevice device;
  std::optional<int64_t> memory{};  //!< its size, bytes; none: not known (src/executor/frames.h)
};

enum class Role { kCompute, kCopy };

struct WorkerPlan {
  std::string name;
  int device;
  std::vector<int> cores;  //!< empty: not pinned
  Role role;
  //! The first worker of those that are alike, this one among them, if there are others: every
  //! kernel takes the same on all of them.
  std::optional<int> alike{};
  //! Not empty: it is a meeting and has no thread. The first of these workers runs its steps, and
  //! the others, where they have nothing to do, their parallel loops with it.
  std::vector<int> threads{};
};

/*! \brief Shape and type of the elements of a compact tensor. */
struct TVM_HETERO_API TensorPlan {
  std::vector<int64_t> shape;
  DLDataType dtype;

  //! \brief Size in bytes; the shape of a checked plan does not overflow.
  int64_t Bytes() const;
};

struct SlotPlan {
  std::string name;
  int device;
  std::optional<TensorPlan> type;  //!< always there where a kernels step fills the slot
};

struct InputPlan {
  std::string name;
  int slot;
  std::vector<int64_t> shape;
  DLDataType dtype;
  //! Whether the kernel that reads it writes it in place: two requests in flight must not have it
  //! in common, which is the caller's business.
  bool is_state{false};
};

struct ConstantPlan {
  std::string name;
  int slot;
};

/*! \brief Where the length of an axis stands: in a slot of main memory, one int64. */
struct LengthPlan {
  int slot;
  int axis;
};

struct OutputPlan {
  std::string name;
  int slot;
  //! If there: the output is the slot's tensor, its elements in order, in this shape.
  std::optional<std::vector<int64_t>> shape{};
  //! If there: along that axis it is so long, at most as `shape` says. What it has of elements
  //! stands at the slot's beginning, one after the other.
  std::optional<LengthPlan> length{};
};

enum class ArgKind { kIn, kOut, kScratch };

/*! \brief An argument of a kernel: a view of memory that the step has. */
struct ArgPlan {
  ArgKind kind;
  int64_t where;  //!< position in the step's `ins` or `outs`, or offset into scratch, bytes
  TensorPlan type;
};

//! Of offsets into scratch, and of all memory that kernels are given; TVM's kernels rely on it.
constexpr int64_t kAlignment = 64;

struct CallPlan {
  std::string kernel;  //!< its name in the library of the worker's device
  std::string task;    //!< for people
  std::vector<ArgPlan> args;
  int written;  //!< so many arguments, the last ones, are written; the others are read
};

enum class StepKind { kKernels, kCall, kCopy };

struct StepPlan {
  StepKind kind;
  std::string name;
  std::string function;  //!< call only; for people, the executor is given the functions themselves
  int worker;
  std::vector<int> ins;
  std::vector<int> outs;
  int to_device{-1};              //!< copy only
  int64_t scratch{0};             //!< kernels only: bytes of the worker's scratch arena in use
  std::vector<CallPlan> calls;  //!< kernels only
};

struct TVM_HETERO_API Plan {
  int64_t batch{1};
  std::vector<DevicePlan> devices;
  std::vector<WorkerPlan> workers;
  std::vector<SlotPlan> slots;
  std::vector<InputPlan> inputs;
  std::vector<ConstantPlan> constants;
  std::vector<OutputPlan> outputs;
  std::vector<StepPlan> steps;

  bool IsMeeting(int worker) const { return !workers[worker].threads.empty(); }
  /*! \brief The worker whose thread runs a worker's steps: itself, if it is no meeting. */
  int ThreadOf(int worker) const {
    return IsMeeting(worker) ? workers[worker].threads.front() : worker;
  }
  /*! \brief The workers whose threads are at a worker's steps: the one that runs them first. */
  std::vector<int> ThreadsOf(int worker) const {
    return IsMeeting(worker) ? workers[worker].threads : std::vector<int>{worker};
  }
  DLDevice DeviceOfSlot(int slot) const { return devices[slots[slot].device].device; }
  DLDevice DeviceOfWorker(int worker) const { return devices[workers[worker].device].device; }
  /*! \brief The workers whose steps a worker may run: itself first. */
  std::vector<int> PartsOf(int worker) const;

  /*! \brief Whether no other worker has one of its cores; meetings' are those of their threads. */
  bool IsAloneOnCores(int worker) const;
  /*! \brief Bytes of scratch that a thread needs: the most that any step does that it may run. */
  int64_t ScratchOfWorker(int worker) const;
  /*!
   * \brief Whether a slot in main memory is copied to or from a GPU: its memory should be pinned,
   *        so that the copy runs beside everything else.
   */
  bool IsStaged(int slot) const;
};

/*!
 * \brief Read a plan and check it.
 * \param json The document.
 * \throws ValueError naming the place in the document, what stands there and what is expected.
 */
TVM_HETERO_API Plan ParsePlan(const std::string& json);

/*!
 * \brief Check what the form of the document alone does not ensure: indices, each slot filled
 *        exactly once, tensors on the devices of their readers, the memory that kernels are given,
 *        and no deadlock.
 * \throws ValueError
 */
TVM_HETERO_API void CheckPlan(const Plan& plan);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_PLAN_H_
