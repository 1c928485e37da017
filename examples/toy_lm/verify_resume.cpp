#include "verify_resume.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bad_input.hpp"
#include "interrupt.hpp"
#include "resume.hpp"
#include "settings.hpp"
#include "train_checks.hpp"

namespace toy_lm {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    path_ = (parent / "toy_lm-verify-XXXXXX").string();
    if (!error && !::mkdtemp(path_.data())) error.assign(errno, std::generic_category());
    if (error)
      throw BadInput(fmt::format("--verify-resume: there must be a folder for temporary files; {}; name one in TMPDIR",
                                 error.message()));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// `toy_lm train` in a process of its own, which ends when this one does or is asked to.
void train_elsewhere(std::vector<std::string> arguments, const InterruptGuard& interrupt) {
  arguments.insert(arguments.begin(), {"toy_lm", "train", "--part-of-proof"});
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::fflush(stdout);
  const pid_t parent = ::getpid(), process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) ::execv("/proc/self/exe", pointers.data());
    ::_exit(127);
  }
  if (process < 0)
    throw std::runtime_error(fmt::format("verify-resume: no process could be started; {}", std::strerror(errno)));
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (interrupt.requested()) ::kill(process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  interrupt.heed();
  if (status != 0) throw std::runtime_error("verify-resume: the run above did not get to its end");
}

/// The arguments of the same run, but for its steps and its folder.
std::vector<std::string> arguments_of(TrainOptions options, std::int64_t steps, const std::string& out,
                                      std::optional<int> threads) {
  if (options.schedule_steps == 0) options.schedule_steps = options.steps;
  options.steps = steps;
  std::vector<std::string> arguments = {"--out=" + out};
  for (const auto& [option, value] : written_settings(options))
    if (counts(option, options)) arguments.push_back(option + "=" + value);
  for (const std::string& text : options.text) arguments.push_back("--text=" + text);
  if (threads) arguments.push_back(fmt::format("--threads={}", *threads));
  return arguments;
}

bool same_bits(const tg::core::Array& a, const tg::core::Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.storage()->data(), b.storage()->data(),
                     static_cast<std::size_t>(a.numel() * tg::size_of(a.dtype()))) == 0;
}

/// The lines of metrics.csv without their last column, the speed.
std::string metrics(const std::string& folder) {
  std::ifstream file(folder + "/metrics.csv");
  std::string result;
  for (std::string line; std::getline(file, line);) result += line.substr(0, line.rfind(',')) + "\n";
  return result;
}

/// Prints what is equal; std::runtime_error if something is not.
void compare(const std::string& whole, const std::string& parts, std::int64_t first, std::int64_t second) {
  std::vector<std::string> differing;
  std::int64_t bytes = 0;
  const tg::StateDict a = tg::load_safetensors(checkpoint_path(whole)),
                      b = tg::load_safetensors(checkpoint_path(parts));
  for (const auto& [name, tensor] : a) {
    const tg::Tensor* other = b.find(name);
    if (!other || !same_bits(tensor.array(), other->array())) differing.push_back(name);
    bytes += tensor.numel() * tg::size_of(tensor.dtype());
  }
  if (a.size() != b.size()) differing.push_back("how many tensors the checkpoint has");
  if (metrics(whole) != metrics(parts)) differing.push_back("metrics.csv");
  if (!differing.empty())
    throw std::runtime_error(
        fmt::format("verify-resume: {} steps and {} + {} in two processes must end in the same "
                    "bits; these differ: {}",
                    first + second, first, second, fmt::join(differing, ", ")));
  fmt::print(
      "verify-resume: {} steps and {} + {} in two processes end in the same bits: {} tensors of {} bytes "
      "(parameters, optimizer, schedule, random state), and metrics.csv\n",
      first + second, first, second, a.size(), bytes);
}

}  // namespace

void verify_resume(const TrainOptions& options, std::optional<int> threads) {
  check(options);
  if (options.steps < 2)
    throw BadInput(fmt::format("--steps: must be at least 2 for --verify-resume; got {}", options.steps));
  load_corpus(options);            // what is wrong with it is told here, once
  const InterruptGuard interrupt;  // those runs are interrupted too
  const TemporaryFolder folder;
  const std::string whole = folder.path("whole"), parts = folder.path("parts");
  const std::int64_t first = options.steps / 2;
  const auto run = [&](const std::string& what, const std::vector<std::string>& arguments) {
    fmt::print("verify-resume: {}\n", what);
    train_elsewhere(arguments, interrupt);
  };
  run(fmt::format("{} steps", options.steps), arguments_of(options, options.steps, whole, threads));
  run(fmt::format("the first {} steps", first), arguments_of(options, first, parts, threads));
  run(fmt::format("the other {} steps", options.steps - first),
      {"--resume=" + parts, fmt::format("--steps={}", options.steps)});
  compare(whole, parts, first, options.steps - first);
}

}  // namespace toy_lm
