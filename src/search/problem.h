/*!
 * \file search/problem.h
 * \brief A problem as the search sees it: checked copies of what came through the C interface.
 *
 * Notation: part v, device d, p(v, d) seconds. A *fetch* brings one input of a part to its device;
 * it is an item of its own in a sequence (see tvm_hetero/search.h). `tail` is a lower bound of
 * what follows a part that ended on a device,
 *
 *   tail(v, d) = max over readers w of min over devices k of (delay(v -> w, d, k) + p(w, k) +
 *                tail(w, k)),
 *
 * so a schedule whose clock plus tail exceeds a limit can be given up before it is complete.
 */
#ifndef TVM_HETERO_SEARCH_PROBLEM_H_
#define TVM_HETERO_SEARCH_PROBLEM_H_

#include <tvm_hetero/search.h>

#include <cstdint>
#include <vector>

#include "search/links.h"
#include "search/rows.h"

namespace tvm_hetero::search {

/*! \brief What a part reads: fetch number, tensor, its maker and its class of size. */
struct Input {
  int fetch;
  int tensor;
  int maker;
  int size;
};

/*! \brief p(v, d) and tail(v, d), side by side because they are read together. */
struct Cell {
  double seconds;
  double tail;
};

/*! \brief Prices of the objective, by device. */
struct Rates {
  std::vector<double> watts, idle_watts, price;
};

class Problem {
 public:
  /*! \brief Copy and check; throws std::invalid_argument. */
  explicit Problem(const TvmHeteroSearchProblem& given);

  const Cell& cell(int part, int device) const {
    return cells[static_cast<size_t>(part) * devices + device];
  }
  int items() const { return parts + fetches; }
  bool Allowed(int part, int device) const { return cell(part, device).seconds < kInfinity; }
  /*! \brief Whether copies are mere delays, and all that they need is at their ends. */
  bool simple() const { return !contended && !memory_binds && (all_direct || kind == kLatency); }

  int parts, devices, tensors, tasks, fetches;
  int kind;
  bool acyclic;
  double latency_limit;
  Links links;
  std::vector<Cell> cells;  //!< [part, device]
  std::vector<int> task;
  std::vector<int64_t> weights, unread, capacity, size_bytes;
  std::vector<int> memory_of;  //!< of a device: the one that names its memory, mostly itself
  std::vector<uint8_t> shares_memory;  //!< of a device: whether others see its memory, too
  std::vector<uint8_t> staged;
  std::vector<int> maker, size;  //!< of a tensor
  Rows<int> readers;             //!< of a tensor, in the order of its fetches
  std::vector<int> first_fetch;  //!< of a tensor, counted from 0
  std::vector<int> fetch_tensor, fetch_reader;
  Rows<Input> inputs;   //!< of a part
  Rows<int> outputs;    //!< tensors that a part makes
  Rows<int> makers;     //!< distinct parts whose tensors a part reads
  Rows<int> followers;  //!< distinct parts that read what a part makes
  std::vector<int> group;
  Rows<int> members;  //!< of a group
  Rows<int> allowed;  //!< devices of a group
  std::vector<int> topological;
  Rates rates;
  bool all_direct;    //!< whether a link joins every two devices that can hold a part
  bool contended;     //!< whether hops keep anything busy
  bool memory_binds;  //!< whether some device's memory can be too small

 private:
  void ReadTensors(const TvmHeteroSearchProblem& given);
  void ReadGroups(const TvmHeteroSearchProblem& given);
  void SortTopologically();
  void FindContention();
  void ComputeTails();
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_PROBLEM_H_
