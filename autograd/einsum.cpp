#include <tapegrad/autograd/einsum.hpp>

#include <algorithm>
#include <cctype>
#include <map>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>

namespace tapegrad {
namespace {

/// One character for each dimension. Those of an ellipsis are called '0', '1', ... from the last one on.
using Labels = std::string;

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }
std::int64_t axis_of(const Labels& labels, char label) { return static_cast<std::int64_t>(labels.find(label)); }

/// The labels of `from` that `keep` accepts, in order.
template <class Keep>
Labels filtered(const Labels& from, Keep keep) {
  Labels labels;
  std::copy_if(from.begin(), from.end(), std::back_inserter(labels), keep);
  return labels;
}

struct Term {
  Tensor tensor;
  Labels labels;  // each once
  std::int64_t size(char label) const { return tensor.size(axis_of(labels, label)); }
};

Term summed(const Term& x, const Labels& over) {
  if (over.empty()) return x;
  Shape axes;
  for (const char label : over) axes.push_back(axis_of(x.labels, label));
  return {sum(x.tensor, Axes(axes)), filtered(x.labels, [&](char label) { return !has(over, label); })};
}

/// x's dimensions in the order of `labels`; a label that x does not have gets a dimension of size 1.
Tensor aligned(const Term& x, const Labels& labels) {
  Shape order;
  for (const char label : labels)
    if (has(x.labels, label)) order.push_back(axis_of(x.labels, label));
  Tensor result = std::is_sorted(order.begin(), order.end()) ? x.tensor : permute(x.tensor, order);
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!has(x.labels, labels[i])) result = unsqueeze(result, static_cast<std::int64_t>(i));
  return result;
}

/// x without the dimensions of size 1 under labels that `other` has at another size.
Term without_broadcast(Term x, const Term& other) {
  for (const char label : Labels(x.labels)) {
    if (!has(other.labels, label) || x.size(label) != 1 || other.size(label) == 1) continue;
    x.tensor = squeeze(x.tensor, axis_of(x.labels, label));
    x.labels.erase(x.labels.find(label), 1);
  }
  return x;
}

/// The product of two operands, summed over the labels that are not `needed`.
Term contracted(Term a, Term b, const Labels& needed) {
  const Term whole = a;
  a = without_broadcast(a, b);
  b = without_broadcast(b, whole);
  a = summed(a, filtered(a.labels, [&](char label) { return !has(b.labels, label) && !has(needed, label); }));
  b = summed(b, filtered(b.labels, [&](char label) { return !has(a.labels, label) && !has(needed, label); }));
  const Labels batch = filtered(a.labels, [&](char label) { return has(b.labels, label) && has(needed, label); });
  const Labels inner = filtered(a.labels, [&](char label) { return has(b.labels, label) && !has(needed, label); });
  const Labels rows = filtered(a.labels, [&](char label) { return !has(b.labels, label); });
  const Labels columns = filtered(b.labels, [&](char label) { return !has(a.labels, label); });
  const Labels labels = batch + rows + columns;
  if (inner.empty()) return {aligned(a, labels) * aligned(b, labels), labels};
  if (!is_floating(a.tensor.dtype()))
    return summed({aligned(a, labels + inner) * aligned(b, labels + inner), labels + inner}, inner);

  Shape batch_shape, shape;
  std::int64_t row_count = 1, column_count = 1, inner_count = 1;
  for (const char label : batch) batch_shape.push_back(a.size(label));
  shape = batch_shape;
  for (const char label : rows) shape.push_back(a.size(label)), row_count *= a.size(label);
  for (const char label : columns) shape.push_back(b.size(label)), column_count *= b.size(label);
  for (const char label : inner) inner_count *= a.size(label);
  const std::int64_t batch_count = batch_shape.numel();
  const auto matrices = [&](const Term& x, const Labels& order, std::int64_t height, std::int64_t width) {
    return reshape(aligned(x, order), batch.empty() ? Shape{height, width} : Shape{batch_count, height, width});
  };
  const Tensor product = matmul(matrices(a, batch + rows + inner, row_count, inner_count),
                                matrices(b, batch + inner + columns, inner_count, column_count));
  return {reshape(product, shape), labels};
}

/// An equation, read and checked.
class Equation {
 public:
  explicit Equation(std::string_view text) : text_(text) {
    const std::size_t arrow = text.find("->");
    std::string_view inputs = text.substr(0, arrow);
    for (std::size_t comma; (comma = inputs.find(',')) != inputs.npos; inputs.remove_prefix(comma + 1))
      terms_.push_back(term(inputs.substr(0, comma)));
    terms_.push_back(term(inputs));
    if (arrow != text.npos)
      output_ = term(text.substr(arrow + 2));
    else
      output_ = implicit_output();
    for (const char label : output_) {
      if (std::count(output_.begin(), output_.end(), label) > 1)
        fail<ValueError>("a label may occur once in the result", std::string("'") + label + "' twice");
      const auto contains = [label](const Labels& labels) { return has(labels, label); };
      if (label != kEllipsis && std::none_of(terms_.begin(), terms_.end(), contains))
        fail<ValueError>("the result's labels must occur in an operand", std::string("'") + label + "' in no operand");
    }
  }

  /// The operands with their diagonals taken, each dimension with its own label.
  std::vector<Term> operands(const Tensors& tensors) {
    if (tensors.size() != terms_.size())
      fail<ValueError>("there must be as many operands as the equation has", std::to_string(tensors.size()));
    Dtype dtype = tensors[0].dtype();
    for (const Tensor& x : tensors) dtype = promote(dtype, x.dtype());
    if (dtype == boolean) fail<DtypeError>("operands must be numbers", "boolean ones; convert one with .to()");
    std::vector<Term> operands;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Labels labels = labels_of(i, tensors[i].shape());
      check_sizes(i, labels, tensors[i].shape());
      operands.push_back(on_diagonals({to(tensors[i], dtype), labels}));
    }
    return operands;
  }
  /// The labels of the result, once the operands are known.
  Labels output() const {
    const Labels labels = expanded(output_, widest_);
    if (labels.size() > Shape::kMaxRank)
      fail<ShapeError>("the result may have " + std::to_string(Shape::kMaxRank) + " dimensions",
                       std::to_string(labels.size()));
    return labels;
  }

 private:
  static constexpr char kEllipsis = '.';

  template <class E>
  [[noreturn]] void fail(const std::string& rule, const std::string& got) const {
    throw E("einsum: " + rule + "; got " + got + " in \"" + text_ + "\"");
  }

  /// Labels without blanks; kEllipsis stands for "...".
  Labels term(std::string_view text) const {
    Labels labels;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ' ') continue;
      const bool dots = text.substr(i, 3) == "...";
      if (!dots && !std::isalpha(static_cast<unsigned char>(text[i])))
        fail<ValueError>("expected letters, \"...\", commas and one \"->\"", std::string("'") + text[i] + "'");
      if (dots && has(labels, kEllipsis)) fail<ValueError>("an operand may have \"...\" once", "it twice");
      labels += text[i];
      i += dots ? 2 : 0;
    }
    return labels;
  }

  Labels implicit_output() const {
    std::map<char, int> seen;  // '.' comes before all letters, capitals before small ones
    for (const Labels& labels : terms_)
      for (const char label : labels) ++seen[label];
    Labels output;
    for (const auto& [label, times] : seen)
      if (times == 1 || label == kEllipsis) output += label;
    return output;
  }

  static Labels expanded(Labels labels, int dimensions) {
    const std::size_t at = labels.find(kEllipsis);
    if (at == Labels::npos) return labels;
    Labels names;
    for (int i = dimensions - 1; i >= 0; --i) names += static_cast<char>('0' + i);
    return labels.replace(at, 1, names);
  }

  Labels labels_of(std::size_t i, const Shape& shape) {
    const bool open = has(terms_[i], kEllipsis);
    const int unnamed = shape.rank() - static_cast<int>(terms_[i].size()) + open;
    if (unnamed < 0 || (unnamed > 0 && !open))
      fail<ShapeError>("operand " + std::to_string(i) + " must have as many dimensions as labels",
                       "shape " + shape.to_string() + " for \"" + expanded(terms_[i], 0) + (open ? "...\"" : "\""));
    if (open) widest_ = std::max(widest_, unnamed);
    return expanded(terms_[i], unnamed);
  }

  void check_sizes(std::size_t operand, const Labels& labels, const Shape& shape) {
    std::map<char, std::int64_t> own;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::int64_t size = shape[static_cast<int>(i)];
      const std::int64_t mine = own.try_emplace(labels[i], size).first->second;
      std::int64_t& common = sizes_.try_emplace(labels[i], size).first->second;
      if (mine != size || (common != size && common != 1 && size != 1))
        fail<ShapeError>(
            std::string("the dimensions under one label must have one size, or 1; under ") +
                (std::isdigit(static_cast<unsigned char>(labels[i])) ? "\"...\"" : std::string("'") + labels[i] + "'"),
            std::to_string(size) + " in operand " + std::to_string(operand) + ", of shape " + shape.to_string() +
                ", and " + std::to_string(mine != size ? mine : common));
      if (common == 1) common = size;
    }
  }

  static Term on_diagonals(Term x) {
    for (std::size_t i = 0; i < x.labels.size();) {
      const std::size_t again = x.labels.find(x.labels[i], i + 1);
      if (again == Labels::npos) {
        ++i;
        continue;
      }
      const char label = x.labels[i];
      x.tensor = diagonal(x.tensor, 0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(again));
      x.labels.erase(again, 1).erase(i, 1);
      x.labels += label;
    }
    return x;
  }

  std::string text_;
  std::vector<Labels> terms_;
  Labels output_;
  int widest_ = 0;  // dimensions of the longest "..."
  std::map<char, std::int64_t> sizes_;
};

}  // namespace

Tensor einsum(const EinsumText& text, const Tensors& tensors) {
  for (const Tensor& x : tensors) autograd::check_defined("einsum", x);
  Equation parsed(text.equation);
  const std::vector<Term> operands = parsed.operands(tensors);
  const Labels output = parsed.output();
  Term result = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Labels needed = output;
    for (std::size_t later = i + 1; later < operands.size(); ++later) needed += operands[later].labels;
    result = contracted(result, operands[i], needed);
  }
  result = summed(result, filtered(result.labels, [&](char label) { return !has(output, label); }));
  return aligned(result, output);
}

}  // namespace tapegrad
