// Numbers of JSON, of texts that end where their memory ends, whatever they are.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "support/json_numbers.h"

namespace tvm_hetero::tests {
namespace {

/*! \brief The array of count / 2 x 2 (or flat: count) numbers in a text; empty if it is none. */
std::vector<float> Read(const std::string& text, bool is_nested, int64_t most, int64_t count = 4) {
  const std::unique_ptr<char[]> own(new char[text.size()]);  // no byte more, for the sanitizer
  text.copy(own.get(), text.size());
  std::vector<float> numbers(count);
  const int64_t row = 2;
  const TvmHeteroJsonArray array{own.get(), static_cast<int64_t>(text.size()), numbers.data(),
                                 count,     &row, is_nested ? 1 : 0, 'f', 4};
  int64_t done = 0, at = 0;
  do {
    done = tvm_hetero_read_json_numbers(&array, done, most, &at);
  } while (done >= 0 && at < array.size);
  return done == count ? numbers : std::vector<float>{};
}

const char* const kNested = "[ [1,-2.5e-1] , [3E+2,\n0.0] ]";
const char* const kFlat = "[1,-2.5e-1,3E+2,0.0]";

TEST(NumbersOfJsonComeWholeAndInPieces) {
  const std::vector<float> expected{1.0f, -0.25f, 300.0f, 0.0f};
  for (int64_t most = 1; most < 40; ++most) {
    CHECK(Read(kNested, true, most) == expected);
    CHECK(Read(kFlat, false, most) == expected);
    CHECK(Read(kNested, false, most).empty());
    CHECK(Read(kFlat, true, most).empty());
  }
}

TEST(JsonThatIsCutOrChangedIsNotReadBeyondItsEnd) {
  for (const bool is_nested : {false, true}) {
    const std::string text = is_nested ? kNested : kFlat;
    for (size_t i = 0; i < text.size(); ++i) {
      CHECK(Read(text.substr(0, i), is_nested, 7).empty());
      CHECK(Read(text + text[i], is_nested, 7).empty());
      for (const char letter : std::string("-.,[]e0 x")) {
        std::string changed = text;
        changed[i] = letter;
        Read(changed, is_nested, 7);
        Read(changed.substr(0, i + 1), is_nested, 7);
      }
    }
  }
}

TEST(DecimalsThatAreCutAreNotReadBeyondTheirEnd) {
  const std::string last = "-7.0123456789012345678";
  std::string text = "[", nested = "[";
  for (int i = 0; i < 3; ++i) {
    text += last + ", 0.1234567890123456, 123456789012345678901234567890.5,1,";
    nested += "[" + last + ", 0.1234567890123456], [123456789012345678901234567890.5,1],";
  }
  const std::vector<float> expected{-7.01234579f, 0.123456791f, 1.23456788e29f, 1.0f};
  const std::vector<float> whole = Read(text + last + ",2]", false, 1 << 20, 14);
  CHECK(whole.size() == 14 && whole[13] == 2.0f);
  for (size_t i = 0; i + 2 < whole.size(); ++i) CHECK(whole[i] == expected[i % 4]);
  CHECK(Read(nested + "[" + last + ",2]]", true, 30, 14) == whole);
  for (size_t i = 0; i < text.size(); ++i) {
    CHECK(Read(text.substr(0, i), false, 1 << 20, 14).empty());
    CHECK(Read(nested.substr(0, i), true, 1 << 20, 14).empty());
  }
  for (size_t digits = 1; digits < 60; ++digits) {  // digits alone up to the end
    CHECK(Read("[" + std::string(digits, '7'), false, 1 << 20).empty());
    CHECK(Read("[0." + std::string(digits, '7'), false, 1 << 20).empty());
  }
}

}  // namespace
}  // namespace tvm_hetero::tests
