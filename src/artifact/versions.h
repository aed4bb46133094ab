/*!
 * \file artifact/versions.h
 * \brief Which artifacts this runtime may load, by what they were built with.
 */
#ifndef TVM_HETERO_ARTIFACT_VERSIONS_H_
#define TVM_HETERO_ARTIFACT_VERSIONS_H_

#include <map>
#include <string>

namespace tvm_hetero {

/*!
 * \brief Refuse (ValueError) what was built with other versions than this runtime works with.
 *
 * Kernels are code for the TVM and the tvm-ffi that this package is made for: any release of theirs
 * within setup.py's limits, as the program is linked with one of them, which does not say which. Of
 * this package it is the release that counts; the digest of its Python sources, which Python
 * compares as well, is none of a program's without Python.
 *
 * \param versions Those in the manifest of the artifact in `folder`.
 */
void CheckVersions(const std::map<std::string, std::string>& versions, const std::string& folder);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_ARTIFACT_VERSIONS_H_
