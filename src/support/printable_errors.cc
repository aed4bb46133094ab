#include "support/printable_errors.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace tvm_hetero {
namespace {

constexpr size_t kLongest = 2000;
constexpr uint32_t kNone = 0xffffffff;  // no character

struct Character {
  uint32_t code;
  size_t bytes;
};

/*! \brief The character of UTF-8 at a place; `kNone`, of one byte, where there is none. */
Character CharacterAt(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + bytes > text.size()) return {kNone, 1};
  uint32_t code = first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(at + i) >> 6 != 2) return {kNone, 1};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[bytes] || code > 0x10ffff || is_surrogate) return {kNone, 1};
  return {code, bytes};
}

/*! \brief Unicode's categories C and Z, the plain space aside; most of what is unassigned is not. */
bool IsHidden(uint32_t code) {
  constexpr uint32_t ranges[][2] = {
      {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},
      {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
      {0x8e2, 0x8e2},     {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},
      {0x2028, 0x202f},   {0x205f, 0x206f},   {0x3000, 0x3000},   {0xd800, 0xf8ff},
      {0xfeff, 0xfeff},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd},
      {0x110cd, 0x110cd}, {0x13430, 0x1345f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
      {0x323b0, kNone}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const auto& range) { return range[0] <= code && code <= range[1]; });
}

std::string Escape(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char text[11];
  const char* form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text, sizeof text, form, code);
  return text;
}

/*! \brief Whether a byte of UTF-8 is not the first of its character. */
bool IsWithin(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

std::string Shortened(const std::string& text) {
  constexpr size_t kHalf = kLongest / 2 - 3;
  if (text.size() <= kLongest) return text;
  size_t head = kHalf, tail = text.size() - kHalf;
  while (IsWithin(text[head])) --head;
  while (IsWithin(text[tail])) ++tail;
  return text.substr(0, head) + " ... " + text.substr(tail);
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const Character found = CharacterAt(text, at);
    if (found.code == kNone) {
      shown += Escape(static_cast<unsigned char>(text[at]));
    } else if (IsHidden(found.code)) {
      shown += Escape(found.code);
    } else {
      shown.append(text, at, found.bytes);
    }
    at += found.bytes;
  }
  return Shortened(shown);
}

void ThrowPrintable(const ffi::Error& error) {
  throw ffi::Error(error.kind(), Printable(error.message()), error.backtrace());
}

}  // namespace tvm_hetero
