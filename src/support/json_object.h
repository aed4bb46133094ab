/*!
 * \file support/json_object.h
 * \brief Reading a JSON object strictly: every error says where, and no key goes unread.
 */
#ifndef TVM_HETERO_SUPPORT_JSON_OBJECT_H_
#define TVM_HETERO_SUPPORT_JSON_OBJECT_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/extra/json.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tvm_hetero {

namespace ffi = tvm::ffi;

/*!
 * \brief One JSON object and where it stands in its document ("steps[3]").
 *
 * Each getter throws ValueError where the key is missing or of another type. `Finish` throws where
 * a key was never asked for, so that a misspelt or newer key is refused and not ignored.
 */
class JsonObject {
 public:
  /*! \brief `document` is what messages begin with. */
  JsonObject(const ffi::Any& value, std::string where, std::string document = "plan");

  bool Has(const std::string& key) const;
  std::string String(const std::string& key);
  int64_t Int(const std::string& key);
  bool Bool(const std::string& key);
  std::vector<int> Ints(const std::string& key);
  std::vector<int64_t> Int64s(const std::string& key);
  JsonObject Object(const std::string& key);
  /*! \brief An object whose values are all strings. */
  std::map<std::string, std::string> Strings(const std::string& key);
  /*! \brief The objects of a list, each knowing its place. */
  std::vector<JsonObject> Objects(const std::string& key);
  void Finish() const;
  /*! \brief Refuse a document whose "format" is not the one that this version reads. */
  void RequireFormat(const std::string& expected);

  /*! \brief Throw ValueError "<document>: <where>.<key>: <text>". */
  [[noreturn]] void Fail(const std::string& key, const std::string& text) const;

 private:
  ffi::Any Take(const std::string& key);
  ffi::json::Array List(const std::string& key);
  std::string Place(const std::string& key) const;

  ffi::json::Object object_;
  std::string where_;
  std::string document_;
  std::vector<std::string> known_;
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_JSON_OBJECT_H_
