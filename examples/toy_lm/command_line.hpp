// The command line: options, their defaults and their help.
#pragma once
#include <functional>

namespace toy_lm {

/// What the command line asks for; empty if it was only --help. BadInput if it makes no sense.
std::function<void()> parse_command_line(int argc, char** argv);

}  // namespace toy_lm
