#include "search/placement_symmetry.h"

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace tvm_hetero::search {
namespace {

std::vector<std::vector<int>> Images(const Problem& problem,
                                     const TvmHeteroSearchSymmetry& symmetry) {
  std::vector<std::vector<int>> images;
  for (int i = 0; i < symmetry.images; ++i) {
    const int32_t* row = symmetry.image + static_cast<size_t>(i) * problem.parts;
    std::vector<bool> seen(problem.parts, false);
    for (int v = 0; v < problem.parts; ++v) {
      if (row[v] < 0 || row[v] >= problem.parts || seen[row[v]]) {
        throw std::invalid_argument("an image that is no permutation of the parts");
      }
      seen[row[v]] = true;
    }
    images.emplace_back(row, row + problem.parts);
  }
  return images;
}

}  // namespace

PlacementSymmetry::PlacementSymmetry(const Problem& problem, const TvmHeteroSearchSymmetry& symmetry)
    : problem_(problem),
      images_(Images(problem, symmetry)),
      before_(symmetry.before, symmetry.before + problem.devices) {
  for (int d : before_) {
    if (d < -1 || d >= problem.devices) throw std::invalid_argument("no such device before another");
  }
}

bool PlacementSymmetry::Canonical(const std::vector<int>& place, int depth) const {
  for (const std::vector<int>& image : images_) {
    for (int i = 0; i <= depth; ++i) {
      const int here = place[problem_.topological[i]];
      const int there = place[image[problem_.topological[i]]];
      if (there < 0 || here < there) break;
      if (here > there) return false;
    }
  }
  return true;
}

void PlacementSymmetry::OrderLikeParts(const std::vector<int>& place,
                                     Activities* activities) const {
  std::vector<const std::vector<int>*> group;
  for (const std::vector<int>& image : images_) {
    bool same = true;
    for (int v = 0; v < problem_.parts && same; ++v) same = place[image[v]] == place[v];
    if (same) group.push_back(&image);
  }
  // Let v be the first part that is moved. Among the schedules that the group makes of each other
  // there is one in which v starts first of all that it becomes; then go on with what keeps v.
  for (int v = 0; v < problem_.parts && !group.empty(); ++v) {
    std::vector<const std::vector<int>*> keeping;
    for (const std::vector<int>* image : group) {
      if ((*image)[v] == v) {
        keeping.push_back(image);
      } else {
        activities->PutBefore(v, (*image)[v]);
      }
    }
    group = std::move(keeping);
  }
}

}  // namespace tvm_hetero::search
