// What a browser sees in a page.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace toy_lm {

constexpr const char* kNoBrowser = "no chromium here: install it (Debian: apt-get install chromium) to test the page";

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Exit code of commands in a folder; the output is in its files "stdout" and "stderr".
inline int run_in(const std::string& folder, const std::string& command) {
  const int status =
      std::system(("cd '" + folder + "' && { " + command + "; } > stdout 2> stderr < /dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// What `script`, statements that end in `const result = ...;`, finds in the page at the place that the hash says; null
/// if there is no browser. `window` is its width and height. Leaves files in the folder.
inline nlohmann::json seen_by_browser(const std::string& folder, const std::string& page, const std::string& hash,
                                      const std::string& script, const std::string& window = "1280,900") {
  if (run_in(folder, "command -v chromium || command -v chromium-browser || command -v google-chrome") != 0)
    return nullptr;
  std::string browser = read_bytes(folder + "/stdout");
  browser.pop_back();
  std::ofstream(folder + "/probed.html", std::ios::binary)
      << read_bytes(page) << "<pre id=\"probe\"></pre><script>" << script << R"(
      const bytes = new TextEncoder().encode(JSON.stringify(result));
      document.getElementById('probe').textContent = '@@' + [...bytes].map(b => b.toString(16).padStart(2, '0')).join('') + '@@';
    </script>)";
  EXPECT_EQ(run_in(folder, "timeout 120 '" + browser +
                               "' --headless --no-sandbox --disable-gpu --user-data-dir=profile "
                               "--virtual-time-budget=5000 --window-size=" +
                               window + " --dump-dom 'file://" + folder + "/probed.html#" + hash + "'"),
            0)
      << read_bytes(folder + "/stderr");
  const std::string dom = read_bytes(folder + "/stdout");
  const std::size_t begin = dom.find(">@@"), end = dom.find("@@<", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    ADD_FAILURE() << "the script of the page failed:\n" << read_bytes(folder + "/stderr");
    return nlohmann::json::object();
  }
  std::string text;
  for (std::size_t i = begin + 3; i < end; i += 2) text += static_cast<char>(std::stoi(dom.substr(i, 2), nullptr, 16));
  return nlohmann::json::parse(text);
}

}  // namespace toy_lm
