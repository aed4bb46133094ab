// The grammar's rules bear the names of RFC 8259; its levels are kept on a stack of our own.
#include "support/strict_json.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>

#include <cerrno>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

namespace tvm_hetero {
namespace {

namespace ffi = tvm::ffi;

// As in tvm_hetero/util/strict_json.py.
constexpr size_t kDeepest = 64;
constexpr int64_t kMostValues = 8 * 1000 * 1000;

/*! \brief Bytes of the UTF-8 sequence at `at`; 0 where there is none (Unicode 15, table 3-7). */
size_t Utf8Length(const char* at, size_t left) {
  auto byte = [at](size_t i) { return static_cast<uint8_t>(at[i]); };
  auto follows = [&](size_t i, uint8_t least, uint8_t most) {
    return i < left && byte(i) >= least && byte(i) <= most;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const uint8_t least = first == 0xE0 ? 0xA0 : 0x80, most = first == 0xED ? 0x9F : 0xBF;
    return follows(1, least, most) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first < 0xF0 || first > 0xF4) return 0;
  const uint8_t least = first == 0xF0 ? 0x90 : 0x80, most = first == 0xF4 ? 0x8F : 0xBF;
  return follows(1, least, most) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
}

class Scanner {
 public:
  Scanner(std::string& text, const std::string& document)
      : text_(text), document_(document) {}

  void Scan() {
    Value();
    while (!levels_.empty()) AfterValue();
    SkipSpace();
    if (at_ != text_.size()) Fail("more follows the document");
  }

 private:
  /*! \brief An object or a list that is not closed yet. */
  struct Level {
    char close;
    std::set<std::string> keys;
  };

  /*! \brief A value that has no parts, or the beginning of one that has. */
  void Value() {
    SkipSpace();
    if (++values_ > kMostValues) Fail("more than " + std::to_string(kMostValues) + " values");
    const char letter = Peek();
    if (letter == '{' || letter == '[') return Open(letter);
    if (letter == '"') return String();
    if (letter == 't') return Literal("true");
    if (letter == 'f') return Literal("false");
    if (letter == 'n') return Literal("null");
    Number();
  }

  void Open(char letter) {
    if (levels_.size() == kDeepest) {
      Fail("nested more than " + std::to_string(kDeepest) + " levels deep");
    }
    ++at_;
    levels_.push_back(Level{letter == '{' ? '}' : ']', {}});
    SkipSpace();
    if (Peek() == levels_.back().close) return Close();
    Member();
  }

  void Close() {
    ++at_;
    levels_.pop_back();
  }

  /*! \brief What follows a value of the innermost level: its end, or the next one. */
  void AfterValue() {
    SkipSpace();
    const char letter = Peek();
    if (letter == levels_.back().close) return Close();
    if (letter != ',') Fail("a comma, or the end of a list or an object, is missing");
    ++at_;
    SkipSpace();
    Member();
  }

  void Member() {
    if (levels_.back().close == '}') Key();
    Value();
  }

  void Key() {
    const size_t begin = at_;
    if (Peek() != '"') Fail("a key in quotes is missing");
    String();
    std::string key = text_.substr(begin, at_ - begin);
    if (key.find('\\') != std::string::npos) {
      ffi::String error;  // of surrogates without the other half
      ffi::Any decoded = ffi::json::Parse(ffi::String(key), &error);
      if (!error.empty()) Fail(std::string(error));
      key = '"' + std::string(decoded.cast<ffi::String>()) + '"';
    }
    if (!levels_.back().keys.insert(key).second) {
      Fail("key " + key.substr(0, 80) + " is given twice in one object");
    }
    SkipSpace();
    if (Peek() != ':') Fail("a colon is missing");
    ++at_;
  }

  void String() {
    for (++at_; Peek() != '"';) {
      if (at_ == text_.size()) Fail("a text has no end");
      if (static_cast<uint8_t>(text_[at_]) < 0x20) Fail("a control character in a text");
      const size_t length = Utf8Length(&text_[at_], text_.size() - at_);
      if (length == 0) Fail("not UTF-8 text");
      if (text_[at_] == '\\') {
        Escape();
      } else {
        at_ += length;
      }
    }
    ++at_;
  }

  void Escape() {
    ++at_;
    const char letter = Peek();
    if (letter == 'u') {
      for (size_t i = 1; i <= 4; ++i) {
        if (at_ + i >= text_.size() || !IsIn(text_[at_ + i], "0123456789abcdefABCDEF")) {
          Fail("an escape \\u without four digits");
        }
      }
      at_ += 4;
    } else if (!IsIn(letter, "\"\\/bfnrt")) {
      Fail("an unknown escape");
    }
    ++at_;
  }

  void Literal(const char* word) {
    const size_t length = std::strlen(word);
    if (text_.compare(at_, length, word) != 0) Fail("a value is missing");
    at_ += length;
  }

  void Number() {
    const size_t begin = at_;
    if (Peek() == '-') ++at_;
    if (Peek() == '0') {
      ++at_;
    } else {
      Digits();
    }
    if (Peek() == '.') {
      ++at_;
      Digits();
    }
    if (IsIn(Peek(), "eE")) {
      ++at_;
      if (IsIn(Peek(), "+-")) ++at_;
      Digits();
    }
    errno = 0;
    const std::string number = text_.substr(begin, at_ - begin);
    const double value = std::strtod(number.c_str(), nullptr);
    if (std::isinf(value)) Fail("a number that no float can hold: " + number.substr(0, 80));
    // Compared, too: a library that treats subnormals as zero may have been loaded.
    if (number.size() >= 3 && (errno != 0 || std::fabs(value) < DBL_MIN)) {
      text_.replace(begin, number.size(), "0.0" + std::string(number.size() - 3, ' '));
    }
  }

  void Digits() {
    if (!IsIn(Peek(), "0123456789")) Fail("a value is missing");
    while (IsIn(Peek(), "0123456789")) ++at_;
  }

  void SkipSpace() {
    while (IsIn(Peek(), " \t\n\r")) ++at_;
  }

  /*! \brief The next letter; NUL at the end, which is part of no document. */
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  static bool IsIn(char letter, const char* some) {
    return letter != '\0' && std::strchr(some, letter) != nullptr;
  }

  [[noreturn]] void Fail(const std::string& reason) const {
    TVM_FFI_THROW(ValueError) << document_ << ": not a JSON document: at byte " << at_ << ": "
                              << reason;
    TVM_FFI_UNREACHABLE();
  }

  std::string& text_;
  const std::string& document_;
  size_t at_ = 0;
  int64_t values_ = 0;
  std::vector<Level> levels_;
};

}  // namespace

void CheckStrictJson(std::string* text, const std::string& document) {
  Scanner(*text, document).Scan();
}

}  // namespace tvm_hetero
