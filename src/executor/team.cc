#include "executor/team.h"

#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "executor/core_watch.h"
#include "executor/thread_setup.h"

namespace tvm_hetero {
namespace {

// How long a member spins: between the loops of a request, and after the last one that was seen.
constexpr std::chrono::milliseconds kSpinAtWork{2};
constexpr std::chrono::microseconds kSpinAtRest{50};
// How many members look after who runs the loops.
constexpr size_t kWatchers = 2;

}  // namespace

Team::Team(const std::string& name, const std::vector<int>& cores, bool may_spin)
    : Team(name, cores, may_spin, nullptr, nullptr) {}

Team::Team(const std::string& name, const std::vector<int>& cores, bool may_spin,
           PinnedThread* runner, const std::atomic<bool>* is_at_work)
    : may_spin_(may_spin), runner_(runner), runner_works_(is_at_work) {
  try {
    for (size_t i = 1; i < cores.size(); ++i) {
      members_.push_back(std::make_unique<Member>());
      members_.back()->number = AddHelper(&members_.back()->parker, &members_.back()->pinned);
    }
    for (size_t i = 1; i < cores.size(); ++i) {
      Start(members_[i - 1].get(), cores[i], name + "/" + std::to_string(i));
    }
  } catch (...) {
    End();  // the destructor of a half-made object is not called
    throw;
  }
}

Team::~Team() { End(); }

/*! \brief Start a member's thread and wait until it is set up; throws what went wrong there. */
void Team::Start(Member* member, int core, const std::string& name) {
  std::promise<void> ready;
  std::future<void> outcome = ready.get_future();
  member->thread = std::thread([this, member, core, name, ready = std::move(ready)]() mutable {
    try {
      NameThread(name);
      PinThread({core});
      member->pinned.Settle(core);
    } catch (const std::exception&) {
      return ready.set_exception(std::current_exception());
    }
    ready.set_value();
    Serve(member);
    member->pinned.Leave();
  });
  outcome.get();
}

void Team::End() {
  closing_.store(true);
  for (auto& member : members_) member->parker.Unpark();
  for (auto& member : members_) {
    if (member->thread.joinable()) member->thread.join();
  }
}

void Team::Serve(Member* member) {
  while (true) {
    AwaitLoop(member);
    if (closing_.load()) return;
    Help(member->number);
  }
}

/*! \brief Wait until there are pieces to take, or the team ends. */
void Team::AwaitLoop(Member* member) {
  auto has_come = [this, member] {
    return IsOpen() || member->pinned.IsAway() || closing_.load();
  };
  if (may_spin_ && member->parker.Spin(kSpinAtRest, has_come)) return;
  if (may_spin_ && AwaitWhileAtWork(member, has_come)) return;
  member->parker.Await(std::chrono::nanoseconds{0}, has_come);
}

/*! \brief The same as long as the next loop is near; looks after the runner meanwhile. */
template <typename HasCome>
bool Team::AwaitWhileAtWork(Member* member, HasCome has_come) {
  CoreWatch watch(&member->pinned, runner_);
  // Some are enough: each look takes a lock of the runner's core.
  const bool watches = runner_ != nullptr && member->number <= kWatchers;
  auto has_work = [this, watches] { return watches && runner_works_->load(); };
  member->parker.Spin(kSpinAtWork, [&] {
    watch.Look(has_work);
    return has_come() || !at_work();
  });
  // A piece of the runner's may be long: whoever sleeps beside it looks up now and then.
  while (has_work()) {
    if (member->parker.AwaitFor(CoreWatch::kAsleep, has_come)) return true;
    watch.LookNow(has_work());
  }
  return has_come();
}

}  // namespace tvm_hetero
