/*!
 * \file artifact/processor.h
 * \brief Whether this CPU can run code that was compiled for another.
 *
 * The first instruction that it lacks would kill the process. What is known of the names that
 * `mcpu` may have is the same as in tvm_hetero/platform/discovery.py (tests/cpp/test_processor.py
 * compares them), and so is where the answer comes from: the flags in /proc/cpuinfo. Where nothing
 * is known of the one or of the other, nothing is missing.
 */
#ifndef TVM_HETERO_ARTIFACT_PROCESSOR_H_
#define TVM_HETERO_ARTIFACT_PROCESSOR_H_

#include <set>
#include <string>
#include <vector>

namespace tvm_hetero {

/*!
 * \brief What this CPU can do, as Linux names it; empty where that cannot be read.
 *
 * Tile registers, which a process must be allowed to use, are asked for.
 */
std::set<std::string> ProcessorFlags();

/*! \brief What a CPU with these flags lacks to run code for `mcpu`, sorted. */
std::vector<std::string> MissingFeatures(const std::string& mcpu,
                                         const std::set<std::string>& flags);

}  // namespace tvm_hetero
#endif  // TVM_HETERO_ARTIFACT_PROCESSOR_H_
