/*!
 * \file support/sha256.h
 * \brief SHA-256 (FIPS 180-4), for telling whether a file is the one that was written.
 */
#ifndef TVM_HETERO_SUPPORT_SHA256_H_
#define TVM_HETERO_SUPPORT_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tvm_hetero {

/*! \brief What has gone into a digest so far: H of the standard. */
using Sha256State = std::array<uint32_t, 8>;

/*! \brief The 64 words that the rounds add: K of the standard. */
extern const uint32_t kSha256K[64];

/*! \brief Let a block of 64 bytes go into the state. */
using Sha256Block = void (*)(const uint8_t* block, Sha256State* state);
void Sha256PortableBlock(const uint8_t* block, Sha256State* state);
/*! \brief The same with instructions that are made for it; null where the processor has none. */
Sha256Block Sha256HardwareBlock();

/*! \brief Takes a message piece by piece. */
class Sha256 {
 public:
  /*! \param block How blocks are computed; by default as fast as this processor can. */
  explicit Sha256(Sha256Block block = nullptr);
  void Update(const char* bytes, size_t count);
  /*! \brief The digest in lower-case hexadecimal. Ends the message: nothing more can be done. */
  std::string Digest();

 private:
  static constexpr size_t kBlock = 64;

  const Sha256Block block_;
  Sha256State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlock> rest_{};  //!< of the message, less than a block
  uint64_t count_{0};                   //!< bytes of the message so far
};

/*! \brief The digest of a text. */
std::string Sha256OfText(const std::string& text);

/*! \brief The digest of a file; ValueError where it cannot be read. */
std::string Sha256OfFile(const std::string& path);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_SHA256_H_
