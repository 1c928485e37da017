#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include <tapegrad/tapegrad.hpp>

namespace tapegrad {
namespace {

using autograd::profile;
using autograd::ProfileRow;
using autograd::record;

std::map<std::string, ProfileRow> by_name(const std::vector<ProfileRow>& rows) {
  std::map<std::string, ProfileRow> result;
  for (const ProfileRow& row : rows) EXPECT_TRUE(result.emplace(row.name, row).second) << row.name << " stands twice";
  return result;
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void spend(double ms) {
  const auto start = std::chrono::steady_clock::now();
  while (ms_since(start) < ms) {
  }
}

/// An operation of a user, which gives its value ready, or as a function.
template <class Value>
Tensor twice(const Tensor& x, Value&& value) {
  return record("twice", std::forward<Value>(value), {x}, [](const Tensor& g) { return Tensors{g * 2}; });
}

TEST(Profile, CountsOperationsForwardAndBackward) {
  Tensor x = randn({64, 64}).requires_grad_();
  profile profile;
  Tensor y = tanh(matmul(x, x)) * tanh(x);
  y.sum().backward();
  const auto rows = by_name(profile.operations());
  EXPECT_EQ(rows.at("tanh").calls, 2);
  EXPECT_EQ(rows.at("matmul").calls, 1);
  EXPECT_EQ(rows.at("multiply").calls, 1);  // those of the backward functions are part of them
  for (const char* name : {"tanh", "matmul", "multiply", "sum"}) {
    EXPECT_GT(rows.at(name).forward_ms, 0) << name;
    EXPECT_GT(rows.at(name).backward_ms, 0) << name;
  }
  EXPECT_EQ(rows.count("permute"), 0u) << "it is inside the backward function of matmul";
}

TEST(Profile, SharesAddUpToTheWholeTime) {
  const auto start = std::chrono::steady_clock::now();
  profile profile;
  Tensor x = randn({200, 200}).requires_grad_();
  matmul(x, x).sum().backward();
  spend(5);
  for (const auto& rows : {profile.operations(), profile.modules()}) {
    double ms = 0, share = 0;
    for (const ProfileRow& row : rows) {
      if (row.name.find('.') != std::string::npos) continue;  // inside another
      ms += row.forward_ms + row.backward_ms;
      share += row.share;
    }
    EXPECT_NEAR(share, 1, 1e-9);
    EXPECT_LE(ms, ms_since(start));
    EXPECT_GE(ms, 5);
    EXPECT_EQ(rows.back().name, "(other)");
    EXPECT_GE(rows.back().forward_ms, 5);
    for (std::size_t i = 2; i < rows.size(); ++i) EXPECT_GE(rows[i - 2].share, rows[i - 1].share) << "most time first";
  }
}

TEST(Profile, TimesAreThoseOfTheFunctionsThatRan) {
  Tensor x = ones({2}).requires_grad_();
  profile profile;
  const auto slow = [&] {
    spend(4);
    return x.array().copy();
  };
  Tensor y = record("slow", slow, {x}, [](const Tensor& g) {
    spend(8);
    return Tensors{g};
  });
  y.sum().backward();
  const ProfileRow row = by_name(profile.operations()).at("slow");
  EXPECT_GE(row.forward_ms, 4);
  EXPECT_GE(row.backward_ms, 8);
  EXPECT_EQ(profile.operations().front().name, "slow");
}

TEST(Profile, WhatAValueIsMadeByCountsOnce) {
  Tensor x = ones({2}).requires_grad_();
  {
    profile profile;
    twice(x, [&] { return x.detach() * 2; });
    const auto rows = by_name(profile.operations());
    EXPECT_EQ(rows.at("twice").calls, 1);
    EXPECT_EQ(rows.count("multiply"), 0u);
  }
  profile profile;
  twice(x, x.detach() * 2);  // made before it is recorded
  const auto rows = by_name(profile.operations());
  EXPECT_EQ(rows.at("twice").calls, 1);
  EXPECT_EQ(rows.at("multiply").calls, 1);
}

TEST(Profile, BytesKeptAreWhatOneOperationAloneHolds) {
  Tensor x = ones({1000}).requires_grad_();
  const auto forward = [&] {
    Tensor y = exp(x * 2);  // exp keeps its result; times 2 keeps nothing
    Tensor z = y * y;       // keeps y, as exp does: exp lets go of it last
    return (sigmoid(z) + 1).sum();
  };
  const auto kept = [&](bool retain) {
    profile profile;
    Tensor loss = forward();
    loss.backward({.retain_graph = retain});
    return by_name(profile.operations());
  };
  const auto rows = kept(false);
  EXPECT_EQ(rows.at("sigmoid").bytes_kept, 4000);
  EXPECT_EQ(rows.at("exp").bytes_kept, 4000);
  for (const char* name : {"multiply", "add", "sum", "(other)"}) EXPECT_EQ(rows.at(name).bytes_kept, 0) << name;
  for (const auto& [name, row] : kept(true)) EXPECT_EQ(row.bytes_kept, 0) << name;
}

TEST(Profile, OneToAThread) {
  auto first = std::make_unique<profile>();
  EXPECT_THROW(profile(), ValueError);
  tanh(ones({2}));
  EXPECT_EQ(by_name(first->operations()).at("tanh").calls, 1) << "the first goes on";
  std::thread([] {
    profile own;
    exp(ones({2}));
    EXPECT_EQ(by_name(own.operations()).count("exp"), 1u);
    EXPECT_EQ(by_name(own.operations()).count("tanh"), 0u);
  }).join();
  EXPECT_EQ(by_name(first->operations()).count("exp"), 0u);
  first.reset();
  EXPECT_EQ(profile().operations().size(), 1u) << "a new one starts with nothing but (other)";
}

TEST(Profile, OutlivesErrorsInOperations) {
  Tensor x = ones({2, 3}).requires_grad_();
  profile profile;
  EXPECT_THROW(x + ones({4}), ShapeError);
  Tensor bad = record("bad", x.detach(), {x}, [](const Tensor&) -> Tensors { throw std::runtime_error("no"); });
  EXPECT_THROW(bad.sum().backward(), std::runtime_error);
  tanh(x).sum().backward();
  const auto rows = by_name(profile.operations());
  EXPECT_EQ(rows.at("tanh").calls, 1);
  EXPECT_GT(rows.at("tanh").backward_ms, 0);
  EXPECT_EQ(rows.at("sum").calls, 2);
}

TEST(Profile, MayEndInsideABackwardFunction) {
  auto outer = std::make_unique<profile>();
  Tensor x = ones({2}).requires_grad_();
  record("ends", x.detach(), {x},
         [&](const Tensor& g) {
           outer.reset();
           outer = std::make_unique<profile>();
           return Tensors{g};
         })
      .sum()
      .backward();
  exp(x);
  EXPECT_EQ(by_name(outer->operations()).at("exp").calls, 1);
}

TEST(Profile, ValuesAndTapeAreTheSameWithout) {
  const auto run = [] {
    manual_seed(3);
    Tensor x = randn({5, 5}).requires_grad_();
    (softmax(matmul(x, x), -1) * x).sum().backward();
    return x.grad().to_vector<float>();
  };
  const auto without = run();
  const std::int64_t entries = memory::live_entries();
  std::vector<float> with;
  {
    profile profile;
    with = run();
  }
  EXPECT_EQ(with, without);
  EXPECT_EQ(memory::live_entries(), entries);
}

TEST(Profile, GradientsOfGradientsBelongToWhatRecordedThem) {
  Tensor x = full({}, 3.0).requires_grad_();
  profile profile;
  const Tensor first = autograd::grad({x * x * x}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(autograd::grad({first}, {x})[0].item(), 18);
  const auto rows = by_name(profile.operations());
  EXPECT_EQ(rows.at("multiply").calls, 2);
  EXPECT_GT(rows.at("add").backward_ms, 0) << "recorded by the sweep, as x arrived twice";
}

TEST(Profile, OptimizersAndClippingAreSpansOfTheirOwn) {
  Tensor w = ones({10}).requires_grad_();
  optim::AdamW optimizer({w});
  profile profile;
  (w * w).sum().backward();
  optim::clip_grad_norm({w}, 0.1);
  optimizer.step();
  optimizer.zero_grad();
  const auto rows = by_name(profile.operations());
  for (const char* name : {"AdamW.step", "AdamW.zero_grad", "clip_grad_norm"}) {
    EXPECT_EQ(rows.at(name).calls, 1) << name;
    EXPECT_GT(rows.at(name).forward_ms, 0) << name;
  }
  const auto all = by_name(profile.modules()).at("(all)");
  EXPECT_NEAR(all.forward_ms, rows.at("multiply").forward_ms + rows.at("sum").forward_ms, 1e-9);
}

TEST(Profile, TableFitsAHundredColumns) {
  profile profile;
  Tensor x = ones({10}).requires_grad_();
  record("an_operation_whose_name_is_longer_than_the_column_that_it_is_given", x.detach(), {x},
         [](const Tensor& g) { return Tensors{g}; })
      .sum()
      .backward();
  std::istringstream lines(profile.table());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_EQ(count, 1 + 3 + 1 + 1 + 2);
  EXPECT_NE(profile.table().find("...s_longer_than"), std::string::npos) << profile.table();
}

TEST(Profile, ChromeTraceIsJsonOfMatchedEvents) {
  const std::string path = testing::TempDir() + "profile_trace.json";
  {
    const std::string outer = "outer", inner = "in\"ner\xff";
    profile profile;
    Tensor x = ones({10}).requires_grad_();
    core::Scope in_outer(outer);
    Tensor y = tanh(x);
    {
      core::Scope in_inner(inner);
      y = exp(y);
    }
    sigmoid(y).sum().backward();
    profile.save_chrome_trace(path);
    EXPECT_THROW(profile.save_chrome_trace("/no/such/place/trace.json"), FileError);
  }
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::vector<std::string> open;
  std::map<std::string, int> seen;
  double last = 0;
  for (const auto& event : trace.at("traceEvents")) {
    EXPECT_GE(event.at("ts").get<double>(), last);
    last = event.at("ts");
    const std::string name = event.at("name");
    if (event.at("ph") == "B") {
      ++seen[name];
      EXPECT_TRUE(name != "exp" || open.back().find("outer.in\"ner") != std::string::npos);
      open.push_back(name);
    } else {
      ASSERT_EQ(event.at("ph"), "E");
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(seen["tanh"], 2) << "forward and backward";
  EXPECT_EQ(seen["outer"], 2);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tapegrad
