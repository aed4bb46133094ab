// SHA-256: the examples of FIPS 180-4, and messages that come in pieces.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "harness.h"
#include "support/sha256.h"

namespace tvm_hetero::tests {
namespace {

std::string Digest(const std::string& message, Sha256Block block) {
  Sha256 hash(block);
  hash.Update(message.data(), message.size());
  return hash.Digest();
}

struct Example {
  std::string message;
  const char* digest;
};

TEST(DigestsOfTheStandardsExamples) {
  const Example examples[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
       "lmnopqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const Example& example : examples) {
    CHECK(Sha256OfText(example.message) == example.digest);
    CHECK(Digest(example.message, Sha256PortableBlock) == example.digest);
  }
}

TEST(PiecesOfAnyLengthMakeOneMessage) {
  for (size_t length : {1, 55, 56, 63, 64, 65, 119, 120, 128, 1000}) {
    std::string message(length, '\0');
    for (size_t i = 0; i < length; ++i) message[i] = static_cast<char>(37 * i);
    for (size_t piece : {1, 3, 63, 64, 65, 100}) {
      Sha256 hash;
      for (size_t begin = 0; begin < length; begin += piece) {
        std::string part = message.substr(begin, piece);
        hash.Update(part.data(), part.size());
      }
      CHECK(hash.Digest() == Digest(message, Sha256PortableBlock));
    }
  }
}

TEST(DigestOfAFile) {
  char path[] = "/tmp/tvm_hetero_test_XXXXXX";
  close(mkstemp(path));
  const std::string message(1000000, 'a');  // longer than what is read at once
  std::ofstream(path, std::ios::binary) << message;
  std::string digest = Sha256OfFile(path);
  std::remove(path);
  CHECK(digest == Sha256OfText(message));
  CHECK_CONTAINS(Thrown([] { Sha256OfFile("/nowhere/at/all"); }), "cannot be read");
  CHECK_CONTAINS(Thrown([] { Sha256OfFile("/tmp"); }), "cannot be read");
}

}  // namespace
}  // namespace tvm_hetero::tests
