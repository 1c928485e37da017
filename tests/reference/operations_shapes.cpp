#include "reference/operations.hpp"

namespace tapegrad::reference {
namespace {

/// The tensor of the last inputs that an index names by its number, or a part of an index that is no tensor.
IndexItem item_of(const Json& item, const Tensors& in) {
  if (item.is_number()) return item.get<std::int64_t>();
  if (item.is_object()) return in.at(item["input"].get<std::size_t>());
  if (item.is_string()) return item == "..." ? IndexItem(ellipsis) : IndexItem(newaxis);
  const auto bound = [&](int i) {
    return item[i].is_null() ? std::optional<std::int64_t>() : item[i].get<std::int64_t>();
  };
  return Slice{bound(0), bound(1), bound(2)};
}

std::vector<std::int64_t> integers(const Json& list) { return list.get<std::vector<std::int64_t>>(); }

void add_shapes(Operations& all) {
  all["broadcast_to"] = [](const Tensors& in, const Json& at) { return broadcast_to(in[0], shape_of(at["shape"])); };
  all["view_as"] = [](const Tensors& in, const Json&) { return view_as(in[0], in[1]); };
  all["squeeze_all"] = [](const Tensors& in, const Json&) { return squeeze(in[0]); };
  all["movedim"] = [](const Tensors& in, const Json& at) {
    return movedim(in[0], shape_of(at["from"]), shape_of(at["to"]));
  };
  all["roll"] = [](const Tensors& in, const Json& at) {
    return at["axes"].empty() ? roll(in[0], at["shifts"][0].get<std::int64_t>())
                              : roll(in[0], shape_of(at["shifts"]), shape_of(at["axes"]));
  };
  all["repeat"] = [](const Tensors& in, const Json& at) { return repeat(in[0], shape_of(at["repeats"])); };
  all["pad"] = [](const Tensors& in, const Json& at) {
    return pad(in[0], integers(at["pads"]), at["scalar"].get<double>());
  };
  all["diagonal"] = [](const Tensors& in, const Json& at) {
    return diagonal(in[0], at["offset"], at["axis1"], at["axis2"]);
  };
  all["split"] = [](const Tensors& in, const Json& at) {
    const Tensors pieces = at["sizes"].is_number() ? split(in[0], at["sizes"].get<std::int64_t>(), at["axis"])
                                                   : split(in[0], integers(at["sizes"]), at["axis"]);
    return pieces.at(at["piece"]);
  };
  all["chunk"] = [](const Tensors& in, const Json& at) {
    return chunk(in[0], at["count"], at["axis"]).at(at["piece"]);
  };
  all["unbind"] = [](const Tensors& in, const Json& at) { return unbind(in[0], at["axis"]).at(at["piece"]); };
  all["outer"] = [](const Tensors& in, const Json&) { return outer(in[0], in[1]); };
  all["trace"] = [](const Tensors& in, const Json&) { return trace(in[0]); };
}

}  // namespace

void add_shapes_and_indices(Operations& all) {
  add_shapes(all);
  all["narrow"] = [](const Tensors& in, const Json& at) { return narrow(in[0], at["axis"], at["start"], at["count"]); };
  all["gather_corner"] = [](const Tensors& in, const Json& at) { return gather(in[0], at["axis"], in[1]); };
  all["scatter_add"] = [](const Tensors& in, const Json& at) { return scatter_add(in[0], at["axis"], in[1], in[2]); };
  all["take_along_dim"] = [](const Tensors& in, const Json& at) { return take_along_dim(in[0], in[1], at["axis"]); };
  all["masked_select"] = [](const Tensors& in, const Json&) { return masked_select(in[0], in[1]); };
  all["nonzero"] = [](const Tensors& in, const Json&) { return nonzero(in[0]); };
  all["index"] = [](const Tensors& in, const Json& at) {
    std::vector<IndexItem> items;
    for (const Json& item : at["items"]) items.push_back(item_of(item, in));
    return index(in[0], items);
  };
  all["einsum"] = [](const Tensors& in, const Json& at) { return einsum(at["equation"].get<std::string>(), in); };
}

}  // namespace tapegrad::reference
