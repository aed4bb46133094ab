/*!
 * \file search/stage_reach.cc
 * \brief Sets of ways to use devices, joined along stages. Nothing here may fail but the caller.
 */
#include <tvm_hetero/stage_reach.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <vector>

#include "search/stop.h"

namespace {

/*! \brief Ideals between two looks at the clock: milliseconds. */
constexpr int kPiece = 64;

bool IsSound(const TvmHeteroStages& s) {
  if (s.ideals < 1 || s.kinds < 1 || s.words < 1 || s.begin[0] != 0) return false;
  for (int k = 0; k < s.kinds; ++k) {
    if (s.stride[k] < 1 || s.stride[k] / 64 >= s.words) return false;
  }
  for (int i = 0; i < s.ideals; ++i) {
    if (s.begin[i + 1] < s.begin[i]) return false;
    for (int64_t p = s.begin[i]; p < s.begin[i + 1]; ++p) {
      if (s.kind[p] < 0 || s.kind[p] >= s.kinds) return false;
      if (s.later[p] <= i || s.later[p] >= s.ideals) return false;
    }
  }
  return true;
}

/*! \brief to = (from and mask) << bits. */
void Shift(const uint64_t* from, const uint64_t* mask, int bits, int words, uint64_t* to) {
  const int whole = bits / 64, rest = bits % 64;
  std::fill(to, to + whole, 0);
  uint64_t carried = 0;
  for (int w = 0; w + whole < words; ++w) {
    const uint64_t word = from[w] & mask[w];
    to[w + whole] = (word << rest) | carried;
    carried = rest == 0 ? 0 : word >> (64 - rest);
  }
}

void Join(const uint64_t* from, int words, uint64_t* to) {
  for (int w = 0; w < words; ++w) to[w] |= from[w];
}

/*! \brief All stages behind one ideal. */
void Extend(const TvmHeteroStages& s, int ideal, double most, uint64_t* found, uint64_t* grown) {
  const size_t words = s.words;
  const uint64_t* own = found + ideal * words;
  int shifted = -1;
  for (int64_t p = s.begin[ideal]; p < s.begin[ideal + 1]; ++p) {
    if (!(s.load[p] <= most && s.beyond[p] > most)) continue;
    const int k = s.kind[p];
    // Stages come sorted by kind, so each kind is shifted once.
    if (k != shifted) Shift(own, s.free + k * words, s.stride[k], s.words, grown);
    shifted = k;
    Join(grown, s.words, found + s.later[p] * words);
  }
}

}  // namespace

int tvm_hetero_search_stage_reach(const TvmHeteroStages* stages, double most, double seconds,
                           uint64_t* found, int32_t* late) {
  if (stages == nullptr || found == nullptr || late == nullptr) return kSearchBadArgument;
  const TvmHeteroStages& s = *stages;
  if (!IsSound(s)) return kSearchBadArgument;
  try {
    const auto began = std::chrono::steady_clock::now();
    std::vector<uint64_t> grown(s.words);
    *late = 0;
    for (int i = 0; i < s.ideals; ++i) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
      if (i % kPiece == 0 && (tvm_hetero::search::IsStopped() || passed.count() > seconds)) {
        *late = 1;
        return kSearchOk;
      }
      const uint64_t* own = found + static_cast<size_t>(i) * s.words;
      if (std::all_of(own, own + s.words, [](uint64_t word) { return word == 0; })) continue;
      Extend(s, i, most, found, grown.data());
    }
    return kSearchOk;
  } catch (const std::bad_alloc&) {
    return kSearchNoMemory;
  }
}
