// Every operation's gradients, first and second order; and that the checks would notice a wrong one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tapegrad/autograd/anomaly.hpp>
#include <tapegrad/autograd/sweep.hpp>

#include "gradcheck_table.hpp"
#include "recorded_names.hpp"

namespace tapegrad::table {
namespace {

autograd::GradcheckOptions first_order(const Row& row) { return {.eps = row.eps, .atol = 1e-7, .rtol = 1e-6}; }
autograd::GradcheckOptions second_order(const Row& row) { return {.eps = row.eps, .atol = 1e-6, .rtol = 1e-5}; }

Tensors leaves_of(const Row& row) {
  Tensors leaves;
  for (const Tensor& input : row.inputs) {
    leaves.push_back(input.defined() ? input.detach() : input);
    if (input.defined() && is_floating(input.dtype())) leaves.back().requires_grad_();
  }
  return leaves;
}

/// All operations on the tape of `output`.
std::set<std::string> tape_of(const Tensor& output) {
  std::set<std::string> names;
  if (output.is_leaf()) return names;
  std::vector<const autograd::Entry*> entries{output.body()->entry.get()};
  while (!entries.empty()) {
    const autograd::Entry* entry = entries.back();
    entries.pop_back();
    names.insert(entry->name());
    for (int i = 0; i < entry->inputs(); ++i)
      if (entry->edge(i).entry()) entries.push_back(entry->edge(i).entry());
  }
  return names;
}

std::set<std::string> row_names() {
  std::set<std::string> names;
  for (const Row& row : all_rows()) names.insert(row.operation);
  return names;
}

/// The bytes of a tensor's elements, in order.
std::vector<double> values(const Tensor& x) { return x.defined() ? x.to_vector<double>() : std::vector<double>(); }
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

TEST(GradcheckTable, HasARowForEveryRecordedOperation) { EXPECT_EQ(recorded_names(), row_names()); }

TEST(GradcheckTable, StaysShort) { EXPECT_LT(recorded_names().size(), 70u) << "compose operations of others first"; }

/// Anomaly mode finds the line of a row, in a file of the tests, whichever way its operation is called.
TEST(GradcheckTable, EveryFaultHasTheLineOfItsRow) {
  const autograd::AnomalyGuard guard;
  std::set<std::string> faulty, unknown;
  for (const Row& row : all_rows()) {
    Tensors inputs;
    for (const Tensor& x : row.inputs)
      inputs.push_back(x.defined() && is_floating(x.dtype()) ? full_like(x, std::nan("")) : x);
    try {
      row.apply(inputs);
    } catch (const NonFiniteError& error) {
      faulty.insert(row.operation);
      if (std::string(error.what()).find("tests/autograd/gradcheck_table") == std::string::npos)
        unknown.insert(row.operation);
    }
  }
  // What no user calls.
  for (const char* name : {"masked_softmax", "row_products", "put", "weighted_sum"}) unknown.erase(name);
  EXPECT_EQ(unknown, std::set<std::string>());
  EXPECT_GT(faulty.size(), row_names().size() * 9 / 10);
}

TEST(GradcheckTable, EachRowRecordsItsOperation) {
  for (const Row& row : all_rows()) {
    std::set<std::string> expected(row.through.begin(), row.through.end());
    expected.insert(row.operation);
    manual_seed(1);
    EXPECT_EQ(tape_of(row.apply(leaves_of(row))), expected) << row.name();
  }
}

TEST(GradcheckTable, FirstAndSecondOrderAreRight) {
  std::set<std::string> first, second;
  for (const Row& row : all_rows()) {
    const auto report = autograd::gradcheck(row.apply, row.inputs, first_order(row));
    EXPECT_TRUE(report) << row.name() << ": " << report.to_string();
    first.insert(row.operation);
    if (!row.twice) continue;
    const auto again = autograd::gradgradcheck(row.apply, row.inputs, second_order(row));
    EXPECT_TRUE(again) << "second order, " << row.name() << ": " << again.to_string();
    second.insert(row.operation);
  }
  std::printf("%zu operations, %zu checked (first), %zu (second); %zu rows\n", recorded_names().size(), first.size(),
              second.size(), all_rows().size());
}

TEST(GradcheckTable, InputsStayAsTheyAre) {
  for (const Row& row : all_rows()) {
    std::vector<std::vector<double>> before;
    std::vector<std::uint32_t> versions;
    for (const Tensor& input : row.inputs) {
      before.push_back(values(input));
      versions.push_back(input.defined() ? input.body()->array.storage()->version() : 0);
    }
    const Tensor output = row.apply(leaves_of(row));
    output.backward(ones(output.shape(), output.dtype()));
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      EXPECT_TRUE(same_bits(before[i], values(row.inputs[i]))) << row.name() << ", input " << i;
      if (!row.inputs[i].defined()) continue;
      EXPECT_EQ(versions[i], row.inputs[i].body()->array.storage()->version()) << row.name() << ", input " << i;
    }
  }
}

TEST(GradcheckTable, TheTapeDoesNotChangeValues) {
  for (const Row& row : all_rows()) {
    manual_seed(1);
    const Tensor recorded = row.apply(leaves_of(row));
    manual_seed(1);
    const Tensor plain = row.apply(row.inputs);
    EXPECT_FALSE(plain.requires_grad()) << row.name();
    EXPECT_TRUE(same_bits(values(recorded), values(plain))) << row.name();
  }
}

/// What is wrong with the gradients that closures return at the moment, and what was seen of them.
struct Mutation {
  std::string operation;
  std::size_t input = 0;
  bool seen = false;     // the closure was run
  bool nonzero = false;  // and gave this input a gradient that isn't zero
  std::size_t inputs = 0;
} mutation;

void falsify(const autograd::Entry& entry, Tensors& gradients) {
  if (entry.name() != mutation.operation) return;
  mutation.seen = true;
  mutation.inputs = std::max(mutation.inputs, gradients.size());
  if (mutation.input >= gradients.size() || !gradients[mutation.input].defined()) return;
  Tensor& gradient = gradients[mutation.input];
  for (const double value : gradient.to_vector<double>()) mutation.nonzero = mutation.nonzero || value != 0;
  gradient = gradient * 1.01;
}

bool passes(const Row& row) { return static_cast<bool>(autograd::gradcheck(row.apply, row.inputs, first_order(row))); }

class Mutations : public testing::Test {
 protected:
  void SetUp() override {
    autograd::gradient_filter = falsify;
    for (const Row& row : all_rows()) rows_[row.operation].push_back(&row);
  }
  void TearDown() override { autograd::gradient_filter = nullptr; }

  bool some_row_fails(const std::string& operation) const {
    const auto& rows = rows_.at(operation);
    return std::any_of(rows.begin(), rows.end(), [](const Row* row) { return !passes(*row); });
  }

  std::map<std::string, std::vector<const Row*>> rows_;
};

TEST_F(Mutations, OnePercentInAnyClosureFailsExactlyItsRows) {
  std::set<std::string> without_gradient;
  std::size_t tried = 0;
  for (const auto& [operation, rows] : rows_) {
    bool any_gradient = false;
    mutation = {operation};
    for (std::size_t input = 0; input == 0 || input < mutation.inputs; ++input) {
      mutation = {operation, input, false, false, mutation.inputs};
      const bool failed = some_row_fails(operation);
      EXPECT_TRUE(mutation.seen) << operation;
      EXPECT_EQ(failed, mutation.nonzero) << operation << ": an error of 1 % in the gradient of input " << input;
      any_gradient = any_gradient || mutation.nonzero;
      if (!mutation.nonzero) continue;
      ++tried;
      for (const auto& [other, others] : rows_) {
        const std::vector<std::string>& through = others.front()->through;
        if (other == operation || std::count(through.begin(), through.end(), operation)) continue;
        EXPECT_TRUE(passes(*others.front())) << "an error in " << operation << " fails " << others.front()->name();
      }
    }
    if (!any_gradient) without_gradient.insert(operation);
  }
  // A checkpoint's closure gives none back: it lets the sweep go on into what it recorded.
  EXPECT_EQ(without_gradient, (std::set<std::string>{"ceil", "checkpoint", "floor", "round", "sign"}));
  std::printf("%zu operations, %zu gradients falsified one by one\n", rows_.size(), tried);
}

struct Misuse {
  const char* what;
  Tensor (*call)(const Tensor& x, const Tensor& y);
};

const Misuse misuses[] = {
    {"add", [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"multiply", [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); }},
    {"maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); }},
    {"where", [](const Tensor& x, const Tensor& y) { return where(x, x, y); }},
    {"matmul", [](const Tensor& x, const Tensor& y) { return matmul(x, y); }},
    {"matmul of dtypes", [](const Tensor& x, const Tensor&) { return matmul(x, x.to(float32)); }},
    {"sum", [](const Tensor& x, const Tensor&) { return sum(x, 2); }},
    {"sum, twice",
     [](const Tensor& x, const Tensor&) {
       return sum(x, {0, -2});
     }},
    {"max", [](const Tensor& x, const Tensor&) { return max(x, 5); }},
    {"max of nothing", [](const Tensor& x, const Tensor&) { return max(slice(x, 1, 0, 0), 1); }},
    {"sum_to", [](const Tensor& x, const Tensor&) { return sum_to(x, {4}); }},
    {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 2); }},
    {"reshape", [](const Tensor& x, const Tensor&) { return reshape(x, {4}); }},
    {"permute",
     [](const Tensor& x, const Tensor&) {
       return permute(x, {0, 0});
     }},
    {"expand",
     [](const Tensor& x, const Tensor&) {
       return expand(x, {4, 3});
     }},
    {"select", [](const Tensor& x, const Tensor&) { return select(x, 0, 2); }},
    {"slice", [](const Tensor& x, const Tensor&) { return slice(x, 0, 0, 2, 0); }},
    {"cat",
     [](const Tensor& x, const Tensor& y) {
       return cat({x, y});
     }},
    {"stack",
     [](const Tensor& x, const Tensor& y) {
       return stack({x, y});
     }},
    {"index_select", [](const Tensor& x, const Tensor&) { return index_select(x, 0, tensor({7})); }},
    {"gather",
     [](const Tensor& x, const Tensor&) {
       return gather(x, 1, tensor({{7}, {0}}));
     }},
    {"layer_norm", [](const Tensor& x, const Tensor& y) { return layer_norm(x, y, {}); }},
    {"linear", [](const Tensor& x, const Tensor& y) { return linear(x, y); }},
    {"gelu_linear", [](const Tensor& x, const Tensor& y) { return gelu_linear(x, y); }},
    {"embedding", [](const Tensor& x, const Tensor&) { return embedding(x, tensor({2})); }},
    {"cross_entropy_rows",
     [](const Tensor& x, const Tensor&) {
       return cross_entropy_rows(x, tensor({0, 3}));
     }},
    {"dropout", [](const Tensor& x, const Tensor&) { return dropout(x, 1.5); }},
    {"clamp", [](const Tensor& x, const Tensor&) { return clamp(x, 1, 0); }},
    {"prod", [](const Tensor& x, const Tensor&) { return prod(x, 2); }},
    {"cumsum", [](const Tensor& x, const Tensor&) { return cumsum(x, -3); }},
    {"norm", [](const Tensor& x, const Tensor&) { return norm(x, 0); }},
    {"lerp", [](const Tensor& x, const Tensor& y) { return lerp(x, y, 0.5); }},
    {"sort", [](const Tensor& x, const Tensor&) { return sort(x, 2).values; }},
    {"topk", [](const Tensor& x, const Tensor&) { return topk(x, 4).values; }},
    {"rms_norm", [](const Tensor& x, const Tensor& y) { return rms_norm(x, y); }},
};

std::string error_of(const Misuse& misuse, bool recorded) {
  Tensor x = ones({2, 3}, float64), y = ones({2, 4}, float64);
  if (recorded) x.requires_grad_(), y.requires_grad_();
  try {
    misuse.call(x, y);
  } catch (const Error& error) {
    return std::string(typeid(error).name()) + error.what();
  }
  return "";
}

TEST(GradcheckTable, MisuseGivesTheSameErrorWithAndWithoutATape) {
  for (const Misuse& misuse : misuses) {
    EXPECT_NE(error_of(misuse, false), "") << misuse.what;
    EXPECT_EQ(error_of(misuse, false), error_of(misuse, true)) << misuse.what;
  }
}

}  // namespace
}  // namespace tapegrad::table
