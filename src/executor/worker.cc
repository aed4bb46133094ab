#include "executor/worker.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <utility>

#include "executor/frames.h"
#include "executor/parallel_loops.h"
#include "executor/thread_setup.h"
#include "executor/worker_errors.h"
#include "memory/host_memory.h"
#include "memory/workspace.h"
#include "support/device_name.h"
#include "support/faults.h"
#include "support/pace.h"

namespace tvm_hetero {
namespace {

bool HasThreadPool() { return ffi::Function::GetGlobal("runtime.config_threadpool").has_value(); }

}  // namespace

Worker::Worker(const Plan& plan, const Program& program, int index, ExecutorState* state,
               RequestDesk* desk, const Departure* before)
    : plan_(plan),
      self_(plan.workers[index]),
      index_(index),
      program_(program),
      state_(state),
      desk_(desk),
      parker_(&state->parkers[index]),
      before_(before),
      idle_since_(kNotIdle) {
  for (int worker : plan.PartsOf(index)) AddPart(worker);
  for (size_t meeting = 0; meeting < plan.workers.size(); ++meeting) {
    const std::vector<int>& threads = plan.workers[meeting].threads;
    const auto place = std::find(threads.begin(), threads.end(), index);
    if (place == threads.end()) continue;
    LoopBoard* board = state->boards[meeting].get();
    const auto number = static_cast<size_t>(place - threads.begin());
    if (number == 0) {
      led_.push_back(board);
    } else {
      helped_.push_back(HelpedBoard{board, number});
    }
  }
  AddPeers();
  jobs_.reserve(state->frames.size() * parts_.size());
}

/*! \brief Get ready for the steps of a worker. */
void Worker::AddPart(int worker) {
  const std::vector<Instruction>& instructions = program_.workers[worker];
  Part part{worker, &instructions, {}, {}, std::vector<uint64_t>(state_->frames.size()), 0};
  part.functions.resize(instructions.size());
  part.kernels.resize(instructions.size());
  for (size_t position = 0; position < instructions.size(); ++position) {
    const int step = instructions[position].step;
    if (plan_.steps[step].kind != StepKind::kKernels) continue;
    part.kernels[position] = std::make_unique<KernelStep>(plan_, step);
  }
  parts_.push_back(std::move(part));
}

// ---------------------------------------------------------------------------- the thread

void Worker::Start(Spin spin) {
  spin_ = spin;
  state_->departure->Stay(index_);
  // An error is a text here: of an exception that two threads hold the last one would free it, and
  // what the library does for that the thread sanitizer does not see.
  std::promise<std::string> ready;
  std::future<std::string> outcome = ready.get_future();
  try {
    thread_ = std::thread([this, ready = std::move(ready)]() mutable {
      ThreadMain(std::move(ready));
    });
    const std::string failure = outcome.get();
    if (!failure.empty()) throw ffi::Error("RuntimeError", failure, "");
  } catch (...) {
    LeaveCore();  // nobody is there to do so later
    throw;
  }
}

void Worker::Restart() {
  Join();
  Start(spin_);
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::ThreadMain(std::promise<std::string> ready) {
  try {
    MaybeFail(FaultKind::kWorker);
    SetUpThread();
    SetUpTeam();
    SetUpStreams();
    SetUpMemory();
  } catch (const std::exception& error) {
    streams_.clear();
    state_->threads[index_].Leave();
    ready.set_value("worker '" + self_.name + "': " + Described(error));
    return;
  }
  ready.set_value("");
  // Only std::exception, which all of TVM's are: Python ends a thread that asks for the interpreter
  // at its shutdown by unwinding it, and `catch (...)` would turn that into an abort.
  try {
    const LoopsOfThread ours(team_.get());
    Work();
  } catch (const std::exception& error) {
    Die(Described(error));
  }
  HandOverCore();
  streams_.clear();
  team_.reset();
  state_->threads[index_].Leave();
}

void Worker::Work() {
  do {
    if (!pool_configured_ && HasThreadPool()) SetUpThread();  // TVM was loaded after our start
    if (HasNews()) Accept();
    for (int job; (job = FirstReady()) >= 0;) {
      RunNext(static_cast<size_t>(job));
      if (HasNews()) Accept();
    }
    HelpWithLoops();
  } while (AwaitChange());
}

void Worker::SetUpThread() {
  NameThread(self_.name);
  clock_.emplace();
  if (!self_.cores.empty()) PinThread(self_.cores);  // throws where one is not there; TVM does not
  const std::vector<int> before = AllowedCores();
  // Loops of kernels are the team's. TVM's pool, which belongs to the calling thread, is made by what
  // else of TVM divides its work: one of its own, that starts no threads. Making it pins the caller
  // (to core 0 unless told otherwise), so tell it before that, and pin ourselves afterwards.
  pool_configured_ = ConfigureThreadPool({before.empty() ? 0 : before.front()});
  std::vector<int> cores = HasTeam() ? std::vector<int>{self_.cores.front()} : before;
  PinnedThread& thread = state_->threads[index_];
  const bool is_pinned = cores.size() == 1 && !self_.cores.empty();
  if (is_pinned && thread.core() >= 0) cores = {thread.core()};  // which it may have exchanged
  PinThread(cores);
  if (is_pinned) thread.Settle(cores.front());
}

/*! \brief Whether kernels may use more than one core: a copy engine runs none. */
bool Worker::HasTeam() const { return self_.role != Role::kCopy && self_.cores.size() > 1; }

void Worker::SetUpTeam() {
  if (HasTeam()) team_ = std::make_unique<Team>(self_.name, self_.cores, spin_.in_batch.count() > 0,
                                          &state_->threads[index_], &state_->busy[index_].now);
}

/*! \brief Streams of our own on the devices that we work with; the first is that of our device. */
void Worker::SetUpStreams() {
  std::vector<DLDevice> devices{plan_.DeviceOfWorker(index_)};
  for (const Instruction& instruction : *parts_.front().instructions) {
    const StepPlan& step = plan_.steps[instruction.step];
    if (step.kind != StepKind::kCopy) continue;
    devices.push_back(plan_.DeviceOfSlot(step.ins[0]));
    devices.push_back(plan_.devices[step.to_device].device);
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    auto is_it = [&](DLDevice other) { return SameDevice(other, devices[i]); };
    auto end = devices.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(devices.begin(), end, is_it)) streams_.emplace_back(devices[i]);
  }
}

/*!
 * \brief All memory that the steps of the batches in flight need; by this thread, so near its core.
 *
 * Who takes over from another executor has the core from it, so not too much of that at a time.
 */
void Worker::SetUpMemory() {
  const bool is_beside = IsHeldUp();
  Pace pace(is_beside);
  const PagesInPieces in_pieces(is_beside ? &pace : nullptr);
  int64_t bytes = plan_.ScratchOfWorker(index_);
  if (bytes > 0 && !scratch_.defined()) {
    scratch_ = Empty(ffi::ShapeView(&bytes, 1), DLDataType{kDLUInt, 8, 1},
                     plan_.DeviceOfWorker(index_));
  }
  ReserveBuffers(&parts_.front(), state_->buffers_wanted.load(std::memory_order_relaxed));
}

/*! \brief See to it that each slot that a part's kernels fill has so many buffers. */
void Worker::ReserveBuffers(Part* part, int count) {
  if (part->buffers_reserved >= count) return;
  for (const Instruction& instruction : *part->instructions) {
    for (int slot : plan_.steps[instruction.step].outs) {
      const std::optional<TensorPlan>& type = plan_.slots[slot].type;
      if (state_->pools[slot] == nullptr || !type) continue;
      int held = program_.slots[slot].is_output ? kHeldOutputs : 0;
      ffi::ShapeView shape(type->shape.data(), type->shape.size());
      state_->pools[slot]->Reserve(count + held, shape, type->dtype, plan_.DeviceOfSlot(slot));
    }
  }
  part->buffers_reserved = count;
}

void Worker::SetFunction(int step, ffi::Function* function) {
  for (Part& part : parts_) {
    for (size_t position = 0; position < part.functions.size(); ++position) {
      if ((*part.instructions)[position].step != step) continue;
      std::swap(part.functions[position], *function);
    }
  }
}

void Worker::SetLibrary(int worker, const ffi::Module& library) {
  for (Part& part : parts_) {
    for (size_t position = 0; position < part.kernels.size(); ++position) {
      const int step = (*part.instructions)[position].step;
      if (plan_.steps[step].worker != worker) continue;
      if (part.kernels[position] != nullptr) part.kernels[position]->SetLibrary(library);
    }
  }
}

int Worker::StepWithoutKernels() const {
  const Part& own = parts_.front();
  for (size_t position = 0; position < own.kernels.size(); ++position) {
    bool missing = own.kernels[position] != nullptr && !own.kernels[position]->ready();
    if (missing) return (*own.instructions)[position].step;
  }
  return -1;
}

}  // namespace tvm_hetero
