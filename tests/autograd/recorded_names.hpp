// The names of all operations that the library records, read from its sources.
#pragma once
#include <set>
#include <string>

namespace tapegrad::table {

/// First arguments of `record` in autograd/ and nn/, and of functions that hand their first argument on to it.
std::set<std::string> recorded_names();

}  // namespace tapegrad::table
