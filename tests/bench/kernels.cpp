// Every kernel of a transformer's training step beside its floor: what it must move and multiply at the least, at the
// speed that this machine reaches in this process (floors.hpp). Columns: floor_ms, that time; of_floor, its share of
// the median time taken, 1 at the floor; quiet_of_floor, the same of the quietest round, which neighbours disturb
// least. Transcendental functions are held to memory's speed too, which they can't reach within the caches. Options are
// Google Benchmark's:
//   kernels --benchmark_filter='layer_norm.*threads:2'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "floors.hpp"

namespace {

namespace tg = tapegrad;
using bench::Pass;
using bench::Work;
using tg::Shape;
using tg::Tensor;
using tg::Tensors;

struct Row {
  std::string name;
  Work work;
  /// Makes the operands and returns what is measured.
  std::function<std::function<void()>()> prepare;
};
using Rows = std::vector<Row>;
using Operation = std::function<Tensor(const Tensors&)>;

double numel(const Shape& shape) { return static_cast<double>(shape.numel()); }
/// So many float32 numbers.
Work moving(double floats, Pass pass = Pass::triad) { return {.bytes = 4 * floats, .pass = pass}; }

Tensors random_leaves(const std::vector<Shape>& shapes) {
  Tensors leaves;
  for (const Shape& shape : shapes) leaves.push_back(tg::randn(shape).requires_grad_());
  return leaves;
}

void add_forward(Rows& rows, const std::string& name, const Work& work, const std::vector<Shape>& shapes,
                 const Operation& operation) {
  rows.push_back({name + "/forward", work, [=] {
                    return [=, leaves = random_leaves(shapes)] {
                      const tg::NoGradGuard no_grad;
                      benchmark::DoNotOptimize(operation(leaves));
                    };
                  }});
}

/// A row of the forward pass alone and one with the backward sweep, whose gradients are written anew each time.
void add(Rows& rows, const std::string& name, const Work& forward, const Work& both, const std::vector<Shape>& shapes,
         const Operation& operation) {
  add_forward(rows, name, forward, shapes, operation);
  rows.push_back({name + "/forward+backward", both, [=] {
                    const Tensors leaves = random_leaves(shapes);
                    const Tensor gradient = tg::randn(operation(leaves).shape());
                    return [=] {
                      for (const Tensor& leaf : leaves) leaf.set_grad({});
                      operation(leaves).backward(gradient);
                    };
                  }});
}

/// f(x): x read, y written; backward x (or y) and g read, dx written.
void add_unary(Rows& rows, const std::string& name, const Shape& shape, const Operation& operation,
               double backward_passes = 3) {
  const double n = numel(shape);
  add(rows, name, moving(2 * n), moving((2 + backward_passes) * n), {shape}, operation);
}

void add_elementwise(Rows& rows) {
  for (const auto& [size, shape] : {std::pair{"W1", Shape{768, 512}}, {"W2", Shape{4096, 1536}}}) {
    const double n = numel(shape);
    const auto name = [size = std::string(size)](const char* operation) { return operation + ("/" + size); };
    // Backward: g read, and each operand's gradient written.
    add(rows, name("add"), moving(3 * n), moving(6 * n), {shape, shape}, [](const Tensors& x) { return x[0] + x[1]; });
    // Backward: g and both operands read, two gradients written.
    add(rows, name("mul"), moving(3 * n), moving(8 * n), {shape, shape}, [](const Tensors& x) { return x[0] * x[1]; });
    add_unary(
        rows, name("x*2+1"), shape, [](const Tensors& x) { return x[0] * 2 + 1; }, 2);
    add_unary(rows, name("exp"), shape, [](const Tensors& x) { return tg::exp(x[0]); });
    add_unary(rows, name("tanh"), shape, [](const Tensors& x) { return tg::tanh(x[0]); });
    add_unary(rows, name("gelu_erf"), shape, [](const Tensors& x) { return tg::gelu(x[0]); });
    add_unary(rows, name("gelu_tanh"), shape,
              [](const Tensors& x) { return tg::gelu(x[0], tg::GeluApproximation::tanh); });
    // Backward: the mask is drawn again, so g is read and dx written.
    add_unary(
        rows, name("dropout"), shape, [](const Tensors& x) { return tg::dropout(x[0], 0.1); }, 2);
    // Written alone.
    add_forward(rows, name("randn"), moving(n), {}, [shape = shape](const Tensors&) { return tg::randn(shape); });
  }
}

/// Rows of a matrix: as for f(x) above, vectors of one row's width neglected.
void add_rowwise(Rows& rows) {
  for (const auto& [size, shape] :
       {std::pair{"W1", Shape{48 * 64, 64}}, {"W5", Shape{4096, 256}}, {"W2", Shape{96 * 256, 256}}}) {
    add_unary(rows, std::string("softmax/") + size, shape, [](const Tensors& x) { return tg::softmax(x[0], -1); });
    add_unary(rows, std::string("log_softmax/") + size, shape,
              [](const Tensors& x) { return tg::log_softmax(x[0], -1); });
  }
  for (const auto& [size, shape] :
       {std::pair{"W1", Shape{768, 128}}, {"W5", Shape{4096, 256}}, {"W2", Shape{4096, 384}}}) {
    const Shape width{shape[1]};
    add(rows, std::string("layer_norm/") + size, moving(2 * numel(shape)), moving(5 * numel(shape)),
        {shape, width, width}, [](const Tensors& x) { return tg::layer_norm(x[0], x[1], x[2]); });
  }
}

/// By an index for each row: the indices are read once in each direction, as int64.
void add_by_index(Rows& rows) {
  struct Size {
    const char* name;
    std::int64_t tokens, classes, width;
  };
  for (const Size& size : {Size{"W1", 768, 65, 128}, Size{"W2", 4096, 65, 384}, Size{"large", 2048, 8192, 256}}) {
    const auto tokens = static_cast<double>(size.tokens), table = static_cast<double>(size.classes * size.width);
    const Tensor indices = tg::randint(0, size.classes, {size.tokens});
    const double logits = tokens * static_cast<double>(size.classes),
                 vectors = tokens * static_cast<double>(size.width);
    // The logits are read; backward they are read again and their gradient is written.
    add(rows, std::string("cross_entropy/") + size.name, moving(logits + 2 * tokens, Pass::read),
        moving(3 * logits + 4 * tokens), {{size.tokens, size.classes}},
        [indices](const Tensors& x) { return tg::nn::cross_entropy(x[0], indices); });
    // The rows that are asked for are read, and written for each index; backward g is read and the whole table written.
    add(rows, std::string("embedding/") + size.name, moving(std::min(vectors, table) + vectors + 2 * tokens),
        moving(std::min(vectors, table) + 2 * vectors + table + 4 * tokens), {{size.classes, size.width}},
        [indices](const Tensors& x) { return tg::embedding(x[0], indices); });
  }
  // At random along each axis of a matrix, held to the speed of reading in order. The same is moved backward.
  const Shape shape{512, 256};
  const double n = numel(shape);
  for (const int axis : {0, 1}) {
    const Tensor index = tg::randint(0, shape[axis], shape);
    const std::string size = fmt::format("512x256_axis{}", axis);
    add(rows, "gather/" + size, moving(4 * n), moving(8 * n), {shape},
        [=](const Tensors& x) { return tg::gather(x[0], axis, index); });
    // Both operands are read and their sum is written; backward g is read and two gradients are written.
    add(rows, "scatter_add/" + size, moving(5 * n), moving(10 * n), {shape, shape},
        [=](const Tensors& x) { return tg::scatter_add(x[0], axis, index, x[1]); });
  }
}

/// Sums read all and write (almost) nothing; copies in another order read and write all.
void add_reductions_and_copies(Rows& rows) {
  for (const auto& [size, shape] : {std::pair{"W1", Shape{768, 512}}, {"W2", Shape{4096, 1536}}}) {
    const double n = numel(shape);
    const auto name = [size = std::string(size)](const char* operation) { return operation + ("/" + size); };
    add_forward(rows, name("sum_all"), moving(n, Pass::read), {shape}, [](const Tensors& x) { return x[0].sum(); });
    add_forward(rows, name("sum_rows"), moving(n, Pass::read), {shape}, [](const Tensors& x) { return x[0].sum(0); });
    add_forward(rows, name("sum_columns"), moving(n, Pass::read), {shape},
                [](const Tensors& x) { return x[0].sum(1); });
    add_forward(rows, name("transpose"), moving(2 * n), {shape},
                [](const Tensors& x) { return x[0].transpose(0, 1).contiguous(); });
  }
  // Heads to the front, as attention wants them.
  for (const auto& [size, shape] : {std::pair{"W1", Shape{12, 64, 4, 32}}, {"W2", Shape{16, 256, 6, 64}}})
    add_forward(rows, std::string("permute_heads/") + size, moving(2 * numel(shape)), {shape}, [](const Tensors& x) {
      return x[0].permute({0, 2, 1, 3}).contiguous();
    });
}

/// Products: one forward, two backward. Bytes: x, weight and bias read, y written; backward x, weight and g read, the
/// gradients written.
void add_products(Rows& rows) {
  struct Size {
    const char* name;
    std::int64_t rows, in, out;
  };
  for (const Size& size :
       {Size{"W1_proj", 768, 128, 128}, Size{"W1_up", 768, 128, 512}, Size{"W1_down", 768, 512, 128},
        Size{"W2_proj", 4096, 384, 384}, Size{"W2_up", 4096, 384, 1536}, Size{"W2_down", 4096, 1536, 384}}) {
    const Shape x{size.rows, size.in}, weight{size.out, size.in}, weight_transposed{size.in, size.out};
    const double flops = 2 * numel(x) * static_cast<double>(size.out);
    const double inputs = numel(x) + numel(weight), output = static_cast<double>(size.rows * size.out);
    const Work forward{.bytes = 4 * (inputs + output), .flops = flops},
        both{.bytes = 4 * (3 * inputs + 2 * output), .flops = 3 * flops};
    add(rows, std::string("linear/") + size.name, forward, both, {x, weight, {size.out}},
        [](const Tensors& t) { return tg::linear(t[0], t[1], t[2]); });
    add(rows, std::string("matmul/") + size.name, forward, both, {x, weight_transposed},
        [](const Tensors& t) { return tg::matmul(t[0], t[1]); });
  }
  struct Heads {
    const char* name;
    std::int64_t heads, length, width;
  };
  for (const Heads& size : {Heads{"W1_heads", 48, 64, 32}, Heads{"W2_heads", 96, 256, 64}}) {
    const Shape q{size.heads, size.length, size.width}, scores{size.heads, size.length, size.length};
    const double flops = 2 * numel(scores) * static_cast<double>(size.width);
    const double floats = 2 * numel(q) + numel(scores);
    const Work forward{.bytes = 4 * floats, .flops = flops}, both{.bytes = 12 * floats, .flops = 3 * flops};
    add(rows, std::string("matmul_scores/") + size.name, forward, both, {q, q},
        [](const Tensors& t) { return tg::matmul(t[0], t[1].transpose(-2, -1)); });
    add(rows, std::string("matmul_values/") + size.name, forward, both, {scores, q},
        [](const Tensors& t) { return tg::matmul(t[0], t[1]); });
  }
}

/// Two products forward and four backward over the pairs that a causal mask shows; q, k, v read and the output written,
/// backward those and g read and three gradients written.
void add_attention(Rows& rows) {
  for (const auto& [size, shape] :
       {std::pair{"W1", Shape{12, 4, 64, 32}}, {"W2", Shape{16, 6, 256, 64}}, {"T1024", Shape{1, 8, 1024, 64}}}) {
    const double n = numel(shape), product = n * static_cast<double>(shape[2] + 1);  // 2 H T (T + 1) / 2 D
    add(rows, std::string("attention_causal/") + size, {.bytes = 16 * n, .flops = 2 * product},
        {.bytes = 48 * n, .flops = 6 * product}, {shape, shape, shape}, [](const Tensors& x) {
          return tg::nn::scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .need_weights = false})
              .output;
        });
  }
}

/// The shapes of a language model's parameters, without biases and with its head tied to the embedding.
std::vector<Shape> parameter_shapes(std::int64_t layers, std::int64_t width, std::int64_t context) {
  std::vector<Shape> shapes = {{65, width}, {context, width}, {width}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (int i = 0; i < 4; ++i) shapes.push_back({width, width});
    shapes.insert(shapes.end(), {{width}, {width}, {4 * width, width}, {width, 4 * width}});
  }
  return shapes;
}

/// AdamW reads parameter, gradient and two moments and writes all but the gradient; clipping reads for the norm, and
/// reads and writes to scale.
void add_optimizer(Rows& rows) {
  for (const auto& [size, shapes] :
       {std::pair{"W1", parameter_shapes(4, 128, 64)}, {"W2", parameter_shapes(6, 384, 256)}}) {
    double n = 0;
    for (const Shape& shape : shapes) n += numel(shape);
    const auto parameters = [shapes = shapes] {
      const Tensors leaves = random_leaves(shapes);
      for (const Tensor& leaf : leaves) leaf.set_grad(tg::randn(leaf.shape()));
      return leaves;
    };
    rows.push_back({std::string("adamw/") + size, moving(7 * n, Pass::in_place), [parameters] {
                      const auto optimizer = std::make_shared<tg::optim::AdamW>(parameters());
                      return [optimizer] { optimizer->step(); };
                    }});
    rows.push_back({std::string("clip_grad_norm/") + size, moving(3 * n),
                    [parameters] { return [leaves = parameters()] { tg::optim::clip_grad_norm(leaves, 1.0); }; }});
  }
}

void run(benchmark::State& state, const Row& row, const bench::Floors& floors) {
  const int threads = static_cast<int>(state.range(0));
  tg::set_num_threads(threads);
  const auto work = row.prepare();
  work();
  std::vector<double> times;
  for (auto _ : state) {
    const double start = bench::now_ms();
    work();
    times.push_back(bench::now_ms() - start);
  }
  std::sort(times.begin(), times.end());
  const double floor = floors.ms(row.work, threads);
  state.counters["floor_ms"] = floor;
  state.counters["median_ms"] = times[times.size() / 2];
  state.counters["of_floor"] = floor / times[times.size() / 2];
  state.counters["quiet_of_floor"] = floor / times.front();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  std::string defaults[] = {"--benchmark_counters_tabular=true", "--benchmark_min_time=0.1"};
  for (std::string& option : defaults) arguments.insert(arguments.begin() + 1, option.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;

  Rows rows;
  add_elementwise(rows);
  add_rowwise(rows);
  add_by_index(rows);
  add_reductions_and_copies(rows);
  add_products(rows);
  add_attention(rows);
  add_optimizer(rows);
  const bench::Floors floors;
  floors.print();
  for (const Row& row : rows)
    benchmark::RegisterBenchmark(row.name.c_str(), [&](benchmark::State& state) { run(state, row, floors); })
        ->ArgName("threads")
        ->DenseRange(1, bench::Floors::kMostThreads)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
