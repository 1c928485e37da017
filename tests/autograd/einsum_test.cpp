// einsum: values, how many products it takes, gradients, errors. Random equations are in the reference files.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using expectations::expect_throws;

Tensor draw(const Shape& shape) { return randn(shape, float64); }

TEST(EinsumTest, EqualsTheOperationsItStandsFor) {
  const Tensor a = draw({3, 4}), b = draw({4, 5}), s = draw({3, 3}), v = draw({4}), w = draw({4});
  const auto expect_same = [](const Tensor& found, const Tensor& expected) {
    EXPECT_EQ(found.shape(), expected.shape());
    EXPECT_TRUE(allclose(found, expected)) << found.to_string() << " and " << expected.to_string();
  };
  expect_same(einsum("ij,jk->ik", a, b), matmul(a, b));
  expect_same(einsum("ij,jk", a, b), matmul(a, b));
  expect_same(einsum("ij,jk->ki", a, b), matmul(a, b).transpose(0, 1));
  expect_same(einsum("ji,kj->ik", a.transpose(0, 1), b.transpose(0, 1)), matmul(a, b));
  expect_same(einsum("ij", a), a);
  expect_same(einsum("ba", a), a.transpose(0, 1));
  expect_same(einsum("ij->", a), sum(a));
  expect_same(einsum("ij->j", a), sum(a, 0));
  expect_same(einsum("ii", s), trace(s));
  expect_same(einsum("ii->i", s), diagonal(s));
  expect_same(einsum("i,i", v, w), sum(v * w));
  expect_same(einsum("i,j", v, w), outer(v, w));
  expect_same(einsum("i,i->i", v, w), v * w);
  expect_same(einsum(" i j , j -> i ", a, v), matmul(a, v));
  const Tensor q = draw({2, 3, 5, 4}), k = draw({2, 3, 6, 4});
  expect_same(einsum("bhqd,bhkd->bhqk", q, k), matmul(q, k.transpose(2, 3)));
  expect_same(einsum("...qd,...kd->...qk", q, select(k, 0, 1)), matmul(q, select(k, 0, 1).transpose(1, 2)));
  expect_same(einsum("bqhd,bkhd->bhqk", q.transpose(1, 2), k.transpose(1, 2)), matmul(q, k.transpose(2, 3)));
  expect_same(einsum("bn,anm,bm->ba", draw({2, 0}), draw({3, 0, 5}), draw({2, 5})), zeros({2, 3}, float64));
  const Tensor bilinear = draw({3, 4, 5}), left = draw({2, 4}), right = draw({2, 5});
  expect_same(
      einsum("bn,anm,bm->ba", left, bilinear, right),
      sum(unsqueeze(matmul(unsqueeze(left, 1).unsqueeze(1), bilinear).squeeze(2), 2).squeeze(2) * unsqueeze(right, 1),
          -1));
  expect_same(einsum("i...->...", a), sum(a, 0));
  expect_same(einsum("...->", a), sum(a));
  expect_same(einsum("...,...", a, v), a * v);
  expect_same(einsum(",ij->ij", tensor(2.0, float64), a), a * 2);
  expect_same(einsum("", tensor(2.0)), tensor(2.0));
}

TEST(EinsumTest, Dtypes) {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  EXPECT_EQ(einsum("ij,jk->ik", x, x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 10, 15, 22}));
  EXPECT_EQ(einsum("ij,jk->ik", x, x).dtype(), int64);
  EXPECT_EQ(einsum("ij,jk->ik", x, ones({2, 2})).dtype(), float32);
  EXPECT_EQ(einsum("ij,jk->ik", draw({2, 2}), ones({2, 2})).dtype(), float64);
}

int products(const std::string& equation, const Tensors& operands, const std::string& name = "matmul") {
  Tensors leaves;
  for (const Tensor& x : operands) leaves.push_back(x.detach().requires_grad_());
  std::vector<const autograd::Entry*> open{einsum(equation, leaves).body()->entry.get()};
  const Tensor result = einsum(equation, leaves);
  open = {result.body()->entry.get()};
  int count = 0;
  while (!open.empty()) {
    const autograd::Entry* entry = open.back();
    open.pop_back();
    count += entry->name() == name;
    for (int i = 0; i < entry->inputs(); ++i)
      if (const autograd::Entry* before = entry->edge(i).entry()) open.push_back(before);
  }
  return count;
}

TEST(EinsumTest, EachPairTakesOneProduct) {
  EXPECT_EQ(products("ij,jk->ik", {draw({2, 3}), draw({3, 4})}), 1);
  EXPECT_EQ(products("bqhd,bkhd->bhqk", {draw({2, 3, 2, 4}), draw({2, 5, 2, 4})}), 1);
  EXPECT_EQ(products("aibj,jbc->aci", {draw({2, 3, 4, 5}), draw({5, 4, 2})}), 1);
  EXPECT_EQ(products("ij,jk,kl->il", {draw({2, 3}), draw({3, 4}), draw({4, 2})}), 2);
  EXPECT_EQ(products("i,j->ij", {draw({2}), draw({3})}), 0);
}

TEST(EinsumTest, GradientsOfBothOrders) {
  const std::vector<std::pair<std::string, std::vector<Shape>>> cases = {
      {"ij,jk->ki", {{2, 3}, {3, 2}}},
      {"bij,bjk->bik", {{2, 2, 3}, {2, 3, 2}}},
      {"ii->i", {{3, 3}}},
      {"iji->j", {{2, 3, 2}}},
      {"...i,ij->...j", {{2, 2, 3}, {3, 2}}},
      {"i,ij,j->", {{2}, {2, 3}, {3}}},
      {"bi,bi->b", {{2, 3}, {1, 3}}},
      {"ij,ij->ij", {{2, 3}, {2, 1}}},
      {"ab...,b...c->ac...", {{2, 3, 2}, {3, 2, 2}}},
      {"ij,jk->ik", {{2, 0}, {0, 3}}},
  };
  for (const auto& [equation, shapes] : cases) {
    Tensors inputs;
    for (const Shape& shape : shapes) inputs.push_back(draw(shape));
    const auto apply = [&equation = equation](const Tensors& in) { return einsum(equation, in); };
    EXPECT_TRUE(autograd::gradcheck(apply, inputs)) << equation;
    EXPECT_TRUE(autograd::gradgradcheck(apply, inputs)) << equation;
  }
}

TEST(EinsumTest, Errors) {
  const Tensor a = zeros({2, 3}), b = zeros({3, 4});
  expect_throws<ValueError>([&] { einsum("ij,jk->ik", a); },
                            {"as many operands as the equation has; got 1", "\"ij,jk->ik\""});
  expect_throws<ValueError>([&] { einsum("ij", Tensors{}); }, {"got 0 in \"ij\""});
  expect_throws<ShapeError>([&] { einsum("ijk", a); }, {"operand 0 must have as many dimensions", "[2, 3]", "\"ijk\""});
  expect_throws<ShapeError>([&] { einsum("i", a); }, {"operand 0 must have as many dimensions"});
  expect_throws<ShapeError>([&] { einsum("ijk...", a); }, {"operand 0 must have as many dimensions", "\"ijk...\""});
  expect_throws<ShapeError>([&] { einsum("ij,jk->ik", b, a); },
                            {"under 'j'; got 2 in operand 1, of shape [2, 3], and 4"});
  expect_throws<ShapeError>([&] { einsum("ii", a); }, {"under 'i'; got 3 in operand 0, of shape [2, 3], and 2"});
  expect_throws<ShapeError>([&] { einsum("ii", zeros({3, 1})); }, {"under 'i'; got 1", "and 3"});
  expect_throws<ShapeError>([&] { einsum("...,...", a, b); }, {"under \"...\"; got 3 in operand 1"});
  expect_throws<ValueError>([&] { einsum("ij->ik", a); },
                            {"must occur in an operand; got 'k' in no operand in \"ij->ik\""});
  expect_throws<ValueError>([&] { einsum("ij->ii", a); }, {"once in the result; got 'i' twice"});
  expect_throws<ValueError>([&] { einsum("i1", a); }, {"expected letters", "got '1' in \"i1\""});
  expect_throws<ValueError>([&] { einsum("ij->i->j", a); }, {"got '-'"});
  expect_throws<ValueError>([&] { einsum("i..", a); }, {"got '.'"});
  expect_throws<ValueError>([&] { einsum("......", a); }, {"may have \"...\" once"});
  expect_throws<DtypeError>([&] { einsum("i", ones({2}, boolean)); }, {"operands must be numbers; got boolean ones"});
  const Tensor many = zeros({1, 1, 1, 1, 1});
  expect_throws<ShapeError>([&] { einsum("abcde,fghij->abcdefghij", many, many); },
                            {"8 dimensions; got 10", "abcdefghij"});
}

}  // namespace
}  // namespace tapegrad
