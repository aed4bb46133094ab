// Files that may come from anywhere: what is damaged is refused, whatever the damage.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include <tvm_hetero/npy.h>
#include <tvm_hetero/safetensors.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "sample.h"
#include "support/parse_json.h"
#include "support/printable_errors.h"
#include "support/sha256.h"

namespace tvm_hetero::tests {
namespace {

/*! \brief A file that goes when the test ends. */
class TemporaryFile {
 public:
  TemporaryFile() {
    int descriptor = mkstemp(path_);
    CHECK(descriptor >= 0);
    close(descriptor);
  }
  ~TemporaryFile() { std::remove(path_); }
  std::string path() const { return path_; }
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  char path_[32] = "/tmp/tvm_hetero_test_XXXXXX";
};

std::string WithLength(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

/*! \brief Two tensors: "a", float32 [2, 3], and "b", int8 [4]. */
std::string GoodWeights() {
  std::string header =
      R"({"__metadata__": {"by": "us"}, "a": {"dtype": "F32", "shape": [2, 3], )"
      R"("data_offsets": [0, 24]}, "b": {"dtype": "I8", "shape": [4], "data_offsets": [24, 28]}})";
  std::string data(28, '\0');
  data[27] = 42;
  return WithLength(header, data);
}

/*! \brief What reading all of a file says: "" if nothing is wrong. */
std::string Complaint(const TemporaryFile& file, const std::string& bytes) {
  file.Write(bytes);
  try {
    SafetensorsFile weights(file.path());
    for (const auto& [name, stored] : weights.tensors()) weights.Read(name);
    return "";
  } catch (const ffi::Error& error) {
    CHECK(error.kind() == "ValueError");
    return error.what();
  }
}

TEST(WeightsAreRead) {
  TemporaryFile file;
  CHECK(Complaint(file, GoodWeights()) == "");
  SafetensorsFile weights(file.path());
  CHECK(weights.tensors().size() == 2);
  ffi::Tensor b = weights.Read("b", DLDevice{kDLCPU, 1});
  CHECK(static_cast<const char*>(b.data_ptr())[3] == 42);
  CHECK(b.device().device_id == 1);
  CHECK(weights.Read("a").IsAligned(64));
  CHECK_CONTAINS(Thrown([&] { weights.Read("c"); }), "there is no tensor 'c'");
  CHECK(Complaint(file, WithLength("{}", "")) == "");
}

TEST(AFileThatIsNotThere) {
  CHECK_CONTAINS(Thrown([] { SafetensorsFile("/nowhere/at/all"); }), "cannot be read");
  CHECK_CONTAINS(Thrown([] { SafetensorsFile("/tmp"); }), "it is a folder");
}

TEST(WhatIsNoPlainFileIsRefusedAtOnce) {
  const std::string pipe = "/tmp/tvm_hetero_test_pipe_" + std::to_string(getpid());
  CHECK(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    CHECK_CONTAINS(Thrown([&] { SafetensorsFile file(path); }), "it is no plain file");
    CHECK_CONTAINS(Thrown([&] { ReadNpy(path); }), "it is no plain file");
    CHECK_CONTAINS(Thrown([&] { ReadText(path); }), "it is no plain file");
    CHECK_CONTAINS(Thrown([&] { Sha256OfFile(path); }), "it is no plain file");
  }
  std::remove(pipe.c_str());
}

struct BadHeader {
  const char* header;
  const char* complaint;
};

TEST(BadHeadersAreRefused) {
  const BadHeader cases[] = {
      {"[]", "no JSON object"},
      {"{\"a\": 3}", "expected an object"},
      {"{\"a\": ", "not a JSON document"},
      {R"({"a": {"dtype": "F32", "shape": [1]}})", "data_offsets is missing"},
      {R"({"a": {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]}})", "\"F7\""},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", "expected 8"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}})", "not a range"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "not a range"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}})", "not a range"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", "not a range"},
      {R"({"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}})", "negative"},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})",
       "counted"},
      {R"({"a": {"dtype": "F32", "shape": [0, 4611686018427387904], "data_offsets": [0, 0]}})",
       "counted"},
      {R"({"a": {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}})", "gaps"},
      {R"({"a": {"dtype": "I8", "shape": [2], "data_offsets": [2, 4]}})", "gaps"},
      {R"({"a": {"dtype": "I8", "shape": [3], "data_offsets": [0, 3]},
           "b": {"dtype": "I8", "shape": [2], "data_offsets": [2, 4]}})",
       "overlap"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "more": 1}})",
       "unknown key"},
  };
  TemporaryFile file;
  for (const BadHeader& bad : cases) {
    CHECK_CONTAINS(Complaint(file, WithLength(bad.header, "1234")), bad.complaint);
  }
  CHECK_CONTAINS(Complaint(file, std::string(8, '\xff') + "{}"), "expected at most 2");
  CHECK_CONTAINS(Complaint(file, WithLength(std::string(1000000, '['), "")), "levels deep");
}

TEST(EveryTruncationIsRefused) {
  TemporaryFile file;
  std::string good = GoodWeights();
  for (size_t length = 0; length < good.size(); ++length) {
    CHECK(Complaint(file, good.substr(0, length)) != "");
  }
  CHECK(Complaint(file, good + "x") != "");
}

TEST(FlippedBytesNeverCrash) {
  TemporaryFile file;
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = GoodWeights();
    for (int i = 0; i < 1 + round % 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    Complaint(file, bytes);  // checks that what is thrown is a ValueError
  }
}

TEST(ArraysGoToFilesAndBack) {
  TemporaryFile file;
  WriteNpy(file.path(), Filled(3));
  ffi::Tensor back = ReadNpy(file.path());
  CHECK(back.numel() == kFloats);
  CHECK(static_cast<const float*>(back.data_ptr())[15] == 3);
  std::string good = ReadText(file.path());
  CHECK(good.size() % 64 == 0);
  for (size_t length = 0; length < good.size(); length += 7) {
    file.Write(good.substr(0, length));
    CHECK_CONTAINS(Thrown([&] { ReadNpy(file.path()); }), file.path());
  }
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = good;
    bytes[random() % 128] = static_cast<char>(random());
    file.Write(bytes);
    try {
      ReadNpy(file.path());
    } catch (const ffi::Error& error) {
      CHECK(error.kind() == "ValueError");
    }
  }
}

TEST(WhatIsNoJsonIsRefused) {
  const char* cases[] = {
      "", "01", "+1", "1.", ".5", "1e", "-", "NaN", "Infinity", "1e999", "tru", "[1,]", "[1 2]",
      "{\"a\" 1}", "{a: 1}", "{\"a\": 1,}", "[1] 2", "\"a", "\"\t\"", "\"\\x\"", "\"\\u12g4\"",
      "\"\\ud800\"", "{\"\\udc00\": 1}", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82",
      "{\"a\": 1, \"a\": 2}", "{\"a\": 1, \"\\u0061\": 2}", "\xef\xbb\xbf{}", "'a'", "// no\n1"};
  for (const char* text : cases) {
    CHECK_CONTAINS(Thrown([&] { ParseJson(text, "x"); }), "x: not a JSON document");
  }
  const char* good[] = {"0", "-0.5e-3", "5e-324", "[-1e-400, 1]", " [ ] ", "{\"a\": {\"a\": 1}, \"b\": [{}, {}]}",
                        "\"\\ud83d\\ude00\xf0\x9f\x98\x80\\u0000\\/\"", "1e308", "null\n"};
  for (const char* text : good) ParseJson(text, "x");
}

TEST(WhatAnErrorQuotesIsSafeToShow) {
  CHECK(Printable("x 'caf\u00e9' \u4e2d \U0001f600") == "x 'caf\u00e9' \u4e2d \U0001f600");
  CHECK(Printable("\x1b[31m\n\t\x7f") == "\\x1b[31m\\n\\t\\x7f");
  CHECK(Printable("\u202eab\u200b\ufeff\U000e0041") == "\\u202eab\\u200b\\ufeff\\U000e0041");
  CHECK(Printable("\xff\xc3|\xed\xa0\x80") == "\\xff\\xc3|\\xed\\xa0\\x80");
  CHECK(Printable(std::string("a\0b", 3)) == "a\\x00b");
  const std::string cut = Printable("begin" + std::string(5000, '\x01') + "\u00e9end");
  CHECK(cut.size() <= 2000 && cut.rfind("begin", 0) == 0);
  CHECK_CONTAINS(cut, " ... ");
  CHECK(cut.substr(cut.size() - 5) == "\u00e9end");
  TemporaryFile file;
  const std::string said = Complaint(file, WithLength(R"({"\u001b[2J": {"dtype": "\u202e"}})", ""));
  CHECK_CONTAINS(said, "\\x1b[2J");
  CHECK_CONTAINS(said, "\\u202e");
}

TEST(NestingIsNotCountedWithinStrings) {
  CHECK(ParseJson("\"" + std::string(1000, '[') + "\\\"[\"", "x").as<ffi::String>().has_value());
  CHECK_CONTAINS(Thrown([] { ParseJson(std::string(65, '['), "x"); }), "levels deep");
}

}  // namespace
}  // namespace tvm_hetero::tests
