#include "support/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <tvm/ffi/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tvm_hetero {

PlainFile::PlainFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  struct stat status;
  std::string reason;
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    reason = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    reason = S_ISDIR(status.st_mode) ? "it is a folder" : "it is no plain file";
  } else {
    size_ = static_cast<uint64_t>(status.st_size);
    return;
  }
  if (descriptor_ >= 0) close(descriptor_);
  TVM_FFI_THROW(ValueError) << path_ << ": cannot be read: " << reason;
}

PlainFile::~PlainFile() { close(descriptor_); }

void PlainFile::ReadAt(uint64_t begin, uint64_t count, char* to) const {
  while (count > 0) {
    ssize_t got = pread(descriptor_, to, count, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      TVM_FFI_THROW(ValueError) << path_ << ": cannot be read at byte " << begin << ": "
                                << (got == 0 ? "it was cut short" : std::strerror(errno));
    }
    to += got;
    begin += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

}  // namespace tvm_hetero
