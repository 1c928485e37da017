// Every operation that PyTorch has too: its value and its gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include "reference/operations.hpp"

namespace tapegrad::reference {
namespace {

Axes axes_of(const Json& at) { return Axes(shape_of(at["axes"])); }

Operation unary(Tensor (*f)(const Operand&)) {
  return [f](const Tensors& in, const Json&) { return f(in[0]); };
}
Operation binary(Tensor (*f)(const Operand&, const Operand&)) {
  return [f](const Tensors& in, const Json&) { return f(in[0], in[1]); };
}
Operation over_axes(Tensor (*f)(const Operand&, const Axes&, bool)) {
  return [f](const Tensors& in, const Json& at) { return f(in[0], axes_of(at), at["keepdim"]); };
}
Operation along_axis(Tensor (*f)(const Operand&, std::int64_t, bool)) {
  return [f](const Tensors& in, const Json& at) { return f(in[0], at["axis"], at["keepdim"]); };
}
Operation at_axis(Tensor (*f)(const Operand&, std::int64_t)) {
  return [f](const Tensors& in, const Json& at) { return f(in[0], at["axis"]); };
}
Operation to_shape(Tensor (*f)(const Operand&, const Shape&)) {
  return [f](const Tensors& in, const Json& at) { return f(in[0], shape_of(at["shape"])); };
}
Operation diagonal(Tensor (*f)(const Operand&, std::int64_t)) {
  return [f](const Tensors& in, const Json& at) { return f(in[0], at["diagonal"]); };
}
Operation with_scalar(Tensor (*f)(const Operand&, const Scalar&)) {
  return [f](const Tensors& in, const Json& at) { return f(in[0], scalar_of(at["scalar"])); };
}
Operation scalar_with(Tensor (*f)(const Scalar&, const Operand&)) {
  return [f](const Tensors& in, const Json& at) { return f(scalar_of(at["scalar"]), in[0]); };
}

void add_elementwise(Operations& all) {
  all["add"] = binary(operator+);
  all["sub"] = binary(operator-);
  all["mul"] = binary(operator*);
  all["div"] = binary(operator/);
  all["pow"] = binary(pow);
  all["maximum"] = binary(maximum);
  all["minimum"] = binary(minimum);
  all["where"] = [](const Tensors& in, const Json&) { return where(in[0], in[1], in[2]); };
  all["add_scalar"] = with_scalar(operator+);
  all["sub_scalar"] = with_scalar(operator-);
  all["mul_scalar"] = with_scalar(operator*);
  all["div_scalar"] = with_scalar(operator/);
  all["pow_scalar"] = with_scalar(pow);
  all["scalar_sub"] = scalar_with(operator-);
  all["scalar_div"] = scalar_with(operator/);
  all["scalar_pow"] = scalar_with(pow);
  const std::map<std::string, Tensor (*)(const Operand&)> unaries = {
      {"neg", neg},           {"abs", abs},   {"sign", sign},   {"exp", exp},       {"log", log},
      {"log1p", log1p},       {"sqrt", sqrt}, {"rsqrt", rsqrt}, {"square", square}, {"reciprocal", reciprocal},
      {"sin", sin},           {"cos", cos},   {"tanh", tanh},   {"erf", erf},       {"sigmoid", sigmoid},
      {"softplus", softplus}, {"relu", relu}, {"silu", silu},   {"floor", floor},   {"ceil", ceil},
      {"round", round}};
  for (const auto& [name, f] : unaries) all[name] = unary(f);
  all["clamp"] = [](const Tensors& in, const Json& at) { return clamp(in[0], at["low"], at["high"]); };
  all["gelu"] = [](const Tensors& in, const Json&) { return gelu(in[0]); };
  all["gelu_tanh"] = [](const Tensors& in, const Json&) { return gelu(in[0], GeluApproximation::tanh); };
  all["eq"] = binary(eq);
  all["ne"] = binary(ne);
  all["lt"] = binary(lt);
  all["le"] = binary(le);
  all["gt"] = binary(gt);
  all["ge"] = binary(ge);
}

void add_reductions(Operations& all) {
  all["sum"] = [](const Tensors& in, const Json& at) {
    return at.contains("axes") ? sum(in[0], axes_of(at), at["keepdim"]) : sum(in[0]);
  };
  all["mean"] = over_axes(mean);
  all["amax"] = over_axes(amax);
  all["amin"] = over_axes(amin);
  all["any"] = over_axes(any);
  all["all"] = over_axes(tapegrad::all);
  all["var"] = [](const Tensors& in, const Json& at) {
    return var(in[0], axes_of(at), at["correction"], at["keepdim"]);
  };
  all["max"] = unary(max);
  all["min"] = unary(min);
  all["max_axis"] = along_axis(max);
  all["min_axis"] = along_axis(min);
  all["argmax"] = along_axis(argmax);
  all["argmin"] = along_axis(argmin);
  all["logsumexp"] = [](const Tensors& in, const Json& at) {
    return logsumexp(in[0], at["axis"].get<int>(), at["keepdim"]);
  };
  all["norm"] = unary(norm);
  all["sum_to"] = to_shape(sum_to);
}

void add_numbers(Operations& all) {
  all["expm1"] = unary(expm1);
  all["tan"] = unary(tan);
  all["atan"] = unary(atan);
  all["softplus_cut"] = [](const Tensors& in, const Json& at) { return softplus(in[0], at["beta"], at["threshold"]); };
  all["leaky_relu"] = [](const Tensors& in, const Json& at) { return leaky_relu(in[0], at["negative_slope"]); };
  all["elu"] = [](const Tensors& in, const Json& at) { return elu(in[0], at["alpha"]); };
  all["lerp"] = [](const Tensors& in, const Json&) { return lerp(in[0], in[1], in[2]); };
  all["lerp_number"] = [](const Tensors& in, const Json& at) { return lerp(in[0], in[1], at["weight"].get<double>()); };
  all["clamp_min"] = [](const Tensors& in, const Json& at) { return clamp_min(in[0], at["low"]); };
  all["clamp_max"] = [](const Tensors& in, const Json& at) { return clamp_max(in[0], at["high"]); };
  all["logical_and"] = binary(logical_and);
  all["logical_or"] = binary(logical_or);
  all["logical_xor"] = binary(logical_xor);
  all["logical_not"] = unary(logical_not);
  all["isnan"] = unary(isnan);
  all["isfinite"] = unary(isfinite);
  all["prod"] = over_axes(prod);
  all["logsumexp_axes"] = over_axes(logsumexp);
  all["std"] = [](const Tensors& in, const Json& at) {
    return tapegrad::std(in[0], axes_of(at), at["correction"], at["keepdim"]);
  };
  all["p_norm"] = [](const Tensors& in, const Json& at) {
    return norm(in[0], number(at["p"]), axes_of(at), at["keepdim"]);
  };
  all["argmax_all"] = unary(argmax);
  all["argmin_all"] = unary(argmin);
  all["cumsum"] = at_axis(cumsum);
  all["argsort"] = [](const Tensors& in, const Json& at) { return argsort(in[0], at["axis"], at["descending"]); };
  all["sort"] = [](const Tensors& in, const Json& at) { return sort(in[0], at["axis"], at["descending"]).values; };
  all["topk"] = [](const Tensors& in, const Json& at) {
    return topk(in[0], at["k"], at["axis"], at["largest"]).values;
  };
  all["topk_indices"] = [](const Tensors& in, const Json& at) {
    return topk(in[0], at["k"], at["axis"], at["largest"]).indices;
  };
  all["one_hot"] = [](const Tensors& in, const Json& at) { return one_hot(in[0], at["classes"]); };
  all["rms_norm"] = [](const Tensors& in, const Json& at) {
    return rms_norm(in[0], in[1], at["eps"].get<double>(), at["rank"]);
  };
}

void add_shaping(Operations& all) {
  all["reshape"] = to_shape(reshape);
  all["permute"] = to_shape(permute);
  all["expand"] = to_shape(expand);
  all["flatten"] = [](const Tensors& in, const Json& at) { return flatten(in[0], at["first"], at["last"]); };
  all["transpose"] = [](const Tensors& in, const Json& at) { return transpose(in[0], at["a"], at["b"]); };
  all["squeeze"] = at_axis(squeeze);
  all["unsqueeze"] = at_axis(unsqueeze);
  all["slice"] = [](const Tensors& in, const Json& at) {
    return slice(in[0], at["axis"], at["start"], at["stop"], at["step"]);
  };
  all["select"] = [](const Tensors& in, const Json& at) { return select(in[0], at["axis"], at["index"]); };
  all["cat"] = [](const Tensors& in, const Json& at) { return cat(in, at["axis"]); };
  all["stack"] = [](const Tensors& in, const Json& at) { return stack(in, at["axis"]); };
  all["flip"] = [](const Tensors& in, const Json& at) { return flip(in[0], axes_of(at)); };
  all["tril"] = diagonal(tril);
  all["triu"] = diagonal(triu);
  all["masked_fill"] = [](const Tensors& in, const Json& at) {
    return masked_fill(in[0], in[1], scalar_of(at["scalar"]));
  };
  all["index_select"] = [](const Tensors& in, const Json& at) { return index_select(in[0], at["axis"], in[1]); };
  all["gather"] = [](const Tensors& in, const Json& at) { return gather(in[0], at["axis"], in[1]); };
}

void add_matrices(Operations& all) {
  all["matmul"] = binary(matmul);
  all["softmax"] = at_axis(softmax);
  all["log_softmax"] = at_axis(log_softmax);
  all["layer_norm"] = [](const Tensors& in, const Json& at) {
    return layer_norm(in[0], in[1], in[2], at["eps"], at["rank"]);
  };
  all["embedding"] = [](const Tensors& in, const Json& at) {
    return at.contains("padding") ? embedding(in[0], in[1], at["padding"].get<std::int64_t>())
                                  : embedding(in[0], in[1]);
  };
  all["linear"] = [](const Tensors& in, const Json&) { return linear(in[0], in[1], in[2]); };
  all["gelu_linear"] = [](const Tensors& in, const Json&) { return gelu_linear(in[0], in[1], in[2]); };
  all["cross_entropy_rows"] = [](const Tensors& in, const Json& at) {
    return cross_entropy_rows(in[0], in[1], at["ignore"]);
  };
}

void add_creation(Operations& all) {
  all["zeros"] = [](const Tensors&, const Json& at) { return zeros(shape_of(at["shape"]), dtype_of(at["dtype"])); };
  all["ones"] = [](const Tensors&, const Json& at) { return ones(shape_of(at["shape"]), dtype_of(at["dtype"])); };
  all["full"] = [](const Tensors&, const Json& at) {
    return full(shape_of(at["shape"]), scalar_of(at["value"]), dtype_of(at["dtype"]));
  };
  all["zeros_like"] = [](const Tensors& in, const Json&) { return zeros_like(in[0]); };
  all["ones_like"] = [](const Tensors& in, const Json&) { return ones_like(in[0]); };
  all["full_like"] = [](const Tensors& in, const Json& at) { return full_like(in[0], scalar_of(at["value"])); };
  all["eye"] = [](const Tensors&, const Json& at) {
    return eye(at["rows"].get<std::int64_t>(), at["columns"].get<std::int64_t>());
  };
  all["arange"] = [](const Tensors&, const Json& at) {
    return arange(scalar_of(at["start"]), scalar_of(at["stop"]), scalar_of(at["step"]));
  };
  all["linspace"] = [](const Tensors&, const Json& at) { return linspace(at["start"], at["stop"], at["count"]); };
  all["dropout"] = [](const Tensors& in, const Json& at) { return dropout(in[0], at["p"]); };
}

/// The same values in memory that runs along the first axis.
Tensor transposed_memory(const Tensor& x) {
  if (!x.defined() || x.rank() < 2) return x;
  return transpose(contiguous(transpose(x, 0, -1)), 0, -1);
}
/// The same values in memory with gaps.
Tensor memory_with_gaps(const Tensor& x) {
  if (!x.defined() || x.rank() < 1) return x;
  return slice(stack({x, x}, -1).flatten(-2, -1), -1, 0, 2 * x.size(-1), 2);
}

/// Float32 results are those of another order of additions.
double tolerance(const Tensor& expected) { return expected.dtype() == float32 ? 2e-6 : 1e-10; }

void check(const Operation& operation, const Json& one, Tensor (*arrange)(const Tensor&)) {
  Tensors inputs = tensors_of(one["inputs"]);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    inputs[i] = arrange(inputs[i]).detach();
    if (is_floating(inputs[i].dtype())) inputs[i].requires_grad_();
  }
  if (one["outputs"].is_null()) {
    EXPECT_THROW(operation(inputs, one["arguments"]), Error);
    return;
  }
  const Tensor output = operation(inputs, one["arguments"]), expected = tensor_of(one["outputs"][0]);
  EXPECT_LE(distance(expected, output), tolerance(expected))
      << "value " << output.to_string() << " " << name_of(output.dtype());
  if (!one.contains("cotangents") || one["cotangents"][0].is_null()) return;
  ASSERT_TRUE(output.requires_grad());
  output.backward(tensor_of(one["cotangents"][0]));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (one["gradients"][i].is_null()) continue;
    const Tensor gradient = tensor_of(one["gradients"][i]);
    EXPECT_LE(distance(gradient, inputs[i].grad()), std::max(tolerance(gradient), tolerance(expected)))
        << "gradient " << i << ": " << (inputs[i].grad().defined() ? inputs[i].grad().to_string() : "none");
  }
}

/// operations.json and its companions.
std::vector<std::string> operation_files() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(TAPEGRAD_REFERENCE_DIR))
    if (const std::string name = file.path().filename(); name.starts_with("operations") && name.ends_with(".json"))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Reference, OperationsMatchPyTorch) {
  Operations operations;
  add_elementwise(operations);
  add_reductions(operations);
  add_numbers(operations);
  add_shaping(operations);
  add_matrices(operations);
  add_shapes_and_indices(operations);
  add_creation(operations);
  for (const std::string& file : operation_files())
    for (const Json& one : read(file)) {
      const std::string name = one["operation"];
      SCOPED_TRACE(file + ": " + name + " " + one["arguments"].dump() + " of " + one["inputs"].dump().substr(0, 200));
      ASSERT_TRUE(operations.count(name));
      check(operations[name], one, [](const Tensor& x) { return x; });
      check(operations[name], one, transposed_memory);
      check(operations[name], one, memory_with_gaps);
    }
}

}  // namespace
}  // namespace tapegrad::reference
