// A number that is no short decimal is handed to std::from_chars, which rounds as IEEE 754 says; what
// it takes and JSON does not (01, 1., inf) is looked for here.
#include "support/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "support/short_decimal.h"

namespace tvm_hetero {
namespace {

// Bytes of space before a number or a bracket: more than any indentation has.
constexpr int64_t kMostSpace = 4096;

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

/*! \brief The end of the number at `at`; nullptr: there is none that T can hold. */
template <typename T>
const char* ReadNumber(const char* at, const char* end, T* number) {
  const char* digits = at + (at != end && *at == '-');
  if (digits == end || !IsDigit(*digits)) return nullptr;
  if (*digits == '0' && digits + 1 != end && IsDigit(digits[1])) return nullptr;
  if constexpr (std::is_integral_v<T>) {
    const auto [stop, error] = std::from_chars(at, end, *number);
    return error == std::errc() ? stop : nullptr;  // a fraction that follows is no comma
  } else {
    double value;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return nullptr;
    const void* point = std::memchr(digits, '.', stop - digits);
    if (point != nullptr) {
      const char* fraction = static_cast<const char*>(point) + 1;
      if (fraction == stop || !IsDigit(*fraction)) return nullptr;
    } else if (value == 0 && stop - at == 2) {
      value = 0;  // -0 is an integer, which has no sign of zero
    }
    *number = static_cast<T>(value);
    return std::isfinite(*number) ? stop : nullptr;
  }
}

/*! \brief As `ReadNumber`, sooner of most numbers. */
template <typename T>
inline const char* ReadSoon(const char* at, const char* end, T* number) {
  if constexpr (std::is_floating_point_v<T>) {
    double value;
    const char* stop = end - at < kShortDecimalReach ? nullptr : ReadShortDecimal(at, &value);
    if (stop != nullptr) {
      *number = static_cast<T>(value);  // less than 1e20: finite
      return stop;
    }
  }
  return ReadNumber(at, end, number);
}

bool IsSpace(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
}

/*! \brief Leaves what is more than `kMostSpace`, where nobody expects it. */
const char* SkipMuchSpace(const char* at, const char* end) {
  const char* until = at + std::min(kMostSpace, static_cast<int64_t>(end - at));
  while (at != until && IsSpace(*at)) ++at;
  return at;
}

/*! \brief There is none, or one, almost always. */
inline const char* SkipSpace(const char* at, const char* end) {
  if (at != end && *at == ' ') ++at;
  return at != end && IsSpace(*at) ? SkipMuchSpace(at, end) : at;
}

/*! \brief Goes through a text. */
class ArrayReader {
 public:
  ArrayReader(const TvmHeteroJsonArray& array, int64_t done, int64_t at)
      : array_(array), done_(done), at_(array.text + at), end_(array.text + array.size) {}

  template <typename T>
  bool ReadOn(int64_t most) {
    const char* until = at_ + std::min<int64_t>(most, end_ - at_);
    T* numbers = static_cast<T*>(array_.numbers);
    while (at_ < until) {
      if (!PassBrackets()) return false;
      if (done_ == array_.count) return at_ == end_;
      const int64_t row = array_.inner == 0 ? array_.count : array_.rows[0];
      if (!ReadRow(numbers, done_ - done_ % row + row, until)) return false;
    }
    return true;
  }

  int64_t done() const { return done_; }
  int64_t at() const { return at_ - array_.text; }

 private:
  /*!
   * \brief Numbers with commas between them, up to the last of a row or where to pause.
   *
   * The place is in a register: each number begins where the one before ends, so that all the time
   * which is spent on finding that adds up.
   */
  template <typename T>
  bool ReadRow(T* numbers, int64_t last, const char* until) {
    const char *at = at_, *const end = end_;
    int64_t done = done_;
    for (;;) {
      at = SkipSpace(at, end);
      at = ReadSoon(at, end, numbers + done);
      if (at == nullptr || at == end) return false;  // it would end without its bracket
      if (++done == last || at >= until) break;
      at = SkipSpace(at, end);
      if (at == end || *at != ',') return false;
      ++at;
    }
    at_ = at;
    done_ = done;
    return true;
  }

  /*! \brief What stands before the next number, or behind the last. */
  bool PassBrackets() {
    const bool is_first = done_ == 0, is_last = done_ == array_.count;
    const int32_t ended = is_first || is_last ? array_.inner + 1 : EndedRows();
    if (!is_first && !Pass(']', ended)) return false;
    if (!is_first && !is_last && !Pass(',', 1)) return false;
    return is_last || Pass('[', ended);
  }

  /*! \brief How many arrays of the text end with the number before this. */
  int32_t EndedRows() const {
    int32_t ended = 0;
    while (ended < array_.inner && done_ % array_.rows[ended] == 0) ++ended;
    return ended;
  }

  bool Pass(char letter, int32_t times) {
    for (; times > 0; --times) {
      at_ = SkipSpace(at_, end_);
      if (at_ == end_ || *at_ != letter) return false;
      ++at_;
    }
    return true;
  }

  const TvmHeteroJsonArray& array_;
  int64_t done_;
  const char* at_;
  const char* end_;
};

bool ReadOn(ArrayReader* reader, char kind, int32_t bytes, int64_t most) {
  if (kind == 'f' && bytes == 4) return reader->ReadOn<float>(most);
  if (kind == 'f' && bytes == 8) return reader->ReadOn<double>(most);
  if (kind == 'i' && bytes == 1) return reader->ReadOn<int8_t>(most);
  if (kind == 'i' && bytes == 2) return reader->ReadOn<int16_t>(most);
  if (kind == 'i' && bytes == 4) return reader->ReadOn<int32_t>(most);
  if (kind == 'i' && bytes == 8) return reader->ReadOn<int64_t>(most);
  if (kind == 'u' && bytes == 1) return reader->ReadOn<uint8_t>(most);
  if (kind == 'u' && bytes == 2) return reader->ReadOn<uint16_t>(most);
  if (kind == 'u' && bytes == 4) return reader->ReadOn<uint32_t>(most);
  if (kind == 'u' && bytes == 8) return reader->ReadOn<uint64_t>(most);
  return false;
}

}  // namespace
}  // namespace tvm_hetero

int64_t tvm_hetero_read_json_numbers(const TvmHeteroJsonArray* array, int64_t done, int64_t most,
                                     int64_t* at) {
  tvm_hetero::ArrayReader reader(*array, done, *at);
  if (!tvm_hetero::ReadOn(&reader, array->kind, array->bytes, most)) return -1;
  *at = reader.at();
  return reader.done();
}
