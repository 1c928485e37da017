// One training step of the toy language model at two sizes, on random tokens: milliseconds (median, quietest), peak
// memory of the process, and how often the system was asked for memory in the timed steps. A line of JSON, like
// peers/gpt_torch.py.
//   training w1|w2 [rounds] [profile]
//   training generate [rounds]
// `generate`: microseconds for one token of the model of w1 with its cache, as text grows up to the context, and for a
// prompt of half of it. With `profile`, ten more steps are timed by operation and module, in a table on the standard
// error.
#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include <tapegrad/tapegrad.hpp>

#include "timing.hpp"
#include "toy_lm/model.hpp"

namespace tg = tapegrad;

namespace {

struct Workload {
  toy_lm::GptConfig model;
  std::int64_t batch;
};

void measure(std::string_view name, const Workload& workload, int rounds, bool with_profile) {
  tg::manual_seed(1337);
  toy_lm::Gpt model(workload.model);
  const tg::Tensors parameters = model.parameters();
  tg::optim::AdamW optimizer(parameters, {.lr = 1e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1});
  double loss_value = 0;
  const auto step = [&] {
    const tg::Shape shape{workload.batch, workload.model.context};
    const tg::Tensor loss =
        model.loss(tg::randint(0, workload.model.vocabulary, shape), tg::randint(0, workload.model.vocabulary, shape));
    optimizer.zero_grad();
    loss.backward();
    tg::optim::clip_grad_norm(parameters, 1.0);
    optimizer.step();
    loss_value = loss.item();
  };
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t asked = tg::memory::system_allocations();
  const auto times = bench::repeat(step, rounds, 0);
  fmt::print(
      R"({{"w": "{}", "threads": {}, "median": {:.3f}, "min": {:.3f}, "rss_mb": {:.1f}, "system_allocations": {}, "loss": {:.4f}}})"
      "\n",
      name, tg::num_threads(), times.median_ms, times.min_ms, bench::peak_memory_mb(),
      tg::memory::system_allocations() - asked, loss_value);
  if (!with_profile) return;
  const tg::autograd::profile profile;
  for (int i = 0; i < 10; ++i) step();
  fmt::print(stderr, "{}", profile.table());
}

/// One round is a text from an empty cache to the full context.
void measure_generation(int rounds) {
  tg::manual_seed(1337);
  const tg::NoGradGuard no_grad;
  toy_lm::Gpt model({.vocabulary = 65});
  model.eval();
  const std::int64_t context = model.config().context;
  const tg::Tensor token = tg::zeros({1, 1}, tg::int64), prompt = tg::zeros({1, context / 2}, tg::int64);
  std::vector<toy_lm::nn::KVCache> caches(static_cast<std::size_t>(model.config().layers),
                                          toy_lm::nn::KVCache(context));
  const auto start = [&] {
    for (auto& cache : caches) cache.reset();
  };
  const auto tokens = bench::repeat(
      [&] {
        start();
        for (std::int64_t i = 0; i < context; ++i) model.next(token, caches);
      },
      rounds, 0);
  const auto prefill = bench::repeat([&] { start(), model.next(prompt, caches); }, rounds, 0);
  const double per_token = 1e3 / static_cast<double>(context);
  fmt::print(
      R"({{"w": "generate", "threads": {}, "us_per_token": {:.1f}, "min_us_per_token": {:.1f}, "us_prompt_of_{}": {:.1f}}})"
      "\n",
      tg::num_threads(), tokens.median_ms * per_token, tokens.min_ms * per_token, context / 2, prefill.median_ms * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 0;
  const bool with_profile = argc > 3 && argv[3] == std::string_view("profile");
  if (name == "w1")
    measure(name, {{.vocabulary = 65}, 12}, rounds > 0 ? rounds : 150, with_profile);
  else if (name == "w2")
    measure(name, {{.vocabulary = 65, .context = 256, .layers = 6, .heads = 6, .width = 384}, 16},
            rounds > 0 ? rounds : 5, with_profile);
  else if (name == "generate")
    measure_generation(rounds > 0 ? rounds : 100);
  else
    return fmt::print(stderr, "usage: training w1|w2 [rounds] [profile] | generate [rounds]\n"), 2;
}
