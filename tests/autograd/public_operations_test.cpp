// Every function of the public headers keeps track: the result of a tracked tensor is tracked and its gradient exists,
// or the result is of a kind that has none.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "autograd/expectations.hpp"
#include "error_texts.hpp"
#include "gradcheck_table.hpp"

namespace tapegrad {
namespace {

using Call = std::function<Tensor(const Tensor&)>;

std::set<std::string> declared_operations() {
  std::set<std::string> names;
  for (const char* header :
       {"elementwise", "reductions", "shaping", "sorting", "matrix", "einsum", "index", "neural"}) {
    std::ifstream file(std::filesystem::path(TAPEGRAD_SOURCE_DIR) / "autograd" / (std::string(header) + ".hpp"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::regex declaration("\n(?:Tensor|Tensors|Sorted) (operator.|\\w+)\\(");
    for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end; ++match)
      names.insert((*match)[1]);
  }
  return names;
}

const Tensor kIndex = tensor({{1, 0, 1}, {0, 0, 1}});
const Tensor kMask = tensor({{true, false, true}, {true, true, false}});

/// x has shape [2, 3] and values between 0 and 1.
const std::map<std::string, Call> kDifferentiable = {
    {"operator+", [](auto& x) { return x + x + 1 + (2 + x); }},
    {"operator-", [](auto& x) { return x * 2 - x - 1 + (2 - x) + -x; }},
    {"operator*", [](auto& x) { return x * x * 2 + 3 * x; }},
    {"operator/", [](auto& x) { return x / (x + 1) / 2 + 1 / x; }},
    {"pow", [](auto& x) { return pow(x, x) + pow(x, 2.5) + pow(2, x); }},
    {"maximum", [](auto& x) { return maximum(x, 1 - x); }},
    {"minimum", [](auto& x) { return minimum(x, 1 - x); }},
    {"where", [](auto& x) { return where(kMask, x, x * 2) + where(kMask, x, 0) + where(kMask, 0, x); }},
    {"lerp", [](auto& x) { return lerp(x, x * 2, x) + lerp(x, x * 2, 0.3); }},
    {"neg", [](auto& x) { return neg(x); }},
    {"abs", [](auto& x) { return abs(x); }},
    {"sign", [](auto& x) { return sign(x); }},
    {"exp", [](auto& x) { return exp(x); }},
    {"expm1", [](auto& x) { return expm1(x); }},
    {"log", [](auto& x) { return log(x); }},
    {"log1p", [](auto& x) { return log1p(x); }},
    {"sqrt", [](auto& x) { return sqrt(x); }},
    {"rsqrt", [](auto& x) { return rsqrt(x); }},
    {"square", [](auto& x) { return square(x); }},
    {"reciprocal", [](auto& x) { return reciprocal(x); }},
    {"sin", [](auto& x) { return sin(x); }},
    {"cos", [](auto& x) { return cos(x); }},
    {"tan", [](auto& x) { return tan(x); }},
    {"atan", [](auto& x) { return atan(x); }},
    {"tanh", [](auto& x) { return tanh(x); }},
    {"erf", [](auto& x) { return erf(x); }},
    {"sigmoid", [](auto& x) { return sigmoid(x); }},
    {"softplus", [](auto& x) { return softplus(x) + softplus(x, 2); }},
    {"relu", [](auto& x) { return relu(x); }},
    {"leaky_relu", [](auto& x) { return leaky_relu(x); }},
    {"elu", [](auto& x) { return elu(x); }},
    {"silu", [](auto& x) { return silu(x); }},
    {"gelu", [](auto& x) { return gelu(x) + gelu(x, GeluApproximation::tanh); }},
    {"clamp", [](auto& x) { return clamp(x, 0, 0.5); }},
    {"clamp_min", [](auto& x) { return clamp_min(x, 0.5); }},
    {"clamp_max", [](auto& x) { return clamp_max(x, 0.5); }},
    {"floor", [](auto& x) { return floor(x); }},
    {"ceil", [](auto& x) { return ceil(x); }},
    {"round", [](auto& x) { return round(x); }},
    {"sum", [](auto& x) { return sum(x, 1); }},
    {"mean",
     [](auto& x) {
       return mean(x, {0, -1});
     }},
    {"prod", [](auto& x) { return prod(x, 1); }},
    {"cumsum", [](auto& x) { return cumsum(x, -1); }},
    {"sum_to", [](auto& x) { return sum_to(x, {3}); }},
    {"max", [](auto& x) { return max(x, 1) + max(x); }},
    {"min", [](auto& x) { return min(x, 1) + min(x); }},
    {"amax",
     [](auto& x) {
       return amax(x, {0, 1});
     }},
    {"amin",
     [](auto& x) {
       return amin(x, {0, 1});
     }},
    {"var", [](auto& x) { return var(x, 1); }},
    {"std", [](auto& x) { return tapegrad::std(x, 1); }},
    {"norm", [](auto& x) { return norm(x) + norm(x, 3) + norm(x, 1) + norm(x, expectations::kInf); }},
    {"logsumexp", [](auto& x) { return logsumexp(x, 1); }},
    {"reshape", [](auto& x) { return reshape(x, {-1}); }},
    {"flatten", [](auto& x) { return flatten(x); }},
    {"transpose", [](auto& x) { return transpose(x, 0, 1); }},
    {"permute",
     [](auto& x) {
       return permute(x, {1, 0});
     }},
    {"squeeze", [](auto& x) { return squeeze(squeeze(unsqueeze(x, 0)), 0); }},
    {"unsqueeze", [](auto& x) { return unsqueeze(x, 1); }},
    {"expand",
     [](auto& x) {
       return expand(x, {4, 2, 3});
     }},
    {"broadcast_to",
     [](auto& x) {
       return broadcast_to(x, {4, 2, 3});
     }},
    {"view_as",
     [](auto& x) {
       return view_as(x, zeros({3, 2}));
     }},
    {"movedim",
     [](auto& x) {
       return movedim(x, 0, 1) + movedim(x, Shape{0, 1}, Shape{1, 0});
     }},
    {"diagonal", [](auto& x) { return diagonal(x, 1); }},
    {"slice", [](auto& x) { return slice(x, 1, 0, 3, 2); }},
    {"select", [](auto& x) { return select(x, 0, -1); }},
    {"narrow", [](auto& x) { return narrow(x, 1, 1, 2); }},
    {"split",
     [](auto& x) {
       return split(x, 2, 1)[0] + split(x, {2, 1}, 1)[1];
     }},
    {"chunk", [](auto& x) { return chunk(x, 2)[1]; }},
    {"unbind", [](auto& x) { return unbind(x)[1]; }},
    {"cat",
     [](auto& x) {
       return cat({x, x}, 1);
     }},
    {"stack",
     [](auto& x) {
       return stack({x, x}, 1);
     }},
    {"flip",
     [](auto& x) {
       return flip(x, {0, 1});
     }},
    {"roll",
     [](auto& x) {
       return roll(x, 1) + roll(x, 1, 1) + roll(x, Shape{1, 2}, Shape{0, 1});
     }},
    {"repeat",
     [](auto& x) {
       return repeat(x, {2, 2});
     }},
    {"pad",
     [](auto& x) {
       return pad(x, {1, -1});
     }},
    {"tril", [](auto& x) { return tril(x); }},
    {"triu", [](auto& x) { return triu(x); }},
    {"clone", [](auto& x) { return clone(x); }},
    {"contiguous", [](auto& x) { return contiguous(x.transpose(0, 1)); }},
    {"to", [](auto& x) { return to(x, float32); }},
    {"masked_fill", [](auto& x) { return masked_fill(x, kMask, 2); }},
    {"masked_select", [](auto& x) { return masked_select(x, kMask); }},
    {"index_select",
     [](auto& x) {
       return index_select(x, 1, tensor({2, 0, 2}));
     }},
    {"gather", [](auto& x) { return gather(x, 0, kIndex); }},
    {"scatter_add", [](auto& x) { return scatter_add(x, 0, kIndex, x * 2); }},
    {"take_along_dim", [](auto& x) { return take_along_dim(x, kIndex, 1); }},
    {"sort", [](auto& x) { return sort(x, 1).values; }},
    {"topk", [](auto& x) { return topk(x, 2, 1).values; }},
    {"matmul", [](auto& x) { return matmul(x, x.transpose(0, 1)); }},
    {"outer", [](auto& x) { return outer(x.select(0, 0), x.select(0, 1)); }},
    {"trace", [](auto& x) { return trace(x); }},
    {"einsum", [](auto& x) { return einsum("ij,ij->i", x, x); }},
    {"index",
     [](auto& x) {
       return index(x, {1, Slice{0, 2}});
     }},
    {"softmax", [](auto& x) { return softmax(x, 1); }},
    {"log_softmax", [](auto& x) { return log_softmax(x, 1); }},
    {"layer_norm", [](auto& x) { return layer_norm(x, {}, {}); }},
    {"rms_norm", [](auto& x) { return rms_norm(x, {}); }},
    {"dropout", [](auto& x) { return dropout(x, 0.5); }},
    {"embedding", [](auto& x) { return embedding(x, tensor({1, 0, 1})); }},
    {"linear", [](auto& x) { return linear(x, x); }},
    {"gelu_linear", [](auto& x) { return gelu_linear(x, x); }},
    {"cross_entropy_rows", [](auto& x) { return cross_entropy_rows(x, tensor({2, 0})); }},
};

/// What answers with integers or booleans.
const std::map<std::string, Call> kWithoutGradient = {
    {"eq", [](auto& x) { return eq(x, 1); }},
    {"ne", [](auto& x) { return ne(x, x); }},
    {"lt", [](auto& x) { return lt(x, 1); }},
    {"le", [](auto& x) { return le(x, x); }},
    {"gt", [](auto& x) { return gt(x, 1); }},
    {"ge", [](auto& x) { return ge(x, x); }},
    {"logical_and", [](auto& x) { return logical_and(x, x); }},
    {"logical_or", [](auto& x) { return logical_or(x, x); }},
    {"logical_xor", [](auto& x) { return logical_xor(x, x); }},
    {"logical_not", [](auto& x) { return logical_not(x); }},
    {"isnan", [](auto& x) { return isnan(x); }},
    {"isfinite", [](auto& x) { return isfinite(x); }},
    {"any", [](auto& x) { return any(x, 1); }},
    {"all", [](auto& x) { return all(x, 1); }},
    {"argmax", [](auto& x) { return argmax(x, 1); }},
    {"argmin", [](auto& x) { return argmin(x); }},
    {"argsort", [](auto& x) { return argsort(x, 1); }},
    {"nonzero", [](auto& x) { return nonzero(x); }},
};

Tensor input() { return tensor({{0.9, 0.2, 0.4}, {0.3, 0.8, 0.6}}, float64).requires_grad_(); }

TEST(PublicOperations, AreAllHere) {
  std::set<std::string> here;
  for (const auto* calls : {&kDifferentiable, &kWithoutGradient})
    for (const auto& [name, call] : *calls) here.insert(name);
  EXPECT_EQ(declared_operations(), here);
}

TEST(PublicOperations, KeepTrack) {
  for (const auto& [name, call] : kDifferentiable) {
    const Tensor x = input(), y = call(x);
    ASSERT_TRUE(y.requires_grad()) << name;
    y.sum().backward();
    ASSERT_TRUE(x.grad().defined()) << name;
    EXPECT_TRUE(all(isfinite(x.grad())).item()) << name << ": " << x.grad().to_string();
    EXPECT_EQ(x.grad().dtype(), float64) << name;
  }
}

TEST(PublicOperations, HaveNoGradientsOfIntegers) {
  for (const auto& [name, call] : kWithoutGradient) {
    const Tensor y = call(input());
    EXPECT_FALSE(y.requires_grad()) << name;
    EXPECT_FALSE(is_floating(y.dtype())) << name;
    EXPECT_THROW(Tensor(y).requires_grad_(), DtypeError) << name;
  }
}

/// Empty if the error is in the name of an operation that a program can call.
std::string misnamed(const std::string& error) {
  const std::string name = error.substr(0, error.find(':'));
  static const std::set<std::string> known = declared_operations();
  return known.count(name) ? "" : error;
}

TEST(PublicOperations, RefuseUndefinedOperandsInTheirName) {
  const Tensor none, x = input().detach();
  for (const auto* calls : {&kDifferentiable, &kWithoutGradient})
    for (const auto& [name, call] : *calls) {
      const std::string error = error_of([&, &call = call] { call(none); });
      EXPECT_EQ(misnamed(error), "") << name << ": " << error;
      expect_contains(error, "got an undefined one");
    }
  const std::map<std::string, std::function<void()>> calls = {
      {"operator*", [&] { x* none; }},
      {"maximum", [&] { maximum(x, none); }},
      {"where", [&] { where(none, x, x); }},
      {"eq", [&] { eq(x, none); }},
      {"matmul", [&] { x.matmul(none); }},
      {"cat",
       [&] {
         cat({x, none});
       }},
      {"stack",
       [&] {
         stack({x, none});
       }},
      {"einsum", [&] { einsum("ij,ij->i", x, none); }},
      {"index", [&] { index(x, {none}); }},
      {"linear", [&] { linear(x, none); }},
      {"embedding", [&] { embedding(x, none); }},
      {"cross_entropy_rows", [&] { cross_entropy_rows(x, none); }},
      {"index_select", [&] { index_select(x, 0, none); }},
      {"gather", [&] { gather(x, 0, none); }},
      {"scatter_add", [&] { scatter_add(x, 0, kIndex, none); }},
      {"take_along_dim", [&] { take_along_dim(x, none, 0); }},
      {"masked_select", [&] { masked_select(x, none); }},
      {"exp", [&] { none.exp(); }},
      {"relu", [&] { relu(none); }},
      {"sum", [&] { none.sum(); }},
      {"max", [&] { none.max(0); }},
      {"sort", [&] { sort(none); }},
      {"tril", [&] { tril(none); }},
      {"allclose", [&] { static_cast<void>(allclose(x, none)); }},
      {"zeros_like", [&] { zeros_like(none); }},
      {"one_hot", [&] { one_hot(none, 3); }},
      {"bernoulli", [&] { bernoulli(none); }},
      {"item", [&] { static_cast<void>(none.item()); }},
      {"backward", [&] { none.backward(); }},
      {"shape", [&] { static_cast<void>(none.shape()); }},
  };
  for (const auto& [name, call] : calls)
    EXPECT_EQ(error_of(call),
              name +
                  ": expected a tensor with a value; got an undefined one, such as Tensor() makes; give it a value "
                  "first");
}

/// An undefined tensor in the place of each input of each row: an optional one, or an error that names an operation.
TEST(PublicOperations, RefuseUndefinedOperandsWhereverTheyStand) {
  // Rows that look at the shape themselves, or call what no user calls.
  const std::set<std::string> others = {"attention", "checkpoint", "put", "row_products", "weighted_sum", "where"};
  for (const table::Row& row : table::all_rows())
    for (std::size_t i = 0; i < row.inputs.size() && !others.count(row.operation); ++i) {
      Tensors inputs = row.inputs;
      inputs[i] = {};
      const std::string error = error_of([&] { row.apply(inputs); });
      if (error.find("undefined") != std::string::npos) {
        EXPECT_EQ(misnamed(error), "") << row.name() << ", input " << i;
      }
    }
}

}  // namespace
}  // namespace tapegrad
