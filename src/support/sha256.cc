// The names are those of FIPS 180-4, sections 4.1.2, 4.2.2 and 6.2 (doi:10.6028/NIST.FIPS.180-4).
#include "support/sha256.h"

#include <algorithm>
#include <vector>

#include "support/plain_file.h"

namespace tvm_hetero {

// The first 32 bits of the fractions of the cube roots of the first 64 primes.
const uint32_t kSha256K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

namespace {

uint32_t ROTR(uint32_t x, int n) { return x >> n | x << (32 - n); }
uint32_t Ch(uint32_t x, uint32_t y, uint32_t z) { return (x & y) ^ (~x & z); }
uint32_t Maj(uint32_t x, uint32_t y, uint32_t z) { return (x & y) ^ (x & z) ^ (y & z); }
uint32_t Sigma0(uint32_t x) { return ROTR(x, 2) ^ ROTR(x, 13) ^ ROTR(x, 22); }
uint32_t Sigma1(uint32_t x) { return ROTR(x, 6) ^ ROTR(x, 11) ^ ROTR(x, 25); }
uint32_t sigma0(uint32_t x) { return ROTR(x, 7) ^ ROTR(x, 18) ^ x >> 3; }
uint32_t sigma1(uint32_t x) { return ROTR(x, 17) ^ ROTR(x, 19) ^ x >> 10; }

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

/*! \brief Section 6.2.2. */
void Sha256PortableBlock(const uint8_t* block, Sha256State* state) {
  uint32_t W[64];
  for (int t = 0; t < 16; ++t) W[t] = BigEndian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    W[t] = sigma1(W[t - 2]) + W[t - 7] + sigma0(W[t - 15]) + W[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (int t = 0; t < 64; ++t) {
    const uint32_t T1 = h + Sigma1(e) + Ch(e, f, g) + kSha256K[t] + W[t];
    const uint32_t T2 = Sigma0(a) + Maj(a, b, c);
    h = g, g = f, f = e, e = d + T1;
    d = c, c = b, b = a, a = T1 + T2;
  }
  const uint32_t more[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) (*state)[i] += more[i];
}

namespace {

Sha256Block FastestBlock() {
  Sha256Block hardware = Sha256HardwareBlock();
  return hardware != nullptr ? hardware : Sha256PortableBlock;
}

}  // namespace

Sha256::Sha256(Sha256Block block)
    : block_(block != nullptr ? block : FastestBlock()) {}

void Sha256::Update(const char* bytes, size_t count) {
  const uint8_t* next = reinterpret_cast<const uint8_t*>(bytes);
  while (count > 0) {
    const size_t held = count_ % kBlock;
    const size_t taken = std::min(count, kBlock - held);
    if (taken == kBlock) {
      block_(next, &state_);
    } else {
      std::copy_n(next, taken, rest_.begin() + held);
      if (held + taken == kBlock) block_(rest_.data(), &state_);
    }
    count_ += taken;
    next += taken;
    count -= taken;
  }
}

/*! \brief Section 5.1.1: a one bit, zeros, and the message's length in bits end a block. */
std::string Sha256::Digest() {
  const uint64_t bits = 8 * count_;
  std::string padding(1 + (2 * kBlock - 9 - count_ % kBlock) % kBlock, '\0');
  padding[0] = '\x80';
  for (int shift = 56; shift >= 0; shift -= 8) padding += static_cast<char>(bits >> shift);
  Update(padding.data(), padding.size());
  std::string text;
  for (uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  }
  return text;
}

std::string Sha256OfText(const std::string& text) {
  Sha256 hash;
  hash.Update(text.data(), text.size());
  return hash.Digest();
}

std::string Sha256OfFile(const std::string& path) {
  const PlainFile file(path);
  std::vector<char> piece(1 << 18);
  Sha256 hash;
  for (uint64_t begin = 0; begin < file.size(); begin += piece.size()) {
    const size_t count = std::min<uint64_t>(piece.size(), file.size() - begin);
    file.ReadAt(begin, count, piece.data());
    hash.Update(piece.data(), count);
  }
  return hash.Digest();
}

}  // namespace tvm_hetero
