// A block with the SHA instructions of x86 (Intel, "Intel SHA Extensions", 2013): files of hundreds
// of megabytes are read with each start of a program.
//
// SHA256RNDS2 does two rounds on a state that is kept as (A, B, E, F) and (C, D, G, H), the first
// letter in the highest word; the words W + K come in the lower half of its third operand.
// SHA256MSG1 and SHA256MSG2 give the two sums of sigmas in
//   W[t] = sigma1(W[t - 2]) + W[t - 7] + sigma0(W[t - 15]) + W[t - 16]      for four t at once.
#include "support/sha256.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tvm_hetero {

#ifdef __x86_64__

namespace {

__attribute__((target("sha,sse4.1"))) void HardwareBlock(const uint8_t* block,
                                                         Sha256State* state) {
  __m128i* words = reinterpret_cast<__m128i*>(state->data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  const __m128i abef_before = _mm_alignr_epi8(badc, efgh, 8);
  const __m128i cdgh_before = _mm_blend_epi16(efgh, badc, 0xF0);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i* k = reinterpret_cast<const __m128i*>(kSha256K);
  __m128i abef = abef_before, cdgh = cdgh_before;
  __m128i W[4];  // the last sixteen words, four each
#pragma GCC unroll 16
  for (int t = 0; t < 16; ++t) {
    __m128i& now = W[t % 4];
    const __m128i &minus12 = W[(t + 1) % 4], &minus8 = W[(t + 2) % 4], &minus4 = W[(t + 3) % 4];
    if (t < 4) {
      const __m128i* message = reinterpret_cast<const __m128i*>(block);
      now = _mm_shuffle_epi8(_mm_loadu_si128(message + t), big_endian);
    } else {
      const __m128i minus7 = _mm_alignr_epi8(minus4, minus8, 4);
      const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, minus12), minus7);
      now = _mm_sha256msg2_epu32(sum, minus4);
    }
    const __m128i added = _mm_add_epi32(now, _mm_loadu_si128(k + t));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0E));
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

bool HasInstructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSha = 1u << 29;
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (b & kSha) != 0;
}

}  // namespace

Sha256Block Sha256HardwareBlock() {
  static const bool has_them = HasInstructions();
  return has_them ? HardwareBlock : nullptr;
}

#else

Sha256Block Sha256HardwareBlock() { return nullptr; }

#endif

}  // namespace tvm_hetero
