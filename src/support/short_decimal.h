/*!
 * \file support/short_decimal.h
 * \brief Decimals of at most 19 digits without exponent, as programs write them, to doubles.
 *
 * A tensor in JSON is millions of such, and std::from_chars takes thrice as long for each. Whatever
 * is not of this form, and the one in 250 whose rounding is not told by 64 bits of its quotient, is
 * left to that.
 *
 *     letters    eight at a time in a word: which of them are digits, and their value
 *     w / 10^k   w < 2^53, k <= 22: both are doubles, and one division rounds once (Clinger 1990,
 *                10.1145/93542.93557)
 *     otherwise  w * floor((2^127 - 1) / d), d being 5^k shifted to 64 bits. Its upper word q is the
 *                quotient's floor or one less (`RoundedQuotient`), which is enough unless a tie lies
 *                between; the idea is Lemire's (2021, 10.1002/spe.2984), for k of no sign.
 */
#ifndef TVM_HETERO_SUPPORT_SHORT_DECIMAL_H_
#define TVM_HETERO_SUPPORT_SHORT_DECIMAL_H_

#include <array>
#include <cstdint>
#include <cstring>

namespace tvm_hetero {

// Bytes that have to be readable where a decimal begins: three times eight before the point and
// behind it, a sign, the point, and what ends it.
constexpr int64_t kShortDecimalReach = 51;

/*!
 * \brief Read the decimal at `at`.
 * \param value set to what it is, rounded to nearest, ties to even.
 * \return Its end; nullptr: it is none of these, or none at all.
 */
inline const char* ReadShortDecimal(const char* at, double* value);

namespace short_decimal {

__extension__ using Wide = unsigned __int128;

constexpr int kMostDigits = 19;   // 10^19 < 2^64
constexpr int kExactTens = 22;    // 10^22 is a double
constexpr uint64_t kZeros = 0x3030303030303030;

constexpr uint64_t PowerOf(uint64_t base, int exponent) {
  uint64_t power = 1;
  for (; exponent > 0; --exponent) power *= base;
  return power;
}

/*! \brief What w / 10^k needs, by k. */
struct Tens {
  double as_double = 1;      /*!< 10^k */
  uint64_t as_integer = 1;   /*!< 10^k */
  uint64_t reciprocal = 0;   /*!< floor((2^127 - 1) / (5^k << shift)) */
  int shift = 0;             /*!< that puts a one into 5^k's highest bit */
};

constexpr std::array<Tens, kMostDigits + 1> MakeTens() {
  std::array<Tens, kMostDigits + 1> all{};
  for (int k = 0; k <= kMostDigits; ++k) {
    uint64_t divisor = PowerOf(5, k);
    all[k].as_integer = PowerOf(10, k);
    all[k].as_double = static_cast<double>(all[k].as_integer);
    for (; divisor >> 63 == 0; divisor <<= 1) ++all[k].shift;
    all[k].reciprocal = static_cast<uint64_t>((~Wide{0} >> 1) / divisor);
  }
  return all;
}

inline constexpr std::array<Tens, kMostDigits + 1> kTens = MakeTens();

/*! \brief Eight letters, the first in the lowest byte, less '0'. */
inline uint64_t LoadEight(const char* at) {
  uint64_t letters;
  std::memcpy(&letters, at, sizeof(letters));
  return letters ^ kZeros;
}

/*! \brief A one in the highest bit of the first byte that is no digit; what follows may err. */
inline uint64_t OtherLetters(uint64_t values) {
  return ((values + 0x7676767676767676) | values) & 0x8080808080808080;
}

/*! \brief The number that eight digits are. */
inline uint64_t NumberOf(uint64_t values) {
  const uint64_t pairs = values * 10 + (values >> 8);  // in the bytes 0, 2, 4, 6
  const uint64_t mask = 0x000000FF000000FF;
  const uint64_t outer = (pairs & mask) * (100 + (uint64_t{1000000} << 32));
  const uint64_t inner = (pairs >> 16 & mask) * (1 + (uint64_t{10000} << 32));
  return (outer + inner) >> 32;
}

/*! \brief Append the digits at `at` to a number; \return how many there are, 24 at most. */
inline int AppendDigits(const char* at, uint64_t* number) {
  int count = 0;
  for (; count < 24; count += 8) {
    const uint64_t values = LoadEight(at + count), others = OtherLetters(values);
    if (others != 0) {
      const int more = __builtin_ctzll(others) >> 3;
      // As the last of eight digits whose first are zero.
      const int half = 32 - 4 * more;
      *number = *number * kTens[more].as_integer + NumberOf(values << half << half);
      return count + more;
    }
    *number = *number * 100000000 + NumberOf(values);
  }
  return count;
}

/*!
 * \brief number / 10^k, if 64 bits of it say how it is rounded.
 *
 * With w = number << a and d = 5^k << b, both at least 2^63, Q = w * 2^63 / d is between 2^62 and
 * 2^64. With r = floor((2^127 - 1) / d), 2^127 / d - r is in (0, 1], so that Q is in (w * r / 2^64,
 * w * r / 2^64 + 1): more than q, the upper word of w * r, and less than q + 2. Of 63 or 64 bits 53
 * are kept; a tie, or a number that needs no rounding, is a multiple of 2^9. If none is in
 * [q, q + 1], all of the interval is rounded to one double: that of q with its lowest bit set.
 */
inline bool RoundedQuotient(uint64_t number, int k, double* value) {
  const Tens& tens = kTens[k];
  const int shift = __builtin_clzll(number);
  const uint64_t q = static_cast<uint64_t>(Wide{number << shift} * tens.reciprocal >> 64);
  if (((q + 1) & 511) < 2) return false;
  const double rounded = static_cast<double>(static_cast<int64_t>(q >> 1 | 1));
  // Q * 2^(b - a - k - 63), of which one bit was dropped; between 2^-64 and 2^64: no subnormal.
  const uint64_t bits = static_cast<uint64_t>(1023 + tens.shift - shift - k - 62) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  *value = rounded * scale;
  return true;
}

/*! \brief number / 10^k: by multiplication first, for programs write both small and large numbers,
 * and which one comes cannot be guessed. */
inline bool Divide(uint64_t number, int k, double* value) {
  if (number != 0 && RoundedQuotient(number, k, value)) return true;
  static_assert(kMostDigits <= kExactTens);
  *value = static_cast<double>(static_cast<int64_t>(number)) / kTens[k].as_double;
  return number >> 53 == 0;
}

}  // namespace short_decimal

__attribute__((always_inline)) inline const char* ReadShortDecimal(const char* at, double* value) {
  using namespace short_decimal;
  if constexpr (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) return nullptr;
  const bool is_negative = *at == '-';
  const char* first = at + is_negative;
  uint64_t number = 0;
  int whole, fraction = 0;
  if (first[1] == '.') {  // of most tensors most numbers
    whole = 1;
    number = static_cast<uint64_t>(first[0] - '0');
    if (number > 9) return nullptr;
  } else {
    whole = AppendDigits(first, &number);
    if (whole == 0 || (whole > 1 && *first == '0')) return nullptr;
  }
  const char* end = first + whole;
  const bool has_point = *end == '.';
  if (has_point) {
    fraction = AppendDigits(++end, &number);
    if (fraction == 0) return nullptr;
    end += fraction;
  }
  // A zero before the point is no digit of the number.
  if (whole + fraction > kMostDigits + (*first == '0') || fraction > kMostDigits) return nullptr;
  if (*end == 'e' || *end == 'E') return nullptr;
  if (!Divide(number, fraction, value)) return nullptr;
  // No branch: signs cannot be guessed. -0 is an integer, which has no sign of zero.
  const uint64_t sign = static_cast<uint64_t>(is_negative & (has_point | (number != 0))) << 63;
  uint64_t bits;
  std::memcpy(&bits, value, sizeof(bits));
  bits |= sign;
  std::memcpy(value, &bits, sizeof(bits));
  return end;
}

}  // namespace tvm_hetero

#endif  // TVM_HETERO_SUPPORT_SHORT_DECIMAL_H_
