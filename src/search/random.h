/*!
 * \file search/random.h
 * \brief Random numbers that are the same on every machine and compiler (std's are not).
 *
 * xoshiro256++ of D. Blackman and S. Vigna (ACM TOMS 47(4), 2021, doi:10.1145/3460772), filled by
 * splitmix64 as they advise.
 */
#ifndef TVM_HETERO_SEARCH_RANDOM_H_
#define TVM_HETERO_SEARCH_RANDOM_H_

#include <array>
#include <cstdint>

namespace tvm_hetero::search {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15ULL;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      word = z ^ (z >> 31);
    }
  }

  uint64_t Next() {
    uint64_t result = Turned(state_[0] + state_[3], 23) + state_[0];
    uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Turned(state_[3], 45);
    return result;
  }

  /*! \brief A number from 0 to below `count` > 0. The bias is below count / 2^32. */
  int Below(int count) {
    return static_cast<int>(((Next() >> 32) * static_cast<uint64_t>(count)) >> 32);
  }

  /*! \brief A number from [0, 1). */
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  bool Chance(double probability) { return Unit() < probability; }

 private:
  static uint64_t Turned(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::array<uint64_t, 4> state_;
};

}  // namespace tvm_hetero::search
#endif  // TVM_HETERO_SEARCH_RANDOM_H_
