// All that can be reached from a tensor on the tape. Private to the library.
#pragma once
#include <algorithm>
#include <unordered_set>
#include <vector>

#include <tapegrad/autograd/tape.hpp>

namespace tapegrad::autograd {

struct Reached {
  std::vector<Entry*> entries;      // in the order of their numbers
  std::vector<TensorBody*> leaves;  // in the order of the entries that read them
};

/// The entry or leaf that an edge leads to, or null.
inline const void* target_of(const Edge& edge) {
  return edge.entry() ? static_cast<const void*>(edge.entry()) : edge.leaf();
}

inline Reached reached_from(const Tensor& result) {
  Reached reached;
  std::unordered_set<const void*> seen;
  const auto visit = [&](Entry* entry) {
    if (entry && seen.insert(entry).second) reached.entries.push_back(entry);
  };
  const auto meet = [&](TensorBody* leaf) {
    if (leaf && seen.insert(leaf).second) reached.leaves.push_back(leaf);
  };
  const Edge start(*result.body());
  visit(start.entry());
  meet(start.leaf());
  for (std::size_t i = 0; i < reached.entries.size(); ++i)
    for (int k = 0; k < reached.entries[i]->inputs(); ++k) visit(reached.entries[i]->edge(k).entry());
  std::sort(reached.entries.begin(), reached.entries.end(),
            [](const Entry* a, const Entry* b) { return a->number() < b->number(); });
  for (const Entry* entry : reached.entries)
    for (int k = 0; k < entry->inputs(); ++k) meet(entry->edge(k).leaf());
  return reached;
}

}  // namespace tapegrad::autograd
