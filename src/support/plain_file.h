/*!
 * \file support/plain_file.h
 * \brief Files that may be anything: only plain ones are opened, and nothing is waited for.
 */
#ifndef TVM_HETERO_SUPPORT_PLAIN_FILE_H_
#define TVM_HETERO_SUPPORT_PLAIN_FILE_H_

#include <cstdint>
#include <string>

namespace tvm_hetero {

/*! \brief A plain file, open for reading. */
class PlainFile {
 public:
  /*!
   * \brief Open a file; ValueError, naming it, where it is a folder, a pipe, a device, or none.
   *
   * A pipe that nobody writes to and a device without end are refused at once: it is the open file
   * that is looked at, and opening one waits for nobody.
   */
  explicit PlainFile(const std::string& path);
  ~PlainFile();
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  const std::string& path() const { return path_; }
  /*! \brief Its bytes when it was opened; what is added later is not seen. */
  uint64_t size() const { return size_; }
  /*! \brief Read exactly `count` bytes from `begin` on; ValueError where that many are not there. */
  void ReadAt(uint64_t begin, uint64_t count, char* to) const;

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_{0};
};

}  // namespace tvm_hetero
#endif  // TVM_HETERO_SUPPORT_PLAIN_FILE_H_
