#include "support/json_object.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tvm_hetero {
namespace {

/*! \brief A JSON value as a person would name it, short enough for a message. */
std::string Shown(const ffi::Any& value) {
  if (value == nullptr) return "null";
  std::string text(ffi::json::Stringify(value));
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

int64_t AsInt(const ffi::Any& value, const std::string& document, const std::string& place) {
  // A bool is convertible to an integer, so ask for the exact type.
  if (value.type_index() != ffi::TypeIndex::kTVMFFIInt) {
    TVM_FFI_THROW(ValueError) << document << ": " << place << " is " << Shown(value)
                              << ", expected an integer";
  }
  return value.cast<int64_t>();
}

int AsIndex(const ffi::Any& value, const std::string& document, const std::string& place) {
  int64_t number = AsInt(value, document, place);
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    TVM_FFI_THROW(ValueError) << document << ": " << place << " is " << number
                              << ", expected a number from 0 on";
  }
  return static_cast<int>(number);
}

}  // namespace

JsonObject::JsonObject(const ffi::Any& value, std::string where, std::string document)
    : where_(std::move(where)), document_(std::move(document)) {
  auto object = value.as<ffi::json::Object>();
  if (!object.has_value()) {
    TVM_FFI_THROW(ValueError) << document_ << ": " << (where_.empty() ? "the document" : where_)
                              << " is " << Shown(value) << ", expected an object {...}";
  }
  object_ = *object;
}

bool JsonObject::Has(const std::string& key) const {
  return object_.count(ffi::String(key)) != 0;
}

std::string JsonObject::String(const std::string& key) {
  ffi::Any value = Take(key);
  auto text = value.try_cast<ffi::String>();
  if (!text.has_value()) Fail(key, "is " + Shown(value) + ", expected a string");
  return std::string(*text);
}

int64_t JsonObject::Int(const std::string& key) { return AsInt(Take(key), document_, Place(key)); }

bool JsonObject::Bool(const std::string& key) {
  ffi::Any value = Take(key);
  if (value.type_index() != ffi::TypeIndex::kTVMFFIBool) {
    Fail(key, "is " + Shown(value) + ", expected true or false");
  }
  return value.cast<bool>();
}

std::vector<int> JsonObject::Ints(const std::string& key) {
  std::vector<int> numbers;
  for (const ffi::Any& item : List(key)) {
    std::string place = Place(key) + "[" + std::to_string(numbers.size()) + "]";
    numbers.push_back(AsIndex(item, document_, place));
  }
  return numbers;
}

std::vector<int64_t> JsonObject::Int64s(const std::string& key) {
  std::vector<int64_t> numbers;
  for (const ffi::Any& item : List(key)) {
    std::string place = Place(key) + "[" + std::to_string(numbers.size()) + "]";
    numbers.push_back(AsInt(item, document_, place));
  }
  return numbers;
}

JsonObject JsonObject::Object(const std::string& key) {
  return JsonObject(Take(key), Place(key), document_);
}

std::map<std::string, std::string> JsonObject::Strings(const std::string& key) {
  JsonObject object = Object(key);
  std::map<std::string, std::string> strings;
  for (const auto& [name, value] : object.object_) {
    std::string text(name.cast<ffi::String>());
    strings.emplace(text, object.String(text));
  }
  return strings;
}

std::vector<JsonObject> JsonObject::Objects(const std::string& key) {
  std::vector<JsonObject> objects;
  for (const ffi::Any& item : List(key)) {
    objects.emplace_back(item, Place(key) + "[" + std::to_string(objects.size()) + "]", document_);
  }
  return objects;
}

void JsonObject::Finish() const {
  std::vector<std::string> unknown;  // the map's order is arbitrary: sort, so messages are stable
  for (const auto& [key, value] : object_) {
    auto name = key.cast<ffi::String>();
    if (std::find(known_.begin(), known_.end(), std::string(name)) == known_.end()) {
      unknown.push_back(std::string(name));
    }
  }
  if (unknown.empty()) return;
  std::sort(unknown.begin(), unknown.end());
  std::string expected;
  for (const std::string& key : known_) expected += (expected.empty() ? "" : ", ") + key;
  TVM_FFI_THROW(ValueError) << document_ << ": unknown key " << Place(unknown.front())
                            << ", expected keys: " << expected;
}

void JsonObject::RequireFormat(const std::string& expected) {
  const std::string format = String("format");
  if (format == expected) return;
  Fail("format", "is \"" + format + "\", expected \"" + expected +
                     "\": build the artifact again with this version");
}

void JsonObject::Fail(const std::string& key, const std::string& text) const {
  TVM_FFI_THROW(ValueError) << document_ << ": " << Place(key) << " " << text;
  TVM_FFI_UNREACHABLE();
}

ffi::Any JsonObject::Take(const std::string& key) {
  known_.push_back(key);
  if (!Has(key)) Fail(key, "is missing");
  return object_[ffi::String(key)];
}

ffi::json::Array JsonObject::List(const std::string& key) {
  ffi::Any value = Take(key);
  auto list = value.as<ffi::json::Array>();
  if (!list.has_value()) Fail(key, "is " + Shown(value) + ", expected a list [...]");
  return *list;
}

std::string JsonObject::Place(const std::string& key) const {
  return where_.empty() ? key : where_ + "." + key;
}

}  // namespace tvm_hetero
