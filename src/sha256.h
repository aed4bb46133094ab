/*!
 * \file sha256.h
 * \brief SHA-256 (FIPS 180-4), for telling whether a file is the one that was written.
 */
#ifndef TVM_HETERO_SHA256_H_
#define TVM_HETERO_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tvm_hetero {

/*! \brief Takes a message piece by piece. */
class Sha256 {
 public:
  void Update(const char* bytes, size_t count);
  /*! \brief The digest in lower-case hexadecimal. Ends the message: nothing more can be done. */
  std::string Digest();

 private:
  static constexpr size_t kBlock = 64;

  void Compress(const uint8_t* block);

  std::array<uint32_t, 8> hash_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlock> rest_{};  //!< of the message, less than a block
  uint64_t count_{0};                   //!< bytes of the message so far
};

/*! \brief The digest of a text. */
std::string Sha256OfText(const std::string& text);

/*! \brief The digest of a file; ValueError where it cannot be read. */
std::string Sha256OfFile(const std::string& path);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SHA256_H_
