#include <tapegrad/nn/torch_names.hpp>

#include <array>
#include <optional>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {
namespace {

constexpr std::array<const char*, 3> kParts{"q_proj", "k_proj", "v_proj"};

/// What stands before `last`, if that is the last part of the dotted name.
std::optional<std::string> before(const std::string& name, std::string_view last) {
  if (!name.ends_with(last)) return {};
  std::string prefix = name.substr(0, name.size() - last.size());
  return prefix.empty() || prefix.back() == '.' ? std::optional(std::move(prefix)) : std::nullopt;
}

struct Conversion {
  const char* operation;
  const StateDict& from;
  StateDict to = {};

  void add(const std::string& name, const Tensor& tensor) {
    require(!to.contains(name), "{}: a name must have one source; got two for {}", operation, name);
    to.set(name, tensor);
  }
  const Tensor& need(const std::string& name, const std::string& beside) const {
    if (const Tensor* tensor = from.find(name)) return *tensor;
    throw ValueError(fmt::format("{}: {} must stand beside {}; got no such entry", operation, name, beside));
  }
  void check_shape(const std::string& name, const Tensor& tensor, const Shape& shape) const {
    require<ShapeError>(tensor.shape() == shape, "{}: {} must have shape {} in a layer of width {}; got {}", operation,
                        name, shape, shape[0] / 3, tensor.shape());
  }

  /// The layer's width, which out_proj.weight tells.
  std::int64_t width(const std::string& layer, const std::string& beside) const {
    const std::string name = layer + "out_proj.weight";
    const Tensor& out = need(name, beside);
    require<ShapeError>(out.rank() == 2 && out.size(0) == out.size(1), "{}: {} must be a square matrix; got {}",
                        operation, name, out.shape());
    return out.size(0);
  }
  /// Thirds of a packed parameter of `layer`, of rank 1 or 2.
  void split(const std::string& name, const Tensor& packed, const std::string& layer, const std::string& kind) {
    const std::int64_t rows = width(layer, name);
    check_shape(name, packed, kind == ".bias" ? Shape{3 * rows} : Shape{3 * rows, rows});
    for (std::int64_t i = 0; i < 3; ++i)
      add(layer + kParts[static_cast<std::size_t>(i)] + kind, packed.slice(0, i * rows, (i + 1) * rows));
  }
  /// The three parameters of `layer`, packed if they are alike.
  void join(const std::string& name, const std::string& layer, const std::string& kind) {
    const std::int64_t rows = width(layer, name);
    Tensors parts;
    bool alike = true;
    for (const char* part : kParts) {
      const Tensor& tensor = parts.emplace_back(need(layer + part + kind, name));
      require<ShapeError>(
          tensor.rank() != 0 && tensor.size(0) == rows,
          "{}: {}{}{} must have as many rows as the layer is wide, {}, since PyTorch has no grouped heads; got {}",
          operation, layer, part, kind, rows, tensor.shape());
      alike = alike && tensor.shape() == parts[0].shape();
    }
    if (alike) return add(layer + "in_proj_" + kind.substr(1), cat(parts, 0));
    for (std::size_t i = 0; i < 3; ++i) add(layer + kParts[i] + "_" + kind.substr(1), parts[i]);
  }
};

}  // namespace

StateDict from_torch_names(const StateDict& entries) {
  const NoGradGuard no_grad;
  Conversion conversion{"from_torch_names", entries};
  for (const auto& [name, tensor] : entries) {
    std::string ours = name;
    for (const char* part : kParts)
      if (const auto layer = before(name, std::string(part) + "_weight")) {
        for (const char* other : kParts) conversion.need(*layer + other + "_weight", name);
        ours = *layer + part + ".weight";
      }
    if (const auto layer = before(name, "in_proj_weight")) {
      conversion.split(name, tensor, *layer, ".weight");
    } else if (const auto biased = before(name, "in_proj_bias")) {
      if (!entries.contains(*biased + "q_proj_weight")) conversion.need(*biased + "in_proj_weight", name);
      conversion.split(name, tensor, *biased, ".bias");
    } else if (before(name, "bias_k") || before(name, "bias_v")) {
      throw ValueError(
          fmt::format("from_torch_names: a layer must be without add_bias_kv, which MultiHeadAttention "
                      "lacks; got {}",
                      name));
    } else {
      conversion.add(ours, tensor);
    }
  }
  return conversion.to;
}

StateDict to_torch_names(const StateDict& entries) {
  const NoGradGuard no_grad;
  Conversion conversion{"to_torch_names", entries};
  for (const auto& [name, tensor] : entries) {
    bool joined = false;
    for (const char* part : kParts)
      for (const char* kind : {".weight", ".bias"})
        if (const auto layer = before(name, std::string(part) + kind)) {
          if (part == kParts[0])
            conversion.join(name, *layer, kind);
          else
            conversion.need(*layer + kParts[0] + kind, name);
          joined = true;
        }
    require(!before(name, "q_norm.weight") && !before(name, "k_norm.weight"),
            "to_torch_names: a layer must be without qk_norm, which PyTorch's lacks; got {}", name);
    if (!joined) conversion.add(name, tensor);
  }
  return conversion.to;
}

}  // namespace tapegrad::nn
