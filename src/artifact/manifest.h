/*!
 * \file artifact/manifest.h
 * \brief What an artifact's manifest says: its variants, and which files belong to it.
 */
#ifndef TVM_HETERO_ARTIFACT_MANIFEST_H_
#define TVM_HETERO_ARTIFACT_MANIFEST_H_

#include <map>
#include <string>

namespace tvm_hetero {

class Manifest {
 public:
  /*! \brief Read manifest.json of a folder; throws ValueError where it is none of ours. */
  explicit Manifest(const std::string& folder);

  const std::string& default_variant() const { return default_variant_; }
  /*! \brief Name of the file of a variant's plan; throws ValueError where there is none. */
  std::string PlanOf(const std::string& variant) const;
  /*! \brief The SHA-256 of each file, by its name in the folder. */
  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  std::string path_;
  std::string default_variant_;
  std::map<std::string, std::string> files_;
};

/*! \brief The text of a file of an artifact; throws ValueError where it is not what was written. */
std::string ReadChecked(const std::string& folder, const std::string& name,
                        const std::map<std::string, std::string>& files);

/*! \brief Refuse (ValueError) a file of an artifact that is not there, or not what was written. */
void CheckFile(const std::string& folder, const std::string& name,
               const std::map<std::string, std::string>& files);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_ARTIFACT_MANIFEST_H_
